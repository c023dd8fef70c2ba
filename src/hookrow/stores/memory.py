"""A store without a database: the rows are dicts, and one lock is the transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeAlias

from hookrow.decide import fold
from hookrow.entry import Entry
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
from hookrow.schema import SUPPRESSION, WRITTEN
from hookrow.stores import State
from hookrow.stores.memory_census import MemoryCensus
from hookrow.stores.memory_log import MemoryLog

Row: TypeAlias = dict[Any, Any]


@dataclass(slots=True)
class MemoryStore:
    """The three tables, each by its key, and the log; for tests, and to try things out.

    A row needs what identifies it: an email; a provider_message_id and subscriber_id,
    and a list_id where there is one. What a notification sets comes to be when it is set.
    """

    subscribers: dict[Key, Row] = field(default_factory=dict)
    dispatches: dict[Key, Row] = field(default_factory=dict)
    subscriptions: dict[tuple[Key, Key], Row] = field(default_factory=dict)
    undated: Collection[Suppressible] = ()
    log: MemoryLog | None = field(default_factory=MemoryLog)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def census(self) -> MemoryCensus:
        """What counts the rows."""
        return MemoryCensus(self.subscribers, self.dispatches, self.subscriptions)

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[MemoryTransaction]:
        """Begin a transaction; nobody else is in one meanwhile, so none is skipped."""
        del skip_locked
        with self._lock:
            transaction = MemoryTransaction(self)
            try:
                yield transaction
            except BaseException:
                transaction.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[MemoryReading]:
        """Look at rows; who is in a transaction has not changed half of them."""
        with self._lock:
            yield MemoryReading(self)


class MemoryReading:
    """The rows as they are."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

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

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows."""
        return {
            row: {name: self._row(row).get(name) for name in _SET[row[0]]}
            for row in rows
            if row[1] in getattr(self._store, row[0].value)
        }

    def _dispatch(self, key: Key, row: Row) -> Dispatch:
        owner = self._store.subscribers.get(row["subscriber_id"], {})
        return Dispatch(key, row["subscriber_id"], owner.get("email", ""), row.get("list_id"))

    def _row(self, row: RowId) -> Row:
        kind, key = row
        found: Row = getattr(self._store, kind.value)[key]
        return found


class MemoryTransaction(MemoryReading):
    """Changes the rows as it goes, and knows what they were."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._before: list[tuple[Row, Row]] = []

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Hold them all: the store's one lock does."""
        del rows
        return ()

    def write(self, changes: Sequence[Change], entries: Sequence[Entry] = ()) -> None:
        """Apply the changes, each where its guard allows, and add the entries to the log."""
        for change in changes:
            row = self._row(change.row)
            self._before.append((row, dict(row)))
            if isinstance(change, SetTime):
                _set_time(row, change)
            else:
                _suppress(row, change, dated=change.kind not in self._store.undated)
        if self._store.log is not None:
            self._before.append((self._store.log.entries, dict(self._store.log.entries)))
            self._store.log.keep(entries)

    def rollback(self) -> None:
        """Undo all that was changed."""
        for row, before in reversed(self._before):
            row.clear()
            row.update(before)


_SET = {
    Suppressible.SUBSCRIBER: SUPPRESSION,
    Suppressible.DISPATCH: WRITTEN,
    Suppressible.SUBSCRIPTION: SUPPRESSION,
}


def _set_time(row: Row, change: SetTime) -> None:
    present = row.get(change.column.value)
    if not change.guarded or present is None or present < change.at:
        row[change.column.value] = change.at


def _suppress(row: Row, change: SetSuppression, *, dated: bool) -> None:
    changed_at = row.get("suppression_changed_at")
    if change.guarded and changed_at is not None and changed_at > change.at:
        return
    row["suppressed_at"] = None if change.reason is None else change.at
    row["suppression_reason"] = change.reason
    if dated:
        row["suppression_changed_at"] = change.at
