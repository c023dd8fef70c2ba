"""Finds weaknesses of tables that work: missing indexes and time zones, repeated emails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hookrow.core.schema import Fold
from hookrow.stores.sql.columns import is_view, regclass
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.queries import Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

_LONGEST_NAME = 63
"""In characters; the limit for names in PostgreSQL."""

_TABLE, _PARTITIONED, _VIEW = "r", "p", "v"
"""The `relkind` of relations in PostgreSQL."""

_STEPS = {
    _TABLE: "Run",
    _PARTITIONED: (
        "The table is partitioned: create the index ON ONLY the table, then create one "
        "CONCURRENTLY on each partition and attach it; or, which blocks all writers, run"
    ),
    _VIEW: (
        "It is behind a view, which cannot have an index: replace the view's name in this "
        "statement with the table's, and run"
    ),
}
"""How to create an index on each kind of relation."""

_SINGLE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns by which rows are looked up, except emails and the pairs of subscriptions."""


@dataclass(frozen=True, slots=True)
class MissingIndex:
    """The CREATE INDEX `statement` for a lookup without an index, and the `steps` to run it.

    `fold` is another fold for which the emails have an index, or None.
    """

    statement: str
    steps: str
    fold: Fold | None = None


class _Lookup(NamedTuple):
    """A condition on the columns to index, and a pattern that finds the last one in a plan."""

    role: str
    columns: Sequence[str]
    condition: str
    pattern: str
    parameters: Sequence[object] = ()
    fold: Fold | None = None


def missing_indexes(connection: Connection, queries: Queries) -> Iterator[MissingIndex]:
    """Yield an index for each lookup that has none.

    The planner decides, not the catalogue: only the planner knows which indexes it can use.
    """
    if queries.dialect.name == "postgresql":
        # It would scan a small table even if an index exists.
        connection.execute("SET LOCAL enable_seqscan = off")
    for lookup in _lookups(queries):
        if not _is_served(connection, queries, lookup):
            yield _missing(connection, queries, lookup)


def naive_times(queries: Queries) -> Iterator[tuple[str, str]]:
    """Yield each column of times without a time zone, and the ALTER TABLE that reads them as UTC.

    SQLite's columns have no time zones.
    """
    for name, role in queries.schema.roles.items():
        for column in queries.columns(name).values():
            if column.type == "timestamp without time zone":
                table, quoted = regclass(queries.dialect, role.table), _quoted(queries, column.name)
                alter = f"ALTER TABLE {table} ALTER {quoted} TYPE timestamptz"
                yield f"{role.table}.{column.name}", f"{alter} USING {quoted} AT TIME ZONE 'UTC'"


def cached_ids(connection: Connection, queries: Queries) -> str | None:
    """Return the statement that makes the log's ids ascend, or None if they do.

    If sessions reserve ids in advance, an id may be lower than one that has been counted already.
    SQLite reserves none.
    """
    log = queries.schema.log
    if log is None or queries.dialect.name != "postgresql":
        return None
    sql = (
        "SELECT seqrelid::regclass::text FROM pg_sequence "
        "WHERE seqrelid = pg_get_serial_sequence(%s, 'id')::regclass AND seqcache > 1"
    )
    found = connection.fetch(sql, [regclass(queries.dialect, log)])
    return f"ALTER SEQUENCE {found[0][0]} CACHE 1" if found else None


def repeated_emails(database: Database, queries: Queries) -> tuple[int, str]:
    """Return the number of emails that several subscribers have, and one of them or "".

    Reads a whole table. Raises a `StoreError` if that takes too long.
    """
    email = queries.column("subscribers", "email")
    sql = (
        f"SELECT count(*), min(email) FROM (SELECT {queries.dialect.fold('ascii', email)} AS email "
        f"FROM {queries.table('subscribers')} WHERE {email} IS NOT NULL"
        f"{queries.visible('subscribers')} GROUP BY 1 HAVING count(*) > 1) AS repeated"
    )
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        ((count, example),) = connection.fetch(sql)
    return count, example or ""


def _lookups(queries: Queries) -> Iterator[_Lookup]:
    yield _email(queries, queries.schema.subscribers.fold)
    for role, ours in _SINGLE:
        if queries.has(role):
            pattern = rf"{_pattern(queries, role, ours)}|rowid"  # SQLite's name of an integer key
            yield _Lookup(role, [ours], _equals(queries, role, ours), pattern)
    if queries.has("subscriptions"):
        pair = ["list_id", "subscriber_id"]
        condition = " AND ".join(_equals(queries, "subscriptions", ours) for ours in pair)
        # An index on the list alone is not enough: a list may have many subscribers.
        pattern = _pattern(queries, "subscriptions", "subscriber_id")
        yield _Lookup("subscriptions", pair, condition, pattern)


def _email(queries: Queries, fold: Fold) -> _Lookup:
    condition, pattern = queries.email_is_any(fold), _pattern(queries, "subscribers", "email")
    if queries.dialect.fold(fold, "email") != "email":
        pattern += "|<expr>"
    parameters = [queries.dialect.encode([""])]
    return _Lookup("subscribers", ["email"], condition, pattern, parameters, fold)


def _equals(queries: Queries, role: str, ours: str) -> str:
    """Compare a column with a value of known type but unknown value."""
    type_ = queries.columns(role)[ours].type  # empty on SQLite
    return f"{queries.column(role, ours)} = (SELECT NULL{type_ and f'::{type_}'})"


def _pattern(queries: Queries, role: str, ours: str) -> str:
    # PostgreSQL's plans double quotes in a name, SQLite's do not.
    name = re.escape(queries.columns(role)[ours].name).replace('"', '""?')
    return rf"(?<!\w){name}(?!\w)"


def _is_served(connection: Connection, queries: Queries, lookup: _Lookup) -> bool:
    """Return whether the plan searches an index by the column of the lookup.

    PostgreSQL prints the condition, SQLite the columns, or <expr> for an expression. An index on
    only the rows that are not hidden is sufficient. The first query is for all rows, because the
    planner might otherwise prefer an index on the columns that hide rows.
    """
    pattern = rf"(Index Cond: .*|SEARCH .* (INDEX|KEY) .*\(.*)({lookup.pattern})"
    for visible in ("", queries.visible(lookup.role)):
        plan = connection.fetch(
            f"{queries.dialect.explain} SELECT {queries.column(lookup.role, lookup.columns[-1])} "
            f"FROM {queries.table(lookup.role)} WHERE {lookup.condition}{visible}",
            lookup.parameters,
        )
        if any(re.search(pattern, str(row[-1]), re.IGNORECASE) for row in plan):
            return True
    return False


def _missing(connection: Connection, queries: Queries, lookup: _Lookup) -> MissingIndex:
    """Return the CREATE INDEX. On PostgreSQL it is CONCURRENTLY if possible, to block no writer."""
    dialect, table = queries.dialect, queries.schema.roles[lookup.role].table
    names = [queries.columns(lookup.role)[ours].name for ours in lookup.columns]
    columns = [_quoted(queries, name) for name in names]
    if lookup.fold:
        columns = [dialect.fold(lookup.fold, *columns)]
    index = f"hookrow_{table.rpartition('.')[2]}_{names[-1]}"[:_LONGEST_NAME]
    kind, concurrently = _TABLE, ""
    if dialect.name == "postgresql":
        sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
        ((kind,),) = connection.fetch(sql, [regclass(dialect, table)])
        concurrently = "CONCURRENTLY " if kind == _TABLE else ""
    elif is_view(connection, dialect, table):
        kind = _VIEW
    statement = (
        f"CREATE INDEX {concurrently}{_quoted(queries, index)} "
        f"ON {regclass(dialect, table)} ({', '.join(columns)})"
    )
    fold = _other_fold(connection, queries, lookup.fold) if lookup.fold else None
    return MissingIndex(statement, _STEPS.get(kind, _STEPS[_TABLE]), fold)


def _other_fold(connection: Connection, queries: Queries, fold: Fold) -> Fold | None:
    """Return the most lenient of the other folds for which the emails have an index."""
    folds: list[Fold] = ["ascii", "lower", "exact"]
    if queries.dialect.name == "sqlite" or queries.columns("subscribers")["email"].type == "citext":
        folds.insert(0, "citext")
    for each in folds:
        if each != fold and _is_served(connection, queries, _email(queries, each)):
            return each
    return None


def _quoted(queries: Queries, name: str) -> str:
    """Return a name as an identifier in a statement that users run: without a driver's escapes."""
    return queries.dialect.quote(name).replace("%%", "%")
