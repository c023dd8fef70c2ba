"""Group commit: event loops and threads pass items to a thread that processes them in groups.

While one group is being written, the next one accumulates: an item that arrives alone does not
wait, and items that arrive together share the cost of a commit. Nothing here knows about mail.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from hookrow._concurrency import close_at_exit, close_thread_connections, reset_after_fork
from hookrow._core.sizes import LARGEST_GROUP, QUEUE_CAPACITY
from hookrow._faults import describe_bug, describe_fault, log_fault
from hookrow.stores._timeouts import limited_to

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

T = TypeVar("T")
R = TypeVar("R")


class QueueFull(Exception):
    """The writer cannot accept an item now."""


class _Waiter(msgspec.Struct):
    """An item in the queue, its size in bytes, and the callback for its result, called once.

    `accepted_at` is a time on the clock of `monotonic`.
    """

    item: Any
    size: int
    accepted_at: float
    reply: Callable[[Any], object] | None
    loop_queue: _LoopQueue | None = None


class _LoopQueue(msgspec.Struct, eq=False):
    """The items of one event loop. Only the thread of that loop uses `watched` and `timer`.

    `accepted` contains the items of the loop's current iteration, and `watched` the lists that
    earlier iterations put on the queue, each with the time of its deadline.
    """

    loop: AbstractEventLoop
    accepted: list[_Waiter] = msgspec.field(default_factory=list)
    watched: deque[tuple[float, list[_Waiter]]] = msgspec.field(default_factory=deque)
    timer: TimerHandle | None = None


class BatchWriter(Generic[T, R]):
    """Passes items to `work` in groups of at most `group`, in order of arrival, in one thread.

    `work` returns one result for each item. If it raises an exception or returns the wrong number
    of results, each item of the group gets its `fallback`. So does an item that has no result
    after `deadline` seconds; `on_late` is then called with it, and its group may still complete.
    With `work_seconds`, stores have no more time than that for a group, from the moment in which
    its first item was accepted (`limited_to`).

    The queue is full while `backlog` items wait, or items with a total of `capacity` bytes. Until
    then, items that arrive together are accepted together, even if they exceed a limit: those that
    exceed it by themselves would otherwise never be accepted, and many would rarely find room for
    all of them. A group has at most `largest` bytes, or is a single item. `size` returns the size
    of an item in bytes. If `work` returns None for an item, `defer` is
    called with it and with the callback for its result, which may be called in any thread.

    The first item starts the thread; if the thread has ended, the next item starts another. The
    queue of a forked child process is empty; the items remain with the parent process.
    """

    def __init__(  # noqa: PLR0913 - keyword arguments, most with a default
        self,
        work: Callable[[Sequence[T]], Sequence[R | None]],
        *,
        fallback: Callable[[T], R],
        deadline: float = inf,
        work_seconds: float = inf,
        group: int = 256,
        backlog: int = 4096,
        capacity: int = QUEUE_CAPACITY,
        largest: int = LARGEST_GROUP,
        size: Callable[[T], int] = lambda _: 0,
        name: str = "writer",
        on_late: Callable[[T], object] = lambda _: None,
        defer: Callable[[Sequence[tuple[T, Callable[[R], object]]]], object] = lambda _: None,
    ) -> None:
        self._work = work
        self._fallback = fallback
        self._deadline = deadline
        self._work_seconds = work_seconds
        self._group = group
        self._backlog = backlog
        self._capacity = capacity
        self._largest = largest
        self._size = size
        self._name = name
        self._on_late = on_late
        self._defer = defer
        self.closed = False
        self._loops: dict[AbstractEventLoop, _LoopQueue] = {}
        self.reset()
        reset_after_fork(self)
        close_at_exit(self)

    def submit(
        self, items: Sequence[T], loop: AbstractEventLoop, reply: Callable[[R], object]
    ) -> None:
        """Accept items in the thread of a running event loop, which passes each result to `reply`.

        Raises `QueueFull` if the backlog is full, if no thread can be started, and after `close`.
        """
        now = monotonic()
        with self._lock:
            queue = self._loops.get(loop) or self._add_loop(loop)
            earlier, size = len(queue.accepted), 0
            for item in items:
                waiter = _Waiter(item, self._size(item), now, reply, queue)
                size += waiter.size
                queue.accepted.append(waiter)
            try:
                self._reserve(len(items), size)
            except QueueFull:
                del queue.accepted[earlier:]
                raise
            if not earlier:
                loop.call_soon(self._hand_over, queue)

    def put(self, item: T) -> None:
        """Accept an item whose result nothing needs. Raises `QueueFull`; see `submit`."""
        self._put([_Waiter(item, self._size(item), monotonic(), None)])

    def wait(self, items: Sequence[T]) -> list[R]:
        """Accept items, and wait for their results. Raises `QueueFull`; see `submit`."""
        done = SimpleQueue[tuple[int, R]]()
        now = monotonic()
        self._put(
            [
                _Waiter(item, self._size(item), now, partial(_put_numbered, done, number))
                for number, item in enumerate(items)
            ]
        )
        until = now + self._deadline
        results: dict[int, R] = {}
        with suppress(Empty):
            while len(results) < len(items):
                number, result = done.get(timeout=max(until - monotonic(), 0))
                results[number] = result
        return [
            results[number] if number in results else self._late(item)
            for number, item in enumerate(items)
        ]

    def _late(self, item: T) -> R:
        self._report_late(item)
        return self._fallback(item)

    def _report_late(self, item: T) -> None:
        """Call `on_late`. An exception affects no other item, and not the timer."""
        try:
            self._on_late(item)
        except Exception as error:  # noqa: BLE001 - for example, of a filter of the host's logger
            log_fault(error, "A late response could not be reported: %s", describe_fault(error))

    def _put(self, waiters: list[_Waiter]) -> None:
        with self._lock:
            self._reserve(len(waiters), sum(each.size for each in waiters))
            self._queue.put(waiters)

    def waiting(self) -> int:
        """Return the number of items in the queue, without the group that is being written."""
        return self._waiting

    def close(self, timeout: float | None = None) -> None:
        """Accept no more items; wait up to `timeout` seconds for the thread to empty the queue."""
        with self._lock:
            self.closed = True
            for queue in self._loops.values():
                self._queue.put(queue.accepted)
                queue.accepted = []
            self._queue.put([])  # wakes the thread
        if (thread := self._thread) is not None and thread is not current_thread():
            thread.join(timeout)

    def drain_queue(self) -> list[T]:
        """Empty the queue after a `close` that timed out, and return the items.

        The list begins with the group that is being written, which may still succeed.
        """
        with self._lock:
            rest = [self._pending.popleft() for _ in range(len(self._pending))]
            with suppress(Empty):
                while True:
                    rest += self._queue.get_nowait()
            self._release(rest)
        return [*self._in_progress, *(waiter.item for waiter in rest)]

    def reset(self) -> None:
        """Return to the state after construction: an empty queue and no thread."""
        for queue in self._loops.values():
            queue.accepted = []
            queue.watched.clear()
        self._lock = Lock()
        self._queue = SimpleQueue[list[_Waiter]]()
        self._pending = deque[_Waiter]()
        self._loops = {}
        self._in_progress: Sequence[T] = ()
        self._waiting = 0
        self._bytes = 0
        self._thread: Thread | None = None
        self._running = False

    def _reserve(self, count: int, size: int) -> None:
        """Reserve space for items of this total size. The caller holds the lock.

        Raises `QueueFull`.
        """
        is_full = self._waiting >= self._backlog or self._bytes >= self._capacity
        if self.closed or is_full:
            raise QueueFull
        if not self._running:
            self._start()
        self._waiting += count
        self._bytes += size

    def _release(self, waiters: Sequence[_Waiter]) -> None:
        """Release the space of items. The caller holds the lock."""
        self._waiting -= len(waiters)
        for waiter in waiters:
            self._bytes -= waiter.size

    def _add_loop(self, loop: AbstractEventLoop) -> _LoopQueue:
        """Add a loop, and queue the items that closed loops left behind."""
        for closed in [each for each in self._loops if each.is_closed()]:
            self._queue.put(self._loops.pop(closed).accepted)
        return self._loops.setdefault(loop, _LoopQueue(loop))

    def _start(self) -> None:
        thread = Thread(target=self._run, name=f"hookrow-{self._name}", daemon=True)
        self._running = True
        try:
            thread.start()
        except RuntimeError as error:  # the system cannot start another thread
            self._running = False
            raise QueueFull from error
        self._thread = thread

    def _run(self) -> None:
        try:
            while self._write_group():
                pass
        finally:
            self._running = False
            close_thread_connections()

    def _write_group(self) -> bool:
        """Write the next group, and keep no reference to it; return False if there is none."""
        group = self._next_group()
        if not group:
            return False
        first = min(waiter.accepted_at for waiter in group)
        with limited_to(first + self._work_seconds - monotonic()):
            self._write(group)
        return True

    def _write(self, group: Sequence[_Waiter]) -> None:
        self._in_progress = items = [waiter.item for waiter in group]
        replies: list[tuple[_Waiter, R | None]]
        try:
            replies = list(zip(group, self._work(items), strict=True))
        except BaseException as error:  # noqa: BLE001 - it must not end the thread
            replies = [(waiter, self._fallback(waiter.item)) for waiter in group]
            log_fault(error, "A group failed: %s", describe_bug(error))
        self._in_progress = ()
        self._deliver(replies)

    def _next_group(self) -> list[_Waiter]:
        """Wait for items, and take a group; return an empty one once the writer is closed."""
        pending = self._pending
        while not pending:
            if self.closed and self._queue.empty():
                return []
            pending.extend(self._queue.get())
        with suppress(Empty):
            while len(pending) < self._group:
                pending.extend(self._queue.get_nowait())
        group: list[_Waiter] = []
        size = 0
        with self._lock:
            while pending and len(group) < self._group:
                size += pending[0].size
                if group and size > self._largest:
                    break
                group.append(pending.popleft())
            self._release(group)
        return group

    def _deliver(self, replies: Sequence[tuple[_Waiter, R | None]]) -> None:
        """Deliver the results: directly to threads, and in one callback to each event loop."""
        by_loop: dict[_LoopQueue, list[tuple[_Waiter, R]]] = {}
        deferred: list[tuple[T, Callable[[R], object]]] = []
        for waiter, result in replies:
            if result is None:
                deferred.append((waiter.item, partial(self._deliver_one, waiter)))
            elif waiter.loop_queue is None:
                _reply(waiter, result)
            else:
                by_loop.setdefault(waiter.loop_queue, []).append((waiter, result))
        for queue, of_loop in by_loop.items():
            with suppress(RuntimeError):  # the loop is closed
                queue.loop.call_soon_threadsafe(self._complete, queue, of_loop)
        if deferred:
            self._defer(deferred)

    def _deliver_one(self, waiter: _Waiter, result: R) -> None:
        self._deliver([(waiter, result)])

    def _hand_over(self, queue: _LoopQueue) -> None:
        """Put a loop's new items on the queue, and watch their deadline."""
        with self._lock:  # `close` hands over `accepted`, too
            batch, queue.accepted = queue.accepted, []
            self._queue.put(batch)
        if batch:
            queue.watched.append((queue.loop.time() + self._deadline, batch))
            self._set_timer(queue)

    def _complete(self, queue: _LoopQueue, replies: Sequence[tuple[_Waiter, R]]) -> None:
        """Deliver the results of a group, in the thread of the loop."""
        for waiter, result in replies:
            _reply(waiter, result)
        watched = queue.watched
        # Most are completed in order, so the last one is checked first.
        while watched and watched[0][1][-1].reply is None and _are_done(watched[0][1]):
            watched.popleft()

    def _expire(self, queue: _LoopQueue) -> None:
        """Deliver the fallbacks of all items whose deadline has passed."""
        queue.timer = None
        watched, now = queue.watched, queue.loop.time()
        while watched and watched[0][0] <= now:
            for waiter in watched.popleft()[1]:
                if waiter.reply is not None:
                    _reply(waiter, self._fallback(waiter.item))
                    self._report_late(waiter.item)
        if watched:
            self._set_timer(queue)

    def _set_timer(self, queue: _LoopQueue) -> None:
        """Set the loop's only timer to the earliest deadline, unless it is already set."""
        if queue.timer is None:
            queue.timer = queue.loop.call_at(queue.watched[0][0], self._expire, queue)


def _are_done(waiters: Sequence[_Waiter]) -> bool:
    return all(waiter.reply is None for waiter in waiters)


def _put_numbered(done: SimpleQueue[tuple[int, R]], number: int, result: R) -> None:
    done.put((number, result))


def _reply(waiter: _Waiter, result: object) -> None:
    """Call the item's callback, unless it was called before. An exception affects no other item."""
    reply, waiter.reply = waiter.reply, None
    if reply is None:
        return
    try:
        reply(result)
    except Exception as error:  # noqa: BLE001 - raised by the host or its server
        log_fault(error, "A response could not be sent: %s", describe_fault(error))
