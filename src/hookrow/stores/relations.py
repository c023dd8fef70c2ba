"""What a host's names stand for: tables, partitioned ones, and views; asked of the database."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from sqlalchemy import (
    Connection,
    Dialect,
    Table,
    Text,
    Update,
    cast,
    func,
    inspect,
    literal_column,
    null,
    select,
    text,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.exc import OperationalError
from sqlalchemy.sql.elements import ColumnElement

_UPDATE = 4
"""Of what `pg_relation_is_updatable` says, the bit for UPDATE."""


class Relation(Enum):
    """What a table may be, for one who would make an index on it."""

    TABLE = "r"
    PARTITIONED = "p"
    VIEW = "v"


def printing(dialect: Dialect) -> Dialect:
    """Return the dialect for statements that are read: a driver has each % in a name doubled."""
    return type(dialect)(paramstyle="named")  # type: ignore[call-arg] # SQLAlchemy's own take it


def relation(connection: Connection, table: Table) -> Relation:
    """Look up what the table is."""
    if connection.dialect.name != "postgresql":
        is_view = table.name in inspect(connection).get_view_names(table.schema)
        return Relation.VIEW if is_view else Relation.TABLE
    kind = select(literal_column("relkind::text", Text())).select_from(text("pg_class"))
    found = connection.scalar(kind.where(literal_column("oid") == _oid(connection, table)))
    return next((each for each in Relation if each.value == found), Relation.TABLE)


def are_apart(connection: Connection, tables: Collection[Table]) -> bool:
    """Tell whether no row of one is also a row of another, as one of a view may be."""
    oids = {connection.scalar(select(_oid(connection, each))) for each in tables}
    kinds = {relation(connection, each) for each in tables}
    return len(oids) == len(tables) and Relation.VIEW not in kinds


def is_updatable(connection: Connection, table: Table) -> bool:
    """Tell whether the database knows a way to change what the columns of a row hold."""
    if connection.dialect.name != "postgresql":
        # A table can always be changed, even if a trigger on it does not compile.
        return relation(connection, table) is Relation.TABLE or _compiles(
            connection, update(table).values({each: null() for each in table.c})
        )
    events = func.pg_relation_is_updatable(_oid(connection, table), true())  # rules count
    return bool(connection.scalar(select(events.op("&")(_UPDATE))))


def _compiles(connection: Connection, statement: Update) -> bool:
    """Ask SQLite, which knows when it compiles a statement; it is not run."""
    try:
        connection.exec_driver_sql(f"EXPLAIN {statement.compile(connection)}").close()
    except OperationalError:
        return False
    return True


def _oid(connection: Connection, table: Table) -> ColumnElement[str]:
    quoted = printing(connection.dialect).identifier_preparer.format_table(table)
    return cast(quoted, REGCLASS)
