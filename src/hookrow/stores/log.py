"""Reading and changing the log: a protocol apart from the store's, which only writes.

It also contains what all logs in a database need, whatever library executes their SQL.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol, TypeAlias

from hookrow.core.log_entry import (
    PARKED_FOR,
    Result,
    StoredEntry,
    stored_message_id,
    stored_recipient,
    stored_record_type,
)
from hookrow.core.sizes import leading

HIGHEST = 2**63 - 1
"""The highest possible id."""

WIDEST = 50_000
"""In ids; the widest range that one statement counts."""

WIDEST_CHARACTER = 4
"""In bytes; the most that a character of a string takes in memory (PEP 393)."""

PORTION = 64
"""The most bodies that `with_bodies` reads at once."""

LATE = timedelta(days=1)
"""How long a spool may delay an entry that is still found by its time of arrival."""

_MAX = datetime.max.replace(tzinfo=UTC)

Grain: TypeAlias = Literal["hour", "minute"]
"""The precision of times of arrival in counts."""


class Cell(NamedTuple):
    """Entries that are counted together. `at` is the start of an hour or a minute, in UTC."""

    at: datetime
    record_type: str | None
    outcome: Result


class Ended(NamedTuple):
    """How many entries have one outcome, and when the last of them arrived."""

    number: int
    last: datetime


class Probe(NamedTuple):
    """The first entry from an id on."""

    id: int
    received_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Selects the entries that match every condition that is not None.

    `since` and `until` limit the first arrival; `until` is excluded. `parked` selects entries
    that are to be retried. `ids` may be a range. With `until`, a database skips entries that a
    spool delayed by more than `LATE`.
    """

    ids: Collection[int] | None = None
    outcome: Result | None = None
    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    parked: bool = False

    @property
    def equal(self) -> Mapping[str, object]:
        """The values of columns, by name."""
        wanted = {
            "outcome": self.outcome,
            "record_type": stored_record_type(self.record_type),
            "recipient": stored_recipient(self.recipient),
            "message_id": stored_message_id(self.message_id),
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def matches(self, entry: StoredEntry) -> bool:
        """Return whether the query selects the entry."""
        return (
            (self.ids is None or entry.id in self.ids)
            and (self.since is None or entry.received_at >= self.since)
            and (self.until is None or entry.received_at < self.until)
            and (not self.parked or entry.retry_at is not None)
            and all(getattr(entry, name) == value for name, value in self.equal.items())
        )


def span(
    query: Query,
    reached: Callable[[datetime], int],
    *,
    after: int = 0,
    before: int | None = None,
) -> tuple[int, int]:
    """Return the lowest and the highest id that a query may select, from one id to another.

    `reached` is `LogReader.reached`; it is called only if it may narrow the range.
    """
    low, high = after + 1, HIGHEST if before is None else before - 1
    if query.ids is not None:
        return low, high
    if query.since is not None and not after:
        low = reached(query.since)
    if query.until is not None and before is None and query.until <= _MAX - LATE:
        high = reached(query.until + LATE) - 1
    return low, high


def reached(
    at: datetime, bounds: tuple[int, int] | None, probe: Callable[[int], Probe | None]
) -> int:
    """Return the result of `LogReader.reached` after some two dozen probes of the primary key.

    Entries are in the order in which they were written: at their arrival or later, but no later
    than `ended_at`. Entries that were written late or were retried lead to a lower id.
    """

    def written_by(id_: int) -> datetime:
        found = probe(id_)
        return max(found.received_at, found.ended_at) if found else _MAX

    first, last = bounds or (1, 0)
    return first + bisect_left(range(first, last + 1), at, key=written_by)


def within_size(sizes: Iterable[tuple[int, int | None]]) -> Sequence[int]:
    """Return the leading ids whose bodies make one group, at least one id.

    A size is in characters or in bytes of UTF-8; either may take `WIDEST_CHARACTER` bytes in
    memory.
    """
    group = leading(sizes, lambda each: WIDEST_CHARACTER * (each[1] or 0))
    return [id_ for id_, _ in group]


class LogReader(Protocol):
    """The log of a store. Each call is its own transaction, and may raise a `StoreError`.

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

    def due(self, now: datetime, *, limit: int) -> Sequence[StoredEntry]:
        """Take parked entries that are due, longest due first, and postpone their next retry.

        Returns fewer than `limit` if no more are due, or if their bodies are large. Entries that
        another process is taking are skipped.
        """

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[StoredEntry]:
        """Return entries of events within that second, oldest first, without bodies.

        They are found by the fingerprint, whatever the size of the log.
        """

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[StoredEntry]:
        """Return the parked entries of these messages after an id, oldest first."""

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete entries, or only bodies, that last arrived earlier; yield the count per batch.

        Parked entries are kept until they are too old for another retry.
        """

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return the number of entries.

        Bodies that could not be read are searched for the address as a JSON string.
        """

    def ends(self, first: int, last: int) -> Mapping[Result, Ended]:
        """Count the entries from one id to another by outcome."""

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id, or None if the log is empty."""

    def reached(self, at: datetime) -> int:
        """Return an id that is not higher than any entry's that arrived at that time or later.

        If entries were written as they arrived, it is the lowest such id, or one past the last.
        """

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another, at most `WIDEST`, in one statement."""

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """Return message ids and event times of the recorded deliveries in a range of ids."""

    def count_parked(self) -> int:
        """Return the number of parked entries."""

    def count_hours(self) -> bool:
        """Add a chunk of entries to the hourly counts, where the log has such.

        Returns whether the next chunk can be counted now. Each entry is counted once, some time
        after it was written.
        """


def with_bodies(log: LogReader, listed: Sequence[StoredEntry]) -> Iterator[StoredEntry]:
    """Yield entries that were listed newest first without bodies, with their bodies.

    Reads at most a group's worth at once. Entries that have been deleted are left out.
    """
    ids = [each.id for each in listed]
    while ids:
        found = log.newest(Query(ids=ids[:PORTION]), limit=PORTION)
        yield from found
        ids = [each for each in ids if each < found[-1].id] if found else ids[PORTION:]


def prune_old(
    log: LogReader, *, keep: timedelta | None, keep_bodies: timedelta | None
) -> Iterator[int]:
    """Delete entries and bodies by the age of their last arrival; yield the number in each batch.

    None keeps them forever. Parked notifications are kept until their retries end. Raises a
    `StoreError`.
    """
    now = datetime.now(UTC)
    for age, bodies_only in ((keep, False), (keep_bodies, True)):
        if age is not None:
            yield from log.prune(
                before=now - age, parked_before=now - PARKED_FOR, bodies_only=bodies_only
            )
