"""Stores to test, with the tables behind them.

A home is a store and its rows, which tests insert and read by hookrow's names. A host's
tables differ from hookrow's in names, in the types of keys, and in which columns exist.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

from msgspec import to_builtins
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    Text,
    Uuid,
    delete,
    insert,
    select,
)
from sqlalchemy.types import TypeEngine

from copying import replace
from databases import kind_of
from engines import MEMORY, connect, engine_of, run
from hookrow import Role, Schema
from hookrow._core.log_entry import LogEntry
from hookrow._core.notification import Key
from hookrow._core.optional import OPTIONAL_COLUMNS, RECORDS
from hookrow._core.schema import MAY_BE_FLAGS, TIMES, TOUCH
from hookrow._migrations import needed, upgrade
from hookrow.stores.sql import SQLStore
from own_tables import UTCDateTime, attached, metadata

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = dict[str, list[dict[str, Any]]]
"""The rows of each role, by hookrow's names for the columns, in the order of their keys."""

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

UNDATED = Schema(
    subscribers=Role("people", {"suppression_changed_at": None, "suppression_reason": None}),
    dispatches=Role("sends", {"suppression_changed_at": None}),
    subscriptions=Role("members", {"suppression_changed_at": None}),
    log="The log",
)
"""No table stores when a suppression last changed; the host created the log."""

FORGETFUL = replace(UNDATED, log=None)
"""The same without a log: the last change is dated nowhere."""

TOUCHED = Schema(
    subscribers=Role("people", {"suppression_changed_at": None}, touch="updated at"),
    dispatches=Role("sends", {"first_opened_at": "first_opened_at"}, touch="100%"),
    subscriptions=Role("members", touch="updated_at"),
    log="The log",
)
"""Each table has a column for the time of the last write."""

PEOPLE = Schema(
    subscribers=Role("people", {"suppression_changed_at": None, "suppression_reason": None}),
    dispatches=None,
    subscriptions=None,
    log="The log",
)
"""A host that has only people."""

FLAGGED = Schema(
    subscribers=Role("people", {"suppression_changed_at": None}, touch="updated_at"),
    dispatches=Role(
        "sends",
        {
            **dict.fromkeys(("suppression_changed_at", "bounce_type")),
            **{each: f"the {each}" for each in OPTIONAL_COLUMNS if each != "bounce_type"},
        },
    ),
    subscriptions=Role("members", {"suppression_changed_at": None}),
    log="The log",
)
"""Flags in place of all times; no table stores when a suppression last changed."""

DATED_FLAGS = Schema(
    subscribers=Role("people"), dispatches=Role("sends"), subscriptions=Role("members"), log=None
)
"""Flags, whose last changes the tables date themselves."""

SPARSE = Schema(
    subscribers=Role("people", {"suppression_reason": None}),
    dispatches=Role("sends", {"list_id": None, **dict.fromkeys(SUPPRESSION)}),
    subscriptions=None,
    log=None,
)
"""No lists, only the times of a dispatch, and no log."""


RECORDING = Schema(
    subscribers=Role("people"),
    dispatches=Role("sends", {column: f"the {column}" for column in OPTIONAL_COLUMNS}),
    subscriptions=Role("members"),
)
"""All optional columns, by other names."""

EVERY_RECORD = Schema(record=tuple(RECORDS))
"""The same in hookrow's own tables."""


class Home:
    """A home in an empty database, in which it creates the tables of the schema.

    The store opens its own connections or, if `supplied`, uses an engine as a host supplies it. In
    memory ("sqlite://"), the home reads and writes through the store's connection.
    """

    def __init__(self, url: str, schema: Schema, *, supplied: bool = False) -> None:
        self.url, self.schema = url, schema
        in_memory = SQLStore(url, schema) if url == MEMORY else None
        self._engine = connect(url) if in_memory is None else engine_of(in_memory)
        self._ours = schema.subscribers == OURS.subscribers
        tables = MetaData()
        self._tables = {
            name: Table(role.table, tables, *self._columns(name))
            for name, role in schema.roles.items()
        }
        ours = attached(schema, kind_of(url)).tables
        self._log = ours[schema.log] if schema.log else None
        beside = ("hookrow_hours", "hookrow_meta", "hookrow_suppression_changes")
        self._beside = [ours[schema.side_table(name)] for name in beside] if schema.log else []
        if not self._ours:
            tables.create_all(self._engine)
        if not needed(schema) and schema.log:
            attached(schema, kind_of(url)).create_all(self._engine)
        if in_memory is not None:
            self.store = in_memory
            return
        if needed(schema):
            upgrade(self._engine, schema)
        self.store = SQLStore(self._engine if supplied else url, schema)

    def key(self, number: int) -> Key:
        """Return a key of the type that these tables have; keys sort like their numbers.

        A host's are UUIDs, or texts on SQLite.
        """
        if self._ours:
            return number
        return UUID(int=number) if self._has_uuids else f"key-{number:05}"

    def fill(self, **rows: Sequence[Row]) -> None:
        """Replace all rows and the lists that they refer to; columns left out are null."""
        lists = metadata.tables["hookrow_lists"]
        with self._engine.begin() as connection:
            logs = [] if self._log is None else [self._log, *self._beside]
            for table in (*logs, *reversed(self._tables.values())):
                connection.execute(delete(table))
            if self._ours:
                ids = {row.get("list_id") for row in chain(*rows.values())} - {None}
                connection.execute(delete(lists))
                if ids:
                    named = [{"id": id_, "name": "a list"} for id_ in ids]
                    connection.execute(insert(lists), named)
            for name, table in self._tables.items():
                if rows.get(name):
                    connection.execute(insert(table), [self._row(name, row) for row in rows[name]])

    def rows(self) -> Rows:
        """Read the tables through a connection other than the store's."""
        with self._engine.connect() as connection:
            return {name: self._read(connection, name) for name in self._tables}

    def logged(self) -> list[dict[str, Any]]:
        """Read what stores write to the log, in the order of its ids, without the store."""
        if self._log is None:
            return []
        unwritten = {"recovery_counted"}
        columns = [
            column
            for column in self._log.c
            if column.name not in unwritten and column.computed is None
        ]
        with self._engine.connect() as connection:
            rows = connection.execute(select(*columns).order_by(self._log.c.id))
            return [dict(row) for row in rows.mappings()]

    def dates(self) -> list[tuple[str, str, datetime]]:
        """Read the dates that are kept beside the log, in order."""
        if not self._beside:
            return []
        with self._engine.connect() as connection:
            return sorted(map(tuple, connection.execute(select(self._beside[-1]))))

    def run(self, *statements: str) -> list[Any]:
        """Execute statements as the host, each by itself; return the rows of the last one."""
        return run(self._engine, *statements)

    def close(self) -> None:
        self.store.close()
        self._engine.dispose()

    @property
    def _has_uuids(self) -> bool:
        """Whether the keys of a host's tables are UUIDs."""
        return kind_of(self._engine).has_uuids

    def _columns(self, name: str) -> list[Column[Any]]:
        return [
            Column(self._name(name, column), self._type(column), primary_key=column in KEYS[name])
            for column in columns_of(self.schema, name)
        ]

    def _type(self, column: str) -> TypeEngine[Any]:
        if column in TIMES:
            return UTCDateTime()
        if column not in {"id", "subscriber_id", "list_id", "message_id"}:
            return Text()
        if self._ours:
            return BigInteger()
        return Uuid() if self._has_uuids else String(20)

    def _name(self, name: str, column: str) -> str:
        if column in {"tenant", TOUCH}:
            option: str = getattr(self.schema.roles[name], column)
            return option
        return self.schema.roles[name].column(column) or self.schema.columns(name)[column]

    def _row(self, name: str, row: Row) -> dict[str, Any]:
        return {
            self._name(name, column): row.get(column) for column in columns_of(self.schema, name)
        }

    def _read(self, connection: Connection, name: str) -> list[dict[str, Any]]:
        table, columns = self._tables[name], columns_of(self.schema, name)
        order = [table.c[self._name(name, key)] for key in KEYS[name]]
        rows = connection.execute(select(table).order_by(*order))
        return [dict(zip(columns, row, strict=True)) for row in rows]


class Flags(Home):
    """A home whose tables have flags in place of times."""

    def _type(self, column: str) -> TypeEngine[Any]:
        return Boolean() if column in MAY_BE_FLAGS else super()._type(column)

    def _row(self, name: str, row: Row) -> dict[str, Any]:
        return super()._row(name, as_flags(row, columns_of(self.schema, name)))


def as_flags(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """Return a row in which each of the columns with times is a flag, except dates of changes."""
    flags = {each: row.get(each) is not None for each in columns if each in MAY_BE_FLAGS}
    return {**row, **flags}


def as_rows(entries: Sequence[LogEntry]) -> list[dict[str, Any]]:
    """Return entries of the log as a database stores them, with the values of enums."""
    rows: list[dict[str, Any]] = to_builtins(entries, builtin_types=(bytes, datetime))
    return rows


def columns_of(schema: Schema, name: str) -> list[str]:
    """List the columns that a role has in the schema, by hookrow's names, and of its options."""
    role, columns = schema.roles[name], schema.roles[name].columns
    optional = [column for column in OPTIONAL_COLUMNS if column in schema.columns(name)]
    usual = [column for column in COLUMNS[name] if columns.get(column, column) is not None]
    options = [each for each in ("tenant", TOUCH) if getattr(role, each)]
    return [*usual, *optional, *options]
