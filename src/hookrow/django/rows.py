"""Rows of the host's models, on its own connection: to read, and to change in a transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet

from hookrow.decide import fold, pairs
from hookrow.django.keeping import Keeping
from hookrow.django.lookups import Lookups
from hookrow.django.mapping import Mapped, Models
from hookrow.django.times import told
from hookrow.django.transactions import faults
from hookrow.django.updates import Updates
from hookrow.entry import Entry
from hookrow.notification import (
    Change,
    Dispatch,
    Key,
    Mentioned,
    RowId,
    Rows,
    Subscriber,
    Suppressible,
)
from hookrow.schema import KEYS, WRITTEN
from hookrow.stores import State, by_kind, row_key

_ORDER = {kind: place for place, kind in enumerate(Suppressible)}


@dataclass(frozen=True, slots=True)
class Kept:
    """What all transactions of a store share: the models, and the SQL that is made once."""

    models: Models
    lookups: Lookups
    updates: Updates
    keeping: Keeping | None


class DjangoReading:
    """What is there now: three SELECTs to find, and one a kind of row to read."""

    def __init__(self, kept: Kept, connection: BaseDatabaseWrapper) -> None:
        self._kept = kept
        self._roles = kept.models.roles
        self._connection = connection

    def find(self, mentioned: Mentioned) -> Rows:
        """Find every row that the group mentions."""
        subscribers = defaultdict(list)
        for id_, email in self._kept.lookups.subscribers(mentioned, self._connection):
            subscribers[fold(email)].append(Subscriber(id_, email))
        dispatches = defaultdict(list)
        for message_id, id_, owner, email, list_ in self._kept.lookups.dispatches(
            mentioned, self._connection
        ):
            dispatches[message_id].append(Dispatch(id_, owner, email or "", list_))
        return Rows(
            subscribers,
            dispatches,
            self._subscriptions(pairs(mentioned, subscribers, dispatches)),
            self._kept.models.schema.undated,
            exact=self._kept.models.fold == "exact",
        )

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows."""
        states: dict[RowId, State] = {}
        for kind, keys in by_kind(rows).items():
            mapped, names = self._roles[kind.value], self._key(kind)
            there = [name for name in WRITTEN if name in mapped.paths]
            paths = [mapped.paths[name] for name in there]
            for row in self._among(kind, keys).values_list(*names, *paths):
                values = map(told, row[len(names) :])
                states[kind, row_key(row[: len(names)])] = dict(zip(there, values, strict=True))
        return {row: states[row] for row in rows if row in states}

    def _subscriptions(self, wanted: Collection[tuple[Key, Key]]) -> Collection[tuple[Key, Key]]:
        if not wanted or Suppressible.SUBSCRIPTION.value not in self._roles:
            return ()
        kind = Suppressible.SUBSCRIPTION
        found = self._among(kind, wanted).filter(**self._roles[kind.value].where)
        return {(list_, subscriber) for list_, subscriber in found.values_list(*self._key(kind))}

    def _among(self, kind: Suppressible, keys: Collection[Any]) -> QuerySet[Model]:
        """Compare each part of a key with its own set: for pairs, more than were asked for."""
        parts = zip(*(key if isinstance(key, tuple) else (key,) for key in keys), strict=True)
        wanted = {
            f"{path}__in": set(part) for path, part in zip(self._key(kind), parts, strict=True)
        }
        return self._all(self._roles[kind.value]).filter(**wanted)

    def _all(self, mapped: Mapped) -> QuerySet[Model]:
        """Return every row, whatever the host's managers hide: that is for `where` to say."""
        return QuerySet(mapped.model, using=self._connection.alias)

    def _key(self, kind: Suppressible) -> Sequence[str]:
        return [self._roles[kind.value].paths[name] for name in KEYS[kind]]


class DjangoTransaction(DjangoReading):
    """One transaction: for a group three SELECTs to lock, and the UPDATEs."""

    def __init__(self, kept: Kept, connection: BaseDatabaseWrapper, *, skip_locked: bool) -> None:
        super().__init__(kept, connection)
        self._skip_locked = skip_locked

    @faults(saving=True)
    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, kind by kind, each in the order of its keys.

        Not where there is at most one of a kind: `write` then locks them in that same
        order by changing them, and nobody can wait for one who waits for him. On SQLite
        the transaction holds the whole file.
        """
        of_kinds = by_kind(rows)
        if self._connection.vendor == "sqlite" or not (
            self._skip_locked or any(len(keys) > 1 for keys in of_kinds.values())
        ):
            return ()
        held = set(rows) if self._skip_locked else set()
        for kind, keys in of_kinds.items():
            names = self._key(kind)
            locked = (
                self._among(kind, keys)
                .order_by(*names)
                .select_for_update(no_key=True, skip_locked=self._skip_locked)
            )
            held.difference_update((kind, row_key(row)) for row in locked.values_list(*names))
        return held

    def write(self, changes: Sequence[Change], entries: Sequence[Entry] = ()) -> None:
        """Lock the rows, apply the changes, and add the entries to the log, where there is one."""
        if not self._skip_locked:
            self.lock({change.row for change in changes})
        self._save(changes)
        if self._kept.keeping is not None and entries:
            self._kept.keeping(entries, self._connection)

    @faults(saving=True)
    def _save(self, changes: Sequence[Change]) -> None:
        """Apply the changes in the order in which kinds are locked, those of a form in one go."""
        forms: dict[str, list[Any]] = {}
        for change in sorted(changes, key=lambda change: _ORDER[change.row[0]]):
            if update := self._kept.updates(change, self._connection):
                sql, parameters = update
                forms.setdefault(sql, []).append(parameters)
        with self._connection.cursor() as cursor:
            for sql, rows in forms.items():
                if len(rows) == 1:
                    cursor.execute(sql, rows[0])
                else:
                    cursor.executemany(sql, rows)
