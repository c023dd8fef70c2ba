"""Searches a log of any length for a page of entries, within a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic

from hookrow.core.log_entry import StoredEntry
from hookrow.stores.log import LogReader, Query, span

BUDGET = 0.25
"""In seconds; after this time no further statement begins."""

NARROWEST = 5000
"""In ids; the range of the first statement. It doubles after each one that is quick."""

QUICK = BUDGET / 4
"""In seconds."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Entries, newest first, and the id before which to continue; None if there are no more.

    There may be fewer entries than requested, or none, and yet more before that id.
    """

    entries: Sequence[StoredEntry]
    before: int | None


def search(log: LogReader, query: Query, *, before: int | None = None, limit: int) -> SearchResult:
    """Return the newest entries that match, without bodies, as far as the time limit allows.

    With `before`, only entries of lower ids are searched. Raises a `StoreError`.
    """
    if query.parked:
        parked = log.newest(query, before=before, limit=limit, bodies=False)
        return SearchResult(parked, parked[-1].id if len(parked) == limit else None)
    until, width = monotonic() + BUDGET, NARROWEST
    first, last = _bounds(log, query, before)
    entries: list[StoredEntry] = []
    while last >= first:
        low, begin = max(last - width + 1, first), monotonic()
        window = replace(query, ids=range(low, last + 1))
        entries += log.newest(window, limit=limit - len(entries), bodies=False)
        if len(entries) == limit:
            low = entries[-1].id
        if len(entries) == limit or monotonic() >= until:
            return SearchResult(entries, low if low > first else None)
        last = low - 1
        width *= 2 if monotonic() - begin < QUICK else 1
    return SearchResult(entries, None)


def _bounds(log: LogReader, query: Query, before: int | None) -> tuple[int, int]:
    """Return the lowest and the highest id of the entries that may match."""
    first, last = log.bounds() or (1, 0)
    low, high = span(query, log.reached, before=before)
    return max(first, low), min(last, high)
