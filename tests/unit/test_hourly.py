"""The task that updates the hourly counts: requests without a valid secret or with an old one."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from unittest.mock import patch

import pytest
from receiving import NOON, head, people, receive

from engines import MEMORY
from hookrow import Postmark, Receiver
from hookrow._receiver import hourly
from hookrow._receiver.clock import utc_now
from hookrow._receiver.hourly import HourlyCount
from hookrow.stores._errors import Unavailable
from hookrow.stores._log import RequestKind
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog
from times import HOUR, MINUTE
from wire import SECRET, eventually

WRONG, OLD = RequestKind.UNAUTHENTIC, RequestKind.OLD_SECRET


@pytest.fixture
def log() -> Iterator[SQLLog]:
    with closing(SQLStore(MEMORY)) as store:
        assert store.log is not None
        yield store.log


@contextmanager
def outage(log: SQLLog) -> Iterator[None]:
    """Let the database be unavailable to the task in the block."""
    with patch.object(log, "add_requests", side_effect=Unavailable("gone")):
        yield


@pytest.fixture
def task(log: SQLLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[HourlyCount]:
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    monkeypatch.setattr("hookrow._concurrency.LONGEST_FAILURE_PAUSE", 0.01)
    with closing(HourlyCount(log, int, utc_now)) as task:
        yield task


def test_requests_are_added_by_hour(task: HourlyCount, log: SQLLog) -> None:
    """The first request starts the task, and each counts once."""
    for at in (NOON, NOON + 59 * MINUTE, NOON + HOUR):
        task.add(WRONG, at)
    eventually(lambda: log.requests(WRONG, NOON) == (3, NOON, NOON + HOUR))
    task.add(WRONG, NOON)
    eventually(lambda: log.requests(WRONG, NOON) == (4, NOON, NOON + HOUR))
    assert log.requests(WRONG, NOON + HOUR) == (1, NOON + HOUR, NOON + HOUR)


def test_an_outage(task: HourlyCount, log: SQLLog, caplog: pytest.LogCaptureFixture) -> None:
    """Counts of requests are kept while the database is unavailable."""
    with outage(log):
        task.add(WRONG, NOON)
        eventually(lambda: "The hourly count failed: Unavailable: gone" in caplog.messages)
        task.add(WRONG, NOON + HOUR)
    eventually(lambda: log.requests(WRONG, NOON) == (2, NOON, NOON + HOUR))


def test_a_child_process_adds_only_its_own(task: HourlyCount, log: SQLLog) -> None:
    """After a fork, the parent process adds the requests that it has counted."""
    with outage(log):
        task.add(WRONG, NOON)
        task.close()
        task.reset()
        task.add(WRONG, NOON + HOUR)
        assert task._counts == {(WRONG, NOON + HOUR): 1}


def test_a_receiver_counts_wrong_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests with a missing or wrong secret are counted, although no notification arrives."""
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    database = people("ada")
    log = database.log
    assert log is not None
    with closing(receive(database)) as receiver:
        assert receiver.admit(head(secret="wrong")) is not None
        eventually(lambda: log.requests(WRONG, NOON).number == 1)
        assert receiver.admit(head()) is None
        names = {each.name for each in threading.enumerate()}
        assert "hookrow-hourly count" in names
    assert log.requests(WRONG, NOON).number == 1


def test_uses_of_old_secrets_are_added(log: SQLLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counts once."""
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    uses = 2
    with closing(HourlyCount(log, lambda: uses, utc_now)) as task:
        uses = 4
        task.start()
        eventually(lambda: log.requests(OLD, NOON).number == 2)
        uses = 7
        eventually(lambda: log.requests(OLD, NOON).number == 5)


def test_uses_before_a_reload_and_before_the_end_are_added() -> None:
    """Those of the last minute are written on close, although the secrets were replaced twice."""
    database, postmark = people("ada"), Postmark("new-secret", SECRET)
    assert database.log is not None
    with closing(Receiver(postmark, database)) as receiver:
        receiver.start()
        for number in range(3):
            assert receiver.admit(head()) is None
            postmark.accept(f"secret-{number}", SECRET)
    assert database.log.requests(OLD, NOON).number == 3


def test_a_database_that_is_away_at_the_end(log: SQLLog, caplog: pytest.LogCaptureFixture) -> None:
    """Closing the task logs this, and ends."""
    with outage(log), closing(HourlyCount(log, int, utc_now)) as task:
        task.add(WRONG, NOON)
    assert caplog.messages == ["The hourly count failed: Unavailable: gone"]
