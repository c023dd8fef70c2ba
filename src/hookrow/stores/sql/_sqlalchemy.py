"""The SQLAlchemy engine of a host, with its own pool, events and driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from hookrow.stores._driver_errors import UNWRITABLE, is_of_session
from hookrow.stores._timeouts import left
from hookrow.stores._watchdog import watchdog
from hookrow.stores.sql._connections import Connection, Row, store_errors
from hookrow.stores.sql._dialects import DIALECTS, UNSUPPORTED_DATABASE
from hookrow.stores.sql._dialects.base import question_marks
from hookrow.stores.sql._dialects.sqlite import SQLITE
from hookrow.stores.sql._limits import POSTGRES_LIMITS

_ENGINE_ERRORS = (SQLAlchemyError, *UNWRITABLE)
_IN_TRANSACTION = 2
"""libpq's PQTRANS_INTRANS: a transaction in which no statement has failed."""

_QUICK_FAILURE = 1.0
"""Seconds within which the driver notices that a connection was closed."""

_SHARED_POOLS = (SingletonThreadPool, StaticPool)
"""Pools whose connection is an in-memory database, or is in use by the host."""


class _Connection(Connection):
    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._convert = _BACKENDS[connection.dialect.name].convert

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
    """The database of an engine, which is never closed; see `_connections.Database`.

    Raises `ConfigurationError` for an async engine, and for databases other than PostgreSQL and
    SQLite.
    """

    converters: ClassVar[Mapping[tuple[str, str], Callable[[Any], Any]]] = {}

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
        self._backend = _BACKENDS[engine.dialect.name]

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block."""
        return self._transaction(recording=False)

    def recording(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that records; it is committed at the end of the block."""
        return self._transaction(recording=True)

    @contextmanager
    def _transaction(self, *, recording: bool) -> Iterator[Connection]:
        self._used = True
        with store_errors(_ENGINE_ERRORS), self._lock:
            connection = self._begun(recording=recording)
            with connection, _watched(connection):
                try:
                    with self._committed(connection):
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
        with store_errors(_ENGINE_ERRORS), self._lock, self._engine.connect() as connection:
            _ping(connection)
            with self._begun_to_read(connection):
                if not self._used:  # a fork would share the pool's connection with the child
                    self._detach(connection)
                yield _Connection(connection)

    @contextmanager
    def upgrading(self) -> Iterator[Connection]:
        """Begin a transaction without time limits, on a separate connection."""
        with (
            store_errors(_ENGINE_ERRORS),
            self._lock,
            self._engine.connect() as connection,
            self._committed(connection),
        ):
            self._backend.begin_upgrade(connection)
            self._detach(connection)
            yield _Connection(connection)

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Let each statement commit by itself, without time limits, on a separate connection."""
        with store_errors(_ENGINE_ERRORS), self._lock, self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            self._detach(connection)
            self._backend.lift_limits(connection)
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

    @contextmanager
    def _begun_to_read(self, connection: EngineConnection) -> Iterator[None]:
        """Begin a transaction, which is watched during the block only if the time is limited."""
        if not self._backend.begins_readings:
            yield
            return
        limited = not isinf(left())
        with _watched(connection) if limited else nullcontext(), self._committed(connection):
            with nullcontext() if limited else _watched(connection):
                self._backend.begin_reading(connection)
            yield

    @contextmanager
    def _committed(self, connection: EngineConnection) -> Iterator[None]:
        """Commit at the end of the block, and roll back if it raises."""
        try:
            yield
            self._backend.commit(connection)
        except BaseException:
            if not connection.invalidated:  # to SQLAlchemy, a failed commit ends the transaction
                with suppress(connection.dialect.loaded_dbapi.Error, SQLAlchemyError):
                    self._backend.roll_back(connection)
            raise

    def _begun(self, *, recording: bool) -> EngineConnection:
        """Begin, on a new connection if the server has closed the idle one.

        After a slow failure, another attempt would take as long: the server does not respond.
        """
        began = monotonic()
        try:
            return self._begin(recording=recording)
        except DBAPIError as error:
            if not error.connection_invalidated or monotonic() - began > _QUICK_FAILURE:
                raise
            return self._begin(recording=recording)

    def _begin(self, *, recording: bool) -> EngineConnection:
        connection = self._engine.connect()
        try:
            with _watched(connection):
                self._backend.begin(connection, recording=recording)
        except BaseException:
            connection.close()
            raise
        return connection


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


class _Backend(ABC):
    """How an engine's connections to a database begin and end transactions."""

    begins_readings: ClassVar[bool]
    """Whether a reading needs settings, which end with its transaction."""

    @abstractmethod
    def convert(self, sql: str) -> str:
        """Convert SQL text for the driver."""

    @abstractmethod
    def begin(self, connection: EngineConnection, *, recording: bool) -> None:
        """Begin a transaction with time limits, even on an engine that commits each statement."""

    def begin_reading(self, connection: EngineConnection) -> None:  # noqa: B027 - not on SQLite
        """Begin a transaction that reads times, and whose statements end in the time left."""

    @abstractmethod
    def begin_upgrade(self, connection: EngineConnection) -> None:
        """Begin a transaction without time limits."""

    def lift_limits(self, connection: EngineConnection) -> None:  # noqa: B027 - no limits on SQLite
        """Lift the time limits of a connection that commits each statement."""

    @abstractmethod
    def commit(self, connection: EngineConnection) -> None:
        """Commit; raise an error if an earlier one was ignored."""

    @abstractmethod
    def roll_back(self, connection: EngineConnection) -> None:
        """Roll back."""


class _PostgreSQLBackend(_Backend):
    """Sets the limits and the format of times with the statement that begins the transaction."""

    begins_readings = True

    def convert(self, sql: str) -> str:
        return sql

    def begin(self, connection: EngineConnection, *, recording: bool) -> None:
        self._begin(connection, POSTGRES_LIMITS.transaction(recording=recording, tuned=True))

    def begin_reading(self, connection: EngineConnection) -> None:
        settings = POSTGRES_LIMITS.time_format()
        if not isinf(left()):
            settings = f"{settings}; {POSTGRES_LIMITS.reading()}"
        self._begin(connection, settings)

    def begin_upgrade(self, connection: EngineConnection) -> None:
        isolation = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
        self._begin(connection, f"{isolation}; {POSTGRES_LIMITS.none()}")

    def lift_limits(self, connection: EngineConnection) -> None:
        connection.exec_driver_sql(POSTGRES_LIMITS.none(local=False))

    def commit(self, connection: EngineConnection) -> None:
        """Check the state first: the COMMIT of a failed transaction would only roll back."""
        # psycopg and psycopg2 know the state of the transaction without a round trip.
        info = getattr(connection.connection.dbapi_connection, "info", None)
        if getattr(info, "transaction_status", None) != _IN_TRANSACTION:
            connection.exec_driver_sql("SELECT 1")
        connection.commit()

    def roll_back(self, connection: EngineConnection) -> None:
        connection.connection.rollback()

    def _begin(self, connection: EngineConnection, settings: str) -> None:
        if connection.dialect.driver == "psycopg":
            # The driver then does not send BEGIN, which would be another round trip. It still
            # ends our transaction, because it checks the server's state; psycopg2 would not.
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql(f"BEGIN; {settings}")
            return
        connection.execution_options(isolation_level="READ COMMITTED")
        connection.exec_driver_sql(settings)


class _SQLiteBackend(_Backend):
    """Waits for the write lock at the beginning.

    The driver would begin a transaction only at the first write, and then fail if another
    connection had written since the first read.
    """

    begins_readings = False

    def convert(self, sql: str) -> str:
        return question_marks(sql)

    def begin(self, connection: EngineConnection, *, recording: bool) -> None:  # noqa: ARG002 - the engine's own limit
        connection.begin()  # the host's begin event may start a transaction here
        if not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            connection.exec_driver_sql(SQLITE.begin)

    def begin_upgrade(self, connection: EngineConnection) -> None:
        self.begin(connection, recording=False)

    def commit(self, connection: EngineConnection) -> None:
        self._end(connection, "COMMIT")
        connection.commit()

    def roll_back(self, connection: EngineConnection) -> None:
        self._end(connection, "ROLLBACK")
        connection.connection.rollback()

    def _end(self, connection: EngineConnection, command: str) -> None:
        """End a transaction if the driver would not, because of `autocommit=True`."""
        driver: Any = connection.connection.dbapi_connection
        is_left = getattr(driver, "autocommit", None) is True
        if is_left and getattr(driver, "in_transaction", False):
            connection.exec_driver_sql(command)


_BACKENDS: Mapping[str, _Backend] = {"postgresql": _PostgreSQLBackend(), "sqlite": _SQLiteBackend()}
"""By the name of SQLAlchemy's dialect, which is that of hookrow's."""
