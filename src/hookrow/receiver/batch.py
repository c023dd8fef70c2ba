"""The hand-over: event loops and threads pass items to one writer thread, which works in groups.

While one group is being written, the next one accumulates: an item that arrives alone does not
wait, and items that arrive together share the cost of a commit. Nothing here knows about mail.
"""

from __future__ import annotations

import atexit
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from time import monotonic
from traceback import format_tb
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

import msgspec

from hookrow.concurrency import close_thread_connections, reset_after_fork
from hookrow.core.sizes import CAPACITY, LARGEST_GROUP

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

T = TypeVar("T")
R = TypeVar("R")

EXIT_TIMEOUT = 10.0
"""In seconds; how long an interpreter that exits waits for the items in all queues together."""

log = logging.getLogger("hookrow")


class QueueFull(Exception):
    """No item can be accepted at the moment."""


class _Waiter(msgspec.Struct, eq=False):
    """An item in the queue, its size in bytes, and what its result is passed to, once."""

    item: Any
    size: int
    reply: Callable[[Any], object] | None
    loop_queue: _LoopQueue | None = None


class _LoopQueue:
    """The items of one event loop; only the thread of that loop uses `watched` and `timer`.

    `accepted` are the items of the loop's current iteration, `watched` those that were handed
    over in earlier ones, each with the time at which they are late.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        self.accepted: list[_Waiter] = []
        self.watched: deque[tuple[float, list[_Waiter]]] = deque()
        self.timer: TimerHandle | None = None


class BatchWriter(Generic[T, R]):
    """Passes items to `work` in groups of at most `group`, in order of arrival, in one thread.

    `work` returns one result for each item. If it raises, or returns too few or too many, each
    item of the group gets its `fallback`. So does an item that has no result `deadline` seconds
    after its loop handed it over; `on_late` is called with it, and its group may complete
    nevertheless.

    At most `backlog` items wait, with at most `capacity` bytes together. A group has at most
    `largest` bytes, unless it is a single item. `size` returns the bytes of an item.

    The thread starts with the first item, and is started again if it has ended. A child process
    that is forked begins with an empty queue; the items remain with the parent.
    """

    _lock: Lock
    _queue: SimpleQueue[list[_Waiter]]
    _pending: deque[_Waiter]
    _loops: dict[AbstractEventLoop, _LoopQueue]

    def __init__(  # noqa: PLR0913 - keywords, each with a good default
        self,
        work: Callable[[Sequence[T]], Sequence[R]],
        *,
        fallback: Callable[[T], R],
        deadline: float,
        group: int = 256,
        backlog: int = 4096,
        capacity: int = CAPACITY,
        largest: int = LARGEST_GROUP,
        size: Callable[[T], int] = lambda _: 0,
        name: str = "writer",
        on_late: Callable[[T], object] = lambda _: None,
    ) -> None:
        self._work, self._fallback, self._on_late = work, fallback, on_late
        self._deadline = deadline
        self._group, self._largest = group, largest
        self._backlog, self._capacity = backlog, capacity
        self._size = size
        self._name = name
        self.closed = False
        """Whether `close` was called."""
        self._loops = {}
        self.reset()
        reset_after_fork(self)
        _writers[next(_numbers)] = self

    def submit(self, item: T, loop: AbstractEventLoop, reply: Callable[[R], object]) -> None:
        """Accept an item in the thread of a running event loop, which calls `reply` later.

        Raises `QueueFull` if too much is waiting, if no thread can be started, and after `close`.
        """
        size = self._size(item)
        with self._lock:
            of_loop = self._loops.get(loop) or self._add_loop(loop)
            self._reserve(size)
            if not of_loop.accepted:
                loop.call_soon(self._hand_over, of_loop)
            of_loop.accepted.append(_Waiter(item, size, reply, of_loop))

    def put(self, item: T) -> None:
        """Accept an item whose result is not needed. Raises `QueueFull` as `submit`."""
        size = self._size(item)
        with self._lock:
            self._reserve(size)
            self._queue.put([_Waiter(item, size, None)])

    def wait(self, item: T) -> R:
        """Accept an item, and block until its result is known. Raises `QueueFull` as `submit`."""
        result = SimpleQueue[R]()
        size = self._size(item)
        with self._lock:
            self._reserve(size)
            self._queue.put([_Waiter(item, size, result.put)])
        try:
            return result.get(timeout=self._deadline)
        except Empty:
            self._on_late(item)
            return self._fallback(item)

    def waiting(self) -> int:
        """Return the number of items in the queue, without the group that is being written."""
        return self._waiting

    def close(self, timeout: float | None = None) -> None:
        """Accept nothing more, finish the queue and end the thread; wait `timeout` seconds."""
        with self._lock:
            self.closed = True
            for queue in self._loops.values():
                self._queue.put(queue.accepted)
                queue.accepted = []
            self._queue.put([])  # wakes the thread
            thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join(timeout)

    def take_rest(self) -> list[T]:
        """Return the items for which `close` did not wait, and remove them from the queue.

        The first ones are those of the group that is being written, which may yet succeed.
        """
        rest: list[_Waiter] = []
        with self._lock:
            while self._pending:
                rest.append(self._pending.popleft())
            with suppress(Empty):
                while True:
                    rest += self._queue.get_nowait()
            self._release(rest)
        return [*self._in_progress, *(waiter.item for waiter in rest)]

    def reset(self) -> None:
        """Begin with an empty queue and without a thread."""
        for queue in self._loops.values():
            queue.accepted = []
            queue.watched.clear()
        self._lock = Lock()
        self._queue = SimpleQueue()
        self._pending = deque()
        self._loops = {}
        self._in_progress: Sequence[T] = ()
        self._waiting = self._bytes = 0
        self._thread: Thread | None = None
        self._running = False

    def _reserve(self, size: int) -> None:
        """Count an item. The caller holds the lock."""
        if self.closed or self._waiting >= self._backlog or self._bytes + size > self._capacity:
            raise QueueFull
        if not self._running:
            self._start()
        self._waiting += 1
        self._bytes += size

    def _release(self, waiters: Sequence[_Waiter]) -> None:
        """Count items no more. The caller holds the lock."""
        self._waiting -= len(waiters)
        self._bytes -= sum([waiter.size for waiter in waiters])

    def _add_loop(self, loop: AbstractEventLoop) -> _LoopQueue:
        """Begin to serve a loop, and hand over what closed loops have left."""
        for queue in self._loops.values():
            if queue.loop.is_closed():
                self._queue.put(queue.accepted)
        self._loops = {each: queue for each, queue in self._loops.items() if not each.is_closed()}
        queue = self._loops[loop] = _LoopQueue(loop)
        return queue

    def _start(self) -> None:
        thread = Thread(target=self._run, name=f"hookrow-{self._name}", daemon=True)
        self._running = True
        try:
            thread.start()
        except RuntimeError as error:  # the system has none left
            self._running = False
            raise QueueFull from error
        self._thread = thread

    def _run(self) -> None:
        try:
            while self._write_group():
                pass
        finally:
            self._running = False  # the next item starts another thread
            close_thread_connections()

    def _write_group(self) -> bool:
        """Write the next group, and keep no reference to it; return whether there was one."""
        group = self._next_group()
        if not group:
            return False
        self._in_progress = items = [waiter.item for waiter in group]
        try:
            results = self._work(items)
            if len(results) != len(items):
                raise ValueError(f"{len(results)} results for {len(items)} items")  # noqa: TRY301
        except BaseException as error:  # noqa: BLE001 - the thread and the other groups go on
            # The error's own text may quote an item.
            place = "".join(format_tb(error.__traceback__))
            log.error("A group failed: %s, a bug, raised at\n%s", type(error).__name__, place)
            results = [self._fallback(item) for item in items]
        self._in_progress = ()
        self._deliver(group, results)
        return True

    def _next_group(self) -> list[_Waiter]:
        """Wait for items, and take a group; it is empty if there will be none."""
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

    def _deliver(self, group: Sequence[_Waiter], results: Sequence[R]) -> None:
        """Pass the results on: those of each event loop with one callback."""
        of_loops: dict[_LoopQueue, list[tuple[_Waiter, R]]] = {}
        for waiter, result in zip(group, results, strict=True):
            if waiter.loop_queue is None:
                _reply(waiter, result)
            else:
                of_loops.setdefault(waiter.loop_queue, []).append((waiter, result))
        for queue, replies in of_loops.items():
            with suppress(RuntimeError):  # the loop is closed, and nothing in it waits any more
                queue.loop.call_soon_threadsafe(self._complete, queue, replies)

    def _hand_over(self, of_loop: _LoopQueue) -> None:
        """Put a loop's new items on the queue, and watch their deadline."""
        with self._lock:  # so that the thread does not end in between
            batch, of_loop.accepted = of_loop.accepted, []
            self._queue.put(batch)
        if batch:
            of_loop.watched.append((of_loop.loop.time() + self._deadline, batch))
            self._set_timer(of_loop)

    def _complete(self, of_loop: _LoopQueue, replies: Sequence[tuple[_Waiter, R]]) -> None:
        """Pass the results of a group on, in the thread of the loop."""
        for waiter, result in replies:
            _reply(waiter, result)
        watched = of_loop.watched
        while watched and watched[0][1][-1].reply is None:
            watched.popleft()

    def _expire(self, of_loop: _LoopQueue) -> None:
        """Pass on the fallbacks of all items whose deadline has passed."""
        of_loop.timer = None
        watched, now = of_loop.watched, of_loop.loop.time()
        while watched and watched[0][0] <= now:
            for waiter in watched.popleft()[1]:
                if waiter.reply is not None:
                    _reply(waiter, self._fallback(waiter.item))
                    self._on_late(waiter.item)
        if watched:
            self._set_timer(of_loop)

    def _set_timer(self, of_loop: _LoopQueue) -> None:
        """Check the deadlines again when the oldest one passes; a loop has one timer at most."""
        if of_loop.timer is None:
            of_loop.timer = of_loop.loop.call_at(of_loop.watched[0][0], self._expire, of_loop)


def _reply(waiter: _Waiter, result: object) -> None:
    """Pass a result on, unless its item had one. An error concerns no other item."""
    reply, waiter.reply = waiter.reply, None
    if reply is None:
        return
    try:
        reply(result)
    except Exception as error:  # noqa: BLE001 - of the host or its server
        log.error("A response could not be sent: %s", type(error).__name__)


_numbers = count()
_writers: WeakValueDictionary[int, BatchWriter[Any, Any]] = WeakValueDictionary()
"""All writers, in the order in which they were created."""


def _close_all() -> None:
    """Close the newest writer first: a receiver's own is newer than those of its hooks."""
    until = monotonic() + EXIT_TIMEOUT
    for _, writer in sorted(_writers.items(), reverse=True):
        if not writer.closed:  # its owner has waited for it already
            writer.close(max(until - monotonic(), 0.0))


atexit.register(_close_all)
