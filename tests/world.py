"""The rows in cases/world.json, written to any database and read back as dicts."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import (
    Connection,
    Engine,
    NullPool,
    delete,
    insert,
    select,
)

import own_tables
from databases import kind_of
from engines import connect

World: TypeAlias = dict[str, list[dict[str, Any]]]
"""All rows of hookrow's four tables, by the table's short name, in the order of their ids."""

CASES = Path(__file__).parent / "cases"

_TABLES = {
    name: own_tables.metadata.tables[f"hookrow_{name}"]
    for name in ("subscribers", "lists", "subscriptions", "dispatches")
}
_OTHERS = {
    *("created_at", "first_opened_at", "clicked_at", "bounced_at", "bounce_type", "complained_at")
}
"""Columns that no notification sets."""

_ALL_ROWS = {
    name: select(*(column for column in table.c if column.name not in _OTHERS)).order_by(table.c.id)
    for name, table in _TABLES.items()
}


def start() -> World:
    """Return the rows of `cases/world.json` with the columns of the tables, and ids from 1."""
    given = json.loads((CASES / "world.json").read_text())
    lists = {name: number for number, name in enumerate(given["lists"], 1)}
    people = {row["email"]: number for number, row in enumerate(given["subscribers"], 1)}

    def ids(row: dict[str, str]) -> dict[str, Any]:
        return {"list_id": lists[row["list"]], "subscriber_id": people[row["subscriber"]]}

    times = dict.fromkeys(["delivered_at", "opened_at"])
    tables = {
        "subscribers": [
            {"email": row["email"], **_suppression(row)} for row in given["subscribers"]
        ],
        "lists": [{"name": name} for name in lists],
        "subscriptions": [{**ids(row), **_suppression(row)} for row in given["subscriptions"]],
        "dispatches": [
            {"provider_message_id": row["message_id"], **ids(row), **times, **_suppression(row)}
            for row in given["dispatches"]
        ],
    }
    return {
        name: [{"id": number, **row} for number, row in enumerate(rows, 1)]
        for name, rows in tables.items()
    }


def fill(place: str | Engine) -> World:
    """Replace all rows of a database by those in the file; return these."""
    world = start()
    with _engine(place).begin() as connection:
        _empty(connection)
        for name, table in _TABLES.items():
            # The database assigns the ids, so that its sequences continue after them.
            unnumbered = [{key: row[key] for key in row if key != "id"} for row in world[name]]
            connection.execute(insert(table), unnumbered)
    return world


def rows(place: str | Engine) -> World:
    """Read every row of hookrow's four tables, without the times of creation."""
    with _engine(place).connect() as connection:
        return {
            name: [*map(dict, connection.execute(_ALL_ROWS[name]).mappings())] for name in _TABLES
        }


def _suppression(row: dict[str, Any]) -> dict[str, Any]:
    at = row.get("suppressed_at")
    return {
        "suppressed_at": at and datetime.fromisoformat(at),
        "suppression_reason": row.get("reason"),
        "suppression_changed_at": None,
    }


def _empty(connection: Connection) -> None:
    for table in reversed(own_tables.metadata.sorted_tables):  # TRUNCATE may take far longer
        connection.execute(delete(table))
    kind_of(connection).restart_ids(connection, [table.name for table in _TABLES.values()])


def _engine(database: str | Engine) -> Engine:
    """Return an engine that leaves no connection open, if only a URL is given."""
    return database if isinstance(database, Engine) else connect(database, poolclass=NullPool)
