"""Hooks: functions of the host that are called after a notification was recorded or refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from inspect import (
    isasyncgen,
    isasyncgenfunction,
    isawaitable,
    iscoroutine,
    iscoroutinefunction,
)
from time import monotonic
from typing import Any, Generic, TypeVar

from hookrow.core.log_entry import held_size
from hookrow.core.notification import Arrival, Outcome
from hookrow.errors import ConfigurationError
from hookrow.receiver.batch import BatchWriter, QueueFull

log = logging.getLogger("hookrow")

BACKLOG = 10_000
"""The largest number of calls that wait for a hook; further calls are dropped."""

SLOW = 30.0
"""In seconds; the next call logs a warning if the current one takes longer."""

_ADVICE = (
    "Pass a plain function. To run a coroutine on an event loop of yours, call "
    "asyncio.run_coroutine_threadsafe(coroutine, loop) in it and return None."
)

OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class Hook(Generic[OutcomeT]):
    """Calls a function in a separate thread, one call after the other.

    Exceptions of the function are logged, and calls are dropped if it is too slow. Neither
    affects a response.

    Raises `ConfigurationError` for an async function. If any other function returns an awaitable
    or an async generator, which nothing would await, this is logged as an error.
    """

    def __init__(self, function: Callable[[Arrival, OutcomeT], object], name: str) -> None:
        if _is_async(function):
            raise ConfigurationError(
                f"{name} is an async function and would never run: hooks are called in a "
                f"thread that has no event loop. {_ADVICE}"
            )
        self._function = function
        self._name = name
        self._calls: BatchWriter[tuple[Arrival, OutcomeT], None] = BatchWriter(
            self._call,
            fallback=lambda _: None,
            deadline=SLOW,
            group=1,
            backlog=BACKLOG,
            size=lambda call: held_size(call[0]),
            name=name,
        )
        self._began: float | None = None

    def __call__(self, arrival: Arrival, outcome: OutcomeT) -> None:
        """Queue a call of the function. Never raises and never waits."""
        try:
            self._calls.put((arrival, outcome))
        except QueueFull:
            log.warning(f"{self._name} is too slow, or closed: calls are dropped.")
        began = self._began
        if began is not None and monotonic() - began > SLOW:
            self._began = None
            log.warning(f"A call of {self._name} takes more than %s s.", SLOW)

    def close(self, timeout: float | None = None) -> None:
        """Accept no more calls; wait up to `timeout` seconds for the queued ones."""
        self._calls.close(timeout)

    def _call(self, calls: Sequence[tuple[Arrival, OutcomeT]]) -> Sequence[None]:
        [(arrival, outcome)] = calls
        self._began = monotonic()
        try:
            self._check(self._function(arrival, outcome))
        except BaseException as error:  # noqa: BLE001 - the host's function may raise SystemExit
            # Without a traceback, which may quote the notification.
            log.error(f"{self._name} raised %s.", type(error).__name__)
        finally:
            self._began = None
        return [None]

    def _check(self, result: object) -> None:
        """Log an async result, such as a coroutine, because nothing awaits it."""
        if not (isawaitable(result) or isasyncgen(result)):
            return
        if iscoroutine(result):
            result.close()  # otherwise Python warns that it was never awaited
        log.error(
            f"%s returned an async result (%s), which hookrow does not await. {_ADVICE}",
            self._name,
            type(result).__name__,
        )


def _is_async(function: Callable[..., object]) -> bool:
    """Return whether a function is async; a wrapper that runs a coroutine itself is not."""
    while isinstance(function, partial):
        function = function.func
    inner: Any = function
    return any(
        is_async(each)
        for each in (inner, inner.__call__)  # an instance's `__call__` may be async
        for is_async in (iscoroutinefunction, isasyncgenfunction)
    )
