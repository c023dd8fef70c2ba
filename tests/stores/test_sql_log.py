"""The log in a database: many at it at once, which indexes it uses, what is said where it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from contract import NOON, SECOND, arrival, fill, insistent, opens, statuses
from homes import OURS, SPARSE, SQLHome, connect
from log_contract import entry, keep, logged, numbers, parked, reader
from sqlalchemy import Engine, event, text

from hookrow import Schema, SchemaMismatch
from hookrow.entry import PARKED_FOR
from hookrow.recording import record
from hookrow.sizes import LARGEST_GROUP
from hookrow.stores import Locked
from hookrow.stores.log import LogReader, Query
from hookrow.stores.sql import SQLStore

DAY = timedelta(days=1)
PRUNING = 0x686F6F6B70
"""PostgreSQL's advisory lock of who prunes."""


@pytest.fixture
def home(empty_database_url: str) -> Iterator[SQLHome]:
    """Make a home with an empty log on each kind of database."""
    with closing(SQLHome(empty_database_url, OURS)) as home:
        yield home


@pytest.fixture
def pg(empty_postgres_url: str) -> Iterator[SQLHome]:
    """Make a home with an empty log on PostgreSQL."""
    with closing(SQLHome(empty_postgres_url, OURS)) as home:
        yield home


class TestSharing:
    """Several processes write, read and tend one log."""

    WORKERS = 4

    def test_none_is_taken_twice(self, home: SQLHome) -> None:
        """Who takes what is due at the same time takes others, until none is left."""
        keep(home, *(parked(number, minutes=number % 7) for number in range(1, 301)))

        def take(log: LogReader) -> list[int]:
            taken: list[int] = []
            while found := numbers(log.due(NOON + DAY, limit=7)):
                taken += found
            return taken

        with ThreadPoolExecutor(self.WORKERS) as pool:
            taken = [pool.submit(take, reader(home)) for _ in range(self.WORKERS)]
        assert sorted(number for one in taken for number in one.result()) == [*range(1, 301)]

    def test_what_another_takes_is_left_to_it(self, pg: SQLHome, empty_postgres_url: str) -> None:
        """Without waiting."""
        keep(pg, *(parked(number, minutes=number) for number in range(1, 5)))
        with psycopg.connect(empty_postgres_url) as other:
            other.execute("SELECT FROM hookrow_notifications WHERE body LIKE '%1%' FOR UPDATE")
            assert numbers(reader(pg).due(NOON + DAY, limit=2)) == [2, 3]
        assert numbers(reader(pg).due(NOON + DAY, limit=1)) == [1]

    @pytest.mark.parametrize("bodies_only", [True, False])
    def test_one_process_prunes(
        self, pg: SQLHome, empty_postgres_url: str, *, bodies_only: bool
    ) -> None:
        """While another does, nothing is done."""
        keep(pg, entry())
        prune = partial(
            reader(pg).prune,
            before=NOON + SECOND,
            parked_before=NOON + DAY - PARKED_FOR,
            bodies_only=bodies_only,
        )
        with psycopg.connect(empty_postgres_url) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s)", (PRUNING,))
            assert sum(prune()) == 0
        assert logged(pg)[0]["body"] is not None
        assert sum(prune()) == 1

    def test_every_attempt_is_counted(self, home: SQLHome) -> None:
        """Whoever keeps the same notifications at the same time, in whatever groups."""
        fill(home)
        times = [NOON + number * SECOND for number in range(20)]
        told = [replace(arrival(opens("ada@example.com", "m-ada")), received_at=at) for at in times]
        told = [replace(each, body=f"{n}".encode()) for n, each in enumerate(told)]

        def repeat(worker: int) -> None:
            order = told[worker * 5 :] + told[: worker * 5]
            attempt = insistent(home.store)
            for _ in range(10):
                assert statuses(attempt(order)) == [200] * len(told)

        with ThreadPoolExecutor(self.WORKERS) as pool:
            list(pool.map(repeat, range(self.WORKERS)))
        attempts = [row["attempts"] for row in home.logged()]
        assert attempts == [10 * self.WORKERS] * len(told)

    def test_a_row_that_is_held_is_waited_for_and_given_up(
        self, pg: SQLHome, empty_postgres_url: str
    ) -> None:
        """As a row of a table is; then nothing of the group is saved."""
        fill(pg)
        told = [arrival(opens("ada@example.com", "m-ada"))]
        record(pg.store, told)
        before = pg.rows()
        with psycopg.connect(empty_postgres_url) as other:
            other.execute("SELECT FROM hookrow_notifications FOR UPDATE")
            later = replace(told[0], notification=opens("ada@example.com", "m-none"))
            with pytest.raises(Locked):
                record(pg.store, [later])
        assert pg.rows() == before

    def test_reading_keeps_nobody_from_writing(self, home: SQLHome) -> None:
        """A page is read and done with, whatever is committed meanwhile."""
        keep(home, entry(1), entry(2))
        with home.store.transaction() as transaction:
            transaction.write((), [entry(3)])
            assert numbers(reader(home).newest(Query(), limit=9)) == [2, 1]
        assert numbers(reader(home).newest(Query(), limit=9)) == [3, 2, 1]

    def test_what_is_deleted_while_it_is_read(self, home: SQLHome, empty_database_url: str) -> None:
        """A group that was deleted after it was measured is not the end of the log."""
        keep(home, entry(1, body="x" * LARGEST_GROUP), entry(2, last_received_at=NOON + DAY))
        engine = connect(empty_database_url)
        log = reader_of(engine)

        def delete(_c: object, _cursor: object, statement: str, *_: object) -> None:
            if "length(" in statement:
                old = {"before": NOON + SECOND, "parked_before": NOON}
                sum(reader(home).prune(**old, bodies_only=False))

        event.listen(engine, "after_cursor_execute", delete)
        assert numbers(log.oldest(Query(), limit=9)) == [2]
        engine.dispose()


def reader_of(engine: Engine) -> LogReader:
    """Return what reads the log through an engine."""
    log = SQLStore(engine).log
    assert log is not None
    return log


@pytest.fixture
def long(home: SQLHome, empty_database_url: str) -> Iterator[tuple[Engine, LogReader]]:
    """Fill a log, of whose entries few are parked; return its reader, and the engine it uses."""
    keep(home, *(entry(number) for number in range(100, 8000)))
    keep(home, *(parked(number, minutes=1) for number in range(1, 50)))
    engine = connect(empty_database_url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ANALYZE"))
    yield engine, reader_of(engine)
    engine.dispose()


@pytest.mark.parametrize(
    ("look", "index"),
    [
        (lambda log: log.due(NOON, limit=64), "hookrow_notifications_parked_retry_at"),
        (
            lambda log: log.newest(Query(parked=True), before=9000, limit=64),
            "hookrow_notifications_parked_retry_at",
        ),
        (
            lambda log: log.oldest(Query(parked=True), limit=64),
            "hookrow_notifications_parked_retry_at",
        ),
        (lambda log: log.parked(["m-1", "m-2"]), "hookrow_notifications_parked_message_id"),
    ],
    ids=["due", "newest", "oldest", "of messages"],
)
def test_what_is_parked_is_found_by_its_index(
    long: tuple[Engine, LogReader],
    look: Any,  # noqa: ANN401 - of either call
    index: str,
) -> None:
    """The statement as it is run, asked of a planner that may do as it likes."""
    engine, log = long
    said: list[tuple[str, Any]] = []

    def note(_c: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:  # noqa: ANN401 - a driver's
        said.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    look(log)
    event.remove(engine, "before_cursor_execute", note)
    [(statement, parameters), *_] = [each for each in said if each[0].startswith("SELECT")]
    word = "EXPLAIN" if engine.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
    with engine.connect() as connection:
        plan = connection.exec_driver_sql(f"{word} {statement}", parameters)
        steps = "\n".join(str(row[-1]) for row in plan)
    assert index in steps


class TestVerification:
    """A log that is not as it has to be is refused at construction."""

    @pytest.fixture
    def engine(self, database_url: str) -> Iterator[Engine]:
        """Open a database with our tables."""
        engine = connect(database_url)
        yield engine
        engine.dispose()

    def test_a_log_that_is_not_there(self, engine: Engine) -> None:
        """It is said what makes it, and how to do without."""
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE hookrow_notifications"))
        says = r"no table 'hookrow_notifications' for the log.*hookrow db upgrade.*log=None"
        with pytest.raises(SchemaMismatch, match=says):
            SQLStore(engine)
        assert SQLStore(engine, Schema(log=None)).log is None

    def test_a_host_needs_one_too(self, empty_database_url: str) -> None:
        """Beside tables of its own, unless it says that it wants none."""
        with closing(SQLHome(empty_database_url, SPARSE)), pytest.raises(SchemaMismatch):
            SQLStore(empty_database_url, replace(SPARSE, log=OURS.log))

    def test_a_log_of_another_name(self, engine: Engine) -> None:
        """The nearest that there is may be what was meant."""
        with pytest.raises(SchemaMismatch, match="Did you mean 'hookrow_notifications'"):
            SQLStore(engine, Schema(log="hookrow_notification"))

    @pytest.mark.parametrize("column", ["last_received_at", "attempts"])
    def test_a_column_that_is_not_there(self, engine: Engine, column: str) -> None:
        """It is named, and what is there is not."""
        with engine.begin() as connection:
            connection.execute(text(f"ALTER TABLE hookrow_notifications DROP COLUMN {column}"))
        with pytest.raises(SchemaMismatch, match=rf"'hookrow_notifications'.* lacks {column}\."):
            SQLStore(engine)
