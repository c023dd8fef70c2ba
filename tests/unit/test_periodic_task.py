"""Work that is done again and again: when it begins, and how long it pauses."""

import time
from contextlib import closing
from queue import SimpleQueue

import pytest

from hookrow import concurrency as periodic
from hookrow.concurrency import PeriodicTask

LONG = 3600.0
LIMIT = 60.0
"""In seconds; how long a test waits for something that usually comes at once."""


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """Return what is told each time that connections are closed."""
    told: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(periodic, "AT_THREAD_END", {lambda: told.put("closed")})
    return told


def test_more_to_do(rests: SimpleQueue[str]) -> None:
    """If there is more to do, it continues soon; then it rests, without connections."""
    calls = iter([True, True, 1])
    done: SimpleQueue[object] = SimpleQueue()

    def work() -> object:
        more = next(calls)
        done.put(more)
        return more

    with closing(PeriodicTask(work, seconds=LONG, name="work")) as task:
        task.start()
        assert rests.get(timeout=LIMIT) == "closed"
        assert done.qsize() == 3


def test_a_connection_that_cannot_be_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the work goes on."""
    monkeypatch.setattr(periodic, "LONG_PAUSE", 0.0)
    monkeypatch.setattr(periodic, "AT_THREAD_END", {lambda: 1 / 0})
    done: SimpleQueue[None] = SimpleQueue()
    with closing(PeriodicTask(lambda: done.put(None), seconds=0.001, name="work")) as task:
        task.start()
        for _ in range(3):
            done.get(timeout=LIMIT)
    assert caplog.messages == ["A thread could not close its connections: ZeroDivisionError"]


def test_later(rests: SimpleQueue[str]) -> None:
    """Work that comes later is not done in a process that ends before."""
    done: list[float] = []
    with closing(
        PeriodicTask(lambda: done.append(time.monotonic()), seconds=LONG, name="w", later=True)
    ) as task:
        task.start()
    assert rests.get(timeout=LIMIT) == "closed"
    assert done == []
