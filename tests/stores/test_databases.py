"""The databases of URLs and engines: connections, transactions, time limits, errors."""

import errno
import os
import re
import sqlite3
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import Any, TypeAlias
from unittest.mock import Mock

import pymysql
import pytest
from contract import ADA, NOON, arrival, statuses
from homes import OURS
from psycopg import OperationalError
from sqlalchemy import Engine, StaticPool, create_engine, event, make_url, text

from engines import connect, run
from hookrow import ConfigurationError, Delivered, Schema, Suppressed
from hookrow._core.notification import RowId, SetSuppression, Suppressible
from hookrow._migrations import current, upgrade
from hookrow._receiver.recorder import record
from hookrow.stores._errors import AccessDenied, Conflict, Locked, Rejected, StoreError, Unavailable
from hookrow.stores._log import Query
from hookrow.stores._timeouts import LOCK_TIMEOUT, limited_to
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import READERS, SESSIONS, Database
from hookrow.stores.sql._dialects.postgresql import POSTGRESQL
from hookrow.stores.sql._limits import PostgresLimits
from hookrow.stores.sql._mariadb import MariaDBDatabase
from hookrow.stores.sql._mariadb_drivers import PyMySQL
from hookrow.stores.sql._mariadb_url import TLSLevel
from hookrow.stores.sql._postgres import PostgresDatabase
from hookrow.stores.sql._sqlite import SQLiteDatabase
from hookrow.stores.sql._urls import open_database
from hookrow.stores.sql._verify import verify
from own_tables import add_ada, suppressed_at
from postgres import Databases
from wire import PATIENCE

Connect: TypeAlias = Callable[..., Engine]

PASSWORD = "hunter2"

TWICE = "INSERT INTO hookrow_subscribers (email) VALUES ('a@example.com'), ('A@example.com')"
INSERT = "INSERT INTO hookrow_lists (name) VALUES (%s)"
NAMES = "SELECT name FROM hookrow_lists"
PID = "SELECT pg_backend_pid()"
LIMITS = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"

SUPPRESSED = arrival(Suppressed(ADA, None, NOON, "HardBounce"))
ROW: RowId = (Suppressible.SUBSCRIBER, 1)
CHANGE = SetSuppression(*ROW, NOON, "HardBounce", guarded=True)


@pytest.fixture
def connected(request: pytest.FixtureRequest) -> Connect:
    """Return a function that creates an engine as a host might."""

    def create(url: str, driver: str | None = None, **options: Any) -> Engine:  # noqa: ANN401 - create_engine's own
        given = make_url(url).set(drivername=driver) if driver else make_url(url)
        engine = connect(given.render_as_string(hide_password=False), **options)
        request.addfinalizer(engine.dispose)
        return engine

    return create


@pytest.fixture(params=["own", "supplied"])
def lite(request: pytest.FixtureRequest, sqlite_url: str, connected: Connect) -> Iterator[Database]:
    """Open an SQLite file with hookrow's own connections, or with a host's engine."""
    given = sqlite_url if request.param == "own" else connected(sqlite_url)
    with closing(open_database(given)) as database:
        yield database


@pytest.fixture(params=["own", "supplied"])
def pg(request: pytest.FixtureRequest, postgres_url: str, connected: Connect) -> Iterator[Database]:
    """Open a PostgreSQL database with hookrow's own connections, or with a host's engine."""
    given = postgres_url if request.param == "own" else connected(postgres_url)
    with closing(open_database(given)) as database:
        yield database


OWN_LITE = pytest.mark.parametrize("lite", ["own"], indirect=True)
OWN_PG = pytest.mark.parametrize("pg", ["own"], indirect=True)


def file_of(url: str) -> str:
    return make_url(url).database or ""


def fetch(database: Database, statement: str, *parameters: object) -> list[Any]:
    with database.reading() as connection:
        return list(connection.fetch(statement, parameters))


class TestURL:
    @pytest.mark.parametrize(
        ("url", "remedy"),
        [
            ("hookrow.db", "write, for example, sqlite:///"),
            (f"postgresql://ada:{PASSWORD}@localhost:port/mail", "postgresql://user@host"),
            (f"postgresql://ada:p@ss:{PASSWORD}@localhost/mail", "postgresql://user@host"),
            (f"postgresql://ada:{PASSWORD}@localhost/mail%ff", "postgresql://user@host"),
            (f"postgresql://ada:{PASSWORD}@localhost/mail\ud800", "postgresql://user@host"),
            (f"postgresql+nodriver://ada:{PASSWORD}@localhost/mail", "use postgresql://"),
            (f"mssql+pyodbc://ada:{PASSWORD}@localhost/mail", "MySQL, not on mssql"),
            (f"mariadb://ada:p@ss:{PASSWORD}@localhost/mail", "or mariadb://"),
            (f"mysql://ada:{PASSWORD}@localhost:port/mail", "or mariadb://"),
            (f"mysql://ada:{PASSWORD}@localhost:99999/mail", "not between 1 and 65535: correct it"),
            (f"mysql://ada:{PASSWORD}@/mail?unix_socket=", "unix_socket is empty: write the path"),
            (f"mysql://ada:{PASSWORD}@[::1/mail", "or mariadb://"),
            (f"mysql://ada:{PASSWORD}@localhost/mail%ff", "or mariadb://"),
            (f"mysql://ada:{PASSWORD}@localhost/mail\ud800", "or mariadb://"),
            (
                f"mysql://ada:{PASSWORD}@localhost",
                "names no database: write, for example, mysql://",
            ),
            (f"mysql+oursql://ada:{PASSWORD}@localhost/mail", "with oursql: use mysql:// instead"),
            ("mariadb://ada@localhost/mail?autocommit=true", "hookrow has no option 'autocommit'"),
            ("mariadb://ada@localhost/mail?charset=latin1", "remove charset from the URL"),
            ("mariadb://ada@localhost/mail?connect_timeout=0", "seconds, such as 3, not '0'"),
            ("mariadb://ada@localhost/mail?connect_timeout=ever", "seconds, such as 3, not 'ever'"),
            (
                "mariadb://ada@localhost/mail?ssl_disabled=maybe",
                "must be true or false, not 'maybe'",
            ),
            ("mariadb://ada@localhost/mail?ssl-mode=on", "one of DISABLED, PREFERRED, REQUIRED"),
            ("mariadb://localhost/mail?ssl-mode=required&ssl_disabled=1", "replaces ssl_disabled"),
            ("mariadb://localhost/mail?ssl-mode=required&ssl_ca=ca.pem", "remove ssl_ca or those"),
            ("mariadb://localhost/mail?ssl_verify_cert=0&ssl_ca=ca.pem", "remove ssl_ca or those"),
            ("mariadb://localhost/mail?ssl_key=key.pem", "ssl_key without ssl_cert"),
            ("postgresql+pg8000://ada@localhost/mail", "with pg8000: use postgresql:// instead"),
            (f"postgresql://ada:{PASSWORD}@localhost/mail?pool=9", "no option 'pool'"),
            ("postgresql+asyncpg://localhost/mail?command_timeout=9", "option 'command_timeout'"),
            ("sqlite:///", "for a database in memory, sqlite://."),
            ("sqlite://hookrow.db", "use sqlite:///hookrow.db"),
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
        with closing(open_database(url)) as database:
            found = fetch(database, "SELECT 1 WHERE %s = 'it''s 100%%'", "it's 100%")
            assert found == [(1,)]

    def test_url_of_an_async_driver_for_sqlite(self, sqlite_url: str) -> None:
        url = make_url(sqlite_url.replace("sqlite:", "sqlite+aiosqlite:"))
        with closing(open_database(url)) as database:
            assert fetch(database, NAMES) == []

    @pytest.mark.parametrize(
        ("url", "printed"),
        [
            (f"postgresql://ada:{PASSWORD}@db/mail?password={PASSWORD}", "ada:***@db/mail"),
            (f"postgresql://ada:p?{PASSWORD}#x@db:5433/mail", "ada:***@db:5433/mail"),
            ("postgresql://ada@db1,db2/mail", "ada@db1,db2/mail"),
            ("postgresql://ada@db1,db2:5433/mail", "ada@db1,db2:5433/mail"),
            ("postgresql://ada@/mail?host=db1,db2&port=5433", "ada@db1:5433,db2:5433/mail"),
            ("postgresql+asyncpg://db/mail?application_name=my%20app", "db/mail"),
            ("postgresql:///mail?host=a:5433&host=b", "a:5433,b:5432/mail"),
        ],
    )
    def test_string_without_password(self, url: str, printed: str) -> None:
        assert str(open_database(url)) == f"postgresql://{printed}"

    @pytest.mark.parametrize(
        ("url", "printed"),
        [
            (f"mysql+aiomysql://ada:{PASSWORD}@db/mail", "mysql+aiomysql://ada:***@db/mail"),
            (f"mariadb://ada:{PASSWORD}@db1,db2:33/mail", "mariadb://ada:***@db1,db2:33/mail"),
            ("mariadb://[::1],[::2]:33/mail?ssl_ca=ca.pem", "mariadb://[::1],[::2]:33/mail"),
            ("mariadb:///mail?unix_socket=/run/s&charset=utf8mb4", "mariadb://localhost/mail"),
        ],
    )
    def test_string_of_mariadb(self, url: str, printed: str) -> None:
        assert str(open_database(url)) == printed

    def test_login_of_mariadb(self) -> None:
        """The parts of a URL are percent-encoded."""
        database = open_database("mariadb://ad%40:p%2F%C3%A9%40@db/my%20mail?connect_timeout=1.5")
        assert isinstance(database, MariaDBDatabase)
        options = database.options
        assert (options.user, options.password, options.database) == ("ad@", "p/\xe9@", "my mail")
        assert (options.connect_timeout, options.hosts) == (1.5, (("db", 3306),))

    @pytest.mark.parametrize(
        ("query", "level"),
        [
            ("", TLSLevel.PREFERRED),
            ("ssl_disabled=true", TLSLevel.DISABLED),
            ("ssl-mode=Disabled", TLSLevel.DISABLED),
            ("ssl_mode=REQUIRED", TLSLevel.REQUIRED),
            ("ssl_cert=c.pem&ssl_key=k.pem", TLSLevel.REQUIRED),
            ("ssl_verify_cert=false", TLSLevel.REQUIRED),
            ("ssl_verify_cert=true", TLSLevel.VERIFY_IDENTITY),
            ("ssl_verify_identity=1", TLSLevel.VERIFY_IDENTITY),
            ("ssl_ca=ca.pem", TLSLevel.VERIFY_IDENTITY),
            ("ssl_ca=ca.pem&ssl_check_hostname=false", TLSLevel.VERIFY_CA),
            ("ssl_ca=ca.pem&ssl-mode=VERIFY_CA", TLSLevel.VERIFY_CA),
        ],
    )
    def test_tls_of_mariadb(self, query: str, level: TLSLevel) -> None:
        """If an authority is given, the certificate and the name of the host are verified."""
        database = open_database(f"mariadb://db/mail?{query}")
        assert isinstance(database, MariaDBDatabase)
        assert database.options.tls.level is level

    def test_mysqlclient_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "MySQLdb", None)
        with pytest.raises(ConfigurationError, match="pip install mysqlclient, or write mariadb:"):
            open_database("mysql+mysqldb://ada@localhost/mail")

    def test_pymysql_in_place_of_mysqlclient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is used as such if the host has installed it in this place."""
        monkeypatch.setitem(sys.modules, "MySQLdb", pymysql)
        database = open_database("mysql+mysqldb://ada@localhost/mail")
        assert isinstance(database, MariaDBDatabase)
        assert isinstance(database._driver, PyMySQL)

    def test_pymysql_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pymysql", None)
        with pytest.raises(ConfigurationError, match=r"pip install 'hookrow\[mariadb\]'"):
            open_database("mysql://ada@localhost/mail")

    def test_options_of_asyncpg(self) -> None:
        database = open_database("postgresql+asyncpg://db/mail?application_name=my%20app&ssl=")
        assert isinstance(database, PostgresDatabase)
        assert (database.options["application_name"], database.options["sslmode"]) == ("my app", "")

    @pytest.mark.parametrize("url", ["postgresql:///postgres", "postgresql+asyncpg:///"])
    def test_variables_of_libpq(
        self, url: str, postgres: Databases, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They stand for what the URL omits, as for psql, psycopg and asyncpg."""
        for name, value in [("HOST", str(postgres.folder)), ("USER", "postgres"), ("PORT", "1")]:
            monkeypatch.setenv(f"PG{name}", value)
        database = open_database(url)
        with pytest.raises(StoreError, match=r"/\.s\.PGSQL\.1\b"), database.reading():
            pass
        monkeypatch.delenv("PGPORT")
        with database.reading() as connection:
            assert connection.fetch("SELECT 1")


DRIVER = ModuleType("pymssql")
DRIVER.__dict__["paramstyle"] = "format"  # all that SQLAlchemy requires of it


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: None, r"takes a database URL or an sqlalchemy\.Engine, not None: write"),
        # A real one needs greenlet.
        (type("AsyncEngine", (), {"sync_engine": None}), r"pass engine\.url"),
        (lambda: create_engine("postgresql+psycopg_async://ada@localhost/mail"), "async"),
        (lambda: create_engine("mssql+pymssql://ada@localhost/m", module=DRIVER), "not on ms"),
    ],
    ids=["none", "async-engine", "async-driver", "mssql"],
)
def test_another_database(make: Callable[[], Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        SQLStore(make())


@contextmanager
def open_umask() -> Iterator[None]:
    """Let the process create files that everybody can read and write, unless it limits them."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the permissions of the files in a folder."""
    return {each.name: f"{each.stat().st_mode & 0o777:o}" for each in folder.iterdir()}


class TestSQLite:
    @pytest.mark.parametrize("existing", [None, "640"])
    def test_modes(self, tmp_path: Path, existing: str | None) -> None:
        """A new file and its companions are its owner's; an existing file gives them its mode."""
        names = ["mail.db", "mail.db-shm", "mail.db-wal"]
        file = tmp_path / names[0]
        with open_umask(), closing(open_database(f"sqlite:///{file}")) as database:
            assert not modes(tmp_path), "nothing is created before the first use"
            if existing:
                file.touch()
                file.chmod(int(existing, 8))
            with database.transaction() as connection:
                connection.execute("CREATE TABLE people (id)")
                assert modes(tmp_path) == dict.fromkeys(names, existing or "600")

    def test_modes_during_an_upgrade(self, tmp_path: Path) -> None:
        file = tmp_path / "mail.db"
        with open_umask():
            assert upgrade(f"sqlite:///{file}", Schema())
        assert modes(tmp_path) == {"mail.db": "600"}

    def test_mode_at_the_end_of_a_link(self, tmp_path: Path) -> None:
        """A link whose target is missing leads to the place of the new file."""
        folder, link = tmp_path / "disk", tmp_path / "mail.db"
        folder.mkdir()
        link.symlink_to(folder / "target.db")
        with open_umask(), closing(open_database(f"sqlite:///{link}")) as database:
            assert fetch(database, "PRAGMA journal_mode") == [("wal",)]
            assert set(modes(folder).values()) == {"600"}
            assert "target.db" in modes(folder)

    @pytest.mark.parametrize("name", ["a %41#?&.db", "é'\"\\.db", os.fsdecode(b"\xff.db")])
    def test_any_name(self, tmp_path: Path, name: str) -> None:
        """A path is taken literally, although SQLite receives it in a URI."""
        with closing(SQLiteDatabase(f"/{tmp_path}/{name}")) as database:
            with database.transaction() as connection:
                connection.execute("CREATE TABLE people (id)")
            assert name in modes(tmp_path)

    def test_no_folder(self, tmp_path: Path) -> None:
        database = open_database(f"sqlite:///{tmp_path}/none/mail.db")
        with pytest.raises(Unavailable, match="Create its directory, and give this user write"):
            fetch(database, NAMES)

    def test_sqlite_never_creates_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It would choose the mode by the umask."""
        monkeypatch.setattr("hookrow.stores.sql._sqlite.create_private_file", lambda _: None)
        with pytest.raises(Unavailable, match="unable to open"):
            fetch(open_database(f"sqlite:///{tmp_path}/mail.db"), NAMES)
        assert not modes(tmp_path)

    def test_a_file_that_is_no_database(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection is closed."""
        opened: list[sqlite3.Connection] = []
        connect = sqlite3.connect

        def recorded(*args: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 - connect's
            opened.append(connect(*args, **options))
            return opened[-1]

        monkeypatch.setattr(sqlite3, "connect", recorded)
        (tmp_path / "notes.txt").write_text("This is not a database." * 100)
        with closing(open_database(f"sqlite:///{tmp_path}/notes.txt")) as database:
            with pytest.raises(Unavailable):
                fetch(database, NAMES)
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                opened[0].execute("SELECT 1")

    @OWN_LITE
    def test_settings(self, lite: Database) -> None:
        """SQLite uses a WAL, syncs commits, checks foreign keys and waits for a locked file."""
        expected = {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "busy_timeout": LOCK_TIMEOUT * 1000,
        }
        assert {name: fetch(lite, f"PRAGMA {name}")[0][0] for name in expected} == expected

    def test_switch_to_a_wal(self, tmp_path: Path) -> None:
        """Connections that open a new file at the same time wait for each other."""
        with closing(sqlite3.connect(tmp_path / "new.db", check_same_thread=False)) as other:
            other.isolation_level = None
            other.execute("CREATE TABLE people (id INTEGER PRIMARY KEY)")
            other.execute("BEGIN IMMEDIATE")
            release = threading.Timer(0.05, other.execute, ("COMMIT",))
            release.start()
            with closing(open_database(f"sqlite:///{tmp_path}/new.db")) as database:
                assert fetch(database, "PRAGMA journal_mode") == [("wal",)]
            release.join()

    def test_another_current_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with closing(open_database("sqlite:///new.db")) as database:
            with database.transaction() as connection:
                connection.execute("CREATE TABLE people (id)")
            database.close()
            monkeypatch.chdir("/")
            assert fetch(database, "SELECT count(*) FROM people") == [(0,)]

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no such mode before")
    def test_engine_with_autocommit_driver(self, sqlite_url: str, connected: Connect) -> None:
        """A transaction is committed even if the driver's own commit does nothing."""
        database = open_database(connected(sqlite_url, connect_args={"autocommit": True}))
        with pytest.raises(Rejected), database.transaction() as connection:
            connection.execute_many(INSERT, [["news"], [None]])
        with database.transaction() as connection:
            connection.execute(INSERT, ["offers"])
        assert run(sqlite_url, NAMES) == [("offers",)]

    def test_begin_event_of_the_host(self, sqlite_url: str, connected: Connect) -> None:
        """A transaction that the host's begin event begins (SQLAlchemy's recipe) is committed."""
        engine = connected(sqlite_url)

        @event.listens_for(engine, "connect")
        def leave_it_to_sqlalchemy(connection: sqlite3.Connection, _record: object) -> None:
            connection.isolation_level = None

        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        with open_database(engine).transaction() as connection:
            connection.execute(INSERT, ["news"])
        assert run(sqlite_url, NAMES) == [("news",)]

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
                seen = threads.submit(fetch, database, "SELECT count(*) FROM people")
                assert wait([seen], 0.02).not_done
            assert seen.result(PATIENCE) == [(1,)]
        engine.dispose()

    @OWN_LITE
    def test_time_limit_of_reading(self, lite: Database) -> None:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        fetch(lite, "SELECT 1")  # opens the connection
        with pytest.raises(Locked), limited_to(0.05):
            fetch(lite, f"{numbers} SELECT max(i) FROM n")
        assert fetch(lite, f"{numbers} SELECT i FROM n LIMIT 2") == [(1,), (2,)]

    @OWN_LITE
    def test_time_limit_of_waiting_for_the_file(
        self, lite: Database, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If less time is left than the lock timeout, only this wait is shorter."""
        timeout = int(2 * PATIENCE)
        monkeypatch.setattr("hookrow.stores.sql._sqlite.LOCK_TIMEOUT", timeout)
        with closing(sqlite3.connect(file_of(sqlite_url), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began = monotonic()
            with pytest.raises(Conflict), limited_to(0.05), lite.transaction():
                pass
            assert monotonic() - began < PATIENCE
            other.execute("COMMIT")
            with lite.transaction() as connection:
                assert connection.fetch("PRAGMA busy_timeout") == [(timeout * 1000,)]

    def test_write_lock(self, lite: Database, sqlite_url: str) -> None:
        """No other connection can write until the end of a transaction, on any engine."""
        file = file_of(sqlite_url)
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
            with lite.transaction(), pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            other.execute("BEGIN IMMEDIATE")

    def test_rejected(self, lite: Database, sqlite_url: str) -> None:
        """A constraint and a trigger reject the data; the error does not quote their text."""
        refuse = "BEGIN SELECT RAISE(ABORT, 'example'); END"
        run(sqlite_url, f"CREATE TRIGGER no BEFORE INSERT ON hookrow_lists {refuse}")
        for statement in (TWICE, "INSERT INTO hookrow_lists (name) VALUES ('news')"):
            found = _error(lite, statement)
            assert type(found) is Rejected
            assert "example" not in str(found)

    @OWN_LITE
    @pytest.mark.parametrize("code", [errno.EACCES, errno.ELOOP, errno.EIO])
    def test_unreachable_file(
        self, lite: Database, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        """A path that cannot be followed makes the database unavailable, as long as that lasts."""

        def refuse(path: Path) -> None:
            raise OSError(code, os.strerror(code), path)

        with monkeypatch.context() as patched:
            patched.setattr(os, "stat", refuse)
            found = _error(lite, "SELECT 1")
        assert type(found) is Unavailable
        assert f"cannot be used: {os.strerror(code)}. Name another file" in str(found)
        with lite.transaction() as connection:
            assert connection.fetch("SELECT 1") == [(1,)]

    @OWN_LITE
    @pytest.mark.parametrize("replaced", [True, False])
    def test_moved_file(self, lite: Database, sqlite_url: str, *, replaced: bool) -> None:
        """Nothing is committed to a file that was moved, until it is moved back."""
        file = Path(file_of(sqlite_url))
        with lite.transaction() as connection:
            connection.execute(INSERT, ["before"])
        file.rename(file.with_name("away"))
        if replaced:
            file.write_bytes(b"")
        with pytest.raises(Unavailable, match="moved, removed or replaced"), lite.transaction():
            pass
        assert file.exists() is replaced
        file.with_name("away").rename(file)
        assert fetch(lite, NAMES) == [("before",)]


def _error(database: Database, statement: str) -> StoreError:
    """Return the error of a statement; `unit/test_errors.py` tests all codes."""
    with pytest.raises(StoreError) as caught, database.transaction() as connection:
        connection.execute(statement)
    return caught.value


class TestPostgreSQL:
    def test_time_limits(self, pg: Database) -> None:
        """Limits apply until the end of a transaction; the limit of a reader ends a slow query."""
        for _ in range(2):
            with pg.transaction() as connection:
                assert connection.fetch(LIMITS) == [("2s", "4s")]
            assert fetch(pg, LIMITS) == [("0", "0")]
        # On a busy machine, the connection is closed first.
        with pytest.raises(StoreError), limited_to(0.1):
            fetch(pg, "SELECT FROM pg_sleep(60)")

    @pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
    def test_engine_that_autocommits(
        self,
        postgres_url: str,
        connected: Connect,
        driver: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A time limit ends a slow query of an AUTOCOMMIT engine, not its connection."""
        monkeypatch.setattr("hookrow.stores._watchdog.GRACE", 5)
        pytest.importorskip(driver)
        options = {"isolation_level": "AUTOCOMMIT", "pool_size": 1, "max_overflow": 0}
        database = open_database(connected(postgres_url, f"postgresql+{driver}", **options))
        with database.transaction() as connection:
            pid = connection.fetch(PID)
        fetch(database, PID)  # the first one takes longer
        with pytest.raises(Locked), limited_to(0.1):
            fetch(database, "SELECT pg_sleep(60)")
        assert fetch(database, PID) == pid
        assert fetch(database, LIMITS) == [("0", "0")]

    @OWN_PG
    def test_time_limit_of_waiting_for_a_connection(
        self, pg: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If less time is left than the connection timeout, the wait is shorter."""
        monkeypatch.setattr("hookrow.stores.sql._connections.CONNECT_TIMEOUT", 2 * PATIENCE)
        with ExitStack() as writers:
            for _ in range(SESSIONS):
                writers.enter_context(pg.transaction())
            began = monotonic()
            for block in (pg.transaction, pg.reading):
                with (
                    pytest.raises(Unavailable, match="All 8 connections are in use"),
                    limited_to(0.05),
                    block(),
                ):
                    pass
            assert monotonic() - began < PATIENCE

    def test_no_server(self, tmp_path: Path) -> None:
        """A server that cannot be reached is unavailable; the text contains no password."""
        url = f"postgresql://ada:{PASSWORD}@/mail?host={tmp_path}"
        found = _error(open_database(url), "SELECT")
        assert type(found) is Unavailable
        assert "connection" in str(found)
        assert PASSWORD not in str(found)

    @pytest.mark.parametrize("own", [True, False], ids=["own", "supplied"])
    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"username": "nobody"}, 'role "nobody" does not exist'),
            ({"database": "nothing"}, 'database "nothing" does not exist'),
        ],
    )
    def test_access_denied(
        self, postgres_url: str, wrong: dict[str, str], message: str, *, own: bool
    ) -> None:
        """Verification and upgrades raise `AccessDenied`, an unverified store `Unavailable`."""
        url = make_url(postgres_url).set(**wrong)  # type: ignore[arg-type] # of a name
        database = open_database(url if own else connect(str(url)))
        message = f"refuses the connection: {message}.* in its URL: HOOKROW_DATABASE_URL, or"
        for use in (
            partial(SQLStore, database, verify=True),
            partial(current, database),
            partial(upgrade, database, Schema()),
        ):
            with pytest.raises(AccessDenied, match=f"^The database {message}"):
                use()
        with pytest.raises(Unavailable, match=message), SQLStore(database).transaction():
            pass

    def test_constraint(self, pg: Database) -> None:
        """The text names the constraint and the table, but does not quote the row."""
        found = _error(pg, TWICE)
        assert type(found) is Rejected
        assert str(found) == (
            "UniqueViolation 23505 constraint hookrow_subscribers_email table hookrow_subscribers"
        )

    @pytest.mark.parametrize("through", ["url", "pooler", "psycopg", "psycopg2"])
    def test_times_at_the_ends_of_the_calendar(
        self,
        postgres: Databases,
        postgres_url: str,
        through: str,
        connected: Connect,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Times are read even if they do not exist in the server's time zone or style of dates."""
        if through == "pooler":  # behind one, the settings of a session do not last
            nothing = "SELECT FROM (SELECT WHERE false) AS nothing"
            monkeypatch.setattr(PostgresLimits, "session", lambda _: nothing)
        database = file_of(postgres_url)
        postgres.execute(f"ALTER DATABASE {database} SET datestyle = 'SQL, DMY'")
        for zone in ("Asia/Tokyo", "America/New_York"):
            postgres.execute(f"ALTER DATABASE {database} SET timezone = '{zone}'")
            own = through in {"url", "pooler"}
            opened = postgres_url if own else connected(postgres_url, f"postgresql+{through}")
            with closing(SQLStore(opened)) as store:
                for at in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
                    sent = arrival(Delivered(ADA, "unknown", at))
                    assert statuses(record(store, [sent])) == [404]
                assert store.log is not None
                assert len(store.log.newest(Query(), limit=9)) == 2
                with limited_to(PATIENCE):
                    assert len(store.log.newest(Query(), limit=9)) == 2
            if isinstance(opened, Engine):
                assert run(opened, "SHOW timezone") == [(zone,)]

    def test_trigger_that_changes_the_session(self, postgres_url: str, connected: Connect) -> None:
        """The session is closed when its statements no longer find the tables."""
        engine = connected(postgres_url)
        add_ada(engine)
        run(
            engine,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql "
            "AS $$ BEGIN SET search_path = pg_catalog; RETURN NEW; END $$",
            "CREATE TRIGGER t AFTER UPDATE ON hookrow_subscribers "
            "FOR EACH ROW EXECUTE FUNCTION f()",
        )
        with closing(SQLStore(postgres_url)) as store:
            assert statuses(record(store, [SUPPRESSED])) == [200]
            with suppress(StoreError):
                record(store, [SUPPRESSED])
            run(engine, "DROP TRIGGER t ON hookrow_subscribers")
            assert statuses(record(store, [SUPPRESSED])) == [200]


class TestConnections:
    """hookrow's own connections and those of a host's engine, on any database."""

    def test_too_old(self, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(open_database(database_url)) as database:
            verify(database, Schema())
            newer = dict.fromkeys(database.dialect.oldest, (99, 1))
            monkeypatch.setattr(type(database.dialect), "oldest", newer)
            needed = r"needs (PostgreSQL|SQLite|MariaDB|MySQL) 99\.1 or later"
            with pytest.raises(ConfigurationError, match=needed):
                verify(database, Schema())

    @pytest.mark.parametrize(
        ("text", "numbers"),
        [
            ("16.4 (Debian 16.4-1.pgdg120+2)", (16, 4)),
            ("3.45.1", (3, 45, 1)),
            ("17beta1", (17,)),
            ("18rc1", (18,)),
            ("devel", ()),
        ],
    )
    def test_version(self, text: str, numbers: tuple[int, ...]) -> None:
        """A version before its release counts as the release."""
        connection = Mock(fetch=Mock(return_value=[(text,)]))
        assert catalogue_of(connection, POSTGRESQL).version().numbers == numbers

    def test_number(self, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """At most 8 connections are open, and readers use at most 6 of them."""
        monkeypatch.setattr("hookrow.stores.sql._connections.CONNECT_TIMEOUT", 0.01)
        with closing(open_database(database_url)) as database:
            with ExitStack() as readers:
                for _ in range(READERS):
                    readers.enter_context(database.reading())
                with pytest.raises(Unavailable, match="All 6 connections for readers are in use"):
                    readers.enter_context(database.reading())
                with database.transaction() as connection:
                    assert connection.fetch("SELECT 1") == [(1,)]
            assert fetch(database, "SELECT 1") == [(1,)]

    def test_close_while_in_use(self, database_url: str) -> None:
        """A connection in use is closed when its block ends; a later block opens another."""
        database = open_database(database_url)
        with database.transaction() as used, closing(database):
            database.close()
            assert used.fetch("SELECT 1") == [(1,)]
        with pytest.raises((sqlite3.ProgrammingError, OperationalError, pymysql.InterfaceError)):
            used.fetch("SELECT 1")
        with closing(database):
            assert fetch(database, "SELECT 1") == [(1,)]

    def test_close(self, postgres: Databases, postgres_url: str, connected: Connect) -> None:
        """`close` closes all of hookrow's own connections, and none of a host's."""
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        with closing(SQLStore(postgres_url)) as store, store.transaction():
            assert postgres.execute(count, file_of(postgres_url)) == [(1,)]
        assert postgres.execute(count, file_of(postgres_url)) == [(0,)]
        engine = connected(postgres_url)
        with engine.connect() as connection:
            SQLStore(engine).close()
            assert connection.scalar(text("SELECT 1")) == 1

    def test_verification_leaves_no_connection(self, database_url: str, connected: Connect) -> None:
        """The connection that verified the tables is closed: a fork could share a pooled one.

        Construction alone does not connect.
        """
        engine = connected(database_url)
        opened: list[object] = []
        closed: list[object] = []
        event.listen(engine, "connect", lambda connection, _: opened.append(connection))
        event.listen(engine, "close_detached", closed.append)
        SQLStore(engine)
        assert not opened
        SQLStore(engine, verify=True)
        assert len(opened) == 1
        assert closed == opened

    @pytest.mark.parametrize(
        ("kind", "driver", "level"),
        [
            ("sqlite", "sqlite", "AUTOCOMMIT"),
            ("postgres", "postgresql+psycopg", "AUTOCOMMIT"),
            ("postgres", "postgresql+psycopg2", "READ COMMITTED"),
        ],
    )
    def test_transactions(
        self,
        request: pytest.FixtureRequest,
        connected: Connect,
        kind: str,
        driver: str,
        level: str,
    ) -> None:
        """Transactions are all or nothing on any engine, even one that commits each statement."""
        engine = connected(request.getfixturevalue(f"{kind}_url"), driver, isolation_level=level)
        add_ada(engine)
        store = SQLStore(engine)
        with pytest.raises(ZeroDivisionError), store.transaction() as transaction:  # noqa: PT012 - as a host may
            transaction.write([CHANGE])
            raise ZeroDivisionError
        assert suppressed_at(engine) is None
        assert statuses(record(store, [SUPPRESSED])) == [200]
        assert suppressed_at(engine) == NOON

    def test_readers_and_writers(self, database_url: str, connected: Connect) -> None:
        """Uncommitted changes are not read, and neither waits for the other."""
        add_ada(connected(database_url))
        with closing(SQLStore(database_url)) as store, closing(SQLStore(database_url)) as other:
            with other.reading() as reading, store.transaction() as transaction:
                transaction.write([CHANGE])
                transaction.lock([ROW])  # writes what is pending
                assert reading.read([ROW])[ROW]["suppressed_at"] is None
            with other.reading() as reading:
                assert reading.read([ROW])[ROW]["suppressed_at"] == NOON

    def test_construction_before_the_tables(
        self, empty_database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A store can be constructed before its tables exist, and is unavailable until then.

        This is logged once, and no file is created.
        """
        with closing(SQLStore(empty_database_url)) as store:
            for _ in range(3):
                with pytest.raises(Unavailable, match="hookrow db upgrade"), store.transaction():
                    pass
                store._refused_at = float("-inf")
            [warning] = [each.message for each in caplog.records if each.name == "hookrow"]
            assert "No notification can be recorded: " in warning
            if empty_database_url.startswith("sqlite"):
                assert not Path(file_of(empty_database_url)).exists()
            upgrade(empty_database_url, OURS)
            assert statuses(record(store, [SUPPRESSED])) == [404]
