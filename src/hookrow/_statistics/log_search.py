"""Searches a log of any length within a time limit: for entries, their number, or beginnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from hookrow._core.log_entry import StoredEntry, stored_message_id, stored_recipient
from hookrow._describe import pluralize
from hookrow.stores._log import Query, id_range

if TYPE_CHECKING:
    from hookrow.stores.sql._log import SQLLog

BUDGET = 0.25
"""Seconds after which a search begins no further statement."""

COUNT_BUDGET = 0.08
"""Seconds after which counting begins no further statement."""

MOST_RESULTS = 10_000
"""The number up to which entries are counted."""

NARROWEST = 5000
"""The number of ids in the range of the first statement. It doubles after each one that took a
quarter of the budget or less."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Entries, newest first, and the id before which to continue; None if there are no more.

    There may be fewer entries than requested, or even none, although more exist before that id.
    """

    entries: Sequence[StoredEntry]
    before: int | None


class ResultCount(NamedTuple):
    """A number of results; there may be more unless it is `exact`."""

    number: int
    exact: bool

    def describe(self, noun: str) -> str:
        """Return the number and the noun: `10,000+ notifications` if it is not exact."""
        return pluralize(self.number, noun) if self.exact else f"{self.number:,}+ {noun}s"


def search(log: SQLLog, query: Query, *, before: int | None = None, limit: int) -> SearchResult:
    """Return the newest entries that match, without bodies, as far as the time limit allows.

    With `before`, only entries of lower ids are searched. Raises a `StoreError`.
    """
    if query.parked:
        parked = log.newest(query, before=before, limit=limit, bodies=False)
        return SearchResult(parked, parked[-1].id if len(parked) == limit else None)
    until, entries = monotonic() + BUDGET, list[StoredEntry]()
    first, last = _bounds(log, query, before)
    for ids in _windows(first, last, BUDGET / 4):
        window = replace(query, ids=ids)
        entries += log.newest(window, limit=limit - len(entries), bodies=False)
        low = entries[-1].id if len(entries) == limit else ids.start
        if len(entries) == limit or monotonic() >= until:
            return SearchResult(entries, low if low > first else None)
    return SearchResult(entries, None)


def count(log: SQLLog, query: Query) -> ResultCount:
    """Count the entries that match, newest first, as far as the limits allow.

    Raises a `StoreError`.
    """
    if query.parked:
        number = log.count(query, limit=MOST_RESULTS + 1)
        return ResultCount(min(number, MOST_RESULTS), exact=number <= MOST_RESULTS)
    until, number = monotonic() + COUNT_BUDGET, 0
    first, last = _bounds(log, query, None)
    for ids in _windows(first, last, COUNT_BUDGET / 4):
        number += log.count(replace(query, ids=ids), limit=MOST_RESULTS + 1 - number)
        if number > MOST_RESULTS:
            return ResultCount(MOST_RESULTS, exact=False)
        if monotonic() >= until:
            return ResultCount(number, exact=ids.start == first)
    return ResultCount(number, exact=True)


def find_beginnings(log: SQLLog, name: str, text: str, *, limit: int) -> Sequence[str]:
    """Return recipients or message ids of the log that begin with a text, in order.

    `name` is that of the column. Those that an index has, and then those of the newest entries, are
    found, as far as the time limit allows. Raises a `StoreError`.
    """
    stored = stored_recipient(text) if name == "recipient" else stored_message_id(text)
    if not stored:
        return []
    until = monotonic() + BUDGET
    found = {*log.beginnings(name, stored, limit=limit)}
    first, last = log.bounds() or (1, 0)
    for ids in _windows(first, last, BUDGET / 4):
        if len(found) >= limit or monotonic() >= until:
            break
        found.update(log.beginnings(name, stored, ids, limit=limit))
    return sorted(found)[:limit]


def _windows(first: int, last: int, quick: float) -> Iterator[range]:
    """Yield ranges of ids, the highest first; the next is twice as wide after a quick statement."""
    width = NARROWEST
    while last >= first:
        low, begin = max(last - width + 1, first), monotonic()
        yield range(low, last + 1)
        last = low - 1
        width *= 2 if monotonic() - begin < quick else 1


def _bounds(log: SQLLog, query: Query, before: int | None) -> tuple[int, int]:
    """Return the lowest and the highest id of the entries that may match."""
    first, last = log.bounds() or (1, 0)
    low, high = id_range(query, log.first_id_since, before=before)
    return max(first, low), min(last, high)
