"""The rows that the cases start from, put into any database and read back as plain dicts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import (
    Connection,
    Engine,
    NullPool,
    create_engine,
    delete,
    insert,
    inspect,
    make_url,
    select,
)

from hookrow.stores import tables

World: TypeAlias = dict[str, list[dict[str, Any]]]
"""Every row of our four tables, by the table's short name, in the order of their ids."""

CASES = Path(__file__).parent / "cases"

_TABLES = {
    "subscribers": tables.subscribers,
    "lists": tables.lists,
    "subscriptions": tables.subscriptions,
    "dispatches": tables.dispatches,
}


def start() -> World:
    """Return the rows of `cases/world.json` as the tables hold them, ids from 1 on."""
    told = json.loads((CASES / "world.json").read_text())
    lists = {name: number for number, name in enumerate(told["lists"], 1)}
    people = {row["email"]: number for number, row in enumerate(told["subscribers"], 1)}
    return {
        "subscribers": [
            {"id": people[row["email"]], "email": row["email"], **_suppression(row)}
            for row in told["subscribers"]
        ],
        "lists": [{"id": number, "name": name} for name, number in lists.items()],
        "subscriptions": [
            {
                "id": number,
                "list_id": lists[row["list"]],
                "subscriber_id": people[row["subscriber"]],
                **_suppression(row),
            }
            for number, row in enumerate(told["subscriptions"], 1)
        ],
        "dispatches": [
            {
                "id": number,
                "provider_message_id": row["message_id"],
                "subscriber_id": people[row["subscriber"]],
                "list_id": lists[row["list"]],
                "delivered_at": None,
                "opened_at": None,
                **_suppression(row),
            }
            for number, row in enumerate(told["dispatches"], 1)
        ],
    }


def fill(database: str | Engine) -> World:
    """Put the world in the place of all rows; return it."""
    world = start()
    with _engine(database) as engine, engine.begin() as connection:
        _empty(connection)
        for name, table in _TABLES.items():
            # The database assigns the ids, so that its sequences go on from there.
            connection.execute(insert(table), [_without_id(row) for row in world[name]])
    return world


def rows(database: str | Engine) -> World:
    """Read every row of our four tables, but for when it was created."""
    with _engine(database) as engine, engine.connect() as connection:
        return {
            name: [
                dict(row)
                for row in connection.execute(
                    select(*(column for column in table.c if column.name != "created_at")).order_by(
                        table.c.id
                    )
                ).mappings()
            ]
            for name, table in _TABLES.items()
        }


def _suppression(row: dict[str, Any]) -> dict[str, Any]:
    at = row.get("suppressed_at")
    return {
        "suppressed_at": at and datetime.fromisoformat(at),
        "suppression_reason": row.get("reason"),
        "suppression_changed_at": None,
    }


def _empty(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        names = ", ".join(table.name for table in _TABLES.values())
        connection.exec_driver_sql(f"TRUNCATE {names} RESTART IDENTITY")
        return
    for table in reversed(tables.metadata.sorted_tables):
        connection.execute(delete(table))
    if inspect(connection).has_table("sqlite_sequence"):  # of the tables that Django makes
        connection.exec_driver_sql("DELETE FROM sqlite_sequence")


def _without_id(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


@contextmanager
def _engine(database: str | Engine) -> Iterator[Engine]:
    if isinstance(database, Engine):
        yield database
        return
    url = make_url(database)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = create_engine(url, poolclass=NullPool)
    try:
        yield engine
    finally:
        engine.dispose()
