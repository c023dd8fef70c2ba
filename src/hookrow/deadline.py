"""A deadline on futures: one thread ends those that take too long with a given result."""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Generic, TypeVar

from hookrow.forks import renew_after_fork

R = TypeVar("R")

log = logging.getLogger("hookrow")

SILENCE = 10.0
"""In seconds; how long nothing more is logged after it was logged that the time is over."""


class Deadline(Generic[R]):
    """Gives a future `seconds` to end; then it ends with the result `late`.

    All have the same time, so the oldest is always the first that is due. The
    thread starts with the first future and ends when none is left.
    """

    _lock: Lock
    _watched: deque[tuple[float, Future[R]]]
    _running: bool

    def __init__(self, seconds: float, late: R) -> None:
        self._seconds = seconds
        self._late = late
        self._silent_until = 0.0
        self.renew()
        renew_after_fork(self)

    def watch(self, future: Future[R]) -> Future[R]:
        """Put the future under the deadline, from now on; return it."""
        with self._lock:
            self._drop_ended()
            self._watched.append((monotonic() + self._seconds, future))
            if not self._running:
                # Where the system has no thread to give, the next one that comes starts it.
                with suppress(RuntimeError):
                    Thread(target=self._run, name="hookrow-deadline", daemon=True).start()
                    self._running = True
        return future

    def renew(self) -> None:
        """Begin anew: nothing watched, no thread."""
        self._lock = Lock()
        self._watched = deque()
        self._running = False

    def _run(self) -> None:
        while (due := self._next()) is not None:
            sleep(max(0.0, due - monotonic()))
            overdue = self._overdue()
            for future in overdue:
                with suppress(InvalidStateError):
                    future.set_result(self._late)
            if overdue and monotonic() > self._silent_until:
                self._silent_until = monotonic() + SILENCE
                log.warning("Not done within %s s: whoever waits is told so.", self._seconds)

    def _next(self) -> float | None:
        """Return when the oldest is due, or None to end the thread: none is left."""
        with self._lock:
            self._drop_ended()
            self._running = bool(self._watched)
            return self._watched[0][0] if self._watched else None

    def _overdue(self) -> list[Future[R]]:
        now = monotonic()
        overdue = []
        with self._lock:
            while self._watched and self._watched[0][0] <= now:
                overdue.append(self._watched.popleft()[1])
        return overdue

    def _drop_ended(self) -> None:
        while self._watched and self._watched[0][1].done():
            self._watched.popleft()
