"""What a database says of its tables: which columns they have, of which types."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hookrow.errors import SchemaMismatch
from hookrow.stores.sql.connections import Connection, Row
from hookrow.stores.sql.dialects import Dialect

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a view.

    `type` is the one that its values are passed as; empty on SQLite, which has no fixed types.
    `shown` is what people call it. `kind` is "text", "number", "boolean", "datetime", "enum",
    on SQLite also "integer", or the name of any other type. `length` is that of a text, in
    characters; `words` are those of an enum. `denied` are what its user may not do: "SELECT",
    "UPDATE". `read` converts a value that the driver returned, and `write` one that it is passed;
    they are never called with None.
    """

    name: str
    type: str
    shown: str
    kind: str
    nullable: bool
    generated: bool
    length: int | None = None
    words: Sequence[str] = ()
    denied: Sequence[str] = ()
    read: Convert | None = None
    write: Convert | None = None


def columns(connection: Connection, dialect: Dialect, table: str) -> Mapping[str, Column]:
    """Return the columns of a table or a view by name, in order; none if it does not exist."""
    if dialect.name == "postgresql":
        found = connection.fetch(_POSTGRESQL, [regclass(dialect, table)])
        return {row[0]: _postgres_column(row) for row in found}
    namespace, _, bare = table.rpartition(".")
    known = connection.fetch("SELECT name FROM pragma_database_list")
    if namespace and (namespace,) not in map(tuple, known):
        return {}
    found = connection.fetch(_SQLITE, [bare, namespace or "main"])
    return {row[0]: _sqlite_column(*row) for row in found}


def tables(connection: Connection, dialect: Dialect) -> Collection[str]:
    """Return the tables and views, named as a `Role` names them."""
    found = connection.fetch(_TABLES[dialect.name])
    return [f"{schema}.{name}" if schema else name for schema, name in found]


def is_view(connection: Connection, dialect: Dialect, table: str) -> bool:
    """Return whether SQLite has a view of that name."""
    namespace, _, bare = table.rpartition(".")
    master = f"{dialect.quote(namespace)}.sqlite_master" if namespace else "sqlite_master"
    sql = f"SELECT 1 FROM {master} WHERE type = 'view' AND name = %s COLLATE NOCASE"
    return bool(connection.fetch(sql, [bare]))


def denied_error(
    connection: Connection, dialect: Dialect, table: str, privileges: Collection[str]
) -> SchemaMismatch:
    """Return the error for privileges on a table that the user lacks."""
    ((user,),) = connection.fetch("SELECT quote_ident(current_user)")
    return SchemaMismatch(
        f"permission denied for table {table}: GRANT {', '.join(sorted(privileges))} "
        f"ON {regclass(dialect, table)} TO {user}"
    )


def regclass(dialect: Dialect, table: str) -> str:
    """Return a table's name as PostgreSQL's `to_regclass` takes it."""
    return dialect.table(table).replace("%%", "%")


_POSTGRESQL = """
WITH RECURSIVE found AS (
    SELECT attnum, attname, atttypid AS type, atttypmod AS mod, attnotnull AS filled,
        attgenerated <> '' AS generated,
        has_column_privilege(attrelid, attnum, 'SELECT') AS selects,
        has_column_privilege(attrelid, attnum, 'UPDATE') AS updates
    FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, typbasetype, typtypmod, filled OR typnotnull, generated, selects,
        updates
    FROM found JOIN pg_type ON oid = found.type WHERE typtype = 'd'
)
SELECT attname, format_type(t.oid, -1), format_type(t.oid, mod), typcategory::text, filled,
    generated, mod,
    ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),
    selects, updates
FROM found JOIN pg_type AS t ON t.oid = found.type WHERE typtype <> 'd' ORDER BY attnum
"""
"""A domain is taken for the type that it is based on."""

_SQLITE = 'SELECT name, type, "notnull", hidden FROM pragma_table_xinfo(%s, %s)'

_TABLES = {
    "postgresql": (
        "SELECT CASE WHEN NOT pg_table_is_visible(c.oid) THEN nspname END, relname "
        "FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace "
        "WHERE relkind IN ('r', 'p', 'v', 'm', 'f') "
        "AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%%'"
    ),
    "sqlite": "SELECT NULL, name FROM sqlite_master WHERE type IN ('table', 'view')",
}

_KINDS = {"S": "text", "N": "number", "B": "boolean", "E": "enum"}
"""By PostgreSQL's category of a type."""

_HEADER = 4
"""PostgreSQL adds this to the length in the type modifier of a text."""

_HIDDEN_AND_GENERATED = {2, 3}

_SQLITE_KINDS = {
    **dict.fromkeys(("BOOL", "BOOLEAN"), "boolean"),
    "DATE": "date",
    "TIME": "time",
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "datetime"),
}
"""What a column is meant for, by its declared type."""


def _postgres_column(row: Row) -> Column:
    name, type_, shown, category, filled, generated, modifier, words, *privileges = row
    kind = _KINDS.get(category, "datetime" if type_.startswith("timestamp") else type_)
    plain = "bpchar" if type_ == "character" else type_.replace("%", "%%")
    return Column(
        name,
        plain,
        f"enum {shown}" if kind == "enum" else shown.upper(),
        kind,
        nullable=not filled,
        generated=generated,
        length=max(modifier - _HEADER, 0) or None if kind == "text" else None,
        words=words,
        denied=[
            name for name, has in zip(("SELECT", "UPDATE"), privileges, strict=True) if not has
        ],
    )


def _sqlite_column(name: str, declared: str, filled: int, hidden: int) -> Column:
    shown = declared.upper()
    word = re.split(r"\W", shown)[0]
    kind = _SQLITE_KINDS.get(word, "")
    if not kind and "INT" in shown:
        kind = "integer"
    elif not kind and any(each in shown for each in ("CHAR", "CLOB", "TEXT")):
        kind = "text"
    length = re.search(r"\((\d+)\)", declared) if kind == "text" else None
    return Column(
        name,
        "",
        shown,
        kind or word.lower(),
        nullable=not filled,
        generated=hidden in _HIDDEN_AND_GENERATED,
        length=int(length[1]) if length else None,
    )
