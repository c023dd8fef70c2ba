"""A deadline answers for those who are late, and never over one who answered."""

from __future__ import annotations

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from command import run_script
from hookrow.deadline import Deadline
from hookrow.promise import Promise

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come soon, on a machine that is busy."""


def _threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "hookrow-deadline"}


def _eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


def test_late() -> None:
    """A promise that takes too long ends with the given result, not before its time."""
    deadline = Deadline[str](0.1)
    began = time.monotonic()
    assert deadline.watch(Promise(), late="late").result(PATIENCE) == "late"
    assert time.monotonic() - began >= 0.1


def test_each_its_own_result(caplog: pytest.LogCaptureFixture) -> None:
    """Each promise ends with the result that it was given; that some were late is logged once."""
    deadline = Deadline[str](0.0625)  # a time of its own: another test's may end meanwhile
    line = "Not done within 0.0625 s: who waits is told so."
    promises = [deadline.watch(Promise(), late=str(number)) for number in range(5)]
    with caplog.at_level(logging.WARNING, "hookrow"):
        assert [promise.result(PATIENCE) for promise in promises] == ["0", "1", "2", "3", "4"]
        assert deadline.watch(Promise(), late="5").result(PATIENCE) == "5"
        assert _eventually(lambda: line in caplog.messages)
    assert [text for text in caplog.messages if "0.0625" in text] == [line]


def test_none_was_late(caplog: pytest.LogCaptureFixture) -> None:
    """Where all ended in time nobody is said to have been late."""
    deadline = Deadline[str](0.1875)  # as above
    before = _threads()
    with caplog.at_level(logging.WARNING, "hookrow"):
        promise = deadline.watch(Promise(), late="late")
        time.sleep(0.05)  # by now the thread sleeps, and will not see it end
        promise.set_result("in time")
        assert _eventually(lambda: not _threads() - before)
    assert not [text for text in caplog.messages if "0.1875" in text]


def test_the_same_future() -> None:
    """What is watched is handed back, so that it can be watched in passing."""
    promise: Promise[str] = Promise()
    promise.set_result("in time")
    assert Deadline[str](0.01).watch(promise, late="late") is promise


def test_in_time() -> None:
    """A promise that ended in time keeps its result when the deadline comes."""
    deadline = Deadline[str](0.05)
    promise, other = deadline.watch(Promise(), late="late"), deadline.watch(Promise(), late="late")
    promise.set_result("in time")
    assert other.result(PATIENCE) == "late"
    assert promise.result(0) == "in time"


def test_ended_behind_one_that_is_not() -> None:
    """A promise that ended while an older one is still open keeps its result."""
    deadline = Deadline[str](0.05)
    older, ended, newer = (deadline.watch(Promise(), late="late") for _ in range(3))
    ended.set_result("in time")
    assert older.result(PATIENCE) == newer.result(PATIENCE) == "late"
    assert ended.result(0) == "in time"


def test_failed_in_time() -> None:
    """A promise that ended with an error keeps it."""
    deadline = Deadline[str](0.01)
    promise, other = deadline.watch(Promise(), late="late"), deadline.watch(Promise(), late="late")
    promise.set_exception(ValueError("no"))
    assert other.result(PATIENCE) == "late"
    with pytest.raises(ValueError, match="no"):
        promise.result(0)


def test_who_comes_after_it() -> None:
    """Who works on after the deadline finds the promise ended, and changes nothing."""
    promise = Deadline[str](0.01).watch(Promise(), late="late")
    assert promise.result(PATIENCE) == "late"
    assert not promise.set_result("after all")
    assert promise.result(0) == "late"


def test_each_from_its_own_start() -> None:
    """Each promise has its time from when it was put under the deadline, in order."""
    deadline = Deadline[str](0.15)
    ended: list[int] = []
    started: list[float] = []
    promises: list[Promise[str]] = []
    for number in range(3):
        promise: Promise[str] = Promise()
        promise.add_done_callback(lambda _, number=number: ended.append(number))  # type: ignore[misc]
        started.append(time.monotonic())
        promises.append(deadline.watch(promise, late="late"))
        time.sleep(0.05)
    for promise, start in zip(promises, started, strict=True):
        assert promise.result(PATIENCE) == "late"
        assert time.monotonic() - start >= 0.15
    assert _eventually(lambda: len(ended) == 3)
    assert ended == [0, 1, 2]


def test_many() -> None:
    """A thousand promises under one deadline take one thread, and all that are late end."""
    deadline = Deadline[str](2.0)
    before = _threads()
    promises = [deadline.watch(Promise(), late="late") for _ in range(1000)]
    threads = _threads() - before
    assert len(threads) <= 1
    assert all(thread.daemon for thread in threads)
    for promise in promises[::2]:
        promise.set_result("in time")
    assert {promise.result(PATIENCE) for promise in promises[1::2]} == {"late"}
    assert {promise.result(0) for promise in promises[::2]} == {"in time"}


def test_waiting_costs_nothing() -> None:
    """While nothing is due the thread sleeps: it burns no processor time."""
    deadline = Deadline[str](0.3)
    before = time.process_time()
    assert deadline.watch(Promise(), late="late").result(PATIENCE) == "late"
    assert time.process_time() - before < 0.15


def test_the_ended_are_let_go() -> None:
    """What ended in time is let go when the next is watched, not kept until it would be due."""
    deadline = Deadline[str](PATIENCE)
    promise = deadline.watch(Promise(), late="late")
    time.sleep(0.05)  # by now the thread sleeps, and will not see it end
    promise.set_result("in time")
    gone = weakref.ref(promise)
    del promise
    other = deadline.watch(Promise(), late="late")
    gc.collect()
    assert gone() is None
    other.set_result("in time")


def test_thread_only_while_needed() -> None:
    """The thread comes with the first promise, goes with the last, and comes again."""
    before = _threads()
    deadline = Deadline[str](0.02)
    assert not _threads() - before
    for _ in range(3):
        promise = deadline.watch(Promise(), late="late")
        assert promise.result(PATIENCE) == "late"
        assert _eventually(lambda: not _threads() - before)


def test_a_callback_that_watches() -> None:
    """What hangs on a late promise may put another under the same deadline."""
    deadline = Deadline[str](0.01)
    first: Promise[str] = Promise()
    second: Promise[str] = Promise()

    def watch_second(_: Promise[str]) -> None:
        deadline.watch(second, late="late")

    first.add_done_callback(watch_second)
    deadline.watch(first, late="late")
    assert first.result(PATIENCE) == second.result(PATIENCE) == "late"


def test_fork() -> None:
    """A child watches with a thread of its own, also when forked under its parent's lock."""
    run_script(
        """
        import os, sys
        from hookrow.promise import Promise
        from hookrow.deadline import Deadline

        deadline = Deadline[str](0.1)
        mine = deadline.watch(Promise(), late="late")
        with deadline._lock:
            pid = os.fork()
        if pid == 0:
            assert deadline.watch(Promise(), late="late").result(20) == "late"
            assert not mine.done()
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert mine.result(20) == "late"
        assert deadline.watch(Promise(), late="late").result(20) == "late"
        """
    )


def test_no_thread_to_be_had() -> None:
    """Where the system gives no thread just then, the deadline holds for all that come later."""
    run_script(
        """
        import threading
        from hookrow.promise import Promise
        from hookrow.deadline import Deadline

        deadline = Deadline[str](0.05)
        threading.stack_size(1 << 46)  # more than there is of anything
        try:
            deadline.watch(Promise(), late="late")
        except RuntimeError:
            pass
        threading.stack_size(0)
        assert deadline.watch(Promise(), late="late").result(2) == "late"
        """
    )
