"""Engines of our own, the beginning of a transaction, and what a database's error means."""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from homes import connect
from sqlalchemy import Engine, event, make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from hookrow import ConfigurationError
from hookrow.stores import (
    Conflict,
    Locked,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
    engines,
)
from hookrow.stores.engines import (
    CONNECT_TIMEOUT,
    begin,
    check_version,
    open_engine,
    reading,
    shown,
)
from hookrow.stores.faults import fault
from hookrow.stores.limits import LOCK_TIMEOUT, limited_to
from postgres import Server

PASSWORD = "hunter2"


class TestOpenEngine:
    @pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
    def test_postgresql_means_psycopg(self, scheme: str) -> None:
        """Whichever way PostgreSQL is written, the driver is psycopg 3."""
        engine = open_engine(f"{scheme}://ada@localhost/mail")
        assert engine.url.drivername == "postgresql+psycopg"

    def test_a_url_may_be_made_already(self, tmp_path: Path) -> None:
        """SQLAlchemy's own URL is as good as its text."""
        assert open_engine(make_url(f"sqlite:///{tmp_path}/hookrow.db")).dialect.name == "sqlite"

    @pytest.mark.parametrize(
        "url",
        [
            *("", "hookrow.db", "/var/lib/hookrow.db", "sqlite", "://"),
            f"postgresql//ada:{PASSWORD}@localhost/mail",
            f"postgresql://ada:{PASSWORD}@localhost:port/mail",
            f"postgresql://ada:{PASSWORD}@localhost:5432:5433/mail",
            f"postgresql://ada:p@ss:{PASSWORD}@localhost/mail",
            f"postgresql://ada:p@{PASSWORD}@localhost/mail",
            f"postgresql+nodriver://ada:{PASSWORD}@localhost/mail",
        ],
    )
    def test_what_is_no_url_is_refused(self, url: str) -> None:
        """The error says what to write, and nothing of what may be a password."""
        with pytest.raises(ConfigurationError) as caught:
            open_engine(url)
        told = "".join(traceback.format_exception(caught.value))
        assert PASSWORD not in told
        assert "sqlite:///" in str(caught.value) or "postgresql://" in str(caught.value)

    @pytest.mark.parametrize("name", ["mysql", "mysql+pymysql", "oracle", "mssql+pyodbc", "nodb"])
    def test_another_database_is_refused(self, name: str) -> None:
        """The error names it and the two that there are, and no password."""
        with pytest.raises(ConfigurationError, match="PostgreSQL and SQLite, not on") as caught:
            open_engine(f"{name}://ada:{PASSWORD}@localhost/mail")
        assert name.partition("+")[0] in str(caught.value)
        assert PASSWORD not in str(caught.value)

    @pytest.mark.parametrize(
        ("url", "instead"),
        [
            ("sqlite+aiosqlite:///hookrow.db", "sqlite://"),
            ("postgresql+asyncpg://ada@localhost/mail", "postgresql://"),
            ("postgresql+psycopg_async://ada@localhost/mail", "postgresql://"),
        ],
    )
    def test_an_async_driver_is_refused(self, url: str, instead: str) -> None:
        """The error says what to write instead, whether the driver is installed or not."""
        with pytest.raises(ConfigurationError, match=instead) as caught:
            open_engine(url)
        assert "async" in str(caught.value)

    @pytest.mark.parametrize(
        ("url", "said"),
        [
            ("postgresql+pg8000://ada@localhost/mail", "with pg8000: write postgresql:// instead"),
            ("sqlite+pysqlcipher:///hookrow.db", "with pysqlcipher: write sqlite:// instead"),
        ],
    )
    def test_a_driver_without_our_limits_is_refused(self, url: str, said: str) -> None:
        """It may be lent, in an engine."""
        with pytest.raises(ConfigurationError, match=said):
            open_engine(url)

    @pytest.mark.parametrize(
        ("module", "url", "said"),
        [
            ("psycopg", "postgresql://ada@localhost/mail", "pip install 'hookrow[postgres]'"),
            ("psycopg2", "postgresql+psycopg2://ada@localhost/mail", "write postgresql:// instead"),
        ],
    )
    def test_a_driver_that_is_not_installed_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, module: str, url: str, said: str
    ) -> None:
        """The error says what to install, or to write."""
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            open_engine(url)

    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
    def test_a_file_in_memory_is_refused(self, url: str) -> None:
        """Every connection of ours would see another database, and an answer of 200 be a lie."""
        with pytest.raises(ConfigurationError, match="name a file"):
            open_engine(url)

    def test_the_password_is_not_shown(self) -> None:
        """Where a URL is shown, neither its password nor one among its options is."""
        url = make_url(f"postgresql://ada:{PASSWORD}@localhost/mail?password={PASSWORD}")
        assert shown(url) == "postgresql://ada:***@localhost/mail"

    def test_errors_do_not_show_parameters(self, database_url: str) -> None:
        """What SQLAlchemy raises names no address: parameters are hidden."""
        with closing(_Opened(database_url)) as opened, pytest.raises(SQLAlchemyError) as caught:
            opened.execute("SELECT no_such_column WHERE 'x' = :email", email="ada@example.com")
        assert "ada@example.com" not in str(caught.value)


class _Opened:
    """An engine of our own, with one connection."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url)
        self.connection = self.engine.connect()

    def execute(self, statement: str, **parameters: object) -> Any:  # noqa: ANN401 - whatever it is
        """Return the first value of the first row."""
        return self.connection.execute(text(statement), parameters).scalar()

    def close(self) -> None:
        """Close both."""
        self.connection.close()
        self.engine.dispose()


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[_Opened]:
    """Open SQLite with an engine of our own."""
    with closing(_Opened(sqlite_url)) as opened:
        yield opened


class TestOurSqlite:
    def test_readers_do_not_stop_the_writer(self, sqlite: _Opened) -> None:
        """The journal is a write-ahead log."""
        assert sqlite.execute("PRAGMA journal_mode") == "wal"

    def test_a_commit_is_on_the_disk(self, sqlite: _Opened) -> None:
        """Synchronous is FULL: an answer of 200 survives a power cut."""
        assert sqlite.execute("PRAGMA synchronous") == 2

    def test_references_are_checked(self, sqlite: _Opened) -> None:
        """Foreign keys are on, as they are on PostgreSQL."""
        assert sqlite.execute("PRAGMA foreign_keys") == 1

    def test_a_held_file_is_waited_for(self, sqlite: _Opened) -> None:
        """For as long as a locked row."""
        assert sqlite.execute("PRAGMA busy_timeout") == LOCK_TIMEOUT * 1000


def test_the_switch_to_a_log_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself does not wait there: workers that open a new file together would fail."""
    with closing(sqlite3.connect(tmp_path / "new.db", check_same_thread=False)) as other:
        other.isolation_level = None
        other.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.execute, ("COMMIT",))
        release.start()
        try:
            with closing(_Opened(f"sqlite:///{tmp_path}/new.db")) as opened:
                assert opened.execute("PRAGMA journal_mode") == "wal"
        finally:
            release.join()


class TestReading:
    def test_within_a_time(self, empty_postgres_url: str) -> None:
        """What the database takes too long for ends; outside of the block nothing is limited."""
        slow = text("SELECT 1 FROM pg_sleep(0.3)")
        with closing(_Opened(empty_postgres_url)) as opened:
            with (
                pytest.raises(OperationalError, match="statement timeout"),
                limited_to(0.1),
                reading(opened.engine) as connection,
            ):
                connection.execute(slow)
            with reading(opened.engine) as connection:
                assert connection.execute(slow).scalar() == 1

    def test_a_server_that_says_nothing(self, postgres: Server, empty_postgres_url: str) -> None:
        """It ends soon after, also where the connection idled."""
        with closing(_Opened(empty_postgres_url)) as opened:
            with reading(opened.engine):
                began = monotonic()
            with (
                postgres.frozen(),
                pytest.raises(OperationalError),
                limited_to(0.1),
                reading(opened.engine),
            ):
                pytest.fail("it answers")
            assert monotonic() - began < CONNECT_TIMEOUT + 3


def _path(url: str) -> str:
    return make_url(url).database or ""


def _is_write_locked(url: str) -> bool:
    with closing(sqlite3.connect(_path(url), timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


def _begins_by_itself(url: str) -> Engine:
    """Make an engine by SQLAlchemy's own recipe for SQLite's transactions."""
    engine = connect(url, connect_args={"timeout": 0.1})

    @event.listens_for(engine, "connect")
    def leave_it_to_us(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin_deferred(connection: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        connection.exec_driver_sql("BEGIN")

    return engine


class TestBegin:
    @pytest.mark.parametrize("own", [True, False], ids=["own", "lent"])
    def test_sqlite_is_locked_from_the_beginning(self, sqlite_url: str, *, own: bool) -> None:
        """Nobody writes between what is found and what is saved, on a lent engine neither."""
        engine = open_engine(sqlite_url) if own else connect(sqlite_url)
        with engine.connect() as connection:
            begin(connection)
            assert _is_write_locked(sqlite_url)
            connection.commit()
            assert not _is_write_locked(sqlite_url)
        engine.dispose()

    def test_a_transaction_that_the_host_began_is_used(self, sqlite_url: str) -> None:
        """Where the host's engine begins by itself, no second BEGIN fails, and commit commits."""
        engine = _begins_by_itself(sqlite_url)
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            begin(connection)
            connection.execute(text("INSERT INTO hookrow_lists (name) VALUES ('news')"))
            connection.commit()
        with closing(sqlite3.connect(_path(sqlite_url))) as other:
            assert other.execute("SELECT name FROM hookrow_lists").fetchall() == [("news",)]
        engine.dispose()

    def test_postgresql_gets_time_limits_until_the_end(self, postgres_url: str) -> None:
        """They hold within the transaction, and leave a lent connection as it was."""
        engine = connect(postgres_url)
        with engine.connect() as connection:
            for end in (connection.commit, connection.rollback):
                begin(connection)
                assert connection.scalar(text("SHOW lock_timeout")) == "2s"
                assert connection.scalar(text("SHOW statement_timeout")) == "4s"
                end()
                assert connection.scalar(text("SHOW lock_timeout")) == "0"
                assert connection.scalar(text("SHOW statement_timeout")) == "0"
                connection.rollback()
        engine.dispose()


def test_a_database_that_is_too_old_is_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which version is needed, and which this is."""
    opened = _Opened(database_url)
    check_version(opened.connection)
    monkeypatch.setattr(engines, "_OLDEST", {"postgresql": (99,), "sqlite": (99, 1)})
    with pytest.raises(ConfigurationError, match=r"needs (PostgreSQL 99|SQLite 99\.1) or later"):
        check_version(opened.connection)
    opened.close()


def _fault(engine: Engine, statement: str) -> StoreError:
    with engine.connect() as connection, pytest.raises(SQLAlchemyError) as caught:
        connection.execute(text(statement))
    engine.dispose()
    return fault(caught.value)


class TestPostgresFaults:
    @pytest.mark.parametrize(
        ("state", "kind"),
        [
            *(("40001", Conflict), ("40P01", Conflict)),
            *(("55P03", Locked), ("57014", Locked)),
            *(("22001", Rejected), ("22P02", Rejected), ("23505", Rejected), ("23514", Rejected)),
            *(("53100", Unavailable), ("53300", Unavailable), ("57P01", Unavailable)),
            *(("08006", Unavailable), ("42P01", SchemaChanged), ("25006", Unavailable)),
        ],
    )
    def test_the_state_says_what_to_do(
        self, postgres_url: str, state: str, kind: type[StoreError]
    ) -> None:
        """Each SQLSTATE, as the server itself sends it."""
        raised = f"DO $$ BEGIN RAISE EXCEPTION 'as asked' USING ERRCODE = '{state}'; END $$"
        assert type(_fault(connect(postgres_url), raised)) is kind

    @pytest.mark.parametrize("state", ["P0001", "44000"])
    def test_a_row_that_the_host_refuses_is_rejected(self, postgres_url: str, state: str) -> None:
        """A trigger's RAISE or a view's check option is about the row, like any constraint."""
        raised = f"DO $$ BEGIN RAISE EXCEPTION 'ada@example.com' USING ERRCODE = '{state}'; END $$"
        found = _fault(connect(postgres_url), raised)
        assert type(found) is Rejected
        assert "ada" not in str(found)

    def test_a_server_that_is_not_there_is_unavailable(self, tmp_path: Path) -> None:
        """The text says so, and holds no password."""
        engine = open_engine(f"postgresql://ada:{PASSWORD}@/mail?host={tmp_path}")
        with pytest.raises(SQLAlchemyError) as caught:
            engine.connect()
        found = fault(caught.value)
        assert type(found) is Unavailable
        assert "connection" in str(found)
        assert PASSWORD not in str(found)

    def test_what_the_database_quotes_is_left_out(self, postgres_url: str) -> None:
        """A rejected row is not repeated in the error, for that goes to a log."""
        engine = connect(postgres_url)
        insert = (
            "INSERT INTO hookrow_subscribers (email) VALUES ('a@example.com'), ('A@example.com')"
        )
        found = _fault(engine, insert)
        assert type(found) is Rejected
        assert str(found) == (
            "UniqueViolation 23505 constraint hookrow_subscribers_email table hookrow_subscribers"
        )


class TestSqliteFaults:
    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO hookrow_subscribers (email) VALUES ('a@example.com'), ('A@example.com')",
            "INSERT INTO hookrow_subscribers (email) VALUES (NULL)",
            "INSERT INTO hookrow_subscribers (id, email) VALUES ('one', 'a@example.com')",
            "INSERT INTO hookrow_dispatches (subscriber_id) VALUES (9)",
            "SELECT zeroblob(2000000000)",
        ],
        ids=["unique", "not-null", "mismatch", "foreign-key", "too-big"],
    )
    def test_a_row_that_cannot_be_is_rejected(self, sqlite_url: str, statement: str) -> None:
        """Constraints, types and sizes are about the data; its text is left out."""
        found = _fault(open_engine(sqlite_url), statement)
        assert type(found) is Rejected
        assert "example" not in str(found)

    def test_a_trigger_rejects(self, sqlite_url: str) -> None:
        """A host's RAISE(ABORT) is about the row."""
        with closing(sqlite3.connect(_path(sqlite_url))) as host:
            host.executescript(
                "CREATE TRIGGER no BEFORE INSERT ON hookrow_lists "
                "BEGIN SELECT RAISE(ABORT, 'as asked'); END"
            )
        insert = "INSERT INTO hookrow_lists (name) VALUES ('x')"
        assert type(_fault(connect(sqlite_url), insert)) is Rejected

    def test_a_busy_file_is_a_conflict(self, sqlite_url: str) -> None:
        """Another writer is in the way; the same again may succeed."""
        with closing(sqlite3.connect(_path(sqlite_url), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            engine = connect(sqlite_url, connect_args={"timeout": 0})
            assert type(_fault(engine, "INSERT INTO hookrow_lists (name) VALUES ('x')")) is Conflict

    def test_what_is_no_database_is_unavailable(self, tmp_path: Path) -> None:
        """A file of another kind cannot do a database's work."""
        (tmp_path / "notes.txt").write_text("not a database" * 100)
        engine = connect(f"sqlite:///{tmp_path}/notes.txt")
        assert type(_fault(engine, "SELECT * FROM hookrow_lists")) is Unavailable

    def test_a_missing_table_is_unavailable(self, sqlite_url: str) -> None:
        """That is no fault of the data: it fails whoever sends it."""
        assert type(_fault(connect(sqlite_url), "SELECT * FROM nothing")) is SchemaChanged
