"""A host's tables as data: their columns, whose types a test replaces, and their schema.

The types are words of `databases.Types`.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Engine

from copying import replace
from databases import KINDS, kind_of
from engines import run
from hookrow import Role, Schema
from hookrow._core.schema import SUPPRESSION

ON_MARIADB = pytest.mark.parametrize("empty_database_url", ["mariadb"], indirect=True)
WITH_PARTIAL_INDEXES = pytest.mark.parametrize(
    "empty_database_url",
    [kind.name for kind in KINDS if kind.has_partial_indexes],
    indirect=True,
)

REST = {"suppression_changed_at": None}
"""The columns that the subscribers lack."""

HOST = Schema(
    subscribers=Role("people", REST),
    dispatches=Role("sends", {**dict.fromkeys(SUPPRESSION), "message_id": "campaign_id"}),
    subscriptions=Role("members", dict.fromkeys(SUPPRESSION)),
    messages=Role("campaigns"),
    log=None,
)

_TABLES = {
    "people": {
        "id": "integer",
        "email": "name",
        "suppressed_at": "timestamp",
        "suppression_reason": "text",
        "deleted_at": "timestamp",
        "state": "integer",
        "active": "boolean",
        "tenant": "varchar(8)",
    },
    "sends": {
        "id": "integer",
        "provider_message_id": "name",
        "subscriber_id": "integer",
        "campaign_id": "integer",
        "list_id": "integer",
        "delivered_at": "timestamp",
        "opened_at": "timestamp",
        "suppressed_at": "timestamp",
        "made": "timestamp",
        "state": "integer",
    },
    "members": {
        "list_id": "integer",
        "subscriber_id": "integer",
        "suppressed_at": "timestamp",
    },
    "campaigns": {"id": "integer", "list_id": "integer"},
}


_KEYS = dict.fromkeys(_TABLES, "id") | {"members": "list_id, subscriber_id"}


def make(engine: Engine, types: Mapping[str, str] = {}) -> Engine:
    """Make the tables with their keys, but no other index, with other types for some columns."""
    own = kind_of(engine).types
    for table, columns in _TABLES.items():
        named = ", ".join(
            f"{name} {types.get(f'{table}.{name}', own[word])}" for name, word in columns.items()
        )
        run(engine, f"CREATE TABLE {table} ({named})")
        run(engine, f"CREATE UNIQUE INDEX {table}_key ON {table} ({_KEYS[table]})")
    return engine


def drop_key(engine: Engine, table: str) -> None:
    """Drop the unique index of a table's key."""
    run(engine, kind_of(engine).drop_index(f"{table}_key", table))


def people(table: str = "people", **more: Any) -> Schema:  # noqa: ANN401 - a Role's own
    """Return the schema with other subscribers."""
    return replace(HOST, subscribers=Role(table, REST, **more))
