"""Counts of the host's tables: dispatches sent, delivered and opened; suppressed subscribers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hookrow.stores.census import ListCount

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

REASONS = 20
"""The largest number of reasons listed, because users can enter any text as a reason."""

DUE_AFTER, DUE_WITHIN = timedelta(hours=1), timedelta(days=7)
"""The ages between which a dispatch that is not delivered is counted as undelivered."""

OTHERS = "other reasons"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCounts:
    """The counts of all rows of the host's tables at `as_of`.

    `suppressed` counts subscribers by reason, of which the rarest are added up as `OTHERS`; None
    stands for no reason. `undelivered` are the dispatches that were sent more than `DUE_AFTER` and
    at most `DUE_WITHIN` ago and are not delivered; None if the time of sending is unknown.
    """

    as_of: datetime
    lists: Sequence[ListCount]
    suppressed: Mapping[str | None, int]
    undelivered: int | None = None

    @property
    def sent(self) -> int:
        """The number of dispatches that were sent."""
        return sum(each.sent for each in self.lists)

    @property
    def delivery_rate(self) -> float | None:
        """The share of sent dispatches that were delivered, from 0 to 1; None if none was sent."""
        return self._share(sum(each.delivered for each in self.lists))

    @property
    def open_rate(self) -> float | None:
        """The share of sent dispatches that were opened, from 0 to 1; None if none was sent."""
        return self._share(sum(each.opened for each in self.lists))

    def _share(self, part: int) -> float | None:
        return part / self.sent if self.sent else None


def count_tables(store: SQLStore, now: datetime) -> TableCounts:
    """Count all rows, which may take a long time. Raises a `StoreError`."""
    census = store.census
    return TableCounts(
        as_of=now,
        lists=census.lists(),
        suppressed=_frequent(census.suppressed()),
        undelivered=census.undelivered(now - DUE_WITHIN, now - DUE_AFTER),
    )


def _frequent(reasons: Mapping[str | None, int]) -> Mapping[str | None, int]:
    """Add up all but the most frequent reasons as `OTHERS`; an empty reason counts as None."""
    counts: Counter[str | None] = Counter()
    for reason, count in reasons.items():
        counts[reason or None] += count
    if len(counts) <= REASONS:
        return counts
    most = Counter(dict(counts.most_common(REASONS - 1)))
    most[OTHERS] += counts.total() - most.total()
    return most
