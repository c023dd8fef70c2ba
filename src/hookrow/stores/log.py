"""Reading and tending the log: a protocol beside the store's, which only writes.

What a log in a database needs for it, whatever library asks the database, is here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, Protocol, TypeAlias

from hookrow.entry import Ending, Logged, kept_message_id, kept_recipient, kept_record_type
from hookrow.sizes import leading

HIGHEST = 2**63 - 1
"""The highest id that there can be."""

WIDEST = 50_000
"""In ids; the widest range that one statement counts."""

WIDEST_CHARACTER = 4
"""In bytes; what a character of a string takes in memory at most (PEP 393)."""

PORTION = 64
"""In entries; how many bodies of a list are read at once, at most."""

LATE = timedelta(days=1)
"""How long a spool may hold back what is still found by when it came."""

_LAST = datetime.max.replace(tzinfo=UTC) - LATE

Grain: TypeAlias = Literal["hour", "minute"]
"""How exactly it is counted when something came."""

LENGTHS: Mapping[Grain, int] = {"hour": len("2026-03-04 05"), "minute": len("2026-03-04 05:06")}
"""How much of a time, as SQLite has it, a grain leaves."""


class Cell(NamedTuple):
    """What is counted together: when it came, its type, and how it ended.

    `at` is the start of the hour or the minute, in UTC.
    """

    at: datetime
    record_type: str | None
    outcome: Ending


class Ended(NamedTuple):
    """How many entries ended in one way, and when the last of those came."""

    number: int
    last: datetime


class Probe(NamedTuple):
    """The entry at an id, or the next: when it came, and when it ended as it did."""

    id: int
    received_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which entries are meant: those that match all that is not None.

    `since` is when they came first, or later, and `until` before when; `parked` those
    that are tried again. `ids` may be a range. With `until` a database passes over what
    a spool held back for longer than `LATE`.
    """

    ids: Collection[int] | None = None
    outcome: Ending | None = None
    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    parked: bool = False

    @property
    def equal(self) -> Mapping[str, object]:
        """What a column has to equal, by its name."""
        wanted = {
            "outcome": self.outcome,
            "record_type": kept_record_type(self.record_type),
            "recipient": kept_recipient(self.recipient),
            "message_id": kept_message_id(self.message_id),
        }
        return {name: value for name, value in wanted.items() if value is not None}

    @property
    def begin(self) -> datetime | None:
        """When what is meant was kept, at the earliest; None where nothing says, or `ids` do."""
        return self.since if self.ids is None else None

    @property
    def end(self) -> datetime | None:
        """When all that is meant had been kept; None where nothing says, or `ids` do."""
        if self.until is None or self.ids is not None or self.until > _LAST:
            return None
        return self.until + LATE

    def matches(self, entry: Logged) -> bool:
        """Tell whether an entry is meant."""
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
    """Return the lowest id that may be meant and the highest, for pages before an id or after one.

    `reached` is `LogReader.reached`, which is asked only where it can tell.
    """
    low, high = after + 1, HIGHEST if before is None else before - 1
    if query.begin is not None and not after:
        low = reached(query.begin)
    if query.end is not None and before is None:
        high = reached(query.end) - 1
    return low, high


def reached(at: datetime, bounds: tuple[int, int], probe: Callable[[int], Probe | None]) -> int:
    """Return what `LogReader.reached` does, from some two dozen probes of the primary key.

    Entries lie in the order in which they were kept. That was when they came or later,
    and no later than they ended: what came late, or was tried again, leads to a lower id.
    """
    low, high = bounds[0], bounds[1] + 1
    while low < high:
        middle = (low + high) // 2
        found = probe(middle)
        if found is None or max(found.received_at, found.ended_at) >= at:
            high = middle
        else:
            low = found.id + 1
    return low


def within_size(sizes: Iterable[tuple[int, int | None]]) -> Sequence[int]:
    """Return the leading ids whose bodies make one group, at least one id.

    `sizes` has the size of each body, in characters or in bytes of UTF-8: in memory either may
    take `WIDEST_CHARACTER` bytes.
    """
    group = leading(sizes, lambda each: WIDEST_CHARACTER * (each[1] or 0))
    return [id_ for id_, _ in group]


def moment(start: str | datetime) -> datetime:
    """Read the start of an hour or a minute in UTC: SQLite's text, or PostgreSQL's time."""
    found = datetime.fromisoformat(start) if isinstance(start, str) else start
    return found.replace(tzinfo=UTC)


class LogReader(Protocol):
    """The log of a store. Each call is a transaction of its own; they raise a `StoreError`.

    A body may be large, so methods that return bodies return fewer entries than `limit` if the
    bodies would make more than a group (`within_size`). Only an empty result means that there are
    no more. Without `bodies`, `body` is None in each entry, and `limit` alone counts.
    """

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the newest entries, newest first; of lower ids than `before`, to page on."""

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the oldest entries, oldest first; of higher ids than `after`, to page on."""

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, longest due first, and put off when to try again.

        They are fewer than `limit` if no more are due, or if their bodies are large. What
        another process takes at the same time is left to it.
        """

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first, without bodies.

        Found by the fingerprint, whatever the size of the log: what set a time of a row
        happened then.
        """

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first; `after` an id, to page on."""

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete what came last before then, or only the bodies; yield how many, batch by batch.

        What is parked stays until it is too old to be tried again.
        """

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries.

        Bodies that could not be read are searched for the address, as a JSON string.
        """

    def ends(self, first: int, last: int) -> Mapping[Ending, Ended]:
        """Count the entries from one id to another by how they ended."""

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id; None of an empty log."""

    def reached(self, at: datetime) -> int:
        """Return an id that is at most that of whatever came at that time or later.

        In a log whose entries were kept as they came it is the lowest such id, or one
        past the last.
        """

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another, `WIDEST` at the most, in one statement."""

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """Return the message id of each recorded delivery in a range, and when it happened."""

    def count_parked(self) -> int:
        """Return how many entries are tried again."""


def with_bodies(log: LogReader, listed: Sequence[Logged]) -> Iterator[Logged]:
    """Yield entries that were listed newest first without bodies, with their bodies.

    At most a group's worth is read at once. Entries that were deleted meanwhile are left out.
    """
    ids = [each.id for each in listed]
    while ids:
        found = log.newest(Query(ids=ids[:PORTION]), limit=PORTION)
        yield from found
        ids = [each for each in ids if each < found[-1].id] if found else ids[PORTION:]
