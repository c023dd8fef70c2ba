"""Counts the host's rows, with one statement for each count."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from hookrow.stores.census import ListCount, by_list
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.conversions import (
    LIST,
    by_message_id,
    converted,
    message_ids_as_stored,
)
from hookrow.stores.sql.dialects import utc
from hookrow.stores.sql.queries import Queries


class SQLCensus:
    """A `Census` of the tables; `queries` returns their SQL."""

    def __init__(self, database: Database, queries: Callable[[], Queries]) -> None:
        self._database, self._queries = database, queries

    def lists(self) -> Sequence[ListCount]:
        """Count by list; only hookrow's own lists have names."""
        queries = self._queries()
        with self._database.reading() as connection:
            sent = connection.fetch(_dispatches(queries))
            has_members = queries.has("subscriptions")
            members = connection.fetch(_members(queries)) if has_members else None
            ours = queries.schema.ours
            names = connection.fetch("SELECT id, name FROM hookrow_lists") if ours else ()
        if read := queries.conversions.found.get(LIST):
            sent, members = converted(sent, {0: read}), members and converted(members, {0: read})
        return by_list(sent, members, dict(map(tuple, names)))

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by reason, as the table stores it."""
        queries = self._queries()
        where = f"{queries.column('subscribers', 'suppressed_at')} IS NOT NULL"
        reason = f"NULLIF({queries.reason()}, '')"
        sql = _grouped(queries, "subscribers", f"{reason}, count(*)", where)
        with self._database.reading() as connection:
            return dict(map(tuple, connection.fetch(sql)))

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """See `Census`."""
        queries = self._queries()
        if not queries.has("dispatches", "sent_at") or not message_ids:
            return {}
        at = queries.column("dispatches", "sent_at")
        sql = (
            f"SELECT {queries.text('dispatches', 'provider_message_id')}, {at} "
            f"FROM {queries.table('dispatches')} "
            f"WHERE {queries.any_of('dispatches', 'provider_message_id')} AND {at} IS NOT NULL"
            f"{queries.visible('dispatches')}"
        )
        ids = message_ids_as_stored(message_ids) if queries.has_uuids else message_ids
        with self._database.reading() as connection:
            rows = connection.fetch(sql, [queries.dialect.encode(ids)])
        if read := queries.conversions.read("dispatches", "sent_at"):
            rows = converted(rows, {1: read})
        times = {message_id: sent for message_id, time in rows if (sent := utc(time))}
        return by_message_id(message_ids, times) if queries.has_uuids else times

    def undelivered(self, since: datetime, until: datetime) -> int | None:
        """See `Census`."""
        queries, column = self._queries(), ("dispatches", "sent_at")
        if not queries.has(*column):
            return None
        at, time = queries.column(*column), queries.time(*column)
        sql = (
            f"SELECT count(*) FROM {queries.table('dispatches')} "
            f"WHERE {queries.column('dispatches', 'provider_message_id')} IS NOT NULL "
            f"AND {queries.column('dispatches', 'delivered_at')} IS NULL "
            f"AND {at} >= {time} AND {at} < {time}{queries.visible('dispatches')}"
        )
        with self._database.reading() as connection:
            values = [queries.stored(*column, each) for each in (since, until)]
            return int(connection.fetch(sql, values)[0][0])


def _dispatches(queries: Queries) -> str:
    """Return the SELECT that counts sent, delivered and opened dispatches by list."""
    names = ("provider_message_id", "delivered_at", "opened_at")
    counts = ", ".join(f"count({queries.column('dispatches', name)})" for name in names)
    return _grouped(queries, "dispatches", f"{queries.list_id() or 'NULL'}, {counts}")


def _members(queries: Queries) -> str:
    """Return the SELECT that counts subscriptions, and suppressed ones, by list."""
    dated = queries.has("subscriptions", "suppressed_at")
    suppressed = f"count({queries.column('subscriptions', 'suppressed_at')})" if dated else "NULL"
    list_id = queries.key("subscriptions", "list_id")
    return _grouped(queries, "subscriptions", f"{list_id}, count(*), {suppressed}")


def _grouped(queries: Queries, role: str, columns: str, where: str = "true") -> str:
    """Return the SELECT of aggregates of a role's rows, grouped by the first column."""
    joined = queries.joined_messages() if role == "dispatches" else ""
    rows = f"{queries.table(role)}{joined} WHERE {where}{queries.visible(role)}"
    return f"SELECT {columns} FROM {rows} GROUP BY 1"
