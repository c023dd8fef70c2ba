"""Stores to test, each with the tables behind it, filled and read by our names for things.

A `Home` is a store and its rows; a host's own tables differ from ours in every
name, in the types of their keys, and in which columns there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from itertools import chain
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    MetaData,
    String,
    Table,
    Text,
    Uuid,
    create_engine,
    delete,
    insert,
    make_url,
    select,
)
from sqlalchemy.types import TypeEngine

from hookrow import Role, Schema
from hookrow.migrations import heads, upgrade
from hookrow.notification import Key
from hookrow.stores import Store
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import UTCDateTime, log_table, metadata

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = dict[str, list[dict[str, Any]]]
"""Of each role: its rows, by our names for its columns, in the order of their keys."""

SUPPRESSION = ("suppressed_at", "suppression_reason", "suppression_changed_at")

COLUMNS = {
    "subscribers": ("id", "email", *SUPPRESSION),
    "dispatches": (
        *("id", "provider_message_id", "subscriber_id", "list_id"),
        *("delivered_at", "opened_at", *SUPPRESSION),
    ),
    "subscriptions": ("list_id", "subscriber_id", *SUPPRESSION),
}
KEYS = {"subscribers": ["id"], "dispatches": ["id"], "subscriptions": ["list_id", "subscriber_id"]}

OURS = Schema()

THEIRS = Schema(
    subscribers=Role(
        "People",
        {
            "id": "person id",
            "email": "e-mail",
            "suppressed_at": "order",
            "suppression_reason": "Why?",
            "suppression_changed_at": "100%",
        },
    ),
    dispatches=Role(
        "sends",
        {
            "id": "send_id",
            "provider_message_id": "postmark_id",
            "subscriber_id": "person",
            "list_id": "group",
            "delivered_at": "arrived",
            "opened_at": "seen",
            "suppressed_at": "muted",
            "suppression_reason": "mute_reason",
            "suppression_changed_at": "mute_changed",
        },
    ),
    subscriptions=Role(
        "members",
        {
            "list_id": "group",
            "subscriber_id": "person",
            "suppressed_at": "muted",
            "suppression_reason": "mute_reason",
            "suppression_changed_at": "mute_changed",
        },
    ),
)
"""Every table and column under another name, some of which need quotes; and our log."""

UNDATED = Schema(
    subscribers=Role("people", {"suppression_changed_at": None, "suppression_reason": None}),
    dispatches=Role("sends", {"suppression_changed_at": None}),
    subscriptions=Role("members", {"suppression_changed_at": None}),
    log="The log",
)
"""No table keeps when a suppression last changed; the log is one that the host made."""

SPARSE = Schema(
    subscribers=Role("people", {"suppression_reason": None}),
    dispatches=Role("sends", {"list_id": None, **dict.fromkeys(SUPPRESSION)}),
    subscriptions=None,
    log=None,
)
"""No lists, nothing of a dispatch but its times, and no log."""


class Home(Protocol):
    """A store and the rows behind it."""

    @property
    def store(self) -> Store:
        """The store, with nobody else in it."""

    @property
    def schema(self) -> Schema:
        """Which columns there are."""

    def key(self, number: int) -> Key:
        """Return a key as these tables have it; keys sort as their numbers do."""

    def fill(self, **rows: Sequence[Row]) -> None:
        """Put these rows in the place of all others; a column left out is null. Empty the log."""

    def rows(self) -> Rows:
        """Read every row, by a way that is not the store's."""

    def logged(self) -> list[dict[str, Any]]:
        """Read the log in the order of its ids, by a way that is not the store's."""

    def close(self) -> None:
        """Close what was opened."""


class MemoryHome:
    """A home in memory: what the schema leaves out is not looked at."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._log = MemoryLog() if schema.log else None
        self.store = MemoryStore(undated=schema.undated, log=self._log)

    def key(self, number: int) -> Key:
        """Return the number."""
        return number

    def fill(self, **rows: Sequence[Row]) -> None:
        """Put the rows into the dicts, with only what the store says that it needs."""
        if self._log is not None:
            self._log.entries.clear()
        for name, columns in self._columns().items():
            table = self._tables()[name]
            table.clear()
            for row in rows.get(name, ()):
                needed = {"provider_message_id": None, "list_id": None}
                table[_key(name, row)] = needed | {
                    column: row[column] for column in columns if column in row and column != "id"
                }

    def rows(self) -> Rows:
        """Read the dicts, in the order of their keys."""
        return {
            name: [
                {column: row.get(column) for column in columns}
                | dict(zip(KEYS[name], key if isinstance(key, tuple) else (key,), strict=True))
                for key, row in sorted(self._tables()[name].items())
            ]
            for name, columns in self._columns().items()
        }

    def logged(self) -> list[dict[str, Any]]:
        """Read the dict, with enums as a database has them."""
        entries = self._log.entries.values() if self._log else ()
        return [
            {
                name: value.value if isinstance(value, Enum) else value
                for name, value in asdict(entry).items()
            }
            for entry in sorted(entries, key=lambda entry: entry.id)
        ]

    def close(self) -> None:
        """Do nothing."""

    def _columns(self) -> Mapping[str, list[str]]:
        return {
            name: columns_of(self.schema, name)
            for name in self._tables()
            if name in self.schema.roles
        }

    def _tables(self) -> Mapping[str, dict[Any, dict[str, Any]]]:
        return {
            "subscribers": self.store.subscribers,
            "dispatches": self.store.dispatches,
            "subscriptions": self.store.subscriptions,
        }


class SQLHome:
    """A home in an empty database, in the tables of the schema, which it makes."""

    def __init__(self, url: str, schema: Schema) -> None:
        self.schema = schema
        self._engine = connect(url)
        self._ours = schema.subscribers == OURS.subscribers
        tables = MetaData()
        self._tables = {
            name: Table(role.table, tables, *self._columns(name))
            for name, role in schema.roles.items()
        }
        self._log = log_table(schema.log, MetaData()) if schema.log else None
        if not self._ours:
            tables.create_all(self._engine)
        if heads(schema):
            upgrade(self._engine, schema)
        elif self._log is not None:
            self._log.create(self._engine)
        self.store = SQLStore(url, schema)

    def key(self, number: int) -> Key:
        """Return a number for our own tables, for a host's what else its database likes."""
        if self._ours:
            return number
        return UUID(int=number) if self._on_postgres else f"key-{number:04}"

    def fill(self, **rows: Sequence[Row]) -> None:
        """Delete all rows and insert these, and the lists that they name."""
        lists = metadata.tables["hookrow_lists"]
        with self._engine.begin() as connection:
            if self._log is not None:
                connection.execute(delete(self._log))
            for table in reversed(self._tables.values()):
                connection.execute(delete(table))
            if self._ours:
                ids = {row.get("list_id") for row in chain(*rows.values())} - {None}
                connection.execute(delete(lists))
                if ids:
                    connection.execute(
                        insert(lists), [{"id": id_, "name": "a list"} for id_ in ids]
                    )
            for name, table in self._tables.items():
                if rows.get(name):
                    connection.execute(insert(table), [self._row(name, row) for row in rows[name]])

    def rows(self) -> Rows:
        """Read the tables through a connection of its own."""
        with self._engine.connect() as connection:
            return {
                name: [
                    dict(zip(columns_of(self.schema, name), row, strict=True))
                    for row in connection.execute(
                        select(table).order_by(
                            *(table.c[self._name(name, key)] for key in KEYS[name])
                        )
                    )
                ]
                for name, table in self._tables.items()
            }

    def logged(self) -> list[dict[str, Any]]:
        """Read the log's table through a connection of its own."""
        if self._log is None:
            return []
        with self._engine.connect() as connection:
            rows = connection.execute(select(self._log).order_by(self._log.c.id))
            return [dict(row) for row in rows.mappings()]

    def close(self) -> None:
        """Close every connection."""
        self.store.close()
        self._engine.dispose()

    @property
    def _on_postgres(self) -> bool:
        return self._engine.dialect.name == "postgresql"

    def _columns(self, name: str) -> list[Column[Any]]:
        return [
            Column(self._name(name, column), self._type(column), primary_key=column in KEYS[name])
            for column in columns_of(self.schema, name)
        ]

    def _type(self, column: str) -> TypeEngine[Any]:
        if column.endswith("_at"):
            return UTCDateTime()
        if column != "id" and column.removesuffix("_id") not in {"subscriber", "list"}:
            return Text()
        if self._ours:
            return BigInteger()
        return Uuid() if self._on_postgres else String(20)

    def _name(self, name: str, column: str) -> str:
        theirs = self.schema.roles[name].columns.get(column, column)
        assert theirs is not None
        return theirs

    def _row(self, name: str, row: Row) -> dict[str, Any]:
        return {
            self._name(name, column): row.get(column) for column in columns_of(self.schema, name)
        }


def columns_of(schema: Schema, name: str) -> list[str]:
    """List the columns that the schema has for a role, by our names."""
    columns = schema.roles[name].columns
    return [column for column in COLUMNS[name] if columns.get(column, column) is not None]


def connect(url: str, **options: Any) -> Engine:  # noqa: ANN401 - create_engine's own
    """Make an engine as a host might."""
    parsed = make_url(url)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    return create_engine(parsed, **options)


def _key(name: str, row: Row) -> Any:  # noqa: ANN401 - one or two of any keys
    key = tuple(row[column] for column in KEYS[name])
    return key if len(key) > 1 else key[0]
