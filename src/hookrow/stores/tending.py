"""Going through a log to change it: in batches, so that it holds nobody up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from hookrow.stores import Conflict

T = TypeVar("T")

BATCH = 1000
"""In ids; the widest range that one statement changes."""

TRIES = 5
"""How often a batch is tried that meets writers, who lock entries in another order."""

PRUNE_LOCK = 0x686F6F6B70
"""Of PostgreSQL's advisory locks, the one that who prunes holds: "hookp"."""


def batches(bounds: tuple[int, int] | None, work: Callable[[int, int], T]) -> Iterator[T]:
    """Do the work for each range of ids, oldest first; yield what it returns.

    Where another transaction is in the way it is tried again.
    """
    first, last = bounds or (1, 0)
    for low in range(first, last + 1, BATCH):
        yield _insist(work, low, low + BATCH - 1)


def pruned(
    bounds: tuple[int, int] | None,
    work: Callable[[int, int], tuple[int, datetime | None] | None],
    before: datetime,
) -> Iterator[int]:
    """Prune each range of ids, oldest first; yield how many of each were.

    `work` returns also when the oldest that is left came, and None while another prunes.
    """
    for done in batches(bounds, work):
        if done is None:
            return
        count, first = done
        yield count
        # Entries lie in the order in which they came.
        if first is not None and first >= before:
            return


def _insist(work: Callable[[int, int], T], low: int, high: int) -> T:
    for _ in range(TRIES - 1):
        with suppress(Conflict):
            return work(low, high)
    return work(low, high)
