"""Advice on tables that work but could be better: indexes, time zones, repeated emails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from hookrow.core.schema import Fold
from hookrow.stores.sql.columns import is_view, regclass
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.queries import Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

_LONGEST_NAME = 63
"""In characters, of an index in PostgreSQL."""

_SINGLE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns by which rows are found or changed, besides emails and the pairs of subscriptions."""


class Relation(Enum):
    """The kinds of table that an index may be wanted on."""

    TABLE = "r"
    PARTITIONED = "p"
    VIEW = "v"


@dataclass(frozen=True, slots=True)
class MissingIndex:
    """The CREATE INDEX for a lookup that has no index. On a view it cannot be run.

    `fold` is another fold of emails that has an index, if any.
    """

    statement: str
    on: Relation
    fold: Fold | None = None


class _Lookup(NamedTuple):
    """A condition on the columns to index, and a pattern for how a plan names the last of them."""

    role: str
    columns: Sequence[str]
    condition: str
    pattern: str
    parameters: Sequence[object] = ()
    fold: Fold | None = None


def missing_indexes(connection: Connection, queries: Queries) -> Iterator[MissingIndex]:
    """Yield an index for each lookup that has none.

    This asks the planner, not the catalogue: only the planner knows which indexes it can use.
    """
    if queries.dialect.name == "postgresql":
        # It would scan a small table even if there is an index.
        connection.execute("SET LOCAL enable_seqscan = off")
    for lookup in _lookups(queries):
        if not _is_served(connection, queries, lookup):
            yield _missing(connection, queries, lookup)


def naive_times(connection: Connection, queries: Queries) -> Iterator[tuple[str, str]]:
    """Yield each column of times without a time zone, and the ALTER TABLE that reads them as UTC.

    SQLite's columns have no time zones.
    """
    for name, role in queries.schema.roles.items():
        for column in queries.columns(name).values():
            if column.type == "timestamp without time zone":
                table = _shown_table(connection, queries, role.table)
                plain = _shown(connection, queries, column.name)
                alter = f"ALTER TABLE {table} ALTER {plain} TYPE timestamptz"
                yield f"{table}.{plain}", f"{alter} USING {plain} AT TIME ZONE 'UTC'"


def cached_ids(connection: Connection, queries: Queries) -> str | None:
    """Return the statement that lets the log's ids ascend, if sessions reserve ids beforehand.

    Such an id may be lower than one that has been counted already. SQLite reserves none.
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
    """Return how many emails several subscribers have, and one of them or an empty text.

    This reads a whole table. Raises a `StoreError` if that takes too long.
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
            pattern = rf"{_pattern(queries, role, ours)}|rowid"  # a key of the table's own
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
    only the rows that are not hidden will do. All rows are asked for first, because otherwise an
    index on the columns that hide rows might be preferred.
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
    """Return the CREATE INDEX, on PostgreSQL CONCURRENTLY if possible, so that no writer waits."""
    columns, table = queries.columns(lookup.role), queries.schema.roles[lookup.role].table
    names = [columns[ours].name for ours in lookup.columns]
    indexed = [_shown(connection, queries, name) for name in names]
    if lookup.fold:
        indexed = [queries.dialect.fold(lookup.fold, *indexed)]
    name = f"hookrow_{table.rpartition('.')[2]}_{names[-1]}"[:_LONGEST_NAME]
    on, concurrently = Relation.TABLE, ""
    if queries.dialect.name == "postgresql":
        sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
        ((kind,),) = connection.fetch(sql, [regclass(queries.dialect, table)])
        on = next((each for each in Relation if each.value == kind), Relation.TABLE)
        concurrently = "CONCURRENTLY " * (on is Relation.TABLE)
    elif is_view(connection, queries.dialect, table):
        on = Relation.VIEW
    statement = (
        f"CREATE INDEX {concurrently}{_shown(connection, queries, name)} "
        f"ON {_shown_table(connection, queries, table)} ({', '.join(indexed)})"
    )
    return MissingIndex(statement, on, _other_fold(connection, queries, lookup.fold))


def _other_fold(connection: Connection, queries: Queries, fold: Fold | None) -> Fold | None:
    """Return the most lenient of the other folds for which the emails have an index."""
    folds: list[Fold] = ["ascii", "lower", "exact"]
    if queries.dialect.name == "sqlite" or queries.columns("subscribers")["email"].type == "citext":
        folds.insert(0, "citext")
    others = (
        each
        for each in folds
        if each != fold and _is_served(connection, queries, _email(queries, each))
    )
    return next(others, None) if fold else None


def _shown_table(connection: Connection, queries: Queries, table: str) -> str:
    parts = filter(None, table.rpartition(".")[::2])
    return ".".join(_shown(connection, queries, each) for each in parts)


def _shown(connection: Connection, queries: Queries, name: str) -> str:
    """Return a name as people write it in a statement: quoted only if necessary."""
    if queries.dialect.name == "postgresql":
        shown: str = connection.fetch("SELECT quote_ident(%s)", [name])[0][0]
        return shown
    quoted = queries.dialect.quote(name)
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        with suppress(Exception):  # a keyword
            connection.fetch(f"SELECT {name} FROM (SELECT 1 AS {quoted})")
            return name
    return quoted.replace("%%", "%")
