"""Draining the spool: what waits there is recorded once the database is back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep

from hookrow.core.log_entry import retry_at
from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal, Source
from hookrow.core.rules import fail
from hookrow.observability.logging import describe_arrival
from hookrow.receiver.recorder import is_reachable, keep_failed
from hookrow.receiver.replay import GROUP, PAUSE, Tell, record_late
from hookrow.receiver.spool import Spool, Spooled
from hookrow.stores import Store, StoreError

log = logging.getLogger("hookrow")

REST = 10.0
"""In seconds; how long what has to stay is left alone."""

FAILING = 5.0
"""In seconds; the drain stops if it can record nothing for so long.

The next call begins behind the entries that failed, so that they hold up no others.
"""

FAILED_AFTER = timedelta(minutes=1)
"""How long after its arrival an entry on which the database keeps failing is logged as failed."""

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
        self._recorded_at = 0.0
        self._fault: StoreError | None = None

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

        Raises a `StoreError` if the database is away, or if an entry failed and stays; those
        behind it are recorded.
        """
        last, self._stopped_at = self._stopped_at, 0
        self._fault, self._recorded_at = None, monotonic()
        while group := self._spool.after(last, limit=GROUP):
            try:
                self._record(group, self._record_late)
            except StoreError:
                for each in group:
                    self._record_alone(each)
            last = group[-1].id
            sleep(PAUSE)
        if self._fault is not None:
            raise self._fault

    def _record_alone(self, spooled: Spooled) -> None:
        """Record an entry, or log that it failed if it has kept failing in a database that works.

        Raises a `StoreError` if the database is away, or has recorded nothing for a while.
        """
        try:
            self._record([spooled], self._record_late)
        except StoreError as error:
            if not is_reachable(self._store):
                raise
            if datetime.now(UTC) - spooled.received_at > FAILED_AFTER:
                with suppress(StoreError):
                    self._record([spooled], self._keep_failed)
                    return
            self._fault = type(error)(f"{describe_arrival(self._arrival(spooled))}: {error}")
            if monotonic() > self._recorded_at + FAILING:
                self._stopped_at = spooled.id
                raise self._fault from error

    def _record_late(self, arrivals: Sequence[Arrival]) -> Sequence[Outcome]:
        return record_late(self._store, arrivals, bodies=self._bodies)

    def _keep_failed(self, arrivals: Sequence[Arrival]) -> Sequence[Outcome]:
        keep_failed(self._store, arrivals, bodies=self._bodies)
        return fail(arrivals)

    def _record(
        self,
        group: Sequence[Spooled],
        record: Callable[[Sequence[Arrival]], Sequence[Outcome]],
    ) -> None:
        """Record a group, and remove what need not stay. Raises a `StoreError`.

        Its attempts leave the spool first: a crash between may lose the count of some,
        but counts none twice.
        """
        arrivals = [self._arrival(each) for each in group]
        self._spool.take(group)
        try:
            outcomes = record(arrivals)
        except StoreError:
            self._spool.put_back(group)
            raise
        self._recorded_at = monotonic()
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
            source=Source.SPOOL,
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
        log.warning(
            "Dropped from the spool: %s: %s",
            describe_arrival(arrival),
            outcome.refusal.name.lower(),
        )
        return True
