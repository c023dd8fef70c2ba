"""Notifications that wait for locked rows, while all others are recorded.

A transaction that waits for one lock while it holds another may deadlock with a transaction of the
host, which PostgreSQL may abort. Therefore, nothing is held between two attempts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import uniform
from threading import Lock, Thread, current_thread
from time import monotonic, sleep
from typing import NamedTuple

from hookrow.concurrency import close_at_exit, close_thread_connections, reset_after_fork
from hookrow.core.log_entry import memory_size
from hookrow.core.notification import Arrival
from hookrow.core.sizes import TEXT_PER_BYTE, leading
from hookrow.http import Response
from hookrow.observability.logging import describe_bug

PAUSE = 0.05
"""In seconds; the average pause between two attempts."""

GROUP = 64
"""The largest number of notifications in an attempt."""

MOST, CAPACITY = 1024, 16 * 1024**2
"""The largest number of notifications that wait, and their largest total size in bytes."""

Reply = Callable[[Response], object]

log = logging.getLogger("hookrow")


class _Waiting(NamedTuple):
    arrival: Arrival
    reply: Reply
    until: float
    """The time of the last attempt, on the clock of `monotonic`."""


class LockedRows:
    """Records notifications whose rows are locked as soon as they are not, in a thread.

    `resume` attempts to record arrivals and returns their responses, or None for those whose rows
    are still locked; `give_up` returns the responses to those that have waited for `seconds`. The
    thread exists only while notifications wait.
    """

    _waiting: list[_Waiting]
    _thread: Thread | None

    def __init__(
        self,
        resume: Callable[[Sequence[Arrival]], Sequence[Response | None]],
        give_up: Callable[[Sequence[Arrival]], Sequence[Response]],
        *,
        seconds: float,
    ) -> None:
        self._resume, self._give_up, self._seconds = resume, give_up, seconds
        self.closed = False
        self.reset()
        reset_after_fork(self)
        close_at_exit(self)

    def add(self, arrivals: Sequence[tuple[Arrival, Reply]]) -> None:
        """Let arrivals wait, each with the callback for its response.

        If too many wait, or if no thread can be started, they are given up at once.
        """
        until = monotonic() + self._seconds
        added = [_Waiting(arrival, reply, until) for arrival, reply in arrivals]
        with self._lock:
            is_accepted = not self.closed and _fit([*self._waiting, *added])
            if is_accepted and self._thread is None:
                is_accepted = self._start()
            if is_accepted:
                self._waiting += added
        if not is_accepted:
            self._end(added)

    def close(self, timeout: float | None = None) -> None:
        """Give up the notifications that wait; wait up to `timeout` seconds for this."""
        self.closed = True
        if (thread := self._thread) is not None and thread is not current_thread():
            thread.join(timeout)

    def reset(self) -> None:
        """Return to the state after construction: nothing waits, and there is no thread."""
        self._lock = Lock()
        self._waiting = []
        self._thread = None

    def _start(self) -> bool:
        thread = Thread(target=self._run, name="hookrow-locked", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system cannot start another thread
            return False
        self._thread = thread
        return True

    def _run(self) -> None:
        try:
            while self._attempt():
                sleep(PAUSE * uniform(0.5, 1.5))  # noqa: S311 - not cryptographic
        finally:
            close_thread_connections()

    def _attempt(self) -> bool:
        """Attempt to record what waits; end the thread and return False if nothing does."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if not waiting:
                self._thread = None
                return False
        now = monotonic()
        self._end([each for each in waiting if self.closed or now > each.until])
        rest = [each for each in waiting if not self.closed and now <= each.until]
        again: list[_Waiting] = []
        while group := leading(rest, _text_size, most=GROUP):
            again += self._resume_group(group)
            rest = rest[len(group) :]
        with self._lock:
            self._waiting = [*again, *self._waiting]
        return True

    def _resume_group(self, group: Sequence[_Waiting]) -> list[_Waiting]:
        """Attempt to record a group; return those whose rows are still locked."""
        try:
            responses = self._resume([each.arrival for each in group])
        except BaseException as error:  # noqa: BLE001 - it must not end the thread
            log.error("A group failed: %s", describe_bug(error))
            self._end(group)
            return []
        again: list[_Waiting] = []
        for each, response in zip(group, responses, strict=True):
            if response is None:
                again.append(each)
            else:
                each.reply(response)
        return again

    def _end(self, waiting: Sequence[_Waiting]) -> None:
        if waiting:
            responses = self._give_up([each.arrival for each in waiting])
            for each, response in zip(waiting, responses, strict=True):
                each.reply(response)


def _text_size(waiting: _Waiting) -> int:
    return TEXT_PER_BYTE * len(waiting.arrival.body)


def _fit(waiting: Sequence[_Waiting]) -> bool:
    size = sum(memory_size(each.arrival) for each in waiting)
    return len(waiting) <= MOST and size <= CAPACITY
