"""Draining the spool: what waits there is recorded once the database is back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic, sleep

from hookrow.entry import retry_at
from hookrow.notification import Arrival, Outcome, Recorded, Refusal
from hookrow.quiet import Quiet
from hookrow.replay import GROUP, PAUSE, Tell, record_late
from hookrow.retry import describe
from hookrow.spool import Spool, Spooled
from hookrow.stores import Store, StoreError

REST = 10.0
"""In seconds; how long what has to stay is left alone."""

FAILURES = 4
"""How many entries may fail in succession before the drain stops: the database is away.

The next call begins behind them, so that entries which keep failing hold up no others.
"""

DRAIN_EVERY = 2.0
"""In seconds; how often the drain tries the database."""

_UNAVAILABLE = Refusal.UNAVAILABLE.refused()
"""How it ends where nothing keeps it, and so nothing has counted it."""


class Drain:
    """Records what is in the spool, oldest first.

    `read` makes an arrival of a body and when it came; `tell` hears how they end.
    Where a sweep tries again what failed (`swept`), nothing that the log has stays here.
    """

    def __init__(
        self,
        spool: Spool,
        store: Store,
        read: Callable[[bytes, datetime], Arrival],
        tell: Tell,
        *,
        bodies: bool,
        swept: bool,
    ) -> None:
        self._spool = spool
        self._store = store
        self._read = read
        self._tell = tell
        self._bodies = bodies
        self._swept = swept
        self._resting_until = 0.0
        self._stopped_at = 0
        self._failures = 0
        self._fault: StoreError | None = None
        self._quiet = Quiet()

    def __call__(self) -> None:
        """Empty the spool, where no other process does.

        Raises a `StoreError`, or what the spool raises, where it stops.
        """
        if monotonic() < self._resting_until or not self._spool.after(0, limit=1):
            return
        with self._store.transaction():
            pass  # it raises where the database is still away
        with self._spool.drained() as alone:
            if alone:
                self._drain()

    def _drain(self) -> None:
        """Record all groups, beginning where the last call stopped.

        Raises a `StoreError` if an entry failed; those behind it are recorded all the same.
        """
        last, self._stopped_at = self._stopped_at, 0
        self._failures, self._fault = 0, None
        while group := self._spool.after(last, limit=GROUP):
            self._try(group)
            last = group[-1].id
            sleep(PAUSE)
        if self._fault is not None:
            raise self._fault

    def _try(self, group: Sequence[Spooled]) -> None:
        """Record a group, or one by one what fails together.

        Raises a `StoreError` if several fail in succession.
        """
        try:
            self._record(group)
        except StoreError as error:
            if len(group) > 1:
                for each in group:
                    self._try([each])
                return
            self._failures += 1
            self._fault = type(error)(f"{describe(self._arrival(group[0]))}: {error}")
            if self._failures == FAILURES:
                self._stopped_at = group[0].id
                raise self._fault from error
        else:
            self._failures = 0

    def _record(self, group: Sequence[Spooled]) -> None:
        """Record a group.

        Its attempts leave the spool first: a crash between may lose the count of some,
        but counts none twice.
        """
        arrivals = [self._arrival(each) for each in group]
        self._spool.take(group)
        try:
            outcomes = record_late(self._store, arrivals, bodies=self._bodies, quiet=self._quiet)
        except StoreError:
            self._spool.put_back(group)
            raise
        self._tell(arrivals, outcomes)
        ended, uncounted = [], []
        for spooled, arrival, outcome in zip(group, arrivals, outcomes, strict=True):
            if self._ends(arrival, outcome):
                ended.append(spooled)
            elif outcome == _UNAVAILABLE:
                uncounted.append(spooled)
        self._spool.remove(ended)
        self._spool.put_back(uncounted)
        if len(ended) < len(group):
            self._resting_until = monotonic() + REST

    def _arrival(self, spooled: Spooled) -> Arrival:
        return replace(
            self._read(spooled.body, spooled.received_at),
            live=False,
            attempts=spooled.attempts,
            last_received_at=spooled.last_received_at,
        )

    def _ends(self, arrival: Arrival, outcome: Outcome) -> bool:
        """Tell whether the spool is done with it; where no log has it say what was refused."""
        if isinstance(outcome, Recorded):
            return True
        match outcome.refusal:
            case Refusal.FAILED if self._swept:
                return True
            case Refusal.FAILED | Refusal.UNAVAILABLE:
                if retry_at(arrival.received_at, datetime.now(UTC)) is not None:
                    return False
            case _ if self._store.log is not None:
                return True
        self._quiet.warning(
            "Dropped from the spool: %s: %s", describe(arrival), outcome.refusal.name.lower()
        )
        return True
