"""Retry: parked notifications are recorded once their rows exist, by a sweep or `retry_now`."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from receiving import NOON, Database, encode, people, post, receive, suppression

from copying import replace
from hookrow import Arrival, ConfigurationError, Outcome, testing
from hookrow._core.result import Result
from hookrow._receiver.clock import Clock, utc_now
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.recorder import keep_failed, record
from hookrow._receiver.replay import ParkedRetry
from hookrow.stores._errors import Unavailable
from received import arrival
from wire import ADA, PATIENCE, eventually


def opening(number: int) -> dict[str, Any]:
    """Return an open of one of Ada's messages."""
    return testing.opening(ADA, f"m-{number}", at=NOON)


def arrivals(*payloads: Any, ago: timedelta = timedelta()) -> list[Arrival]:  # noqa: ANN401 - payloads
    return [arrival(encode(each), datetime.now(UTC) - ago) for each in payloads]


class Site:
    """A database with one subscriber, and the retry of its parked notifications."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tables = database.tables
        self.sent: list[int] = []
        self.recorded: list[list[bytes]] = []
        assert database.log is not None
        self.log = database.log
        self.retry = ParkedRetry(database, self.log, POSTMARK, self._on_outcomes, Clock(database))

    def _on_outcomes(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        assert len(arrivals) == len(outcomes)
        self.recorded.append([each.body for each in arrivals])

    def send(self, *numbers: int) -> None:
        """Insert dispatches, as the host does after it has sent a mail."""
        self.sent += numbers
        for number in numbers:
            self.tables.add_dispatch(f"m-{number}", subscriber=1)

    def make_due(self) -> None:
        """Let the retry of each parked notification be due."""
        with self.database.database.transaction() as connection:
            connection.execute(
                "UPDATE hookrow_notifications SET retry_at = %s WHERE status <> 200",
                [self.database.role_tables.dialect.write(NOON)],
            )

    def sweep(self) -> int:
        """Make all parked notifications due, and retry them."""
        self.make_due()
        return self.retry.retry_due()

    def opened(self) -> dict[int, datetime]:
        """Return the times at which dispatches were opened."""
        times = {number: self.tables.dispatch(f"m-{number}").opened_at for number in self.sent}
        return {number: at for number, at in times.items() if at is not None}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow._receiver.replay.REPLAY_PAUSE", 0.0)


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(people("ada")) as database:
        yield Site(database)


def test_a_sweep_records_due_notifications_whose_rows_exist(site: Site) -> None:
    record(site.database, arrivals(opening(1), opening(2), suppression("eve")))
    keep_failed(site.database, arrivals(opening(3)), clock=utc_now)
    keep_failed(site.database, arrivals(opening(4)), bodies=False, clock=utc_now)
    site.send(2, 3, 4)
    assert site.retry.retry_due() == 0  # nothing is due yet
    before = {each.fingerprint: each for each in site.database.logged()}
    assert site.sweep() == 2
    assert site.opened() == {2: NOON, 3: NOON}
    for each in site.database.logged():
        if each.message_id in {"m-2", "m-3"}:
            assert (each.outcome, each.status, each.retry_at) == (Result.RECORDED, 200, None)
            assert each.attempts == 1
        else:  # an entry without a body is not retried
            assert (each.retry_at or NOON) > datetime.now(UTC)
            retried: Any = {"retry_at": each.retry_at, "retries": each.retries}
            assert each == replace(before[each.fingerprint], **retried)
    assert {each.retries for each in site.database.logged()} == {1}
    assert [*filter(None, site.recorded)] == [[encode(opening(2))], [encode(opening(3))]]
    assert site.retry.retry_due() == 0


def test_failing_notifications_precede_those_without_rows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are retried even if the search for notifications whose rows exist fails."""
    monkeypatch.setattr(site.log, "hopeful", Mock(side_effect=Unavailable("gone")))
    record(site.database, arrivals(opening(2)))
    keep_failed(site.database, arrivals(opening(3)), clock=utc_now)
    site.send(2, 3)
    assert site.sweep() == 2
    assert site.recorded == [[encode(opening(3))], [encode(opening(2))]]


def test_sweeps_take_groups(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow._receiver.replay.MAX_IDS", 8)
    monkeypatch.setattr("hookrow._receiver.replay.MAX_REPLAY_GROUP", 4)
    numbers = range(2, 14)
    record(site.database, arrivals(*map(opening, numbers)))
    site.send(*numbers)
    assert [site.sweep(), site.sweep()] == [12, 0]
    assert [len(group) for group in site.recorded] == [4, 4, 4]
    assert {each.attempts for each in site.database.logged()} == {1}


def test_notifications_interrupted_by_an_outage_are_due_again(site: Site) -> None:
    record(site.database, arrivals(opening(2)))
    site.send(2)
    site.database.away = True
    with pytest.raises(Unavailable):
        site.sweep()
    site.database.away = False
    assert site.sweep() == 1


def test_receiver_sweeps_and_calls_hooks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow._receiver.receiver.SWEEP_EVERY", 0.01)
    bodies: list[bytes] = []
    record(site.database, arrivals(opening(2), ago=timedelta(minutes=2)))
    site.make_due()
    site.send(2)
    with closing(
        receive(site.database, sweep=True, on_recorded=lambda each, _: bodies.append(each.body))
    ) as receiver:
        receiver.start()
        eventually(lambda: site.opened() == {2: NOON})
    assert bodies == [encode(opening(2))]


def test_retry_now_records_notifications_that_arrived_before_their_rows(site: Site) -> None:
    receiver = receive(site.database)
    numbers = range(2, 100)  # more than a group
    for payload in (testing.delivery(ADA, "m-2", at=NOON), *map(opening, numbers)):
        assert post(receiver, payload).status == 404
    before = site.database.logged()
    for message_ids in ((), ("m-2", "m\0", "m" * 5000)):
        assert receiver.retry_now(*message_ids).result(PATIENCE) == 0
    retried = [replace(each, retries=each.message_id == "m-2") for each in before]
    assert site.database.logged() == retried
    site.send(*numbers)
    assert receiver.retry_now("m-2").result(PATIENCE) == 2
    assert site.opened() == {2: NOON}
    named = [f"m-{number}" for number in numbers]
    assert receiver.retry_now("m\0", *named, *named).result(PATIENCE) == 97
    receiver.close(PATIENCE)
    assert receiver.retry_now("m-2").result(PATIENCE) == 0  # without an exception


def test_retries_need_a_log_and_its_bodies() -> None:
    with pytest.raises(ConfigurationError, match="Without a log"):
        receive(people(log=False)).retry_now("m-1")
    for log, text in ((False, "needs a log"), (True, "needs `keep_bodies`")):
        with pytest.raises(ConfigurationError, match=text):
            receive(people(log=log), sweep=True, keep_bodies=False)
