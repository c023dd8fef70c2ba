"""A store without a database: the rows are dicts, and one lock is the transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from hookrow.decide import fold
from hookrow.notification import (
    Change,
    Dispatch,
    Key,
    Mentioned,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Subscriber,
    Suppressible,
)

Row: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class MemoryStore:
    """The three tables, each by its key; for tests, and to try things out.

    A row needs what identifies it: an email; a provider_message_id, subscriber_id
    and list_id. What a notification sets comes to be when it is set.
    """

    subscribers: dict[Key, Row] = field(default_factory=dict)
    dispatches: dict[Key, Row] = field(default_factory=dict)
    subscriptions: dict[tuple[Key, Key], Row] = field(default_factory=dict)
    undated: Collection[Suppressible] = ()
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[MemoryTransaction]:
        """Begin a transaction; nobody else is in one meanwhile, so none is skipped."""
        del skip_locked
        with self._lock:
            transaction = MemoryTransaction(self)
            yield transaction
            transaction.commit()


class MemoryTransaction:
    """Keeps the changes to itself until it commits."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._changes: list[Change] = []

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions."""
        subscribers = defaultdict(list)
        for key, row in self._store.subscribers.items():
            email = str(row["email"])
            if fold(email) in mentioned.emails:
                subscribers[fold(email)].append(Subscriber(key, email))
        dispatches = defaultdict(list)
        for key, row in self._store.dispatches.items():
            message_id = row["provider_message_id"]
            if message_id in mentioned.message_ids:
                dispatches[str(message_id)].append(self._dispatch(key, row))
        return Rows(subscribers, dispatches, self._store.subscriptions, self._store.undated)

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Hold them all: the store's one lock does."""
        del rows
        return ()

    def save(self, changes: Sequence[Change]) -> None:
        """Apply the changes when the transaction ends."""
        self._changes.extend(changes)

    def commit(self) -> None:
        """Apply what was saved, each change where its guard allows."""
        for change in self._changes:
            if isinstance(change, SetTime):
                _set_time(self._store.dispatches[change.dispatch], change)
            else:
                self._suppress(change)

    def _dispatch(self, key: Key, row: Row) -> Dispatch:
        owner = self._store.subscribers.get(row["subscriber_id"], {})
        return Dispatch(key, row["subscriber_id"], owner.get("email", ""), row["list_id"])

    def _suppress(self, change: SetSuppression) -> None:
        row = getattr(self._store, change.kind.value)[change.key]
        changed_at = row.get("suppression_changed_at")
        if change.guarded and changed_at is not None and changed_at > change.at:
            return
        row["suppressed_at"] = None if change.reason is None else change.at
        row["suppression_reason"] = change.reason
        if change.kind not in self._store.undated:
            row["suppression_changed_at"] = change.at


def _set_time(row: Row, change: SetTime) -> None:
    present = row.get(change.column.value)
    if not change.guarded or present is None or present < change.at:
        row[change.column.value] = change.at
