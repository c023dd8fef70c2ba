"""Connections to MariaDB and MySQL: those of a host's engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

from engines import connect, run
from hookrow.stores._errors import Locked, Rejected, StoreError, Unavailable
from hookrow.stores._timeouts import limited_to
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._sqlalchemy import EngineDatabase
from mariadb import Databases, Server
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
    /*!80000 , max_execution_time = 7500, transaction_isolation = 'SERIALIZABLE' */
"""
"""The settings of a host whose sessions differ from hookrow's in every respect."""

SETTINGS = """
    SELECT @@time_zone, @@sql_mode, @@sql_safe_updates, @@sql_select_limit,
    @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@collation_connection
    /*M! , @@max_statement_time, @@tx_isolation */
    /*!80000 , @@max_execution_time, @@transaction_isolation */
"""

NEEDED = "SELECT @@time_zone, @@sql_mode, @@collation_connection, @@sql_safe_updates"
STRICT = "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"


@pytest.fixture(params=["pymysql", "mysqldb", "mysqlconnector"])
def engine(request: pytest.FixtureRequest, empty_mariadb_url: str) -> Iterator[Engine]:
    """Return an engine of a host, with one connection, on a database with a table."""
    modules = {"mysqldb": "MySQLdb", "mysqlconnector": "mysql"}
    pytest.importorskip(modules.get(request.param, request.param))
    url = empty_mariadb_url.replace("mariadb:", f"mysql+{request.param}:")
    engine = create_engine(url, pool_size=1, max_overflow=0)
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
    assert run(engine, "SELECT @@max_statement_time") == [(0.0,)]


# The watchdog cannot find the socket of mysqlconnector.
@pytest.mark.parametrize("driver", ["pymysql", "mysqldb"])
def test_frozen_server(own_mariadb: Server, driver: str) -> None:
    """A transaction and a reading on an engine end in the time that is left."""
    pytest.importorskip({"mysqldb": "MySQLdb"}.get(driver, driver))
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
