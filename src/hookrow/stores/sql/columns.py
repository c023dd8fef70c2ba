"""The catalogue of a database: its tables, and their columns with their types."""

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

    `type` is the type of its parameters; empty on SQLite, which has no fixed types. `type_name` is
    the name for error messages. `kind` is "text", "number", "boolean", "datetime", "enum", on
    SQLite also "integer", the name of any other type, or empty if it is unknown. `default` is
    whether the database can assign a value. `holds_uuids` is whether its values are UUIDs: on
    SQLite, whether it is CHAR(32), in which Django and SQLAlchemy store their digits.
    `ignores_case` is whether it can be compared ignoring case without a function: CITEXT, a
    collation that is not deterministic, and any column of SQLite. `length` is the maximum length of
    a text, in characters; `labels` are the values of an enum. `denied` are the privileges that the
    user lacks: "SELECT", "UPDATE". `declared` is the type on PostgreSQL as it is declared, with its
    length, its domain and its collation, as SQL text. `read` converts a value from the driver, and
    `write` a value for the driver; neither is called with None.
    """

    name: str
    type: str
    type_name: str
    kind: str
    nullable: bool
    generated: bool
    default: bool
    holds_uuids: bool = False
    ignores_case: bool = False
    length: int | None = None
    labels: Sequence[str] = ()
    denied: Sequence[str] = ()
    declared: str = ""
    read: Convert | None = None
    write: Convert | None = None


def columns(connection: Connection, dialect: Dialect, table: str) -> Mapping[str, Column]:
    """Return the columns of a table or a view by name, in order; none if it does not exist."""
    named = lookup_name(dialect, table)
    if dialect.name == "postgresql":
        return {row[0]: _postgres_column(row) for row in connection.fetch(_POSTGRESQL, named)}
    schemas = [name for (name,) in connection.fetch("SELECT name FROM pragma_database_list")]
    if table.rpartition(".")[0] not in {"", *schemas}:
        return {}
    return {row[0]: _sqlite_column(*row) for row in connection.fetch(_SQLITE, named * 2)}


def is_unique(connection: Connection, dialect: Dialect, table: str, *names: str) -> bool:
    """Return whether there is a unique index on exactly these columns, as ON CONFLICT requires."""
    named = lookup_name(dialect, table)
    if dialect.name == "postgresql":
        return bool(connection.fetch(_POSTGRESQL_UNIQUE, [*named, dialect.encode(sorted(names))]))
    indexes = connection.fetch(_SQLITE_UNIQUE, named)
    indexed_columns = (
        connection.fetch("SELECT name FROM pragma_index_info(%s, %s)", [name, named[1]])
        for (name,) in indexes
    )
    return any({name for (name,) in indexed} == {*names} for indexed in indexed_columns)


def tables(connection: Connection, dialect: Dialect) -> Collection[str]:
    """Return the names of all tables and views, in the form that a `Role` uses."""
    rows = connection.fetch(_TABLES[dialect.name])
    return [f"{schema}.{name}" if schema else name for schema, name in rows]


def own_name(connection: Connection, dialect: Dialect, table: str) -> str | None:
    """Return the database's own name for a table; None if it does not exist.

    On PostgreSQL, the name includes the table's schema.
    """
    if dialect.name == "postgresql":
        rows = connection.fetch(_POSTGRESQL_NAME, [regclass(dialect, table)])
        return str(rows[0][0]) if rows else None
    namespace, _, bare = table.rpartition(".")
    namespace = namespace.lower() or "main"
    sql = (
        f"SELECT name FROM {dialect.quote(namespace)}.sqlite_master "
        "WHERE type IN ('table', 'view') AND name = %s COLLATE NOCASE"
    )
    rows = connection.fetch(sql, [bare])
    if not rows:
        return None
    return str(rows[0][0]) if namespace == "main" else f"{namespace}.{rows[0][0]}"


def is_view(connection: Connection, dialect: Dialect, table: str) -> bool:
    """Return whether SQLite has a view of that name."""
    namespace, _, bare = table.rpartition(".")
    master = f"{dialect.quote(namespace)}.sqlite_master" if namespace else "sqlite_master"
    sql = f"SELECT 1 FROM {master} WHERE type = 'view' AND name = %s COLLATE NOCASE"
    return bool(connection.fetch(sql, [bare]))


def check_privileges(
    connection: Connection, dialect: Dialect, table: str, needed: Collection[str]
) -> None:
    """Raise `SchemaMismatch` if the user lacks a privilege on a table of PostgreSQL."""
    if dialect.name != "postgresql":
        return
    sql = "SELECT p FROM unnest(%s::text[]) AS p WHERE NOT has_table_privilege(%s, p)"
    if lacking := connection.fetch(sql, [dialect.encode(needed), regclass(dialect, table)]):
        raise denied_error(connection, dialect, table, [each for (each,) in lacking])


def denied_error(
    connection: Connection, dialect: Dialect, table: str, privileges: Collection[str]
) -> SchemaMismatch:
    """Return the error for privileges on a table that the user lacks."""
    ((user,),) = connection.fetch("SELECT quote_ident(current_user)")
    return SchemaMismatch(
        f"permission denied for table {table}: GRANT {', '.join(sorted(privileges))} "
        f"ON {regclass(dialect, table)} TO {user}"
    )


def lookup_name(dialect: Dialect, table: str) -> list[str]:
    """Return the parameters that name a table in a query of the catalogue."""
    if dialect.name == "postgresql":
        return [regclass(dialect, table)]
    namespace, _, bare = table.rpartition(".")
    return [bare, namespace or "main"]


def regclass(dialect: Dialect, table: str) -> str:
    """Return a table's name for PostgreSQL's `to_regclass`."""
    return dialect.table(table).replace("%%", "%")


_POSTGRESQL = """
WITH RECURSIVE found AS (
    SELECT attnum, attname, atttypid AS type, atttypmod AS mod, attnotnull AS filled,
        attgenerated <> '' AS generated,
        atthasdef OR attidentity <> '' OR relkind = 'v' AS defaults,
        has_column_privilege(attrelid, attnum, 'SELECT') AS selects,
        has_column_privilege(attrelid, attnum, 'UPDATE') AS updates,
        coalesce(NOT collisdeterministic, false) AS lenient,
        format_type(atttypid, atttypmod) || CASE WHEN attcollation <> typcollation
            THEN ' COLLATE ' || attcollation::regcollation::text ELSE '' END AS declared
    FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid JOIN pg_type AS d ON d.oid = atttypid
    LEFT JOIN pg_collation AS l ON l.oid = attcollation
    WHERE c.oid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT attnum, attname, typbasetype, typtypmod, filled OR typnotnull, generated,
        defaults OR typdefault IS NOT NULL, selects, updates, lenient, declared
    FROM found JOIN pg_type ON oid = found.type WHERE typtype = 'd'
)
SELECT attname, format_type(t.oid, -1), format_type(t.oid, mod), typcategory::text, NOT filled,
    generated, defaults, mod,
    ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder),
    declared, lenient, selects, updates
FROM found JOIN pg_type AS t ON t.oid = found.type WHERE typtype <> 'd' ORDER BY attnum
"""
"""A domain counts as the type that it is based on, and a view as the table behind it."""

_POSTGRESQL_UNIQUE = """
SELECT FROM pg_class AS c LEFT JOIN pg_index ON indrelid = c.oid AND indisunique
    AND indisvalid AND indimmediate AND indpred IS NULL
WHERE c.oid = to_regclass(%s) AND (relkind = 'v' OR ARRAY(
    SELECT attname::text FROM unnest(indkey) WITH ORDINALITY AS key (number, place)
    LEFT JOIN pg_attribute ON attrelid = c.oid AND attnum = number
    WHERE place <= indnkeyatts ORDER BY attname COLLATE "C"
) = %s::text[])
"""

_POSTGRESQL_NAME = """
SELECT concat(nspname, '.', relname) FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = to_regclass(%s)
"""

_SQLITE = """
SELECT name, type, NOT "notnull", hidden IN (2, 3), dflt_value IS NOT NULL OR (pk > 0
    AND NOT EXISTS (SELECT 1 FROM pragma_index_list(%s, %s) WHERE origin = 'pk'))
FROM pragma_table_xinfo(%s, %s)
"""
"""SQLite assigns a value to a primary key without a separate index, because it is the rowid."""

_SQLITE_UNIQUE = """
SELECT name FROM pragma_index_list(%s, %s) WHERE "unique" AND NOT partial
"""

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
"""PostgreSQL adds this to the length in the type modifier of a text column."""

_SQLITE_KINDS = {
    **dict.fromkeys(("BOOL", "BOOLEAN"), "boolean"),
    "DATE": "date",
    "TIME": "time",
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "datetime"),
}
"""The kind of a column, by its declared type."""


def _postgres_column(row: Row) -> Column:
    name, type_, type_name, category, nullable, generated, default, modifier, labels, *rest = row
    declared, is_lenient, *may = rest
    kind = _KINDS.get(category, "datetime" if type_.startswith("timestamp") else type_)
    return Column(
        name,
        "bpchar" if type_ == "character" else type_.replace("%", "%%"),
        f"enum {type_name}" if kind == "enum" else type_name.upper(),
        kind,
        nullable=nullable,
        generated=generated,
        default=default,
        holds_uuids=type_ == "uuid",
        ignores_case=type_ == "citext" or is_lenient,
        length=max(modifier - _HEADER, 0) or None if kind == "text" else None,
        labels=labels,
        denied=[each for each, has in zip(("SELECT", "UPDATE"), may, strict=True) if not has],
        declared=declared.replace("%", "%%"),
    )


def _sqlite_column(name: str, declared: str, nullable: int, generated: int, default: int) -> Column:
    type_name = declared.upper()
    word = re.split(r"\W", type_name)[0]
    kind = _SQLITE_KINDS.get(word, "")
    if not kind and "INT" in type_name:
        kind = "integer"
    elif not kind and any(each in type_name for each in ("CHAR", "CLOB", "TEXT")):
        kind = "text"
    return Column(
        name,
        "",
        type_name,
        kind or word.lower(),
        nullable=bool(nullable),
        generated=bool(generated),
        default=bool(default),
        holds_uuids=type_name == "CHAR(32)",
        ignores_case=True,
    )
