"""Whether a database has what the schema names, and of which types: looked at once, at the start.

What is missing is told by name. How fast it is found is for `indexes` to say.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Engine, Inspector, MetaData, String, inspect
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from hookrow.errors import SchemaMismatch
from hookrow.schema import Schema, nearest
from hookrow.stores import Unavailable
from hookrow.stores.engines import check_version
from hookrow.stores.faults import fault
from hookrow.stores.statements import Statements, Types
from hookrow.stores.tables import log_table

_TEXT = {"email", "provider_message_id"}


def verify(engine: Engine, schema: Schema) -> Statements:
    """Look for every table and column; return the statements for them.

    Raises `SchemaMismatch`, `ConfigurationError` for a version that is too old, and
    `Unavailable`. The connection is closed for good: one left in a pool could be
    shared by a fork.
    """
    try:
        with engine.connect() as connection:
            if not isinstance(engine.pool, StaticPool | SingletonThreadPool):
                connection.detach()
            check_version(connection)
            inspector = inspect(connection)
            types = {name: _types(inspector, schema, name) for name in schema.roles}
            if schema.log:
                _check_log(inspector, schema.log)
    except SQLAlchemyError as error:
        raise Unavailable(str(fault(error))) from error
    return Statements(schema, types, arrays=engine.dialect.name == "postgresql")


def _types(inspector: Inspector, schema: Schema, name: str) -> Types:
    """Return the types of the columns of a role's table, which has all that it needs."""
    table, columns = schema.roles[name].table, schema.columns(name)
    types = _reflected(inspector, name, table)
    for column in columns.values():
        if column not in types:
            raise SchemaMismatch(
                f"The table {table!r} has no column {column!r}.{nearest(column, types)}"
            )
    if inspector.dialect.name == "postgresql":
        _check_text(table, [columns[ours] for ours in _TEXT & columns.keys()], types)
    return types


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


def _reflected(inspector: Inspector, name: str, table: str) -> Types:
    namespace, _, bare = table.rpartition(".")
    try:
        columns = inspector.get_columns(bare, schema=namespace or None)
    except NoSuchTableError:
        tables = inspector.get_table_names(schema=namespace or None)
        raise SchemaMismatch(
            f"The database has no table {table!r} for the {name}.{nearest(bare, tables)}"
        ) from None
    return {column["name"]: column["type"] for column in columns}


def _check_text(table: str, columns: Collection[str], types: Types) -> None:
    for column in columns:
        if not isinstance(types[column], String):
            raise SchemaMismatch(
                f"The column {column!r} of {table!r} is of the type {types[column]}, "
                "and has to be text: what comes is compared with it as it came."
            )
