"""What differs between the databases of Django: one object for each `connection.vendor`.

The limits themselves are in `stores.sql._limits`, and the SQL of rows is in `stores.sql._dialects`.
"""

# ruff: noqa: ANN401 - connections and fields of different backends have different attributes

from __future__ import annotations

import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from math import inf, isfinite, isinf
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.db import Error
from django.db.models import BinaryField, DateTimeField
from django.utils.timezone import make_aware

from hookrow.errors import ConfigurationError
from hookrow.stores._errors import Unavailable
from hookrow.stores._timeouts import (
    STATEMENT_TIMEOUT,
    left,
    milliseconds,
)
from hookrow.stores._watchdog import duplicate_socket, socket_of, watchdog
from hookrow.stores.sql._connections import Row
from hookrow.stores.sql._dialects import UNSUPPORTED_DATABASE
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._dialects.mariadb import MariaDB
from hookrow.stores.sql._dialects.postgresql import PostgreSQL
from hookrow.stores.sql._dialects.sqlite import SQLITE, SQLite
from hookrow.stores.sql._limits import POSTGRES_LIMITS, HostConnection, MariaDBLimits


class _QuotesTables(Dialect):
    """Quotes table names as Django does: a dot is part of the name."""

    def __init__(self, quote: Callable[[str], str]) -> None:
        self._quote = quote

    def table(self, name: str) -> str:
        return self._quote(name).replace("%", "%%")


class _PostgreSQLDialect(_QuotesTables, PostgreSQL):
    pass


class _SQLiteDialect(_QuotesTables, SQLite):
    pass


class _MariaDBDialect(_QuotesTables, MariaDB):
    pass


class Vendor(ABC):
    """A kind of database. `connection` is always Django's own, a `BaseDatabaseWrapper`."""

    dialect: ClassVar[type[_QuotesTables]]
    """The SQL of the store."""
    fields_suffice: ClassVar[bool]
    """Whether models determine all properties of columns that the SQL depends on; otherwise, the
    store reads the database's catalogue, too."""
    enforces_lengths: ClassVar[bool]
    """Whether a column cannot hold more than the `max_length` of its field."""
    writes_times_as_text: ClassVar[bool]
    """Whether a time is written as text, and stored without a zone."""
    dot_names_database: ClassVar[bool]
    """Whether hookrow reads the part of a table's name before a dot as the name of a database."""

    @abstractmethod
    def connected(self, connection: Any) -> AbstractContextManager[None]:
        """Connect, replacing a lost connection, and limit the block to the time left.

        The block is outside of all transactions. Raises `Unavailable` if no time is left to
        connect.
        """

    @abstractmethod
    def transaction(self, connection: Any, *, recording: bool) -> AbstractContextManager[None]:
        """Limit hookrow's transaction, and set what its SQL needs.

        The block is an outermost `atomic` block, from its beginning until the commit. For
        `recording`, see `Limits.transaction`.
        """

    @abstractmethod
    def savepoint(self, connection: Any) -> AbstractContextManager[None]:
        """Limit the statements of the block, and set what its SQL needs.

        The block is in a transaction of the project.
        """

    @abstractmethod
    def reading(self, connection: Any) -> AbstractContextManager[None] | None:
        """Limit a transaction which reads, and set what its SQL needs.

        Returns None if a reading needs neither, and therefore no transaction.
        """

    @abstractmethod
    def nested_reading(self, connection: Any) -> AbstractContextManager[None]:
        """Set what the SQL of a reading needs that is in a transaction of the project."""

    @abstractmethod
    def connect_limit(self, connection: Any) -> float:
        """Return how long Django may take to connect, by the settings, in seconds."""

    @abstractmethod
    def connect_option(self, connection: Any) -> str:
        """Return the entries of OPTIONS that make this time as short as possible."""

    @abstractmethod
    def with_time_zone(
        self, connection: Any, rows: Sequence[Row], description: Sequence[Any]
    ) -> Sequence[Row]:
        """Add the time zone to times that Django returns without one because USE_TZ is off."""

    @abstractmethod
    def parameter_type(self, field: Any, connection: Any) -> str:
        """Return the type of a field's parameters, without a length, so that nothing is cut.

        It is empty if parameters have no types, or if the field does not determine it.
        """

    @abstractmethod
    def ignores_case(self, field: Any, connection: Any) -> bool:
        """Return whether a field can be compared ignoring case, by its type and collation."""

    @abstractmethod
    def refuses_bytes(self, field: Any, connection: Any) -> bool:
        """Return whether a field stores bytes that a parameter for many rows cannot hold."""

    @abstractmethod
    def read_back(self, field: Any, stored: Any) -> Any:
        """Return the form in which the driver returns a value that a field writes."""


class _ServerVendor(Vendor):
    """A vendor whose databases are on a server, which may stop responding."""

    @abstractmethod
    def is_closed(self, opened: Any) -> bool:
        """Return whether a driver's connection is known to be closed."""

    @contextmanager
    def connected(self, connection: Any) -> Iterator[None]:
        """Watch the connection. Only the driver's own limit applies while Django connects."""
        with ExitStack() as stack:
            idle = connection.connection
            if idle is not None and self.is_closed(idle):
                connection.close()
            elif idle is not None:
                stack.enter_context(watchdog.watch(idle))
                close_if_lost(connection)
                # Otherwise, `atomic` would do it, and the new connection would not be watched.
                connection.close_if_health_check_failed()
            if connection.connection is None:
                _connect(connection)
                stack.enter_context(watchdog.watch(connection.connection))
            yield


class PostgreSQLVendor(_ServerVendor):
    """PostgreSQL: the server enforces the limits; the watchdog covers one that does not respond."""

    dialect = _PostgreSQLDialect
    fields_suffice = True
    enforces_lengths = True
    writes_times_as_text = False
    dot_names_database = False

    def is_closed(self, opened: Any) -> bool:
        """Return the driver's state, which changes only with the next statement."""
        return bool(opened.closed)

    @contextmanager
    def transaction(self, connection: Any, *, recording: bool) -> Iterator[None]:
        """Set the limits until the commit. The driver begins the transaction with this statement.

        The watchdog limits the commit.
        """
        fetch_row(connection, POSTGRES_LIMITS.transaction(recording=recording))
        yield

    @contextmanager
    def savepoint(self, connection: Any) -> Iterator[None]:
        """Lower the transaction's limits, and those of each statement if little time is left.

        A rollback to the savepoint restores the previous limits, but releasing it does not.
        """
        with (
            POSTGRES_LIMITS.in_host_transaction(_host(connection, fetch_row)),
            connection.execute_wrapper(_executing_in_time(POSTGRES_LIMITS.lowered)),
        ):
            yield

    def reading(self, connection: Any) -> AbstractContextManager[None] | None:
        """Limit each statement to the time left, if that is limited."""
        return None if isinf(left()) else _limited_reading(connection)

    def nested_reading(self, connection: Any) -> AbstractContextManager[None]:
        """Set nothing: the limits are the project's."""
        del connection
        return nullcontext()

    def connect_limit(self, connection: Any) -> float:
        """Return the driver's limit, for all hosts together; infinity if none is set.

        psycopg 3 ignores a limit in a service file (`pg_service.conf`), so that it does not count.
        """
        settings = connection.settings_dict
        options = settings["OPTIONS"]
        if pool := options.get("pool"):
            # Django waits for the pool, which connects in other threads.
            timeout = pool.get("timeout", _POOL_TIMEOUT) if pool is not True else _POOL_TIMEOUT
            return _seconds(timeout) or inf
        value = options.get("connect_timeout", os.environ.get("PGCONNECT_TIMEOUT"))
        seconds = int(_seconds(value))
        hosts = (
            options.get("hostaddr")
            or settings["HOST"]
            or options.get("host")
            or os.environ.get("PGHOST")
            or ""
        )
        return max(seconds, _LEAST_TIMEOUT) * len(hosts.split(",")) if seconds > 0 else inf

    def connect_option(self, connection: Any) -> str:
        """Return `connect_timeout`, or the limit of Django's pool if there is one."""
        if connection.settings_dict["OPTIONS"].get("pool"):
            return f"'pool': {{'timeout': {_LEAST_TIMEOUT}}}"
        return f"'connect_timeout': {_LEAST_TIMEOUT}"

    def with_time_zone(
        self, connection: Any, rows: Sequence[Row], description: Sequence[Any]
    ) -> Sequence[Row]:
        """Add the zone of the session, in which the driver returns times."""
        if connection.timezone is not None:
            return rows
        places = {place for place, each in enumerate(description) if each[1] == _TIMESTAMPTZ}
        zone = ZoneInfo(connection.timezone_name)
        return [
            [
                make_aware(value, zone) if place in places and value is not None else value
                for place, value in enumerate(row)
            ]
            for row in rows
        ]

    def parameter_type(self, field: Any, connection: Any) -> str:
        """Return PostgreSQL's name of the type."""
        plain = re.sub(r"\(.*?\)", "", field.db_type(connection) or "")
        return _TYPE_NAMES.get(plain, plain).replace("%", "%%")

    def ignores_case(self, field: Any, connection: Any) -> bool:
        """Return whether the type is citext or the collation may be nondeterministic."""
        collation = getattr(field, "db_collation", None) or "default"
        return field.db_type(connection) == "citext" or not _PREDEFINED.fullmatch(collation)

    def refuses_bytes(self, field: Any, connection: Any) -> bool:
        """Consider the type: an array of bytea has no text in which each driver would write it."""
        return bool(field.db_type(connection) == "bytea")

    def read_back(self, field: Any, stored: Any) -> Any:
        """Return the value: the driver reads what it writes."""
        del field
        return stored


class SQLiteVendor(Vendor):
    """SQLite, whose only time limit is that for file locks."""

    dialect = _SQLiteDialect
    fields_suffice = True
    enforces_lengths = False
    writes_times_as_text = True
    dot_names_database = True

    @contextmanager
    def connected(self, connection: Any) -> Iterator[None]:
        """Limit the time that SQLite waits for file locks; restore the project's own limit.

        SQLite has no limit for a single statement or transaction: it waits as the connection says,
        and neither `interrupt` nor a progress handler ends a wait. hookrow could poll for the lock
        itself without a limit of the connection, but not while a commit waits for readers.
        """
        close_if_lost(connection)
        connection.ensure_connection()
        with _busy_timeout(connection.connection):
            yield

    @contextmanager
    def transaction(self, connection: Any, *, recording: bool) -> Iterator[None]:
        """Take the write lock at the beginning, because a later attempt to take it may fail.

        The time is limited again at the end, because the commit may wait for readers.
        """
        del recording
        mode = connection.settings_dict["OPTIONS"].get("transaction_mode") or ""
        if mode.upper() not in {"IMMEDIATE", "EXCLUSIVE"}:  # otherwise, Django has taken it
            with connection.cursor() as cursor:
                cursor.execute("ROLLBACK")  # ends the transaction of `atomic`, without any lock yet
                cursor.execute(SQLITE.begin)
        yield
        _limit_busy_timeout(connection.connection)

    def savepoint(self, connection: Any) -> AbstractContextManager[None]:
        """Limit the time that SQLite waits for file locks."""
        return _busy_timeout(connection.connection)

    def reading(self, connection: Any) -> None:
        """Return None: SQLite does not interrupt a statement."""
        del connection

    def nested_reading(self, connection: Any) -> AbstractContextManager[None]:
        """Set nothing."""
        del connection
        return nullcontext()

    def connect_limit(self, connection: Any) -> float:
        """Return 0: a file is opened without waiting."""
        del connection
        return 0.0

    def connect_option(self, connection: Any) -> str:
        """Return nothing."""
        del connection
        return ""

    def with_time_zone(
        self, connection: Any, rows: Sequence[Row], description: Sequence[Any]
    ) -> Sequence[Row]:
        """Return the rows: times are text."""
        del connection, description
        return rows

    def parameter_type(self, field: Any, connection: Any) -> str:
        """Return nothing: parameters have no declared types."""
        del field, connection
        return ""

    def ignores_case(self, field: Any, connection: Any) -> bool:
        """Return True: an expression chooses the collation."""
        del field, connection
        return True

    def refuses_bytes(self, field: Any, connection: Any) -> bool:
        """Return False: each row has its own parameters."""
        del field, connection
        return False

    def read_back(self, field: Any, stored: Any) -> Any:
        """Return a time as text."""
        del field
        return str(stored) if isinstance(stored, datetime) else stored


class MySQLVendor(_ServerVendor):
    """MariaDB and MySQL, with mysqlclient, or with PyMySQL in its place.

    The settings of a session outlive a transaction, so that they are restored at its end. The zone
    of the session is never changed, because the project's fields write and read times in it.
    """

    dialect = _MariaDBDialect
    fields_suffice = False  # the SQL depends on collations
    enforces_lengths = True
    writes_times_as_text = True
    dot_names_database = True

    def is_closed(self, opened: Any) -> bool:
        return not opened.open

    def transaction(self, connection: Any, *, recording: bool) -> AbstractContextManager[None]:
        """Set the limits before the server begins the transaction, with the first table."""
        return _PROJECT_LIMITS.on_host(_host(connection, _execute), recording=recording)

    @contextmanager
    def savepoint(self, connection: Any) -> Iterator[None]:
        """Lower the session's limits, and those of each statement if little time is left.

        The isolation level is the project's.
        """
        with (
            _PROJECT_LIMITS.in_host_transaction(_host(connection, _execute)),
            connection.execute_wrapper(_executing_in_time(_PROJECT_LIMITS.lowered)),
        ):
            yield

    def reading(self, connection: Any) -> AbstractContextManager[None]:
        """Set what the SQL needs, and limit each statement to the time left, if it is limited."""
        return _PROJECT_LIMITS.on_host_reading(_host(connection, _execute))

    def nested_reading(self, connection: Any) -> AbstractContextManager[None]:
        """Do the same; the isolation level that is set is not that of the current transaction."""
        return self.reading(connection)

    def connect_limit(self, connection: Any) -> float:
        """Return the driver's limit; infinity if none is set.

        That of mysqlclient includes the login. That of PyMySQL does not: if the server does not
        respond to it, the limit of each answer applies.
        """
        options = connection.settings_dict["OPTIONS"]
        if not _is_pymysql(connection):
            return _seconds(options.get("connect_timeout")) or inf
        connecting = _seconds(options.get("connect_timeout", _PYMYSQL_TIMEOUT)) or inf
        return max(connecting, _seconds(options.get("read_timeout")) or inf)

    def connect_option(self, connection: Any) -> str:
        """Return `connect_timeout` and, with PyMySQL, `read_timeout`."""
        option = f"'connect_timeout': {_LEAST_TIMEOUT}"
        if _is_pymysql(connection):
            option += f", 'read_timeout': {STATEMENT_TIMEOUT}"
        return option

    def with_time_zone(
        self, connection: Any, rows: Sequence[Row], description: Sequence[Any]
    ) -> Sequence[Row]:
        """Return the rows: fields know the zone of their times, which are stored without it."""
        del connection, description
        return rows

    def parameter_type(self, field: Any, connection: Any) -> str:
        """Return nothing: it depends on the column's collation."""
        del field, connection
        return ""

    def ignores_case(self, field: Any, connection: Any) -> bool:
        """Return whether the field names no collation, or one that may ignore case."""
        del connection
        return not (getattr(field, "db_collation", None) or "").endswith(("_bin", "_cs"))

    def refuses_bytes(self, field: Any, connection: Any) -> bool:
        """Refuse a BLOB. JSON holds shorter bytes, of a project's own fields, as digits."""
        del connection
        return isinstance(field, BinaryField)

    def read_back(self, field: Any, stored: Any) -> Any:
        """Return the time for a text."""
        if isinstance(field, DateTimeField) and isinstance(stored, str):
            return datetime.fromisoformat(stored)
        return stored


VENDORS: Mapping[str, Vendor] = {
    "postgresql": PostgreSQLVendor(),
    "sqlite": SQLiteVendor(),
    "mysql": MySQLVendor(),
}
"""The vendor objects, by `connection.vendor`."""


def vendor_of(connection: Any) -> Vendor:
    """Return the vendor of a connection. Raises `ConfigurationError` for other databases."""
    if connection.vendor not in VENDORS:
        raise ConfigurationError(UNSUPPORTED_DATABASE.format(connection.vendor))
    return VENDORS[connection.vendor]


def _seconds(value: object) -> float:
    """Return a finite time limit in seconds; 0 for none, or for one that the driver refuses."""
    try:
        seconds = float(value)  # type: ignore[arg-type] # of a project's settings
    except (TypeError, ValueError):
        return 0.0
    return seconds if isfinite(seconds) else 0.0


_PROJECT_LIMITS = MariaDBLimits(sets_zone=False)
"""The limits and settings on a connection of the project, whose zone stays as it is."""


def fetch_row(connection: Any, statement: str, values: Sequence[Any] = ()) -> Sequence[Any]:
    """Execute a statement through Django; return the first row."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        row: Sequence[Any] = cursor.fetchone()
        return row


def _execute(connection: Any, statement: str) -> None:
    """Execute a statement without parameters and rows through Django."""
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _host(connection: Any, execute: Callable[..., Any]) -> HostConnection:
    return HostConnection(partial(execute, connection), partial(expire, connection))


def expire(connection: Any) -> None:
    """Let Django close a connection after the request."""
    connection.close_at = _LONG_AGO


def is_expired(connection: Any) -> bool:
    """Return whether `expire` has been called for the connection."""
    return bool(connection.close_at == _LONG_AGO)


@contextmanager
def _limited_reading(connection: Any) -> Iterator[None]:
    """Limit each statement of a transaction on PostgreSQL to the time left."""
    fetch_row(connection, POSTGRES_LIMITS.reading())
    yield


def close_if_lost(connection: Any) -> None:
    """Close a lost connection. Django does so only between requests."""
    if connection.errors_occurred:
        connection.close_if_unusable_or_obsolete()


def _connect(connection: Any) -> None:
    """Connect. Raises `Unavailable` if there is no time left."""
    if left() <= 0:
        raise Unavailable("There was no time left to connect.")
    try:
        with watchdog.watch_socket(_NewSocket(connection)):
            connection.ensure_connection()
    except Error:
        connection.close()  # Django would keep one whose first statements have failed
        raise


def _is_pymysql(connection: Any) -> bool:
    """Return whether PyMySQL stands in for mysqlclient."""
    return bool(connection.Database.__name__ == "pymysql")


class _NewSocket:
    """The socket of a connection that Django is opening, once the driver has connected.

    Django's own first statements, such as the one that sets the time zone, need it: a pooler
    accepts connections even if its server does not respond.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def shutdown(self, how: int, /) -> None:
        """Shut down the socket, unless the driver is still connecting or has closed it."""
        opened = self._connection.connection
        if opened is None:
            return
        with suppress(self._connection.Database.Error):
            number = socket_of(opened)
            if number is None:
                return
            with duplicate_socket(number) as duplicate:
                # Otherwise, the number may belong to another socket by now.
                if socket_of(opened) == number:
                    duplicate.shutdown(how)


def _executing_in_time(lowered: Callable[[], str]) -> Callable[..., Any]:
    """Return a wrapper that executes each statement within the remaining time.

    `lowered` returns the statement that lowers the server's limit to it. The wrapper raises
    `Unavailable` if there is no time left.
    """

    def execute_in_time(
        execute: Callable[..., Any],
        sql: str,
        params: Any,
        many: bool,  # noqa: FBT001 - Django's own
        context: Any,
    ) -> Any:
        seconds = left()
        if seconds <= 0:
            raise Unavailable("There was no time left for another statement.")
        if seconds < STATEMENT_TIMEOUT:
            cursor = context["cursor"]
            with cursor.db.wrap_database_errors:
                cursor.cursor.execute(lowered())  # `execute` may be that of many rows
        return execute(sql, params, many, context)

    return execute_in_time


@contextmanager
def _busy_timeout(file: sqlite3.Connection) -> Iterator[None]:
    """Limit the time that SQLite waits for file locks to the remaining time, during the block."""
    (former,) = file.execute(_BUSY_TIMEOUT).fetchone()
    _limit_busy_timeout(file)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # Django has closed it
            file.execute(f"{_BUSY_TIMEOUT} = {former}")


def _limit_busy_timeout(file: sqlite3.Connection) -> None:
    (now,) = file.execute(_BUSY_TIMEOUT).fetchone()
    file.execute(f"{_BUSY_TIMEOUT} = {milliseconds(now / 1000)}")


_BUSY_TIMEOUT = "PRAGMA busy_timeout"

_TIMESTAMPTZ = 1184
"""The OID of `timestamp with time zone` in PostgreSQL."""

_TYPE_NAMES = {"varchar": "character varying", "char": "bpchar"}

_PREDEFINED = re.compile(
    r"C(\..*)?|POSIX|default|ucs_basic|unicode|pg_.*|.*-x-icu|[a-z]{2,3}_[A-Z]{2}.*"
)
"""PostgreSQL's predefined collations, all of which are case-sensitive."""

_LEAST_TIMEOUT = 2
"""The shortest limit for connecting, in seconds, because libpq and psycopg read 1 as 2."""

_LONG_AGO = 0.0
"""When Django is to close a connection that has expired, on the clock of `monotonic`."""

_PYMYSQL_TIMEOUT = 10
"""Seconds that PyMySQL tries to connect by default."""

_POOL_TIMEOUT = 30.0
"""Seconds that psycopg's pool lets a thread wait for a connection by default."""
