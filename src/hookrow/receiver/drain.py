"""Drain: records the entries of the spool when the database is available again."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from hookrow.core.notification import (
    Arrival,
    Notification,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Source,
)
from hookrow.core.result import retry_at
from hookrow.core.rules import effective_time, is_probe
from hookrow.faults import describe_bug, without_values
from hookrow.observability.logging import describe_arrival
from hookrow.receiver.clock import Clock
from hookrow.receiver.recorder import is_reachable, keep_failed
from hookrow.receiver.replay import GROUP, PAUSE, OutcomesCallback, replay
from hookrow.receiver.spool import SPOOL_ERRORS, EntryKey, Spool, SpoolEntry
from hookrow.receiver.spool_file import lacks_room
from hookrow.stores import StoreError, WrongMapping

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

logger = logging.getLogger("hookrow")

DRAIN_EVERY = 2.0
"""In seconds; the interval between two drains."""

REST = 10.0
"""In seconds; the pause after a drain that left entries in the spool."""

WRONG_MAPPING_REST = 60.0
"""Seconds to wait if the log was written under another mapping, until it is compared again, and
between two reports of entries of the spool that arrived with another `where`."""

PATIENCE = 0.5
"""Seconds for which the entries of a group wait for rows that live notifications have locked. Those
whose rows stay locked stay in the spool."""

FAILING = 5.0
"""In seconds; a drain that has recorded nothing for this long stops.

The next drain begins after the entry that failed last, so that failing entries delay no others.
"""

FAILED_AFTER = timedelta(minutes=1)
"""The age at which an entry on which the database keeps failing is logged as failed."""

_UNAVAILABLE = Refusal.UNAVAILABLE.refused()
"""The outcome of an entry that only the spool keeps and counts."""

_Pair: TypeAlias = tuple[SpoolEntry, Arrival]


class Drain:
    """Records the entries of a spool, oldest first, and removes them.

    `parse` returns the arrival for a body and the time at which it was received; `on_outcomes`
    receives the outcomes of each group; `clock` returns the time. If a sweep retries the failed
    notifications in the log (`swept`), an entry that is logged as failed is removed from the spool.
    """

    def __init__(
        self,
        spool: Spool,
        store: SQLStore,
        parse: Callable[[bytes, datetime], Arrival],
        on_outcomes: OutcomesCallback,
        clock: Clock | None = None,
        *,
        bodies: bool,
        swept: bool,
    ) -> None:
        self._spool = spool
        self._store = store
        self._parse = parse
        self._on_outcomes = on_outcomes
        self._clock = clock or Clock(store)
        self._replay = partial(replay, store, bodies=bodies, clock=self._clock, patience=PATIENCE)
        self._keep_failed = partial(keep_failed, store, bodies=bodies, clock=self._clock)
        self._swept = swept
        self._resting_until = self._others_at = 0.0
        self._stopped_at = 0
        self._recorded_at = 0.0
        self._error: StoreError | None = None
        self._unremoved: dict[EntryKey, SpoolEntry] = {}
        self._unusable: set[EntryKey] = set()
        self._damaged: set[EntryKey] = set()

    def __call__(self) -> None:
        """Empty the spool, unless another process is already doing this.

        Raises a `StoreError` or one of `spool.SPOOL_ERRORS` if it stops early.
        """
        if monotonic() > self._others_at:
            self._others_at = monotonic() + WRONG_MAPPING_REST
            self._report_others()
        if monotonic() < self._resting_until or not self._has_work():
            return
        self._store.probe()  # raises if the database is still unavailable
        self._clock.measure()
        try:
            self._store.check_mapping()
        except WrongMapping:
            self._resting_until = monotonic() + WRONG_MAPPING_REST
            raise
        with self._spool.drained() as alone:
            if alone:
                self._drain()

    def _has_work(self) -> bool:
        return bool(self._unremoved) or self._spool.has_entries(besides=self._unusable)

    def _report_others(self) -> None:
        """Log a warning if the spool has entries that arrived with another `where`."""
        number, mapping = self._spool.others()
        if number:
            logger.warning(
                "The spool has %s that arrived with another `where`. Start a receiver with it to "
                "record them: %s",
                "1 notification" if number == 1 else f"{number} notifications",
                mapping,
            )

    def _drain(self) -> None:
        """Record all groups, beginning where the last call stopped.

        Raises a `StoreError` if the database is unavailable, or if an entry failed and stays in the
        spool, after recording the entries that follow it.
        """
        last, self._stopped_at = self._stopped_at, 0
        self._error, self._recorded_at = None, monotonic()
        recorded, self._unremoved = [*self._unremoved.values()], {}
        self._remove(recorded)
        while found := self._spool.after(last, limit=GROUP):
            group = [*self._readable(found)]
            try:
                self._record(group, self._replay)
            except StoreError:
                for entry, arrival in group:
                    self._record_alone(entry, arrival)
            last = found[-1].id
            sleep(PAUSE)
        if self._error is not None:
            raise self._error

    def _readable(self, entries: Sequence[SpoolEntry]) -> Iterator[_Pair]:
        """Yield the entries that can be recorded, unless this process has recorded them."""
        for entry in entries:
            if entry.key in self._unusable or self._is_recorded(entry):
                continue
            try:
                arrival = self._arrival(entry)
            except _Unusable as error:
                self._give_up(entry, str(error))
            except Exception as error:  # noqa: BLE001 - it must not hold up the others
                self._give_up(entry, describe_bug(error), error)
            else:
                self._report_damage(entry)
                yield entry, arrival

    def _give_up(self, entry: SpoolEntry, cause: str, bug: BaseException | None = None) -> None:
        """Leave an entry in the spool for as long as this process runs."""
        self._unusable.add(entry.key)
        logger.error(
            "Entry %d of the spool cannot be recorded, and stays there: %s",
            entry.id,
            cause,
            exc_info=None if bug is None else without_values(bug),
        )

    def _report_damage(self, entry: SpoolEntry) -> None:
        if entry.unreadable and entry.key not in self._damaged:
            self._damaged.add(entry.key)
            names = ", ".join(entry.unreadable)
            logger.warning("Entry %d of the spool is damaged; not readable: %s", entry.id, names)

    def _record_alone(self, entry: SpoolEntry, arrival: Arrival) -> None:
        """Record an entry, or log it as failed if a reachable database keeps failing on it.

        Raises a `StoreError` if the database is unavailable, or has not recorded any entry for
        `FAILING` seconds.
        """
        try:
            self._record([(entry, arrival)], self._replay)
        except StoreError as error:
            if not is_reachable(self._store):
                raise
            if self._is_logged(entry, arrival):
                return
            self._error = type(error)(f"{describe_arrival(arrival)}: {error}")
            if monotonic() > self._recorded_at + FAILING:
                self._stopped_at = entry.id
                raise self._error from error

    def _is_logged(self, entry: SpoolEntry, arrival: Arrival) -> bool:
        """Log an entry as failed after a minute; return False if it has to be tried again."""
        if self._clock() - arrival.received_at <= FAILED_AFTER:
            return False
        try:
            self._record([(entry, arrival)], self._keep_failed)
        except _Bug as bug:
            self._give_up(entry, str(bug), bug.__cause__)
        except StoreError:
            return False
        return True

    def _record(
        self,
        group: Sequence[_Pair],
        record: Callable[[Sequence[Arrival]], Sequence[Outcome]],
    ) -> None:
        """Record a group, and remove the finished entries.

        Raises a `StoreError`, which is a `_Bug` for any other exception. The attempts are taken
        from the spool first: a crash may lose some, but none counts twice, unless the disk is full.
        """
        if not group:
            return
        arrivals = [arrival for _, arrival in group]
        entries = self._spool.take([entry for entry, _ in group])
        try:
            outcomes = record(arrivals)
        except Exception as error:
            self._spool.put_back(entries)
            if isinstance(error, StoreError):
                raise
            raise _Bug(describe_bug(error)) from error
        self._recorded_at = monotonic()
        self._on_outcomes(arrivals, outcomes)
        done, uncounted = [], []
        for entry, arrival, outcome in zip(entries, arrivals, outcomes, strict=True):
            if self._is_done(arrival, outcome):
                done.append(entry)
            elif outcome == _UNAVAILABLE:
                uncounted.append(entry)
        self._remove(done)
        self._spool.put_back(uncounted)
        if len(done) < len(group):
            self._resting_until = monotonic() + REST

    def _remove(self, entries: Sequence[SpoolEntry]) -> None:
        """Remove entries, now or, if the disk has no room even for that, in a later drain."""
        if not entries:
            return
        try:
            self._spool.remove(entries)
        except SPOOL_ERRORS as error:
            self._unremoved |= {each.key: replace(each, body=b"") for each in entries}
            if not (isinstance(error, sqlite3.Error) and lacks_room(error)):
                raise
            logger.error(
                "Recorded, but not removed from the spool yet: %d. %s", len(entries), error
            )
            self._resting_until = monotonic() + REST

    def _is_recorded(self, entry: SpoolEntry) -> bool:
        """Return whether this process has recorded an entry that it could not remove."""
        recorded = self._unremoved.get(entry.key)
        return recorded is not None and entry.attempts <= recorded.attempts - recorded.taken

    def _arrival(self, entry: SpoolEntry) -> Arrival:
        """Return the arrival of an entry; columns that are unreadable are replaced.

        If both times are unreadable, the arrival is dated now. A suppression without its own date
        is then dated too late, which is better than losing it. Raises any exception if the entry
        cannot be recorded.
        """
        if "body" in entry.unreadable:
            raise _Unusable("its body is unreadable.")
        now = self._clock()
        arrived_at = entry.received_at or now
        arrival = self._parse(entry.body, arrived_at)
        if entry.received_at is None and _depends_on_arrival(arrival.notification, now):
            raise _Unusable("its time is unreadable, so it might undo a newer suppression.")
        return msgspec.structs.replace(
            arrival,
            source=Source.SPOOL,
            attempts=entry.attempts,
            last_received_at=entry.last_received_at or now,
            applied_at=now,
            fingerprint=None if "fingerprint" in entry.unreadable else entry.fingerprint,
            trace_id=entry.trace_id,
        )

    def _is_done(self, arrival: Arrival, outcome: Outcome) -> bool:
        """Return whether an entry is finished; without a log, write a log line for each refusal."""
        if isinstance(outcome, Recorded):
            return True
        match outcome.refusal:
            case Refusal.FAILED if self._swept:
                return True
            case Refusal.FAILED | Refusal.UNAVAILABLE:
                if retry_at(arrival.received_at, self._clock()) is not None:
                    return False
            case _ if self._store.log is not None or is_probe(arrival):
                return True
        logger.warning(
            "Dropped from the spool: %s: %s",
            describe_arrival(arrival),
            outcome.refusal.name.lower(),
        )
        return True


class _Unusable(Exception):
    """An entry is damaged, and cannot be recorded; the text says why."""


class _Bug(StoreError):
    """Recording raised another exception than a `StoreError`."""


def _depends_on_arrival(notification: Notification | None, now: datetime) -> bool:
    """Return whether the time of its arrival decides what a reactivation undoes."""
    if not isinstance(notification, Reactivated):
        return False
    return effective_time(notification.at, now, now) != notification.at
