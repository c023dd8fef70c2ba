"""Other threads, other sessions and the host use the same rows at the same time.

The locks are those of a real database, held by another connection.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from contract import ADA, BEA, NOON, ZOE, arrival, fill, fill_many, insistent, opens, statuses
from django.db import connections
from django_home import BARE, DjangoHome
from homes import OURS, UNDATED, Home
from locations import filled_home, shared_home
from log_contract import entry, keep, logged, numbers, parked, reader, take_due
from sqlalchemy import event, make_url, text

from copying import replace
from databases import NAMES, POSTGRESQL, places
from engines import connect
from hookrow import Arrival, Reactivated, Suppressed
from hookrow._core.notification import RowId, Suppressible
from hookrow._core.result import PARKED_FOR
from hookrow._core.rules import affected_rows, decide, lookup_keys, merge
from hookrow._core.sizes import LARGEST_GROUP
from hookrow._receiver.recorder import record, record_unlocked
from hookrow.stores._errors import Conflict, Locked, Unchanged
from hookrow.stores._log import Query
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._catalogues.base import Lock
from hookrow.stores.sql._limits import PostgresLimits
from hookrow.stores.sql._transaction import SQLTransaction
from postgres import Databases
from times import DAY, HOUR, SECOND
from wire import PATIENCE

WORKERS = 4


shared = pytest.fixture(shared_home, scope="module")


@pytest.fixture
def home(shared: Home) -> Home:
    """Begin with a few rows, an empty log, and no session, which would have older limits."""
    fill(shared)
    shared.store.close()
    return shared


ON_POSTGRES = [POSTGRESQL.name, *places("django", POSTGRESQL.name)]


def in_threads(work: Callable[[int], Any], home: Home) -> list[Any]:
    """Run `work` in several threads at once, each with its number; return the results."""
    together = threading.Barrier(WORKERS)

    def run(number: int) -> Any:  # noqa: ANN401 - of any work
        together.wait(PATIENCE)
        try:
            return work(number)
        finally:
            if isinstance(home, DjangoHome):
                connections[home.alias].close()

    with ThreadPoolExecutor(WORKERS) as pool:
        return [*pool.map(run, range(WORKERS), timeout=PATIENCE)]


PLACES = [*NAMES, *places("django")]


@pytest.mark.parametrize(
    "shared",
    [*PLACES, *((place, BARE if "django" in place else UNDATED) for place in ON_POSTGRES)],
    indirect=True,
    scope="module",
)
def test_deadlocks(home: Home) -> None:
    """Rows are locked in one order, so that groups of any order and size do not deadlock.

    The newest change of each row wins, also if the changes are dated beside the log.
    """
    rows = range(1, 21)
    fill_many(home, rows)
    groups = 6  # two of each size
    last = NOON + (WORKERS * groups - 1) * SECOND
    save = insistent(home.store, seconds=PATIENCE)

    def record_groups(worker: int) -> None:
        """Begin at the worker's own row; go up or down, with increasing or decreasing times."""
        for group in range(groups):
            order = list(rows)[:: 1 if worker % 2 else -1]
            order = order[worker * 5 :] + order[: worker * 5]
            number, size = WORKERS * group + worker, (20, 7, 1)[group % 3]
            at = NOON + number * SECOND if worker % 2 else last - number * SECOND
            for start in range(0, len(order), size):
                sent: list[Arrival] = []
                for n in order[start : start + size]:
                    names = f"s{n}@example.com", f"m{n}"
                    sent.append(arrival(Suppressed(*names, at, "HardBounce")))
                    sent += [arrival(opens(*names))] * (worker % 2)
                assert {*statuses(save(sent))} == {200}

    in_threads(record_groups, home)
    for table in home.rows().values():
        assert {row["suppressed_at"] for row in table} == {last}
    assert {at for *_, at in home.dates()} <= {last}


@pytest.mark.parametrize("shared", PLACES, indirect=True, scope="module")
class TestManyWriters:
    """Several threads write the same rows and the same log."""

    def test_attempts(self, home: Home) -> None:
        """Every attempt is counted, however the same notifications are grouped."""
        sent = [
            replace(arrival(opens(ADA, "m-ada")), received_at=NOON + n * SECOND, body=b"%d" % n)
            for n in range(20)
        ]

        seconds = PATIENCE if "sqlite" in home.url else 5.0  # as in `test_deadlocks`

        def repeat(worker: int) -> None:
            order = sent[worker * 5 :] + sent[: worker * 5]
            attempt = insistent(home.store, seconds=seconds)
            for _ in range(5):
                assert statuses(attempt(order)) == [200] * len(sent)

        in_threads(repeat, home)
        assert [row["attempts"] for row in home.logged()] == [5 * WORKERS] * len(sent)

    def test_due(self, home: Home) -> None:
        """No entry that is due is taken twice."""
        keep(home, *(parked(number, minutes=number % 7) for number in range(1, 101)))

        def take(_: int) -> list[int]:
            taken: list[int] = []
            while found := numbers(take_due(reader(home), NOON + DAY, limit=7)):
                taken += found
            return taken

        taken = in_threads(take, home)
        assert sorted(number for one in taken for number in one) == [*range(1, 101)]


def limit(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Change the time limits of transactions and of new sessions."""
    for name, value in seconds.items():
        monkeypatch.setitem(PostgresLimits.RECORDING, name, value)


SHORT = 1.5
"""Seconds for recording if rows stay locked, enough for the other rows on a busy machine."""


def attempt(home: Home, arrivals: Sequence[Arrival], seconds: float = 5.0) -> list[int]:
    """Record with all error handling; return the statuses. Rows may stay locked for 0.8 of this."""
    return statuses(insistent(home.store, seconds=seconds)(arrivals))


def suppressed(recipient: str, message_id: str | None = None, at: datetime = NOON) -> Arrival:
    return arrival(Suppressed(recipient, message_id, at, "HardBounce"))


def states_of(home: Home) -> list[bool]:
    """Return which subscribers are suppressed."""
    return [row["suppressed_at"] is not None for row in home.rows()["subscribers"]]


@pytest.mark.parametrize("shared", ON_POSTGRES, indirect=True, scope="module")
class TestLockedRows:
    """Another session of PostgreSQL holds a row."""

    def test_order(self, postgres: Databases, home: Home) -> None:
        """Rows are locked by table, then by id, not in the order of arrival or of storage."""
        fill_many(home, range(9, 0, -1))
        sent = [suppressed(f"s{n}@example.com", f"m{n}") for n in (2, 9, 5, 1, 7)]
        free = "SELECT id FROM {} ORDER BY id FOR UPDATE SKIP LOCKED"
        with psycopg.connect(home.url) as host, ThreadPoolExecutor() as threads:
            host.execute("SELECT FROM hookrow_subscribers WHERE id = 5 FOR UPDATE")
            answers = threads.submit(attempt, home, sent)
            postgres.wait_for_a_lock(home.url)
            subscribers = postgres.execute(free.format("hookrow_subscribers"), url=home.url)
            dispatches = postgres.execute(free.format("hookrow_dispatches"), url=home.url)
            host.rollback()
            assert answers.result(PATIENCE) == [200] * 5
        assert [n for (n,) in subscribers] == [3, 4, 6, 7, 8, 9]
        assert len(dispatches) == 9
        assert sum(states_of(home)) == 5

    def test_timeout(self, home: Home) -> None:
        """After the lock timeout, only the notifications that need the row fail."""
        sent = [suppressed(BEA), suppressed(ADA), suppressed("nobody@example.com")]
        sent += [suppressed(ZOE), arrival(opens(ADA, "m-ada"))]
        with psycopg.connect(home.url) as host:
            host.execute("SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE")
            assert attempt(home, sent, SHORT) == [200, 503, 404, 200, 200]
            assert states_of(home) == [False, True, True]
        assert attempt(home, [suppressed(ADA)]) == [200]
        assert states_of(home) == [True, True, True]

    def test_terminated(
        self, postgres: Databases, home: Home, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If the session is terminated while it waits for a row, another one tries in time."""
        with psycopg.connect(home.url) as host, ThreadPoolExecutor() as threads:
            host.execute("SELECT FROM hookrow_subscribers WHERE id = 1 FOR UPDATE")
            with monkeypatch.context() as patch:
                limit(patch, lock_timeout=60, statement_timeout=60)
                answers = threads.submit(attempt, home, [suppressed(ADA)], SHORT)
                waiting = postgres.wait_for_a_lock(home.url)
            postgres.execute("SELECT pg_terminate_backend(%s)", waiting)
            assert answers.result(TRANSACTION_TIMEOUT / 2) == [503]
        assert attempt(home, [suppressed(ADA)]) == [200]

    @pytest.mark.parametrize(
        "lock",
        ["SELECT FROM hookrow_notifications FOR UPDATE", "LOCK TABLE hookrow_dispatches"],
        ids=["entry", "table"],
    )
    def test_locked_group(self, home: Home, lock: str) -> None:
        """A locked entry of the log or a locked table fails the group within the time limit.

        Nothing is saved, and it is recorded once the lock is free.
        """
        sent = arrival(opens(ADA, "m-ada"))
        record(home.store, [sent])
        before = home.rows()
        again = replace(sent, notifications=[opens(ADA, "m-none")])
        with psycopg.connect(home.url) as host:
            host.execute(lock.encode())
            with pytest.raises(Locked):
                record(home.store, [again])
            assert attempt(home, [again], SHORT) == [503]
        assert home.rows() == before
        assert attempt(home, [again]) == [200]

    def test_all_or_nothing(self, home: Home) -> None:
        """If one row of a notification is locked, none of its rows changes."""
        before = home.rows()
        with psycopg.connect(home.url) as host:
            pair = "list_id = 1 AND subscriber_id = 1"
            host.execute(f"SELECT FROM hookrow_subscriptions WHERE {pair} FOR UPDATE".encode())
            sent = [suppressed(ADA, "m-ada"), suppressed(BEA)]
            assert record_unlocked(home.store, sent)[0] is None
            assert attempt(home, sent, SHORT) == [503, 200]
            row: RowId = (Suppressible.SUBSCRIPTION, (1, 1))
            with home.store.transaction(skip_locked=True) as transaction:
                assert [*transaction.lock([row])] == [row]
        after = home.rows()
        assert after["subscribers"][0] == before["subscribers"][0]
        assert after["dispatches"] == before["dispatches"]

    def test_reference(self, home: Home) -> None:
        """A subscriber can be suppressed while the host inserts a dispatch that refers to it."""
        with psycopg.connect(home.url) as host:
            host.execute("INSERT INTO hookrow_dispatches (id, subscriber_id) VALUES (9, 1)")
            assert attempt(home, [suppressed(ADA, "m-ada")]) == [200]
            host.rollback()

    def test_due(self, home: Home) -> None:
        """Entries that another process has locked are skipped without waiting."""
        keep(home, *(parked(number, minutes=number) for number in range(1, 5)))
        with psycopg.connect(home.url) as other:
            other.execute("SELECT FROM hookrow_notifications WHERE body LIKE '%1%' FOR UPDATE")
            assert numbers(take_due(reader(home), NOON + DAY, limit=3)) == [2, 3]
        assert numbers(take_due(reader(home), NOON + DAY, limit=1)) == [1]

    @pytest.mark.parametrize("bodies_only", [True, False])
    def test_prune(self, home: Home, *, bodies_only: bool) -> None:
        """Nothing is pruned while another process prunes."""
        keep(home, entry())
        keep(home, entry(2, last_received_at=NOON + DAY))
        over = {"before": NOON + SECOND, "parked_before": NOON + DAY - PARKED_FOR}
        prune = partial(reader(home).prune, **over, bodies_only=bodies_only)
        with psycopg.connect(home.url) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s)", [Lock.PRUNING.value])
            assert sum(prune()) == 0
        assert logged(home)[0]["body"] is not None
        assert sum(prune()) == 1


def write(transaction: SQLTransaction, sent: Arrival) -> None:
    """Write the changes of a notification, and keep the transaction open."""
    outcome = decide(sent, transaction.find(lookup_keys([sent])))
    transaction.lock(affected_rows([outcome]))
    transaction.write(merge([outcome]))


UNDATED_PLACES = [
    (place, BARE if place.startswith("django") else UNDATED)
    for place in (*PLACES, *places("supplied"))
]
REACTIVATED = arrival(Reactivated(ADA, "m-ada", NOON))
ORDERS = pytest.mark.parametrize(
    ("at", "wins"),
    [(-HOUR, False), (timedelta(0), True), (HOUR, True)],
    ids=["older", "equal", "newer"],
)


@ORDERS
@pytest.mark.parametrize(
    ("shared", "single"),
    [
        (place, single)
        for place in UNDATED_PLACES
        for single in ((True, False) if "postgres" in place[0] else (False,))
    ],
    indirect=["shared"],
    scope="module",
)
def test_waiting_for_a_row(
    postgres: Databases,
    home: Home,
    at: timedelta,
    monkeypatch: pytest.MonkeyPatch,
    *,
    single: bool,
    wins: bool,
) -> None:
    """A suppression that waits for the rows of a reactivation has no effect if it is older.

    PostgreSQL locks rows, in one statement or in several, and SQLite the whole file.
    """
    if not single:
        monkeypatch.setattr(home.store._verified(), "combining", None)
    limit(monkeypatch, lock_timeout=PATIENCE, statement_timeout=PATIENCE)
    begun = threading.Event()

    def record_next() -> list[int]:
        begun.set()
        return statuses(record(home.store, [suppressed(ADA, "m-ada", NOON + at)]))

    with ThreadPoolExecutor() as threads:
        with home.store.transaction() as transaction:
            write(transaction, REACTIVATED)
            waiting = threads.submit(record_next)
            begun.wait(PATIENCE)
            if "postgres" in home.url:
                postgres.wait_for_a_lock(home.url)
        assert waiting.result(PATIENCE) == [200]
    for rows in home.rows().values():
        assert rows[0]["suppressed_at"] == (NOON + at if wins else None)
    assert [last for *_, last in home.dates()] == [NOON + at if wins else NOON] * 3


@pytest.mark.parametrize(
    "shared", [(name, UNDATED) for name in NAMES], indirect=True, scope="module"
)
def test_deleted_row(home: Home) -> None:
    """If a row is deleted after it was found, nothing is changed or dated."""
    sent = suppressed(ADA, "m-ada", NOON + HOUR)
    with home.store.reading() as reading:
        changes = merge([decide(sent, reading.find(lookup_keys([sent])))])
    with home._engine.begin() as host:
        host.execute(text("DELETE FROM sends WHERE provider_message_id = 'm-ada'"))
    before = home.rows()
    with pytest.raises(Unchanged), home.store.transaction() as transaction:
        transaction.write(changes)
    assert (home.rows(), home.dates()) == (before, [])


def test_serialization_failure(postgres_url: str) -> None:
    """If a host's sessions use REPEATABLE READ, a row that another session changes is read again.

    `acceptance/test_contention.py` does the same for deadlocks.
    """
    options = r"-c default_transaction_isolation=repeatable\ read"
    engine = connect(postgres_url, connect_args={"options": options})
    changes = iter(["UPDATE hookrow_subscribers SET email = 'Ada@example.com' WHERE id = 1"])
    states: list[str] = []

    @event.listens_for(engine, "handle_error")
    def note(context: Any) -> None:  # noqa: ANN401 - SQLAlchemy's ExceptionContext
        states.append(context.original_exception.sqlstate)

    @event.listens_for(engine, "before_cursor_execute")
    def change_meanwhile(_c: object, _cursor: object, statement: str, *_: object) -> None:
        """Change the row once, after it was found and before it is locked."""
        if "FOR NO KEY UPDATE" in statement and not statement.startswith("EXPLAIN"):
            for change in changes:
                with psycopg.connect(postgres_url) as host:
                    host.execute(change.encode())

    with closing(Home(postgres_url, OURS)) as home:
        fill(home)
        assert statuses(insistent(SQLStore(engine))([suppressed(ADA)])) == [200]
        [ada, *_] = home.rows()["subscribers"]
    assert states == ["40001"]
    assert (ada["email"], ada["suppressed_at"]) == ("Ada@example.com", NOON)
    engine.dispose()


lite = pytest.fixture(filled_home, params=["sqlite"])
"""An SQLite file with a few rows."""


class TestSqliteFile:
    """One connection at a time writes an SQLite file."""

    def test_wait(self, lite: Home) -> None:
        """A transaction waits for a locked file, even after the driver's own timeout.

        If the file stays locked, a `Conflict` is raised, and the response is 503.
        """
        before = lite.rows()
        engine = connect(lite.url, connect_args={"timeout": 0.01})
        store, file = SQLStore(engine), make_url(lite.url).database or ""
        with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Conflict):
                record(store, [suppressed(ADA)])
            assert statuses(insistent(store, seconds=0.05)([suppressed(ADA)])) == [503]
            assert lite.rows() == before
            threading.Timer(0.05, other.execute, ["COMMIT"]).start()
            assert statuses(insistent(store)([suppressed(ADA)])) == [200]
        assert states_of(lite) == [True, False, False]
        engine.dispose()

    def test_prune_while_reading(self, lite: Home) -> None:
        """Entries that are deleted after their size was read do not end a listing."""
        keep(lite, entry(1, body="x" * LARGEST_GROUP), entry(2, last_received_at=NOON + DAY))
        engine = connect(lite.url)
        log = SQLStore(engine).log
        assert log is not None

        def delete(_c: object, _cursor: object, statement: str, *_: object) -> None:
            if "length(" in statement:
                old = {"before": NOON + SECOND, "parked_before": NOON - timedelta(days=9)}
                sum(reader(lite).prune(**old, bodies_only=False))

        event.listen(engine, "after_cursor_execute", delete)
        assert numbers(log.oldest(Query(), limit=9)) == [2]
        engine.dispose()
