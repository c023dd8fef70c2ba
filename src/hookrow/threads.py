"""Threads of our own for calls that may wait: few, and none that holds up the exit of the process.

An event loop's own executor is the host's: whoever fills it stops the host's work, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from hookrow.concurrency import reset_after_fork
from hookrow.deadline import Deadline
from hookrow.promise import Promise


class Threads:
    """Makes calls in `most` threads at a time, which start with a call and end when none waits.

    Each has `seconds`, its wait for a thread among them; then its promise ends with what
    it has for that case. What was begun goes on, and what was not is never begun.
    """

    _lock: Lock
    _waiting: deque[tuple[Callable[[], Any], Promise[Any]]]
    _running: int

    def __init__(self, most: int, *, seconds: float) -> None:
        self._most = most
        self._deadline = Deadline[Any](seconds)
        self.reset()
        reset_after_fork(self)

    def submit(
        self, call: Callable[[], Any], *, late: object, request_id: str = ""
    ) -> Promise[Any]:
        """Have it called; the promise ends with what it returns or raises, or else with `late`.

        Then the log names the request, where it is given.
        """
        promise: Promise[Any] = Promise()
        with self._lock:
            self._waiting.append((call, promise))
            if self._running < self._most:
                # Where the system has no thread to give, the next one that comes starts it.
                with suppress(RuntimeError):
                    Thread(target=self._run, name="hookrow-call", daemon=True).start()
                    self._running += 1
        return self._deadline.watch(promise, late=late, request_id=request_id)

    def reset(self) -> None:
        """Begin anew: nothing waits, no thread."""
        self._lock = Lock()
        self._waiting = deque()
        self._running = 0

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            _make(*waiting)

    def _next(self) -> tuple[Callable[[], Any], Promise[Any]] | None:
        """Take the call that waits longest and is not late yet, or None to end the thread."""
        with self._lock:
            while self._waiting:
                waiting = self._waiting.popleft()
                if not waiting[1].done():
                    return waiting
            self._running -= 1
            return None


def _make(call: Callable[[], Any], promise: Promise[Any]) -> None:
    try:
        promise.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it belongs to who waits
        promise.set_exception(error)
