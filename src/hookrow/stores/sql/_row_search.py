"""Finds rows for people: by the beginning of a text, and those of a subscriber.

Each statement reads a limited number of rows by an index that the lookups of notifications need,
too, or by that of the references to subscribers, which a host's tables may lack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from hookrow._core.notification import Key
from hookrow._core.rules import fold
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._conversions import Converters, converted
from hookrow.stores.sql._dialects.base import hyphenated, utc
from hookrow.stores.sql._newest import newest_that_contain
from hookrow.stores.sql._role_tables import ALIASES, RoleTables


class MessageOfSubscriber(NamedTuple):
    """A dispatch of a subscriber.

    `message_id` is None before it is sent, and `sent_at` (UTC) if no column has it. `list` is the
    key of its list, and `list_name` the name if it is one of hookrow's own.
    """

    id: Key
    message_id: str | None
    sent_at: datetime | None
    list: Key | None
    list_name: str | None


class ListOfSubscriber(NamedTuple):
    """A subscription, whose key are the keys of list and subscriber; see `MessageOfSubscriber`."""

    list: Key
    subscriber: Key
    list_name: str | None


class SQLRowSearch:
    """Finds rows that the schema of a store does not hide. Raises a `StoreError`.

    `tables` returns the SQL for the tables.
    """

    def __init__(self, database: Database, tables: Callable[[], RoleTables]) -> None:
        self._database, self._tables = database, tables

    def emails(self, beginning: str, *, limit: int) -> Sequence[str]:
        """Return the emails that begin with a text, regardless of ASCII case, in order.

        Among the first `limit` rows that are not before it, hidden rows are left out, so there may
        be fewer. If the tables have tenants, these are the emails of all.
        """
        tables = self._tables()
        kind, column = tables.schema.subscribers.fold, tables.columns("subscribers")["email"]
        alias = ALIASES["subscribers"]
        order, parameter = tables.dialect.email_order(kind, alias, column)
        folded = fold(beginning) if kind in {"ascii", "lower"} else beginning
        return self._beginning("subscribers", "email", folded, order, parameter, limit=limit)

    def message_ids(self, beginning: str, *, limit: int) -> Sequence[str]:
        """Return the message ids that begin with a text, as `emails` does; none without dispatches.

        If the column holds UUIDs, their hyphens and the case of the text do not matter. If its
        order is not that of their digits, only the newest rows are searched.
        """
        tables = self._tables()
        role, name = "dispatches", "provider_message_id"
        if not tables.has(role):
            return ()
        if tables.has_uuids:
            return self._uuids(beginning, limit=limit)
        order, parameter = tables.column(role, name), tables.parameter(role, name)
        return self._beginning(role, name, beginning, order, parameter, limit=limit)

    def _uuids(self, beginning: str, *, limit: int) -> Sequence[str]:
        """Return the message ids that begin with the digits of a text, as UUIDs are written."""
        digits = beginning.replace("-", "").lower()
        if not _BEGINNING_OF_UUID.fullmatch(digits):
            return ()
        tables, role, name = self._tables(), "dispatches", "provider_message_id"
        order, parameter = tables.column(role, name), tables.parameter(role, name)
        found: set[str] = set()
        firsts = tables.dialect.first_uuids(tables.columns(role)[name], digits)
        for first in firsts:
            found.update(self._from(role, name, first, order, parameter, limit=limit))
        if not firsts:
            sql, values = newest_that_contain(tables, role, name, [hyphenated(digits)], None)
            with self._database.reading() as connection:
                found.update(text for (text,) in connection.fetch(sql, values))
        written = {hyphenated(each.replace("-", "").lower()) for each in found}
        return sorted(each for each in written if each.startswith(hyphenated(digits)))[:limit]

    def messages(self, subscriber: Key, *, limit: int) -> Sequence[MessageOfSubscriber]:
        """Return the newest dispatches of a subscriber: by time of sending, or else by key."""
        tables = self._tables()
        if not tables.has("dispatches"):
            return ()
        is_dated, key = tables.has("dispatches", "sent_at"), tables.column("dispatches", "id")
        sent = tables.column("dispatches", "sent_at") if is_dated else "NULL"
        list_, list_name, lists = _list(tables, "dispatches", tables.list_id())
        columns = [
            tables.key("dispatches", "id"),
            tables.text("dispatches", "provider_message_id"),
            sent,
            list_,
            list_name,
        ]
        sql, values = _of_subscriber(
            tables, "dispatches", columns, f"{tables.joined_messages()}{lists}", subscriber
        )
        order = f"{sent} DESC, {key} DESC" if is_dated else f"{key} DESC"
        role = "messages" if tables.has("messages") else "dispatches"
        converters = {
            0: tables.conversions.read("dispatches", "id"),
            2: tables.conversions.read("dispatches", "sent_at") if is_dated else None,
            3: tables.conversions.read(role, "list_id"),
        }
        rows = self._fetch(f"{sql} ORDER BY {order} LIMIT {limit}", values, converters)
        return [
            MessageOfSubscriber(id_, message_id, utc(time), list_key, name)
            for id_, message_id, time, list_key, name in rows
        ]

    def subscriptions(self, subscriber: Key, *, limit: int) -> Sequence[ListOfSubscriber]:
        """Return the first subscriptions of a subscriber, in the order of the lists' keys."""
        tables = self._tables()
        if not tables.has("subscriptions"):
            return ()
        list_key = tables.key("subscriptions", "list_id")
        _, list_name, lists = _list(tables, "subscriptions", list_key)
        columns = [list_key, tables.key("subscriptions", "subscriber_id"), list_name]
        sql, values = _of_subscriber(tables, "subscriptions", columns, lists, subscriber)
        order = tables.column("subscriptions", "list_id")
        converters = {
            0: tables.conversions.read("subscriptions", "list_id"),
            1: tables.conversions.read("subscriptions", "subscriber_id"),
        }
        rows = self._fetch(f"{sql} ORDER BY {order} LIMIT {limit}", values, converters)
        return [ListOfSubscriber(*row) for row in rows]

    def _beginning(
        self,
        role: str,
        name: str,
        beginning: str,
        order: str,
        parameter: str,
        *,
        limit: int,
    ) -> Sequence[str]:
        """Return the values of a column that begin with a text, without duplicates.

        As the collation may order a few other texts in between, these are left out here.
        """
        found = self._from(role, name, beginning, order, parameter, limit=limit)
        return sorted(each for each in found if fold(each).startswith(fold(beginning)))

    def _from(
        self, role: str, name: str, first: str, order: str, parameter: str, *, limit: int
    ) -> Collection[str]:
        """Return the values of the first rows that are not before a text.

        A range by the expression `order` needs no pattern, whose index would depend on the
        database's collation.
        """
        tables, alias = self._tables(), ALIASES[role]
        columns = ", ".join(
            f"{alias}.{tables.dialect.quote(each)}" for each in tables.named_columns(role)
        )
        rows = (
            f"(SELECT {columns} FROM {tables.table(role)} WHERE {order} >= {parameter} "
            f"ORDER BY {order} LIMIT {limit}) AS {alias}"
        )
        sql = (
            f"SELECT {tables.text(role, name)} FROM {rows} "
            f"WHERE {tables.column(role, name)} IS NOT NULL{tables.visible(role)}"
        )
        with self._database.reading() as connection:
            return {text for (text,) in connection.fetch(sql, [first])}

    def _fetch(
        self, sql: str, values: Sequence[Any], converters: Mapping[int, Any]
    ) -> Sequence[Sequence[Any]]:
        present: Converters = {index: each for index, each in converters.items() if each}
        with self._database.reading() as connection:
            return converted(connection.fetch(sql, values), present)


_BEGINNING_OF_UUID = re.compile("[0-9a-f]{1,32}")
"""The beginning of a UUID, without hyphens."""


def _of_subscriber(
    tables: RoleTables, role: str, columns: Sequence[str], joined: str, subscriber: Key
) -> tuple[str, Sequence[Any]]:
    """Return the SELECT of the visible rows of a role that refer to a subscriber."""
    refers = tables.refers(role, "subscriber_id", "subscribers", "id")
    rows = f"{tables.table('subscribers')} JOIN {tables.table(role)} ON {refers}{joined}"
    is_key = f"{tables.column('subscribers', 'id')} = {tables.parameter('subscribers', 'id')}"
    sql = (
        f"SELECT {', '.join(columns)} FROM {rows} "
        f"WHERE {is_key}{tables.visible('subscribers', role)}"
    )
    return sql, [tables.stored("subscribers", "id", subscriber)]


def _list(tables: RoleTables, role: str, list_: str | None) -> tuple[str, str, str]:
    """Return the columns with the key and the name of a row's list, and the join for the name.

    Only hookrow's own lists have names.
    """
    if list_ is None or not tables.schema.is_own:
        return list_ or "NULL", "NULL", ""
    own = f" LEFT JOIN hookrow_lists AS l ON l.id = {tables.column(role, 'list_id')}"
    return list_, "l.name", own
