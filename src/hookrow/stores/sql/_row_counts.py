"""Counts and lists the host's rows, with one statement for each count or page.

The statements read whole tables, so no request waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from hookrow._core.notification import Key
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._conversions import (
    LIST,
    by_message_id,
    converted,
    guid,
    message_ids_as_stored,
)
from hookrow.stores.sql._dialects.base import utc
from hookrow.stores.sql._role_tables import RoleTables

MAX_COUNTED_REASON = 512
"""Characters of a reason that distinguish it in counts: MariaDB groups by more only on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount:
    """The dispatches and subscriptions of a list; `list` is None for those without a list.

    Only lists in hookrow's own tables have a `name`. `subscribed` counts all subscriptions, and
    `suppressed` those that are suppressed; they are None if no table stores them.
    """

    list: Key | None
    name: str | None = None
    sent: int
    delivered: int
    opened: int
    subscribed: int | None = None
    suppressed: int | None = None


class SentCount(NamedTuple):
    """How many dispatches were sent in a period, and how many of them are delivered and opened."""

    sent: int
    delivered: int
    opened: int


class DispatchCursor(NamedTuple):
    """A position in the order of `SQLRowCounts.list_undelivered`.

    It consists of a time as the table stores it, or None if it is not known, and a key.
    """

    sent_at: Any
    id: Any


class Undelivered(NamedTuple):
    """A dispatch with a message id that is not delivered; `sent_at` (UTC) is None if not known."""

    message_id: str
    sent_at: datetime | None
    cursor: DispatchCursor


class SQLRowCounts:
    """Counts and lists the rows that the schema of a store does not hide. Raises a `StoreError`.

    `tables` returns the SQL for the tables. With a `tenant`, only its rows are counted.
    """

    def __init__(self, database: Database, tables: Callable[[], RoleTables]) -> None:
        self._database, self._tables = database, tables

    def lists(self, *, tenant: Key | None = None) -> Sequence[ListCount]:
        """Count the rows of each list, in the order of the lists' keys, after those of no list.

        Only hookrow's own lists have names.
        """
        tables = self._tables()
        with self._database.reading() as connection:
            has_dispatches = tables.has("dispatches")
            sent = connection.fetch(*_dispatches(tables, tenant)) if has_dispatches else ()
            has_members = tables.has("subscriptions")
            members = connection.fetch(*_members(tables, tenant)) if has_members else None
            is_own = tables.schema.is_own
            names = connection.fetch("SELECT id, name FROM hookrow_lists") if is_own else ()
        if read := tables.conversions.found.get(LIST):
            sent, members = converted(sent, {0: read}), members and converted(members, {0: read})
        return _by_list(sent, members, dict(map(tuple, names)))

    def suppressed(self, *, tenant: Key | None = None) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by reason: the text of the value in the table.

        Reasons may count as one if they begin with the same `MAX_COUNTED_REASON` characters.
        """
        tables = self._tables()
        where = tables.is_set("subscribers", "suppressed_at")
        reason = tables.dialect.grouped(f"NULLIF({tables.reason()}, '')", MAX_COUNTED_REASON)
        sql, values = _grouped(tables, "subscribers", f"{reason}, count(*)", tenant, where)
        with self._database.reading() as connection:
            return dict(map(tuple, connection.fetch(sql, values)))

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when these messages were sent, by message id, omitting those without a time."""
        tables = self._tables()
        if not tables.has("dispatches", "sent_at") or not message_ids:
            return {}
        at = tables.column("dispatches", "sent_at")
        sql = (
            f"SELECT {tables.text('dispatches', 'provider_message_id')}, {at} "
            f"FROM {tables.table('dispatches')} "
            f"WHERE {tables.any_of('dispatches', 'provider_message_id')} AND {at} IS NOT NULL"
            f"{tables.visible('dispatches')}"
        )
        ids = message_ids_as_stored(message_ids) if tables.has_uuids else message_ids
        with self._database.reading() as connection:
            rows = connection.fetch(sql, [tables.dialect.encode(ids)])
        if read := tables.conversions.read("dispatches", "sent_at"):
            rows = converted(rows, {1: read})
        times = {message_id: sent for message_id, time in rows if (sent := utc(time))}
        return by_message_id(message_ids, times) if tables.has_uuids else times

    def sent_between(
        self, since: datetime, until: datetime, *, tenant: Key | None = None
    ) -> SentCount | None:
        """Count the dispatches sent since a time and before another.

        Returns None if no column has the time of sending.
        """
        tables = self._tables()
        if not tables.has(*_SENT_AT):
            return None
        sent_at, time = tables.column(*_SENT_AT), tables.time(*_SENT_AT)
        names = ("provider_message_id", "delivered_at", "opened_at")
        counts = ", ".join(tables.count_set("dispatches", name) for name in names)
        of_tenant, of_values = _of_tenant(tables, "dispatches", tenant)
        sql = (
            f"SELECT {counts} FROM {tables.table('dispatches')} "
            f"WHERE {tables.column('dispatches', 'provider_message_id')} IS NOT NULL "
            f"AND {sent_at} >= {time} AND {sent_at} < {time}"
            f"{tables.visible('dispatches')}{of_tenant}"
        )
        values = [*(tables.stored(*_SENT_AT, each) for each in (since, until)), *of_values]
        with self._database.reading() as connection:
            return SentCount(*connection.fetch(sql, values)[0])

    def undelivered(
        self, since: datetime | None = None, *, tenant: Key | None = None
    ) -> int | None:
        """Count the dispatches that are not delivered, or those of them sent since a time.

        Returns None if a time is given, but no column has the time of sending; and without
        dispatches.
        """
        tables, values = self._tables(), list[Any]()
        if not tables.has("dispatches"):
            return None
        sql = f"SELECT count(*) FROM {_undelivered(tables)}"
        if since is not None:
            if not tables.has(*_SENT_AT):
                return None
            sql += f" AND {tables.column(*_SENT_AT)} >= {tables.time(*_SENT_AT)}"
            values.append(tables.stored(*_SENT_AT, since))
        of_tenant, of_values = _of_tenant(tables, "dispatches", tenant)
        with self._database.reading() as connection:
            return int(connection.fetch(f"{sql}{of_tenant}", [*values, *of_values])[0][0])

    def list_undelivered(
        self,
        since: datetime,
        *,
        after: DispatchCursor | None = None,
        limit: int,
        tenant: Key | None = None,
    ) -> Sequence[Undelivered]:
        """Return the first dispatches after a place that are not delivered, the oldest first.

        Those sent before a time are omitted. Those without a time of sending come first, in the
        order of their keys. Without an index on the time of sending, it reads the whole table.
        """
        tables = self._tables()
        if not tables.has("dispatches"):
            return []
        dated = tables.has(*_SENT_AT)
        condition, values = (_since if dated else _any_time)(tables, since, after)
        of_tenant, of_values = _of_tenant(tables, "dispatches", tenant)
        at, key = tables.column(*_SENT_AT) if dated else "NULL", tables.column(*_KEY)
        order = f"{at} IS NOT NULL, {at}, {key}" if dated else key
        sql = (
            f"SELECT {tables.text('dispatches', 'provider_message_id')}, {at}, "
            f"{tables.text(*_SENT_AT) if dated else at}, {tables.key(*_KEY)} "
            f"FROM {_undelivered(tables)}{condition}{of_tenant} ORDER BY {order} LIMIT {limit}"
        )
        with self._database.reading() as connection:
            rows = connection.fetch(sql, [*values, *of_values])
        if read := tables.conversions.read(*_SENT_AT):
            rows = converted(rows, {1: read})
        spelled = guid if tables.has_uuids else str
        return [
            Undelivered(spelled(message_id), utc(time), DispatchCursor(*place))
            for message_id, time, *place in rows
        ]


_KEY, _SENT_AT = ("dispatches", "id"), ("dispatches", "sent_at")


def _undelivered(tables: RoleTables) -> str:
    """Return the table and the conditions of undelivered dispatches, for FROM."""
    message_id = tables.dialect.without_index(tables.column("dispatches", "provider_message_id"))
    return (
        f"{tables.table('dispatches')} WHERE {message_id} IS NOT NULL "
        f"AND {tables.is_unset('dispatches', 'delivered_at')}{tables.visible('dispatches')}"
    )


def _since(
    tables: RoleTables, since: datetime, after: DispatchCursor | None
) -> tuple[str, Sequence[Any]]:
    """Return the condition that a dispatch was sent since a time, or at an unknown one."""
    at, key = tables.column(*_SENT_AT), tables.column(*_KEY)
    recent, values = f"{at} >= {tables.time(*_SENT_AT)}", [tables.stored(*_SENT_AT, since)]
    if after is None:
        return f" AND ({at} IS NULL OR {recent})", values
    id_ = tables.parameter(*_KEY)
    if after.sent_at is None:
        later = f"{at} IS NULL AND {key} > {id_}"
        return f" AND ({recent} OR {later})", [*values, after.id]
    marks = [tables.parameter(*_SENT_AT), id_]
    later, place = tables.dialect.compare([at, key], ">", marks, after)
    return f" AND {recent} AND {later}", [*values, *place]


def _any_time(
    tables: RoleTables, _: datetime, after: DispatchCursor | None
) -> tuple[str, Sequence[Any]]:
    """Return the condition that a dispatch comes after a place, if dispatches have no times."""
    if after is None:
        return "", ()
    return f" AND {tables.column(*_KEY)} > {tables.parameter(*_KEY)}", [after.id]


def _dispatches(tables: RoleTables, tenant: Key | None) -> tuple[str, Sequence[Any]]:
    """Return the SELECT that counts sent, delivered and opened dispatches by list."""
    names = ("provider_message_id", "delivered_at", "opened_at")
    counts = ", ".join(tables.count_set("dispatches", name) for name in names)
    list_id = tables.list_id()
    group = tables.dialect.without_index(list_id) if list_id else "NULL"
    return _grouped(tables, "dispatches", f"{group}, {counts}", tenant)


def _members(tables: RoleTables, tenant: Key | None) -> tuple[str, Sequence[Any]]:
    """Return the SELECT that counts subscriptions, and suppressed ones, by list."""
    dated = tables.has("subscriptions", "suppressed_at")
    suppressed = tables.count_set("subscriptions", "suppressed_at") if dated else "NULL"
    list_id = tables.dialect.without_index(tables.key("subscriptions", "list_id"))
    return _grouped(tables, "subscriptions", f"{list_id}, count(*), {suppressed}", tenant)


def _grouped(
    tables: RoleTables, role: str, columns: str, tenant: Key | None, where: str = "true"
) -> tuple[str, Sequence[Any]]:
    """Return the SELECT of aggregates of a role's rows, grouped by the first column.

    Also return its parameters.
    """
    joined = tables.joined_messages() if role == "dispatches" else ""
    of_tenant, values = _of_tenant(tables, role, tenant)
    rows = f"{tables.table(role)}{joined} WHERE {where}{tables.visible(role)}{of_tenant}"
    return f"SELECT {columns} FROM {rows} GROUP BY 1", values


def _of_tenant(tables: RoleTables, role: str, tenant: Key | None) -> tuple[str, Sequence[Any]]:
    """Return the condition that a row is of a tenant, if one is given, and its parameters."""
    if tenant is None:
        return "", ()
    condition, values = tables.of_tenant(role, tenant)
    return f" AND {condition}", values


def _by_list(
    sent: Iterable[Sequence[Any]],
    subscribed: Iterable[Sequence[Any]] | None,
    names: Mapping[Key, str],
) -> Sequence[ListCount]:
    """Combine the counts of dispatches with those of subscriptions, if there are any.

    Each count begins with its list. Rows without a list are omitted if none of them was sent.
    """
    dispatches = {list_: counts for list_, *counts in sent}
    members = {list_: counts for list_, *counts in subscribed or ()}
    none = (None, None) if subscribed is None else (0, 0)
    return [
        ListCount(
            list=list_,
            name=None if list_ is None else names.get(list_),
            **dict(zip(_SENT, dispatches.get(list_, (0, 0, 0)), strict=True)),
            **dict(zip(_MEMBERS, members.get(list_, none), strict=True)),
        )
        for list_ in sorted(dispatches.keys() | members.keys(), key=_order)
        if list_ is not None or any(dispatches.get(None, ()))
    ]


_SENT, _MEMBERS = ("sent", "delivered", "opened"), ("subscribed", "suppressed")


def _order(list_: Key | None) -> tuple[bool, str, Any]:
    return list_ is not None, type(list_).__name__, list_
