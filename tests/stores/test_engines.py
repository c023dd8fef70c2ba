"""The engines that hookrow opens, how its transactions begin, and what databases' errors mean."""

import re
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from homes import connect, run
from sqlalchemy import Engine, event, make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from hookrow import ConfigurationError
from hookrow.stores import Rejected, StoreError, Unavailable, engines
from hookrow.stores.engines import begin, check_version, open_engine, opened, reading, shown
from hookrow.stores.faults import fault
from hookrow.stores.limits import LOCK_TIMEOUT, limited_to

PASSWORD = "hunter2"

TWICE = "INSERT INTO hookrow_subscribers (email) VALUES ('a@example.com'), ('A@example.com')"


class TestOpenEngine:
    def test_postgresql_means_psycopg(self) -> None:
        for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
            engine = open_engine(make_url(f"{scheme}://ada@localhost/mail"))
            assert engine.url.drivername == "postgresql+psycopg"

    @pytest.mark.parametrize(
        ("url", "remedy"),
        [
            ("hookrow.db", "write for example sqlite:///"),
            (f"postgresql://ada:{PASSWORD}@localhost:port/mail", "or postgresql://"),
            (f"postgresql://ada:p@ss:{PASSWORD}@localhost/mail", "or postgresql://"),
            (f"postgresql+nodriver://ada:{PASSWORD}@localhost/mail", "write postgresql://"),
            (f"mysql://ada:{PASSWORD}@localhost/mail", "SQLite, not on mysql"),
            (f"mssql+pyodbc://ada:{PASSWORD}@localhost/mail", "SQLite, not on mssql"),
            ("sqlite+aiosqlite:///hookrow.db", "async driver cannot: write sqlite://"),
            ("postgresql+pg8000://ada@localhost/mail", "with pg8000: write postgresql:// instead"),
            ("sqlite://", "name a file"),
            ("sqlite:///:memory:", "name a file"),
        ],
    )
    def test_refused(self, url: str, remedy: str) -> None:
        """The error names the remedy and contains no password."""
        with pytest.raises(ConfigurationError, match=re.escape(remedy)) as caught:
            open_engine(url)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize(
        ("driver", "scheme", "remedy"),
        [
            ("psycopg", "postgresql", "pip install 'hookrow[postgres]'"),
            ("psycopg2", "postgresql+psycopg2", "write postgresql:// instead"),
        ],
    )
    def test_not_installed(
        self, monkeypatch: pytest.MonkeyPatch, driver: str, scheme: str, remedy: str
    ) -> None:
        monkeypatch.setitem(sys.modules, driver, None)
        with pytest.raises(ConfigurationError, match=re.escape(remedy)):
            open_engine(f"{scheme}://ada@localhost/mail")

    def test_no_password_is_shown(self) -> None:
        url = make_url(f"postgresql://ada:{PASSWORD}@localhost/mail?password={PASSWORD}")
        assert shown(url) == "postgresql://ada:***@localhost/mail"

    def test_sqlite(self, sqlite_url: str) -> None:
        """SQLite uses a WAL, syncs commits, checks foreign keys and waits for a locked file.

        SQLAlchemy's errors contain no parameters, which may be addresses.
        """
        wanted = {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": LOCK_TIMEOUT * 1000,
        }
        with opened(sqlite_url) as engine, engine.connect() as connection:
            found = {name: connection.scalar(text(f"PRAGMA {name}")) for name in wanted}
            with pytest.raises(SQLAlchemyError) as caught:
                connection.execute(text("SELECT nothing WHERE 'x' = :email"), {"email": "ada@host"})
        assert found == wanted
        assert "ada@host" not in str(caught.value)

    def test_the_switch_to_a_wal_waits(self, tmp_path: Path) -> None:
        """Connections that open a new file at the same time wait for each other."""
        with closing(sqlite3.connect(tmp_path / "new.db", check_same_thread=False)) as other:
            other.isolation_level = None
            other.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
            other.execute("BEGIN IMMEDIATE")
            release = threading.Timer(0.05, other.execute, ("COMMIT",))
            release.start()
            with opened(f"sqlite:///{tmp_path}/new.db") as engine, engine.connect() as connection:
                assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
            release.join()

    def test_too_old(self, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with opened(database_url) as engine, engine.connect() as connection:
            check_version(connection)
            monkeypatch.setattr(engines, "_OLDEST", {"postgresql": (99,), "sqlite": (99, 1)})
            with pytest.raises(ConfigurationError, match=r"needs (PostgreSQL 99|SQLite 99\.1) or"):
                check_version(connection)


class TestBegin:
    @pytest.mark.parametrize("open_", [open_engine, connect], ids=["own", "supplied"])
    def test_sqlite_is_locked(self, sqlite_url: str, open_: Callable[[str], Engine]) -> None:
        """No other connection can write until the end, whoever made the engine."""
        engine = open_(sqlite_url)
        file = engine.url.database or ""
        with (
            closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other,
            engine.connect() as connection,
        ):
            begin(connection)
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            connection.commit()
            other.execute("BEGIN IMMEDIATE")
        engine.dispose()

    def test_a_transaction_of_the_host(self, sqlite_url: str) -> None:
        """The transaction that a host's engine has begun, by SQLAlchemy's recipe, is committed."""
        engine = connect(sqlite_url)

        @event.listens_for(engine, "connect")
        def leave_it_to_sqlalchemy(connection: sqlite3.Connection, _record: object) -> None:
            connection.isolation_level = None

        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            begin(connection)
            connection.execute(text("INSERT INTO hookrow_lists (name) VALUES ('news')"))
            connection.commit()
        with closing(sqlite3.connect(engine.url.database or "")) as other:
            assert other.execute("SELECT name FROM hookrow_lists").fetchall() == [("news",)]
        engine.dispose()

    def test_time_limits_of_postgresql(self, empty_postgres_url: str) -> None:
        """Time limits apply until the end of the transaction; a reader's ends a slow query."""
        limits = text(
            "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
        )
        engine = connect(empty_postgres_url)
        with engine.connect() as connection:
            for end in (connection.commit, connection.rollback):
                begin(connection)
                assert connection.execute(limits).one() == ("2s", "4s")
                end()
                assert connection.execute(limits).one() == ("0", "0")
                connection.rollback()
        with (
            pytest.raises(OperationalError),  # on a busy machine, the connection is closed first
            limited_to(0.1),
            reading(engine) as connection,
        ):
            connection.execute(text("SELECT FROM pg_sleep(60)"))
        with reading(engine) as connection:
            assert connection.execute(limits).one() == ("0", "0")
        engine.dispose()


def _fault(engine: Engine, statement: str) -> StoreError:
    with pytest.raises(SQLAlchemyError) as caught, engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()
    return fault(caught.value)


class TestFaults:
    """What real errors mean; `unit/test_faults.py` has all the codes."""

    def test_no_server(self, tmp_path: Path) -> None:
        """A server that cannot be reached is unavailable; the text contains no password."""
        found = _fault(open_engine(f"postgresql://ada:{PASSWORD}@/mail?host={tmp_path}"), "SELECT")
        assert type(found) is Unavailable
        assert "connection" in str(found)
        assert PASSWORD not in str(found)

    def test_a_constraint_of_postgresql(self, postgres_url: str) -> None:
        """The text names the constraint and the table, but does not quote the row."""
        found = _fault(connect(postgres_url), TWICE)
        assert type(found) is Rejected
        assert str(found) == (
            "UniqueViolation 23505 constraint hookrow_subscribers_email table hookrow_subscribers"
        )

    def test_sqlite(self, sqlite_url: str) -> None:
        """A constraint and a trigger reject the data; their text is left out."""
        engine = connect(sqlite_url)
        refuse = "BEGIN SELECT RAISE(ABORT, 'example'); END"
        run(engine, f"CREATE TRIGGER no BEFORE INSERT ON hookrow_lists {refuse}")
        for statement in (TWICE, "INSERT INTO hookrow_lists (name) VALUES ('news')"):
            found = _fault(engine, statement)
            assert type(found) is Rejected
            assert "example" not in str(found)
