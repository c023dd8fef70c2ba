"""The Django store: the SQL store on the project's own connection and the tables of its models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from hookrow.concurrency import AT_THREAD_END
from hookrow.core.schema import Schema, nearest
from hookrow.django.mapping import ModelMapping, map_models
from hookrow.django.transactions import begin, reading
from hookrow.django.vendors import vendor_of
from hookrow.errors import ConfigurationError
from hookrow.stores import Unavailable
from hookrow.stores.sql.columns import Convert
from hookrow.stores.sql.connections import Connection, Row
from hookrow.stores.sql.role_tables import RoleTables
from hookrow.stores.sql.statements import STATEMENTS, Statements
from hookrow.stores.sql.store import SQLStore


class DjangoStore(SQLStore):
    """The rows of the models that the schema names, in the database of an alias.

    Raises `SchemaMismatch` if a model or a field does not exist or cannot be used, and
    `ConfigurationError` for an unknown alias or database. No database is queried.
    """

    def __init__(self, schema: Schema = Schema(), using: str = "default") -> None:  # noqa: B008 - frozen
        check_alias(using)
        self.using = using
        self.mapping = map_models(schema, using)
        database = DjangoDatabase(using, _converters(self.mapping))
        self._open(database, self.mapping.schema)
        dialect = database.dialect
        tables = RoleTables(self.mapping.schema, self.mapping.columns, dialect)
        self._built = STATEMENTS[dialect.name](tables)
        if not self.mapping.has_separate_rows:
            self._built.combined = None
        self._statements = self._built

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
        super()._verify()
        return self._built


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
    """Return the conversions of fields for reasons; see `connections.Database`."""
    columns = {
        (role.table, name): mapping.columns[role_name][name]
        for role_name, role in mapping.schema.roles.items()
        if (name := mapping.schema.columns(role_name).get("suppression_reason"))
    }
    return {place: column.write for place, column in columns.items() if column.write}


class DjangoDatabase:
    """The database of an alias; see `connections.Database`. Each thread has its own connection.

    Inside a transaction of the project, hookrow's transactions are savepoints.
    """

    def __init__(
        self,
        using: str,
        converters: Mapping[tuple[str, str], Convert] = MappingProxyType({}),
    ) -> None:
        connection, self._using, self.converters = connections[using], using, converters
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


class CursorConnection:
    """A `Connection` that uses the project's connection.

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


AT_THREAD_END.add(connections.close_all)  # Django closes them only after requests
