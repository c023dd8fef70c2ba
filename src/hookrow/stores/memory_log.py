"""A log without a database: its entries are in a dict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from msgspec.structs import asdict, replace

from hookrow.core.erasure import Occurrence, address_finder, is_searchable
from hookrow.core.log_entry import (
    LogEntry,
    StoredEntry,
    merge_entries,
    stored_recipient,
)
from hookrow.core.notification import KNOWN_REASONS
from hookrow.core.result import MISSING, Result, ended_before, is_due, retry_at
from hookrow.stores.log import (
    BATCH,
    KNOWN_TYPES,
    MOST_EXPIRED,
    OTHER,
    Backlog,
    Count,
    Counts,
    DueKind,
    Forgotten,
    Place,
    Prunable,
    Query,
    Recent,
    RequestKind,
    Requests,
    Slice,
    within_size,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class MemoryLog:
    """A `LogReader` of entries by fingerprint."""

    entries: dict[bytes, StoredEntry] = field(default_factory=dict)
    _last_id: int = 0
    _requests: Counter[tuple[RequestKind, datetime]] = field(default_factory=Counter)

    def keep(self, entries: Iterable[LogEntry]) -> None:
        """Add entries; merge those whose fingerprint the log already has."""
        for entry in entries:
            if earlier := self.entries.get(entry.fingerprint):
                self._put(merge_entries(earlier, entry))
            else:
                self._last_id += 1
                self._put(
                    StoredEntry(**asdict(entry), id=self._last_id, first_outcome=entry.outcome)
                )

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        """See `LogReader`."""
        entries = [each for each in self._matching(query) if before is None or each.id < before]
        return _group(entries[::-1][:limit], bodies=bodies)

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        """See `LogReader`."""
        entries = [each for each in self._matching(query) if each.id > after]
        return _group(entries[:limit], bodies=bodies)

    def count(self, query: Query, *, limit: int) -> int:
        """See `LogReader`."""
        return len(self._matching(query)[:limit])

    def hopeful(
        self, now: datetime, *, providers: Collection[str], after: Place, limit: int
    ) -> Slice:
        """Find nothing: a log in memory does not know the rows, and `due` finds all entries."""
        del now, providers, after, limit
        return Slice([], None)

    def due(
        self, now: datetime, kind: DueKind, *, providers: Collection[str], limit: int
    ) -> Sequence[int]:
        """See `LogReader`."""
        due = [each for each in self._due(now, providers) if each.outcome in kind.value]
        if kind is DueKind.MISSING:
            due.sort(key=attrgetter("received_at"), reverse=True)
        else:
            due.sort(key=_time_parked)
        return [each.id for each in due[:limit]]

    def take(self, ids: Collection[int], now: datetime) -> Sequence[StoredEntry]:
        """See `LogReader`."""
        taken = _group([each for each in self._due(now) if each.id in ids])
        for each in taken:
            later = retry_at(each.received_at, now)
            self._put(replace(each, retry_at=later, retries=each.retries + 1))
        return taken

    def count_retries(self, ids: Collection[int]) -> None:
        """See `LogReader`."""
        for each in self._matching(Query(ids=ids)):
            self._put(replace(each, retries=each.retries + 1))

    def expire(self, now: datetime, *, providers: Collection[str]) -> int:
        """See `LogReader`."""
        ended = [
            each
            for each in self._due(now, providers)
            if each.received_at < ended_before(now) and each.outcome in MISSING
        ]
        for each in ended[:BATCH]:
            self._put(replace(each, retry_at=None))
        return len(ended[:BATCH])

    def _due(self, now: datetime, providers: Collection[str] | None = None) -> list[StoredEntry]:
        """Return the due entries, of all or some providers, in the order of their ids."""
        return [
            each
            for each in self._matching(Query(parked=True))
            if each.retry_at
            and is_due(each.retry_at, now)
            and (providers is None or each.provider in {None, *providers})
        ]

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[StoredEntry]:
        """See `LogReader`."""
        entries = [each for each in self._matching(Query(parked=True)) if each.id > after]
        return _group([each for each in entries if each.message_id in message_ids])

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Prune in one batch."""
        over = [
            each
            for each in self._over(before, parked_before)
            if each.body is not None or not bodies_only
        ]
        for each in over:
            if bodies_only:
                self._put(replace(each, body=None, retry_at=None))
            else:
                del self.entries[each.fingerprint]
        yield len(over)

    def prunable(
        self, *, before: datetime | None, bodies_before: datetime | None, parked_before: datetime
    ) -> Prunable:
        """See `LogReader`."""
        entries = {each.id for each in self._over(before, parked_before)}
        bodies = {
            each.id for each in self._over(bodies_before, parked_before) if each.body is not None
        }
        return Prunable(len(entries), len(bodies - entries))

    def _over(self, before: datetime | None, parked_before: datetime) -> Sequence[StoredEntry]:
        """Return the entries that last arrived before a time and are no longer parked."""
        return [
            each
            for each in self._matching()
            if before is not None
            and each.last_received_at < before
            and (each.retry_at is None or each.received_at < parked_before)
        ]

    def forget(self, email: str) -> Forgotten:
        """See `LogReader`."""
        address = stored_recipient(email) or ""
        find = address_finder(address)
        entries, erased, waiting, unread, doubtful = 0, 0, [], [], []
        for each in self._matching():
            is_theirs = address and each.recipient == address
            found = Occurrence.NONE if each.body is None else find(each.body)
            if not is_theirs and found is not Occurrence.CERTAIN:
                if found is Occurrence.DOUBTFUL:
                    doubtful.append(each.id)
                elif each.body is not None and not is_searchable(each.body):
                    unread.append(each.id)
            elif is_theirs or each.recipient is None:
                self._put(replace(each, recipient=None, body=None, reason=None, retry_at=None))
                entries += 1
            elif each.retry_at is None:
                self._put(replace(each, body=None))
                erased += 1
            else:
                waiting.append(each.id)
        return Forgotten(entries, erased, tuple(waiting), tuple(unread), tuple(doubtful))

    def counts(self, since: datetime, bucket: timedelta) -> Counts:
        """Count all entries: there are no hourly counts."""
        counts: defaultdict[tuple[datetime, str, str, Result], list[bool]] = defaultdict(list)
        for each in self._matching(Query(since=since)):
            start = each.received_at - (each.received_at - _EPOCH) % bucket
            type_ = each.record_type if each.record_type in KNOWN_TYPES else OTHER
            reason = each.reason or ""
            reason = reason if reason in {"", *KNOWN_REASONS} else OTHER
            recovered = each.first_outcome is not Result.RECORDED is each.outcome
            counts[start, type_, reason, each.first_outcome].append(recovered)
        return Counts([Count(*key, len(each), sum(each)) for key, each in counts.items()], None)

    def recent(self, limit: int) -> Recent:
        """See `LogReader`."""
        newest = self.newest(Query(), limit=limit, bodies=False)
        last = max((each.last_received_at for each in newest), default=None)
        types = {each.record_type for each in newest if each.record_type}
        return Recent(last, Counter(each.outcome for each in newest), types)

    def deliveries(self, since: datetime, *, limit: int) -> Mapping[str, datetime]:
        """See `LogReader`."""
        query = Query(record_type="Delivery", outcome=Result.RECORDED, since=since)
        times = [
            (each.message_id, each.occurred_at)
            for each in reversed(self._matching(query))
            if each.message_id is not None and each.occurred_at is not None
        ]
        return dict(times[:limit])

    def bounds(self) -> tuple[int, int] | None:
        """See `LogReader`."""
        entries = self._matching()
        return (entries[0].id, entries[-1].id) if entries else None

    def first_id_since(self, at: datetime) -> int:
        """Return the lowest id of an arrival at `at` or later, or one past the last id."""
        later = self._matching(Query(since=at))
        return later[0].id if later else self._last_id + 1

    def backlog(self, now: datetime) -> Backlog:
        """See `LogReader`."""
        due = [each.retry_at for each in self._due(now) if each.retry_at and each.retry_at <= now]
        return Backlog(
            len(self._matching(Query(parked=True))),
            min(due, default=None),
            self.count(Query(expired=True), limit=MOST_EXPIRED),
        )

    def count_hours(self) -> bool:
        """Return False: there are no hourly counts."""
        return False

    def add_requests(self, counts: Mapping[tuple[RequestKind, datetime], int]) -> None:
        """See `LogReader`."""
        self._requests.update(counts)

    def requests(self, kind: RequestKind, since: datetime) -> Requests:
        """See `LogReader`."""
        hours = {
            hour: number
            for (each, hour), number in self._requests.items()
            if each is kind and hour >= since
        }
        return Requests(sum(hours.values()), min(hours, default=None), max(hours, default=None))

    def _matching(self, query: Query = Query()) -> list[StoredEntry]:  # noqa: B008 - frozen
        """Return the entries of a query, oldest first."""
        entries = sorted(self.entries.values(), key=attrgetter("id"))
        return [each for each in entries if query.matches(each)]

    def _put(self, entry: StoredEntry) -> None:
        self.entries[entry.fingerprint] = entry


def _time_parked(entry: StoredEntry) -> timedelta:
    """Return how long after its arrival the next retry is: longer after each retry."""
    assert entry.retry_at is not None  # noqa: S101 - of parked entries
    return entry.retry_at - entry.received_at


def _group(entries: Sequence[StoredEntry], *, bodies: bool = True) -> Sequence[StoredEntry]:
    """Return the leading entries whose bodies make one group, or all without bodies."""
    if not bodies:
        return [replace(each, body=None) for each in entries]
    return entries[: len(within_size((each.id, len(each.body or "")) for each in entries))]
