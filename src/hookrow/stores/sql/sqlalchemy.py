"""The SQLAlchemy engine of a host, with its own pool, events and driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import isinf
from threading import RLock
from time import monotonic
from typing import Any, ClassVar

from sqlalchemy import Connection as EngineConnection
from sqlalchemy import CursorResult, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from hookrow.errors import ConfigurationError
from hookrow.stores import UNSUPPORTED_DATABASE
from hookrow.stores.errors import UNWRITABLE, is_of_session
from hookrow.stores.sql.connections import Connection, Row, store_errors
from hookrow.stores.sql.dialects import DIALECTS, SQLITE, question_marks
from hookrow.stores.timeouts import NO_LIMITS, left, limit_statements, set_limits
from hookrow.stores.watchdog import watchdog

_ERRORS = (SQLAlchemyError, *UNWRITABLE)
_LIMITS = set_limits(tuned=True)
_MAINTENANCE_LIMITS = set_limits(tuned=True, recording=False)

_IN_TRANSACTION = 2
"""libpq's PQTRANS_INTRANS: a transaction in which no statement has failed."""

_QUICK = 1.0
"""In seconds; the driver notices a closed connection in less time than this."""

_SHARED_POOLS = (SingletonThreadPool, StaticPool)
"""Pools whose connection is an in-memory database, or is in use by the host."""


class _Connection(Connection):
    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._convert = question_marks if connection.dialect.name == "sqlite" else str

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        return self._run(sql, parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the driver's count, and close the cursor."""
        with self._run(sql, parameters) as result:
            return result.rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement with one call of the driver, whose count is negative if unknown."""
        many = list(map(tuple, rows))
        with self._connection.exec_driver_sql(self._convert(sql), many) as result:
            return result.rowcount

    def _run(self, sql: str, parameters: Sequence[Any]) -> CursorResult[Any]:
        return self._connection.exec_driver_sql(self._convert(sql), tuple(parameters))


class EngineDatabase:
    """The database of an engine, which is never closed; see `connections.Database`.

    Raises `ConfigurationError` for an async engine, and for databases other than PostgreSQL and
    SQLite.
    """

    writers: ClassVar[Mapping[tuple[str, str], Callable[[Any], Any]]] = {}

    def __init__(self, engine: Engine) -> None:
        if engine.dialect.name not in DIALECTS:
            raise ConfigurationError(UNSUPPORTED_DATABASE.format(engine.dialect.name))
        if engine.dialect.is_async:
            raise ConfigurationError(
                "hookrow writes in a thread, which an async driver does not support: pass the URL "
                "(`engine.url`), or an engine that is not async."
            )
        self._engine, self._used = engine, False
        in_memory = ":memory:" in str(engine.url) or "mode=memory" in str(engine.url)
        self._is_shared = isinstance(engine.pool, _SHARED_POOLS) or in_memory
        # On a connection that all threads share, a reader would roll back a writer's changes.
        self._lock: AbstractContextManager[object] = RLock() if self._is_shared else nullcontext()
        self.dialect = DIALECTS[engine.dialect.name]

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block."""
        return self._transaction(_MAINTENANCE_LIMITS)

    def session(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that records; it is committed at the end of the block."""
        return self._transaction(_LIMITS)

    @contextmanager
    def _transaction(self, limits: str) -> Iterator[Connection]:
        self._used = True
        with store_errors(_ERRORS), self._lock:
            connection = self._begun(limits)
            with connection, _watched(connection):
                try:
                    with _committed(connection):
                        yield _Connection(connection)
                except DBAPIError as error:
                    # The server may have become a standby. The other connections stay: the host
                    # may be using them.
                    if is_of_session(error) and not self._is_shared:
                        connection.invalidate()
                    raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, in a transaction."""
        with store_errors(_ERRORS), self._lock, self._engine.connect() as connection:
            _ping(connection)
            unlimited = isinf(left()) or connection.dialect.name != "postgresql"
            with nullcontext() if unlimited else _limited(connection):
                if not self._used:  # a fork would share the pool's connection with the child
                    self._detach(connection)
                yield _Connection(connection)

    @contextmanager
    def upgrading(self) -> Iterator[Connection]:
        """See `connections.Upgradable`."""
        with (
            store_errors(_ERRORS),
            self._lock,
            self._engine.connect() as connection,
            _committed(connection),
        ):
            _begin(connection, f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {NO_LIMITS}")
            self._detach(connection)
            yield _Connection(connection)

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """See `connections.Upgradable`."""
        with store_errors(_ERRORS), self._lock, self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            self._detach(connection)
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("SET statement_timeout = 0")
                connection.exec_driver_sql("SET lock_timeout = 0")
            yield _Connection(connection)

    def _detach(self, connection: EngineConnection) -> None:
        """Take a connection out of its pool, so that it is closed at the end."""
        if not self._is_shared:
            connection.detach()

    def renew(self) -> None:
        """Do nothing, because the host owns the engine."""

    def close(self) -> None:
        """Do nothing, because the host owns the engine."""

    def __str__(self) -> str:
        return self._engine.url.set(query={}).render_as_string(hide_password=True)

    def _begun(self, limits: str) -> EngineConnection:
        """Begin, on a new connection if the server has closed the idle one.

        After a slow failure, another attempt would take as long: the server does not respond.
        """
        began = monotonic()
        try:
            return self._begin(limits)
        except DBAPIError as error:
            if not error.connection_invalidated or monotonic() - began > _QUICK:
                raise
            return self._begin(limits)

    def _begin(self, limits: str) -> EngineConnection:
        connection = self._engine.connect()
        try:
            with _watched(connection):
                _begin(connection, limits)
        except BaseException:
            connection.close()
            raise
        return connection


def _begin(connection: EngineConnection, limits: str) -> None:
    """Begin a transaction with time limits, even on an engine that commits each statement.

    SQLite's driver would begin one only at the first write, and then fail if another connection
    had written since the first read. BEGIN IMMEDIATE waits for the write lock first.
    """
    if connection.dialect.driver == "psycopg":
        # The driver then does not send BEGIN, which would be another round trip. It still
        # ends our transaction, because it checks the server's state; psycopg2, for one, would not.
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql(f"BEGIN; {limits}")
    elif connection.dialect.name == "postgresql":
        connection.execution_options(isolation_level="READ COMMITTED")
        connection.exec_driver_sql(limits)
    else:
        connection.begin()  # the host's begin event may start a transaction here
        if not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            connection.exec_driver_sql(SQLITE.begin)


def _end(connection: EngineConnection, command: str) -> None:
    """End a transaction of SQLite if its driver would not, because of `autocommit=True`."""
    driver: Any = connection.connection.dbapi_connection
    if getattr(driver, "autocommit", None) is True and getattr(driver, "in_transaction", False):
        connection.exec_driver_sql(command)


def _ping(connection: EngineConnection) -> None:
    """Check the connection; SQLAlchemy reconnects if it was lost."""
    try:
        with _watched(connection):
            connection.exec_driver_sql("VALUES (1)")
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
    connection.rollback()


def _watched(connection: EngineConnection) -> AbstractContextManager[None]:
    return watchdog.watch(connection.connection.dbapi_connection)


@contextmanager
def _limited(connection: EngineConnection) -> Iterator[None]:
    """Limit the time of each statement in the block, on PostgreSQL, to the time that is left."""
    with _watched(connection), _committed(connection):
        _begin(connection, limit_statements())
        yield


@contextmanager
def _committed(connection: EngineConnection) -> Iterator[None]:
    """Commit at the end of the block, and roll back if it raises."""
    try:
        yield
        _refuse_aborted(connection)
        _end(connection, "COMMIT")
        connection.commit()
    except BaseException:
        if not connection.invalidated:  # to SQLAlchemy, a failed commit ends the transaction
            with suppress(connection.dialect.loaded_dbapi.Error, SQLAlchemyError):
                _end(connection, "ROLLBACK")
                connection.connection.rollback()
        raise


def _refuse_aborted(connection: EngineConnection) -> None:
    """Raise an error if an earlier one was ignored: PostgreSQL's COMMIT would only roll back."""
    if connection.dialect.name == "postgresql":
        # psycopg and psycopg2 know the state of the transaction without a round trip.
        info = getattr(connection.connection.dbapi_connection, "info", None)
        if getattr(info, "transaction_status", None) != _IN_TRANSACTION:
            connection.exec_driver_sql("SELECT 1")
