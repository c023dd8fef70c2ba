"""An outage of the database: 503 meanwhile, and nothing of what came is lost, on real databases."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from sqlalchemy import make_url, text

import world
from hookrow import (
    Arrival,
    Head,
    Outcome,
    Postmark,
    Receiver,
    Request,
    Role,
    Schema,
    retry,
    testing,
)
from hookrow.drain import FAILED_AFTER, REST, Drain
from hookrow.entry import Ending, Logged
from hookrow.postmark import parse
from hookrow.promise import Promise
from hookrow.spool import Spool
from hookrow.stores import StoreError
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from postgres import Server
from wire import eventually

PATIENCE = 30.0
"""In seconds; how long a test waits for what should come soon, on a machine that is busy."""

NOON = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
BEA, BEAS = "bea+news@example.org", "0d9c7b36-52ae-4f0b-8d31-7a6e94c1b802"

DELIVERY = testing.delivery(ADA, ADAS, at=NOON)
OPENING = testing.opening(BEA, BEAS, at=NOON)
STRANGER = testing.opening("eve@example.com", ADAS, at=NOON)
CLICK = {"RecordType": "Click", "Recipient": ADA}

LOG = "hookrow_notifications"

NO_ADA = "id <> 1 OR (delivered_at IS NULL AND opened_at IS NULL)"
"""What poisons the first dispatch."""


def _body(payload: object) -> bytes:
    return json.dumps(payload).encode()


def _request(payload: object) -> Request:
    return Request(Head("POST", "/provider/webhooks", ()), _body(payload))


def _status(answer: Any) -> int:  # noqa: ANN401 - a response or its future
    status: int = (answer.result(PATIENCE) if isinstance(answer, Promise) else answer).status
    return status


class Database:
    """A real database with the world in it, that can go away, and be poisoned."""

    def __init__(self, url: str, server: Server | None) -> None:
        world.fill(url)
        self.url = url
        self.store = SQLStore(url)
        self._server = server

    @contextmanager
    def away(self) -> Iterator[None]:
        """Take the database away: stop the server, or on SQLite rename the tables needed."""
        if self._server is None:
            self._rename("hookrow_dispatches", "away")
            self._rename("hookrow_notifications", "log_away")
        else:
            self._server.stop()
        try:
            yield
        finally:
            if self._server is None:
                self._rename("log_away", "hookrow_notifications")
                self._rename("away", "hookrow_dispatches")
            else:
                self._server.start()

    def _rename(self, table: str, name: str) -> None:
        self.execute(f"ALTER TABLE {table} RENAME TO {name}")

    def without_log(self) -> SQLStore:
        """Open another store on it, which keeps no log."""
        return SQLStore(self.url, Schema(log=None))

    def execute(self, statement: str) -> None:
        """Run a statement as a host would, on a connection of its own."""
        with self.store.engine.begin() as connection:
            connection.execute(text(statement))
        self.store.engine.dispose()

    def poison(self, allowed: str = NO_ADA, table: str = "hookrow_dispatches") -> None:
        """Have the database refuse what is not so."""
        # PostgreSQL drops with the column only the checks that name it.
        check = f"CHECK (poison IS NOT NULL OR {allowed})"
        self.execute(f"ALTER TABLE {table} ADD poison INTEGER {check}")

    def fail_at(self, email: str) -> None:
        """Have PostgreSQL itself fail at the dispatches of a subscriber: XX000, in a trigger."""
        self.execute(
            f"""
            CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.subscriber_id = (SELECT id FROM hookrow_subscribers WHERE email = '{email}')
                THEN RAISE '{email}' USING ERRCODE = 'XX000'; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER fails BEFORE UPDATE ON hookrow_dispatches
            FOR EACH ROW EXECUTE FUNCTION fails()
            """
        )

    def cure(self, table: str = "hookrow_dispatches") -> None:
        """Have it refuse nothing any more."""
        self.execute(f"ALTER TABLE {table} DROP COLUMN poison")

    def logged(self) -> Sequence[Logged]:
        """Read the log, oldest first."""
        assert self.store.log is not None
        return self.store.log.oldest(Query(), limit=1000)

    def ends(self) -> dict[str | None, tuple[str, int]]:
        """Return the outcome and the attempts of each kind of notification in the log."""
        return {each.record_type: (each.outcome.value, each.attempts) for each in self.logged()}

    def dispatch(self, number: int = 0) -> dict[str, Any]:
        """Return a dispatch of the world."""
        return world.rows(self.url)["dispatches"][number]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Return a database with the world in it: one of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    server = request.getfixturevalue("postgres") if request.param == "postgres" else None
    database = Database(url, server)
    yield database
    database.store.close()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Return an empty spool, at `spool.db`."""
    return Spool(tmp_path / "spool.db")


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look every tenth of a second whether the database is back."""
    monkeypatch.setattr("hookrow.drain.DRAIN_EVERY", 0.1)
    monkeypatch.setattr("hookrow.drain.REST", 0.0)
    monkeypatch.setattr("hookrow.retry.REST", 0.1)


@pytest.fixture
def receive(tmp_path: Path, spool: Spool) -> Iterator[Callable[..., Receiver]]:
    """Return what makes a receiver with the spool."""
    del spool
    with ExitStack() as stack:

        def make(store: SQLStore, **options: Any) -> Receiver:  # noqa: ANN401 - any keyword
            receiver = Receiver(Postmark("secret"), store, spool=tmp_path / "spool.db", **options)
            stack.callback(receiver.close, PATIENCE)
            return receiver

        yield make


def _waiting(spool: Spool) -> list[tuple[bytes, int]]:
    return [(each.body, each.attempts) for each in spool.after(0, limit=1000)]


def _drain(
    spool: Spool,
    database: Database,
    tell: Callable[[Sequence[Arrival], Sequence[Outcome]], None] = lambda *_: None,
    *,
    store: SQLStore | None = None,
    bodies: bool = True,
    swept: bool = False,
) -> Drain:
    def read(body: bytes, at: datetime) -> Arrival:
        return Arrival(parse(body), body, at)

    return Drain(spool, store or database.store, read, tell, bodies=bodies, swept=swept)


def _put(spool: Spool, *payloads: object, at: datetime | None = None) -> None:
    at = at or datetime.now(UTC)
    spool.put([Arrival(parse(_body(each)), _body(each), at) for each in payloads])


class TestOutage:
    def test_nothing_is_lost(
        self, database: Database, spool: Spool, receive: Callable[..., Receiver]
    ) -> None:
        """What comes meanwhile is answered 503 and kept; when the database is back, recorded.

        The hooks hear of it only then.
        """
        heard: list[bytes] = []
        receiver = receive(
            database.store, on_recorded=lambda arrival, _: heard.append(arrival.body)
        )
        with database.away():
            payloads = (DELIVERY, OPENING, DELIVERY, STRANGER, CLICK, DELIVERY)
            statuses = [_status(receiver(_request(payload))) for payload in payloads]
            assert statuses == [503, 503, 503, 503, 422, 503]
            kept = [(DELIVERY, 3), (OPENING, 1), (STRANGER, 1), (CLICK, 1)]
            assert _waiting(spool) == [(_body(payload), count) for payload, count in kept]
            assert not heard
        eventually(lambda: not _waiting(spool), seconds=PATIENCE)
        assert database.dispatch(0)["delivered_at"] == NOON
        assert database.dispatch(1)["opened_at"] == NOON
        ends = {(each.record_type, each.outcome.value, each.attempts) for each in database.logged()}
        assert ends == {
            ("Delivery", "recorded", 3),
            ("Open", "recorded", 1),
            ("Open", "subscriber_not_found", 1),
            ("Click", "unsupported", 1),
        }
        sleep(retry.REST)  # so long the receiver leaves a store alone that was away
        assert _status(receiver(_request(DELIVERY))) == 200
        assert database.ends()["Delivery"] == ("recorded", 4)
        receiver.close(PATIENCE)
        assert heard == [_body(DELIVERY), _body(OPENING), _body(DELIVERY)]

    def test_left_by_an_earlier_process(
        self, database: Database, spool: Spool, receive: Callable[..., Receiver]
    ) -> None:
        """What `answer` kept, without a thread, the next process records once it is started."""
        before = set(threading.enumerate())
        with database.away():
            earlier = receive(database.store)
            assert earlier.answer(_request(DELIVERY)).status == 503
            assert earlier.answer(_request(CLICK)).status == 422
        receiver = receive(database.store)
        assert set(threading.enumerate()) <= before
        assert len(_waiting(spool)) == 2
        receiver.start()
        eventually(lambda: not _waiting(spool), seconds=PATIENCE)
        assert database.dispatch()["delivered_at"] == NOON

    def test_without_a_log(
        self,
        database: Database,
        spool: Spool,
        receive: Callable[..., Receiver],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Without a log the spool works as well: what ends in a refusal is logged as a warning."""
        with closing(database.without_log()) as store:
            receiver = receive(store)
            with database.away():
                statuses = [_status(receiver(_request(each))) for each in (STRANGER, DELIVERY)]
                assert statuses == [503, 503]
                assert _status(receiver(_request(CLICK))) == 422  # nobody would look at it later
            eventually(lambda: not _waiting(spool), seconds=PATIENCE)
            assert database.dispatch()["delivered_at"] == NOON
        (record,) = [record for record in caplog.records if "Dropped" in record.message]
        assert record.levelno == logging.WARNING
        assert "subscriber_not_found" in record.message
        assert "eve@" not in caplog.text


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
@pytest.mark.parametrize(("log", "bodies"), [(False, True), (True, False)])
def test_a_row_that_is_held(
    database: Database, spool: Spool, receive: Callable[..., Receiver], *, log: bool, bodies: bool
) -> None:
    """What meets a held row, and will not be parked, waits in the spool; its neighbours do not."""
    with closing(SQLStore(database.url) if log else database.without_log()) as store:
        drain = _drain(spool, database, store=store, bodies=bodies)
        with database.store.engine.begin() as host:
            host.execute(text("SELECT FROM hookrow_dispatches WHERE id = 1 FOR UPDATE"))
            assert receive(store, keep_bodies=bodies).answer(_request(DELIVERY)).status == 503
            _put(spool, OPENING)
            drain()
            assert [body for body, _ in _waiting(spool)] == [_body(DELIVERY)]
            assert database.dispatch(1)["opened_at"] == NOON
        drain()
    assert not _waiting(spool)
    assert database.dispatch()["delivered_at"] == NOON
    both = {"Delivery": ("recorded", 1), "Open": ("recorded", 1)}
    assert database.ends() == (both if log else {})


class TestOverflow:
    def test_into_the_spool(
        self, sqlite_url: str, spool: Spool, receive: Callable[..., Receiver]
    ) -> None:
        """What the backlog has no room for is kept as well: 503, or 422, and recorded later."""
        database = Database(sqlite_url, None)
        receiver = receive(database.store, backlog=1)
        receiver.start()
        file = make_url(sqlite_url).database or ""
        with closing(sqlite3.connect(file)) as host:
            host.execute("BEGIN IMMEDIATE")
            first = receiver(_request(OPENING))
            eventually(lambda: not receiver._intake._commit._queue)
            second = receiver(_request(STRANGER))
            assert _status(receiver(_request(DELIVERY))) == 503
            assert _status(receiver(_request(CLICK))) == 422
            assert _waiting(spool) == [(_body(DELIVERY), 1), (_body(CLICK), 1)]
        assert (_status(first), _status(second)) == (200, 404)
        eventually(lambda: not _waiting(spool), seconds=PATIENCE)
        assert database.dispatch()["delivered_at"] == NOON
        assert len(database.logged()) == 4
        receiver.close(PATIENCE)
        database.store.close()


class TestDrain:
    def test_oldest_first(
        self, database: Database, spool: Spool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is recorded in the order in which it came, group by group, with when it came."""
        monkeypatch.setattr("hookrow.drain.GROUP", 2)
        payloads = [
            testing.delivery(f"n{number}@example.com", ADAS, at=NOON) for number in range(7)
        ]
        _put(spool, *payloads, at=NOON + timedelta(minutes=3))
        _put(spool, payloads[0], at=NOON + timedelta(minutes=9))
        groups: list[list[bytes]] = []
        _drain(spool, database, lambda told, _: groups.append([each.body for each in told]))()
        assert [len(group) for group in groups] == [2, 2, 2, 1]
        assert [body for group in groups for body in group] == [_body(each) for each in payloads]
        assert not _waiting(spool)
        entries = {entry.recipient: entry for entry in database.logged()}
        assert len(entries) == 7
        first = entries["n0@example.com"]
        assert first.received_at == NOON + timedelta(minutes=3)
        assert first.last_received_at == NOON + timedelta(minutes=9)
        assert first.ended_at > NOON + timedelta(minutes=9)

    @pytest.mark.parametrize(("minutes", "stays"), [(-1, False), (1, True)])
    def test_a_live_one_came_meanwhile(
        self, database: Database, spool: Spool, minutes: int, *, stays: bool
    ) -> None:
        """What waited takes effect only where the rows hold nothing newer."""
        _put(spool, DELIVERY, testing.suppression(ADA, ADAS, at=NOON))
        at = NOON + timedelta(minutes=minutes)
        live = Receiver(Postmark("secret"), database.store)
        for payload in (
            testing.delivery(ADA, ADAS, at=at),
            testing.reactivation(ADA, ADAS, at=at),
        ):
            assert live.answer(_request(payload)).status == 200
        _drain(spool, database)()
        assert not _waiting(spool)
        row = database.dispatch()
        assert row["delivered_at"] == (at if stays else NOON)
        assert row["suppressed_at"] == (None if stays else NOON)
        assert row["suppression_changed_at"] == (at if stays else NOON)

    def test_rows_without_the_time_of_their_last_change(
        self, database: Database, spool: Spool
    ) -> None:
        """A spam complaint that waited reaches rows that store no such time."""
        undated = {"suppression_changed_at": None}
        schema = Schema(
            subscribers=Role("hookrow_subscribers", undated),
            dispatches=Role("hookrow_dispatches", undated),
        )
        _put(spool, testing.suppression(ADA, ADAS, at=NOON, reason="SpamComplaint"))
        with closing(SQLStore(database.url, schema)) as store:
            _drain(spool, database, store=store)()
        assert database.ends()["SubscriptionChange"] == ("recorded", 1)
        for table in ("subscribers", "dispatches"):
            row = world.rows(database.url)[table][0]
            assert (row["suppressed_at"], row["suppression_reason"]) == (NOON, "SpamComplaint")

    @pytest.mark.parametrize(("log", "swept"), [(True, True), (True, False), (False, False)])
    def test_a_poisoned_one(
        self,
        database: Database,
        spool: Spool,
        caplog: pytest.LogCaptureFixture,
        *,
        log: bool,
        swept: bool,
    ) -> None:
        """What the database refuses keeps back no other; it is left to the sweep, or stays."""
        database.poison()
        _put(spool, OPENING, DELIVERY, testing.delivery(BEA, BEAS, at=NOON))
        with closing(SQLStore(database.url) if log else database.without_log()) as store:
            drain = _drain(spool, database, store=store, swept=swept)
            for _ in range(5):
                drain()
            assert database.dispatch(1)["delivered_at"] == NOON
            assert [body for body, _ in _waiting(spool)] == ([] if swept else [_body(DELIVERY)])
            failed = [each for each in database.logged() if each.outcome is Ending.FAILED]
            assert len(failed) == log
            assert all(each.attempts == 1 for each in database.logged())
            database.cure()
            drain()
            assert not _waiting(spool)
            assert database.dispatch(0)["delivered_at"] == (None if swept else NOON)
            assert all(each.attempts == 1 for each in database.logged())
        assert len([each for each in caplog.messages if "Cannot record" in each]) == 1
        assert ADA not in caplog.text

    @pytest.mark.parametrize("log", [True, False])
    @pytest.mark.parametrize("database", ["sqlite"], indirect=True)
    def test_given_up(
        self, database: Database, spool: Spool, caplog: pytest.LogCaptureFixture, *, log: bool
    ) -> None:
        """What cannot be recorded for three days is dropped, with a warning."""
        database.poison()
        age = timedelta(days=3)
        _put(spool, DELIVERY, at=datetime.now(UTC) - age)
        later = testing.opening(ADA, ADAS, at=NOON)
        _put(spool, later, at=datetime.now(UTC) - age + timedelta(minutes=5))
        with closing(SQLStore(database.url) if log else database.without_log()) as store:
            _drain(spool, database, store=store)()
        assert [body for body, _ in _waiting(spool)] == [_body(later)]
        (dropped,) = [text for text in caplog.messages if "Dropped" in text]
        assert dropped.endswith(": failed")
        assert ADA not in caplog.text

    @pytest.mark.parametrize("database", ["sqlite"], indirect=True)
    def test_rests(self, database: Database, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where something has to stay the spool is left alone for a minute."""
        now = 1000.0
        monkeypatch.setattr("hookrow.drain.monotonic", lambda: now)
        monkeypatch.setattr("hookrow.drain.REST", REST)
        database.poison()
        _put(spool, DELIVERY)
        drain = _drain(spool, database)
        drain()
        database.cure()
        now += REST - 0.1
        drain()
        assert _waiting(spool)
        now += 0.1
        drain()
        assert not _waiting(spool)
        assert REST == 10.0

    def test_what_the_log_refuses(self, database: Database, spool: Spool) -> None:
        """What the log refuses waits, with its attempts; the others are recorded, counted once."""
        database.poison("record_type <> 'Delivery'", "hookrow_notifications")
        _put(spool, DELIVERY, OPENING, STRANGER, DELIVERY)
        drain = _drain(spool, database)
        for _ in range(3):
            drain()
        assert database.dispatch(1)["opened_at"] == NOON
        assert database.dispatch(0)["delivered_at"] is None
        assert [each.attempts for each in database.logged()] == [1, 1]
        assert [body for body, _ in _waiting(spool)] == [_body(DELIVERY)]
        database.cure("hookrow_notifications")
        drain()
        assert not _waiting(spool)
        assert database.ends()["Delivery"] == ("recorded", 2)

    @pytest.mark.parametrize("database", ["postgres"], indirect=True)
    def test_entries_that_keep_failing(self, database: Database, spool: Spool) -> None:
        """Entries on which the database itself fails hold up no others.

        After a minute they are logged as failed.
        """
        database.fail_at(ADA)
        failing = [testing.opening(ADA, ADAS, at=NOON + timedelta(n)) for n in range(101)]
        _put(spool, *failing[1:], OPENING, at=datetime.now(UTC) - FAILED_AFTER)
        _put(spool, failing[0])
        with pytest.raises(StoreError, match=r"Opened.*InternalError_ XX000"):
            _drain(spool, database, swept=True)()
        assert [body for body, _ in _waiting(spool)] == [_body(failing[0])]
        database.execute("DROP TRIGGER fails ON hookrow_dispatches")
        _drain(spool, database, swept=True)()
        assert not _waiting(spool)
        assert database.dispatch(1)["opened_at"] == NOON
        assert Counter(each.outcome for each in database.logged()) == {
            Ending.FAILED: 100,
            Ending.RECORDED: 2,
        }
        assert {each.attempts for each in database.logged()} == {1}
        assert all(each.retry_at for each in database.logged() if each.outcome is Ending.FAILED)

    @pytest.mark.parametrize("database", ["postgres"], indirect=True)
    def test_entries_that_cannot_be_logged(
        self, database: Database, spool: Spool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They stay, and if nothing can be recorded the next call begins behind them."""
        database.fail_at(ADA)
        database.poison("record_type <> 'Open' OR recipient <> 'ada@example.com'", LOG)
        monkeypatch.setattr("hookrow.drain.FAILING", 0.0)
        failing = [testing.opening(ADA, ADAS, at=NOON + timedelta(n)) for n in range(3)]
        _put(spool, *failing, OPENING, at=datetime.now(UTC) - FAILED_AFTER)
        drain = _drain(spool, database)
        for _ in failing:
            with pytest.raises(StoreError, match=r"Opened.*InternalError_ XX000") as raised:
                drain()
            assert ADA not in str(raised.value)
        drain()
        assert [body for body, _ in _waiting(spool)] == [_body(each) for each in failing]
        assert database.dispatch(1)["opened_at"] == NOON
        database.cure(LOG)
        database.execute("DROP TRIGGER fails ON hookrow_dispatches")
        drain()
        assert not _waiting(spool)
        assert {each.attempts for each in database.logged()} == {1}

    @pytest.mark.parametrize("database", ["postgres"], indirect=True)
    def test_a_full_disk_meanwhile(self, database: Database, tmp_path: Path, spool: Spool) -> None:
        """If the spool's disk is full while entries are isolated, nothing is lost."""

        class Full(Spool):
            calls = 0

            def take(self, spooled: Any) -> None:  # noqa: ANN401 - as in Spool
                self.calls += 1
                if self.calls > 2:
                    error = sqlite3.OperationalError("database or disk is full")
                    error.sqlite_errorcode = sqlite3.SQLITE_FULL
                    raise error
                super().take(spooled)

        database.fail_at(ADA)
        _put(spool, OPENING, DELIVERY, testing.opening(ADA, ADAS, at=NOON))
        with pytest.raises(sqlite3.OperationalError, match="full"):
            _drain(Full(tmp_path / "spool.db"), database)()
        assert {body for body, _ in _waiting(spool)} >= {_body(DELIVERY)}
        database.execute("DROP TRIGGER fails ON hookrow_dispatches")
        _drain(spool, database)()
        assert not _waiting(spool)
        assert {each.attempts for each in database.logged()} == {1}

    def test_the_database_goes_again(
        self, database: Database, spool: Spool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What could not be recorded yet waits for the next time, and is counted once."""
        monkeypatch.setattr("hookrow.drain.GROUP", 1)
        _put(spool, DELIVERY, OPENING)
        with ExitStack() as stack:

            def tell(*_: object) -> None:
                stack.enter_context(database.away())

            with pytest.raises(StoreError):
                _drain(spool, database, tell)()
            assert _waiting(spool) == [(_body(OPENING), 1)]
        _drain(spool, database)()
        assert not _waiting(spool)
        assert database.ends() == {"Delivery": ("recorded", 1), "Open": ("recorded", 1)}

    @pytest.mark.parametrize("step", ["take", "remove"])
    def test_the_process_dies(self, database: Database, spool: Spool, step: str) -> None:
        """Wherever a process dies, the next one records what waits; nothing is counted twice."""
        _put(spool, DELIVERY, DELIVERY)

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        dying = Spool(spool._path)
        setattr(dying, step, die)
        with pytest.raises(KeyboardInterrupt):
            _drain(dying, database)()
        assert (database.dispatch()["delivered_at"] == NOON) is (step == "remove")
        assert _waiting(spool)
        _put(spool, DELIVERY)
        _drain(spool, database)()
        assert not _waiting(spool)
        assert database.dispatch()["delivered_at"] == NOON
        assert database.ends() == {"Delivery": ("recorded", 3)}

    def test_one_drainer(self, database: Database, spool: Spool) -> None:
        """While another process drains the spool, this one leaves it to that."""
        _put(spool, DELIVERY)
        with spool.drained():
            _drain(spool, database)()
            assert _waiting(spool)
        _drain(spool, database)()
        assert not _waiting(spool)

    def test_came_again_meanwhile(self, database: Database, spool: Spool) -> None:
        """What comes again while it is recorded is counted as well, in the same drain or the next.

        Nothing is counted twice.
        """
        _put(spool, DELIVERY)
        again = [DELIVERY]

        class Meanwhile(Spool):
            def remove(self, spooled: Any) -> None:  # noqa: ANN401 - as in Spool
                if again:
                    _put(self, again.pop())
                super().remove(spooled)

        drain = _drain(Meanwhile(spool._path), database)
        drain()
        drain()
        assert not _waiting(spool)
        assert database.ends() == {"Delivery": ("recorded", 2)}
