"""The spool: a file that stores notifications while the database is unavailable, and its drain.

It is an SQLite file on this machine. Each write is synced to the disk before it returns. The drain
records the entries when the database is available again. `spool_file` has the file itself.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from hookrow._arguments import refuse_windows
from hookrow._core.log_entry import FINGERPRINT_SIZE, fingerprint, stored_trace_id
from hookrow._core.notification import (
    Arrival,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Source,
    Suppressed,
)
from hookrow._core.result import retry_at
from hookrow._core.rules import UNAVAILABLE, effective_time
from hookrow._core.sizes import leading, text_size
from hookrow._core.times import as_utc
from hookrow._faults import describe_bug, without_values
from hookrow._observability.logging import describe_arrival
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import Unread
from hookrow._receiver.recorder import is_reachable, keep_failed
from hookrow._receiver.replay import MAX_REPLAY_GROUP, REPLAY_PAUSE, OutcomesCallback, replay
from hookrow._receiver.spool_file import BODY, FINGERPRINT, SpoolFile, is_full, lacks_room
from hookrow.errors import ConfigurationError
from hookrow.providers._base import ProviderFault
from hookrow.stores._errors import StoreError, WrongMapping

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

logger = logging.getLogger("hookrow")

_FAILURE_COUNTS_FOR = 60.0
"""Seconds for which a spool that could not be written counts as one that accepts nothing."""

MAX_SPOOL_SIZE = 1024**3
"""The largest size of the file, in bytes."""

DRAIN_EVERY = 2.0
"""Seconds between two drains."""

DRAIN_REST = 10.0
"""Seconds to wait after a drain that left entries in the spool."""

WRONG_MAPPING_REST = 60.0
"""Seconds to wait if the log was written under another mapping, until it is compared again, and
between two reports of entries of the spool that arrived with another `where`."""

DRAIN_PATIENCE = 0.5
"""Seconds for which the entries of a group wait for rows that live notifications have locked. Those
whose rows stay locked stay in the spool."""

FAILING_DRAIN_LIMIT = 5.0
"""Seconds after which a drain that has recorded nothing stops.

The next drain begins after the entry that failed last, so that failing entries delay no others.
"""

FAILED_AFTER = timedelta(minutes=1)
"""The age at which an entry on which the database keeps failing is logged as failed."""

_UNCOUNTED = "The attempts of spooled notifications could not be counted: %s"

_PUT = """
INSERT INTO arrivals
    (fingerprint, body, attempts, received_at, last_received_at, trace_id, provider, entry, mapping)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (fingerprint, mapping) DO UPDATE SET
    attempts = attempts + excluded.attempts,
    received_at = min(received_at, excluded.received_at),
    last_received_at = max(last_received_at, excluded.last_received_at)
"""

_PUT_LAST = _PUT + ", id = (SELECT max(id) + 1 FROM arrivals)"  # noqa: S608 - constant
"""Puts an entry behind all others, even if it is there already."""

_AFTER = f"""
SELECT
    id, {FINGERPRINT}, {BODY}, attempts, received_at, last_received_at, trace_id, provider, entry
FROM arrivals WHERE mapping IN (?, '') AND id > ? ORDER BY id LIMIT ?
"""  # noqa: S608 - constants

_SELECT_IDS = f"SELECT id, {FINGERPRINT} FROM arrivals WHERE mapping IN (?, '') ORDER BY id"  # noqa: S608 - constants

_BODIES = f"SELECT id, {BODY}, entry FROM arrivals WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants

_PART = 64
"""The number of entries whose bodies are searched in one transaction."""

_COUNT_AND_OLDEST = "SELECT count(*), min(received_at) FROM arrivals"

_COUNT_OTHERS = "SELECT count(*), min(mapping) FROM arrivals WHERE mapping NOT IN (?, '')"

_MOST_ATTEMPTS = 1_000_000
"""More arrivals than any notification can have: a greater number is damaged."""

_HAS_ATTEMPTS = f"typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND {_MOST_ATTEMPTS}"
"""The condition that the number of attempts is readable."""

_COUNT = f"""
UPDATE arrivals SET attempts = CASE WHEN {_HAS_ATTEMPTS} THEN attempts + ? ELSE 0 END
WHERE id = ? AND {FINGERPRINT} = ?
"""  # noqa: S608 - constants

_REMOVE = f"""
DELETE FROM arrivals
WHERE id = ? AND {FINGERPRINT} = ? AND CASE WHEN {_HAS_ATTEMPTS} THEN attempts ELSE 0 END <= ?
"""  # noqa: S608 - constants

SPOOL_ERRORS = (OSError, sqlite3.Error, ConfigurationError)
"""The errors of a file that fails or was replaced."""


EntryKey: TypeAlias = tuple[int, bytes]
"""The id and the fingerprint of an entry."""


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A notification in the spool: its body, number of arrivals and their times, in UTC.

    `provider` and `entry` are the names of its provider and of the receiver's entry, as in the log.
    `taken` is the number of these arrivals that the file no longer counts. `unreadable` names the
    columns that are damaged: an unreadable body is empty, an unreadable number of arrivals is 1,
    and an unreadable time is the other one, or None if neither can be read.
    """

    id: int
    fingerprint: bytes
    body: bytes
    attempts: int
    trace_id: str | None
    provider: str | None
    entry: str | None
    received_at: datetime | None
    last_received_at: datetime | None
    unreadable: Sequence[str] = ()
    taken: int = 0

    @property
    def key(self) -> EntryKey:
        """The entry's identity; in a new file, another entry may have the same id."""
        return self.id, self.fingerprint


@dataclass(frozen=True, slots=True)
class SpoolState:
    """The number of entries, when the first of them arrived, and the room for more.

    `size` is that of the file in bytes, and `room` by how much it may still grow: up to its limit,
    and on its disk. `accepts` is whether no write of this process failed in the last minute.
    """

    path: str
    count: int
    oldest: datetime | None
    size: int
    room: int
    accepts: bool = True


class Spool:
    """A file of at most `limit` bytes with an entry for each distinct notification.

    The entries are in the order of their first arrival. A change without a date is in that of its
    last one, which dates it, because a store may date nothing: the last one recorded then wins.

    Only the file's owner can read it. Processes may share it. If their stores hide different rows,
    which `mapping` identifies, each process takes its own entries out of it. Entries without a
    `mapping` belong to all. Only `put` needs room on the disk. A damaged file is renamed, and its
    readable entries are copied to a new one. Raises `ConfigurationError` if the file cannot be
    created or written; if its disk is full, this is logged, and the next `put` creates it. `count`,
    `state`, `after`, `has_entries`, `others`, `take`, `remove` and `drained` raise one of
    `SPOOL_ERRORS` if the file fails.
    """

    def __init__(
        self, path: str | os.PathLike[str], mapping: str = "", *, limit: int = MAX_SPOOL_SIZE
    ) -> None:
        refuse_windows("A spool", "omit `spool`; the provider repeats notifications that get a 503")
        self._mapping = mapping
        absolute = Path(path).absolute()  # the process may change its directory
        self._file = SpoolFile(absolute, limit=limit)
        self._failed_at = float("-inf")
        try:
            self._file.create()
        except (OSError, ValueError, sqlite3.Error) as error:  # ValueError: NUL in the path
            if is_full(error):
                logger.error("The spool %s cannot be used until its disk has room.", absolute)
                self._failed_at = monotonic()
                return
            raise ConfigurationError(
                f"The spool {absolute} cannot be written: {error}. "
                "Choose a separate file in a directory that hookrow may write to."
            ) from error

    def put(self, arrivals: Sequence[Arrival]) -> Sequence[bool]:
        """Write the arrivals to the disk; return whether each is there. Never raises.

        A failure is logged.
        """

        def insert(connection: sqlite3.Connection) -> None:
            for arrival in arrivals:
                put = _PUT_LAST if _counts_last(arrival) else _PUT
                connection.execute(put, (*_row(arrival), self._mapping))

        try:
            self._file.transact(insert, grows=True)
            self._failed_at = float("-inf")
        except SPOOL_ERRORS as error:
            if is_full(error) and len(arrivals) > 1:  # some may fit
                half = len(arrivals) // 2
                return [*self.put(arrivals[:half]), *self.put(arrivals[half:])]
            self._failed_at = monotonic()
            logger.error(
                "Not spooled, so only the provider can send them again: %d. %s",
                len(arrivals),
                error,
            )
            return [False] * len(arrivals)
        return [True] * len(arrivals)

    @property
    def accepts(self) -> bool:
        """Whether no write of this process has failed in the last minute, or one succeeded since.

        Without notifications, nothing is written, so a failure must not count for ever.
        """
        return monotonic() > self._failed_at + _FAILURE_COUNTS_FOR

    def state(self) -> SpoolState:
        """Return the number of entries, and the room for more."""
        count, oldest = self._file.transact(
            lambda connection: connection.execute(_COUNT_AND_OLDEST).fetchone()
        )
        size, room = self._file.size_and_room()
        return SpoolState(
            str(self._file.path),
            count,
            None if oldest is None else _time(oldest),
            size,
            room,
            self.accepts,
        )

    def count(self) -> int:
        """Return the number of entries."""
        (count,) = self._file.transact(
            lambda connection: connection.execute("SELECT count(*) FROM arrivals").fetchone()
        )
        return int(count)

    def count_bodies(
        self, matches: Callable[[bytes], bool], *, entries: Collection[str] | None = None
    ) -> int:
        """Return the number of notifications, of all mappings, whose readable body matches.

        They are only those of some of the receiver's `entries`, given by name, or all with None.
        They are read in parts, because no process can write to the file meanwhile.
        """
        last = count = 0

        def read(connection: sqlite3.Connection) -> tuple[int, int]:
            found, end = 0, 0
            for id_, body, name in connection.execute(_BODIES, (last, _PART)):
                is_chosen = entries is None or name in entries
                found += is_chosen and isinstance(body, bytes) and matches(body)
                end = id_
            return found, end

        while True:
            found, end = self._file.transact(read)
            count += found
            if not end:
                return count
            last = end

    def after(self, last: int, *, limit: int) -> Sequence[SpoolEntry]:
        """Return at most `limit` entries with ids above `last`, oldest first.

        Returns fewer if their text might be larger than `LARGEST_GROUP`.
        """

        def read(connection: sqlite3.Connection) -> list[SpoolEntry]:
            rows = connection.execute(_AFTER, (self._mapping, last, limit))
            entries = (_entry(row) for row in rows)
            return leading(entries, lambda each: text_size(each.body), most=limit)

        return self._file.transact(read)

    def has_entries(self, *, besides: Collection[EntryKey]) -> bool:
        """Return whether there are entries with other keys than these."""
        return self._file.transact(
            lambda connection: any(
                key not in besides for key in connection.execute(_SELECT_IDS, (self._mapping,))
            )
        )

    def others(self) -> tuple[int, str]:
        """Return the number of entries of other mappings, and the key of one of these."""
        number, mapping = self._file.transact(
            lambda connection: connection.execute(_COUNT_OTHERS, (self._mapping,)).fetchone()
        )
        return number, str(mapping or "")

    def take(self, entries: Sequence[SpoolEntry]) -> Sequence[SpoolEntry]:
        """Subtract the attempts of entries, which the log counts next; return the entries.

        If the disk has no room even for that, a warning is logged, and the file counts them still.
        """
        try:
            self._count([(-each.attempts, *each.key) for each in entries])
        except sqlite3.Error as error:
            if not lacks_room(error):
                raise
            logger.warning(_UNCOUNTED, error)
            return entries
        return [replace(each, taken=each.attempts) for each in entries]

    def put_back(self, entries: Sequence[SpoolEntry]) -> None:
        """Restore the attempts that were taken. Never raises: a failure is logged."""
        taken = [(each.taken, *each.key) for each in entries if each.taken]
        if not taken:
            return
        try:
            self._count(taken)
        except SPOOL_ERRORS as error:
            logger.warning(_UNCOUNTED, error)

    def remove(self, entries: Sequence[SpoolEntry]) -> None:
        """Remove entries, unless they have arrived again since they were read."""
        read = [(*each.key, each.attempts - each.taken) for each in entries]
        self._file.transact(lambda connection: connection.executemany(_REMOVE, read))

    def drained(self) -> AbstractContextManager[bool]:
        """Lock the spool against drains in all processes; yield False if another has locked it."""
        return self._file.locked()

    def _count(self, attempts: Sequence[tuple[int, int, bytes]]) -> None:
        self._file.transact(lambda connection: connection.executemany(_COUNT, attempts))


def _entry(row: Sequence[Any]) -> SpoolEntry:
    """Return the entry of a row, of which any column but the first two may be of any type."""
    id_, fingerprint_, body, attempts, *times, trace_id, provider, entry = row
    first, last = map(_time, times)
    is_number = isinstance(attempts, int) and 0 <= attempts <= _MOST_ATTEMPTS
    readable = {
        "fingerprint": len(fingerprint_) == FINGERPRINT_SIZE,
        "body": isinstance(body, bytes),
        "attempts": is_number,
        "trace_id": isinstance(trace_id, str | None),
        "provider": isinstance(provider, str | None),
        "entry": isinstance(entry, str | None),
        "received_at": first is not None,
        "last_received_at": last is not None,
    }
    return SpoolEntry(
        id_,
        fingerprint_,
        body if isinstance(body, bytes) else b"",
        attempts if isinstance(attempts, int) and is_number else 1,
        trace_id if isinstance(trace_id, str) else None,
        provider if isinstance(provider, str) else None,
        entry if isinstance(entry, str) else None,
        first or last,
        last or first,
        [name for name, is_readable in readable.items() if not is_readable],
    )


def _time(stored: object) -> datetime | None:
    """Return a stored time in UTC, or None if it is not a time."""
    try:
        return as_utc(datetime.fromisoformat(str(stored)))
    except (ValueError, OverflowError):
        return None


def _counts_last(arrival: Arrival) -> bool:
    """Return whether a notification counts as of its last arrival."""
    return any(
        isinstance(each, Suppressed | Reactivated) and each.at is None
        for each in arrival.notifications
    )


def _row(arrival: Arrival) -> tuple[bytes | int | str | None, ...]:
    last = arrival.last_received_at or arrival.received_at
    return (
        fingerprint(arrival),
        arrival.body,
        arrival.attempts,
        arrival.received_at.isoformat(timespec="microseconds"),
        last.isoformat(timespec="microseconds"),
        stored_trace_id(arrival.trace_id),
        arrival.provider,
        arrival.entry,
    )


_Pair: TypeAlias = tuple[SpoolEntry, Arrival]


class Drain:
    """Records the entries of a spool, oldest first, and removes them.

    `parse` returns the arrival of an entry and the time at which it was received, and raises
    `Unread` if no provider of the receiver reads it; `on_outcomes` receives the outcomes of each
    group; `clock` returns the time. If a sweep retries the failed notifications in the log
    (`swept`), an entry that is logged as failed is removed from the spool.
    """

    def __init__(
        self,
        spool: Spool,
        store: SQLStore,
        parse: Callable[[SpoolEntry, datetime], Arrival],
        on_outcomes: OutcomesCallback,
        clock: Clock,
        *,
        bodies: bool,
        swept: bool,
    ) -> None:
        self._spool = spool
        self._store = store
        self._parse = parse
        self._on_outcomes = on_outcomes
        self._clock = clock
        self._replay = partial(
            replay, store, bodies=bodies, clock=self._clock, patience=DRAIN_PATIENCE
        )
        self._keep_failed = partial(keep_failed, store, bodies=bodies, clock=self._clock)
        self._swept = swept
        self._resting_until = 0.0
        """No drain begins before this time. All times here are those of `monotonic`."""
        self._others_at = 0.0
        """The time after which the entries of other mappings are reported again."""
        self._stopped_at = 0
        """The id after which the next drain begins, because the last one stopped there."""
        self._recorded_at = 0.0
        """The time at which the drain began or, if that is later, last recorded a group."""
        self._error: StoreError | None = None
        """The last error of this drain that leaves its entry in the spool."""
        self._unremoved: dict[EntryKey, SpoolEntry] = {}
        """The recorded entries that could not be removed, without their bodies."""
        self._unusable: set[EntryKey] = set()
        """The entries that this process cannot record."""
        self._damaged: set[EntryKey] = set()
        """The entries whose damage has been reported."""

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
        self._error = None
        self._recorded_at = monotonic()
        recorded, self._unremoved = [*self._unremoved.values()], {}
        self._remove(recorded)
        while found := self._spool.after(last, limit=MAX_REPLAY_GROUP):
            group = [*self._readable(found)]
            try:
                self._record(group, self._replay)
            except StoreError:
                for entry, arrival in group:
                    self._record_alone(entry, arrival)
            last = found[-1].id
            sleep(REPLAY_PAUSE)
        if self._error is not None:
            raise self._error

    def _readable(self, entries: Sequence[SpoolEntry]) -> Iterator[_Pair]:
        """Yield the entries that can be recorded, unless this process has recorded them."""
        for entry in entries:
            if entry.key in self._unusable or self._is_recorded(entry):
                continue
            try:
                arrival = self._arrival(entry)
            except (_Unusable, Unread) as error:
                self._give_up(entry, str(error))
            except ProviderFault as fault:
                self._give_up(entry, str(fault), fault.__cause__)
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
        `FAILING_DRAIN_LIMIT` seconds.
        """
        try:
            self._record([(entry, arrival)], self._replay)
        except StoreError as error:
            if not is_reachable(self._store):
                raise
            if self._log_failed(entry, arrival):
                return
            self._error = type(error)(f"{describe_arrival(arrival)}: {error}")
            if monotonic() > self._recorded_at + FAILING_DRAIN_LIMIT:
                self._stopped_at = entry.id
                raise self._error from error

    def _log_failed(self, entry: SpoolEntry, arrival: Arrival) -> bool:
        """Log an entry as failed once it is a minute old.

        Returns whether it need not be tried again.
        """
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
            elif outcome == UNAVAILABLE:  # only the spool keeps and counts the entry
                uncounted.append(entry)
        self._remove(done)
        self._spool.put_back(uncounted)
        if len(done) < len(group):
            self._resting_until = monotonic() + DRAIN_REST

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
            self._resting_until = monotonic() + DRAIN_REST

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
        for name in ("body", "provider", "entry"):
            if name in entry.unreadable:
                raise _Unusable(f"its {name} is unreadable.")
        now = self._clock()
        arrived_at = entry.received_at or now
        arrival = self._parse(entry, arrived_at)
        if entry.received_at is None and _depends_on_arrival(arrival, now):
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
            case _ if self._store.log is not None:
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
    """Recording raised an exception other than a `StoreError`."""


def _depends_on_arrival(arrival: Arrival, now: datetime) -> bool:
    """Return whether the time of its arrival decides what a reactivation undoes."""
    return any(
        isinstance(each, Reactivated) and effective_time(each.at, now, now) != each.at
        for each in arrival.notifications
    )
