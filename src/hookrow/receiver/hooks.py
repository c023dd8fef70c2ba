"""Hooks: functions of the host that are called after a notification was recorded or refused."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable, isclass
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from hookrow.concurrency import close_at_exit, reset_after_fork
from hookrow.core.log_entry import memory_size
from hookrow.core.notification import Arrival, Outcome, Recorded, Refused
from hookrow.errors import ConfigurationError
from hookrow.receiver.batch import BatchWriter, QueueFull

if TYPE_CHECKING:
    from hookrow.receiver.event_loop import EventLoop

Hook: TypeAlias = Callable[[Arrival, Any], object]
"""Called with an arrival and its outcome; it may be async, or return any awaitable."""

log = logging.getLogger("hookrow")

BACKLOG = 10_000
"""The largest number of calls that wait; further calls are dropped."""

SLOW = 30.0
"""In seconds; the next call logs a warning if the current one takes longer."""

_NAMES: Mapping[type[Outcome], str] = {Recorded: "on_recorded", Refused: "on_refused"}


class Hooks:
    """Calls the hook for each type of outcome in a separate thread, one call at a time.

    If a hook returns an awaitable, such as a coroutine, the awaitable runs in an event loop that
    has its own thread, and the next call waits for it. The loop runs from the first awaitable
    until `close`, so that hooks can keep clients that depend on it.

    Exceptions that hooks raise are logged, and calls are dropped if hooks are too slow. Neither
    affects a response.

    Raises `ConfigurationError` if a hook is not a function.
    """

    _current: tuple[str, float] | None  # the name of the hook, and when the call began
    _event_loop: EventLoop | None

    def __init__(self, hooks: Mapping[type[Outcome], Hook]) -> None:
        self._hooks = hooks
        for kind, hook in hooks.items():
            _check(hook, _NAMES[kind])
        self._calls: BatchWriter[tuple[Arrival, Outcome], None] = BatchWriter(
            self._call,
            fallback=lambda _: None,
            deadline=SLOW,
            group=1,
            backlog=BACKLOG,
            size=lambda call: memory_size(call[0]),
            name="hooks",
        )
        self.closed = False
        self.reset()
        reset_after_fork(self)
        close_at_exit(self)

    def __call__(self, arrival: Arrival, outcome: Outcome) -> None:
        """Queue a call of the hook for an outcome. Never raises and never waits."""
        if type(outcome) not in self._hooks:
            return
        try:
            self._calls.put((arrival, outcome))
        except QueueFull:
            log.warning("The hooks are too slow, or closed: calls are dropped.")
        current = self._current
        if current is not None and monotonic() - current[1] > SLOW:
            self._current = None
            log.warning(f"A call to {current[0]} has taken more than %s s.", SLOW)

    def close(self, timeout: float | None = None) -> None:
        """Accept no more calls, and wait up to `timeout` seconds for the queued ones.

        Then drop the rest, and close the event loop: it cancels the awaitable of the current call
        and all tasks that hooks have started, and waits for them up to `timeout` seconds.
        """
        self.closed = True
        self._calls.close(timeout)
        if rest := self._calls.take_rest():
            log.warning("Stopped before all hooks had ended; dropped calls: %d.", len(rest))
        if self._event_loop is not None:
            self._event_loop.close(timeout)

    def reset(self) -> None:
        """Return to the state after construction: no current call, and no event loop."""
        self._current = None
        self._event_loop = None

    def _call(self, calls: Sequence[tuple[Arrival, Outcome]]) -> Sequence[None]:
        [(arrival, outcome)] = calls
        name = _NAMES[type(outcome)]
        self._current = name, monotonic()
        try:
            result = self._hooks[type(outcome)](arrival, outcome)
            if isawaitable(result):
                self._await(result)
        except BaseException as error:  # noqa: BLE001 - the host's function may raise SystemExit
            # Without a traceback, which may quote the notification.
            log.error(f"{name} raised %s.", type(error).__name__)
        finally:
            self._current = None
        return [None]

    def _await(self, awaitable: Awaitable[object]) -> None:
        """Run an awaitable in the event loop, and wait for it. The first one starts the loop."""
        if self._event_loop is None:
            from hookrow.receiver.event_loop import EventLoop  # noqa: PLC0415 - loads asyncio

            self._event_loop = EventLoop()
        self._event_loop.run(awaitable)


def _check(hook: object, name: str) -> None:
    """Raise `ConfigurationError` for a hook that is not a function."""
    if not callable(hook) or isclass(hook):
        raise ConfigurationError(f"{name} must be a function, not {hook!r:.80}.")
