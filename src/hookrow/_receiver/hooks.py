"""Hooks: functions of the host that are called after a notification was recorded or refused."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable
from threading import Thread
from time import monotonic
from typing import Any, TypeAlias

from hookrow._arguments import name_of, several
from hookrow._concurrency import close_at_exit, close_thread_connections, reset_after_fork
from hookrow._core.log_entry import memory_size
from hookrow._core.notification import Arrival, Outcome, Recorded, Refused
from hookrow._faults import describe_fault, log_fault
from hookrow._receiver.batch import BatchWriter, QueueFull

Hook: TypeAlias = Callable[[Arrival, Any], object]
"""Called with an arrival and its outcome; it may be async, or return any awaitable."""

SomeHooks: TypeAlias = Hook | Sequence[Hook] | None
"""The hooks for one type of outcome, as a host passes them: a function, or a list of functions."""

_RecordedHook: TypeAlias = Callable[[Arrival, Recorded], object]
_RefusedHook: TypeAlias = Callable[[Arrival, Refused], object]

OnRecorded: TypeAlias = _RecordedHook | Sequence[_RecordedHook] | None
"""The hooks for notifications that were recorded."""

OnRefused: TypeAlias = _RefusedHook | Sequence[_RefusedHook] | None
"""The hooks for notifications that were refused."""

logger = logging.getLogger("hookrow")

MAX_CALLS = 10_000
"""The largest number of calls that wait; further calls are dropped."""

SLOW_CALL = 30.0
"""Seconds after which the next call logs a warning that the current one is slow."""

_HOOK_NAMES: Mapping[type[Outcome], str] = {Recorded: "on_recorded", Refused: "on_refused"}


class Hooks:
    """Calls the hooks for each type of outcome in a separate thread, one call at a time.

    Several hooks for one type are called in their order, each with every outcome. If a hook returns
    an awaitable, such as a coroutine, the awaitable runs in an event loop that has its own thread,
    and the next call waits for it. The loop runs from the first awaitable until `close`, so that
    hooks can keep clients that depend on it.

    Exceptions that hooks raise are logged, and calls are dropped if hooks are too slow. Neither
    affects a response or another hook.
    """

    _current: tuple[str, float] | None  # the name of the hook, and when the call began
    _event_loop: EventLoop | None

    def __init__(self, hooks: Mapping[type[Outcome], SomeHooks]) -> None:
        listed: Mapping[type[Outcome], Sequence[Hook]]
        listed = {kind: several(each) for kind, each in hooks.items()}
        self._hooks = {kind: each for kind, each in listed.items() if each}
        self._calls: BatchWriter[tuple[Arrival, Outcome], None] = BatchWriter(
            self._call,
            fallback=lambda _: None,
            group=1,
            backlog=MAX_CALLS,
            size=lambda call: memory_size(call[0]),
            name="hooks",
        )
        self.closed = False
        self.reset()
        reset_after_fork(self)
        close_at_exit(self)

    def __bool__(self) -> bool:
        """Return whether there is any hook."""
        return bool(self._hooks)

    def __call__(self, arrival: Arrival, outcome: Outcome) -> None:
        """Queue the calls of the hooks for an outcome. Never raises and never waits."""
        if type(outcome) not in self._hooks:
            return
        try:
            self._calls.put((arrival, outcome))
        except QueueFull:
            logger.warning("The hooks are too slow, or closed: calls are dropped.")
        current = self._current
        if current is not None and monotonic() - current[1] > SLOW_CALL:
            self._current = None
            logger.warning(f"A call to {current[0]} has taken more than %s s.", SLOW_CALL)

    def close(self, timeout: float | None = None) -> None:
        """Accept no more calls, and wait up to `timeout` seconds for the queued ones.

        Then drop the rest, and close the event loop: it cancels the awaitable of the current call
        and all tasks that hooks have started, and waits for them up to `timeout` seconds.
        """
        self.closed = True
        self._calls.close(timeout)
        if rest := self._calls.drain_queue():
            logger.warning("Stopped before all hooks had ended; dropped calls: %d.", len(rest))
        self._dropping = True
        if self._event_loop is not None:
            self._event_loop.close(timeout)

    def reset(self) -> None:
        """Return to the state after construction: no current call, and no event loop."""
        self._current = None
        self._dropping = False
        self._event_loop = None

    def _call(self, calls: Sequence[tuple[Arrival, Outcome]]) -> Sequence[None]:
        [(arrival, outcome)] = calls
        for hook in self._hooks[type(outcome)]:
            if not self._dropping:
                self._call_one(hook, arrival, outcome)
        return [None]

    def _call_one(self, hook: Hook, arrival: Arrival, outcome: Outcome) -> None:
        name = _HOOK_NAMES[type(outcome)]
        self._current = f"{name} ({name_of(hook)})", monotonic()
        try:
            result = hook(arrival, outcome)
            if isawaitable(result):
                self._await(result)
        except BaseException as error:  # noqa: BLE001 - the host's function may raise SystemExit
            # The template has the line, so that the rate limit does not drop another hook's.
            log_fault(error, f"{name} raised {describe_fault(error)}.")
        finally:
            self._current = None

    def _await(self, awaitable: Awaitable[object]) -> None:
        """Run an awaitable in the event loop, and wait for it. The first one starts the loop."""
        if self._event_loop is None:
            self._event_loop = EventLoop()
        self._event_loop.run(awaitable)


class EventLoop:
    """An event loop that runs in a separate thread until `close`.

    It also runs while no awaitable waits for it: clients keep their connections alive in it, and
    learn that a server has closed one. Only a hook that needs it loads asyncio.
    """

    def __init__(self) -> None:
        from asyncio import new_event_loop  # noqa: PLC0415 - see the class

        self._loop = new_event_loop()
        self._thread = Thread(target=self._run, name="hookrow-event-loop", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[object]) -> None:
        """Run an awaitable, and wait for its end. Raises any exception that it raises."""
        from asyncio import run_coroutine_threadsafe  # noqa: PLC0415 - see the class

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
        from asyncio import Runner  # noqa: PLC0415 - see the class

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
