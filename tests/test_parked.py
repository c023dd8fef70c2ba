"""Parked notifications: recorded once their rows exist, by a sweep or as soon as a host says so."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, text

import world
from hookrow import (
    Arrival,
    ConfigurationError,
    Head,
    Outcome,
    Postmark,
    Receiver,
    Recorded,
    Request,
    Role,
    Schema,
    testing,
)
from hookrow.entry import Ending, Logged
from hookrow.parked import MOST, SWEEP_EVERY, Parked
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.replay import GROUP, record_ready
from hookrow.stores import Store, Unavailable
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import dispatches, subscribers
from wire import eventually

PATIENCE = 20.0
"""In seconds; how long a test waits for what should come soon, on a machine that is busy."""

NOON = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
EVE = "eve@example.com"


def _opening(number: int = 0, *, at: datetime = NOON) -> dict[str, Any]:
    return testing.opening(ADA, f"m-{number}", at=at)


class Site:
    """A database with the world in it, and what a host and the receiver do there."""

    def __init__(self, store: SQLStore, url: str) -> None:
        self.store = store
        self.url = url
        assert store.log is not None
        self.log = store.log
        self.told: list[tuple[bytes, Outcome]] = []
        self.parked = Parked(store, self.log, parse, self.tell)

    def tell(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> None:
        """Keep what is told."""
        told = zip(arrivals, outcomes, strict=True)
        self.told += [(arrival.body, outcome) for arrival, outcome in told]

    def arrive(self, *payloads: object, bodies: bool = True, ago: timedelta = timedelta()) -> None:
        """Record what comes, as the receiver does."""
        posted = [json.dumps(payload).encode() for payload in payloads]
        at = datetime.now(UTC) - ago
        record(self.store, [Arrival(parse(body), body, at) for body in posted], bodies=bodies)

    def send(self, *numbers: int, owner: int = 1) -> None:
        """Commit dispatches, as the host does when it has sent a mail."""
        rows = [{"provider_message_id": f"m-{n}", "subscriber_id": owner} for n in numbers]
        with self.store.engine.begin() as connection:
            connection.execute(insert(dispatches), rows)

    def add(self, email: str) -> None:
        """Commit a subscriber."""
        with self.store.engine.begin() as connection:
            connection.execute(insert(subscribers), [{"email": email}])

    def fall_due(self) -> None:
        """Have everything that is parked be due."""
        self.execute("UPDATE hookrow_notifications SET retry_at = received_at WHERE status <> 200")

    def alter(self, change: str) -> None:
        """Change a table."""
        self.execute(f"ALTER TABLE {change}")

    def execute(self, statement: str) -> None:
        """Run a statement as a host would."""
        with self.store.engine.begin() as connection:
            connection.execute(text(statement))

    def logged(self) -> Sequence[Logged]:
        """Read the log, oldest first."""
        return self.log.oldest(Query(), limit=10_000)

    def opened(self) -> dict[str, datetime | None]:
        """Return when each dispatch was opened, by its message."""
        rows = world.rows(self.url)["dispatches"]
        return {row["provider_message_id"]: row["opened_at"] for row in rows}

    def suppression(self, email: str) -> tuple[datetime | None, str | None]:
        """Return since when and why a subscriber is suppressed."""
        (row,) = (row for row in world.rows(self.url)["subscribers"] if row["email"] == email)
        return row["suppressed_at"], row["suppression_reason"]


@pytest.fixture
def site(database_url: str) -> Iterator[Site]:
    """Return a site on a database of each kind."""
    yield from _opened(database_url, Schema())


@pytest.fixture
def undated(database_url: str) -> Iterator[Site]:
    """Return a site whose subscribers do not store when their suppression last changed."""
    role = Role("hookrow_subscribers", {"suppression_changed_at": None})
    yield from _opened(database_url, Schema(subscribers=role))


def _opened(url: str, schema: Schema) -> Iterator[Site]:
    world.fill(url)
    with closing(SQLStore(url, schema)) as store:
        site = Site(store, url)
        yield site
        site.parked.close(PATIENCE)


class TestSweep:
    def test_once_its_rows_exist(self, site: Site) -> None:
        """What is due and has its rows is recorded; all else stays as it was, for later."""
        site.arrive(_opening(1), _opening(2), testing.opening("eve@example.com", ADAS, at=NOON))
        site.send(2)
        assert site.parked.sweep() == 0  # nothing is due yet
        site.fall_due()
        before = {each.fingerprint: each for each in site.logged()}
        assert site.parked.sweep() == 1
        assert site.opened()["m-2"] == NOON
        for each in site.logged():
            was = before[each.fingerprint]
            assert (each.attempts, each.received_at) == (was.attempts, was.received_at)
            assert (each.body, each.first_outcome) == (was.body, was.outcome)
            if each.message_id == "m-2":
                assert (each.outcome, each.status, each.retry_at) == (Ending.RECORDED, 200, None)
                assert each.ended_at > was.ended_at
            else:
                assert (each.outcome, each.ended_at) == (was.outcome, was.ended_at)
                assert each.retry_at is not None
                assert each.retry_at > datetime.now(UTC)
        assert [(body, type(outcome)) for body, outcome in site.told] == [
            (json.dumps(_opening(2)).encode(), Recorded)
        ]
        assert site.parked.sweep() == 0

    def test_another_owner_meanwhile(self, site: Site) -> None:
        """A mismatch is tried again as well: it is recorded when the owner has changed."""
        site.send(1, owner=2)
        site.arrive(_opening(1))
        for owner, recorded in ((2, 0), (1, 1)):
            site.execute(f"UPDATE hookrow_dispatches SET subscriber_id = {owner} WHERE id > 2")
            site.fall_due()
            assert site.parked.sweep() == recorded
        assert site.opened()["m-1"] == NOON

    @pytest.mark.parametrize(("minutes", "stays"), [(-1, False), (1, True)])
    def test_not_over_what_is_newer(self, site: Site, minutes: int, *, stays: bool) -> None:
        """A sweep never takes the place of something newer that came live."""
        site.arrive(_opening(1))
        site.send(1)
        at = NOON + timedelta(minutes=minutes)
        site.arrive(_opening(1, at=at))
        site.fall_due()
        assert site.parked.sweep() == 1
        assert site.opened()["m-1"] == (at if stays else NOON)

    def test_rows_without_the_time_of_their_last_change(self, undated: Site) -> None:
        """A spam complaint that outran its subscriber reaches a row that stores no such time."""
        undated.arrive(testing.suppression(EVE, None, at=NOON, reason="SpamComplaint"))
        undated.add(EVE)
        undated.fall_due()
        assert undated.parked.sweep() == 1
        assert undated.suppression(EVE) == (NOON, "SpamComplaint")

    def test_in_order_of_arrival(self, undated: Site) -> None:
        """Of two changes of such a row the last to arrive wins, whichever fell due first."""
        undated.arrive(testing.reactivation(EVE, None, at=NOON), ago=timedelta(minutes=2))
        undated.arrive(testing.suppression(EVE, None, at=NOON), ago=timedelta(minutes=1))
        undated.add(EVE)
        for id_, hour in ((1, 5), (2, 4)):
            undated.execute(
                "UPDATE hookrow_notifications "
                f"SET retry_at = '2026-03-05 0{hour}:00:00.000000' WHERE id = {id_}"
            )
        assert undated.parked.sweep() == 2
        assert undated.suppression(EVE) == (NOON, "HardBounce")

    def test_a_thousand_at_the_most(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sweep takes 1,000 in groups of 64; the next takes more."""
        numbers = range(1100)
        for start in range(0, 1100, 550):
            site.arrive(*map(_opening, numbers[start : start + 550]))
        site.send(*numbers)
        site.fall_due()
        recorded: list[int] = []
        monkeypatch.setattr(site.parked, "_tell", lambda told, _: recorded.append(len(told)))
        assert (SWEEP_EVERY, MOST, GROUP) == (60.0, 1000, 64)
        assert site.parked.sweep() == 1000
        assert recorded == [64] * 15 + [40]
        assert site.parked.sweep() == 100
        assert {each.outcome for each in site.logged()} == {Ending.RECORDED}
        assert all(each.attempts == 1 for each in site.logged())

    def test_what_failed(self, site: Site) -> None:
        """What the database refused is tried again: recorded when it no longer does."""
        unopened = "guard IS NOT NULL OR opened_at IS NULL"
        site.alter(f"hookrow_dispatches ADD guard INTEGER CHECK ({unopened})")
        body = json.dumps(testing.opening(ADA, ADAS, at=NOON)).encode()
        receiver = Receiver(Postmark("secret"), site.store)
        assert receiver.answer(Request(Head("POST", "/", ()), body)).status == 503
        site.fall_due()
        assert site.parked.sweep() == 0
        assert [(each.outcome, each.attempts) for each in site.logged()] == [(Ending.FAILED, 1)]
        site.alter("hookrow_dispatches DROP COLUMN guard")
        site.fall_due()
        assert site.parked.sweep() == 1
        assert site.opened()[ADAS] == NOON

    def test_without_its_body(self, site: Site) -> None:
        """What has no body any more is left alone."""
        site.arrive(_opening(1), bodies=False)
        site.send(1)
        site.fall_due()
        assert site.parked.sweep() == 0
        assert site.opened()["m-1"] is None

    def test_erased_meanwhile(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A person who is forgotten while a sweep is at work stays forgotten."""
        site.arrive(_opening(1))
        site.send(1)
        site.fall_due()

        def forgetting(store: Store, arrivals: Sequence[Arrival], **options: Any) -> object:  # noqa: ANN401 - passed on
            site.log.forget(ADA)
            return record_ready(store, arrivals, **options)

        monkeypatch.setattr("hookrow.parked.record_ready", forgetting)
        assert site.parked.sweep() == 1
        (entry,) = site.logged()
        assert (entry.recipient, entry.body) == (None, None)

    def test_the_database_is_away(self, site: Site) -> None:
        """A sweep that cannot reach the rows raises; what it took is due again later."""
        site.arrive(_opening(1))
        site.send(1)
        site.fall_due()
        site.alter("hookrow_dispatches RENAME TO away")
        with pytest.raises(Unavailable):
            site.parked.sweep()
        site.alter("away RENAME TO hookrow_dispatches")
        (entry,) = site.logged()
        assert entry.retry_at is not None
        site.fall_due()
        assert site.parked.sweep() == 1

    def test_by_the_receiver(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A receiver that is asked to sweeps by itself, once it is started, and tells its hooks."""
        monkeypatch.setattr("hookrow.receiver.SWEEP_EVERY", 0.05)
        heard: list[bytes] = []

        def hear(arrival: Arrival, _: Recorded) -> None:
            heard.append(arrival.body)

        site.arrive(_opening(1))
        receiver = Receiver(Postmark("secret"), site.store, sweep=True, on_recorded=hear)
        receiver.start()
        site.send(1)
        site.fall_due()
        eventually(lambda: site.opened()["m-1"] == NOON, seconds=PATIENCE)
        receiver.close(PATIENCE)
        assert heard == [json.dumps(_opening(1)).encode()]


class TestRevisit:
    @pytest.fixture
    def receiver(self, site: Site) -> Iterator[Receiver]:
        """Return a receiver that does not sweep."""
        with closing(Receiver(Postmark("secret"), site.store)) as receiver:
            yield receiver

    def test_after_the_commit(self, site: Site, receiver: Receiver) -> None:
        """What outran the host's commit is recorded as soon as the host says so."""
        site.arrive(_opening(1), testing.delivery(ADA, "m-1", at=NOON), _opening(2))
        site.send(1, 2)
        assert receiver.revisit("m-1").result(PATIENCE) == 2
        assert (site.opened()["m-1"], site.opened()["m-2"]) == (NOON, None)
        assert receiver.revisit("m-1").result(PATIENCE) == 0
        assert receiver.revisit("m-2", "m-2").result(PATIENCE) == 1

    @pytest.mark.parametrize("message_ids", [(), ("m-1",), ("m-1", "m-unknown"), ("m" * 5000,)])
    def test_nothing_to_do(
        self, site: Site, receiver: Receiver, message_ids: Collection[str]
    ) -> None:
        """Messages that nothing is parked for, or that have no rows still, change nothing."""
        site.arrive(_opening(1))
        before = site.logged()
        assert receiver.revisit(*message_ids).result(PATIENCE) == 0
        assert site.logged() == before

    def test_many(self, site: Site, receiver: Receiver) -> None:
        """All that are named are looked for, also beside some that no row can hold."""
        site.arrive(*map(_opening, range(200)))
        site.send(*range(200))
        names = ["m\0", "m-\ud800", *(f"m-{number}" for number in range(200))]
        assert receiver.revisit(*names).result(PATIENCE) == 200

    def test_large_ones(self, site: Site, receiver: Receiver) -> None:
        """More than are read at once, of which some stay parked."""
        large = [{**_opening(n % 2), "ID": n, "Pad": "x" * 2**20} for n in range(6)]
        site.arrive(*large)
        site.send(1)
        assert receiver.revisit("m-0", "m-1").result(PATIENCE) == 3
        assert receiver.revisit("m-0", "m-1").result(PATIENCE) == 0

    def test_closed(self, site: Site, receiver: Receiver) -> None:
        """After it was closed nothing is done, which is no error: the sweep will."""
        site.arrive(_opening(1))
        site.send(1)
        receiver.close(PATIENCE)
        assert receiver.revisit("m-1").result(PATIENCE) == 0
        assert site.opened()["m-1"] is None

    def test_what_cannot_be(self, sqlite_url: str) -> None:
        """Without a log nothing is parked, and without bodies there is nothing to sweep with."""
        with closing(SQLStore(sqlite_url, Schema(log=None))) as store:
            with pytest.raises(ConfigurationError, match="Without a log"):
                Receiver(Postmark("secret"), store).revisit("m-1")
            with pytest.raises(ConfigurationError, match="Without a log"):
                Receiver(Postmark("secret"), store, sweep=True)
            with pytest.raises(ConfigurationError, match="Without bodies"):
                Receiver(Postmark("secret"), MemoryStore(), sweep=True, keep_bodies=False)
