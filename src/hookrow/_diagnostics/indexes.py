"""Finds lookups that read a whole table, and returns the statement that adds an index."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hookrow._core.schema import Fold
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Catalogue, Relation
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._suppressions import newest

_STEPS_TO_CREATE = {
    Relation.PARTITIONED: (
        "The table is partitioned: create the index ON ONLY the table, then create one "
        "CONCURRENTLY on each partition and attach it; or, which blocks all writers, run"
    ),
    Relation.VIEW: (
        "It is behind a view, which cannot have an index: replace the view's name in this "
        "statement with the table's, and run"
    ),
}
"""How to create an index on relations that are not tables."""

_SINGLE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns by which rows are looked up, except emails and the pairs of subscriptions."""


MANY_SUBSCRIBERS = 100_000
"""The number of rows from which a table of subscribers needs indexes for the dashboard."""

_SORTS = re.compile(r"(?<!Incremental )Sort  |TEMP B-TREE FOR ORDER BY")
"""In a plan: the sorting of all suppressed subscribers."""


class _Lookup(NamedTuple):
    """A condition on the columns to index, and a pattern that finds the last one in a plan."""

    role: str
    columns: Sequence[str]
    condition: str
    pattern: str
    parameters: Sequence[object] = ()
    fold: Fold | None = None


def missing_indexes(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning, which ends with a CREATE INDEX statement, for each lookup without an index.

    The planner decides, not the catalog: only the planner knows which indexes it can use.
    """
    with database.reading() as connection:
        catalogue = catalogue_of(connection, tables.dialect)
        catalogue.prefer_indexes()
        for lookup in _lookups(tables):
            if not _is_served(catalogue, tables, lookup):
                yield _missing(catalogue, tables, lookup)
        many = f"SELECT 1 FROM {tables.table('subscribers')} LIMIT 1 OFFSET {MANY_SUBSCRIBERS - 1}"
        if not tables.schema.is_own and connection.fetch(many):
            yield from _missing_for_suppressions(catalogue, tables)


def _lookups(tables: RoleTables) -> Iterator[_Lookup]:
    yield _email(tables, tables.schema.subscribers.fold)
    for role, name in _SINGLE:
        if tables.has(role):
            pattern = rf"{_pattern(tables, role, name)}|rowid"  # SQLite's name of an integer key
            yield _Lookup(role, [name], _equals(tables, role, name), pattern)
    if tables.has("subscriptions"):
        pair = ["list_id", "subscriber_id"]
        condition = " AND ".join(_equals(tables, "subscriptions", name) for name in pair)
        # An index on the list alone is not enough: a list may have many subscribers.
        pattern = _pattern(tables, "subscriptions", "subscriber_id")
        yield _Lookup("subscriptions", pair, condition, pattern)


def _email(tables: RoleTables, fold: Fold) -> _Lookup:
    condition, pattern = tables.email_is_any(fold), _pattern(tables, "subscribers", "email")
    if tables.dialect.fold(fold, "email") != "email":
        pattern += "|<expr>"
    parameters = [tables.dialect.encode([""])]
    return _Lookup("subscribers", ["email"], condition, pattern, parameters, fold)


def _equals(tables: RoleTables, role: str, name: str) -> str:
    """Return a condition that compares a column with an unknown value of its type."""
    null = tables.dialect.cast("NULL", tables.columns(role)[name].type)
    return f"{tables.column(role, name)} = (SELECT {null})"


def _pattern(tables: RoleTables, role: str, field: str) -> str:
    # In plans, PostgreSQL doubles the quotes in a name; SQLite does not.
    name = re.escape(tables.columns(role)[field].name).replace('"', '""?')
    return rf"(?<!\w){name}(?!\w)"


def _is_served(catalogue: Catalogue, tables: RoleTables, lookup: _Lookup) -> bool:
    """Return whether the plan searches an index by the column of the lookup.

    PostgreSQL prints the condition; SQLite prints the columns, or <expr> for an expression. An
    index that excludes hidden rows is sufficient. The first query is for all rows, because the
    planner might otherwise prefer an index on the columns that hide rows.
    """
    pattern = rf"(Index Cond: .*|SEARCH .* (INDEX|KEY) .*\(.*)({lookup.pattern})"
    for visible in ("", tables.visible(lookup.role)):
        sql = (
            f"SELECT {tables.column(lookup.role, lookup.columns[-1])} "
            f"FROM {tables.table(lookup.role)} WHERE {lookup.condition}{visible}"
        )
        lines = catalogue.plan(sql, lookup.parameters)
        if any(re.search(pattern, line, re.IGNORECASE) for line in lines):
            return True
    return False


def _missing(catalogue: Catalogue, tables: RoleTables, lookup: _Lookup) -> str:
    """Return the warning. On PostgreSQL, its statement avoids blocking writers if possible."""
    names = [tables.columns(lookup.role)[field].name for field in lookup.columns]
    columns = [quoted(tables, name) for name in names]
    if lookup.fold:
        columns = [tables.dialect.fold(lookup.fold, *columns)]
    advice, statement = _create(catalogue, tables, lookup.role, columns, names[-1])
    if lookup.fold and (fold := _other_fold(catalogue, tables, lookup.fold)):
        advice = f'An index for fold="{fold}" exists: set this fold, or add an index. {advice}'
    return f"A lookup reads a whole table. {advice}: {statement}"


def _missing_for_suppressions(catalogue: Catalogue, tables: RoleTables) -> Iterator[str]:
    """Yield a warning if the dashboard's page of suppressions has no index for its order."""
    if any(map(_SORTS.search, catalogue.plan(*newest(tables)))):
        columns = tables.columns("subscribers")
        at, key = (columns[name].name for name in ("suppressed_at", "id"))
        order = [quoted(tables, at), quoted(tables, key)]
        advice, statement = _create(catalogue, tables, "subscribers", order, at)
        yield (
            f"The dashboard's page of suppressions reads a whole table. {advice}: {statement} "
            f"WHERE {order[0]} IS NOT NULL"
        )


def _create(
    catalogue: Catalogue, tables: RoleTables, role: str, columns: Sequence[str], name: str
) -> tuple[str, str]:
    """Return how to create an index, and the statement, which ends with the columns."""
    dialect, table = tables.dialect, tables.schema.roles[role].table
    index = quoted(tables, f"hookrow_{table.rpartition('.')[2]}_{name}")
    relation = catalogue.relation(table)
    create = dialect.create_index if relation is Relation.TABLE else "CREATE INDEX"
    on = f"{catalogue.statement_name(table)} ({', '.join(columns)})"
    return _STEPS_TO_CREATE.get(relation, "Run"), f"{create} {index} ON {on}"


def _other_fold(catalogue: Catalogue, tables: RoleTables, fold: Fold) -> Fold | None:
    """Return the most lenient of the other folds for which the emails have an index."""
    folds: list[Fold] = ["ascii", "lower", "exact"]
    if tables.columns("subscribers")["email"].ignores_case:
        folds.insert(0, "citext")
    for each in folds:
        if each != fold and _is_served(catalogue, tables, _email(tables, each)):
            return each
    return None


def quoted(tables: RoleTables, name: str) -> str:
    """Return a name as an identifier for a statement that users run: without a driver's escapes."""
    return tables.dialect.quote(name).replace("%%", "%")
