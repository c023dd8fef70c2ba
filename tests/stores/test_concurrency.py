"""Others are at the same rows at the same time: other threads, other processes, the host.

Nothing here pretends: the locks are those of a database, held by a connection of
somebody else's.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from contract import NOON, SECOND, arrival, fill, insistent, opens, statuses
from homes import OURS, Home, SQLHome, connect
from sqlalchemy import Engine, event, make_url

from hookrow import Arrival, Delivered, Outcome, Suppressed
from hookrow.recording import record
from hookrow.retry import Retry
from hookrow.stores import Conflict
from hookrow.stores.limits import LOCK_TIMEOUT
from hookrow.stores.sql import SQLStore
from postgres import Server

PATIENCE = 20.0
"""In seconds; what takes longer hangs."""

ADA, BEA, ZOE = "ada@example.com", "bea.upper@example.com", "zoë@example.net"


@pytest.fixture
def pg(empty_postgres_url: str) -> Iterator[SQLHome]:
    """Make a home on PostgreSQL with a few rows."""
    with closing(SQLHome(empty_postgres_url, OURS)) as home:
        fill(home)
        yield home


@pytest.fixture
def lite(empty_sqlite_url: str) -> Iterator[SQLHome]:
    """Make a home on SQLite with a few rows."""
    with closing(SQLHome(empty_sqlite_url, OURS)) as home:
        fill(home)
        yield home


def suppressed(recipient: str, *, seconds: int = 0, message_id: str | None = None) -> Arrival:
    """Return a suppression, some seconds after noon."""
    at = NOON + timedelta(seconds=seconds)
    return arrival(Suppressed(recipient, message_id, at, "HardBounce"))


def persist(home: Home, arrivals: Sequence[Arrival], *, seconds: float = 5.0) -> list[int]:
    """Record insistently; return the statuses."""
    return statuses(insistent(home.store, seconds=seconds)(arrivals))


def states(home: Home) -> list[bool]:
    """Tell which subscribers are suppressed."""
    return [row["suppressed_at"] is not None for row in home.rows()["subscribers"]]


@contextmanager
def running(*targets: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Run each in a thread of its own, and wait for them all; yield what they raised."""
    raised: list[BaseException] = []

    def run(target: Callable[[], object]) -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - it is asserted on outside
            raised.append(error)

    threads = [threading.Thread(target=run, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    yield raised
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)


class TestRowLocks:
    """Every process locks rows in the same order, and so waits instead of dying."""

    ROWS = 20
    GROUPS = 60

    def test_opposite_orders_do_not_deadlock(self, empty_postgres_url: str) -> None:
        """Four stores record the same rows in opposite orders: no error, no update lost."""
        with closing(SQLHome(empty_postgres_url, OURS)) as home:
            numbers = range(1, self.ROWS + 1)
            home.fill(
                subscribers=[{"id": n, "email": f"s{n}@example.com"} for n in numbers],
                subscriptions=[{"list_id": 1, "subscriber_id": n} for n in numbers],
                dispatches=[
                    {"id": n, "provider_message_id": f"m{n}", "subscriber_id": n, "list_id": 1}
                    for n in numbers
                ],
            )
            stores = [SQLStore(empty_postgres_url) for _ in range(4)]

            def hammer(worker: int) -> None:
                """Begin at the worker's own row, go up or down, and come back later each time."""
                for group in range(self.GROUPS):
                    order = list(numbers)[:: 1 if worker % 2 else -1]
                    order = order[worker * 5 :] + order[: worker * 5]
                    told = [
                        suppressed(
                            f"s{n}@example.com", seconds=4 * group + worker, message_id=f"m{n}"
                        )
                        for n in order
                    ]
                    assert statuses(record(stores[worker], told)) == [200] * self.ROWS

            with running(*(partial(hammer, worker) for worker in range(4))) as raised:
                pass
            assert raised == []
            last = NOON + (4 * (self.GROUPS - 1) + 3) * SECOND
            changed = [
                row["suppression_changed_at"] for table in home.rows().values() for row in table
            ]
            assert changed == [last] * (3 * self.ROWS)
            for store in stores:
                store.close()

    def test_rows_are_locked_in_order(self, postgres: Server, empty_postgres_url: str) -> None:
        """By table, then by id: not as they arrive, and not as they lie on the disk."""
        url, descending = empty_postgres_url, range(9, 0, -1)
        with closing(SQLHome(url, OURS)) as home:
            home.fill(
                subscribers=[{"id": n, "email": f"s{n}@example.com"} for n in descending],
                dispatches=[
                    {"id": n, "provider_message_id": f"m{n}", "subscriber_id": n, "list_id": 1}
                    for n in descending
                ],
            )
            told = [suppressed(f"s{n}@example.com", message_id=f"m{n}") for n in (2, 9, 5, 1, 7)]
            free = "SELECT id FROM {} ORDER BY id FOR UPDATE SKIP LOCKED"
            with psycopg.connect(url) as host:
                host.execute("SELECT FROM hookrow_subscribers WHERE id = 5 FOR UPDATE")
                with running(lambda: persist(home, told)) as raised:
                    postgres.wait_for_a_lock(url)
                    subscribers = postgres.execute(free.format("hookrow_subscribers"), url=url)
                    dispatches = postgres.execute(free.format("hookrow_dispatches"), url=url)
                    host.rollback()
            assert raised == []
            assert [n for (n,) in subscribers] == [3, 4, 6, 7, 8, 9]
            assert len(dispatches) == 9
            assert sum(states(home)) == 5

    def test_a_row_is_waited_for(
        self, pg: SQLHome, postgres: Server, empty_postgres_url: str
    ) -> None:
        """A host that holds a row for a moment costs a moment, and nobody an answer."""
        with psycopg.connect(empty_postgres_url) as host:
            host.execute("UPDATE hookrow_subscribers SET email = email WHERE id = 1")
            told: list[int] = []
            with running(lambda: told.extend(persist(pg, [suppressed(ADA)]))):
                postgres.wait_for_a_lock(empty_postgres_url)
                host.commit()
        assert told == [200]
        assert states(pg) == [True, False, False]

    def test_only_those_whose_rows_are_held_are_refused(
        self, pg: SQLHome, empty_postgres_url: str
    ) -> None:
        """After the time limit for a lock, the neighbours in the group are recorded."""
        with psycopg.connect(empty_postgres_url) as host:
            host.execute("SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE")
            begun = time.monotonic()
            told = [
                suppressed(BEA),
                suppressed(ADA),
                suppressed("nobody@example.com"),
                suppressed(ZOE),
                arrival(opens(ADA, "m-ada")),
            ]
            assert persist(pg, told) == [200, 503, 404, 200, 200]
            assert LOCK_TIMEOUT <= time.monotonic() - begun < LOCK_TIMEOUT + 2
            assert states(pg) == [False, True, True]
            host.rollback()
        assert persist(pg, [suppressed(ADA)]) == [200]
        assert states(pg) == [True, True, True]

    def test_a_notification_is_never_half_done(self, pg: SQLHome, empty_postgres_url: str) -> None:
        """Where one of its rows is held, none of them changes."""
        before = pg.rows()
        with psycopg.connect(empty_postgres_url) as host:
            host.execute("SELECT FROM hookrow_subscriptions WHERE id = 1 FOR UPDATE")
            told = [suppressed(ADA, message_id="m-ada"), suppressed(BEA)]
            assert statuses(record(pg.store, told, skip_locked=True)) == [503, 200]
        assert pg.rows()["subscribers"][0] == before["subscribers"][0]
        assert pg.rows()["dispatches"] == before["dispatches"]

    def test_a_reference_to_a_row_does_not_hold_it(
        self, pg: SQLHome, empty_postgres_url: str
    ) -> None:
        """While the host sends new dispatches to a subscriber, it can be suppressed."""
        with psycopg.connect(empty_postgres_url) as host:
            host.execute(
                "INSERT INTO hookrow_dispatches (id, subscriber_id, list_id) VALUES (9, 1, 1)"
            )
            begun = time.monotonic()
            assert persist(pg, [suppressed(ADA, message_id="m-ada")]) == [200]
            assert time.monotonic() - begun < LOCK_TIMEOUT

    def test_a_table_that_is_held_is_given_up_in_time(
        self, pg: SQLHome, empty_postgres_url: str
    ) -> None:
        """A host's ALTER TABLE that takes for ever costs 503, within the receiver's deadline."""
        with psycopg.connect(empty_postgres_url) as host:
            host.execute("LOCK TABLE hookrow_subscribers")
            begun = time.monotonic()
            assert persist(pg, [suppressed(ADA)]) == [503]
            assert time.monotonic() - begun < 2 * LOCK_TIMEOUT + 2
        assert persist(pg, [suppressed(ADA)]) == [200]


@contextmanager
def _faults(engine: Engine) -> Iterator[list[str]]:
    """Collect the SQLSTATE of every error that the engine meets."""
    states: list[str] = []

    def note(context: Any) -> None:  # noqa: ANN401 - SQLAlchemy's ExceptionContext
        states.append(context.original_exception.sqlstate)

    event.listen(engine, "handle_error", note)
    yield states


class TestConflicts:
    """Two transactions that cannot both be: one is run again."""

    def test_a_deadlock_with_the_host_is_survived(
        self, postgres: Server, empty_postgres_url: str
    ) -> None:
        """A host that locks in another order makes the database choose; we try again."""
        engine = connect(empty_postgres_url)
        with closing(SQLHome(empty_postgres_url, OURS)) as home:
            fill(home)
            store = SQLStore(engine)
            told: list[Outcome] = []
            attempt = insistent(store)
            with psycopg.connect(empty_postgres_url) as host, _faults(engine) as states:
                host.execute("UPDATE hookrow_dispatches SET opened_at = NULL WHERE id = 1")
                with running(lambda: told.extend(attempt([suppressed(ADA, message_id="m-ada")]))):
                    postgres.wait_for_a_lock(empty_postgres_url)
                    # Now each has what the other wants; PostgreSQL looks after a second.
                    with suppress(psycopg.errors.DeadlockDetected):
                        host.execute("UPDATE hookrow_subscribers SET email = email WHERE id = 1")
                    host.rollback()
            assert statuses(told) == [200]
            assert states == ["40P01"]
            assert home.rows()["subscribers"][0]["suppressed_at"] == NOON
        engine.dispose()

    def test_a_serialization_failure_is_run_again(self, empty_postgres_url: str) -> None:
        """Where the host's sessions read repeatably, a row that changes meanwhile is read anew."""
        options = r"-c default_transaction_isolation=repeatable\ read"
        engine = connect(empty_postgres_url, connect_args={"options": options})
        with closing(SQLHome(empty_postgres_url, OURS)) as home:
            fill(home)
            store = SQLStore(engine)
            changes = iter(
                ["UPDATE hookrow_subscribers SET email = 'Ada@example.com' WHERE id = 1"]
            )

            @event.listens_for(engine, "before_cursor_execute")
            def change_meanwhile(_c: object, _cursor: object, statement: str, *_: object) -> None:
                """Change the row once, after it was found and before it is locked."""
                if "FOR NO KEY UPDATE" in statement:
                    for change in changes:
                        with psycopg.connect(empty_postgres_url) as host:
                            host.execute(change.encode())

            attempt = insistent(store)
            with _faults(engine) as states:
                assert statuses(attempt([suppressed(ADA)])) == [200]
            assert states == ["40001"]
            [ada, *_] = home.rows()["subscribers"]
            assert (ada["email"], ada["suppressed_at"]) == ("Ada@example.com", NOON)
        engine.dispose()


OBSTACLES = {
    "narrow-column": """
        ALTER TABLE hookrow_subscribers ALTER suppression_reason TYPE varchar(5)
    """,
    "check": """
        ALTER TABLE hookrow_subscribers ADD CHECK (length(suppression_reason) < 6)
    """,
    "trigger": """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF length(NEW.suppression_reason) > 5 THEN RAISE EXCEPTION 'no, %', NEW.email; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_subscribers
            FOR EACH ROW EXECUTE FUNCTION refuse()
    """,
}
"""What a host may have done to its table, by a short name."""


class TestRejectedData:
    """A database that refuses one notification's data does not refuse its neighbours'."""

    @pytest.mark.parametrize("obstacle", OBSTACLES.values(), ids=OBSTACLES.keys())
    def test_on_postgresql_it_fails_alone(
        self, empty_postgres_url: str, caplog: pytest.LogCaptureFixture, obstacle: str
    ) -> None:
        """What the host's column or trigger refuses is answered 503, the rest is recorded."""
        with closing(SQLHome(empty_postgres_url, OURS)) as home:
            fill(home)
        with closing(psycopg.connect(empty_postgres_url, autocommit=True)) as host:
            host.execute(obstacle.encode())
        with closing(SQLStore(empty_postgres_url)) as store:
            self._fails_alone(store, caplog)

    def test_on_sqlite_it_fails_alone(
        self, lite: SQLHome, empty_sqlite_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What the host's trigger refuses is answered 503, the rest is recorded."""
        with closing(sqlite3.connect(_path(empty_sqlite_url))) as host:
            host.executescript(
                "CREATE TRIGGER refuse BEFORE UPDATE ON hookrow_subscribers "
                "WHEN length(NEW.suppression_reason) > 5 BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        self._fails_alone(lite.store, caplog)

    @staticmethod
    def _fails_alone(store: SQLStore, caplog: pytest.LogCaptureFixture) -> None:
        told = [
            arrival(Suppressed(BEA, None, NOON, "Short")),
            arrival(Suppressed(ADA, None, NOON, "much too long")),
            arrival(Delivered(ADA, "m-ada", NOON)),
            arrival(Suppressed(ZOE, None, NOON, "Short")),
        ]
        attempt = insistent(store)
        assert statuses(attempt(told)) == [200, 503, 200, 200]
        assert len(caplog.records) == 1
        assert "Suppressed" in caplog.text
        for private in (ADA, "much too long"):
            assert private not in caplog.text

    @pytest.mark.parametrize(
        "poison",
        [
            Suppressed("€uro@example.com", None, NOON, "HardBounce"),
            Suppressed(ADA, "m-€", NOON, "HardBounce"),
            Suppressed(ADA, None, NOON, "€"),
        ],
        ids=["recipient", "message-id", "reason"],
    )
    def test_what_the_encoding_cannot_hold_fails_alone(
        self, postgres: Server, poison: Suppressed
    ) -> None:
        """In a database in LATIN1 a euro sign is nobody else's trouble."""
        postgres.execute("DROP DATABASE IF EXISTS latin")
        postgres.execute("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 LOCALE 'C'")
        with closing(SQLHome(postgres.url("latin"), OURS)) as home:
            home.fill(subscribers=[{"id": 1, "email": ADA}, {"id": 2, "email": BEA}])
            told = persist(home, [suppressed(BEA), arrival(poison)])
            assert told[0] == 200
            assert told[1] in {200, 404, 503}
            assert states(home)[1]


def _path(url: str) -> str:
    return make_url(url).database or ""


_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


@contextmanager
def _held(url: str) -> Iterator[Callable[[], None]]:
    """Hold the write lock of an SQLite file in another process; yield what lets it go."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, _path(url)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"

    def release() -> None:
        process.communicate("\n", timeout=PATIENCE)

    try:
        yield release
    finally:
        if process.returncode is None:
            release()


_RECORD = """
import sys
from hookrow import Delivered
from hookrow.stores.sql import SQLStore
from contract import NOON, arrival, insistent, statuses
attempt = insistent(SQLStore(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
told = []
for _ in range(int(sys.argv[2])):
    told += statuses(attempt([arrival(Delivered("ada@example.com", "m-ada", NOON))]))
print(set(told))
"""


class TestSqliteFile:
    """One writer at a time, in whatever process."""

    def test_a_busy_file_is_waited_for(self, lite: SQLHome, empty_sqlite_url: str) -> None:
        """Another process holds the file for a while: the notification is recorded after it."""
        with _held(empty_sqlite_url) as release:
            told: list[int] = []
            with running(lambda: told.extend(persist(lite, [suppressed(ADA)]))):
                time.sleep(0.3)
                assert not told
                release()
        assert told == [200]
        assert states(lite) == [True, False, False]

    def test_a_busy_file_is_tried_again(self, lite: SQLHome, empty_sqlite_url: str) -> None:
        """Where the driver gives up before the holder does, the group is run again."""
        engine = connect(empty_sqlite_url, connect_args={"timeout": 0.01})
        store = SQLStore(engine)
        attempts = 0

        def attempt(arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
            nonlocal attempts
            attempts += 1
            if attempts == 3:
                release()
            return record(store, arrivals, skip_locked=skip_locked)

        with _held(empty_sqlite_url) as release:
            told = Retry(attempt, fail=len, reachable=bool, spool=len, seconds=5.0)(
                [suppressed(ADA)]
            )
        assert (statuses(told), attempts) == ([200], 3)
        assert states(lite) == [True, False, False]
        engine.dispose()

    def test_a_file_that_stays_busy_is_given_up(self, lite: SQLHome, empty_sqlite_url: str) -> None:
        """Held for ever: 503, not an exception, and well again afterwards."""
        with _held(empty_sqlite_url):
            begun = time.monotonic()
            assert persist(lite, [suppressed(ADA)], seconds=1.0) == [503]
            assert time.monotonic() - begun < 2 * LOCK_TIMEOUT + 2  # for the rows, for the log
        assert persist(lite, [suppressed(ADA)]) == [200]

    def test_a_store_says_conflict(self, lite: SQLHome, empty_sqlite_url: str) -> None:
        """By itself a store does not insist: it raises, and has changed nothing."""
        before = lite.rows()
        store = SQLStore(connect(empty_sqlite_url, connect_args={"timeout": 0.01}))
        with _held(empty_sqlite_url), pytest.raises(Conflict):
            record(store, [suppressed(ADA)])
        assert lite.rows() == before

    def test_a_reader_does_not_wait(self, lite: SQLHome, empty_sqlite_url: str) -> None:
        """A host may read while we write, and we write while it reads."""
        with closing(sqlite3.connect(_path(empty_sqlite_url), timeout=0)) as host:
            host.isolation_level = None
            host.execute("BEGIN")
            count = "SELECT count(*) FROM hookrow_subscribers WHERE suppressed_at IS NOT NULL"
            assert host.execute(count).fetchall() == [(0,)]
            assert persist(lite, [suppressed(ADA)]) == [200]
            assert host.execute(count).fetchall() == [(0,)]
            host.execute("COMMIT")
            assert host.execute(count).fetchall() == [(1,)]

    def test_two_processes_record_in_one_file(self, lite: SQLHome, empty_sqlite_url: str) -> None:
        """They take turns: every notification of both is recorded."""
        other = subprocess.Popen(
            [sys.executable, "-c", _RECORD, empty_sqlite_url, "100"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("\n")
        other.stdin.flush()
        told = [persist(lite, [arrival(opens(BEA, "m-bea"))]) for _ in range(100)]
        assert told == [[200]] * 100
        assert other.communicate(timeout=PATIENCE)[0] == "{200}\n"
        ada, bea, *_ = lite.rows()["dispatches"]
        assert (ada["delivered_at"], bea["opened_at"]) == (NOON, NOON)
