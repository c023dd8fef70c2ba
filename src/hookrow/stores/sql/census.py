"""Counting the host's rows, each count in one statement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from hookrow.stores.census import ListCount, by_list
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.dialects import utc
from hookrow.stores.sql.queries import Queries, converted


class SQLCensus:
    """A `Census` of the tables that `queries` returns the SQL for."""

    def __init__(self, database: Database, queries: Callable[[], Queries]) -> None:
        self._database, self._queries = database, queries

    def lists(self) -> Sequence[ListCount]:
        """Count by list; the names of lists are known of hookrow's own tables."""
        queries = self._queries()
        members = _members(queries) if queries.has("subscriptions") else None
        with self._database.reading() as connection:
            sent = connection.fetch(_sent(queries))
            counted = connection.fetch(members) if members else None
            ours = queries.schema.ours
            named = connection.fetch("SELECT id, name FROM hookrow_lists") if ours else ()
        sent = converted(sent, queries.list_reads)
        if counted is not None:
            counted = converted(counted, queries.list_reads)
        return by_list(sent, counted, dict(map(tuple, named)))

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by reason."""
        queries = self._queries()
        kept = queries.has("subscribers", "suppression_reason")
        reason = queries.column("subscribers", "suppression_reason") if kept else "NULL"
        found = self._fetch(
            f"SELECT CAST({reason} AS text), count(*) FROM {queries.table('subscribers')} "
            f"WHERE {queries.column('subscribers', 'suppressed_at')} IS NOT NULL"
            f"{queries.visible('subscribers')}{' GROUP BY 1' * kept}"
        )
        return {word: count for word, count in found if count}

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when messages were sent."""
        queries = self._queries()
        if not queries.has("dispatches", "sent_at") or not message_ids:
            return {}
        at = queries.column("dispatches", "sent_at")
        found = self._fetch(
            f"SELECT {queries.key('dispatches', 'provider_message_id')}, {at} "
            f"FROM {queries.table('dispatches')} "
            f"WHERE {queries.any_of('dispatches', 'provider_message_id')} AND {at} IS NOT NULL"
            f"{queries.visible('dispatches')}",
            [queries.dialect.encode(message_ids)],
        )
        read = queries.reader("dispatches", "sent_at")
        found = converted(found, {1: read} if read else {})
        return {str(message_id): sent for message_id, time in found if (sent := utc(time))}

    def _fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        with self._database.reading() as connection:
            return connection.fetch(sql, parameters)


def _sent(queries: Queries) -> str:
    """By list: how many dispatches were sent, delivered, opened."""
    list_id = queries.list_id()
    counts = ", ".join(
        f"count({queries.column('dispatches', name)})"
        for name in ("provider_message_id", "delivered_at", "opened_at")
    )
    return (
        f"SELECT {list_id or 'NULL'}, {counts} FROM {queries.table('dispatches')}"
        f"{queries.joined_messages()} WHERE true{queries.visible('dispatches')}"
        f"{' GROUP BY 1' if list_id else ''}"
    )


def _members(queries: Queries) -> str:
    """By list: how many subscriptions there are, and how many of them are suppressed."""
    dated = queries.has("subscriptions", "suppressed_at")
    suppressed = f"count({queries.column('subscriptions', 'suppressed_at')})" if dated else "NULL"
    return (
        f"SELECT {queries.key('subscriptions', 'list_id')}, count(*), {suppressed} "
        f"FROM {queries.table('subscriptions')} WHERE true{queries.visible('subscriptions')} "
        "GROUP BY 1"
    )
