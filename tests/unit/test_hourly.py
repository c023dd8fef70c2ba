"""The task that updates the hourly counts: requests without a valid secret or with an old one."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from unittest.mock import patch

import pytest
from receiving import NOON, delivery, head, people, post, receive

from courier import Courier
from engines import MEMORY
from hookrow import Postmark, Receiver, Request
from hookrow._http import PROBE_AGENT
from hookrow._receiver import hourly
from hookrow._receiver.clock import utc_now
from hookrow._receiver.hourly import HourlyCount
from hookrow.providers import Event, Unauthentic
from hookrow.stores._errors import Unavailable
from hookrow.stores._log import RequestHour, RequestKind, Requests
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog
from times import HOUR, MINUTE
from wire import PATIENCE, SECRET, eventually

WRONG, OLD = RequestKind.WRONG_SECRET, RequestKind.OLD_SECRET


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


def numbers(log: SQLLog, kind: RequestKind) -> dict[str, int]:
    """Return the number of requests of each entry."""
    return {entry: each.number for entry, each in log.requests(kind, NOON).items()}


@pytest.fixture
def task(log: SQLLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[HourlyCount]:
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    monkeypatch.setattr("hookrow._concurrency.LONGEST_FAILURE_PAUSE", 0.01)
    with closing(HourlyCount(log, dict, utc_now)) as task:
        yield task


def test_requests_are_added_by_entry_and_hour(task: HourlyCount, log: SQLLog) -> None:
    """The first request starts the task, and each counts once, for its entry."""
    for at in (NOON, NOON + 59 * MINUTE, NOON + HOUR):
        task.add(WRONG, None, at)
    eventually(lambda: log.requests(WRONG, NOON) == {"": Requests(3, NOON, NOON + HOUR)})
    task.add(WRONG, "sendgrid", NOON)
    of_sendgrid = {"sendgrid": Requests(1, NOON, NOON)}
    eventually(
        lambda: log.requests(WRONG, NOON) == {"": Requests(3, NOON, NOON + HOUR), **of_sendgrid}
    )
    later = NOON + HOUR
    assert log.requests(WRONG, later) == {"": Requests(1, later, later)}


def test_an_outage(task: HourlyCount, log: SQLLog, caplog: pytest.LogCaptureFixture) -> None:
    """Counts of requests are kept while the database is unavailable."""
    with outage(log):
        task.add(WRONG, None, NOON)
        eventually(lambda: "The hourly count failed: Unavailable: gone" in caplog.messages)
        task.add(WRONG, None, NOON + HOUR)
    eventually(lambda: log.requests(WRONG, NOON) == {"": Requests(2, NOON, NOON + HOUR)})


def test_a_child_process_adds_only_its_own(task: HourlyCount, log: SQLLog) -> None:
    """After a fork, the parent process adds the requests that it has counted."""
    with outage(log):
        task.add(WRONG, None, NOON)
        task.close()
        task.reset()
        task.add(WRONG, None, NOON + HOUR)
        assert task._counts == {RequestHour(WRONG, "", NOON + HOUR): 1}


def test_a_receiver_counts_wrong_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests with a missing or wrong secret are counted, although no notification arrives."""
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    database = people("ada")
    log = database.log
    assert log is not None
    with closing(receive(database)) as receiver:
        assert receiver.admit(head(secret="wrong")) is not None
        eventually(lambda: numbers(log, WRONG) == {"": 1})
        assert receiver.admit(head()) is None
        names = {each.name for each in threading.enumerate()}
        assert "hookrow-hourly count" in names
    assert numbers(log, WRONG) == {"": 1}


def test_uses_of_old_secrets_are_added(log: SQLLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each counts once, for its entry."""
    monkeypatch.setattr(hourly, "COUNT_EVERY", 0.01)
    uses: dict[str | None, int] = {"a": 2, "b": 9}
    with closing(HourlyCount(log, lambda: dict(uses), utc_now)) as task:
        uses["a"] = 4
        task.start()
        eventually(lambda: numbers(log, OLD) == {"a": 2})
        uses |= {"a": 7, "b": 10}
        eventually(lambda: numbers(log, OLD) == {"a": 5, "b": 1})


def test_uses_before_a_reload_and_before_the_end_are_added() -> None:
    """Those of the last minute are written on close, although the secrets were replaced twice."""
    database, postmark = people("ada"), Postmark("new-secret", SECRET)
    assert database.log is not None
    with closing(Receiver(postmark, database)) as receiver:
        receiver.start()
        for number in range(3):
            assert receiver.admit(head()) is None
            postmark.accept(f"secret-{number}", SECRET)
    assert numbers(database.log, OLD) == {"": 3}


def test_a_database_that_is_away_at_the_end(log: SQLLog, caplog: pytest.LogCaptureFixture) -> None:
    """Closing the task logs this, and ends."""
    with outage(log), closing(HourlyCount(log, dict, utc_now)) as task:
        task.add(WRONG, None, NOON)
    assert caplog.messages == ["The hourly count failed: Unavailable: gone"]


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"secret": "wrong"}, RequestKind.WRONG_SECRET),
        ({"secret": ""}, RequestKind.MISSING_SECRET),
        ({"secret": "wrong", "user-agent": PROBE_AGENT.decode()}, None),
    ],
)
def test_a_401_is_counted_by_its_kind(headers: dict[str, str], kind: RequestKind | None) -> None:
    """Those to `hookrow check URL` are not counted: they are none of the provider's."""
    database = people()
    assert database.log is not None
    with closing(receive(database)) as receiver:
        assert receiver.admit(head(**headers)) is not None
    assert {*database.log.requests_by_kind(NOON)} == ({kind} if kind else set())


def test_an_expired_signature_is_counted_as_such() -> None:
    database = people()
    assert database.log is not None
    with closing(Receiver(Expiring(), database)) as receiver:
        receiver(Request(head(), b"{}"))
    assert {*database.log.requests_by_kind(NOON)} == {RequestKind.EXPIRED}


class Expiring(Courier):
    """Refuses all requests, because they were signed too long ago."""

    def read(self, request: Request) -> Sequence[Event]:
        del request
        raise Unauthentic('Signature error="expired"')


def test_a_503_is_counted() -> None:
    """As that of a notification which nothing has kept."""
    database = people("ada")
    assert database.log is not None
    with closing(receive(database)) as receiver:
        assert post(receiver, delivery("ada")).status == 200
        assert post(receiver, delivery("nobody")).status == 404
        database.away = True
        assert post(receiver, delivery("ada")).status == 503
        assert receiver.results.losses(PATIENCE) is not None
    assert numbers(database.log, RequestKind.UNAVAILABLE) == {"": 1}
