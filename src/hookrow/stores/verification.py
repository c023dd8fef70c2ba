"""Whether a database has what the schema names, and of which types: looked at once, at the start.

What is missing is told by name. How fast it is found is for `indexes` to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Connection, Engine, Inspector, MetaData, Table, inspect
from sqlalchemy.dialects.postgresql import DOMAIN
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool
from sqlalchemy.types import TypeEngine

from hookrow.errors import SchemaMismatch
from hookrow.schema import NULLED, WRITTEN, Schema, nearest
from hookrow.stores import Unavailable
from hookrow.stores.column_types import check_types
from hookrow.stores.engines import check_version
from hookrow.stores.faults import fault
from hookrow.stores.relations import are_apart, is_updatable
from hookrow.stores.roles import Types
from hookrow.stores.statements import Statements
from hookrow.stores.tables import log_table


def verify(engine: Engine, schema: Schema) -> Statements:
    """Look for every table and column; return the statements for them.

    Raises `SchemaMismatch`, `ConfigurationError` for a version that is too old, and
    `Unavailable`. The connection is closed for good: one left in a pool could be
    shared by a fork.
    """
    on_postgres = engine.dialect.name == "postgresql"
    try:
        with engine.connect() as connection:
            if not isinstance(engine.pool, StaticPool | SingletonThreadPool):
                connection.detach()
            check_version(connection)
            inspector = inspect(connection)
            types = {name: _types(inspector, schema, name) for name in schema.roles}
            changed = _changed(schema)
            for table in changed:
                _check_updatable(connection, table)
            apart = on_postgres and are_apart(connection, changed)
            if schema.log:
                _check_log(inspector, schema.log)
    except SQLAlchemyError as error:
        raise Unavailable(str(fault(error))) from error
    check_types(schema, types, strict=on_postgres)
    return Statements(schema, types, engine.dialect, apart=apart)


def _types(inspector: Inspector, schema: Schema, name: str) -> Types:
    """Return the types of the columns of a role's table, which has all that it needs."""
    role, named = schema.roles[name], schema.columns(name)
    columns = _reflected(inspector, name, role.table)
    for column in (*named.values(), *role.where):
        if column not in columns:
            raise SchemaMismatch(
                f"The table {role.table!r} has no column {column!r}.{nearest(column, columns)}"
            )
    for ours, theirs in named.items():
        if ours in WRITTEN and "computed" in columns[theirs]:
            raise SchemaMismatch(
                f"The column {theirs!r} of {role.table!r} is generated, and cannot be written: "
                "name another."
            )
        if ours in NULLED and not _allows_null(columns[theirs]):
            raise SchemaMismatch(
                f"The column {theirs!r} of {role.table!r} is NOT NULL, but a reactivation sets it "
                f"to null: drop NOT NULL{_OR_NONE.get(ours, '')}."
            )
    return {name: _base(column["type"]) for name, column in columns.items()}


_OR_NONE = {"suppression_reason": ", or map suppression_reason to None to keep no reason"}
"""What else there is to do for a column that every role may leave out."""


def _allows_null(column: ReflectedColumn) -> bool:
    """Tell whether the column may be null; of a view's nothing is known, and it counts as such."""
    type_ = column["type"]
    while isinstance(type_, DOMAIN):
        if type_.not_null:
            return False
        type_ = type_.data_type
    return column["nullable"]


def _changed(schema: Schema) -> Sequence[Table]:
    """Return the tables in which notifications set anything, each with the columns set."""
    tables = []
    for name, role in schema.roles.items():
        namespace, _, bare = role.table.rpartition(".")
        table = Table(bare, MetaData(), schema=namespace or None)
        for ours, theirs in schema.columns(name).items():
            if ours in WRITTEN:
                table.append_column(Column(theirs))
        if table.c:
            tables.append(table)
    return tables


def _check_updatable(connection: Connection, table: Table) -> None:
    """Raise `SchemaMismatch` where the database knows no way to change what is written."""
    if not is_updatable(connection, table):
        raise SchemaMismatch(
            f"No row can be changed through the view {table.fullname!r}: name the table behind it."
        )


def _check_log(inspector: Inspector, name: str) -> None:
    """Raise `SchemaMismatch` where the log lacks anything, and say how to make it."""
    if name == Schema().log:
        hint = "Run: hookrow db upgrade."
    else:
        hint = f"Make it as `hookrow db sql` prints {Schema().log}."
    try:
        columns = _reflected(inspector, "log", name)
    except SchemaMismatch as error:
        raise SchemaMismatch(
            f"{error} {hint} Without a log: Schema(log=None), or `log = false`."
        ) from None
    missing = [each.name for each in log_table(name, MetaData()).c if each.name not in columns]
    if missing:
        raise SchemaMismatch(f"The log {name!r} lacks {', '.join(missing)}. {hint}")


def _reflected(inspector: Inspector, name: str, table: str) -> Mapping[str, ReflectedColumn]:
    """Return the columns of a table, or of a view."""
    namespace, _, bare = table.rpartition(".")
    if namespace and namespace not in inspector.get_schema_names():
        raise _no_table(inspector, name, table)
    try:
        columns = inspector.get_columns(bare, schema=namespace or None)
    except NoSuchTableError:
        raise _no_table(inspector, name, table) from None
    return {column["name"]: column for column in columns}


def _base(type_: TypeEngine[Any]) -> TypeEngine[Any]:
    return _base(type_.data_type) if isinstance(type_, DOMAIN) else type_


def _no_table(inspector: Inspector, name: str, table: str) -> SchemaMismatch:
    bare = table.rpartition(".")[2]
    others = [each for each in _tables(inspector) if each != table]
    elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
    hint = f" Did you mean {elsewhere[0]!r}?" if elsewhere else nearest(table, others)
    return SchemaMismatch(f"The database has no table {table!r} for the {name}.{hint}")


def _tables(inspector: Inspector) -> Iterator[str]:
    """Yield the name of each table and view, as a `Role` has it."""
    for namespace in inspector.get_schema_names():
        if namespace == "information_schema":
            continue
        names = (*inspector.get_table_names(namespace), *inspector.get_view_names(namespace))
        usual = namespace == inspector.default_schema_name
        yield from names if usual else (f"{namespace}.{each}" for each in names)
