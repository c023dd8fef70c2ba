"""The batch writer: groups of items and their results, with threads and event loops."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest

from hookrow._concurrency import EXIT_TIMEOUT
from hookrow._core.sizes import LARGEST_GROUP
from hookrow._receiver.batch import BatchWriter, QueueFull
from hookrow.stores._timeouts import STORE_DEADLINE
from wire import PATIENCE, eventually

FALLBACK = -1

Writer = BatchWriter[int, int]


def writer(work: Callable[[Sequence[int]], Sequence[int]], **options: Any) -> Writer:  # noqa: ANN401 - of BatchWriter
    """Return a writer whose fallback is -1, with a deadline that even a slow machine meets."""
    return BatchWriter(work, **{"fallback": lambda _: FALLBACK, "deadline": PATIENCE, **options})


class _Gate:
    """Work that waits until the gate is opened, while the next group accumulates.

    It multiplies by ten. A group with a 13 returns or raises `ends`.
    """

    def __init__(self, ends: Sequence[int] | BaseException = (), *, opened: bool = False) -> None:
        self.groups: list[list[int]] = []
        self.reached, self.opened = Event(), Event()
        if opened:
            self.opened.set()
        self._ends = ends

    def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(items))
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        if 13 not in items:
            return [item * 10 for item in items]
        if isinstance(self._ends, BaseException):
            raise self._ends
        return self._ends


async def submit(batch: Writer, items: Iterable[int]) -> list[asyncio.Future[int]]:
    """Submit items in one iteration of the loop; return the futures of the accepted items."""
    loop = asyncio.get_running_loop()
    futures = []
    for item in items:
        future = loop.create_future()
        with suppress(QueueFull):
            batch.submit([item], loop, future.set_result)
            futures.append(future)
    await asyncio.sleep(0)  # the next iteration puts them on the queue
    return futures


async def hold(batch: Writer, gate: _Gate) -> asyncio.Future[int]:
    """Submit a 0, and return when it waits at the gate in a group by itself."""
    [first] = await submit(batch, [0])
    assert await asyncio.to_thread(gate.reached.wait, PATIENCE)
    return first


@pytest.mark.parametrize(
    ("options", "items", "groups"),
    [
        # By default 256 items form a group, and 4,096 wait.
        ({}, [3, 1, 2], [[3, 1, 2]]),
        ({}, [1] * 4097, [[1] * 256] * 16),
        # The limits of a group and of the queue.
        ({"group": 2}, [1, 2, 3, 4, 5], [[1, 2], [3, 4], [5]]),
        ({"group": 1, "backlog": 2}, [1, 2, 3], [[1], [2]]),
        # A group has at most the largest size, or is a single larger item.
        *(
            (options, [3, 4, 1, 1, 9, 8, 1], [[3, 4, 1], [1], [9], [8], [1]])
            for options in (
                {"size": lambda item: item * LARGEST_GROUP // 8, "capacity": 8 * LARGEST_GROUP},
                {"size": int, "capacity": 8 * LARGEST_GROUP, "largest": 8},
            )
        ),
        # The queue is full once waiting items have the capacity, 64 MiB by default; the last one
        # may exceed it.
        *(
            ({"size": int, "capacity": 10}, items, [items[:-1]])
            for items in ([6, 4, 1], [9, 9, 1], [11, 1], [6, 3, 1, 0])
        ),
        ({"size": lambda kib: kib * 1024}, [40 * 1024, 24 * 1024, 1], [[40 * 1024], [24 * 1024]]),
    ],
)
@pytest.mark.anyio
async def test_items_that_arrive_during_a_group_form_the_next_groups(
    options: dict[str, Any], items: list[int], groups: list[list[int]]
) -> None:
    gate = _Gate()
    with closing(writer(gate, **options)) as batch:
        first = await hold(batch, gate)
        futures = await submit(batch, items)
        assert batch.waiting() == len(futures)
        gate.opened.set()
        assert await asyncio.gather(*futures) == [item * 10 for group in groups for item in group]
        assert (first.result(), batch.waiting()) == (0, 0)
        for item in (9, 10):  # without a group in progress, an item forms a group by itself
            assert await asyncio.gather(*await submit(batch, [item])) == [item * 10]
    assert gate.groups == [[0], *groups, [9], [10]]


@pytest.mark.parametrize("ends", [SystemExit(), ValueError("no"), [1], [1, 2, 3]], ids=repr)
@pytest.mark.anyio
async def test_an_exception_or_a_wrong_number_of_results_affects_only_its_group(
    ends: Sequence[int] | BaseException,
) -> None:
    gate = _Gate(ends)
    with closing(writer(gate, group=2)) as batch:
        futures = [await hold(batch, gate), *await submit(batch, [13, 1, 2, 3])]
        gate.opened.set()
        assert await asyncio.gather(*futures) == [0, FALLBACK, FALLBACK, 20, 30]
        assert batch.waiting() == 0
    assert gate.groups == [[0], [13, 1], [2, 3]]


def test_a_loop_is_woken_once_per_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group can contain items of several loops and threads."""
    gate, woken = _Gate(), list[int]()
    wake = asyncio.BaseEventLoop.call_soon_threadsafe

    def count(loop: asyncio.BaseEventLoop, callback: Any, *values: Any, **more: Any) -> Any:  # noqa: ANN401 - asyncio's
        if callback == batch._complete:
            woken.append(len(values[1]))
        return wake(loop, callback, *values, **more)

    async def submit_all(*items: int) -> list[int]:
        return await asyncio.gather(*await submit(batch, items))

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", count)
    with closing(writer(gate)) as batch, ThreadPoolExecutor(4) as threads:
        results: list[Future[Any]] = [threads.submit(batch.wait, [0])]
        assert gate.reached.wait(PATIENCE)
        results += [
            threads.submit(asyncio.run, submit_all(1, 2, 3)),
            threads.submit(asyncio.run, submit_all(4, 5)),
            threads.submit(batch.wait, [6]),
        ]
        eventually(lambda: batch._queue.qsize() == 3)  # a loop queues its items later
        gate.opened.set()
        assert [each.result(PATIENCE) for each in results] == [[0], [10, 20, 30], [40, 50], [60]]
    assert [sorted(group) for group in gate.groups] == [[0], [1, 2, 3, 4, 5, 6]]
    assert sorted(woken) == [2, 3]


@pytest.mark.anyio
async def test_at_the_deadline_items_get_the_fallback_and_their_group_continues() -> None:
    gate, loop, late = _Gate(), asyncio.get_running_loop(), dict[int, float]()

    def on_late(item: int) -> None:
        late[item] = loop.time()

    with closing(writer(gate, deadline=0.02, on_late=on_late)) as batch:
        futures = [await hold(batch, gate), *await submit(batch, [1, 2])]
        await asyncio.sleep(0.01)
        began = loop.time()
        futures += await submit(batch, [3])  # its deadline is later
        assert await asyncio.gather(*futures[:3]) == [FALLBACK] * 3
        assert await asyncio.to_thread(batch.wait, [4]) == [FALLBACK]
        assert await futures[3] == FALLBACK
        gate.opened.set()
    assert list(late)[:3] == [0, 1, 2]
    assert sorted(late) == [0, 1, 2, 3, 4]
    assert late[3] - began >= 0.02
    assert gate.groups == [[0], [1, 2, 3, 4]]


@pytest.mark.anyio
async def test_the_time_for_a_group_begins_when_its_first_item_was_accepted() -> None:
    """An item that has waited for another group has less time, and gets its result as soon."""
    gate, deadlines = _Gate(), list[float]()

    def work(items: Sequence[int]) -> Sequence[int]:
        deadlines.append(STORE_DEADLINE.get())
        return gate(items)

    with closing(writer(work, work_seconds=PATIENCE)) as batch:
        moments = [monotonic()]
        futures = [await hold(batch, gate)]
        moments.append(monotonic())
        futures += await submit(batch, [1])
        moments.append(monotonic())
        threads = [asyncio.create_task(asyncio.to_thread(batch.wait, [2]))]
        await asyncio.to_thread(eventually, lambda: batch._queue.qsize() == 2)
        gate.opened.set()
        assert await asyncio.gather(*futures, *threads) == [0, 10, [20]]
    first, second = (each - PATIENCE for each in deadlines)
    assert moments[0] <= first <= moments[1] <= second <= moments[2]


@pytest.mark.anyio
async def test_the_result_of_an_item_keeps_the_deadlines_of_later_ones() -> None:
    opened = Event()

    def work(items: Sequence[int]) -> Sequence[int]:
        assert 2 not in items or opened.wait(2 * PATIENCE)
        return items

    with closing(writer(work, group=1, deadline=0.03)) as batch:
        futures = await submit(batch, [1, 2])
        try:
            assert await asyncio.wait_for(futures[1], PATIENCE) == FALLBACK
        finally:
            opened.set()


def test_the_timer_of_a_loop_is_set_to_the_next_deadline() -> None:
    gate, loop, late = _Gate(), Mock(), list[int]()
    expired: list[tuple[float, list[int]]] = []
    with closing(writer(gate, deadline=1.0, on_late=late.append)) as batch:
        for item, now in enumerate((0.0, 0.25, 0.5)):
            loop.time.return_value = now
            batch.submit([item], loop, lambda _: None)
            hand_over, queue = loop.call_soon.call_args.args
            hand_over(queue)
        try:
            for _ in range(3):
                at, expire, queue = loop.call_at.call_args.args
                loop.time.return_value = at
                expire(queue)
                expired.append((at, [*late]))
        finally:
            gate.opened.set()
    assert expired == [(1.0, [0]), (1.25, [0, 1]), (1.5, [0, 1, 2])]


@pytest.mark.anyio
async def test_an_exception_in_the_report_of_a_late_item_affects_no_other_item() -> None:
    """For example, a filter of the host's logger raises it."""
    gate = _Gate()
    with closing(writer(gate, deadline=0.02, on_late=Mock(side_effect=ValueError))) as batch:
        futures = [await hold(batch, gate), *await submit(batch, [1, 2])]
        assert await asyncio.gather(*futures) == [FALLBACK] * 3
        assert await asyncio.gather(*await submit(batch, [3])) == [FALLBACK]  # by the next timer
        assert await asyncio.to_thread(batch.wait, [4]) == [FALLBACK]
        gate.opened.set()


@pytest.mark.anyio
async def test_an_exception_in_a_reply_affects_no_other_reply(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raise_error(_: object) -> None:
        raise ZeroDivisionError

    gate, loop = _Gate(), asyncio.get_running_loop()
    for deadline, reply in ((PATIENCE, 20), (0.02, FALLBACK)):
        gate.opened.clear() if reply == FALLBACK else gate.opened.set()
        with closing(writer(gate, deadline=deadline)) as batch:
            done = loop.create_future()
            batch.submit([1], loop, raise_error)
            batch.submit([2], loop, done.set_result)
            assert await done == reply
            gate.opened.set()
    place = f"{__file__}:{raise_error.__code__.co_firstlineno + 1}"
    assert f"A response could not be sent: ZeroDivisionError at {place}" in caplog.messages


def test_an_exception_in_the_work_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def work(items: Sequence[int]) -> Sequence[int]:
        raise ValueError(f"secret {items}")

    with closing(writer(work)) as batch:
        assert [batch.wait([1]), batch.wait([2])] == [[FALLBACK]] * 2
    assert caplog.messages == [
        f"A group failed: a bug raised ValueError at {__file__}:{work.__code__.co_firstlineno + 1}"
    ]
    assert "in work\n" in caplog.text  # a line of the traceback
    assert "secret [1" not in caplog.text


def test_logging_that_fails_delays_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter of the host raises an exception for the record of the failed group."""
    refuse = Mock(**{"filter.side_effect": ValueError("no")})
    monkeypatch.setattr(logging.getLogger("hookrow"), "filters", [refuse])
    late: list[int] = []
    gate = _Gate(ValueError("no"), opened=True)
    with closing(writer(gate, on_late=late.append)) as batch:
        assert [batch.wait([13]), batch.wait([13]), batch.wait([1])] == [[FALLBACK]] * 2 + [[10]]
    assert refuse.filter.called
    assert late == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_next_item_replaces_a_thread_that_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, results = _Gate(opened=True), SimpleQueue[list[int]]()
    with closing(writer(gate)) as batch:
        with monkeypatch.context() as patched:
            patched.setattr(batch, "_next_group", sys.exit)
            first = Thread(target=lambda: results.put(batch.wait([1])))
            first.start()
            eventually(lambda: not batch._running and batch.waiting() == 1)
            ended = batch._thread
            assert ended is not None
            ended.join(PATIENCE)
        assert batch.wait([2]) == [20]
        first.join(PATIENCE)
        assert results.get_nowait() == [10]
    assert [item for group in gate.groups for item in group] == [1, 2]


def test_items_are_refused_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    gate = _Gate(opened=True)
    with closing(writer(gate)) as batch:
        with monkeypatch.context() as patched:
            patched.setattr(Thread, "start", start)
            with pytest.raises(QueueFull):
                batch.wait([1])
            with pytest.raises(QueueFull):
                batch.put(1)
        assert batch.wait([2]) == [20]
    assert gate.groups == [[2]]


def test_items_of_a_closed_loop_are_written_without_a_reply() -> None:
    gate = _Gate()
    with closing(writer(gate)) as batch:
        asyncio.run(hold(batch, gate))
        gate.reached.clear()
        asyncio.run(submit(batch, [1]))
        gate.opened.set()
        assert batch.wait([2]) == [20]

        async def submit_three() -> list[int]:
            return await asyncio.gather(*await submit(batch, [3]))

        assert asyncio.run(submit_three()) == [30]
        assert len(batch._loops) == 1
    assert [item for group in gate.groups for item in group] == [0, 1, 2, 3]


@pytest.mark.anyio
async def test_close_writes_the_items_of_the_current_iteration() -> None:
    batch, loop = writer(_Gate(opened=True)), asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    batch.submit([1], loop, future.set_result)
    batch.close(PATIENCE)  # in the thread of the loop, before its next iteration
    assert await future == 10


def test_items_of_a_loop_that_closes_before_its_next_iteration_are_written() -> None:
    """They leave the backlog when another loop submits an item."""
    gate = _Gate(opened=True)
    with closing(writer(gate, backlog=1)) as batch:
        for item in range(3):
            loop = asyncio.new_event_loop()
            batch.submit([item], loop, lambda _: None)  # its loop never runs
            loop.close()
            with closing(asyncio.new_event_loop()) as other, suppress(QueueFull):
                batch.submit([item], other, lambda _: None)
            eventually(lambda: batch.waiting() == 0)
    assert gate.groups == [[0], [1], [2]]


@pytest.mark.parametrize(
    "limit", [{"backlog": 3}, {"size": lambda _: 1, "capacity": 3}], ids=["backlog", "capacity"]
)
@pytest.mark.anyio
async def test_items_that_arrive_together_are_accepted_together(limit: dict[str, Any]) -> None:
    """They are accepted as a whole unless the queue is full, even if they exceed a limit."""
    gate, loop = _Gate(), asyncio.get_running_loop()
    results: list[int] = []
    ended = asyncio.Event()

    def reply(result: int) -> None:
        results.append(result)
        if len(results) == 6:
            ended.set()

    with closing(writer(gate, group=9, **limit)) as batch:
        first = await hold(batch, gate)
        batch.submit([1, 2], loop, reply)
        batch.submit([3, 4, 5, 6], loop, reply)
        for items in ([7], [8, 9]):
            with pytest.raises(QueueFull):
                batch.wait(items)
            with pytest.raises(QueueFull):
                batch.submit(items, loop, reply)
        assert batch.waiting() == 6
        gate.opened.set()
        await first
        await ended.wait()
        assert (results, batch.waiting()) == ([10, 20, 30, 40, 50, 60], 0)
        assert await asyncio.to_thread(batch.wait, [4, 5, 6, 7]) == [40, 50, 60, 70]
    assert gate.groups == [[0], [1, 2, 3, 4, 5, 6], [4, 5, 6, 7]]


def test_items_that_wait_together_share_a_group_and_a_deadline() -> None:
    """The items that have no result by then get the fallback; the others keep theirs."""
    late: list[int] = []
    gate = _Gate()
    with closing(writer(gate, group=2, deadline=0.05, on_late=late.append)) as batch:
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(batch.wait, [1, 2, 3, 4])
            assert gate.reached.wait(PATIENCE)
            assert waiting.result(PATIENCE) == [FALLBACK] * 4
        gate.opened.set()
        assert batch.wait([5, 6]) == [50, 60]
    assert late == [1, 2, 3, 4]
    assert gate.groups == [[1, 2], [3, 4], [5, 6]]


def test_take_rest_empties_the_queue() -> None:
    gate = _Gate()
    batch = writer(gate, group=1, size=lambda item: item, capacity=10)
    batch.put(0)
    assert gate.reached.wait(PATIENCE)
    for item in (1, 2, 3):
        batch.put(item)
    batch.close(0.01)
    assert (batch.drain_queue(), batch.waiting()) == ([0, 1, 2, 3], 0)
    gate.opened.set()
    batch.close()
    assert (gate.groups, batch.drain_queue()) == ([[0]], [])


@pytest.mark.anyio
async def test_close_waits_for_the_queue() -> None:
    gate = _Gate()
    batch = writer(gate, group=2)
    futures = [await hold(batch, gate), *await submit(batch, range(1, 6))]
    batch.close(0.01)
    assert not any(future.done() for future in futures)
    with pytest.raises(QueueFull):
        batch.wait([6])
    gate.opened.set()
    batch.close()
    assert await asyncio.gather(*futures) == [0, 10, 20, 30, 40, 50]
    assert gate.groups == [[0], [1, 2], [3, 4], [5]]


EXIT_SCRIPT = """
import time
from threading import Event
from hookrow._receiver.batch import BatchWriter

def writer(work):
    return BatchWriter(work, fallback=lambda _: None, deadline=60.0)

def end(items):
    time.sleep(0.05)
    for item in items:
        hook.put(item)
    return [None] * len(items)

def show(items):
    print(*items, flush=True)
    Event().wait(None if HANGS and 2 in items else 0)  # a hook of the host that hangs at the end
    return [None] * len(items)

hook = writer(show)
first = writer(end)
for number in range(3):
    first.put(number)
"""


@pytest.mark.parametrize("hangs", [True, False])
def test_at_exit_writers_are_closed_the_newest_first(*, hangs: bool) -> None:
    """They have ten seconds together, or two seconds here if the last item hangs."""
    timeout = 2.0 if hangs else PATIENCE
    shorter = f"import hookrow._concurrency as concurrency; concurrency.EXIT_TIMEOUT = {timeout}"
    script = f"{shorter}\nHANGS = {hangs}\n{EXIT_SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.split() == ["0", "1", "2"]
    assert EXIT_TIMEOUT == 10.0


def test_close_may_be_called_without_items_twice_and_by_the_work() -> None:
    unused = writer(lambda items: items)

    def work(items: Sequence[int]) -> Sequence[int]:
        used.close()
        return items

    used = writer(work)
    assert used.wait([1]) == [1]
    for batch in (unused, used):
        batch.close()
        batch.close()
        with pytest.raises(QueueFull):
            batch.wait([2])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.anyio
async def test_a_child_process_has_its_own_lock_queue_and_thread() -> None:
    """Even if the process forks during a loop's iteration, while the lock is held."""
    parent = os.getpid()
    batch = BatchWriter[int, tuple[int, int]](
        lambda items: [(os.getpid(), item) for item in items],
        fallback=lambda item: (0, item),
        deadline=PATIENCE,
    )

    loop = asyncio.get_running_loop()
    first: asyncio.Future[tuple[int, int]] = loop.create_future()
    with closing(batch):
        batch.submit([1], loop, first.set_result)
        with batch._lock:
            child = os.fork()
        if child == 0:
            try:
                same = batch.wait([2]) == [(os.getpid(), 2)]
                os._exit(0 if same and not batch.waiting() and not batch._loops else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222 - it ends at once
        assert await first == (parent, 1)
