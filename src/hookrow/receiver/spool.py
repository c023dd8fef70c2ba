"""The spool: a file that stores notifications while the database is unavailable.

It is an SQLite file on this machine. Each write is synced to the disk before it returns.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from hookrow.core.log_entry import FINGERPRINT_SIZE, fingerprint, stored_trace_id
from hookrow.core.notification import Arrival, Reactivated, Suppressed
from hookrow.core.sizes import TEXT_PER_BYTE, leading
from hookrow.errors import ConfigurationError
from hookrow.receiver.spool_file import BODY, FINGERPRINT, SpoolFile, is_full, lacks_room

logger = logging.getLogger("hookrow")

_FAILURE_COUNTS_FOR = 60.0
"""Seconds for which a spool that could not be written counts as one that accepts nothing."""

LARGEST = 1024**3
"""In bytes; the largest size of the file."""

_UNCOUNTED = "The attempts of spooled notifications could not be counted: %s"

_PUT = """
INSERT INTO arrivals
    (fingerprint, body, attempts, received_at, last_received_at, trace_id, mapping)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (fingerprint, mapping) DO UPDATE SET
    attempts = attempts + excluded.attempts,
    received_at = min(received_at, excluded.received_at),
    last_received_at = max(last_received_at, excluded.last_received_at)
"""

_PUT_LAST = _PUT + ", id = (SELECT max(id) + 1 FROM arrivals)"  # noqa: S608 - constant
"""Puts an entry behind all others, even if it is there already."""

_AFTER = f"""
SELECT id, {FINGERPRINT}, {BODY}, attempts, trace_id, received_at, last_received_at
FROM arrivals WHERE mapping IN (?, '') AND id > ? ORDER BY id LIMIT ?
"""  # noqa: S608 - constants

_KEYS = f"SELECT id, {FINGERPRINT} FROM arrivals WHERE mapping IN (?, '') ORDER BY id"  # noqa: S608 - constants

_BODIES = f"SELECT id, {BODY} FROM arrivals WHERE id > ? ORDER BY id LIMIT ?"  # noqa: S608 - constants

_PART = 64
"""The number of entries whose bodies are searched in one transaction."""

_OTHERS = "SELECT count(*), min(mapping) FROM arrivals WHERE mapping NOT IN (?, '')"

_MOST_ATTEMPTS = 1_000_000
"""More arrivals than any notification can have: a greater number is damaged."""

_COUNTS = f"typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND {_MOST_ATTEMPTS}"

_COUNT = f"""
UPDATE arrivals SET attempts = CASE WHEN {_COUNTS} THEN attempts + ? ELSE 0 END
WHERE id = ? AND {FINGERPRINT} = ?
"""  # noqa: S608 - constants

_REMOVE = f"""
DELETE FROM arrivals
WHERE id = ? AND {FINGERPRINT} = ? AND CASE WHEN {_COUNTS} THEN attempts ELSE 0 END <= ?
"""  # noqa: S608 - constants

SPOOL_ERRORS = (OSError, sqlite3.Error, ConfigurationError)
"""The errors of a file that fails or was replaced."""


EntryKey: TypeAlias = tuple[int, bytes]
"""The id and the fingerprint of an entry."""


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A notification in the spool: its body, number of arrivals and their times, in UTC.

    `taken` is the number of these arrivals that the file no longer counts. `unreadable` names the
    columns that are damaged: an unreadable body is empty, an unreadable number of arrivals is 1,
    and an unreadable time is the other one, or None if neither can be read.
    """

    id: int
    fingerprint: bytes
    body: bytes
    attempts: int
    trace_id: str | None
    received_at: datetime | None
    last_received_at: datetime | None
    unreadable: Sequence[str] = ()
    taken: int = 0

    @property
    def key(self) -> EntryKey:
        """What identifies the entry in its file: another file may have other entries."""
        return self.id, self.fingerprint


class Spool:
    """A file of at most `limit` bytes with an entry for each distinct notification.

    The entries are in the order of their first arrival. A change without a date is in that of its
    last one, which dates it, because a store may date nothing: the last one recorded then wins.

    Only the file's owner can read it. Processes may share it. If their stores hide different rows,
    which `mapping` identifies, each process takes its own entries out of it. Entries without a
    `mapping` belong to all. Only `put` needs room on the disk. A damaged file is renamed, and its
    readable entries are copied to a new one. Raises `ConfigurationError` if the file cannot be
    created or written; if its disk is full, this is logged, and the next `put` creates it. `count`,
    `after`, `has_entries`, `others`, `take`, `remove` and `drained` raise one of `SPOOL_ERRORS` if
    the file fails.
    """

    def __init__(
        self, path: str | os.PathLike[str], mapping: str = "", *, limit: int = LARGEST
    ) -> None:
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

    def put(self, arrivals: Sequence[Arrival]) -> None:
        """Write the arrivals to the disk. Never raises: a failure is logged."""

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
                self.put(arrivals[:half])
                self.put(arrivals[half:])
                return
            self._failed_at = monotonic()
            logger.error(
                "Not spooled, so only the provider can send them again: %d. %s",
                len(arrivals),
                error,
            )

    @property
    def accepts(self) -> bool:
        """Whether no write of this process has failed in the last minute, or one succeeded since.

        Without notifications, nothing is written, so a failure must not count for ever.
        """
        return monotonic() > self._failed_at + _FAILURE_COUNTS_FOR

    def count(self) -> int:
        """Return the number of entries."""
        (count,) = self._file.transact(
            lambda connection: connection.execute("SELECT count(*) FROM arrivals").fetchone()
        )
        return int(count)

    def count_bodies(self, matches: Callable[[bytes], bool]) -> int:
        """Return the number of entries, of all mappings, whose readable body matches.

        They are read in parts, because no process can write to the file meanwhile.
        """
        last = count = 0

        def read(connection: sqlite3.Connection) -> tuple[int, int]:
            found, end = 0, 0
            for id_, body in connection.execute(_BODIES, (last, _PART)):
                found += isinstance(body, bytes) and matches(body)
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
            entries = (_entry(*row) for row in rows)
            return leading(entries, lambda each: TEXT_PER_BYTE * len(each.body), most=limit)

        return self._file.transact(read)

    def has_entries(self, *, besides: Collection[EntryKey]) -> bool:
        """Return whether there are entries with other keys than these."""
        return self._file.transact(
            lambda connection: any(
                key not in besides for key in connection.execute(_KEYS, (self._mapping,))
            )
        )

    def others(self) -> tuple[int, str]:
        """Return the number of entries of other mappings, and the key of one of these."""
        number, mapping = self._file.transact(
            lambda connection: connection.execute(_OTHERS, (self._mapping,)).fetchone()
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


def _entry(
    id_: int,
    fingerprint_: bytes,
    body: object,
    attempts: object,
    trace_id: object,
    received_at: object,
    last_received_at: object,
) -> SpoolEntry:
    """Return the entry of a row, of which any column but the first two may be of any type."""
    first, last = _time(received_at), _time(last_received_at)
    is_number = isinstance(attempts, int) and 0 <= attempts <= _MOST_ATTEMPTS
    readable = {
        "fingerprint": len(fingerprint_) == FINGERPRINT_SIZE,
        "body": isinstance(body, bytes),
        "attempts": is_number,
        "trace_id": isinstance(trace_id, str | None),
        "received_at": first is not None,
        "last_received_at": last is not None,
    }
    return SpoolEntry(
        id_,
        fingerprint_,
        body if isinstance(body, bytes) else b"",
        attempts if isinstance(attempts, int) and is_number else 1,
        trace_id if isinstance(trace_id, str) else None,
        first or last,
        last or first,
        [name for name, is_readable in readable.items() if not is_readable],
    )


def _time(stored: object) -> datetime | None:
    """Return a stored time in UTC, or None if it is none."""
    try:
        time = datetime.fromisoformat(str(stored))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _counts_last(arrival: Arrival) -> bool:
    """Return whether a notification counts as of its last arrival."""
    notification = arrival.notification
    return isinstance(notification, Suppressed | Reactivated) and notification.at is None


def _row(arrival: Arrival) -> tuple[bytes, bytes, int, str, str, str | None]:
    last = arrival.last_received_at or arrival.received_at
    return (
        fingerprint(arrival),
        arrival.body,
        arrival.attempts,
        arrival.received_at.isoformat(timespec="microseconds"),
        last.isoformat(timespec="microseconds"),
        arrival.trace_id and stored_trace_id(arrival.trace_id),
    )
