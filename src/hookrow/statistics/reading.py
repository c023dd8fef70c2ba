"""The overview made at once, by who has the time to wait for it: the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from hookrow.statistics.counting import counted
from hookrow.statistics.overview import Overview, overview
from hookrow.statistics.period import Period
from hookrow.statistics.tally import listened
from hookrow.stores import Store
from hookrow.stores.log import WIDEST, Cell, Grain, LogReader


def read(store: Store, period: Period, now: datetime) -> Overview:
    """Count what came in a period up to now, and the rows. Raises a `StoreError`."""
    log = store.log
    return overview(
        {} if log is None else _cells(log, period, now),
        period,
        now,
        complete=1.0,
        logged=log is not None,
        heard=None if log is None else listened(log, now, parked=log.count_parked()),
        counts=counted(store, now),
    )


def _cells(log: LogReader, period: Period, now: datetime) -> Mapping[Cell, int]:
    cells: Counter[Cell] = Counter()
    last = (log.bounds() or (1, 0))[1]
    grain: Grain = "minute" if period is Period.HOUR else "hour"
    for first in range(log.reached(period.starts(now)[0]), last + 1, WIDEST):
        cells.update(log.tally(first, min(first + WIDEST - 1, last), grain))
    return cells
