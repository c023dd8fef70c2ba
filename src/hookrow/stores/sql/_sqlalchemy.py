"""The SQLAlchemy engine of a host, with its own pool, events and driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
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
from hookrow.stores.sql._dialects import UNSUPPORTED_DATABASE
from hookrow.stores.sql._dialects.base import Dialect, question_marks
from hookrow.stores.sql._dialects.mariadb import MARIADB
from hookrow.stores.sql._dialects.postgresql import POSTGRESQL
from hookrow.stores.sql._dialects.sqlite import SQLITE
from hookrow.stores.sql._limits import MARIADB_LIMITS, POSTGRES_LIMITS, HostConnection

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
        self._backend = _BACKENDS[connection.dialect.name]

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        return self._run(sql, parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the driver's count, and close the cursor."""
        with self._run(sql, parameters) as result:
            return result.rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement with one call of the driver, whose count is negative if unknown."""
        with self._backend.run(self._connection, sql, list(map(tuple, rows))) as result:
            return result.rowcount

    def _run(self, sql: str, parameters: Sequence[Any]) -> CursorResult[Any]:
        return self._backend.run(self._connection, sql, tuple(parameters))


class EngineDatabase:
    """The database of an engine, which is never closed; see `_connections.Database`.

    Raises `ConfigurationError` for an async engine, and for other databases than those of
    `_BACKENDS`.
    """

    converters: ClassVar[Mapping[tuple[str, str], Callable[[Any], Any]]] = {}

    def __init__(self, engine: Engine) -> None:
        if engine.dialect.name not in _BACKENDS:
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
        self._backend = _BACKENDS[engine.dialect.name]
        self.dialect = self._backend.dialect

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block."""
        return self._transaction(recording=False)

    def recording(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that records; it is committed at the end of the block."""
        return self._transaction(recording=True)

    @contextmanager
    def _transaction(self, *, recording: bool) -> Iterator[Connection]:
        self._used = True
        with store_errors(_ENGINE_ERRORS), self._lock, ExitStack() as stack:
            yield _Connection(self._begun(stack, recording=recording))

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
            self._backend.begin_upgrade(connection),
        ):
            self._detach(connection)
            yield _Connection(connection)

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Let each statement commit by itself, without time limits, on a separate connection."""
        with store_errors(_ENGINE_ERRORS), self._lock, self._engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            self._detach(connection)
            with self._backend.lift_limits(connection):
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
        with (
            _watched(connection) if limited else nullcontext(),
            self._committed(connection),
            ExitStack() as stack,
        ):
            with nullcontext() if limited else _watched(connection):
                stack.enter_context(self._backend.begin_reading(connection))
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

    @contextmanager
    def _invalidated(self, connection: EngineConnection) -> Iterator[None]:
        """Invalidate the connection after an error of its session.

        The server may have become a standby. The other connections stay: the host may be using
        them.
        """
        try:
            yield
        except DBAPIError as error:
            if is_of_session(error) and not self._is_shared:
                connection.invalidate()
            raise

    def _begun(self, stack: ExitStack, *, recording: bool) -> EngineConnection:
        """Begin, on a new connection if the server has closed the idle one.

        After a slow failure, another attempt would take as long: the server does not respond. The
        end of the stack commits.
        """
        began = monotonic()
        try:
            return self._begin(stack, recording=recording)
        except DBAPIError as error:
            is_slow = monotonic() - began > _QUICK_FAILURE
            if not error.connection_invalidated or is_slow or left() <= 0:
                raise
            return self._begin(stack, recording=recording)

    def _begin(self, stack: ExitStack, *, recording: bool) -> EngineConnection:
        with ExitStack() as opened:
            connection = opened.enter_context(self._engine.connect())
            opened.enter_context(_watched(connection))
            opened.enter_context(self._invalidated(connection))
            opened.enter_context(self._committed(connection))
            opened.enter_context(self._backend.begin(connection, recording=recording))
            stack.enter_context(opened.pop_all())
        return connection


def _ping(connection: EngineConnection) -> None:
    """Check the connection; SQLAlchemy reconnects if it was lost, and there is time left."""
    try:
        with _watched(connection):
            connection.exec_driver_sql("SELECT 1")
    except DBAPIError as error:
        if not error.connection_invalidated or left() <= 0:
            raise
    connection.rollback()


def _watched(connection: EngineConnection) -> AbstractContextManager[None]:
    return watchdog.watch(connection.connection.dbapi_connection)


class _Backend(ABC):
    """How an engine's connections to a database begin and end transactions."""

    dialect: ClassVar[Dialect]
    """The SQL of the database."""
    begins_readings: ClassVar[bool]
    """Whether a reading needs settings of its connection."""

    def run(self, connection: EngineConnection, sql: str, parameters: Any) -> CursorResult[Any]:  # noqa: ANN401 - a tuple, or a list of them
        """Run SQL text, converted for the driver, with one row of parameters or with many."""
        return connection.exec_driver_sql(sql, parameters)

    @abstractmethod
    def begin(
        self, connection: EngineConnection, *, recording: bool
    ) -> AbstractContextManager[None]:
        """Begin a transaction with time limits, even on an engine that commits each statement.

        The end of the block restores the settings of the session, unless the commit does.
        """

    def begin_reading(self, connection: EngineConnection) -> AbstractContextManager[None]:
        """Begin a transaction that reads times, and whose statements end in the time left."""
        del connection
        return nullcontext()

    @abstractmethod
    def begin_upgrade(self, connection: EngineConnection) -> AbstractContextManager[None]:
        """Begin a transaction without time limits."""

    @abstractmethod
    def lift_limits(self, connection: EngineConnection) -> AbstractContextManager[None]:
        """Lift the time limits of a connection that commits each statement."""

    @abstractmethod
    def commit(self, connection: EngineConnection) -> None:
        """Commit; raise an error if an earlier one was ignored."""

    @abstractmethod
    def roll_back(self, connection: EngineConnection) -> None:
        """Roll back."""


class _PostgreSQLBackend(_Backend):
    """Sets the limits and the format of times with the statement that begins the transaction."""

    dialect = POSTGRESQL
    begins_readings = True

    def begin(
        self, connection: EngineConnection, *, recording: bool
    ) -> AbstractContextManager[None]:
        return POSTGRES_LIMITS.on_host(self._host(connection), recording=recording)

    def begin_reading(self, connection: EngineConnection) -> AbstractContextManager[None]:
        return POSTGRES_LIMITS.on_host_reading(self._host(connection))

    @contextmanager
    def begin_upgrade(self, connection: EngineConnection) -> Iterator[None]:
        isolation = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
        self._begin(connection, f"{isolation}; {POSTGRES_LIMITS.none()}")
        yield

    @contextmanager
    def lift_limits(self, connection: EngineConnection) -> Iterator[None]:
        connection.exec_driver_sql(POSTGRES_LIMITS.none(local=False))
        yield

    def commit(self, connection: EngineConnection) -> None:
        """Check the state first: the COMMIT of a failed transaction would only roll back."""
        # psycopg and psycopg2 know the state of the transaction without a round trip.
        info = getattr(connection.connection.dbapi_connection, "info", None)
        if getattr(info, "transaction_status", None) != _IN_TRANSACTION:
            connection.exec_driver_sql("SELECT 1")
        connection.commit()

    def roll_back(self, connection: EngineConnection) -> None:
        connection.connection.rollback()

    def _host(self, connection: EngineConnection) -> HostConnection:
        return HostConnection(partial(self._begin, connection), connection.invalidate)

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

    dialect = SQLITE
    begins_readings = False

    def run(self, connection: EngineConnection, sql: str, parameters: Any) -> CursorResult[Any]:  # noqa: ANN401 - a tuple, or a list of them
        return connection.exec_driver_sql(question_marks(sql), parameters)

    @contextmanager
    def begin(self, connection: EngineConnection, *, recording: bool) -> Iterator[None]:
        del recording  # the engine has its own limit
        connection.begin()  # the host's begin event may start a transaction here
        if not getattr(connection.connection.dbapi_connection, "in_transaction", False):
            connection.exec_driver_sql(SQLITE.begin)
        yield

    def begin_upgrade(self, connection: EngineConnection) -> AbstractContextManager[None]:
        return self.begin(connection, recording=False)

    def lift_limits(self, connection: EngineConnection) -> AbstractContextManager[None]:
        del connection
        return nullcontext()

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


class _MariaDBBackend(_Backend):
    """Sets what hookrow's SQL needs before a transaction, and restores it before the commit."""

    dialect = MARIADB
    begins_readings = True
    CONVERSIONS: ClassVar[Mapping[str, Callable[[str], str]]] = {
        "mariadbconnector": question_marks,
        "mysqlconnector": lambda sql: sql.replace("%%", "%"),  # it knows no other use of %
    }
    """The conversions of SQL text by driver; the others read it as it is."""

    def run(self, connection: EngineConnection, sql: str, parameters: Any) -> CursorResult[Any]:  # noqa: ANN401 - a tuple, or a list of them
        convert = self.CONVERSIONS.get(connection.dialect.driver)
        return connection.exec_driver_sql(convert(sql) if convert else sql, parameters)

    @contextmanager
    def begin(self, connection: EngineConnection, *, recording: bool) -> Iterator[None]:
        with MARIADB_LIMITS.on_host(self._host(connection), recording=recording):
            # Nothing has begun yet if the driver commits each statement.
            connection.exec_driver_sql(MARIADB.begin)
            yield

    @contextmanager
    def begin_reading(self, connection: EngineConnection) -> Iterator[None]:
        with MARIADB_LIMITS.on_host_reading(self._host(connection)):
            connection.exec_driver_sql(MARIADB.begin)
            yield

    @contextmanager
    def begin_upgrade(self, connection: EngineConnection) -> Iterator[None]:
        with self.lift_limits(connection):
            connection.exec_driver_sql(MARIADB.begin)
            yield

    def lift_limits(self, connection: EngineConnection) -> AbstractContextManager[None]:
        return MARIADB_LIMITS.on_host_without_limits(self._host(connection))

    def commit(self, connection: EngineConnection) -> None:
        connection.commit()

    def roll_back(self, connection: EngineConnection) -> None:
        connection.connection.rollback()

    def _host(self, connection: EngineConnection) -> HostConnection:
        return HostConnection(connection.exec_driver_sql, connection.invalidate)


_MARIADB_BACKEND = _MariaDBBackend()

_BACKENDS: Mapping[str, _Backend] = {
    "postgresql": _PostgreSQLBackend(),
    "sqlite": _SQLiteBackend(),
    "mariadb": _MARIADB_BACKEND,
    "mysql": _MARIADB_BACKEND,
}
"""By the name of SQLAlchemy's dialect."""
