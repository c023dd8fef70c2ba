"""The statements of the SQL store, built once from a schema and its real column types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
    MetaData,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    null,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.types import TypeEngine

from hookrow.notification import EventTime, Suppressible
from hookrow.schema import Schema
from hookrow.stores.tables import UTCDateTime, folded

Types: TypeAlias = Mapping[str, TypeEngine[Any]]
"""Of one table: the type of each column, by the table's own name for it."""

Columns: TypeAlias = Mapping[str, Column[Any]]
"""Of one role: the columns that its table has, by our name for them."""

_TIMES = frozenset({"delivered_at", "opened_at", "suppressed_at", "suppression_changed_at"})

_KEYS = {
    Suppressible.SUBSCRIBER: ("id",),
    Suppressible.DISPATCH: ("id",),
    Suppressible.SUBSCRIPTION: ("list_id", "subscriber_id"),
}


class Statements:
    """Selects by a set of `keys`, updates by one key at a time (its columns: `key_0`, ...).

    `types` are those of each role's table, by the role's name; whatever the
    schema names is in them.
    """

    def __init__(self, schema: Schema, types: Mapping[str, Types]) -> None:
        self.roles = {
            name: _columns(role.table, schema.columns(name), types[name])
            for name, role in schema.roles.items()
        }
        self.subscribers = self._subscribers()
        self.dispatches = self._dispatches()
        self.subscriptions = self._keys(Suppressible.SUBSCRIPTION) if schema.subscriptions else None
        self.lock = cache(self._lock)
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)

    def _subscribers(self) -> Select[Any]:
        """By folded emails: id and email."""
        role = self.roles["subscribers"]
        return select(role["id"], role["email"]).where(_among(folded(role["email"])))

    def _dispatches(self) -> Select[Any]:
        """By message ids: the message id, the dispatch's id, its owner's id and email, its list."""
        role, owner = self.roles["dispatches"], self.roles["subscribers"]
        return (
            select(
                role["provider_message_id"],
                role["id"],
                role["subscriber_id"],
                owner["email"],
                role.get("list_id", null()),
            )
            .outerjoin_from(
                role["id"].table, owner["id"].table, role["subscriber_id"] == owner["id"]
            )
            .where(_among(role["provider_message_id"]))
        )

    def _keys(self, kind: Suppressible) -> Select[Any]:
        """By keys of a kind of row: those that exist."""
        columns = self._key_columns(kind)
        return select(*columns).where(_among(columns[0] if len(columns) == 1 else tuple_(*columns)))

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Select[Any]:
        """Lock rows in the order of their keys: the order in which every process does it.

        A sorted UPDATE alone would deadlock, for the planner may reorder it.
        """
        return (
            self._keys(kind)
            .order_by(*self._key_columns(kind))
            .with_for_update(key_share=True, skip_locked=skip_locked)
        )

    def _set_time(self, column: EventTime, *, guarded: bool) -> Update:
        """Set the column to `new_at`."""
        present = self.roles["dispatches"][column.value]
        new = bindparam("new_at", type_=present.type)
        statement = self._update(Suppressible.DISPATCH).values({present: new})
        if guarded:
            statement = statement.where(or_(present.is_(None), present < new))
        return statement

    def _set_suppression(self, kind: Suppressible, *, guarded: bool) -> Update | None:
        """Set those of the suppression columns that there are; None where there are none."""
        role = self.roles[kind.value]
        new = {
            column: bindparam(f"new_{name}", type_=column.type)
            for name, column in role.items()
            if name.startswith("suppress")
        }
        if not new:
            return None
        statement = self._update(kind).values(new)
        if guarded:
            changed_at = role["suppression_changed_at"]
            statement = statement.where(or_(changed_at.is_(None), changed_at <= new[changed_at]))
        return statement

    def _update(self, kind: Suppressible) -> Update:
        columns = self._key_columns(kind)
        return update(columns[0].table).where(
            and_(*(column == bindparam(f"key_{n}") for n, column in enumerate(columns)))
        )

    def _key_columns(self, kind: Suppressible) -> Sequence[Column[Any]]:
        return [self.roles[kind.value][name] for name in _KEYS[kind]]


def _columns(table: str, names: Mapping[str, str], types: Types) -> Columns:
    schema, _, name = table.rpartition(".")
    columns = {
        ours: Column(theirs, UTCDateTime() if ours in _TIMES else types[theirs])
        for ours, theirs in names.items()
    }
    Table(name, MetaData(), *columns.values(), schema=schema or None)
    return columns


def _among(column: ColumnElement[Any]) -> ColumnElement[bool]:
    return column.in_(bindparam("keys", expanding=True))
