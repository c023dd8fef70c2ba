"""Periodic: work goes on, whatever it raises, until it is closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from threading import Event, Thread, current_thread

import pytest

from command import run_script
from hookrow.periodic import Periodic
from wire import eventually

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come soon, on a machine that is busy."""


@pytest.fixture
def times() -> list[float]:
    """Return a list for when the work was done."""
    return []


@pytest.fixture
def working(times: list[float]) -> Iterator[Periodic]:
    """Do work every 10 ms, once it is started."""
    with closing(
        Periodic(lambda: times.append(time.monotonic()), seconds=0.01, name="test")
    ) as periodic:
        yield periodic


def _often(times: list[float], more: int = 3) -> Callable[[], bool]:
    wanted = len(times) + more
    return lambda: len(times) >= wanted


def test_again_and_again(working: Periodic, times: list[float]) -> None:
    """Once it is started the work is done at once, and again and again, with pauses."""
    before = set(threading.enumerate())
    assert not times
    for _ in range(5):
        working.start()
    (thread,) = set(threading.enumerate()) - before
    assert (thread.name, thread.daemon) == ("hookrow-test", True)
    eventually(_often(times, 5))
    assert all(later - earlier >= 0.01 for earlier, later in pairwise(times))


def test_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What closes the thread's own things is called once, in the thread, when it was closed."""
    worked: list[Thread] = []
    ended: list[Thread] = []
    monkeypatch.setattr("hookrow.periodic.LAST", {lambda: ended.append(current_thread())})
    with closing(
        Periodic(lambda: worked.append(current_thread()), seconds=0.01, name="test")
    ) as periodic:
        periodic.start()
        eventually(lambda: len(worked) > 1)
        assert not ended
    assert ended == worked[:1]


def test_at_once() -> None:
    """The first time does not wait."""
    done = Event()
    with closing(Periodic(done.set, seconds=3600.0, name="test")) as periodic:
        periodic.start()
        assert done.wait(PATIENCE)


def test_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """What the work raises is logged, once, and the next time comes all the same."""
    times: list[float] = []

    def fail() -> None:
        times.append(0.0)
        raise ValueError("what")

    with (
        caplog.at_level(logging.DEBUG, "hookrow"),
        closing(Periodic(fail, seconds=0.001, name="sweep")) as periodic,
    ):
        periodic.start()
        eventually(_often(times, 10))
    assert caplog.messages == ["The sweep failed: ValueError: what"]


def test_closed(working: Periodic, times: list[float]) -> None:
    """After it was closed nothing begins any more, and it cannot be started again."""
    working.start()
    eventually(_often(times))
    working.close()
    done = len(times)
    working.start()
    working.close()
    time.sleep(0.05)
    assert len(times) == done


def test_closed_before_it_began(working: Periodic, times: list[float]) -> None:
    """What never began can be closed, and then never begins."""
    working.close()
    working.start()
    time.sleep(0.05)
    assert not times


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_closed_in_the_middle(timeout: float | None) -> None:
    """Who closes waits for what is at work, unless it takes longer than there is time."""
    begun, go_on, ended = Event(), Event(), Event()

    def work() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        ended.set()

    periodic = Periodic(work, seconds=0.0, name="test")
    periodic.start()
    assert begun.wait(PATIENCE)
    if timeout is None:
        threading.Timer(0.05, go_on.set).start()
    periodic.close(timeout)
    assert ended.is_set() is (timeout is None)
    go_on.set()
    periodic.close(PATIENCE)
    assert ended.is_set()


def test_closed_by_its_own_work() -> None:
    """Work may close what it is done by: it does not wait for itself."""
    periodics: list[Periodic] = []
    times: list[float] = []

    def work() -> None:
        periodics[0].close()
        times.append(0.0)

    periodics.append(Periodic(work, seconds=0.0, name="test"))
    periodics[0].start()
    periodics[0].close(PATIENCE)
    assert len(times) == 1


def test_fork() -> None:
    """A child has to start it again, also when forked under its parent's lock; the parent not."""
    run_script(
        """
        import os, sys, time
        from hookrow.periodic import Periodic

        def work():
            done.append(os.getpid())

        def wait(count):
            until = time.monotonic() + 20
            while len(done) < count:
                assert time.monotonic() < until
                time.sleep(0.005)

        done = []
        periodic = Periodic(work, seconds=0.01, name="test")
        periodic.start()
        wait(2)
        with periodic._lock:
            pid = os.fork()
        if pid == 0:
            done.clear()
            time.sleep(0.05)
            assert not done
            periodic.start()
            wait(2)
            assert set(done) == {os.getpid()}
            periodic.close(20)
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        wait(len(done) + 2)
        periodic.close(20)
        """
    )


def test_closed_then_forked() -> None:
    """What was closed stays so in a child: nothing begins there any more."""
    run_script(
        """
        import os, sys, time
        from hookrow.periodic import Periodic

        done = []
        periodic = Periodic(lambda: done.append(0), seconds=0.01, name="test")
        periodic.start()
        periodic.close(20)
        pid = os.fork()
        if pid == 0:
            done.clear()
            periodic.start()
            time.sleep(0.05)
            assert not done
            periodic.close(20)
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        """
    )


def test_no_thread_to_be_had() -> None:
    """Where the system gives no thread just then, the next start is tried as the first was."""
    run_script(
        """
        import threading
        from hookrow.periodic import Periodic

        done = threading.Event()
        periodic = Periodic(done.set, seconds=0.01, name="test")
        threading.stack_size(1 << 46)  # more than there is of anything
        periodic.start()
        threading.stack_size(0)
        assert not done.wait(0.05)
        periodic.start()
        assert done.wait(20)
        periodic.close(20)
        """
    )
