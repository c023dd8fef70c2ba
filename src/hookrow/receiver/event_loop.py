"""The event loop of hooks, in a separate thread. Only a hook that needs it loads asyncio."""

from __future__ import annotations

from asyncio import Runner, new_event_loop, run_coroutine_threadsafe
from collections.abc import Awaitable
from contextlib import suppress
from threading import Thread

from hookrow.concurrency import close_thread_connections


class EventLoop:
    """An event loop that runs in a separate thread until `close`.

    It also runs while no awaitable waits for it: clients keep their connections alive in it, and
    learn that a server has closed one.
    """

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = Thread(target=self._run, name="hookrow-event-loop", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[object]) -> None:
        """Run an awaitable, and wait for its end. Raises any exception that it raises."""
        error = run_coroutine_threadsafe(_catch(awaitable), self._loop).result()
        if error is not None:
            raise error

    def close(self, timeout: float | None = None) -> None:
        """Cancel all tasks and close the loop, as `asyncio.run` does at its end.

        Waits up to `timeout` seconds for tasks that do not end immediately.
        """
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)

    def _run(self) -> None:
        with Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()
        close_thread_connections()


async def _catch(awaitable: Awaitable[object]) -> BaseException | None:
    """Return the exception of an awaitable: a SystemExit of a task would end its loop."""
    try:
        await awaitable
    except BaseException as error:  # noqa: BLE001 - of the host
        return error
    return None
