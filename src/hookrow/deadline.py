"""A deadline on promises: one thread ends those that take too long with a given result."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Generic, TypeVar

from hookrow.concurrency import reset_after_fork
from hookrow.promise import Promise

log = logging.getLogger("hookrow")

R = TypeVar("R")


class Deadline(Generic[R]):
    """Gives a promise `seconds` to end; then it ends with a result that says it was late.

    All have the same time, so the oldest is always the first that is due. The
    thread starts with the first promise and ends when none is left. `told` hears of each
    that was late; it never raises. With `logged=False` there is no log line about it.
    """

    _lock: Lock
    _watched: deque[tuple[float, Promise[R], R, str]]
    _running: bool

    def __init__(
        self, seconds: float, told: Callable[[], object] = lambda: None, *, logged: bool = True
    ) -> None:
        self._seconds = seconds
        self._told = told
        self._logged = logged
        self.reset()
        reset_after_fork(self)

    def watch(self, promise: Promise[R], *, late: R, request_id: str = "") -> Promise[R]:
        """Put the promise under the deadline, from now on, with the result that it has then.

        The log names the request that it answers, where it is given.
        """
        with self._lock:
            self._drop_ended()
            self._watched.append((monotonic() + self._seconds, promise, late, request_id))
            if not self._running:
                # Where the system has no thread to give, the next one that comes starts it.
                with suppress(RuntimeError):
                    Thread(target=self._run, name="hookrow-deadline", daemon=True).start()
                    self._running = True
        return promise

    def reset(self) -> None:
        """Begin anew: nothing watched, no thread."""
        self._lock = Lock()
        self._watched = deque()
        self._running = False

    def _run(self) -> None:
        while (due := self._next()) is not None:
            sleep(max(0.0, due - monotonic()))
            overdue = self._overdue()
            for promise, late, request_id in overdue:
                if promise.set_result(late):
                    self._told()
                    if self._logged:
                        self._log(request_id)

    def _log(self, request_id: str) -> None:
        log.warning(
            "Not done within %s s: who waits is told so%s.",
            self._seconds,
            f", request {request_id}" if request_id else "",
            extra={"request_id": request_id},
        )

    def _next(self) -> float | None:
        """Return when the oldest is due, or None to end the thread: none is left."""
        with self._lock:
            self._drop_ended()
            self._running = bool(self._watched)
            return self._watched[0][0] if self._watched else None

    def _overdue(self) -> list[tuple[Promise[R], R, str]]:
        now = monotonic()
        overdue = []
        with self._lock:
            while self._watched and self._watched[0][0] <= now:
                overdue.append(self._watched.popleft()[1:])
        return overdue

    def _drop_ended(self) -> None:
        while self._watched and self._watched[0][1].done():
            self._watched.popleft()
