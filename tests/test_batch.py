"""Group commit: what gathers while one group works, and how it ends, with real threads."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import closing
from threading import Event, Thread

import pytest

from command import run_script
from hookrow.batch import GroupCommit, Overloaded
from hookrow.promise import Promise
from hookrow.sizes import LARGEST_GROUP

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come at once, on a machine that is busy."""


class _Gate:
    """Work that stops at a gate until it opens: meanwhile the next group gathers."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.threads: set[Thread] = set()
        self.reached = Event()
        self.opened = Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.groups.append(list(items))
        self.threads.add(threading.current_thread())
        self.reached.set()
        assert self.opened.wait(PATIENCE)
        return [item * 10 for item in items]


def _at_the_gate(commit: GroupCommit[int, int], gate: _Gate) -> Promise[int]:
    """Submit a 0 and wait until it is at the gate, alone."""
    first = commit.submit(0)
    assert gate.reached.wait(PATIENCE)
    return first


def _end(promise: Promise[int]) -> int | BaseException:
    """Wait for the end; return the result, or the error."""
    try:
        return promise.result(PATIENCE)
    except BaseException as error:  # noqa: BLE001 - some are no `Exception`
        return error


def _results(promises: Sequence[Promise[int]]) -> list[int]:
    return [promise.result(PATIENCE) for promise in promises]


class TestGroups:
    def test_a_result_each(self) -> None:
        """An item's promise ends with the item's own result."""
        with closing(GroupCommit[int, str](lambda items: [str(item) for item in items])) as commit:
            assert [commit.submit(item).result(PATIENCE) for item in range(3)] == ["0", "1", "2"]

    def test_gathers_while_one_group_works(self) -> None:
        """What comes while a group works is the next group, in order of arrival."""
        gate = _Gate()
        with closing(GroupCommit(gate)) as commit:
            promises = [_at_the_gate(commit, gate), *map(commit.submit, (3, 1, 2))]
            gate.opened.set()
            assert _results(promises) == [0, 30, 10, 20]
        assert gate.groups == [[0], [3, 1, 2]]

    def test_no_lingering(self) -> None:
        """An item that finds nobody at work is a group of its own, at once."""
        gate = _Gate()
        gate.opened.set()
        with closing(GroupCommit(gate)) as commit:
            for item in range(3):
                assert commit.submit(item).result(PATIENCE) == item * 10
        assert gate.groups == [[0], [1], [2]]

    def test_group_limit(self) -> None:
        """A group has at most as many members as it may; the others are the groups after it."""
        gate = _Gate()
        with closing(GroupCommit(gate, group=2)) as commit:
            promises = [_at_the_gate(commit, gate), *map(commit.submit, range(1, 6))]
            gate.opened.set()
            assert _results(promises) == [0, 10, 20, 30, 40, 50]
        assert gate.groups == [[0], [1, 2], [3, 4], [5]]

    def test_many_callers(self) -> None:
        """Many threads share one; each gets its own results, and its items stay in order."""
        gate = _Gate()
        gate.opened.set()
        mistakes: list[object] = []

        def call(start: int) -> None:
            promises = [commit.submit(item) for item in range(start, start + 100)]
            mistakes.extend(
                promise
                for item, promise in enumerate(promises, start)
                if promise.result(PATIENCE) != item * 10
            )

        with closing(GroupCommit(gate, group=7)) as commit:
            callers = [Thread(target=call, args=(start,)) for start in range(0, 800, 100)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(PATIENCE)
        assert not mistakes
        assert len(gate.threads) == 1
        assert max(map(len, gate.groups)) <= 7
        worked = [item for group in gate.groups for item in group]
        assert sorted(worked) == list(range(800))
        for start in range(0, 800, 100):
            own = [item for item in worked if start <= item < start + 100]
            assert own == sorted(own)

    def test_no_thread_before_the_first_item(self) -> None:
        """The thread starts with the first item: what is only built can be forked."""
        before = set(threading.enumerate())
        commit = GroupCommit[int, int](lambda items: items)
        assert not set(threading.enumerate()) - before
        with closing(commit):
            commit.submit(1).result(PATIENCE)
            (thread,) = set(threading.enumerate()) - before
        assert (thread.name, thread.daemon) == ("hookrow", True)
        assert not thread.is_alive()

    def test_nothing_is_kept(self) -> None:
        """A thread that waits for work keeps nothing of the group that it did last."""

        class Item:
            pass

        item = Item()
        gone = weakref.ref(item)
        with closing(GroupCommit[Item, int](lambda items: [1] * len(items))) as commit:
            commit.submit(item).result(PATIENCE)
            del item
            until = time.monotonic() + 1.0
            while gone() is not None and time.monotonic() < until:
                gc.collect()
                time.sleep(0.01)
            assert gone() is None


class TestBacklog:
    def test_by_count(self) -> None:
        """As many items wait as may; one more is turned away, until some are taken."""
        gate = _Gate()
        with closing(GroupCommit(gate, backlog=2)) as commit:
            promises = [_at_the_gate(commit, gate), commit.submit(1), commit.submit(2)]
            with pytest.raises(Overloaded):
                commit.submit(3)
            gate.opened.set()
            assert _results(promises) == [0, 10, 20]
            assert commit.submit(4).result(PATIENCE) == 40
        assert gate.groups == [[0], [1, 2], [4]]

    def test_by_weight(self) -> None:
        """As much waits as may by weight; what is too heavy now may come when that is taken."""
        gate = _Gate()
        with closing(GroupCommit(gate, capacity=10, size=lambda item: item)) as commit:
            promises = [_at_the_gate(commit, gate), commit.submit(6)]
            with pytest.raises(Overloaded):
                commit.submit(5)
            promises.append(commit.submit(4))
            with pytest.raises(Overloaded):
                commit.submit(1)
            promises.append(commit.submit(0))
            gate.opened.set()
            assert _results(promises) == [0, 60, 40, 0]
            assert commit.submit(10).result(PATIENCE) == 100
        assert gate.groups == [[0], [6, 4, 0], [10]]

    def test_by_size_at_work(self) -> None:
        """A group takes what is within its size, and at least one item."""
        gate = _Gate()
        commit = GroupCommit(gate, work_size=lambda item: item * LARGEST_GROUP // 8)
        with closing(commit):
            promises = [_at_the_gate(commit, gate), *map(commit.submit, (3, 4, 1, 1, 9, 8, 1))]
            gate.opened.set()
            _results(promises)
        assert gate.groups == [[0], [3, 4, 1], [1], [9], [8], [1]]

    def test_heavier_than_all(self) -> None:
        """An item that is heavier than all that may wait is turned away, and starts nothing."""
        before = set(threading.enumerate())
        commit = GroupCommit[int, int](lambda items: items, capacity=10, size=lambda item: item)
        with pytest.raises(Overloaded):
            commit.submit(11)
        assert not set(threading.enumerate()) - before

    def test_limits_of_its_own(self) -> None:
        """Unless told otherwise 4,096 items may wait, and 256 make a group."""
        gate = _Gate()
        with closing(GroupCommit(gate)) as commit:
            promises = [_at_the_gate(commit, gate), *map(commit.submit, range(4096))]
            with pytest.raises(Overloaded):
                commit.submit(4096)
            gate.opened.set()
            _results(promises)
        assert [len(group) for group in gate.groups] == [1, *[256] * 16]


class _Exit(BaseException):
    """No `Exception`, as the ends of an interpreter are none."""


class TestFailures:
    @pytest.mark.parametrize("fault", [ValueError("no"), _Exit()], ids=["error", "exit"])
    def test_work_that_raises(self, fault: BaseException) -> None:
        """What the work raises is the end of all in its group, and of no other."""
        gate = _Gate()

        def work(items: Sequence[int]) -> list[int]:
            results = gate(items)
            if 13 in items:
                raise fault
            return results

        with closing(GroupCommit(work, group=2)) as commit:
            promises = [_at_the_gate(commit, gate), *map(commit.submit, (13, 1, 2, 3))]
            gate.opened.set()
            assert [_end(promise) for promise in promises] == [0, fault, fault, 20, 30]
            assert commit.submit(4).result(PATIENCE) == 40

    @pytest.mark.parametrize("results", [[], [1], [1, 2, 3]], ids=["none", "too few", "too many"])
    def test_not_a_result_each(self, results: list[int]) -> None:
        """Work that does not return a result an item fails its group, and the thread goes on."""
        gate = _Gate()

        def work(items: Sequence[int]) -> list[int]:
            gate(items)
            return results if len(items) == 2 else list(items)

        commit = GroupCommit(work)
        try:
            _, *promises = [_at_the_gate(commit, gate), commit.submit(1), commit.submit(2)]
            gate.opened.set()
            assert all(isinstance(_end(promise), ValueError) for promise in promises)
            assert commit.submit(3).result(PATIENCE) == 3
        finally:
            commit.close(PATIENCE)

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_thread_that_ended(self) -> None:
        """The next item starts the thread again, which finds what was queued before."""
        gate = _Gate()

        def size(item: int) -> int:
            if item == 1 and threading.current_thread() in gate.threads and not ended:
                ended.append(threading.current_thread())
                raise SystemExit
            return item

        ended: list[Thread] = []
        with closing(GroupCommit(gate, work_size=size)) as commit:
            promises = [_at_the_gate(commit, gate), commit.submit(1), commit.submit(2)]
            gate.opened.set()
            assert promises[0].result(PATIENCE) == 0
            (thread,) = gate.threads
            thread.join(PATIENCE)
            assert ended == [thread]
            promises.append(commit.submit(3))
            assert _results(promises) == [0, 10, 20, 30]

    def test_answered_by_another(self) -> None:
        """A promise that somebody ended meanwhile, as a deadline does, keeps that result."""
        gate = _Gate()
        with closing(GroupCommit(gate)) as commit:
            late, other = _at_the_gate(commit, gate), commit.submit(1)
            late.set_result(-1)
            gate.opened.set()
            assert _results([late, other]) == [-1, 10]


class TestClose:
    def test_drains(self) -> None:
        """Closing finishes what is queued, in groups as ever, and ends the thread."""
        gate = _Gate()
        commit = GroupCommit(gate, group=2)
        promises = [_at_the_gate(commit, gate), *map(commit.submit, range(1, 6))]
        closer = Thread(target=commit.close)
        closer.start()
        assert not any(promise.done() for promise in promises)
        gate.opened.set()
        closer.join(PATIENCE)
        assert not closer.is_alive()
        assert all(promise.done() for promise in promises)
        assert _results(promises) == [0, 10, 20, 30, 40, 50]
        assert not any(thread.is_alive() for thread in gate.threads)

    def test_takes_no_more(self) -> None:
        """From the moment it closes it takes no item, also while it still works."""
        gate = _Gate()
        commit = GroupCommit(gate)
        first = _at_the_gate(commit, gate)
        commit.close(timeout=0)
        with pytest.raises(Overloaded):
            commit.submit(1)
        gate.opened.set()
        assert first.result(PATIENCE) == 0
        commit.close()
        with pytest.raises(Overloaded):
            commit.submit(2)
        assert gate.groups == [[0]]

    def test_timeout(self) -> None:
        """Closing waits for hanging work no longer than told, and the work may end later."""
        gate = _Gate()
        commit = GroupCommit(gate)
        promises = [_at_the_gate(commit, gate), commit.submit(1)]
        commit.close(timeout=0.01)
        assert not any(promise.done() for promise in promises)
        gate.opened.set()
        assert _results(promises) == [0, 10]

    def test_again_and_before_any_work(self) -> None:
        """Closing twice, or with nothing ever done, is no fault."""
        commit = GroupCommit[int, int](lambda items: items)
        commit.close()
        commit.close()
        used = GroupCommit[int, int](lambda items: items)
        assert used.submit(1).result(PATIENCE) == 1
        used.close()
        used.close()
        for closed in (commit, used):
            with pytest.raises(Overloaded):
                closed.submit(2)


class TestProcess:
    def test_last_words(self) -> None:
        """An interpreter that exits finishes what is queued first."""
        printed = run_script(
            """
            import time
            from hookrow.batch import GroupCommit

            def work(items):
                time.sleep(0.05)
                print(*items, flush=True)
                return items

            commit = GroupCommit(work, group=1)
            for item in range(4):
                commit.submit(item)
            """
        )
        assert printed.split() == ["0", "1", "2", "3"]

    def test_fork_after_the_start(self) -> None:
        """A child starts a thread of its own, and leaves to its parent what was queued there."""
        run_script(
            """
            import os, sys, threading
            from hookrow.batch import GroupCommit

            reached, opened = threading.Event(), threading.Event()

            def work(items):
                if "first" in items:
                    reached.set()
                    assert opened.wait(20)
                return [(os.getpid(), item) for item in items]

            commit = GroupCommit(work)
            first = commit.submit("first")
            assert reached.wait(20)
            second = commit.submit("second")
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                assert commit.submit("third").result(20) == (os.getpid(), "third")
                assert not first.done() and not second.done()
                commit.close()
                sys.exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            opened.set()
            assert first.result(20) == (parent, "first")
            assert second.result(20) == (parent, "second")
            assert commit.submit("fourth").result(20) == (parent, "fourth")
            """
        )

    def test_fork_while_it_is_locked(self) -> None:
        """A child is not held up by a lock that a thread of its parent held as it was forked."""
        run_script(
            """
            import os, sys, threading
            from hookrow.batch import GroupCommit

            commit = GroupCommit(lambda items: items, backlog=1)
            held, opened = threading.Event(), threading.Event()

            def hold():
                with commit._changed:
                    held.set()
                    assert opened.wait(20)

            holder = threading.Thread(target=hold)
            holder.start()
            assert held.wait(20)
            pid = os.fork()
            if pid == 0:
                assert commit.submit("child").result(20) == "child"
                sys.exit(0)
            opened.set()
            holder.join()
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert commit.submit("parent").result(20) == "parent"
            """
        )

    def test_no_thread_to_be_had(self) -> None:
        """Where the system gives no thread nothing is queued, and later all is well again."""
        run_script(
            """
            import threading
            from hookrow.batch import GroupCommit, Overloaded

            done = []

            def work(items):
                done.extend(items)
                return items

            commit = GroupCommit(work)
            threading.stack_size(1 << 46)  # more than there is of anything
            try:
                commit.submit("lost")
            except (Overloaded, RuntimeError):
                pass
            else:
                raise SystemExit("a thread was started")
            threading.stack_size(0)
            assert commit.submit("kept").result(20) == "kept"
            assert done == ["kept"], done
            """
        )
