"""A store without a database, for tests and experiments. Its rows are dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeAlias

from hookrow.arguments import has_members, reject
from hookrow.core.changes import applies
from hookrow.core.log_entry import LogEntry
from hookrow.core.notification import (
    Change,
    Dispatch,
    EventTime,
    Key,
    LookupKeys,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Subscriber,
    Suppressible,
)
from hookrow.core.optional import OPTIONAL_COLUMNS, Kinds, recorded_kinds
from hookrow.core.rules import fold
from hookrow.core.schema import SUPPRESSION, WRITTEN, Schema
from hookrow.stores import State
from hookrow.stores.census import ListCount, Place, Undelivered, by_list
from hookrow.stores.change_dates import key_text, warn_of_undated
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.memory_suppressions import MemorySuppressions

Row: TypeAlias = dict[Any, Any]


@dataclass(slots=True)
class MemoryStore:
    """The three tables, as rows by key, and the log. One lock makes transactions atomic.

    A subscriber needs an `email`, and a dispatch a `provider_message_id` and a `subscriber_id`, and
    a `list_id` if it has one. The columns that notifications set are added when they are set. Rows
    of the kinds in `undated` have no `suppression_changed_at`; if there is a log, their last change
    is dated in `suppression_changes`, by role and `change_dates.key_text`. `optional` names the
    columns of dispatches for optional records, such as `clicked_at`.
    """

    subscribers: dict[Key, Row] = field(default_factory=dict)
    dispatches: dict[Key, Row] = field(default_factory=dict)
    subscriptions: dict[tuple[Key, Key], Row] = field(default_factory=dict)
    undated: Collection[Suppressible] = ()
    optional: Collection[str] = ()
    log: MemoryLog | None = field(default_factory=MemoryLog)
    suppression_changes: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the tables; warn about rows for which no date of the last change is kept."""
        for name in ("subscribers", "dispatches", "subscriptions"):
            table = getattr(self, name)
            for each in (table, *(table.values() if isinstance(table, dict) else ())):
                if not isinstance(each, dict):
                    line = f"MemoryStore({name}={{1: {{...}}}}), with each row by its key"
                    reject(name, "a dict with a dict for each row", each, line)
        for name in ("undated", "optional"):
            names = getattr(self, name)
            if isinstance(names, str) or not isinstance(names, Collection):
                reject(name, "a collection", names, f"MemoryStore({name}=[...])")
        if self.log is not None and not has_members(self.log, ("keep",)):
            reject("log", "a MemoryLog, or None", self.log, "MemoryStore(log=None) for no log")
        if self.log is None:
            warn_of_undated(self.undated)

    @property
    def schema(self) -> Schema:
        """The mapping, in which reasons are stored unchanged."""
        return Schema()

    @property
    def recorded(self) -> Kinds:
        """The kinds of notification that the store records."""
        return recorded_kinds(self.optional)

    @property
    def census(self) -> MemoryCensus:
        """Counts the rows."""
        return MemoryCensus(self)

    @property
    def suppressions(self) -> MemorySuppressions:
        """Reads the suppressed subscribers."""
        return MemorySuppressions(self.subscribers, self.subscriptions, self.log)

    def is_nested(self) -> bool:
        """Return False: there is no transaction of the host."""
        return False

    @contextmanager
    def transaction(
        self, *, skip_locked: bool = False, checked: bool = False
    ) -> Iterator[MemoryTransaction]:
        """Begin a transaction when all others have ended, so there are no locked rows to skip."""
        del skip_locked, checked
        with self._lock:
            transaction = MemoryTransaction(self)
            try:
                yield transaction
            except BaseException:
                transaction.rollback()
                raise

    def probe(self) -> None:
        """Begin a transaction, and end it."""
        with self.transaction():
            pass

    @property
    def mapping_key(self) -> str:
        """An empty text: there are no tables."""
        return ""

    def claim_log(self) -> None:
        """Do nothing: no other store has this log."""

    def check_mapping(self) -> None:
        """Do nothing: the log has only one mapping."""

    def time(self) -> None:
        """Return None: the clock is the process's."""

    @contextmanager
    def reading(self) -> Iterator[MemoryReading]:
        """Read rows while no transaction changes them."""
        with self._lock:
            yield MemoryReading(self)


class MemoryReading:
    """Reads the current rows."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def find(self, lookup: LookupKeys) -> Rows:
        """See `Reading`."""
        subscribers = defaultdict(list)
        for key, row in self._store.subscribers.items():
            email = str(row["email"])
            if fold(email) in lookup.emails:
                subscribers[fold(email)].append(Subscriber(key, email))
        dispatches = defaultdict(list)
        for key, row in self._store.dispatches.items():
            message_id = row["provider_message_id"]
            if message_id in lookup.message_ids:
                owner = row["subscriber_id"]
                email = self._store.subscribers.get(owner, {}).get("email", "")
                dispatch = Dispatch(key, owner, email, row.get("list_id"))
                dispatches[str(message_id)].append(dispatch)
        undated = self._store.undated if self._store.log is None else ()
        first_opens = EventTime.FIRST_OPENED.value in self._store.optional
        subscriptions = self._store.subscriptions
        return Rows(subscribers, dispatches, subscriptions, undated, first_opens=first_opens)

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """See `Reading`."""
        return {
            (kind, key): {name: table[key].get(name) for name in self._written(kind)}
            for kind, key in rows
            if key in (table := self._table(kind))
        }

    def _written(self, kind: Suppressible) -> Sequence[str]:
        """Return the columns of a kind of row that notifications set."""
        names = WRITTEN if kind is Suppressible.DISPATCH else SUPPRESSION
        absent = {*OPTIONAL_COLUMNS}.difference(self._store.optional)
        if kind in self._store.undated:
            absent.add("suppression_changed_at")
        return [name for name in names if name not in absent]

    def _table(self, kind: Suppressible) -> dict[Any, Row]:
        table: dict[Any, Row] = getattr(self._store, kind.value)
        return table


class MemoryTransaction(MemoryReading):
    """Changes rows immediately, and keeps copies of them for a rollback."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._before: list[tuple[Row, Row]] = []

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Return no rows, because the store's lock protects all of them."""
        del rows
        return ()

    def write(self, changes: Sequence[Change], entries: Sequence[LogEntry] = ()) -> None:
        """See `Transaction`."""
        dates = self._store.suppression_changes
        self._before.append((dates, dict(dates)))
        for change in changes:
            kind, key = change.row
            row = self._table(kind)[key]
            self._before.append((row, dict(row)))
            self._apply(change, row)
        if self._store.log is not None:
            self._before.append((self._store.log.entries, dict(self._store.log.entries)))
            self._store.log.keep(entries)

    def _apply(self, change: Change, row: Row) -> None:
        """Change the row, unless the change is guarded and the last one is later."""
        if isinstance(change, SetTime):
            name = change.column.value
            if applies(change, row.get(name)):
                row[name] = change.at
                if "bounce_type" in self._store.optional and change.column is EventTime.BOUNCED:
                    row["bounce_type"] = change.bounce_type
            return
        dates, key = self._dates(change, row)
        if applies(change, dates.get(key)):
            dates[key] = change.at
            row["suppressed_at"] = None if change.reason is None else change.at
            row["suppression_reason"] = change.reason

    def _dates(self, change: SetSuppression, row: Row) -> tuple[dict[Any, Any], object]:
        """Return the dict with the date of a row's last change, and the key of the date in it."""
        if change.kind not in self._store.undated:
            return row, "suppression_changed_at"
        parts = change.key if isinstance(change.key, tuple) else (change.key,)
        dates = {} if self._store.log is None else self._store.suppression_changes
        return dates, (change.kind.value, key_text(parts))

    def rollback(self) -> None:
        """Restore the rows, the dates and the log."""
        for row, before in reversed(self._before):
            row.clear()
            row.update(before)


class MemoryCensus:
    """A `Census` of a memory store."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def lists(self) -> Sequence[ListCount]:
        """See `Census`."""
        sent: defaultdict[Key | None, list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in list(self._store.dispatches.values()):
            for index, name in enumerate(("provider_message_id", "delivered_at", "opened_at")):
                sent[row.get("list_id")][index] += row.get(name) is not None
        members: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0])
        for (list_, _), row in list(self._store.subscriptions.items()):
            members[list_][0] += 1
            members[list_][1] += row.get("suppressed_at") is not None
        return by_list(
            [(list_, *counts) for list_, counts in sent.items()],
            [(list_, *counts) for list_, counts in members.items()],
        )

    def suppressed(self) -> Mapping[str | None, int]:
        """See `Census`."""
        return Counter(
            row.get("suppression_reason")
            for row in list(self._store.subscribers.values())
            if row.get("suppressed_at") is not None
        )

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return the `sent_at` of rows that have it."""
        ids = set(message_ids)
        return {
            row["provider_message_id"]: row["sent_at"]
            for row in list(self._store.dispatches.values())
            if row.get("provider_message_id") in ids and row.get("sent_at") is not None
        }

    def undelivered(
        self, since: datetime | None = None, until: datetime | None = None
    ) -> int | None:
        """Count by the `sent_at` of rows; return None if it is needed, and no row has it."""
        times = [each.sent_at for each in self._undelivered()]
        if since is None and until is None:
            return len(times)
        if not any(row.get("sent_at") for row in list(self._store.dispatches.values())):
            return None
        known = [at for at in times if at is not None and (since is None or at >= since)]
        return sum(until is None or at < until for at in known)

    def list_undelivered(
        self, since: datetime, *, after: Place | None = None, limit: int
    ) -> Sequence[Undelivered]:
        """See `Census`."""
        found = [
            each for each in self._undelivered() if each.sent_at is None or each.sent_at >= since
        ]
        found.sort(key=lambda each: _order(each.place))
        return [each for each in found if after is None or _order(each.place) > _order(after)][
            :limit
        ]

    def _undelivered(self) -> Sequence[Undelivered]:
        return [
            Undelivered(row["provider_message_id"], at, Place(at, key))
            for key, row in list(self._store.dispatches.items())
            if row.get("provider_message_id") and not row.get("delivered_at")
            for at in [row.get("sent_at")]
        ]


_EARLIEST = datetime.min.replace(tzinfo=UTC)


def _order(place: Place) -> tuple[datetime, Any]:
    return place.sent_at or _EARLIEST, place.id
