"""A host's tables that need all that a `Schema` can say, at once, and a home in them.

Every row that counts has a twin of the same name that does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from homes import KEYS, Home, Row, Rows, SQLHome, columns_of, connect
from sqlalchemy import (
    Boolean,
    Column,
    Integer,
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

from hookrow import Role, Schema
from hookrow.migrations import upgrade
from hookrow.notification import Key
from hookrow.schema import OTHERWISE
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import UTCDateTime, log_table

FITTED = Schema(
    subscribers=Role(
        "readers",
        {"id": "uid", "email": "address", "suppressed_at": "off_since"},
        where={"deleted_on": None, "tenant": "it's 100%"},
        fold="lower",
    ),
    dispatches=Role(
        "mails",
        {"provider_message_id": "postmark_id", "subscriber_id": "reader", "message_id": "mailing"},
        where={"draft": False},
    ),
    subscriptions=Role(
        "readings", {"list_id": "title", "subscriber_id": "reader"}, where={"state": 1}
    ),
    messages=Role("mailings", {"id": "nr", "list_id": "title"}, where={"withdrawn": False}),
    reasons={"HardBounce": 1, "SpamComplaint": 2, "ManualSuppression": 3, OTHERWISE: 9},
)

COUNTS: Mapping[str, Row] = {
    "subscribers": {"deleted_on": None, "tenant": "it's 100%"},
    "dispatches": {"draft": False},
    "subscriptions": {"state": 1},
    "messages": {"withdrawn": False},
}
HIDDEN: Mapping[str, Row] = {
    "subscribers": {"deleted_on": "2026-03-04", "tenant": "it's 100%"},
    "dispatches": {"draft": True},
    "subscriptions": {"state": 2},
    "messages": {"withdrawn": True},
}
"""What the rows that count have, and what their twins have."""

TWINS = 5_000
"""Above the number of any row: a twin's is so much higher, and a message's twice as much."""


class FittedHome:
    """A home in an empty database, in the tables of `FITTED`, without any key or index."""

    schema = FITTED

    def __init__(self, url: str) -> None:
        self._engine = connect(url)
        metadata = MetaData()
        self._tables = {name: self._table(metadata, name) for name in FITTED.roles}
        self._log = log_table(FITTED.log or "", MetaData())
        metadata.create_all(self._engine)
        upgrade(self._engine, FITTED)
        self.store = SQLStore(url, FITTED)

    def key(self, number: int) -> Key:
        """Return a UUID on PostgreSQL, and a text on SQLite."""
        return UUID(int=number) if self._on_postgres else f"key-{number:05}"

    def fill(self, **rows: Sequence[Row]) -> None:
        """Put in rows, twins and messages: a dispatch without a list has a message that is hidden.

        The twin of a subscription is of the very pair.
        """
        messages = [{"id": self.key(2 * TWINS), "list_id": self.key(1), **HIDDEN["messages"]}]
        dispatches = []
        for number, row in enumerate(rows.get("dispatches", ()), 2 * TWINS + 1):
            counts = row.get("list_id") is not None
            id_ = self.key(number if counts else 2 * TWINS)
            dispatches.append({**row, "message_id": id_})
            if counts:
                message = {"id": id_, "list_id": row["list_id"]}
                messages.append({**message, **COUNTS["messages"]})
        with self._engine.begin() as connection:
            connection.execute(delete(self._log))
            for name, table in self._tables.items():
                connection.execute(delete(table))
                given = dispatches if name == "dispatches" else rows.get(name, ())
                filled = (
                    messages
                    if name == "messages"
                    else [
                        *({**row, **COUNTS[name]} for row in given),
                        *(self._twin(name, n, row) for n, row in enumerate(given, TWINS)),
                    ]
                )
                if filled:
                    connection.execute(insert(table), [self._named(name, row) for row in filled])

    def rows(self) -> Rows:
        """Read the rows that count, with the provider's words, and see that no twin was touched."""
        with self._engine.connect() as connection:
            all_ = {
                name: [dict(row) for row in connection.execute(select(table)).mappings()]
                for name, table in self._tables.items()
            }
        lists = {row["nr"]: row["title"] for row in all_.pop("messages") if not row["withdrawn"]}
        assert not any(self._changed(name, row) for name, rows in all_.items() for row in rows)
        return {
            name: sorted(
                (self._ours(name, row, lists) for row in rows if self._counts(name, row)),
                key=lambda row: [row[key] for key in KEYS[name]],
            )
            for name, rows in all_.items()
        }

    def logged(self) -> list[dict[str, Any]]:
        """Read the log's table through a connection of its own."""
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

    def _table(self, metadata: MetaData, name: str) -> Table:
        columns = FITTED.columns(name)
        return Table(
            FITTED.roles[name].table,
            metadata,
            *(Column(theirs, self._type(ours)) for ours, theirs in columns.items()),
            *(Column(column, _OWN.get(column, Text())) for column in COUNTS[name]),
        )

    def _type(self, ours: str) -> TypeEngine[Any]:
        if ours.endswith("_at"):
            return UTCDateTime()
        if ours == "suppression_reason":
            return Integer()
        if ours in {"email", "provider_message_id"}:
            return Text()
        return Uuid() if self._on_postgres else String(20)

    def _twin(self, name: str, number: int, row: Row) -> Row:
        kept = {key: row[key] for key in row if key.endswith("_id") or key == "email"}
        id_ = {} if name == "subscriptions" else {"id": self.key(number)}
        return {**kept, **id_, **HIDDEN[name]}

    def _named(self, name: str, row: Row) -> Row:
        """Return the row as the table has it, complete."""
        reason = FITTED.reason(row.get("suppression_reason"))
        columns = FITTED.columns(name).items()
        named = {theirs: row.get(ours) for ours, theirs in columns}
        own = {column: row[column] for column in COUNTS[name]}
        return {**named, **own} | (
            {"suppression_reason": reason} if "suppression_reason" in named else {}
        )

    def _counts(self, name: str, row: Row) -> bool:
        return all(row[column] == value for column, value in COUNTS[name].items())

    def _changed(self, name: str, row: Row) -> bool:
        set_ = FITTED.columns(name).items()
        return not self._counts(name, row) and any(
            row[theirs] is not None for ours, theirs in set_ if ours.endswith(("_at", "_reason"))
        )

    def _ours(self, name: str, row: Row, lists: Mapping[Key, Key]) -> dict[str, Any]:
        words = {kept: word for word, kept in (FITTED.reasons or {}).items()}
        ours = {ours: row[theirs] for ours, theirs in FITTED.columns(name).items()}
        ours["suppression_reason"] = words.get(ours["suppression_reason"])
        if name == "dispatches":
            ours["list_id"] = lists.get(ours["message_id"])
        return {column: ours[column] for column in columns_of(FITTED, name)}


_OWN: Mapping[str, TypeEngine[Any]] = {
    "draft": Boolean(),
    "withdrawn": Boolean(),
    "state": Integer(),
}


def make_home(url: str, schema: Schema) -> Home:
    """Make a home for the schema in an empty database."""
    return FittedHome(url) if schema is FITTED else SQLHome(url, schema)
