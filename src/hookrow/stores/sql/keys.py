"""Verifies that the database keeps the keys of rows unique, as far as it can.

A key that several rows share would let one notification change all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from itertools import count, groupby
from operator import itemgetter

from hookrow.core.notification import Suppressible
from hookrow.core.schema import KEYS, WRITTEN, Schema
from hookrow.stores import SchemaChanged
from hookrow.stores.errors import store_error
from hookrow.stores.sql.columns import lookup_name, regclass
from hookrow.stores.sql.connections import Connection
from hookrow.stores.sql.role_tables import ALIASES, RoleTables

_NUMBERS = count()
"""Make texts unique: Python's sqlite3 caches statements, and SQLite does not prepare an EXPLAIN
again after the schema has changed."""


class Uniqueness(Enum):
    """What the database knows about a key."""

    DECLARED = "a primary key, a unique constraint or a unique index keeps it unique"
    MISSING = "there is none, but there can be"
    UNDECLARABLE = "the database can keep it unique only in parts of this relation, or not at all"


def keys(schema: Schema) -> Mapping[str, Sequence[str]]:
    """Return the columns, by hookrow's names, that must be unique together in each role's table.

    The rows that hookrow changes are locked and changed by these columns. A message is only read:
    if two had the id of a dispatch's message, the dispatch would have two lists. Subscriptions
    without suppression columns are not changed, so a pair may occur twice. Emails and message ids
    may occur several times, because `rules` chooses among their rows.
    """
    changed = {
        kind.value: KEYS[kind]
        for kind in Suppressible
        if kind.value in schema.roles and {*WRITTEN} & schema.columns(kind.value).keys()
    }
    return changed | {"messages": ("id",)} if "messages" in schema.roles else changed


def key_mistakes(connection: Connection, tables: RoleTables) -> Iterator[str]:
    """Yield a sentence for each key that can be declared unique in the database, but is not."""
    for role, key in keys(tables.schema).items():
        uniqueness, partial = _examine(connection, tables, role, key)
        if uniqueness is Uniqueness.MISSING:
            yield _mistake(connection, tables, role, key, partial)


def undeclarable_keys(connection: Connection, tables: RoleTables) -> Iterator[str]:
    """Yield the roles with a key that the database cannot keep unique, such as that of a view."""
    for role, key in keys(tables.schema).items():
        uniqueness, _ = _examine(connection, tables, role, key)
        if uniqueness is Uniqueness.UNDECLARABLE:
            yield role


def effect(role: str) -> str:
    """Return what could happen if several rows had one key, for messages."""
    if role == "messages":
        return "one dispatch could have the lists of several messages"
    return "one notification could change several rows"


def described(tables: RoleTables, role: str, key: Sequence[str]) -> str:
    """Return the table's own names of the key's columns, and its table, for messages."""
    names = " and ".join(repr(tables.columns(role)[ours].name) for ours in key)
    columns = "column" if len(key) == 1 else "columns"
    return f"{columns} {names} of {tables.schema.roles[role].table!r}"


def _mistake(
    connection: Connection,
    tables: RoleTables,
    role: str,
    key: Sequence[str],
    partial: str | None,
) -> str:
    is_not = "is not unique" if len(key) == 1 else "are not unique together"
    remedies = [f"run {_create(tables, role, key)}"]
    if len(key) == 1 and (primary := _primary_key(connection, tables, role)):
        remedies.insert(0, f'map the primary key, {{"{key[0]}": "{primary}"}}')
    if partial:
        remedies.insert(0, f"set `where` to the condition of the unique index {partial!r}")
    return (
        f"The {described(tables, role, key)} {is_not}, so {effect(role)}: {', or '.join(remedies)}"
    )


def _create(tables: RoleTables, role: str, key: Sequence[str]) -> str:
    """Return the statement that creates a unique index of the rows that are not hidden."""
    dialect, table = tables.dialect, tables.schema.roles[role].table
    names = [tables.columns(role)[ours].name for ours in key]
    index = dialect.quote("_".join(["hookrow", table.rpartition(".")[2], *names]))
    where = " AND ".join(
        f"{dialect.quote(column.name)} {tables.equals(column, value)}"
        for column, value in tables.hiding[role]
    )
    statement = (
        f"CREATE UNIQUE INDEX {index} ON {dialect.table(table)} "
        f"({', '.join(map(dialect.quote, names))}){where and f' WHERE {where}'}"
    )
    return statement.replace("%%", "%")


def _primary_key(connection: Connection, tables: RoleTables, role: str) -> str | None:
    """Return the column of the table's primary key, unless it is mapped already or has several."""
    dialect, table = tables.dialect, tables.schema.roles[role].table
    found = connection.fetch(_PRIMARY_KEY[dialect.name], lookup_name(dialect, table))
    mapped = {column.name for column in tables.columns(role).values()}
    return str(found[0][0]) if len(found) == 1 and found[0][0] not in mapped else None


def _examine(
    connection: Connection, tables: RoleTables, role: str, key: Sequence[str]
) -> tuple[Uniqueness, str | None]:
    """Return what the database knows about a key.

    If that is nothing, also return the name of a unique index of the key that does not cover all
    rows, if there is one.

    A column that `where` fixes to a value is the same in all visible rows, so a unique index may
    also be on such columns. A column that is null does not count, because nulls are distinct.
    """
    names = [tables.columns(role)[ours].name for ours in key]
    names += [name for name, value in tables.selecting(role).items() if value is not None]
    examine = {"postgresql": _examine_postgresql, "sqlite": _examine_sqlite}
    return examine[tables.dialect.name](connection, tables, role, names)


_PRIMARY_KEY = {
    "postgresql": """
        SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE indrelid = to_regclass(%s) AND indisprimary AND indnkeyatts = 1
    """,
    "sqlite": "SELECT name FROM pragma_table_xinfo(%s, %s) WHERE pk > 0",
}
"""Selects the columns of a table's primary key."""

_RELATION = """
SELECT
    relkind IN ('v', 'f') OR EXISTS (
        SELECT FROM pg_partition_tree(CASE WHEN relkind = 'p' THEN c.oid END) AS tree
        JOIN pg_class AS part ON part.oid = tree.relid
        LEFT JOIN pg_partitioned_table ON partrelid = part.oid
        WHERE part.relkind = 'f' OR EXISTS (
            SELECT FROM unnest(partattrs) AS number
            LEFT JOIN pg_attribute ON attrelid = part.oid AND attnum = number
            WHERE attname IS NULL OR attname <> ALL(%s::text[])
        )
    ),
    relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid)
FROM pg_class AS c WHERE oid = to_regclass(%s)
"""
"""Whether no unique index can cover the key, and whether none covers the tables that inherit.

A unique index of a partitioned table needs the columns of its partition key, and the same applies
to partitions that have partitions. A foreign table has no unique index.
"""

_INDEXES = """
SELECT relname, pg_get_expr(indpred, indrelid), NOT EXISTS (
    SELECT FROM pg_depend JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
    WHERE classid = 'pg_class'::regclass AND objid = indexrelid AND refobjid = indrelid
    AND refclassid = 'pg_class'::regclass AND attname <> ALL(%s::text[])
)
FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid
WHERE indrelid = to_regclass(%s) AND indisunique AND indisvalid AND indisready
AND NOT indisexclusion AND NOT EXISTS (
    SELECT FROM unnest(indkey, indcollation, indclass)
        WITH ORDINALITY AS key (number, collation_, class, place)
    LEFT JOIN pg_attribute AS a ON attrelid = indrelid AND attnum = number
    LEFT JOIN pg_collation AS l ON l.oid = attcollation
    LEFT JOIN pg_type AS t ON t.oid = atttypid
    LEFT JOIN pg_opclass AS used ON used.oid = class
    LEFT JOIN pg_opclass AS own ON own.opcmethod = used.opcmethod AND own.opcdefault
        AND own.opcintype = coalesce(nullif(typbasetype, 0), atttypid)
    WHERE place <= indnkeyatts AND (
        attname IS NULL OR attname <> ALL(%s::text[])
        OR NOT collisdeterministic AND collation_ <> attcollation
        OR used.opcintype <> own.opcintype
    )
)
ORDER BY indpred IS NOT NULL, relname
"""
"""The unique indexes on some of the given columns and no others, their predicates, and whether
these depend on no columns but some that the user may read.

A subset of the columns is stricter than all of them. An expression has no column. If the column's
collation or type regards different texts as equal, that of the index must do so, too: an index on a
column of the type citext may have the operators of text.
"""


def _examine_postgresql(
    connection: Connection, tables: RoleTables, role: str, names: Sequence[str]
) -> tuple[Uniqueness, str | None]:
    encode = tables.dialect.encode
    table = regclass(tables.dialect, tables.schema.roles[role].table)
    ((cannot, is_inherited),) = connection.fetch(_RELATION, [encode(names), table])
    readable = [*names, *(column.name for column, _ in tables.hiding[role])]
    partial = None
    found = connection.fetch(_INDEXES, [encode(readable), table, encode(names)])
    for index, predicate, is_readable in found:
        if predicate is None or (is_readable and _is_implied(connection, tables, role, predicate)):
            return Uniqueness.UNDECLARABLE if is_inherited else Uniqueness.DECLARED, None
        partial = partial or index
    return Uniqueness.UNDECLARABLE if cannot else Uniqueness.MISSING, partial


def _is_implied(connection: Connection, tables: RoleTables, role: str, predicate: str) -> bool:
    """Return whether PostgreSQL's planner proves that a partial index has all visible rows.

    Its plan for the visible rows without the predicate then reads no table.
    """
    key = keys(tables.schema)[role]
    is_key = "".join(f" AND {tables.column(role, ours)} IS NOT NULL" for ours in key)
    predicate = predicate.replace("%", "%%")
    # By default, the planner does not look for contradictions in the conditions on a table.
    ((former,),) = connection.fetch("SELECT current_setting('constraint_exclusion')")
    connection.fetch(_SET_EXCLUSION, ["on"])
    plan = connection.fetch(
        f"EXPLAIN SELECT FROM {tables.table(role)} "
        f"WHERE ({predicate}) IS NOT TRUE{is_key}{tables.visible(role)}"
        f"{_flags(tables, role, _FLAGS)}"
    )
    connection.fetch(_SET_EXCLUSION, [former])
    return any("One-Time Filter: false" in line for (line,) in plan)


_SET_EXCLUSION = "SELECT set_config('constraint_exclusion', %s, true)"
"""Sets the planner's option until the end of the transaction, which may be the host's."""


_SQLITE_RELATION = """
SELECT 1 FROM {}.sqlite_master
WHERE type IN ('table', 'view') AND name = %s COLLATE NOCASE AND coalesce(rootpage, 0) = 0
"""
"""Selects a view or a virtual table: neither is stored, and neither has indexes."""

_SQLITE_ROWID = """
SELECT name FROM pragma_table_xinfo(%s, %s)
WHERE pk > 0 AND NOT EXISTS (SELECT 1 FROM pragma_index_list(%s, %s) WHERE origin = 'pk')
"""
"""Selects the INTEGER PRIMARY KEY: it is the rowid, and the only primary key without an index."""

_SQLITE_INDEXES = """
SELECT i.name, i.partial, c.name, c.coll
FROM pragma_index_list(%s, %s) AS i, pragma_index_xinfo(i.name, %s) AS c WHERE i."unique" AND c.key
ORDER BY i.partial, i.name, c.seqno
"""
"""Selects the columns of the unique indexes, and their collations. An expression has no name."""


def _examine_sqlite(
    connection: Connection, tables: RoleTables, role: str, names: Sequence[str]
) -> tuple[Uniqueness, str | None]:
    table = lookup_name(tables.dialect, tables.schema.roles[role].table)
    if connection.fetch(_SQLITE_RELATION.format(tables.dialect.quote(table[1])), table[:1]):
        return Uniqueness.UNDECLARABLE, None
    if any(name in names for (name,) in connection.fetch(_SQLITE_ROWID, table * 2)):
        return Uniqueness.DECLARED, None
    partial = None
    rows = connection.fetch(_SQLITE_INDEXES, [*table, table[1]])
    for (index, is_partial), columns in groupby(rows, itemgetter(0, 1)):
        collations = [(name, collation) for _, _, name, collation in columns]
        if any(name not in names for name, _ in collations):
            continue
        if _is_searched(connection, tables, role, index, collations):
            return Uniqueness.DECLARED, None
        if is_partial:
            partial = partial or index
    return Uniqueness.MISSING, partial


def _is_searched(
    connection: Connection,
    tables: RoleTables,
    role: str,
    index: str,
    collations: Sequence[tuple[str, str]],
) -> bool:
    """Return whether SQLite's planner can find visible rows by all columns of an index.

    It cannot if the index is partial and its predicate does not follow from the conditions, or if a
    column's collation regards different texts as equal and that of the index, BINARY, does not.
    An index with another collation is at least as strict; it is searched with its own collation.
    """
    alias, quote = ALIASES[role], tables.dialect.quote
    equal = []
    for name, collation in collations:
        own = "" if collation.upper() == "BINARY" else f" COLLATE {quote(collation)}"
        equal.append(f"{alias}.{quote(name)}{own} = (SELECT NULL)")
    sql = (
        f"{tables.dialect.explain} SELECT 1 FROM {tables.table(role)} "
        f"INDEXED BY {quote(index)} WHERE {' AND '.join(equal)}{tables.visible(role)}"
        f"{_flags(tables, role, _SQLITE_FLAGS)} /* {next(_NUMBERS)} */"
    )
    try:
        plan = connection.fetch(sql)
    except Exception as error:
        if not isinstance(store_error(error), SchemaChanged):  # "no query solution"
            raise
        return False
    # If one column cannot be searched, the plan has only the columns before it.
    searched = f"({' AND '.join(f'{name}=?' for name, _ in collations)})"
    return any("SEARCH" in row[-1] and row[-1].endswith(searched) for row in plan)


_FLAGS = {
    True: "{0} AND {0} IS TRUE AND {0} IS NOT FALSE",
    False: "NOT {0} AND {0} IS FALSE AND {0} IS NOT TRUE",
}
"""The forms of a condition on a boolean column that an index may have."""

_SQLITE_FLAGS = {True: f"{_FLAGS[True]} AND {{0}} = 1", False: f"{_FLAGS[False]} AND {{0}} = 0"}


def _flags(tables: RoleTables, role: str, forms: Mapping[bool, str]) -> str:
    """Return the conditions on boolean columns in other forms, to follow another condition.

    SQLite compares the texts of conditions: to it, `active = true` does not imply `active`.
    PostgreSQL does not prove that `active = true` implies `active IS TRUE`.
    """
    alias, quote = ALIASES[role], tables.dialect.quote
    return "".join(
        f" AND {forms[value].format(f'{alias}.{quote(column.name)}')}"
        for column, value in tables.hiding[role]
        if isinstance(value, bool) and column.kind == "boolean"
    )
