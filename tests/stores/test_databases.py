"""The databases of URLs and engines: connections, transactions, time limits, errors."""

import re
import sqlite3
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import monotonic

import pytest
from homes import connect, run
from psycopg import OperationalError
from sqlalchemy import Engine, StaticPool, create_engine, event, make_url

from hookrow import ConfigurationError, Schema
from hookrow.stores import AccessDenied, Conflict, Locked, Rejected, StoreError, Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql.connections import READERS, SESSIONS, Database
from hookrow.stores.sql.postgres import PostgresDatabase
from hookrow.stores.sql.urls import open_database
from hookrow.stores.sql.verify import verify
from hookrow.stores.timeouts import LOCK_TIMEOUT, limited_to
from wire import PATIENCE

PASSWORD = "hunter2"

TWICE = "INSERT INTO hookrow_subscribers (email) VALUES ('a@example.com'), ('A@example.com')"

PID = "SELECT pg_backend_pid()"

LIMITS = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"


class TestURL:
    @pytest.mark.parametrize(
        ("url", "remedy"),
        [
            ("hookrow.db", "write, for example, sqlite:///"),
            (f"postgresql://ada:{PASSWORD}@localhost:port/mail", "or postgresql://"),
            (f"postgresql://ada:p@ss:{PASSWORD}@localhost/mail", "or postgresql://"),
            (f"postgresql://ada:{PASSWORD}@localhost/mail%ff", "or postgresql://"),
            (f"postgresql://ada:{PASSWORD}@localhost/mail\ud800", "or postgresql://"),
            (f"postgresql+nodriver://ada:{PASSWORD}@localhost/mail", "write postgresql://"),
            (f"mysql://ada:{PASSWORD}@localhost/mail", "SQLite, not on mysql"),
            (f"mssql+pyodbc://ada:{PASSWORD}@localhost/mail", "SQLite, not on mssql"),
            ("postgresql+pg8000://ada@localhost/mail", "with pg8000: write postgresql:// instead"),
            (f"postgresql://ada:{PASSWORD}@localhost/mail?pool=9", "no option 'pool'"),
            ("postgresql+asyncpg://localhost/mail?command_timeout=9", "option 'command_timeout'"),
            ("sqlite://", "name a file"),
            ("sqlite:///:memory:", "name a file"),
            ("sqlite://hookrow.db", "write sqlite:///hookrow.db"),
            ("sqlite:///hookrow.db?mode=ro", "remove 'mode=ro'"),
        ],
    )
    def test_refused(self, url: str, remedy: str) -> None:
        """The error names the remedy and contains no password."""
        with pytest.raises(ConfigurationError, match=re.escape(remedy)) as caught:
            open_database(url)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))

    def test_psycopg_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(ConfigurationError, match=r"pip install 'hookrow\[postgres\]'"):
            open_database("postgresql://ada@localhost/mail")

    @pytest.mark.parametrize("scheme", ["postgres", "postgresql+asyncpg", "postgresql+psycopg"])
    def test_url_of_another_driver(self, postgres_url: str, scheme: str) -> None:
        """Psycopg is used instead; `ssl` is asyncpg's name for `sslmode`."""
        url = postgres_url.replace("postgresql", scheme, 1)
        url += "&ssl=prefer" if "asyncpg" in scheme else ""
        with closing(open_database(url)) as database, database.reading() as connection:
            assert connection.fetch("SELECT 1 WHERE %s = 'it''s 100%%'", ["it's 100%"]) == [(1,)]

    def test_url_of_an_async_driver_for_sqlite(self, sqlite_url: str) -> None:
        url = make_url(sqlite_url.replace("sqlite:", "sqlite+aiosqlite:"))
        with closing(open_database(url)) as database, database.reading() as connection:
            assert connection.fetch("SELECT count(*) FROM hookrow_lists") == [(0,)]

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            (f"postgresql://ada:{PASSWORD}@db/mail?password={PASSWORD}", "ada:***@db/mail"),
            (f"postgresql://ada:p?{PASSWORD}#x@db:5433/mail", "ada:***@db:5433/mail"),
            ("postgresql+asyncpg://db/mail?application_name=my%20app", "db/mail"),
            ("postgresql:///mail?host=a:5433&host=b", "a,b:5433,5432/mail"),
        ],
    )
    def test_string_without_password(self, url: str, shown: str) -> None:
        assert str(open_database(url)) == f"postgresql://{shown}"

    def test_options_of_asyncpg(self) -> None:
        database = open_database("postgresql+asyncpg://db/mail?application_name=my%20app&ssl=")
        assert isinstance(database, PostgresDatabase)
        assert (database.options["application_name"], database.options["sslmode"]) == ("my app", "")


class TestSQLite:
    def test_settings(self, sqlite_url: str) -> None:
        """SQLite uses a WAL, syncs commits, checks foreign keys and waits for a locked file."""
        wanted = {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": LOCK_TIMEOUT * 1000,
        }
        with closing(open_database(sqlite_url)) as database, database.reading() as connection:
            found = {name: connection.fetch(f"PRAGMA {name}")[0][0] for name in wanted}
        assert found == wanted

    def test_switch_to_a_wal(self, tmp_path: Path) -> None:
        """Connections that open a new file at the same time wait for each other."""
        with closing(sqlite3.connect(tmp_path / "new.db", check_same_thread=False)) as other:
            other.isolation_level = None
            other.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
            other.execute("BEGIN IMMEDIATE")
            release = threading.Timer(0.05, other.execute, ("COMMIT",))
            release.start()
            with (
                closing(open_database(f"sqlite:///{tmp_path}/new.db")) as database,
                database.reading() as connection,
            ):
                assert connection.fetch("PRAGMA journal_mode") == [("wal",)]
            release.join()

    def test_another_current_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with closing(open_database("sqlite:///new.db")) as database:
            with database.transaction() as connection:
                connection.execute("CREATE TABLE people (id)")
            database.close()
            monkeypatch.chdir("/")
            with database.reading() as connection:
                assert connection.fetch("SELECT count(*) FROM people") == [(0,)]

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no such mode before")
    def test_engine_with_autocommit_driver(self, sqlite_url: str) -> None:
        """A transaction is committed even if the driver's own commit does nothing."""
        engine = connect(sqlite_url, connect_args={"autocommit": True})
        database = open_database(engine)
        insert = "INSERT INTO hookrow_lists (name) VALUES (%s)"
        with pytest.raises(Rejected), database.transaction() as connection:
            connection.execute_many(insert, [["news"], [None]])
        with database.transaction() as connection:
            connection.execute(insert, ["offers"])
        with closing(sqlite3.connect(engine.url.database or "")) as other:
            assert other.execute("SELECT name FROM hookrow_lists").fetchall() == [("offers",)]
        engine.dispose()

    def test_one_shared_connection(self) -> None:
        """A reader does not roll back the changes of a writer on the same connection."""
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        database = open_database(engine)
        with database.transaction() as connection:
            connection.execute("CREATE TABLE people (id)")
        with ThreadPoolExecutor() as threads:
            with database.transaction() as connection:
                connection.execute("INSERT INTO people VALUES (1)")
                seen = threads.submit(_count_people, database)
                assert wait([seen], 0.02).not_done
            assert seen.result(PATIENCE) == 1
        engine.dispose()

    def test_time_limit_of_reading(self, sqlite_url: str) -> None:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        with closing(open_database(sqlite_url)) as database:
            with pytest.raises(Locked), limited_to(0.05), database.reading() as connection:
                connection.fetch(f"{numbers} SELECT max(i) FROM n")
            with database.reading() as connection:
                assert connection.fetch(f"{numbers} SELECT i FROM n LIMIT 2") == [(1,), (2,)]

    def test_time_limit_of_waiting_for_the_file(self, sqlite_url: str) -> None:
        """If less time is left than the lock timeout, only this wait is shorter."""
        file = make_url(sqlite_url).database or ""
        with (
            closing(sqlite3.connect(file, isolation_level=None)) as other,
            closing(open_database(sqlite_url)) as database,
        ):
            other.execute("BEGIN IMMEDIATE")
            began = monotonic()
            with pytest.raises(Conflict), limited_to(0.05), database.transaction():
                pass
            assert monotonic() - began < LOCK_TIMEOUT / 2
            other.execute("COMMIT")
            with database.transaction() as connection:
                assert connection.fetch("PRAGMA busy_timeout") == [(LOCK_TIMEOUT * 1000,)]

    @pytest.mark.parametrize("own", [True, False], ids=["own", "supplied"])
    def test_write_lock(self, sqlite_url: str, *, own: bool) -> None:
        """No other connection can write until the end of a transaction, on any engine."""
        engine = connect(sqlite_url)
        database = open_database(sqlite_url if own else engine)
        file = engine.url.database or ""
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
            with (
                database.transaction(),
                pytest.raises(sqlite3.OperationalError, match="locked"),
            ):
                other.execute("BEGIN IMMEDIATE")
            other.execute("BEGIN IMMEDIATE")
        database.close()
        engine.dispose()

    def test_begin_event_of_the_host(self, sqlite_url: str) -> None:
        """A transaction that the host's begin event begins (SQLAlchemy's recipe) is committed."""
        engine = connect(sqlite_url)

        @event.listens_for(engine, "connect")
        def leave_it_to_sqlalchemy(connection: sqlite3.Connection, _record: object) -> None:
            connection.isolation_level = None

        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        with open_database(engine).transaction() as connection:
            connection.execute("INSERT INTO hookrow_lists (name) VALUES ('news')")
        with closing(sqlite3.connect(engine.url.database or "")) as other:
            assert other.execute("SELECT name FROM hookrow_lists").fetchall() == [("news",)]
        engine.dispose()


def test_too_old(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_database(database_url)) as database:
        verify(database, Schema())
        monkeypatch.setattr(type(database.dialect), "oldest", (99, 1))
        with pytest.raises(ConfigurationError, match=r"needs (PostgreSQL|SQLite) 99\.1 or later"):
            verify(database, Schema())


class TestPostgreSQL:
    @pytest.fixture(params=["own", "supplied"])
    def database(self, request: pytest.FixtureRequest, postgres_url: str) -> Iterator[Database]:
        engine = connect(postgres_url)
        database = open_database(postgres_url if request.param == "own" else engine)
        yield database
        database.close()
        engine.dispose()

    def test_time_limits(self, database: Database) -> None:
        """Limits apply until the end of a transaction; the limit of a reader ends a slow query."""
        for _ in range(2):
            with database.transaction() as connection:
                assert connection.fetch(LIMITS) == [("2s", "4s")]
            with database.reading() as connection:
                assert connection.fetch(LIMITS) == [("0", "0")]
        with (
            pytest.raises(StoreError),  # on a busy machine, the connection is closed first
            limited_to(0.1),
            database.reading() as connection,
        ):
            connection.fetch("SELECT FROM pg_sleep(60)")

    def test_ignored_error(self, database: Database) -> None:
        """If the caller ignores an error, COMMIT would roll back silently: it is `Unavailable`."""
        insert = "INSERT INTO hookrow_lists (name) VALUES (%s)"
        with pytest.raises(Unavailable), database.transaction() as connection:  # noqa: PT012 - at the end
            connection.execute(insert, ["news"])
            with suppress(Exception):
                connection.execute(insert, [None])
        with database.reading() as connection:
            assert connection.fetch("SELECT name FROM hookrow_lists") == []

    @pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
    def test_engine_that_autocommits(
        self, postgres_url: str, driver: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A time limit ends a slow query of an AUTOCOMMIT engine, not its connection."""
        monkeypatch.setattr("hookrow.stores.watchdog.GRACE", 5)
        if driver == "psycopg2":
            pytest.importorskip(driver)
        url = make_url(postgres_url).set(drivername=f"postgresql+{driver}")
        engine = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0)
        database = open_database(engine)
        with database.transaction() as connection:
            pid = connection.fetch(PID)
        with pytest.raises(Locked), limited_to(0.1), database.reading() as connection:
            connection.fetch("SELECT pg_sleep(60)")
        with database.reading() as connection:
            assert connection.fetch(PID) == pid
            assert connection.fetch(LIMITS) == [("0", "0")]
        engine.dispose()


def test_number_of_connections(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 8 connections are open, and readers use at most 6 of them."""
    monkeypatch.setattr("hookrow.stores.sql.connections.CONNECT_TIMEOUT", 0.01)
    with closing(open_database(database_url)) as database:
        with ExitStack() as readers:
            for _ in range(READERS):
                readers.enter_context(database.reading())
            with pytest.raises(Unavailable, match="All 6 connections of readers are in use"):
                readers.enter_context(database.reading())
            with database.transaction() as connection:
                assert connection.fetch("SELECT 1") == [(1,)]
        with database.reading() as connection:
            assert connection.fetch("SELECT 1") == [(1,)]


def test_time_limit_of_waiting_for_a_connection(postgres_url: str) -> None:
    """If less time is left than the connection timeout, the wait is shorter."""
    with closing(open_database(postgres_url)) as database, ExitStack() as writers:
        for _ in range(SESSIONS):
            writers.enter_context(database.transaction())
        began = monotonic()
        for block in (database.transaction, database.reading):
            with (
                pytest.raises(Unavailable, match="All 8 connections are in use"),
                limited_to(0.05),
                block(),
            ):
                pass
        assert monotonic() - began < 1


def test_close_while_in_use(database_url: str) -> None:
    """A connection that is in use is closed when its block ends; a later block opens another."""
    database = open_database(database_url)
    with database.transaction() as used, closing(database):
        database.close()
        assert used.fetch("SELECT 1") == [(1,)]
    with pytest.raises((sqlite3.ProgrammingError, OperationalError), match="closed"):
        used.fetch("SELECT 1")
    with closing(database), database.reading() as connection:
        assert connection.fetch("SELECT 1") == [(1,)]


def _count_people(database: Database) -> int:
    with database.reading() as connection:
        count: int = connection.fetch("SELECT count(*) FROM people")[0][0]
        return count


def _error(database: Database, statement: str) -> StoreError:
    with pytest.raises(StoreError) as caught, database.transaction() as connection:
        connection.execute(statement)
    database.close()
    return caught.value


class TestErrors:
    """The `StoreError` of real errors; `unit/test_errors.py` tests all codes."""

    def test_no_server(self, tmp_path: Path) -> None:
        """A server that cannot be reached is unavailable; the text contains no password."""
        url = f"postgresql://ada:{PASSWORD}@/mail?host={tmp_path}"
        found = _error(open_database(url), "SELECT")
        assert type(found) is Unavailable
        assert "connection" in str(found)
        assert PASSWORD not in str(found)

    @pytest.mark.parametrize("own", [True, False], ids=["own", "supplied"])
    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"username": "nobody"}, 'role "nobody" does not exist'),
            ({"database": "nothing"}, 'database "nothing" does not exist'),
        ],
    )
    def test_access_denied(
        self, postgres_url: str, wrong: dict[str, str], says: str, *, own: bool
    ) -> None:
        """Verification raises `AccessDenied`, and an unverified store `Unavailable`."""
        url = make_url(postgres_url).set(**wrong)  # type: ignore[arg-type] # of a name
        engine = connect(str(url))
        database = open_database(url if own else engine)
        with pytest.raises(AccessDenied, match=f"refuses the connection: {says}"):
            SQLStore(database, verify=True)
        with (
            pytest.raises(Unavailable, match=f"refuses the connection: {says}"),
            SQLStore(database).transaction(),
        ):
            pass
        engine.dispose()

    @pytest.mark.parametrize("own", [True, False], ids=["own", "supplied"])
    def test_constraint_of_postgresql(self, postgres_url: str, *, own: bool) -> None:
        """The text names the constraint and the table, but does not quote the row."""
        engine = connect(postgres_url)
        found = _error(open_database(postgres_url if own else engine), TWICE)
        assert type(found) is Rejected
        assert str(found) == (
            "UniqueViolation 23505 constraint hookrow_subscribers_email table hookrow_subscribers"
        )
        engine.dispose()

    @pytest.mark.parametrize("own", [True, False], ids=["own", "supplied"])
    def test_sqlite(self, sqlite_url: str, *, own: bool) -> None:
        """A constraint and a trigger reject the data; the error does not quote their text."""
        engine: Engine = connect(sqlite_url)
        refuse = "BEGIN SELECT RAISE(ABORT, 'example'); END"
        run(engine, f"CREATE TRIGGER no BEFORE INSERT ON hookrow_lists {refuse}")
        for statement in (TWICE, "INSERT INTO hookrow_lists (name) VALUES ('news')"):
            found = _error(open_database(sqlite_url if own else engine), statement)
            assert type(found) is Rejected
            assert "example" not in str(found)
        engine.dispose()


@pytest.mark.parametrize("replaced", [True, False])
def test_moved_file(sqlite_url: str, *, replaced: bool) -> None:
    """Nothing is committed to a file that was moved, until it is moved back."""
    file = Path(make_url(sqlite_url).database or "")
    with closing(open_database(sqlite_url)) as database:
        with database.transaction() as connection:
            connection.execute("INSERT INTO hookrow_lists (name) VALUES ('before')")
        file.rename(file.with_name("away"))
        if replaced:
            file.write_bytes(b"")
        with pytest.raises(Unavailable, match="moved, removed or replaced"), database.transaction():
            pass
        assert file.exists() is replaced
        file.with_name("away").rename(file)
        with database.reading() as connection:
            assert connection.fetch("SELECT name FROM hookrow_lists") == [("before",)]
