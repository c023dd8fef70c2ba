"""Parked notifications: recorded once their rows exist, by a sweep or when the host says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from receiving import (
    LIMIT,
    NOON,
    Database,
    encode,
    people,
    post,
    receive,
    request,
    sent,
    suppression,
)

from hookrow import Arrival, ConfigurationError, Outcome, Recorded, testing
from hookrow.entry import Ending
from hookrow.notification import SetTime, Suppressible
from hookrow.parked import Parked
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.replay import record_ready
from hookrow.stores import Unavailable
from wire import eventually

ADA = "ada@example.com"


def opening(number: int) -> dict[str, Any]:
    """Return an open of one of several messages to Ada."""
    return testing.opening(ADA, f"m-{number}", at=NOON)


class Site:
    """A database with one subscriber, what a host does there, and what is parked."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.told: list[list[bytes]] = []
        assert database.log is not None
        self.log = database.log
        self.parked = Parked(database, self.log, parse, self._tell)

    def _tell(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        assert len(arrivals) == len(outcomes)
        self.told.append([each.body for each in arrivals])

    def arrive(self, *payloads: Any, ago: timedelta = timedelta(), **options: bool) -> None:  # noqa: ANN401 - payloads
        """Record what arrives."""
        bodies, at = [encode(payload) for payload in payloads], datetime.now(UTC) - ago
        record(self.database, [Arrival(parse(body), body, at) for body in bodies], **options)

    def send(self, *numbers: int) -> None:
        """Insert dispatches, as the host does when it has sent a mail."""
        rows = self.database.dispatches
        rows |= {number: sent(str(number), 1) for number in numbers}

    def fall_due(self) -> None:
        """Have everything that is parked be due."""
        for each in self.database.logged():
            if each.status != 200:
                self.log.entries[each.fingerprint] = replace(each, retry_at=NOON)

    def opened(self) -> dict[int, datetime]:
        """Return when dispatches were opened."""
        rows = self.database.dispatches.items()
        return {int(id_): row["opened_at"] for id_, row in rows if "opened_at" in row}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookrow.parked.PAUSE", 0.0)


@pytest.fixture
def site() -> Site:
    """Return a database with one subscriber."""
    return Site(people("ada"))


def test_sweep(site: Site) -> None:
    """A sweep records what is due and has its rows; everything else stays parked for later."""
    site.arrive(opening(1), opening(2), suppression("eve"))
    site.send(2)
    assert site.parked.sweep() == 0  # nothing is due yet
    site.fall_due()
    before = {each.fingerprint: each for each in site.database.logged()}
    assert site.parked.sweep() == 1
    assert site.opened() == {2: NOON}
    for each in site.database.logged():
        if each.message_id == "m-2":
            assert (each.outcome, each.status, each.retry_at) == (Ending.RECORDED, 200, None)
        else:
            assert each.retry_at is not None
            assert each.retry_at > datetime.now(UTC)
            assert each == replace(before[each.fingerprint], retry_at=each.retry_at)
    assert site.told == [[encode(opening(2))]]
    assert site.parked.sweep() == 0


def test_order_of_arrival() -> None:
    """Of two changes of a row without a date the last to arrive wins, whichever fell due first."""
    site = Site(people(undated=[Suppressible.SUBSCRIBER]))
    site.arrive(testing.reactivation(ADA, None, at=NOON), ago=timedelta(minutes=2))
    site.arrive(suppression("ada"), ago=timedelta(minutes=1))
    site.database.subscribers[1] = {"email": ADA}
    for each, hours in zip(site.database.logged(), (1, 0), strict=True):
        entry = replace(each, retry_at=NOON + timedelta(hours=hours))
        site.log.entries[each.fingerprint] = entry
    assert site.parked.sweep() == 2
    row = site.database.subscribers[1]
    assert (row["suppressed_at"], row["suppression_reason"]) == (NOON, "HardBounce")


def test_many(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep takes a limited number, in groups; the next one takes more."""
    monkeypatch.setattr("hookrow.parked.MOST", 10)
    monkeypatch.setattr("hookrow.parked.GROUP", 4)
    numbers = range(2, 14)
    site.arrive(*map(opening, numbers))
    site.send(*numbers)
    site.fall_due()
    assert [site.parked.sweep(), site.parked.sweep()] == [10, 2]
    assert [len(group) for group in site.told] == [4, 4, 2, 2]
    assert {each.attempts for each in site.database.logged()} == {1}


def test_failed_work(site: Site) -> None:
    """What the database refused is recorded when it no longer does, and counted once."""
    site.send(2)
    site.database.refuses = lambda each: isinstance(each, SetTime)
    assert receive(site.database).answer(request(opening(2))).status == 503
    site.fall_due()
    assert site.parked.sweep() == 0
    site.database.refuses = lambda _: False
    site.fall_due()
    assert site.parked.sweep() == 1
    assert site.database.ends() == {"m-2": ("recorded", 1)}


def test_erased_body(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no body is left alone; a person who is forgotten meanwhile stays forgotten."""
    site.arrive(opening(2))
    site.arrive(opening(3), bodies=False)
    site.send(2, 3)
    site.fall_due()

    def forgetting(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - passed on
        site.log.forget(ADA)
        return record_ready(*arguments, **options)

    monkeypatch.setattr("hookrow.parked.record_ready", forgetting)
    assert site.parked.sweep() == 1
    assert {(each.recipient, each.body) for each in site.database.logged()} == {(None, None)}


def test_outage(site: Site) -> None:
    """A sweep that cannot reach the rows raises; what it took is due again later."""
    site.arrive(opening(2))
    site.send(2)
    site.fall_due()
    site.database.away = True
    with pytest.raises(Unavailable):
        site.parked.sweep()
    site.database.away = False
    site.fall_due()
    assert site.parked.sweep() == 1


def test_receiver_that_sweeps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sweep=True` a receiver sweeps by itself once it is started, and calls its hooks."""
    monkeypatch.setattr("hookrow.receiver.SWEEP_EVERY", 0.01)
    heard: list[tuple[bytes, type]] = []
    site.arrive(opening(2))
    site.send(2)
    site.fall_due()
    receiver = receive(
        site.database,
        sweep=True,
        on_recorded=lambda arrival, outcome: heard.append((arrival.body, type(outcome))),
    )
    receiver.start()
    eventually(lambda: site.opened() == {2: NOON}, seconds=LIMIT)
    receiver.close(LIMIT)
    assert heard == [(encode(opening(2)), Recorded)]


def test_revisit(site: Site) -> None:
    """`revisit` records what came before the host's commit; what has no rows stays as it is."""
    receiver = receive(site.database)
    numbers = range(2, 100)  # more than a group
    for payload in (testing.delivery(ADA, "m-2", at=NOON), *map(opening, numbers)):
        assert post(receiver, payload).status == 404
    before = site.database.logged()
    for message_ids in ((), ("m-2", "m\0", "m" * 5000)):
        assert receiver.revisit(*message_ids).result(LIMIT) == 0
    assert site.database.logged() == before
    site.send(*numbers)
    assert receiver.revisit("m-2").result(LIMIT) == 2
    assert site.opened() == {2: NOON}
    named = [f"m-{number}" for number in numbers]
    assert receiver.revisit("m\0", *named, *named).result(LIMIT) == 97
    receiver.close(LIMIT)
    assert receiver.revisit("m-2").result(LIMIT) == 0  # nor is that an error


def test_impossible() -> None:
    """Without a log nothing is parked, and without bodies there is nothing to sweep."""
    with pytest.raises(ConfigurationError, match="Without a log"):
        receive(people(log=False)).revisit("m-1")
    with pytest.raises(ConfigurationError, match="Without a log"):
        receive(people(log=False), sweep=True)
    with pytest.raises(ConfigurationError, match="Without bodies"):
        receive(people(), sweep=True, keep_bodies=False)
