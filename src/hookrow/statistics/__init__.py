"""The figures of a store: of its log and of its rows, counted in the background."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from time import monotonic

from hookrow.concurrency import PeriodicTask, reset_after_fork
from hookrow.statistics.counting import Counting
from hookrow.statistics.overview import Counts, Delays, Heard, Overview, overview
from hookrow.statistics.period import Period
from hookrow.statistics.searching import Found, search
from hookrow.statistics.tally import Tally
from hookrow.stores import Store, StoreError
from hookrow.stores.log import Query

__all__ = ["Counts", "Delays", "Figures", "Found", "Heard", "Overview", "Period"]

LOOK = 1.0
"""In seconds; how long it waits until it looks for what is new."""

ASKED = 600.0
"""In seconds; how long after it was asked for nothing more is counted."""

PATIENCE = 1.5
"""In seconds; how long who asks first waits, so as not to see nothing, or what is long past."""


class Figures:
    """The figures of a store, made in two threads as long as somebody asks for them.

    They are in the memory of this process: to ask costs no statement, and what is told
    is true as of a moment ago. The threads start with the first question.
    """

    _tally: Tally | None
    _counting: Counting

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked = 0.0
        self.reset()
        reset_after_fork(self)
        self._threads = [
            PeriodicTask(self._tallied, seconds=LOOK, name="reading of the log"),
            PeriodicTask(self._counted, seconds=LOOK, name="counting of rows"),
        ]

    def overview(self, period: Period, now: datetime) -> Overview:
        """Return the figures of a period up to now, as far as they are known."""
        self._ask()
        start = period.starts(now)[0]
        return overview(
            self._tally.cells(start) if self._tally else {},
            period,
            now,
            complete=self._tally.complete(start, now) if self._tally else 1.0,
            logged=self._tally is not None,
            heard=self._tally.heard if self._tally else None,
            counts=self._counting.counts,
        )

    def counts(self) -> Counts | None:
        """Return what was counted in the host's tables; None before the first time."""
        self._ask()
        return self._counting.counts

    @property
    def fault(self) -> StoreError | None:
        """What was in the way when it was last read or counted; None where nothing was."""
        faults = [*self._faults.values()]
        return faults[0] if faults else None

    def search(self, query: Query, *, before: int | None = None, limit: int) -> Found:
        """Look for the newest entries, for no longer than a page may take; see `searching.search`.

        By a type or an outcome what ended otherwise just now may be missed, until that part
        of the log is counted anew: some seconds, in a log of millions some minutes. A store
        without a log has no entries.
        Raises a `StoreError`.
        """
        if self._store.log is None or self._tally is None:
            return Found([], None)
        self._ask(patience=0.0)
        runs = partial(self._tally.runs, query)
        return search(self._store.log, query, before=before, limit=limit, runs=runs)

    def close(self, timeout: float | None = None) -> None:
        """Count no more; wait `timeout` seconds for each thread."""
        for thread in self._threads:
            thread.close(timeout)

    def reset(self) -> None:
        """Begin anew: nothing counted."""
        self._tally = Tally(self._store.log) if self._store.log is not None else None
        self._counting = Counting(self._store)
        self._faults: dict[Callable[[datetime], None], StoreError] = {}

    def _ask(self, *, patience: float = PATIENCE) -> None:
        if self._tally is not None and not self._wanted():
            self._tally.ready.clear()
        self._asked = monotonic()
        for thread in self._threads:
            thread.start()
        if self._tally is not None:
            self._tally.ready.wait(patience)

    def _tallied(self) -> None:
        if self._tally is not None:
            self._do(self._tally.work)

    def _counted(self) -> None:
        self._do(self._counting.work)

    def _do(self, work: Callable[[datetime], None]) -> None:
        """Do the work where somebody wants it, and keep what was in its way."""
        if not self._wanted():
            return
        try:
            work(datetime.now(UTC))
        except StoreError as error:
            self._faults[work] = error
            raise
        self._faults.pop(work, None)

    def _wanted(self) -> bool:
        return monotonic() - self._asked < ASKED
