"""Looking through a long log for a page's worth, for no longer than a page may take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeAlias

from hookrow.core.log_entry import StoredEntry
from hookrow.stores.log import LogReader, Query, span

BUDGET = 0.05
"""In seconds; how long it looks, but for the statement that is at work then."""

NARROWEST = 5000
"""In ids; how many are looked through first, and twice as many after each that is quick."""

QUICK = BUDGET / 4
"""In seconds."""

Runs: TypeAlias = Callable[[int, int], Iterable[tuple[int, int]]]
"""Tells of a range of ids the ranges in it that need to be looked through, newest first."""


@dataclass(frozen=True, slots=True)
class Found:
    """Entries, newest first, and the id before which to look on; None where none is left.

    There may be fewer than asked for, or none, and yet more before that id.
    """

    entries: Sequence[StoredEntry]
    before: int | None


def everywhere(first: int, last: int) -> Iterable[tuple[int, int]]:
    """Look through all of it."""
    return [(first, last)]


def search(
    log: LogReader,
    query: Query,
    *,
    before: int | None = None,
    limit: int,
    runs: Runs = everywhere,
) -> Found:
    """Look for the newest entries of lower ids than `before`, as long as the budget lasts.

    They have no bodies. For those that are parked there is an index, which leads to them at once.
    Raises a `StoreError`.
    """
    if query.parked:
        parked = log.newest(query, before=before, limit=limit, bodies=False)
        return Found(parked, parked[-1].id if len(parked) == limit else None)
    until, width = monotonic() + BUDGET, NARROWEST
    first, last = _bounds(log, query, before)
    found: list[StoredEntry] = []
    for low, high in runs(first, last):
        rest = high
        while rest >= low:
            start, begin = max(rest - width + 1, low), monotonic()
            window = replace(query, ids=range(start, rest + 1))
            found += log.newest(window, limit=limit - len(found), bodies=False)
            if len(found) == limit:
                return Found(found, _unless_first(found[-1].id, first))
            if (now := monotonic()) >= until:
                return Found(found, _unless_first(start, first))
            rest = start - 1
            width *= 2 if now - begin < QUICK else 1
    return Found(found, None)


def _bounds(log: LogReader, query: Query, before: int | None) -> tuple[int, int]:
    """Return the ids between which all that is meant lies."""
    first, last = log.bounds() or (1, 0)
    low, high = span(query, log.reached, before=before)
    return max(first, low), min(last, high)


def _unless_first(id_: int, first: int) -> int | None:
    return id_ if id_ > first else None
