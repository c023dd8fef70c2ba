"""Finds lookups that read a whole table, and returns the statement that adds an index."""

from __future__ import annotations

from collections.abc import Iterator

from hookrow._core.schema import Fold
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Catalogue, Listing, Lookup
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._role_tables import ALIASES, RoleTables
from hookrow.stores.sql._suppressions import newest, order_of

_SINGLE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns by which rows are looked up, except emails and the pairs of subscriptions."""


MANY_SUBSCRIBERS = 100_000
"""The number of rows from which a table of subscribers needs indexes for the dashboard."""


def missing_indexes(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning, which ends with the statement to run, for each lookup without an index."""
    with database.reading() as connection:
        catalogue = catalogue_of(connection, tables.dialect)
        catalogue.prefer_indexes()
        for lookup in _lookups(tables):
            if not catalogue.searches(tables, lookup):
                yield _missing(catalogue, tables, lookup)
        many = f"SELECT 1 FROM {tables.table('subscribers')} LIMIT 1 OFFSET {MANY_SUBSCRIBERS - 1}"
        if not tables.schema.is_own and connection.fetch(many):
            yield from _missing_for_suppressions(catalogue, tables)


def _lookups(tables: RoleTables) -> Iterator[Lookup]:
    yield _email(tables, tables.schema.subscribers.fold)
    for role, name in _SINGLE:
        if tables.has(role):
            by_tenant = name == "provider_message_id"
            yield Lookup(role, [name], _equals(tables, role, name), by_tenant=by_tenant)
    if tables.has("subscriptions"):
        # An index on the list alone is not enough: a list may have many subscribers.
        pair = ["list_id", "subscriber_id"]
        condition = " AND ".join(_equals(tables, "subscriptions", name) for name in pair)
        yield Lookup("subscriptions", pair, condition)


def _email(tables: RoleTables, fold: Fold) -> Lookup:
    # With a list of emails, the planner may prefer to filter the rows of a tenant, if it has few.
    email = tables.columns("subscribers")["email"]
    unknown = f"(SELECT {tables.dialect.cast('NULL', tables.dialect.text_type)})"
    condition = tables.dialect.is_email(fold, ALIASES["subscribers"], email, unknown)
    return Lookup("subscribers", ["email"], condition, fold, by_tenant=True)


def _equals(tables: RoleTables, role: str, name: str) -> str:
    """Return a condition that compares a column with an unknown value of its type."""
    null = tables.dialect.cast("NULL", tables.columns(role)[name].type)
    return f"{tables.column(role, name)} = (SELECT {null})"


def _missing(catalogue: Catalogue, tables: RoleTables, lookup: Lookup) -> str:
    """Return the warning. Its statement avoids blocking writers if possible."""
    advice = catalogue.index_advice(
        tables, lookup.role, lookup.columns, title=lookup.columns[-1], fold=lookup.fold
    )
    if lookup.fold and (fold := _other_fold(catalogue, tables, lookup.fold)):
        advice = f'An index for fold="{fold}" exists: set this fold, or add an index. {advice}'
    return f"A lookup reads a whole table. {advice}"


def _missing_for_suppressions(catalogue: Catalogue, tables: RoleTables) -> Iterator[str]:
    """Yield a warning if the dashboard's page of suppressions has no index for its order."""
    order = order_of(tables)
    if catalogue.sorts(tables, Listing("subscribers", order, *newest(tables))):
        at = catalogue.identifier(tables.columns("subscribers")["suppressed_at"].name)
        condition = f"{at} {tables.when_set('subscribers', 'suppressed_at')}"
        advice = catalogue.index_advice(
            tables, "subscribers", order, title=order[0], condition=condition
        )
        yield f"The dashboard's page of suppressions reads a whole table. {advice}"


def _other_fold(catalogue: Catalogue, tables: RoleTables, fold: Fold) -> Fold | None:
    """Return the most lenient of the other folds for which the emails have an index."""
    folds: list[Fold] = ["ascii", "lower", "exact"]
    if tables.columns("subscribers")["email"].ignores_case:
        folds.insert(0, "citext")
    for each in folds:
        if each != fold and catalogue.searches(tables, _email(tables, each)):
            return each
    return None
