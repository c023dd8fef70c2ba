"""A host's tables that use everything a `Schema` can express at once, and a home in them.

Some of the names need quotes.

Every row that the schema's conditions select has a twin with the same email, message id or
keys that they exclude.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from homes import KEYS, Home, Row, Rows, columns_of
from sqlalchemy import Boolean, Column, Connection, Integer, Text, select
from sqlalchemy.types import TypeEngine

from databases import kind_of
from hookrow import Role, Schema
from hookrow._core.notification import Key
from hookrow._core.schema import OTHERWISE

_CHANGED = {"suppression_changed_at": "100%"}

FITTED = Schema(
    subscribers=Role(
        "The readers",
        {"id": "reader id", "email": "e-mail", "suppressed_at": "Off?", **_CHANGED},
        where={"deleted_on": None, "tenant": "it's 100%"},
        fold="lower",
    ),
    dispatches=Role(
        "mails",
        {
            "id": "nr",
            "provider_message_id": "postmark_id",
            "subscriber_id": "reader",
            "message_id": "mailing",
            "delivered_at": "arrived",
            "opened_at": "seen",
            **_CHANGED,
        },
        where={"draft": False},
    ),
    subscriptions=Role(
        "readings", {"list_id": "title", "subscriber_id": "reader", **_CHANGED}, where={"state": 1}
    ),
    messages=Role("mailings", {"id": "nr", "list_id": "title"}, where={"withdrawn": False}),
    reasons={"HardBounce": 1, "SpamComplaint": 2, "ManualSuppression": 3, OTHERWISE: 9},
)

EXCLUDED: Mapping[str, Row] = {
    "subscribers": {"deleted_on": "2026-03-04", "tenant": "it's 100%"},
    "dispatches": {"draft": True},
    "subscriptions": {"state": 2},
    "messages": {"withdrawn": True},
}
"""The values of the twins in the columns of the conditions."""

_TYPES: Mapping[str, TypeEngine[Any]] = {
    "draft": Boolean(),
    "withdrawn": Boolean(),
    "state": Integer(),
    "suppression_reason": Integer(),
}

TWINS = 5_000
"""Above the number of any row: added to it, the number of its twin; a message's is above both."""


class FittedHome(Home):
    """A home in an empty database, in the tables of `FITTED`.

    The keys of the rows that the conditions select are unique, those of all rows are not.
    """

    def __init__(self, url: str, schema: Schema, *, supplied: bool = False) -> None:
        super().__init__(url, schema, supplied=supplied)
        kind = kind_of(url)
        self.run(kind.unique_index("pairs", "readings", "title, reader", where="state = 1"))

    def fill(self, **rows: Sequence[Row]) -> None:
        """Add twins and messages; the message of a dispatch without a list is excluded."""
        excluded = {"id": self.key(2 * TWINS), "list_id": self.key(1), **EXCLUDED["messages"]}
        messages, dispatches = [excluded], []
        for number, row in enumerate(rows.get("dispatches", ()), 2 * TWINS + 1):
            id_ = self.key(number if row.get("list_id") is not None else 2 * TWINS)
            dispatches.append({**row, "message_id": id_})
            messages.append({"id": self.key(number), "list_id": row.get("list_id")})
        given = {**rows, "dispatches": dispatches}
        twins = {
            name: [self._twin(name, number, row) for number, row in enumerate(given[name], TWINS)]
            for name in given
        }
        super().fill(messages=messages, **{name: [*given[name], *twins[name]] for name in given})

    @property
    def _has_uuids(self) -> bool:
        return True

    def _columns(self, name: str) -> list[Column[Any]]:
        mapped = [
            Column(theirs, self._type(ours), primary_key=ours == "id")
            for ours, theirs in FITTED.columns(name).items()
        ]
        return [*mapped, *(Column(own, self._type(own)) for own in EXCLUDED[name])]

    def _type(self, column: str) -> TypeEngine[Any]:
        if column in EXCLUDED["subscribers"]:
            return Text()
        return _TYPES.get(column) or super()._type(column)

    def _twin(self, name: str, number: int, row: Row) -> Row:
        kept = {key: row[key] for key in row if key.endswith("_id") or key == "email"}
        id_ = {} if name == "subscriptions" else {"id": self.key(number)}
        return {**kept, **id_, **EXCLUDED[name]}

    def _row(self, name: str, row: Row) -> dict[str, Any]:
        reason = FITTED.reason(row.get("suppression_reason"))
        mapped = FITTED.columns(name).items()
        return {
            **FITTED.roles[name].where,
            **{theirs: row.get(ours) for ours, theirs in mapped},
            **({"suppression_reason": reason} if name != "messages" else {}),
            **{own: row[own] for own in EXCLUDED[name] if own in row},
        }

    def rows(self) -> Rows:
        """Read the selected rows, with the provider's reasons; assert that no twin has changed."""
        rows = super().rows()
        lists = {row["nr"]: row["title"] for row in rows.pop("messages") if not row["withdrawn"]}
        return {name: self._selected(name, rows[name], lists) for name in rows}

    def _read(self, connection: Connection, name: str) -> list[dict[str, Any]]:
        return [dict(row) for row in connection.execute(select(self._tables[name])).mappings()]

    def _selected(
        self, name: str, rows: Sequence[Row], lists: Mapping[Key, Key]
    ) -> list[dict[str, Any]]:
        selected = []
        for row in rows:
            ours = {ours: row[theirs] for ours, theirs in FITTED.columns(name).items()}
            if all(row[own] == value for own, value in FITTED.roles[name].where.items()):
                selected.append(self._unmapped(name, ours, lists))
            else:
                written = [column for column in ours if column.endswith(("_at", "_reason"))]
                assert [ours[column] for column in written] == [None] * len(written)
        return sorted(selected, key=lambda row: [row[key] for key in KEYS[name]])

    def _unmapped(self, name: str, row: Row, lists: Mapping[Key, Key]) -> dict[str, Any]:
        words = {kept: word for word, kept in (FITTED.reasons or {}).items()}
        ours = {**row, "suppression_reason": words.get(row["suppression_reason"])}
        if name == "dispatches":
            ours["list_id"] = lists.get(row["message_id"])
        return {column: ours[column] for column in columns_of(FITTED, name)}
