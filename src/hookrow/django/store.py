"""The Django store: the host's models, through the ORM, on the host's own connection.

It finds, locks and saves; what a change means is decided in `decide`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet

from hookrow.decide import fold, pairs
from hookrow.django.census import DjangoCensus
from hookrow.django.keeping import Keeping
from hookrow.django.log import DjangoLog
from hookrow.django.lookups import Lookups, check_fold
from hookrow.django.mapping import Mapped, Models, models
from hookrow.django.times import told
from hookrow.django.transactions import begun, faults
from hookrow.django.updates import Updates
from hookrow.entry import Entry
from hookrow.errors import ConfigurationError
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
from hookrow.schema import KEYS, WRITTEN, Schema, nearest
from hookrow.stores import NOT_ON, State, by_kind, row_key

_ORDER = {kind: place for place, kind in enumerate(Suppressible)}


class DjangoStore:
    """The rows of the models that the schema names, in the database of that alias.

    Raises `SchemaMismatch` where there is no such model or field, and
    `ConfigurationError` for an alias that there is none of, or a database that
    hookrow does not know. No database is asked.
    """

    def __init__(self, schema: Schema = Schema(), using: str = "default") -> None:  # noqa: B008 - frozen
        supported(using)
        self.using = using
        found = models(schema)
        check_fold(found, using)
        keeping = Keeping(found.log, using) if found.log else None
        self._kept = _Kept(found, Lookups(found, using), Updates(found), keeping)
        self.census = DjangoCensus(found, self._kept.lookups, using)
        self.log = DjangoLog(using) if schema.log else None

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[DjangoTransaction]:
        """Begin a transaction, or inside one of the host's a savepoint; see `Store.transaction`."""
        with begun(self.using) as connection:
            yield DjangoTransaction(self._kept, connection, skip_locked=skip_locked)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What all transactions of a store share: the models, and the SQL that is made once."""

    models: Models
    lookups: Lookups
    updates: Updates
    keeping: Keeping | None


class DjangoTransaction:
    """One transaction: three SELECTs to find, for a group three to lock, and the UPDATEs."""

    def __init__(self, kept: _Kept, connection: BaseDatabaseWrapper, *, skip_locked: bool) -> None:
        self._kept = kept
        self._roles = kept.models.roles
        self._connection = connection
        self._skip_locked = skip_locked

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

    @faults(saving=True)
    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock the rows, kind by kind, each in the order of its keys.

        Not where there is at most one of a kind: `save` then locks them in that same
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

    @faults(saving=True)
    def save(self, changes: Sequence[Change]) -> None:
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

    def keep(self, entries: Sequence[Entry]) -> None:
        """Add the entries to the log, where there is one."""
        if self._kept.keeping is not None and entries:
            self._kept.keeping(entries, self._connection)

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


def supported(using: str) -> None:
    """Raise `ConfigurationError` where a database alias cannot be used."""
    if using not in connections.settings:
        raise ConfigurationError(
            f"DATABASES has no alias {using!r}.{nearest(using, connections.settings)}"
        )
    connection = connections[using]
    if connection.vendor not in {"postgresql", "sqlite"}:
        raise ConfigurationError(NOT_ON.format(connection.vendor))
    if not connection.settings_dict["AUTOCOMMIT"]:
        raise ConfigurationError(
            f"DATABASES[{using!r}] has AUTOCOMMIT off, so that nothing would be committed: "
            "leave it out, or name another alias."
        )
