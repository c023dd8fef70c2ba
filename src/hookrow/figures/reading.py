"""The overview made at once, by who has the time to wait for it: the command line."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from hookrow.figures.counting import counted
from hookrow.figures.overview import Overview, overview
from hookrow.figures.period import Period
from hookrow.figures.tally import listened
from hookrow.stores import Store
from hookrow.stores.log import WIDEST, Cell, Grain, LogReader


def read(store: Store, log: LogReader, period: Period, now: datetime) -> Overview:
    """Count what came in a period up to now, and the rows. Raises a `StoreError`."""
    cells: Counter[Cell] = Counter()
    last = (log.bounds() or (1, 0))[1]
    grain: Grain = "minute" if period is Period.HOUR else "hour"
    for first in range(log.reached(period.starts(now)[0]), last + 1, WIDEST):
        cells.update(log.tally(first, min(first + WIDEST - 1, last), grain))
    return overview(
        cells,
        period,
        now,
        complete=1.0,
        heard=listened(log, last, now, parked=log.count_parked()),
        counts=counted(store, now),
    )
