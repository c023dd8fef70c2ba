"""Adds rows to hookrow's own tables, and reads what notifications have set in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec

from hookrow._arguments import reject
from hookrow._core.schema import TIMES, nearest
from hookrow.errors import ConfigurationError
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._dialects.base import utc


class SubscriberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subscriber; the times are in UTC."""

    id: int
    email: str
    suppressed_at: datetime | None
    suppression_reason: str | None
    suppression_changed_at: datetime | None


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription to a list; the times are in UTC."""

    id: int
    list_id: int
    subscriber_id: int
    suppressed_at: datetime | None
    suppression_reason: str | None
    suppression_changed_at: datetime | None


class DispatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dispatch; the times are in UTC. The last five are set only if the schema records them."""

    id: int
    provider_message_id: str | None
    subscriber_id: int
    list_id: int | None
    delivered_at: datetime | None
    opened_at: datetime | None
    suppressed_at: datetime | None
    suppression_reason: str | None
    suppression_changed_at: datetime | None
    first_opened_at: datetime | None
    clicked_at: datetime | None
    bounced_at: datetime | None
    bounce_type: str | None
    complained_at: datetime | None


R = TypeVar("R", SubscriberRow, SubscriptionRow, DispatchRow)


class _SuppressionColumns(TypedDict, total=False):
    """The columns of a suppression, in each table of rows except that of lists."""

    suppressed_at: datetime | None
    suppression_reason: str | None
    suppression_changed_at: datetime | None


class _DispatchColumns(_SuppressionColumns, total=False):
    """The columns of a dispatch, except its keys."""

    delivered_at: datetime | None
    opened_at: datetime | None
    first_opened_at: datetime | None
    clicked_at: datetime | None
    bounced_at: datetime | None
    bounce_type: str | None
    complained_at: datetime | None


class Tables:
    """hookrow's own tables in the database of a store: in memory, in a file or on a server.

    Each method reads or writes in a separate transaction. The methods that add a row return its
    id, and take its other columns by name: `add_dispatch("m-1", ada, delivered_at=NOON)`.

    Raises `ConfigurationError` if the schema of the store names other tables, and for a column
    that does not exist. The methods raise a `StoreError` if the database fails or rejects a row.
    """

    def __init__(self, store: SQLStore) -> None:
        if not isinstance(store, SQLStore):
            reject("The store", "an SQLStore", store, 'Tables(SQLStore("sqlite://"))')
        if not store.schema.is_own:
            raise ConfigurationError(
                "The store has tables of your own: save their rows as your application does."
            )
        self._store = store

    def add_subscriber(self, email: str, **columns: Unpack[_SuppressionColumns]) -> int:
        """Add a subscriber, by default one that is not suppressed; return the id."""
        return self._add(SubscriberRow, {"email": email, **columns})

    def add_list(self, name: str = "a list") -> int:
        """Add a list; return its id."""
        return self._insert("hookrow_lists", {"name": name})

    def add_subscription(
        self, list_: int, subscriber: int, **columns: Unpack[_SuppressionColumns]
    ) -> int:
        """Add the subscriber's subscription to a list; return its id."""
        keys = {"list_id": list_, "subscriber_id": subscriber}
        return self._add(SubscriptionRow, {**keys, **columns})

    def add_dispatch(
        self,
        message_id: str | None,
        subscriber: int,
        list_: int | None = None,
        **columns: Unpack[_DispatchColumns],
    ) -> int:
        """Add a dispatch to the subscriber, on the list if there is one; return its id.

        Without a message id, the dispatch has not been sent yet.
        """
        keys = {"provider_message_id": message_id, "subscriber_id": subscriber, "list_id": list_}
        return self._add(DispatchRow, {**keys, **columns})

    def subscriber(self, email: str) -> SubscriberRow:
        """Read the subscriber with exactly this email. Raises `LookupError` if there is none."""
        return self._read(SubscriberRow, {"email": email})

    def subscription(self, list_: int, subscriber: int) -> SubscriptionRow:
        """Read a subscriber's subscription to a list. Raises `LookupError` if there is none."""
        return self._read(SubscriptionRow, {"list_id": list_, "subscriber_id": subscriber})

    def dispatch(self, message_id: str, subscriber: int | None = None) -> DispatchRow:
        """Read the dispatch with this message id. Raises `LookupError` if there is none.

        A message to several recipients has several: name the subscriber to choose one of them.
        """
        key: dict[str, Any] = {"provider_message_id": message_id}
        if subscriber is not None:
            key["subscriber_id"] = subscriber
        return self._read(DispatchRow, key)

    def _add(self, kind: type[R], columns: dict[str, Any]) -> int:
        for name in columns:
            if name not in kind.__struct_fields__:
                raise ConfigurationError(
                    f"{_TABLES[kind]} has no column {name!r}."
                    f"{nearest(name, kind.__struct_fields__)}"
                )
        return self._insert(_TABLES[kind], columns)

    def _insert(self, table: str, columns: dict[str, Any]) -> int:
        marks = ", ".join(["%s"] * len(columns))
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of hookrow's own columns
        values, dialect = self._written(columns), self._store.role_tables.dialect
        with self._store.database.transaction() as connection:
            connection.execute(insert, values)
            ((id_,),) = connection.fetch(f"SELECT {dialect.new_id}")
        return int(id_)

    def _read(self, kind: type[R], key: dict[str, Any]) -> R:
        condition = " AND ".join(f"{name} = %s" for name in key)
        names = kind.__struct_fields__
        select = f"SELECT {', '.join(names)} FROM {_TABLES[kind]} WHERE {condition}"  # noqa: S608 - names of hookrow's own columns
        values = self._written(key)
        with self._store.database.reading() as connection:
            rows = connection.fetch(select, values)
        if not rows:
            described = ", ".join(f"{name} {value!r}" for name, value in key.items())
            raise LookupError(f"{_TABLES[kind]} has no row with {described}.")
        row: dict[str, Any] = {
            name: utc(value) if name in TIMES else value
            for name, value in zip(names, rows[0], strict=True)
        }
        return kind(**row)

    def _written(self, columns: dict[str, Any]) -> Sequence[Any]:
        """Return values as parameters. Raises `Unavailable` if the tables do not exist."""
        write = self._store.role_tables.dialect.write
        return [write(value) for value in columns.values()]


_TABLES = {
    SubscriberRow: "hookrow_subscribers",
    SubscriptionRow: "hookrow_subscriptions",
    DispatchRow: "hookrow_dispatches",
}
