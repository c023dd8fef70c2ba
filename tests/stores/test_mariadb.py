"""Connections to MariaDB and MySQL: hookrow's own, and those of a host's engine."""

from __future__ import annotations

import os
import ssl
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, suppress
from decimal import Decimal
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest
from contract import NOON
from sqlalchemy import Engine, create_engine, event, make_url

from engines import connect, run
from hookrow import Schema
from hookrow._diagnostics.check import check_database
from hookrow.stores._errors import (
    AccessDenied,
    Detached,
    Locked,
    ReadOnly,
    Rejected,
    StoreError,
    Unavailable,
)
from hookrow.stores._timeouts import limited_to
from hookrow.stores._watchdog import TRANSACTION_TIMEOUT
from hookrow.stores.sql._catalogues.mariadb import MariaDBCatalogue
from hookrow.stores.sql._connections import CONNECT_TIMEOUT, IDLE, Connection, Database, Insert
from hookrow.stores.sql._mariadb import MariaDBDatabase, MariaDBSession
from hookrow.stores.sql._mariadb_drivers import _tls_options
from hookrow.stores.sql._mariadb_url import TLS, TLSLevel
from hookrow.stores.sql._sqlalchemy import EngineDatabase
from mariadb import Databases, Server
from relay import closed_port, relays, silent_port
from wire import PATIENCE

Block = Callable[[EngineDatabase], AbstractContextManager[Connection]]

BLOCKS: list[Block] = [
    EngineDatabase.transaction,
    EngineDatabase.recording,
    EngineDatabase.reading,
    EngineDatabase.upgrading,
    EngineDatabase.autocommit,
]

UNUSUAL = """
    SET time_zone = '-07:00', sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES',
    sql_safe_updates = 1, sql_select_limit = 1, innodb_lock_wait_timeout = 7,
    lock_wait_timeout = 7, collation_connection = 'utf8mb4_general_ci'
    /*M! , max_statement_time = 7.5, tx_isolation = 'SERIALIZABLE' */
    /*!80000 , max_execution_time = 7500, transaction_isolation = 'SERIALIZABLE',
    information_schema_stats_expiry = 7 */
"""
"""The settings of a host whose sessions differ from hookrow's in every respect."""

SETTINGS = """
    SELECT @@time_zone, @@sql_mode, @@sql_safe_updates, @@sql_select_limit,
    @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@collation_connection
    /*M! , @@max_statement_time, @@tx_isolation */
    /*!80000 , @@max_execution_time, @@transaction_isolation, @@information_schema_stats_expiry */
"""

STATEMENT_LIMIT = "/*M! @@max_statement_time */ /*!80000 @@max_execution_time / 1000 */"
"""In seconds."""

READ_LAST_ID = """
    SELECT auto_increment FROM information_schema.tables
    WHERE table_schema = database() AND table_name = 'hosts'
"""

ISOLATION = "/*M! @@tx_isolation */ /*!80000 @@transaction_isolation */"

NEEDED = "SELECT @@time_zone, @@sql_mode, @@collation_connection, @@sql_safe_updates"
STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


def require(driver: str) -> None:
    """Skip the test if a driver is not installed, or PyMySQL has been installed in its place."""
    name = {"mysqldb": "MySQLdb", "mysqlconnector": "mysql"}.get(driver, "pymysql")
    if pytest.importorskip(name).__name__ != name:
        pytest.skip(f"{name} is PyMySQL, because of install_as_MySQLdb()")


@pytest.fixture(params=["pymysql", "mysqldb", "mysqlconnector"])
def engine(request: pytest.FixtureRequest, empty_mariadb_url: str) -> Iterator[Engine]:
    """Return an engine of a host, with one connection, on a database with a table."""
    require(request.param)
    url = empty_mariadb_url.replace("mariadb:", f"mysql+{request.param}:")
    engine = create_engine(url, pool_size=1, max_overflow=0)
    with engine.connect() as connection:
        levels = engine.dialect.get_isolation_level_values(connection.connection.dbapi_connection)  # type: ignore[arg-type] # it is connected
    if "AUTOCOMMIT" not in levels:
        pytest.skip("this SQLAlchemy cannot let this driver commit each statement by itself")
    run(engine, "CREATE TABLE people (id int PRIMARY KEY, name varchar(20)) ENGINE = InnoDB")
    yield engine
    engine.dispose()


def unusual(engine: Engine) -> None:
    """Let the engine's sessions have unusual settings."""

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: object) -> None:  # noqa: ANN401 - of any driver
        cursor = connection.cursor()
        cursor.execute(UNUSUAL)
        cursor.close()

    engine.dispose()


def settings(engine: Engine) -> Sequence[Any]:
    """Return the settings of the session, to which SQLAlchemy itself makes no change here."""
    with engine.connect() as connection:
        return connection.exec_driver_sql(SETTINGS).fetchall()


@pytest.mark.parametrize("block", BLOCKS)
def test_settings_of_the_host_are_restored(engine: Engine, block: Block) -> None:
    """Also after an error. In the block, the session has those that hookrow's SQL needs."""
    unusual(engine)
    database, usual = EngineDatabase(engine), settings(engine)
    with block(database) as connection:
        assert connection.fetch(NEEDED) == [("+00:00", STRICT, "utf8mb4_bin", 0)]
        assert len(connection.fetch("SELECT 1 UNION SELECT 2")) == 2
    assert settings(engine) == usual
    with pytest.raises(Rejected), block(database) as connection:
        connection.execute("INSERT INTO people VALUES (1, %s)", ["longer than 20 characters"])
    assert settings(engine) == usual
    with pytest.raises(ZeroDivisionError), block(database):
        raise ZeroDivisionError
    assert settings(engine) == usual


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_settings_that_cannot_be_restored(
    engine: Engine, block: Block, error: type[Exception] | None
) -> None:
    """The host gets another connection; the first error is raised."""
    unusual(engine)
    database, usual = EngineDatabase(engine), settings(engine)
    with pytest.raises(error or StoreError), block(database) as connection:  # noqa: PT012 - fails at its end
        connection.execute("SET @hookrow_time_zone_0 = 'nowhere'")
        if error:
            raise error
    assert settings(engine) == usual


def test_parameters(engine: Engine) -> None:
    """Every driver gets parameters and percent signs as they are meant."""
    database = EngineDatabase(engine)
    with database.transaction() as connection:
        rows = [[number, f"{number} %s %% \\ '"] for number in (1, 2)]
        assert connection.execute_many("INSERT INTO people VALUES (%s, %s)", rows) == 2
        assert connection.execute("UPDATE people SET id = id WHERE id = %s", [1]) == 1
    with database.reading() as connection:
        found = connection.fetch("SELECT id, name FROM people WHERE name LIKE '%%\\'' ORDER BY id")
        assert [list(row) for row in found] == rows
        assert connection.fetch("SELECT 7 %% 4") == [(3,)]
        assert connection.fetch("SELECT 7 %% 4 + %s", [1]) == [(4,)]


@pytest.mark.parametrize("level", ["AUTOCOMMIT", "SERIALIZABLE", "READ UNCOMMITTED"])
def test_transactions(engine: Engine, level: str) -> None:
    """A transaction is READ COMMITTED, and all or nothing, on any engine."""
    database = EngineDatabase(engine.execution_options(isolation_level=level))
    with pytest.raises(Rejected), database.transaction() as connection:
        connection.execute_many("INSERT INTO people VALUES (%s, '')", [[1], [1]])
    with database.transaction() as connection:
        assert connection.fetch("SELECT * FROM people") == []
        connection.execute("INSERT INTO people VALUES (1, 'ada')")
    assert run(engine, "SELECT name FROM people") == [("ada",)]


def test_isolation(engine: Engine, mariadb: Databases, empty_mariadb_url: str) -> None:
    """Each statement of a transaction reads what others have committed since the one before."""
    with EngineDatabase(engine).transaction() as connection:
        assert connection.fetch("SELECT * FROM people") == []
        mariadb.execute("INSERT INTO people VALUES (1, 'ada')", url=empty_mariadb_url)
        assert connection.fetch("SELECT name FROM people") == [("ada",)]


# SQLAlchemy does not notice that mysqlconnector has lost a connection.
@pytest.mark.parametrize("engine", ["pymysql", "mysqldb"], indirect=True)
def test_connection_that_the_server_has_closed(
    engine: Engine, mariadb: Databases, empty_mariadb_url: str
) -> None:
    """It is replaced before a transaction and a reading, and invalidated within one."""
    database = EngineDatabase(engine)
    for block in (database.transaction, database.reading):
        assert run(engine, "SELECT 1") == [(1,)]
        mariadb.terminate(empty_mariadb_url)
        with block() as connection:
            assert connection.fetch("SELECT 1") == [(1,)]
        with pytest.raises(Unavailable), block() as connection:  # noqa: PT012 - closed within it
            mariadb.terminate(empty_mariadb_url)
            connection.fetch("SELECT 1")


def test_row_lock(engine: Engine, empty_mariadb_url: str) -> None:
    """A transaction waits for a row for the shortest time that the server knows, a second."""
    run(engine, "INSERT INTO people VALUES (1, 'ada')")
    with connect(empty_mariadb_url).connect() as other:
        other.exec_driver_sql("UPDATE people SET name = 'bob'")
        with pytest.raises(Locked), EngineDatabase(engine).recording() as connection:
            connection.execute("UPDATE people SET name = 'eve'")


def test_limit_of_a_reading(engine: Engine) -> None:
    """The server ends a statement that reads in the time that is left, before the watchdog."""
    database, slow = EngineDatabase(engine), f"SELECT sleep({PATIENCE}), count(*) FROM people"
    run(engine, "INSERT INTO people VALUES (1, 'ada'), (2, 'bob')")
    began = monotonic()
    with suppress(StoreError), limited_to(0.2), database.reading() as connection:
        connection.fetch(slow)  # on MySQL, sleep() then ends without an error
    assert monotonic() - began < PATIENCE
    assert run(engine, f"SELECT {STATEMENT_LIMIT}") == [(0,)]


# The watchdog cannot find the socket of mysqlconnector.
@pytest.mark.parametrize("driver", ["pymysql", "mysqldb"])
def test_frozen_server(own_mariadb: Server, driver: str) -> None:
    """A transaction and a reading on an engine end in the time that is left."""
    require(driver)
    url = own_mariadb.url().replace("mariadb:", f"mysql+{driver}:")
    engine = create_engine(url, pool_size=1, max_overflow=0)
    database = EngineDatabase(engine)
    for block in (database.transaction, database.reading):
        assert run(engine, "SELECT 1") == [(1,)]
        began = monotonic()
        with own_mariadb.frozen(), pytest.raises(Unavailable), limited_to(0.2), block():
            pass
        assert monotonic() - began < PATIENCE
        with pytest.raises(Unavailable), limited_to(0.5), block() as connection:  # noqa: SIM117 - stops in it
            with own_mariadb.frozen():
                connection.fetch("SELECT 1")
    engine.dispose()


# -- hookrow's own connections ----------------------------------------------------------


def hosts(*ports: int, **options: object) -> MariaDBDatabase:
    """Return a database on several ports of this machine."""
    listed = ",".join(f"127.0.0.1:{port}" for port in ports)
    query = "&".join(f"{name}={value}" for name, value in options.items())
    return MariaDBDatabase(f"mariadb://root@{listed}/mysql?{query}")


def fetch(database: Database, sql: str) -> Any:  # noqa: ANN401 - of any type
    """Return the first value of a query in a session for recording."""
    with database.recording() as connection:
        [(value,)] = connection.fetch(sql)
        return value


@pytest.fixture(params=["mariadb", "mysql+mysqldb"])
def own(request: pytest.FixtureRequest, empty_mariadb_url: str) -> Iterator[MariaDBDatabase]:
    """Open a database with each driver; it has a table `people`."""
    require(request.param.partition("+")[2])
    run(empty_mariadb_url, "CREATE TABLE people (id int PRIMARY KEY, body longtext)")
    with closing(MariaDBDatabase(empty_mariadb_url.replace("mariadb", request.param, 1))) as own:
        yield own


def test_session(own: MariaDBDatabase) -> None:
    """A session has what hookrow's SQL needs, and the limits of recording or of the transaction."""
    limits = f"SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout, {STATEMENT_LIMIT}"
    for _ in range(2):
        with own.recording() as connection:
            assert connection.fetch(NEEDED) == [("+00:00", STRICT, "utf8mb4_bin", 0)]
            assert connection.fetch(f"SELECT {ISOLATION}") == [("READ-COMMITTED",)]
            assert connection.fetch(limits) == [(1, 1, 4)]
        with own.transaction() as connection:
            assert connection.fetch(limits) == [(2, 2, 4)]
        with own.reading() as connection:
            assert connection.fetch(limits) == [(31_536_000, 31_536_000, 0)]
        with limited_to(1), own.reading() as connection:
            [(*_, seconds)] = connection.fetch(limits)
            assert 0 < seconds < 1
        with own.autocommit() as connection:
            assert connection.fetch(limits) == [(31_536_000, 31_536_000, 0)]


TEXTS = [
    *("", "null", "%s %% '", 'a "word"', "\\", "\0\n\x1a\x7f", "\u00e9 \U0001f600"),
    *("'" * 300, '\u00e9"\\' * 300, "\0" * 300),
]
"""Texts with every character that could end or change a literal, short and long."""

INSERT = Insert("INSERT INTO people VALUES (%s, %s)", "INSERT INTO people VALUES %s -- 100 %%")


def test_literals(own: MariaDBDatabase) -> None:
    """A value is the same to the server, alone and in a row."""
    numbers = [-1, 2**64 - 1, Decimal("1.50"), True, None]
    with own.recording() as connection:
        for value in [*TEXTS, *numbers, b"", b"'\0\xff", b"\xff" * 300]:
            assert connection.fetch("SELECT %s", [value]) == [(value,)]
        assert connection.fetch("SELECT %s", [NOON]) == [("2026-03-04 12:00:00.123456",)]
        rows = [*enumerate([*TEXTS, None])]
        assert connection.insert(INSERT, rows) == len(rows)
        assert connection.fetch("SELECT * FROM people ORDER BY id") == rows


def test_counts(own: MariaDBDatabase) -> None:
    """An UPDATE counts the rows that it finds; the rows of an INSERT are sent together."""
    with own.recording() as connection:
        rows = [(number, f"'{number}' %s \\ \U0001f600") for number in range(1000)]
        assert connection.insert(INSERT, rows) == 1000
        assert connection.fetch("SHOW STATUS LIKE 'com_insert'") == [("Com_insert", "1")]
        assert connection.execute_many(INSERT.one, [[1000, ""], [1001, ""]]) == 2
        assert connection.execute("UPDATE people SET id = id WHERE id < %s", [7]) == 7
        assert connection.fetch("SELECT * FROM people WHERE id < 1000 ORDER BY id") == rows


def test_last_id(own: MariaDBDatabase, empty_mariadb_url: str) -> None:
    """The last id is that of now, although MySQL keeps for other clients what they have read."""
    run(empty_mariadb_url, "CREATE TABLE hosts (id int AUTO_INCREMENT PRIMARY KEY) ENGINE = InnoDB")
    for last in (1, 2):
        run(empty_mariadb_url, "INSERT INTO hosts VALUES ()")
        with own.reading() as connection:
            assert MariaDBCatalogue(connection, own.dialect).last_id("hosts") == last
        run(empty_mariadb_url, READ_LAST_ID)


def test_long_statement(own: MariaDBDatabase) -> None:
    """One that the server would not accept is refused before it ends the session."""
    with own.recording() as connection:
        [(before, longest)] = connection.fetch("SELECT connection_id(), @@max_allowed_packet")
        statement = "SELECT octet_length('{}')"
        size = longest - len(statement)
        assert connection.fetch(statement.format("x" * size)) == [(size,)]
        with pytest.raises(Rejected, match="longer than the server's max_allowed_packet"):
            connection.fetch(statement.format("x" * (size + 1)))
    assert fetch(own, "SELECT connection_id()") == before


def test_sessions_that_the_server_has_ended(
    own: MariaDBDatabase, mariadb: Databases, empty_mariadb_url: str
) -> None:
    """Idle ones are replaced, and one that is in use is lost for its block only."""
    for _ in range(2):
        assert fetch(own, "SELECT 1") == 1
        mariadb.terminate(empty_mariadb_url)
    with pytest.raises(Unavailable), own.recording() as connection:  # noqa: PT012 - ended within it
        mariadb.terminate(empty_mariadb_url)
        connection.fetch("SELECT 1")
    assert fetch(own, "SELECT 1") == 1


def test_settings_that_a_trigger_changes(own: MariaDBDatabase) -> None:
    """They are set again when the session has been idle."""
    with own.recording() as connection:
        connection.execute("SET time_zone = '+07:00'")
    sleep(IDLE + 0.1)
    assert fetch(own, "SELECT @@time_zone") == "+00:00"


def test_fork(own: MariaDBDatabase) -> None:
    """A child opens sessions of its own, and leaves those of its parent alone."""
    before = fetch(own, "SELECT connection_id()")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        child = os.fork()
    if child == 0:
        os._exit(0 if fetch(own, "SELECT connection_id()") != before else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert fetch(own, "SELECT connection_id()") == before


def test_frozen_server_of_own_sessions(own_mariadb: Server) -> None:
    """Connecting, writing and reading end in the time that is left."""
    with closing(MariaDBDatabase(own_mariadb.url())) as database:
        for block in (database.recording, database.transaction, database.reading):
            assert fetch(database, "SELECT 1") == 1
            with pytest.raises(Unavailable), limited_to(0.5), block() as connection:  # noqa: SIM117 - stops in it
                with own_mariadb.frozen():
                    connection.fetch("SELECT 1")
            began = monotonic()
            with own_mariadb.frozen(), pytest.raises(Unavailable), limited_to(0.3), block():
                pass
            assert monotonic() - began < PATIENCE


def test_restart(own_mariadb: Server) -> None:
    """A session to a server that was restarted is replaced."""
    with closing(MariaDBDatabase(own_mariadb.url())) as database:
        assert fetch(database, "SELECT 1") == 1
        own_mariadb.stop()
        with pytest.raises(Unavailable, match=r"Connecting to .*/socket failed: No such file"):
            fetch(database, "SELECT 1")
        own_mariadb.start()
        assert fetch(database, "SELECT 1") == 1


def test_first_host_that_responds(mariadb: Databases) -> None:
    """A host that refuses connections or is silent costs a share of the time, and only once."""
    socket = mariadb.folder / "socket"
    with relays(socket) as [good], silent_port() as silent:
        ports = closed_port(), silent.getsockname()[1], good.port
        with closing(hosts(*ports, connect_timeout=1.5)) as database:
            assert fetch(database, "SELECT 1") == 1
            database.close()
            began = monotonic()
            assert fetch(database, "SELECT 1") == 1
            assert good.connections == 2
            silent.settimeout(0)
            silent.accept()[0].close()
            with pytest.raises(BlockingIOError):  # it was not asked again
                silent.accept()
            assert monotonic() - began < PATIENCE


def test_no_host_responds() -> None:
    """All hosts together take no longer than the time that is left."""
    with silent_port() as one, silent_port() as other:
        ports = one.getsockname()[1], other.getsockname()[1]
        with closing(hosts(*ports, closed_port())) as database:
            began = monotonic()
            late = "did not respond in time"
            with pytest.raises(Unavailable, match=late), limited_to(0.3), database.recording():
                pass
            assert monotonic() - began < CONNECT_TIMEOUT


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example.com ESMTP",  # of a mail server
        b"\x01\x00\x00\x00\x0a",
        b"\x04\x00\x00\x00abcd",
        b"\x00\x00\x00\x00",
        b"",
    ],
)
def test_another_kind_of_server(data: bytes) -> None:
    with silent_port() as listening:
        database = hosts(listening.getsockname()[1])

        def respond() -> None:
            connection, _ = listening.accept()
            connection.sendall(data)
            connection.close()

        responding = Thread(target=respond)
        responding.start()
        with pytest.raises(Unavailable), database.recording():
            pass
        responding.join()


def test_host_that_fails(mariadb: Databases) -> None:
    """The next session is opened on the next host."""
    socket = mariadb.folder / "socket"
    with relays(socket, socket) as [first, second]:  # noqa: SIM117 - closed after it
        with closing(hosts(first.port, second.port)) as database:
            with pytest.raises(Unavailable), database.recording() as connection:  # noqa: PT012 - closed within it
                first.close()
                connection.fetch("SELECT 1")
            assert second.connections == 0
            assert fetch(database, "SELECT 1") == 1
            assert second.connections == 1


def test_host_that_falls_silent(
    mariadb: Databases, own_mariadb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next host is used long before a transaction without another host would end."""
    monkeypatch.setattr("hookrow.stores.sql._connections.SILENCE", 0.3)
    which = "SELECT @@datadir"
    with relays(own_mariadb.folder / "socket", mariadb.folder / "socket") as [first, second]:
        ports, other = (first.port, second.port), hosts(second.port)
        with closing(hosts(*ports)) as database:
            began = monotonic()
            with pytest.raises(Unavailable), database.recording() as connection:  # noqa: SIM117 - stops in it
                with own_mariadb.frozen():
                    connection.fetch("SELECT 1")
            assert fetch(database, which) == fetch(other, which)
            assert monotonic() - began < TRANSACTION_TIMEOUT
        with closing(hosts(*ports, connect_timeout=0.5)) as database:
            assert fetch(database, which) != fetch(other, which)
            monkeypatch.setattr("hookrow.stores.sql._connections.IDLE", 0.0)
            began = monotonic()
            with own_mariadb.frozen():
                assert fetch(database, which) == fetch(other, which)
            assert monotonic() - began < TRANSACTION_TIMEOUT
        other.close()


def test_read_only_host(mariadb: Databases, own_mariadb: Server) -> None:
    """Another host is used, also instead of one that became read-only; a lone host is kept."""
    with relays(own_mariadb.folder / "socket", mariadb.folder / "socket") as [first, second]:
        with closing(hosts(first.port, second.port)) as database:
            assert fetch(database, "SELECT 1") == 1
            assert second.connections == 0
            own_mariadb.execute("SET GLOBAL read_only = 1")
            sleep(IDLE + 0.1)
            assert fetch(database, "SELECT @@read_only") == 0
        with closing(hosts(first.port)) as database:
            assert fetch(database, "SELECT @@read_only") == 1
        database = hosts(first.port, closed_port())
        with pytest.raises(ReadOnly, match=r"^The server 127\.0\.0\.1:\d+ is read-only"):
            fetch(database, "SELECT 1")
        own_mariadb.execute("SET GLOBAL read_only = 0")


def test_node_that_has_lost_its_cluster(
    mariadb: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host is used; a server without a cluster is ready."""
    socket = mariadb.folder / "socket"
    with relays(socket, socket) as [first, second]:
        with closing(hosts(first.port)._connect()) as session:
            assert session.is_ready()
        ready = {first.port: False, second.port: True}
        monkeypatch.setattr(MariaDBSession, "is_ready", lambda self: ready[self.host.port])
        with closing(hosts(first.port, second.port)) as database:
            assert fetch(database, "SELECT 1") == 1
            assert second.connections == 1
        with closing(hosts(first.port)) as database:
            [result] = check_database(database, Schema())
            assert result.text.endswith("is not connected to its Galera cluster.")
            assert (result.remedy or "").startswith("Connect the node to its cluster again")


def test_node_that_has_not_caught_up(mariadb: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading begins once more on the next host, and the session is closed."""
    socket = mariadb.folder / "socket"
    with relays(socket, socket) as [first, second]:

        def catch_up(session: MariaDBSession, _: str) -> None:
            if session.host.port == first.port:
                session.command("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205")

        monkeypatch.setattr(MariaDBSession, "catch_up", catch_up)
        with closing(hosts(first.port, second.port)) as database:
            for _ in range(2):
                with database.reading() as connection:
                    assert connection.fetch("SELECT 1") == [(1,)]
            assert [first.connections, second.connections] == [1, 1]
        with closing(hosts(first.port)) as database:
            for number in (2, 3):
                error = pytest.raises(Detached, match=r"^The server \S+ has not caught up")
                with error, database.reading():
                    pass
                assert first.connections == number


@pytest.mark.parametrize(
    ("level", "mode", "name"),
    [
        (TLSLevel.REQUIRED, ssl.CERT_NONE, False),
        (TLSLevel.VERIFY_CA, ssl.CERT_REQUIRED, False),
        (TLSLevel.VERIFY_IDENTITY, ssl.CERT_REQUIRED, True),
    ],
)
def test_tls(level: TLSLevel, mode: ssl.VerifyMode, *, name: bool) -> None:
    """The driver verifies the certificate, and the name of the host, as the URL says."""
    context = _tls_options(TLS(level, None, None, None), is_local=False)["ssl"]
    assert (context.verify_mode, context.check_hostname) == (mode, name)


def test_tls_without_a_file(mariadb: Databases, tmp_path: Path) -> None:
    database = MariaDBDatabase(f"{mariadb.url()}&ssl_ca={tmp_path}/ca.pem")
    with pytest.raises(Unavailable, match=r"ca\.pem cannot be used: No such"), database.recording():
        pass


@pytest.mark.parametrize(
    ("package", "remedy"),
    [
        ("cryptography", r"pip install 'pymysql\[rsa\]', or add ssl-mode=REQUIRED to the URL\."),
        ("pynacl", r"pip install 'pymysql\[ed25519\]'\."),
    ],
)
def test_missing_package(
    mariadb: Databases, monkeypatch: pytest.MonkeyPatch, package: str, remedy: str
) -> None:
    """The text says how to install what PyMySQL lacks, and that TLS helps if it does."""

    def refuse(*_: object) -> None:
        raise RuntimeError(f"'{package}' package is required for an authentication plugin")

    monkeypatch.setattr("pymysql.Connection._request_authentication", refuse)
    database = MariaDBDatabase(mariadb.url())
    with pytest.raises(AccessDenied, match=f"package. Run {remedy}$"), database.recording():
        pass


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"username": "nobody", "password": "secret"},
            "Access denied.*Check the user and the pass",
        ),
        ({"database": "nothing"}, "Unknown database 'nothing'.*Check the name of the database"),
    ],
)
def test_access_denied(mariadb: Databases, wrong: dict[str, str], message: str) -> None:
    url = make_url(mariadb.url()).set(**wrong)  # type: ignore[arg-type] # of a name
    database = MariaDBDatabase(url.render_as_string(hide_password=False))
    with pytest.raises(AccessDenied, match=message) as caught, database.recording():
        pass
    assert "secret" not in str(caught.value)
