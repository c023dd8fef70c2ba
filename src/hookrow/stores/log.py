"""The protocol for reading and changing the log; the protocol of stores only writes entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple, Protocol

from hookrow.core.log_entry import (
    RECORD_TYPES,
    StoredEntry,
    stored_message_id,
    stored_recipient,
    stored_record_type,
)
from hookrow.core.optional import ALWAYS
from hookrow.core.result import MISSING, PARKED, Result
from hookrow.core.sizes import WIDEST_CHARACTER, leading

HIGHEST = 2**63 - 1
"""The highest possible id."""


BATCH = 1000
"""In ids; the widest range that one statement changes."""

LATE = timedelta(days=1)
"""The longest delay in a spool after which an entry is still found by its time of arrival."""

MOST_EXPIRED = 100_000
"""The highest number of expired entries that is counted."""

MOST_COUNTED = 100_000
"""The largest number of entries not in the hourly counts that `LogReader.counts` reads."""

KNOWN_TYPES = frozenset(RECORD_TYPES[kind] for kind in ALWAYS)

OTHER = "other"
"""The name of every other record type or reason in counts, and of every other type in a query."""

_MAX = datetime.max.replace(tzinfo=UTC)


class Count(NamedTuple):
    """The number of entries that arrived in a time bucket, and how many of them have recovered.

    `at` is the start of the bucket, in UTC. `record_type` and `reason` are known values or `OTHER`;
    `reason` is empty if there is none. Entries have recovered if they were refused at first and
    recorded later.
    """

    at: datetime
    record_type: str
    reason: str
    first_outcome: Result
    entries: int
    recovered: int


class Counts(NamedTuple):
    """Counts of a period; `complete_since` is None if they include all entries of the period."""

    counts: Sequence[Count]
    complete_since: datetime | None


class Recent(NamedTuple):
    """The last arrival of the newest entries, their number by present outcome, and their types."""

    last_received: datetime | None
    outcomes: Mapping[Result, int]
    types: Collection[str]


class RequestKind(Enum):
    """Requests that are counted by hour beside the log's entries.

    No sum of entries includes them, because no entry has one of the values as its first outcome.
    """

    UNAUTHENTIC = "unauthentic"
    """Requests without a valid secret."""

    OLD_SECRET = "old secret"  # noqa: S105 - a name
    """Requests with a valid secret that is not the newest."""


class Requests(NamedTuple):
    """The number of requests of a kind, and the hours of the first and the last one, in UTC."""

    number: int
    first: datetime | None
    last: datetime | None


class DueKind(Enum):
    """Due entries by the outcome of their last attempt, in the order in which they are retried."""

    FAILING = frozenset(PARKED - MISSING)
    """The dispatch belongs to another person, or the database failed: fewest retries first."""

    MISSING = frozenset(MISSING)
    """A row was missing: youngest first."""


class Place(NamedTuple):
    """A place among the parked entries, which are in the order of their next retry."""

    retry_at: datetime
    id: int


START = Place(datetime.fromtimestamp(0, UTC), 0)
"""The place before all entries."""


class Slice(NamedTuple):
    """The ids of entries found in a part of the log, and its end; None at the end of the log."""

    ids: Sequence[int]
    end: Place | None


class Forgotten(NamedTuple):
    """The result of erasing a person.

    `entries` is the number of entries of the person, and `bodies` the number of bodies of other
    entries that were erased because they contained the address. `waiting` are the ids of other
    entries whose bodies contain it, but are needed for a retry; `unread` are those of bodies that
    could not be searched, because they are compressed or binary; `doubtful` are those of bodies in
    which the address may be a part of another one.
    """

    entries: int = 0
    bodies: int = 0
    waiting: Sequence[int] = ()
    unread: Sequence[int] = ()
    doubtful: Sequence[int] = ()


class Backlog(NamedTuple):
    """The parked entries: their number, and the planned time of the most overdue retry.

    `expired` is the number of entries for which `has_expired` is true, at most `MOST_EXPIRED`.
    """

    parked: int
    oldest_due: datetime | None
    expired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects the entries that match every condition that is not None.

    `since` and `until` limit the first arrival; `until` is excluded. `parked` selects entries that
    wait for a retry, `expired` those that are neither recorded nor retried any more, and `posted`
    those that a provider posted, in contrast to manual changes and events from its API.
    `unaddressed` selects entries without a recipient, which no retry can record. `ids` may
    be a range. With `until`, a database skips entries that a spool delayed by more than `LATE`. The
    `record_type` `OTHER` selects entries without a type, and those of every type that is not known.
    """

    ids: Collection[int] | None = None
    outcome: Result | None = None
    first_outcome: Result | None = None
    reason: str | None = None
    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    parked: bool = False
    expired: bool = False
    posted: bool = False
    unaddressed: bool = False

    @property
    def other_types(self) -> bool:
        """Whether the type is none of `KNOWN_TYPES`, as in counts."""
        return self.record_type == OTHER

    @property
    def equal(self) -> Mapping[str, object]:
        """The values of columns, by name."""
        conditions = {
            "outcome": self.outcome,
            "first_outcome": self.first_outcome,
            "reason": self.reason,
            "record_type": None if self.other_types else stored_record_type(self.record_type),
            "recipient": stored_recipient(self.recipient),
            "message_id": stored_message_id(self.message_id),
        }
        return {name: value for name, value in conditions.items() if value is not None}

    def matches(self, entry: StoredEntry) -> bool:
        """Return whether the query selects the entry."""
        return (
            (self.ids is None or entry.id in self.ids)
            and (self.since is None or entry.received_at >= self.since)
            and (self.until is None or entry.received_at < self.until)
            and (not self.parked or entry.retry_at is not None)
            and (not self.expired or has_expired(entry))
            and (not self.posted or (entry.attempts > 0 and entry.provider is not None))
            and (not self.unaddressed or not entry.recipient)
            and not (self.other_types and entry.record_type in KNOWN_TYPES)
            and all(getattr(entry, name) == value for name, value in self.equal.items())
        )


def has_expired(entry: StoredEntry) -> bool:
    """Return whether an entry is neither recorded nor retried any more, but can be replayed."""
    return entry.outcome in PARKED and entry.retry_at is None and entry.body is not None


def id_range(
    query: Query,
    first_id_since: Callable[[datetime], int],
    *,
    after: int = 0,
    before: int | None = None,
) -> tuple[int, int]:
    """Return the lowest and the highest id that a query may select between two other ids.

    `first_id_since` is the method of `LogReader`, called only if it may narrow the range.
    """
    low, high = after + 1, HIGHEST if before is None else before - 1
    if query.ids is not None:
        return low, high
    if query.since is not None and not after:
        low = first_id_since(query.since)
    if query.until is not None and before is None and query.until <= _MAX - LATE:
        high = first_id_since(query.until + LATE) - 1
    return low, high


def within_size(sizes: Iterable[tuple[int, int | None]]) -> Sequence[int]:
    """Return the leading ids whose bodies make one group, at least one id.

    A size is in characters or in bytes of UTF-8; either may take `WIDEST_CHARACTER` bytes in
    memory.
    """
    group = leading(sizes, lambda each: WIDEST_CHARACTER * (each[1] or 0))
    return [id_ for id_, _ in group]


class Prunable(NamedTuple):
    """How many entries can be pruned, and of how many others the body."""

    entries: int
    bodies: int


class LogReader(Protocol):
    """The log of a store. Each call is a separate transaction, and may raise a `StoreError`.

    Bodies may be large, so methods that return bodies return fewer entries than `limit` if the
    bodies would exceed a group (`within_size`); only an empty result means that there are no
    more. Without `bodies`, each `body` is None, and only `limit` counts.
    """

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        """Return the newest entries, newest first; for the next page, those before an id."""

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        """Return the oldest entries, oldest first; for the next page, those after an id."""

    def count(self, query: Query, *, limit: int) -> int:
        """Return the number of entries, or `limit` if there are more."""

    def hopeful(
        self, now: datetime, *, providers: Collection[str], after: Place, limit: int
    ) -> Slice:
        """Find due entries that could be recorded now, among the next `limit` after a place.

        A suppression needs its subscriber, and every other notification the dispatch of the
        subscriber. Entries on which the database failed are omitted, because their rows prove
        nothing. The result is a good guess: some entries may be missing, and some may be refused.
        For `providers` and what is due, see `due`.
        """

    def due(
        self, now: datetime, kind: DueKind, *, providers: Collection[str], limit: int
    ) -> Sequence[int]:
        """Return the ids of due entries of a kind, in its order.

        They are those of the providers, and those without a provider. A retry that is planned
        implausibly far ahead is due, too; see `core.result.is_due`.
        """

    def take(self, ids: Collection[int], now: datetime) -> Sequence[StoredEntry]:
        """Take those of the entries that are due, count a retry, and postpone the next one.

        Entries that are too old for another retry after this one are no longer parked. Returns
        fewer if their bodies are large: the others are still due. Entries that another process is
        taking are skipped.
        """

    def count_retries(self, ids: Collection[int]) -> None:
        """Count a retry of each entry that is recorded again without being taken."""

    def expire(self, now: datetime, *, providers: Collection[str]) -> int:
        """End the retries of up to `BATCH` due entries without a row; return their number.

        They are too old even for the last retry; see `ended_before`.
        """

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[StoredEntry]:
        """Return the parked entries of these messages after an id, oldest first."""

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete entries, or only their bodies, that last arrived before a time, in batches.

        Yields the number in each batch. Parked entries that first arrived at `parked_before` or
        later are kept, because they may still be retried.
        """

    def prunable(
        self, *, before: datetime | None, bodies_before: datetime | None, parked_before: datetime
    ) -> Prunable:
        """Return what `prune` would delete now, and change nothing. None stands for no limit.

        `bodies_before` is the time of a second call, which deletes only bodies.
        """

    def forget(self, email: str) -> Forgotten:
        """Erase the address and the bodies of a person, and other bodies that contain the address.

        An entry whose recipient is not known is the person's if its body contains the address. The
        body of another person's entry is erased unless a retry needs it. A body in which the
        address may be a part of another one stays. See `core.erasure.address_finder`.
        """

    def counts(self, since: datetime, bucket: timedelta) -> Counts:
        """Count the entries that arrived since the start of a bucket; buckets begin in 1970.

        Buckets of whole hours are added up from the hourly counts, which outlive pruning, and the
        entries not included in them; shorter buckets only from entries. At most the newest
        `MOST_COUNTED` entries are read. All counts refer to the same moment.
        """

    def recent(self, limit: int) -> Recent:
        """Return a summary of the newest entries."""

    def deliveries(self, since: datetime, *, limit: int) -> Mapping[str, datetime]:
        """Return the times at which messages were delivered, by message id.

        These are from the newest recorded deliveries that arrived since then, among the newest
        `MOST_COUNTED` entries.
        """

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id, or None if the log is empty."""

    def first_id_since(self, at: datetime) -> int:
        """Return an id that is not higher than that of any entry that arrived at `at` or later.

        If entries were written as they arrived, it is the lowest id of such an entry, or one past
        the last id.
        """

    def backlog(self, now: datetime) -> Backlog:
        """Return the state of the parked entries."""

    def count_hours(self) -> bool:
        """Add a chunk of entries to the hourly counts, if the log has any.

        Return whether the next chunk can be counted now. Each entry is counted once, some time
        after it was written.
        """

    def add_requests(self, counts: Mapping[tuple[RequestKind, datetime], int]) -> None:
        """Add numbers of requests by kind and hour.

        They are stored beside the hourly counts and discarded if the log has none.
        """

    def requests(self, kind: RequestKind, since: datetime) -> Requests:
        """Return the requests of a kind in the hours that began since a time."""
