"""What works in a host's database and could be better: indexes, naive times, repeated emails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from hookrow.schema import Fold
from hookrow.stores.sql.columns import is_view, regclass
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.queries import Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

_LONGEST_NAME = 63
"""In characters, of an index in PostgreSQL."""

_ALONE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns that rows are found or changed by, each by itself; emails and pairs besides."""


class Relation(Enum):
    """What a table may be, for one who would make an index on it."""

    TABLE = "r"
    PARTITIONED = "p"
    VIEW = "v"


@dataclass(frozen=True, slots=True)
class MissingIndex:
    """The CREATE INDEX that a lookup lacks, and on what: in a view it can only be read.

    `fold` is that of emails which has its index already, if any.
    """

    statement: str
    on: Relation
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What rows are searched for, with parameters; what to index; and how a plan names that."""

    role: str
    columns: Sequence[str]
    condition: str
    parameters: Sequence[object]
    fold: Fold | None
    by: str


def missing_indexes(connection: Connection, queries: Queries) -> Iterator[MissingIndex]:
    """Yield each index that a lookup lacks.

    The planner is asked, not the catalogue: only it knows which index it can use.
    """
    if queries.dialect.name == "postgresql":
        # A small table is read whole whatever its indexes; ask what were if it could not be.
        connection.execute("SET LOCAL enable_seqscan = off")
    fold = queries.schema.subscribers.fold
    if not _is_served(connection, queries, email := _email(queries, fold)):
        there = (
            each
            for each in _folds(queries)
            if each != fold and _is_served(connection, queries, _email(queries, each))
        )
        yield _lacking(connection, queries, email, next(there, None))
    for lookup in _lookups(queries):
        if not _is_served(connection, queries, lookup):
            yield _lacking(connection, queries, lookup)


def naive_times(connection: Connection, queries: Queries) -> Iterator[tuple[str, str]]:
    """Yield each time without a zone, and the ALTER TABLE that reads what is in it as UTC.

    SQLite's columns say nothing of zones.
    """
    for name, role in queries.schema.roles.items():
        for column in queries.columns(name).values():
            if column.type == "timestamp without time zone":
                table = _shown_table(connection, queries, role.table)
                plain = _shown(connection, queries, column.name)
                alter = f"ALTER TABLE {table} ALTER {plain} TYPE timestamptz"
                yield f"{table}.{plain}", f"{alter} USING {plain} AT TIME ZONE 'UTC'"


def repeated_emails(
    database: Database, queries: Queries, *, seconds: float = STATEMENT_TIMEOUT
) -> tuple[int, str]:
    """Return how many emails several subscribers have, and one of them, else an empty text.

    That reads a whole table. Raises a `StoreError` if it takes longer than `seconds`.
    """
    email = queries.dialect.fold("ascii", queries.column("subscribers", "email"))
    sql = (
        f"SELECT count(*), min(email) FROM (SELECT {email} AS email "
        f"FROM {queries.table('subscribers')} "
        f"WHERE {queries.column('subscribers', 'email')} IS NOT NULL"
        f"{queries.visible('subscribers')} GROUP BY 1 HAVING count(*) > 1) AS repeated"
    )
    with limited_to(seconds), database.reading() as connection:
        ((count, example),) = connection.fetch(sql)
    return count, example or ""


def _folds(queries: Queries) -> Iterator[Fold]:
    """Yield the folds that could be, the most lenient first."""
    if not queries.dialect.locks_rows or queries.columns("subscribers")["email"].type == "citext":
        yield "citext"
    yield from ("ascii", "lower", "exact")


def _email(queries: Queries, fold: Fold) -> _Lookup:
    """Return the half of `find` that looks for emails, by any fold."""
    name = queries.columns("subscribers")["email"].name
    is_column = queries.dialect.fold(fold, "email") == "email"
    return _Lookup(
        "subscribers",
        ["email"],
        queries.email_is_any(fold),
        [queries.dialect.encode([""])],
        fold,
        _named(name) if is_column else f"{_named(name)}|<expr>",
    )


def _lookups(queries: Queries) -> Iterator[_Lookup]:
    """Yield what is looked for besides emails."""
    for role, ours in _ALONE:
        if queries.has(role):
            by = f"{_named(queries.columns(role)[ours].name)}|rowid"
            yield _Lookup(role, [ours], *_equal(queries, role, ours), None, by)
    if queries.has("subscriptions"):
        pair = ["list_id", "subscriber_id"]
        # There may be few lists, with many subscribers each: these tell the rows apart.
        by = _named(queries.columns("subscriptions")["subscriber_id"].name)
        yield _Lookup("subscriptions", pair, *_equal(queries, "subscriptions", *pair), None, by)


def _equal(queries: Queries, role: str, *names: str) -> tuple[str, Sequence[object]]:
    """Compare each column with one value, of which a planner knows no more than its type."""
    if queries.dialect.locks_rows:
        types = {ours: queries.columns(role)[ours].type for ours in names}
        equal = [
            f"{queries.column(role, ours)} = (SELECT NULL::{type_})"
            for ours, type_ in types.items()
        ]
        return " AND ".join(equal), []
    return " AND ".join(f"{queries.column(role, ours)} = %s" for ours in names), [None] * len(names)


def _named(column: str) -> str:
    return rf"(?<!\w){re.escape(column)}(?!\w)"


def _is_served(connection: Connection, queries: Queries, lookup: _Lookup) -> bool:
    """Return whether the plan searches an index by what the lookup has to search by.

    PostgreSQL prints the condition; SQLite prints the columns, <expr> for what is none, and
    rowid for a key that is the table's own. An index on just the rows that are not hidden serves
    too; but where all are asked for, one on other columns of theirs does not come between.
    """
    pattern = rf"(Index Cond: .*|SEARCH .* (INDEX|KEY) .*\(.*)({lookup.by})"
    explain = "EXPLAIN" if queries.dialect.locks_rows else "EXPLAIN QUERY PLAN"
    for visible in ("", queries.visible(lookup.role)):
        select = (
            f"{explain} SELECT {queries.column(lookup.role, lookup.columns[-1])} "
            f"FROM {queries.table(lookup.role)} WHERE {lookup.condition}{visible}"
        )
        plan = connection.fetch(select, lookup.parameters)
        if any(re.search(pattern, str(row[-1]), re.IGNORECASE) for row in plan):
            return True
    return False


def _lacking(
    connection: Connection, queries: Queries, lookup: _Lookup, instead: Fold | None = None
) -> MissingIndex:
    """Return the CREATE INDEX, which on PostgreSQL holds up no writer where that is possible."""
    table = queries.schema.roles[lookup.role].table
    names = [queries.columns(lookup.role)[ours].name for ours in lookup.columns]
    indexed = [_shown(connection, queries, name) for name in names]
    if lookup.fold:
        indexed = [queries.dialect.fold(lookup.fold, indexed[0])]
    on = _relation(connection, queries, table)
    name = f"hookrow_{table.rpartition('.')[2]}_{names[-1]}"[:_LONGEST_NAME]
    concurrently = "CONCURRENTLY " * (on is Relation.TABLE and queries.dialect.locks_rows)
    statement = (
        f"CREATE INDEX {concurrently}{_shown(connection, queries, name)} "
        f"ON {_shown_table(connection, queries, table)} ({', '.join(indexed)})"
    )
    return MissingIndex(statement, on, instead)


def _relation(connection: Connection, queries: Queries, table: str) -> Relation:
    if not queries.dialect.locks_rows:
        return Relation.VIEW if is_view(connection, queries.dialect, table) else Relation.TABLE
    sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
    ((kind,),) = connection.fetch(sql, [regclass(queries.dialect, table)])
    return next((each for each in Relation if each.value == kind), Relation.TABLE)


def _shown_table(connection: Connection, queries: Queries, table: str) -> str:
    parts = filter(None, table.rpartition(".")[::2])
    return ".".join(_shown(connection, queries, each) for each in parts)


def _shown(connection: Connection, queries: Queries, name: str) -> str:
    """Return a name as it stands in a statement that is read, quoted only if it has to be."""
    if queries.dialect.locks_rows:
        shown: str = connection.fetch("SELECT quote_ident(%s)", [name])[0][0]
        return shown
    quoted = queries.dialect.quote(name)
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        with suppress(Exception):  # it is a keyword
            connection.fetch(f"SELECT {name} FROM (SELECT 1 AS {quoted})")
            return name
    return quoted.replace("%%", "%")
