"""Periodic tasks: when they run, how long they pause, and what they do after a failure."""

import re
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from queue import SimpleQueue

import pytest

from hookrow import _concurrency
from hookrow._concurrency import PeriodicTask
from wire import PATIENCE, eventually

LONG = 3600.0


def at_thread_end(monkeypatch: pytest.MonkeyPatch, close: Callable[[], object]) -> None:
    """Let `close` be called instead of all other callbacks, and only in threads of the tasks.

    A thread of another test may end at the same time.
    """

    def callback() -> None:
        if threading.current_thread().name == "hookrow-work":
            close()

    monkeypatch.setattr(_concurrency, "AT_THREAD_END", {callback})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """Return a queue that receives an item each time connections are closed."""
    closed: SimpleQueue[str] = SimpleQueue()
    at_thread_end(monkeypatch, lambda: closed.put("closed"))
    return closed


def test_unfinished_work_continues_soon(pauses: SimpleQueue[str]) -> None:
    """Before a long pause, the thread closes its connections."""
    calls, done = iter([True, True, 1]), list[object]()

    def work() -> object:
        done.append(next(calls))
        return done[-1]

    with closing(PeriodicTask(work, seconds=LONG, name="work")) as task:
        task.start()
        assert pauses.get(timeout=PATIENCE) == "closed"
        assert len(done) == 3


@pytest.mark.parametrize(("duration", "pause"), [(20.0, 40.0), (45.0, 30.0)])
def test_the_interval_includes_the_call(
    monkeypatch: pytest.MonkeyPatch, duration: float, pause: float
) -> None:
    """At least half of it is a pause."""
    times = iter([0.0, duration])
    monkeypatch.setattr(_concurrency, "monotonic", lambda: next(times))
    task = PeriodicTask(lambda: None, seconds=60.0, name="work")
    assert task._attempt(task._work) == pause


def test_a_later_task_waits_for_its_first_interval(pauses: SimpleQueue[str]) -> None:
    """A process that ends earlier never starts the work."""
    done: list[None] = []
    with closing(
        PeriodicTask(lambda: done.append(None), seconds=LONG, name="work", later=True)
    ) as task:
        task.start()
    assert pauses.get(timeout=PATIENCE) == "closed"
    assert done == []


def test_a_task_continues_after_failures_until_it_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Failures of the work, and of closing its connections, are logged once.

    The text of an exception is logged only if it is expected.
    """
    monkeypatch.setattr(_concurrency, "LONG_PAUSE", 0.0)
    at_thread_end(monkeypatch, lambda: 1 / 0)
    calls: list[int] = []

    def work() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            raise ValueError("what")
        if len(calls) == 3:
            raise KeyError("secret value")
        if len(calls) == 4:
            sys.exit("secret value")  # a hook of the host

    task = PeriodicTask(work, seconds=0.001, name="work", expected=(ValueError,))
    task.start()
    eventually(lambda: len(calls) >= 6)
    task.close()
    count = len(calls)
    task.start()
    task.close()
    assert len(calls) == count
    place = re.escape(__file__)
    assert [re.sub(rf"{place}:\d+", "HERE", each) for each in caplog.messages] == [
        "The work failed: ValueError: what",
        "A thread could not close its connections: ZeroDivisionError at HERE",
        "The work failed: a bug raised KeyError at HERE",
    ]
    assert "in work\n" in caplog.text
    assert "KeyError: 'secret" not in caplog.text
