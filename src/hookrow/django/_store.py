"""The Django store: the SQL store on the project's own connection and the tables of its models.

hookrow's own transaction has a time limit: if the server does not respond, the connection is
closed. Inside a transaction of the project, hookrow uses a savepoint instead: it closes no
connection, and restores the project's limits at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.transaction import TransactionManagementError, atomic

from hookrow._concurrency import AT_THREAD_END
from hookrow._core.schema import Schema, nearest
from hookrow.django._mapping import ModelMapping, map_models
from hookrow.django._vendors import close_if_lost, expire, is_expired, vendor_of
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores._driver_errors import is_of_session, store_error
from hookrow.stores._errors import Rejected, Unavailable
from hookrow.stores.sql._columns import Column, Convert
from hookrow.stores.sql._connections import Connection, Row
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._statements import STATEMENTS
from hookrow.stores.sql._statements.base import Statements
from hookrow.stores.sql._store import SQLStore


class DjangoStore(SQLStore):
    """The rows of the models that the schema names, in the database of an alias.

    Raises `SchemaMismatch` if a model or a field does not exist or cannot be used, and
    `ConfigurationError` for an unknown alias or database. No database is queried: if the fields do
    not suffice to build the statements, the store reads the database's catalogue at first use.
    """

    def __init__(self, schema: Schema, using: str) -> None:
        check_alias(using)
        self.using = using
        self.mapping: ModelMapping = map_models(schema, using)
        self._open(DjangoDatabase(using, _converters(self.mapping)), self.mapping.schema)
        self._built: Statements | None = None
        if vendor_of(connections[using]).fields_suffice:
            # The statements need no database; verification only checks the columns.
            self._built = self._statements = self._build(self.mapping.columns)

    def time(self) -> datetime | None:
        """Return the time of the database's clock; see `SQLStore.time`.

        Raises `Unavailable` in a transaction of the project: a test of the project counts the
        queries of such a transaction, or stops the time in it.
        """
        if connections[self.using].in_atomic_block:
            raise Unavailable("The clock is not compared in a transaction of the project.")
        return super().time()

    def is_nested(self) -> bool:
        """Return whether this thread is inside a transaction of the project."""
        return connections[self.using].in_atomic_block

    def claim_log(self) -> None:
        """Record the mapping, except in a transaction of the project, which may wait for rows."""
        if not connections[self.using].in_atomic_block:
            super().claim_log()

    def _verify(self) -> Statements:
        tables = super()._verify().tables
        if self._built is not None:
            return self._built
        columns = {
            role: {
                name: replace(
                    column, read=fields[name].read, write=fields[name].write, read_key=None
                )
                for name, column in tables.named_columns(role).items()
            }
            for role, fields in self.mapping.columns.items()
        }
        return self._build(columns)

    def _verify_entries(self) -> None:
        """Check that the fields suit the entries, without the database."""
        for tenant in self.tenants.values():
            self.mapping.check_tenant(tenant, self.using)
        if fault := self.mapping.fault_of_message_ids(self.known_entries):
            raise SchemaMismatch(fault)

    def _build(self, columns: Mapping[str, Mapping[str, Column]]) -> Statements:
        """Return the statements on the columns of each role's table."""
        dialect = self.database.dialect
        statements = STATEMENTS[dialect.name](RoleTables(self.schema, columns, dialect))
        if not self.mapping.has_separate_rows:
            statements.combining = None  # one statement cannot change a row through two models
        return statements


def check_alias(using: str) -> None:
    """Raise `ConfigurationError` if a database alias cannot be used."""
    if using not in connections.settings:
        raise ConfigurationError(
            f"DATABASES has no alias {using!r}.{nearest(using, connections.settings)}"
        )
    connection = connections[using]
    vendor_of(connection)
    if not connection.settings_dict["AUTOCOMMIT"]:
        raise ConfigurationError(
            f"DATABASES[{using!r}] has AUTOCOMMIT off, so nothing would be committed: remove "
            "AUTOCOMMIT, or use another alias."
        )


def _converters(mapping: ModelMapping) -> Mapping[tuple[str, str], Convert]:
    """Return the conversion of each column that stores a reason, by table and column."""
    columns = {
        (role.table, name): mapping.columns[role_name][name]
        for role_name, role in mapping.schema.roles.items()
        if (name := mapping.schema.columns(role_name).get("suppression_reason"))
    }
    return {place: column.write for place, column in columns.items() if column.write}


class DjangoDatabase:
    """The database of an alias; see `stores.sql._connections.Database`.

    Each thread has its own connection. Inside a transaction of the project, hookrow's transactions
    are savepoints.
    """

    def __init__(
        self,
        using: str,
        converters: Mapping[tuple[str, str], Convert] = MappingProxyType({}),
    ) -> None:
        connection = connections[using]
        self._using = using
        self.converters = converters
        self.dialect = vendor_of(connection).dialect(connection.ops.quote_name)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begin a transaction with time limits, or a savepoint."""
        with begin(self._using, recording=False) as connection:
            yield CursorConnection(connection)

    @contextmanager
    def recording(self) -> Iterator[Connection]:
        """Begin a transaction that records, or a savepoint."""
        with begin(self._using, recording=True) as connection:
            yield CursorConnection(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect for reading, inside the project's transaction if there is one."""
        with reading(self._using) as connection:
            yield CursorConnection(connection)

    def renew(self) -> None:
        """Do nothing: the connections belong to the project."""

    def close(self) -> None:
        """Do nothing: the connections belong to the project."""

    def __str__(self) -> str:
        return f"DATABASES[{self._using!r}]"


class CursorConnection(Connection):
    """A connection that uses the project's connection.

    It always passes a list of parameters: without one, Django does not replace `%%` with `%`.
    """

    autocommits = False

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._vendor = vendor_of(connection)

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))
            rows: Sequence[Row] = cursor.fetchall()
            return self._vendor.with_time_zone(self._connection, rows, cursor.description)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the number of affected rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))
            count: int = cursor.rowcount
            return count

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a statement once for each row of parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(sql, list(rows))
            count: int = cursor.rowcount
            return count


@contextmanager
def begin(using: str, *, recording: bool) -> Iterator[BaseDatabaseWrapper]:
    """Begin a transaction, and commit it at the end of the block. Raises a `StoreError`.

    It takes no longer than `limited_to` allows, except for connecting, which the driver's own
    `connect_timeout` limits. Inside a transaction of the project, this limit applies only to the
    statements of the block. For `recording`, see `Limits.transaction`.
    """
    connection = connections[using]
    with store_errors():
        if _is_idle(connection):
            transaction = _own_transaction(connection, recording=recording)
        elif connection.in_atomic_block:
            transaction = _savepoint(connection)
        else:
            raise Unavailable("The project has turned off autocommit: nothing would be committed.")
        with transaction:
            yield connection


@contextmanager
def reading(using: str) -> Iterator[BaseDatabaseWrapper]:
    """Connect for reading; replace a lost connection. Raises a `StoreError`.

    On a server, a statement may take as long as `limited_to` allows, unless the connection is in a
    transaction of the project.
    """
    connection = connections[using]
    vendor = vendor_of(connection)
    with store_errors(), ExitStack() as stack:
        if not _is_idle(connection):
            stack.enter_context(vendor.nested_reading(connection))
        elif (settings := vendor.reading(connection)) is None:
            close_if_lost(connection)
        else:
            stack.enter_context(vendor.connected(connection))
            stack.enter_context(_atomic(connection))
            stack.enter_context(settings)
        yield connection


@contextmanager
def store_errors() -> Iterator[None]:
    """Convert a database error in the block to a `StoreError`."""
    try:
        yield
    except TransactionManagementError as error:  # an earlier statement of the project has failed
        raise Unavailable(type(error).__name__) from error
    except Error as error:
        raise store_error(error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot encode a value
        raise Rejected(type(error).__name__) from error


def _is_idle(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the connection is outside of every transaction of the project."""
    if connection.in_atomic_block:
        return False
    return connection.connection is None or connection.get_autocommit()


@contextmanager
def _savepoint(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin a savepoint in the project's transaction, with time limits until it is released.

    If its server may have become useless, such as a standby, Django closes the connection after
    the request.
    """
    try:
        with atomic(connection.alias), vendor_of(connection).savepoint(connection):
            yield
    except Error as error:
        if _is_useless(error):
            expire(connection)
        raise


@contextmanager
def _own_transaction(connection: BaseDatabaseWrapper, *, recording: bool) -> Iterator[None]:
    """Begin hookrow's own transaction, on a new connection if the server closed the idle one."""
    was_connected = connection.connection is not None
    with ExitStack() as stack:
        try:
            stack.enter_context(_begun(connection, recording=recording))
        except Error:
            if not was_connected or connection.connection is not None:
                raise
            stack.enter_context(_begun(connection, recording=recording))
        yield


@contextmanager
def _begun(connection: BaseDatabaseWrapper, *, recording: bool) -> Iterator[None]:
    vendor = vendor_of(connection)
    with (
        vendor.connected(connection),
        _atomic(connection),
        vendor.transaction(connection, recording=recording),
    ):
        yield


@contextmanager
def _atomic(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Begin an outermost `atomic` block, which does not connect again at its end.

    If the connection breaks when Django itself commits or rolls back, Django replaces it at once,
    although there may be no time left, and nothing would watch the new one. Therefore, the driver
    does both before the block ends, which leaves nothing to do for Django, and a useless connection
    is closed inside the block.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(atomic(connection.alias))
        except Error as error:
            if _is_useless(error):
                connection.close()  # a driver may notice only now that the server has closed it
            raise
        try:
            yield
            if not connection.get_rollback():
                _end(connection, "commit")
        except BaseException as error:
            is_unusable = _is_useless(error) or is_expired(connection)
            if is_unusable or not _rolls_back(connection):
                connection.close()
            raise


def _end(connection: BaseDatabaseWrapper, how: str) -> None:
    with connection.wrap_database_errors:
        getattr(connection.connection, how)()


def _rolls_back(connection: BaseDatabaseWrapper) -> bool:
    """Roll back; return whether this succeeded."""
    try:
        _end(connection, "rollback")
    except Error:
        return False
    return True


def _is_useless(error: BaseException) -> bool:
    """Return whether an error concerns the session or its server, which may stay useless."""
    return isinstance(error, Error) and is_of_session(error)


AT_THREAD_END.add(connections.close_all)  # Django closes them only after requests
