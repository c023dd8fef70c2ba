"""Counts and lists the host's rows, with one statement for each count or page.

The statements read whole tables, so no request waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from hookrow.stores.census import ListCount, Place, Undelivered, by_list
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.conversions import (
    LIST,
    by_message_id,
    converted,
    guid,
    message_ids_as_stored,
)
from hookrow.stores.sql.dialects import utc
from hookrow.stores.sql.queries import Queries, parameter


class SQLCensus:
    """Counts and lists the rows that the schema of a store does not hide. Raises a `StoreError`.

    `queries` returns the SQL for the tables.
    """

    def __init__(self, database: Database, queries: Callable[[], Queries]) -> None:
        self._database, self._queries = database, queries

    def lists(self) -> Sequence[ListCount]:
        """Count the rows of each list, in the order of the lists' keys, after those of no list.

        Only hookrow's own lists have names.
        """
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
        """Count the suppressed subscribers by reason: the text of the value in the table."""
        queries = self._queries()
        where = f"{queries.column('subscribers', 'suppressed_at')} IS NOT NULL"
        reason = f"NULLIF({queries.reason()}, '')"
        sql = _grouped(queries, "subscribers", f"{reason}, count(*)", where)
        with self._database.reading() as connection:
            return dict(map(tuple, connection.fetch(sql)))

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when these messages were sent, by message id, omitting those without a time."""
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

    def undelivered(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> int | None:
        """Count the dispatches sent since a time, and before another, that are not delivered.

        Returns None if a time is given, but no column has the time of sending.
        """
        queries = self._queries()
        limits = {">=": since, "<": until}
        times = {operator: time for operator, time in limits.items() if time is not None}
        if times and not queries.has(*_SENT_AT):
            return None
        sql = f"SELECT count(*) FROM {_undelivered(queries)}" + "".join(
            f" AND {queries.column(*_SENT_AT)} {each} {queries.time(*_SENT_AT)}" for each in times
        )
        with self._database.reading() as connection:
            values = [queries.stored(*_SENT_AT, each) for each in times.values()]
            return int(connection.fetch(sql, values)[0][0])

    def list_undelivered(
        self, since: datetime, *, after: Place | None = None, limit: int
    ) -> Sequence[Undelivered]:
        """Return the first dispatches after a place that are not delivered, the oldest first.

        Those sent before a time are omitted. Those without a time of sending come first, in the
        order of their keys. Without an index on the time of sending, it reads the whole table.
        """
        queries = self._queries()
        dated = queries.has(*_SENT_AT)
        condition, values = (_since if dated else _any_time)(queries, since, after)
        at, key = queries.column(*_SENT_AT) if dated else "NULL", queries.column(*_ID)
        order = f"{at} IS NOT NULL, {at}, {key}" if dated else key
        sql = (
            f"SELECT {queries.text('dispatches', 'provider_message_id')}, {at}, "
            f"{queries.text(*_SENT_AT) if dated else at}, {queries.key(*_ID)} "
            f"FROM {_undelivered(queries)}{condition} ORDER BY {order} LIMIT {limit}"
        )
        with self._database.reading() as connection:
            rows = connection.fetch(sql, values)
        if read := queries.conversions.read(*_SENT_AT):
            rows = converted(rows, {1: read})
        spelled = guid if queries.has_uuids else str
        return [
            Undelivered(spelled(message_id), utc(time), Place(*place))
            for message_id, time, *place in rows
        ]


_ID, _SENT_AT = ("dispatches", "id"), ("dispatches", "sent_at")


def _undelivered(queries: Queries) -> str:
    """Return the table and the conditions of undelivered dispatches, for FROM."""
    return (
        f"{queries.table('dispatches')} "
        f"WHERE {queries.column('dispatches', 'provider_message_id')} IS NOT NULL "
        f"AND {queries.column('dispatches', 'delivered_at')} IS NULL{queries.visible('dispatches')}"
    )


def _since(queries: Queries, since: datetime, after: Place | None) -> tuple[str, Sequence[Any]]:
    """Return the condition that a dispatch was sent since a time, or at an unknown one."""
    at, key = queries.column(*_SENT_AT), queries.column(*_ID)
    time_type, key_type = (queries.columns("dispatches")[name].type for _, name in (_SENT_AT, _ID))
    recent, values = f"{at} >= {queries.time(*_SENT_AT)}", [queries.stored(*_SENT_AT, since)]
    if after is None:
        return f" AND ({at} IS NULL OR {recent})", values
    if after.sent_at is None:
        later = f"{at} IS NULL AND {key} > {parameter(key_type)}"
        return f" AND ({recent} OR {later})", [*values, after.id]
    later = f"({at}, {key}) > ({parameter(time_type)}, {parameter(key_type)})"
    return f" AND {recent} AND {later}", [*values, *after]


def _any_time(queries: Queries, _: datetime, after: Place | None) -> tuple[str, Sequence[Any]]:
    """Return the condition that a dispatch comes after a place, if dispatches have no times."""
    if after is None:
        return "", ()
    type_ = queries.columns("dispatches")["id"].type
    return f" AND {queries.column(*_ID)} > {parameter(type_)}", [after.id]


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
