"""Group commit: one thread does the work of many callers, one group at a time.

While one group is at work the next gathers, so that an idle caller never waits
and a busy one shares its group's cost. It knows nothing of mail.
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread, current_thread
from typing import Generic, TypeVar

from hookrow.concurrency import LAST, reset_after_fork
from hookrow.promise import Promise
from hookrow.receiver.sizes import CAPACITY, leading

T = TypeVar("T")
R = TypeVar("R")

EXIT_TIMEOUT = 10.0
"""In seconds; how long an interpreter that exits waits for what is queued."""


class QueueFull(Exception):
    """No more can be taken just now."""


class GroupCommit(Generic[T, R]):
    """Hands items to `work` in groups of at most `group`, in order, in one thread.

    `work` returns one result an item. The thread starts with the first item,
    hence after any fork that came before; a fork that comes later starts its own
    and leaves what is queued to its parent. A thread that ended is started again by
    the next item, and finds the queue as it was. At most `backlog` items wait.

    `size` is how many bytes an item takes while it waits, `work_size` how many while it
    is at work: those that wait take at most `capacity` together, those of a group at
    most `sizes.LARGEST_GROUP`.
    """

    _changed: Condition
    _queue: deque[tuple[T, Promise[R]]]
    _held: int
    _thread: Thread | None

    def __init__(
        self,
        work: Callable[[Sequence[T]], Sequence[R]],
        *,
        group: int = 256,
        backlog: int = 4096,
        capacity: int = CAPACITY,
        size: Callable[[T], int] = lambda _: 0,
        work_size: Callable[[T], int] = lambda _: 0,
    ) -> None:
        self._work = work
        self._group = group
        self._backlog = backlog
        self._capacity = capacity
        self._size = size
        self._work_size = work_size
        self._closed = False
        self.reset()
        reset_after_fork(self)

    def submit(self, item: T) -> Promise[R]:
        """Queue an item; the promise ends with its result, or what `work` raised.

        Raises `QueueFull` where the backlog is full, after `close`, or where no
        thread can be started.
        """
        size = self._size(item)
        promise: Promise[R] = Promise()
        with self._changed:
            if (
                self._closed
                or len(self._queue) >= self._backlog
                or self._held + size > self._capacity
            ):
                raise QueueFull
            if self._thread is None or not self._thread.is_alive():
                self._thread = self._start()
            self._held += size
            if not self._queue:  # else the thread is at work, or woken already
                self._changed.notify()
            self._queue.append((item, promise))
        return promise

    def waiting(self) -> int:
        """Return how many items are queued; those of the group at work are not."""
        return len(self._queue)

    def close(self, timeout: float | None = None) -> None:
        """Take no more, finish what is queued, end the thread; wait `timeout` seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join(timeout)
        if thread is not None and not thread.is_alive():
            atexit.unregister(self.close)

    def reset(self) -> None:
        """Begin anew: nothing queued, no thread."""
        self._changed = Condition()
        self._queue = deque()
        self._held = 0
        self._thread = None

    def _start(self) -> Thread:
        thread = Thread(target=self._run, name="hookrow", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has none to give
            raise QueueFull from error
        atexit.register(self.close, EXIT_TIMEOUT)
        return thread

    def _run(self) -> None:
        while self._do_group():
            pass
        for each in LAST:
            each()

    def _do_group(self) -> bool:
        """Do the next group, and keep no reference to it; False where there will be none."""
        members = self._next()
        try:
            results = self._work([item for item, _ in members]) if members else ()
            ended = list(zip(members, results, strict=True))
        except BaseException as error:  # noqa: BLE001 - it belongs to who waits
            for _, promise in members:
                promise.set_exception(error)
        else:
            for (_, promise), result in ended:
                promise.set_result(result)
        return bool(members)

    def _next(self) -> list[tuple[T, Promise[R]]]:
        """Wait for items and take a group of them; empty when closed and drained."""
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            return self._take()

    def _take(self) -> list[tuple[T, Promise[R]]]:
        """Take the next group off the queue: at least one item, if there is any."""
        members = leading(self._queue, lambda member: self._work_size(member[0]), most=self._group)
        for item, _ in members:
            self._queue.popleft()
            self._held -= self._size(item)
        return members
