"""A host's SQLAlchemy engine, with its pool, its events and its driver. It stays the host's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import isinf
from threading import RLock
from typing import Any

from sqlalchemy import Connection as EngineConnection
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from hookrow.errors import ConfigurationError
from hookrow.stores import NOT_ON
from hookrow.stores.sql.connections import Connection, Row, store_errors
from hookrow.stores.sql.dialects import DIALECTS, question_marks
from hookrow.stores.timeouts import left, limit_statements, set_limits
from hookrow.stores.watch import watch

_ERRORS = (SQLAlchemyError,)
_LIMITS = set_limits(prepared=True)

_SHARED = (SingletonThreadPool, StaticPool)
"""Pools whose connection is the database itself, or one that the host works on."""


class _Connection:
    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._convert = question_marks if connection.dialect.name == "sqlite" else str

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        found = self._connection.exec_driver_sql(self._convert(sql), tuple(parameters))
        return found.fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        done = self._connection.exec_driver_sql(self._convert(sql), tuple(parameters))
        done.close()
        return done.rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.exec_driver_sql(self._convert(sql), list(map(tuple, rows))).close()


class EngineDatabase:
    """The database of an engine; see `connections.Database`.

    Raises `ConfigurationError` for another database than PostgreSQL or SQLite.
    """

    def __init__(self, engine: Engine) -> None:
        if engine.dialect.name not in DIALECTS:
            raise ConfigurationError(NOT_ON.format(engine.dialect.name))
        if engine.dialect.is_async:
            raise ConfigurationError(
                "hookrow writes in a thread, which an async driver cannot: pass the URL "
                "(`engine.url`), or an engine that is not async."
            )
        self._engine, self._used = engine, False
        in_memory = ":memory:" in str(engine.url) or "mode=memory" in str(engine.url)
        self._is_shared = isinstance(engine.pool, _SHARED) or in_memory
        # With one connection for all, who reads would roll back what another writes.
        self._alone: AbstractContextManager[object] = RLock() if self._is_shared else nullcontext()
        self.dialect = DIALECTS[engine.dialect.name]

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block."""
        self._used = True
        with store_errors(_ERRORS), self._alone:
            connection = self._begun()
            with connection, watch.over(connection), _rolled_back(connection):
                yield _Connection(connection)
                _end(connection, "COMMIT")
                connection.commit()

    @contextmanager
    def session(self) -> Iterator[tuple[Connection, bool]]:
        """Begin a transaction."""
        with self.transaction() as connection:
            yield connection, True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, without time limits but that of `limited_to`."""
        with store_errors(_ERRORS), self._alone, self._engine.connect() as connection:
            # A process may fork before its first transaction, and would share what is idle.
            if not self._used and not self._is_shared:
                connection.detach()
            _ping(connection)
            if isinf(left()):
                yield _Connection(connection)
                return
            with watch.over(connection):
                if connection.dialect.name == "postgresql":
                    connection.exec_driver_sql(limit_statements())
                yield _Connection(connection)

    def close(self) -> None:
        """Do nothing: the engine is the host's."""

    def __str__(self) -> str:
        return self._engine.url.set(query={}).render_as_string(hide_password=True)

    def _begun(self) -> EngineConnection:
        """Begin, on a new connection if the server closed the one that was idle."""
        try:
            return self._begin()
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return self._begin()

    def _begin(self) -> EngineConnection:
        connection = self._engine.connect()
        try:
            with watch.over(connection):
                _begin(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _begin(connection: EngineConnection) -> None:
    """Begin a transaction with time limits.

    SQLite's driver would begin one only at the first write, and then fail if another writer
    came between: BEGIN IMMEDIATE waits for its turn first.
    """
    if connection.dialect.driver == "psycopg":
        # The driver sends no BEGIN of its own then, which would be a round trip more. It ends
        # ours all the same, for it asks the server: psycopg2, say, would not.
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql(f"BEGIN; {_LIMITS}")
    elif connection.dialect.name == "postgresql":
        connection.execution_options(isolation_level="READ COMMITTED")
        connection.exec_driver_sql(_LIMITS)
    else:
        connection.begin()  # upon which an event of the host's may begin one
        if not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _end(connection: EngineConnection, command: str) -> None:
    """End a transaction of SQLite's whose driver would not, as with `autocommit=True`."""
    driver: Any = connection.connection.dbapi_connection
    if getattr(driver, "autocommit", None) is True and getattr(driver, "in_transaction", False):
        connection.exec_driver_sql(command)


def _ping(connection: EngineConnection) -> None:
    """Ask the server whether it is there; SQLAlchemy connects anew if it is not."""
    try:
        with watch.over(connection):
            connection.exec_driver_sql("VALUES (1)")
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    connection.rollback()


@contextmanager
def _rolled_back(connection: EngineConnection) -> Iterator[None]:
    """Roll back what the block began if it raises."""
    try:
        yield
    except BaseException:
        if not connection.invalidated:  # SQLAlchemy takes one whose commit failed for ended
            with suppress(connection.dialect.loaded_dbapi.Error, SQLAlchemyError):
                _end(connection, "ROLLBACK")
                connection.connection.rollback()
        raise
