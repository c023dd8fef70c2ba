"""Notifications that wait for locked rows, while all others are recorded.

A transaction that waits for one lock while it holds another may deadlock with a transaction of the
host, which PostgreSQL may abort. Therefore, nothing is held between two attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import uniform
from threading import Lock, Thread, current_thread
from time import monotonic, sleep
from typing import TypeAlias

from hookrow._concurrency import close_at_exit, close_thread_connections, reset_after_fork
from hookrow._core.log_entry import memory_size
from hookrow._core.notification import Arrival
from hookrow._core.sizes import leading, text_size
from hookrow._faults import describe_bug, log_fault
from hookrow._http import Response
from hookrow.stores._timeouts import STORE_DEADLINE, limited_to

LOCK_PAUSE = 0.05
"""Seconds between two attempts, on average."""

MAX_LOCKED_GROUP = 64
"""The largest number of notifications in an attempt."""

MAX_LOCKED = 1024
"""The largest number of notifications that wait."""

LOCKED_CAPACITY = 16 * 1024**2
"""The largest total size of the notifications that wait, in bytes."""

Reply: TypeAlias = Callable[[Response], object]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    arrival: Arrival
    reply: Reply
    until: float
    """The time of the last attempt, on the clock of `monotonic`."""
    deadline: float
    """The time at which the store must have ended, on the same clock; often infinity."""


class LockedRows:
    """Records notifications whose rows are locked as soon as they are not, in a thread.

    `resume` attempts to record arrivals and returns their responses, or None for those whose rows
    are still locked; `give_up` returns the responses to those that have waited for `seconds`, or
    that must have ended in `seconds_to_give_up`, because they were added within `limited_to`. That
    limit applies to both. If they raise an exception, the responses are those of `unavailable`. The
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
        seconds_to_give_up: float,
        unavailable: Callable[[Arrival], Response],
    ) -> None:
        self._resume = resume
        self._give_up = give_up
        self._seconds = seconds
        self._seconds_to_give_up = seconds_to_give_up
        self._unavailable = unavailable
        self.closed = False
        self.reset()
        reset_after_fork(self)
        close_at_exit(self)

    def add(self, arrivals: Sequence[tuple[Arrival, Reply]]) -> None:
        """Let arrivals wait, each with the callback for its response.

        If too many wait, or if no thread can be started, they are given up at once.
        """
        deadline = STORE_DEADLINE.get()
        until = min(monotonic() + self._seconds, deadline - self._seconds_to_give_up)
        added = [_Waiting(arrival, reply, until, deadline) for arrival, reply in arrivals]
        with self._lock:
            is_accepted = not self.closed and _fit([*self._waiting, *added])
            if is_accepted and self._thread is None:
                is_accepted = self._start()
            if is_accepted:
                self._waiting += added
        if not is_accepted:
            self._reply(self._give_up, added)

    def close(self, timeout: float | None = None) -> None:
        """Give up the notifications that wait; wait up to `timeout` seconds for this."""
        self.closed = True
        if (thread := self._thread) is not None and thread is not current_thread():
            thread.join(timeout)

    def drain_queue(self) -> list[Arrival]:
        """Return the arrivals that still wait after a `close` that timed out, and forget them.

        An attempt to record them may still succeed.
        """
        with self._lock:
            rest, self._waiting = self._waiting, []
        return [each.arrival for each in rest]

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
                sleep(LOCK_PAUSE * uniform(0.5, 1.5))  # noqa: S311 - not cryptographic
        finally:
            with self._lock:  # after an exception; the next `add` starts another thread
                if self._thread is current_thread():
                    self._thread = None
            close_thread_connections()

    def _attempt(self) -> bool:
        """Attempt to record all waiting arrivals; end the thread and return False without any."""
        with self._lock:
            rest = [*self._waiting]
            if not rest:
                self._thread = None
                return False
        while group := leading(
            rest, lambda each: text_size(each.arrival.body), most=MAX_LOCKED_GROUP
        ):
            rest = rest[len(group) :]
            now = monotonic()
            over = [each for each in group if self.closed or now > each.until]
            self._reply(self._give_up, over)
            self._reply(self._resume, [each for each in group if each not in over])
        return True

    def _reply(
        self,
        respond: Callable[[Sequence[Arrival]], Sequence[Response | None]],
        waiting: Sequence[_Waiting],
    ) -> None:
        """Pass the responses to those that have one, which then do not wait any more."""
        if not waiting:
            return
        left = min(each.deadline for each in waiting) - monotonic()
        try:
            with limited_to(left):
                responses = respond([each.arrival for each in waiting])
        except BaseException as error:  # noqa: BLE001 - it must not end the thread
            responses = [self._unavailable(each.arrival) for each in waiting]
            log_fault(error, "A group failed: %s", describe_bug(error))
        ended = [
            (each, response)
            for each, response in zip(waiting, responses, strict=True)
            if response is not None
        ]
        done = {id(each) for each, _ in ended}
        with self._lock:
            self._waiting = [each for each in self._waiting if id(each) not in done]
        for each, response in ended:
            each.reply(response)


def _fit(waiting: Sequence[_Waiting]) -> bool:
    size = sum(memory_size(each.arrival) for each in waiting)
    return len(waiting) <= MAX_LOCKED and size <= LOCKED_CAPACITY
