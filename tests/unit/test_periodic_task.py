"""Periodic tasks: when they begin, and how long they pause."""

import time
from contextlib import closing
from queue import SimpleQueue

import pytest

from hookrow import concurrency as periodic
from hookrow.concurrency import PeriodicTask

LONG = 3600.0
LIMIT = 60.0
"""In seconds; how long a test waits for an event that normally occurs immediately."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """Return a queue that receives an item each time connections are closed."""
    closed: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(periodic, "AT_THREAD_END", {lambda: closed.put("closed")})
    return closed


def test_unfinished_work_continues_soon(pauses: SimpleQueue[str]) -> None:
    """Before a long pause, the thread closes its connections."""
    calls = iter([True, True, 1])
    done: SimpleQueue[object] = SimpleQueue()

    def work() -> object:
        more = next(calls)
        done.put(more)
        return more

    with closing(PeriodicTask(work, seconds=LONG, name="work")) as task:
        task.start()
        assert pauses.get(timeout=LIMIT) == "closed"
        assert done.qsize() == 3


def test_a_connection_that_cannot_be_closed_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(periodic, "LONG_PAUSE", 0.0)
    monkeypatch.setattr(periodic, "AT_THREAD_END", {lambda: 1 / 0})
    done: SimpleQueue[None] = SimpleQueue()
    with closing(PeriodicTask(lambda: done.put(None), seconds=0.001, name="work")) as task:
        task.start()
        for _ in range(3):
            done.get(timeout=LIMIT)
    assert caplog.messages == ["A thread could not close its connections: ZeroDivisionError"]


def test_a_later_task_waits_for_its_first_interval(pauses: SimpleQueue[str]) -> None:
    """A process that ends earlier never starts the work."""
    done: list[float] = []
    with closing(
        PeriodicTask(lambda: done.append(time.monotonic()), seconds=LONG, name="w", later=True)
    ) as task:
        task.start()
    assert pauses.get(timeout=LIMIT) == "closed"
    assert done == []
