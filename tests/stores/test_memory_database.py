"""A database in memory: one connection for all threads, which ends with the store."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime
from threading import Event

import pytest

from hookrow import ConfigurationError, Postmark, Receiver, Role, Schema, testing
from hookrow.migrations import upgrade
from hookrow.stores._errors import Locked, Rejected, SchemaChanged, Unavailable
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._connections import Database
from wire import PATIENCE

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
INSERT = "INSERT INTO hookrow_lists (name) VALUES (%s)"
DEFERRED = "REFERENCES hookrow_lists DEFERRABLE INITIALLY DEFERRED"
NAMES = "SELECT name FROM hookrow_lists ORDER BY id"

PEOPLE = (
    "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT UNIQUE, "
    "suppressed_at TIMESTAMP, suppression_reason TEXT)"
)
SENDS = (
    "CREATE TABLE sends (id INTEGER PRIMARY KEY, provider_message_id TEXT UNIQUE, subscriber_id "
    "INTEGER REFERENCES people, delivered_at TIMESTAMP, opened_at TIMESTAMP, "
    "suppressed_at TIMESTAMP, suppression_reason TEXT)"
)


@pytest.fixture
def store() -> Iterator[SQLStore]:
    with closing(SQLStore("sqlite://")) as store:
        yield store


def names(database: Database) -> list[str]:
    with database.reading() as connection:
        return [name for (name,) in connection.fetch(NAMES)]


def insert(database: Database, *named: str | None) -> None:
    with database.transaction() as connection:
        for name in named:
            connection.execute(INSERT, [name])


def execute(database: Database, statement: str, error: Exception | None = None) -> None:
    """Execute a statement in a transaction, in which the error is then raised."""
    with database.transaction() as connection:
        connection.execute(statement)
        if error is not None:
            raise error


class TestTables:
    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite+aiosqlite://"])
    def test_first_use(self, url: str) -> None:
        """The first use, of any kind, creates hookrow's tables."""
        for _ in range(2):
            with closing(SQLStore(url)) as store:
                insert(store.database, "news")
                assert names(store.database) == ["news"]
                store.probe()

    def test_two_stores(self, store: SQLStore) -> None:
        """Each store has a database of its own."""
        insert(store.database, "news")
        with closing(SQLStore("sqlite://")) as other:
            assert names(other.database) == []

    def test_stores_on_one_database(self) -> None:
        """A store with another schema adds the tables that it needs, and keeps the rows."""
        logless = SQLStore("sqlite://", Schema(log=None))
        insert(logless.database, "news")
        with pytest.raises(SchemaChanged), logless.database.reading() as connection:
            connection.fetch("SELECT * FROM hookrow_notifications")
        logging = SQLStore(logless.database, Schema(record=("click",)))
        assert logging.log is not None
        assert logging.log.bounds() is None
        assert names(logging.database) == ["news"]
        logging.close()

    def test_tables_of_a_host(self) -> None:
        """A host creates its own tables with `store.database`; hookrow creates only the log."""
        unguarded = {"suppression_changed_at": None}
        schema = Schema(
            subscribers=Role("people", unguarded),
            dispatches=Role("sends", unguarded),
            subscriptions=None,
        )
        with closing(SQLStore("sqlite://", schema)) as store:
            with store.database.transaction() as connection:
                for table in (PEOPLE, SENDS):
                    connection.execute(table)
                connection.execute("INSERT INTO people (email) VALUES ('ada@example.com')")
            with closing(Receiver(Postmark(testing.SECRET), store)) as receiver:
                payload = testing.suppression("ada@example.com", None, at=NOON)
                assert testing.post(receiver, payload) == (200, "")
            with store.database.reading() as connection:
                reasons = connection.fetch("SELECT suppression_reason FROM people")
                tables = connection.fetch("SELECT name FROM sqlite_schema WHERE type = 'table'")
            assert [*map(tuple, reasons)] == [("HardBounce",)]
            assert {name for (name,) in tables} >= {"people", "hookrow_notifications"}
            assert ("hookrow_subscribers",) not in tables

    def test_a_missing_table_of_a_host(self) -> None:
        with pytest.raises(ConfigurationError, match="no table 'people'"):
            SQLStore("sqlite://", Schema(subscribers=Role("people")), verify=True)

    def test_a_changed_table(self, store: SQLStore) -> None:
        """After a statement that does not fit the tables, the rows are still there."""
        insert(store.database, "news")
        store.probe()
        with store.database.transaction() as connection:
            connection.execute("ALTER TABLE hookrow_dispatches RENAME TO sends")
        with pytest.raises(Unavailable, match="no table 'hookrow_dispatches'"):
            store.probe()
        assert names(store.database) == ["news"]

    def test_upgrade(self, store: SQLStore) -> None:
        """An upgrade is refused with a sentence."""
        for database in ("sqlite://", store.database):
            with pytest.raises(ConfigurationError, match="exists only in the process that opens"):
                upgrade(database, Schema())


class TestThreads:
    def test_order(self, store: SQLStore) -> None:
        """A reading in another thread waits for the end of a transaction, and never sees half."""
        with ThreadPoolExecutor() as threads:
            with store.database.transaction() as connection:
                connection.execute(INSERT, ["news"])
                seen = threads.submit(names, store.database)
                assert wait([seen], 0.02).not_done
                connection.execute(INSERT, ["offers"])
            assert seen.result(PATIENCE) == ["news", "offers"]

    def test_roll_back(self, store: SQLStore) -> None:
        """Nothing remains of a transaction that fails, in a statement, at its commit or itself."""
        insert(store.database, "news")
        with pytest.raises(Rejected):
            insert(store.database, "offers", None)
        with store.database.transaction() as connection:
            connection.execute(f"CREATE TABLE people (list {DEFERRED})")
        orphan = "INSERT INTO people SELECT max(id) + 1 FROM hookrow_lists"
        with pytest.raises(Rejected):
            execute(store.database, orphan)
        with pytest.raises(KeyError):
            execute(store.database, "DELETE FROM hookrow_lists", error=KeyError())
        assert names(store.database) == ["news"]

    def test_deadline(self, store: SQLStore) -> None:
        """A use that waits for too long is `Locked`, and the next one works."""
        store.probe()
        began, done = Event(), Event()

        def hold() -> None:
            with store.database.transaction():
                began.set()
                assert done.wait(PATIENCE)

        with ThreadPoolExecutor() as threads:
            held = threads.submit(hold)
            assert began.wait(PATIENCE)
            for use in (store.transaction, store.reading, store.database.transaction):
                with pytest.raises(Locked, match="Another thread"), limited_to(0.02), use():
                    pass
            done.set()
            held.result(PATIENCE)
        store.probe()

    def test_wait_without_a_deadline(
        self, store: SQLStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It ends after the time that a transaction waits for a file."""
        monkeypatch.setattr("hookrow.stores.sql._sqlite.LOCK_TIMEOUT", 0.02)
        with ThreadPoolExecutor() as threads, store.database.reading():
            refused = threads.submit(insert, store.database, "news")
            with pytest.raises(Locked):
                refused.result(PATIENCE)

    def test_nested_use(self, store: SQLStore) -> None:
        """A thread that would wait for itself gets a sentence, and its transaction is intact."""
        with store.database.transaction() as connection:
            connection.execute(INSERT, ["news"])
            for use in (store.reading, store.transaction, store.database.reading):
                with pytest.raises(Unavailable, match="end the transaction or the reading"), use():
                    pass
        assert names(store.database) == ["news"]

    def test_time_limit_of_reading(self, store: SQLStore) -> None:
        """`limited_to` interrupts a long statement, and applies to its own block only."""
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        store.probe()
        with pytest.raises(Locked), limited_to(0.05), store.database.reading() as connection:
            connection.fetch(f"{numbers} SELECT max(i) FROM n")
        with store.database.reading() as connection:
            assert len(connection.fetch(f"{numbers} SELECT i FROM n LIMIT 20000")) == 20_000


class TestClose:
    def test_use_after_close(self) -> None:
        store = SQLStore("sqlite://")
        insert(store.database, "news")
        store.close()
        store.close()
        for use in (store.transaction, store.reading, store.database.transaction):
            with pytest.raises(Unavailable, match="was closed, and its rows are gone"), use():
                pass

    def test_close_before_use(self) -> None:
        store = SQLStore("sqlite://")
        store.close()
        with pytest.raises(Unavailable, match="was closed"):
            store.probe()

    def test_close_while_in_use(self) -> None:
        """The block is completed, and then the connection is closed."""
        store = SQLStore("sqlite://")
        with store.database.transaction() as connection:
            store.close()
            connection.execute(INSERT, ["news"])
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            connection.execute(INSERT, ["offers"])
