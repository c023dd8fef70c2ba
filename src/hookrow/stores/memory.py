"""A store without a database, for tests and experiments: its rows are dicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from threading import Lock
from typing import Any, TypeAlias

from msgspec.structs import asdict, replace

from hookrow.decide import fold
from hookrow.entry import (
    Ending,
    Entry,
    Logged,
    fingerprints,
    followed,
    kept_recipient,
    quoted,
    retry_at,
)
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
from hookrow.stores.census import ListCount, by_list
from hookrow.stores.dates import key_text, warn_of_undated
from hookrow.stores.log import Cell, Ended, Grain, Query, within_size

Row: TypeAlias = dict[Any, Any]


@dataclass(slots=True)
class MemoryLog:
    """A `LogReader` of entries by fingerprint."""

    entries: dict[bytes, Logged] = field(default_factory=dict)
    _last_id: int = 0

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries; merge those whose fingerprint the log already has."""
        for entry in entries:
            if earlier := self.entries.get(entry.fingerprint):
                self._put(followed(earlier, entry))
            else:
                self._last_id += 1
                self._put(Logged(**asdict(entry), id=self._last_id, first_outcome=entry.outcome))

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """See `LogReader`."""
        found = [each for each in self._matching(query) if before is None or each.id < before]
        return _group(found[::-1][:limit], bodies=bodies)

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """See `LogReader`."""
        found = [each for each in self._matching(query) if each.id > after]
        return _group(found[:limit], bodies=bodies)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """See `LogReader`."""
        first, last = fingerprints(at)
        found = [each for each in self._matching(query) if first <= each.fingerprint <= last]
        return _group(found[:limit], bodies=False)

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """See `LogReader`."""
        due = [each for each in self._matching() if each.retry_at and each.retry_at <= now]
        taken = _group(sorted(due, key=attrgetter("retry_at"))[:limit])
        for each in taken:
            self._put(replace(each, retry_at=retry_at(each.received_at, now)))
        return taken

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[Logged]:
        """See `LogReader`."""
        found = [each for each in self._matching(Query(parked=True)) if each.id > after]
        return _group([each for each in found if each.message_id in message_ids])

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Prune in one batch."""
        pruned = 0
        for each in self._matching():
            parked = each.retry_at is not None and each.received_at >= parked_before
            if parked or each.last_received_at >= before or (bodies_only and each.body is None):
                continue
            if bodies_only:
                self._put(replace(each, body=None, retry_at=None))
            else:
                del self.entries[each.fingerprint]
            pruned += 1
        yield pruned

    def forget(self, email: str) -> int:
        """See `LogReader`."""
        address = kept_recipient(email)
        texts = quoted(address)
        theirs = [
            each
            for each in self._matching()
            if each.recipient == address
            or (each.recipient is None and any(text in fold(each.body or "") for text in texts))
        ]
        for each in theirs:
            self._put(replace(each, recipient=None, body=None, reason=None, retry_at=None))
        return len(theirs)

    def ends(self, first: int, last: int) -> Mapping[Ending, Ended]:
        """See `LogReader`."""
        found: defaultdict[Ending, list[datetime]] = defaultdict(list)
        for each in self._matching(Query(ids=range(first, last + 1))):
            found[each.outcome].append(each.last_received_at)
        return {ending: Ended(len(times), max(times)) for ending, times in found.items()}

    def bounds(self) -> tuple[int, int] | None:
        """See `LogReader`."""
        found = self._matching()
        return (found[0].id, found[-1].id) if found else None

    def reached(self, at: datetime) -> int:
        """Return the lowest such id."""
        later = self._matching(Query(since=at))
        return later[0].id if later else self._last_id + 1

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """See `LogReader`."""
        return Counter(
            Cell(_start(each.received_at, grain), each.record_type, each.outcome)
            for each in self._matching(Query(ids=range(first, last + 1)))
        )

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """See `LogReader`."""
        ids = range(first, last + 1)
        recorded = Query(ids=ids, record_type="Delivery", outcome=Ending.RECORDED)
        return [
            (each.message_id, each.occurred_at)
            for each in self._matching(recorded)
            if each.message_id is not None and each.occurred_at is not None
        ]

    def count_parked(self) -> int:
        """See `LogReader`."""
        return len(self._matching(Query(parked=True)))

    def count_hours(self) -> bool:
        """Return False: there are no hourly counts."""
        return False

    def _matching(self, query: Query = Query()) -> list[Logged]:  # noqa: B008 - frozen
        """Return the entries of a query, oldest first."""
        entries = sorted(self.entries.values(), key=attrgetter("id"))
        return [each for each in entries if query.matches(each)]

    def _put(self, entry: Logged) -> None:
        self.entries[entry.fingerprint] = entry


@dataclass(slots=True)
class MemoryStore:
    """The three tables, each by its key, and the log. One lock makes transactions atomic.

    A row needs what identifies it: an email; a provider_message_id and a subscriber_id, and a
    list_id if it has one. The columns that notifications set are added when they are set.
    Rows of the kinds in `undated` have no `suppression_changed_at`; with a log, their last change
    is dated in `suppression_changes`, by role and `dates.key_text`.
    """

    subscribers: dict[Key, Row] = field(default_factory=dict)
    dispatches: dict[Key, Row] = field(default_factory=dict)
    subscriptions: dict[tuple[Key, Key], Row] = field(default_factory=dict)
    undated: Collection[Suppressible] = ()
    log: MemoryLog | None = field(default_factory=MemoryLog)
    suppression_changes: dict[tuple[str, str], datetime] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Warn of rows whose last change is dated nowhere."""
        if self.log is None:
            warn_of_undated(self.undated)

    @property
    def census(self) -> MemoryCensus:
        """Counts the rows."""
        return MemoryCensus(self)

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[MemoryTransaction]:
        """Begin the only transaction at this time, so there are no locked rows to skip."""
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
        """Read rows while no transaction changes them."""
        with self._lock:
            yield MemoryReading(self)


class MemoryReading:
    """The rows as they are."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def find(self, mentioned: Mentioned) -> Rows:
        """See `Reading`."""
        subscribers = defaultdict(list)
        for key, row in self._store.subscribers.items():
            email = str(row["email"])
            if fold(email) in mentioned.emails:
                subscribers[fold(email)].append(Subscriber(key, email))
        dispatches = defaultdict(list)
        for key, row in self._store.dispatches.items():
            message_id = row["provider_message_id"]
            if message_id in mentioned.message_ids:
                owner = row["subscriber_id"]
                email = self._store.subscribers.get(owner, {}).get("email", "")
                found = Dispatch(key, owner, email, row.get("list_id"))
                dispatches[str(message_id)].append(found)
        undated = self._store.undated if self._store.log is None else ()
        return Rows(subscribers, dispatches, self._store.subscriptions, undated)

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
        dated = kind not in self._store.undated
        return [name for name in names if dated or name != "suppression_changed_at"]

    def _table(self, kind: Suppressible) -> dict[Any, Row]:
        table: dict[Any, Row] = getattr(self._store, kind.value)
        return table


class MemoryTransaction(MemoryReading):
    """Changes rows at once, and keeps copies of them for a rollback."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._before: list[tuple[Row, Row]] = []

    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Return no rows: the store's lock protects all of them."""
        del rows
        return ()

    def write(self, changes: Sequence[Change], entries: Sequence[Entry] = ()) -> None:
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
        """Change the row, unless the change is guarded and its last one is later."""
        if isinstance(change, SetTime):
            name = change.column.value
            if _applies(change, row.get(name)):
                row[name] = change.at
            return
        dates, place = self._dates(change, row)
        if _applies(change, dates.get(place)):
            dates[place] = change.at
            row["suppressed_at"] = None if change.reason is None else change.at
            row["suppression_reason"] = change.reason

    def _dates(self, change: SetSuppression, row: Row) -> tuple[dict[Any, Any], object]:
        """Return where the last change of a row is dated: a dict, and the key in it."""
        if change.kind not in self._store.undated:
            return row, "suppression_changed_at"
        parts = change.key if isinstance(change.key, tuple) else (change.key,)
        dates = {} if self._store.log is None else self._store.suppression_changes
        return dates, (change.kind.value, key_text(parts))

    def rollback(self) -> None:
        """Restore the rows, their dates and the log."""
        for row, before in reversed(self._before):
            row.clear()
            row.update(before)


class MemoryCensus:
    """A `Census` of a store in memory."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def lists(self) -> Sequence[ListCount]:
        """See `Census`."""
        sent: defaultdict[Key | None, list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in list(self._store.dispatches.values()):
            for place, name in enumerate(("provider_message_id", "delivered_at", "opened_at")):
                sent[row.get("list_id")][place] += row.get(name) is not None
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
        wanted = set(message_ids)
        return {
            row["provider_message_id"]: row["sent_at"]
            for row in list(self._store.dispatches.values())
            if row.get("provider_message_id") in wanted and row.get("sent_at") is not None
        }


def _applies(change: Change, last: datetime | None) -> bool:
    """Return whether a change applies to a row that was last changed at that time."""
    return not change.guarded or last is None or last <= change.at


def _group(found: Sequence[Logged], *, bodies: bool = True) -> Sequence[Logged]:
    """Return the leading entries whose bodies make one group, or all without bodies."""
    if not bodies:
        return [replace(each, body=None) for each in found]
    return found[: len(within_size((each.id, len(each.body or "")) for each in found))]


def _start(at: datetime, grain: Grain) -> datetime:
    start = at.astimezone(UTC).replace(second=0, microsecond=0)
    return start if grain == "minute" else start.replace(minute=0)
