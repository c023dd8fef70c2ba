"""Group commit: which items form a group, and what becomes of them, with real threads."""

import atexit
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Any

import pytest
from receiving import LIMIT

from hookrow.promise import Promise
from hookrow.receiver.batch import GroupCommit, QueueFull
from hookrow.receiver.sizes import LARGEST_GROUP


class _Gate:
    """Work that waits until the gate is opened, while the next group gathers.

    It multiplies by ten; a group with a 13 has the result, or the error, `ends`.
    """

    def __init__(self, ends: Sequence[int] | BaseException = ()) -> None:
        self.groups: list[list[int]] = []
        self.reached = Event()
        self.opened = Event()
        self._ends = ends

    def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.groups.append(list(items))
        self.reached.set()
        assert self.opened.wait(LIMIT)
        if 13 not in items:
            return [item * 10 for item in items]
        if isinstance(self._ends, BaseException):
            raise self._ends
        return self._ends

    def hold(self, commit: GroupCommit[int, int]) -> Promise[int]:
        """Submit a 0, and return when it is at the gate, alone."""
        first = commit.submit(0)
        assert self.reached.wait(LIMIT)
        return first


def _submit(commit: GroupCommit[int, int], items: Iterable[int]) -> Iterator[Promise[int]]:
    """Submit items; yield the promises of those that are not refused."""
    for item in items:
        with suppress(QueueFull):
            yield commit.submit(item)


def _result(promise: Promise[int]) -> object:
    """Wait for the result; return it, or the error, or the type of a `ValueError`."""
    try:
        return promise.result(LIMIT)
    except ValueError:
        return ValueError
    except BaseException as error:  # noqa: BLE001 - some are no `Exception`
        return error


EXIT = SystemExit()


@pytest.mark.parametrize(
    ("options", "ends", "items", "groups", "results"),
    [
        # By default 256 items form a group, and 4,096 wait.
        ({}, (), [3, 1, 2], [[3, 1, 2]], [30, 10, 20]),
        ({}, (), [1] * 4097, [[1] * 256] * 16, [10] * 4096),
        ({"capacity": 0}, (), [1], [[1]], [10]),
        # The group's limit, and that of the queue.
        ({"group": 2}, (), [1, 2, 3, 4, 5], [[1, 2], [3, 4], [5]], [10, 20, 30, 40, 50]),
        ({"group": 1, "backlog": 2}, (), [1, 2, 3], [[1], [2]], [10, 20]),
        # A group has the largest size at most, or a single larger item.
        (
            {"work_size": lambda item: item * LARGEST_GROUP // 8},
            (),
            [3, 4, 1, 1, 9, 8, 1],
            [[3, 4, 1], [1], [9], [8], [1]],
            [30, 40, 10, 10, 90, 80, 10],
        ),
        # Waiting items take up to the capacity together: no 5 besides 6 of 10, but a 4 and a 0.
        (
            {"capacity": 10, "size": lambda item: item},
            (),
            [11, 6, 5, 4, 1, 0],
            [[6, 4, 0]],
            [60, 40, 0],
        ),
        # What the work raises is the result of its group alone; so is a wrong number of results.
        ({"group": 2}, EXIT, [13, 1, 2, 3], [[13, 1], [2, 3]], [EXIT, EXIT, 20, 30]),
        *(
            ({"group": 2}, ends, [13, 1, 2], [[13, 1], [2]], [ValueError, ValueError, 20])
            for ends in (ValueError("no"), [1], [1, 2, 3])
        ),
    ],
)
def test_what_arrives_while_a_group_works_forms_the_next_groups(
    options: dict[str, Any],
    ends: Sequence[int] | BaseException,
    items: list[int],
    groups: list[list[int]],
    results: list[object],
) -> None:
    gate = _Gate(ends)
    with closing(GroupCommit(gate, **options)) as commit:
        first = gate.hold(commit)
        promises = [*_submit(commit, items)]
        assert commit.waiting() == len(promises)
        gate.opened.set()
        assert [*map(_result, promises)] == results
        assert (first.result(), commit.waiting()) == (0, 0)
        for item in (9, 10):  # with nobody at work, an item is a group of its own
            assert commit.submit(item).result(LIMIT) == item * 10
    assert gate.groups == [[0], *groups, [9], [10]]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_after_a_thread_ended_the_next_item_starts_another_for_the_same_queue() -> None:
    gate, ended = _Gate(), list[Thread]()

    def size(item: int) -> int:
        if item == 1 and not ended:
            ended.append(threading.current_thread())
            raise SystemExit
        return item

    with closing(GroupCommit(gate, work_size=size)) as commit:
        promises = [gate.hold(commit), commit.submit(1), commit.submit(2)]
        thread = commit._thread
        assert thread is not None
        gate.opened.set()
        thread.join(LIMIT)
        assert ended == [thread]
        promises.append(commit.submit(3))
        assert [*map(_result, promises)] == [0, 10, 20, 30]


def test_without_a_thread_an_item_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    gate = _Gate()
    gate.opened.set()
    with closing(GroupCommit(gate)) as commit:
        monkeypatch.setattr(Thread, "start", start)
        with pytest.raises(QueueFull):
            commit.submit(1)
        monkeypatch.undo()
        assert commit.submit(2).result(LIMIT) == 20
    assert gate.groups == [[2]]


def test_a_promise_ends_once_and_calls_all_that_wait(caplog: pytest.LogCaptureFixture) -> None:
    promise, called = Promise[int](), list[object]()
    with pytest.raises(TimeoutError):
        promise.result(0)
    promise.add_done_callback(lambda _: 1 / 0)
    promise.add_done_callback(called.append)
    assert [promise.set_result(1), promise.set_result(2)] == [True, False]
    assert not promise.set_exception(EXIT)
    promise.add_done_callback(called.append)
    assert (promise.result(), called) == (1, [promise, promise])
    assert caplog.messages == ["Who waits for a result raised ZeroDivisionError."]


def test_a_promise_that_a_deadline_ended_keeps_its_result() -> None:
    gate = _Gate()
    with closing(GroupCommit(gate)) as commit:
        late, other = gate.hold(commit), commit.submit(1)
        late.set_result(-1)
        gate.opened.set()
        assert (_result(late), _result(other)) == (-1, 10)


def test_at_exit_the_queue_is_finished_for_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[object, tuple[object, ...]] = {}
    monkeypatch.setattr(atexit, "register", lambda call, *values: calls.update({call: values}))
    monkeypatch.setattr(atexit, "unregister", lambda call: calls.pop(call, None))
    gate = _Gate()
    commit = GroupCommit(gate, group=2)
    assert calls == {}
    promises = [gate.hold(commit), *map(commit.submit, range(1, 6))]
    commit.close(0.01)
    assert calls == {commit.close: (10.0,)}
    assert not any(promise.done() for promise in promises)
    with pytest.raises(QueueFull):
        commit.submit(6)
    gate.opened.set()
    commit.close()
    assert [promise.done() for promise in promises] == [True] * 6
    assert gate.groups == [[0], [1, 2], [3, 4], [5]]
    assert calls == {}


def test_it_may_be_closed_unused_twice_and_by_its_own_work() -> None:
    unused = GroupCommit[int, int](lambda items: items)

    def work(items: Sequence[int]) -> Sequence[int]:
        used.close()
        return items

    used = GroupCommit(work)
    assert used.submit(1).result(LIMIT) == 1
    for commit in (unused, used):
        commit.close()
        commit.close()
        with pytest.raises(QueueFull):
            commit.submit(2)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_a_lock_queue_and_thread_of_its_own() -> None:
    parent, reached, opened = os.getpid(), Event(), Event()

    def size(_: int) -> int:
        if os.getpid() == parent:  # while it is called, the queue is locked
            reached.set()
            assert opened.wait(LIMIT)
        return 0

    commit = GroupCommit[int, tuple[int, int]](
        lambda items: [(os.getpid(), item) for item in items], work_size=size, backlog=1
    )
    first = commit.submit(1)
    assert reached.wait(LIMIT)
    if (child := os.fork()) == 0:
        try:
            same = commit.submit(2).result(LIMIT) == (os.getpid(), 2)
            os._exit(0 if same and not first.done() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    opened.set()
    assert first.result(LIMIT) == (parent, 1)
    with closing(commit):
        assert commit.submit(3).result(LIMIT) == (parent, 3)
