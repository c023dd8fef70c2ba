"""Values of the log: the arguments and results of the methods of `sql._log.SQLLog`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

from hookrow._core.log_entry import (
    RECORD_TYPES,
    StoredEntry,
    stored_message_id,
    stored_recipient,
    stored_record_type,
)
from hookrow._core.result import MISSING, PARKED, Result
from hookrow._core.sizes import WIDEST_CHARACTER, leading

HIGHEST_ID = 2**63 - 1
"""The highest possible id."""


IDS_PER_BATCH = 1000
"""The number of ids in the widest range that one statement changes."""

LONGEST_SPOOL_DELAY = timedelta(days=1)
"""The longest delay in a spool after which an entry is still found by its time of arrival."""

MOST_EXPIRED = 100_000
"""The highest number of expired entries that is counted."""

MOST_COUNTED = 100_000
"""The largest number of entries not in the hourly counts that `SQLLog.counts` reads."""

KNOWN_TYPES = frozenset(RECORD_TYPES.values())

OTHER = "other"
"""The name of every other record type or reason in counts, and of every other type in a query."""

_MAX = datetime.max.replace(tzinfo=UTC)


class Count(NamedTuple):
    """The number of entries that arrived in a time bucket, and how many of them have recovered.

    `at` is the start of the bucket, in UTC. `record_type` and `reason` are known values or `OTHER`;
    `reason` is empty if there is none. `entry` is the name of the receiver's entry, or empty. Log
    entries have recovered if they were refused at first and recorded later.
    """

    at: datetime
    record_type: str
    reason: str
    first_outcome: Result
    entry: str
    entries: int
    recovered: int


class Counts(NamedTuple):
    """Counts of a period; `complete_since` is None if they include all entries of the period."""

    counts: Sequence[Count]
    complete_since: datetime | None


class Recent(NamedTuple):
    """The last arrival of the newest entries, and their number by present outcome.

    `types` are their record types, and `entries` the names of the receiver's entries that received
    them.
    """

    last_received: datetime | None
    outcomes: Mapping[Result, int]
    types: Collection[str]
    entries: Collection[str]


class RequestKind(Enum):
    """Requests that are counted by hour beside the log's entries.

    No sum of entries includes them, because no entry has one of the values as its first outcome.
    """

    MISSING_SECRET = "missing secret"  # noqa: S105 - a name
    """Requests that got a 401 because they had no secret or signature."""

    WRONG_SECRET = "wrong secret"  # noqa: S105 - a name
    """Requests that got a 401 for any other reason, most often because of another secret."""

    EXPIRED = "expired"
    """Requests that got a 401 because they were signed too long ago, or in the future."""

    OLD_SECRET = "old secret"  # noqa: S105 - a name
    """Requests with a valid secret that is not the newest."""

    UNAVAILABLE = "unavailable"
    """Notifications that got a 503 because they could not be recorded."""


UNAUTHENTIC = (RequestKind.WRONG_SECRET, RequestKind.MISSING_SECRET, RequestKind.EXPIRED)
"""The requests without a valid secret."""


class RequestHour(NamedTuple):
    """What requests are counted by: kind, receiver's entry, and hour of arrival, in UTC.

    `entry` is the name, or empty if the receiver has a single provider.
    """

    kind: RequestKind
    entry: str
    hour: datetime


class Requests(NamedTuple):
    """The number of requests of a kind, and the hours of the first and the last one, in UTC."""

    number: int
    first: datetime
    last: datetime


class Origin(NamedTuple):
    """The names of the receiver's entry and of the provider that an entry of the log contains."""

    entry: str | None
    provider: str | None


class Waiting(NamedTuple):
    """Parked and expired entries: their numbers, and the planned time of the most overdue retry.

    `to_unknown` is the number of expired entries whose subscriber was not found.
    """

    parked: int
    oldest_due: datetime | None
    expired: int
    to_unknown: int


class DueKind(Enum):
    """Due entries by the outcome of their last attempt, in the order in which they are retried."""

    FAILING = frozenset(PARKED - MISSING)
    """The dispatch belongs to another person, or the database failed: fewest retries first."""

    MISSING = frozenset(MISSING)
    """A row was missing: youngest first."""


class RetryCursor(NamedTuple):
    """A position among the parked entries, which are in the order of their next retry."""

    retry_at: datetime
    id: int


START = RetryCursor(datetime.fromtimestamp(0, UTC), 0)
"""The position before all entries."""


class Slice(NamedTuple):
    """The ids of entries found in a part of the log, and its end; None at the end of the log."""

    ids: Sequence[int]
    end: RetryCursor | None


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

    `expired` is the number of entries that `Query(expired=True)` selects, at most `MOST_EXPIRED`.
    """

    parked: int
    oldest_due: datetime | None
    expired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects the entries that match every condition that is not None.

    `since` and `until` limit the first arrival; `until` is excluded. `parked` selects entries that
    wait for a retry, `expired` those that are neither recorded nor retried any more, but can be
    replayed, and `posted` those that a provider posted, in contrast to manual changes and events
    from its API. `changes` selects those that have changed a suppression, whatever their type is:
    every type that suppresses has a reason. `ids` may be a range. With `until`, a database skips
    entries that a spool delayed by more than `LONGEST_SPOOL_DELAY`. The `record_type` `OTHER`
    selects entries without a type, and those of every type that is not known. `entry` is the name
    of the receiver's entry.
    """

    ids: Collection[int] | None = None
    outcome: Result | None = None
    first_outcome: Result | None = None
    reason: str | None = None
    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = None
    entry: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    parked: bool = False
    expired: bool = False
    posted: bool = False
    changes: bool = False

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
            "entry": self.entry,
        }
        return {name: value for name, value in conditions.items() if value is not None}


def id_range(
    query: Query,
    first_id_since: Callable[[datetime], int],
    *,
    after: int = 0,
    before: int | None = None,
) -> tuple[int, int]:
    """Return the lowest and the highest id that a query may select between two other ids.

    `first_id_since` is the method of `SQLLog`, called only if it may narrow the range.
    """
    low, high = after + 1, HIGHEST_ID if before is None else before - 1
    if query.ids is not None:
        return low, high
    if query.since is not None and not after:
        low = first_id_since(query.since)
    if query.until is not None and before is None and query.until <= _MAX - LONGEST_SPOOL_DELAY:
        high = first_id_since(query.until + LONGEST_SPOOL_DELAY) - 1
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


class RecordedChange(NamedTuple):
    """An entry of the log that changed rows, and the cursor after which the next change follows.

    The entry is as it is now: it may have been refused since, or erased.
    """

    cursor: int
    entry: StoredEntry
