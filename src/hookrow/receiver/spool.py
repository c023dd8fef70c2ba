"""The spool: a file that stores notifications while the database is unavailable.

It is an SQLite file on this machine. Each write is synced to the disk before it returns.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path

from hookrow.core.log_entry import fingerprint, stored_trace_id
from hookrow.core.notification import Arrival, Reactivated, Suppressed
from hookrow.core.sizes import TEXT_PER_BYTE, leading
from hookrow.errors import ConfigurationError
from hookrow.stores.timeouts import left

log = logging.getLogger("hookrow")

LARGEST = 1024**3
"""In bytes; the largest size of the file."""

LONGEST_WAIT = 5.0
SHORTEST_WAIT = 0.3
"""In seconds; the longest and the shortest time that a write waits for other processes."""

_APPLICATION = 0x686F6F6B  # "hook": https://sqlite.org/pragma.html#pragma_application_id

_VERSION = 3
"""The version of the table, in SQLite's `user_version`; versions 1 and 0 have no `trace_id`, and
these and version 2 no `mapping`."""

_PAGE = 4096

_TABLE = """
CREATE TABLE {} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint BLOB NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    received_at TEXT NOT NULL,
    last_received_at TEXT NOT NULL,
    trace_id TEXT,
    mapping TEXT NOT NULL,
    UNIQUE (fingerprint, mapping)
)
"""
"""The columns; `mapping` is the store's `mapping_key`."""

_COPY = """
INSERT INTO upgraded
SELECT id, fingerprint, body, attempts, received_at, last_received_at, {}, '' FROM arrivals
"""

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

_AFTER = """
SELECT id, fingerprint, body, attempts, trace_id, received_at, last_received_at FROM arrivals
WHERE mapping IN (?, '') AND id > ? ORDER BY id LIMIT ?
"""

_OTHERS = "SELECT count(*), min(mapping) FROM arrivals WHERE mapping NOT IN (?, '')"

_COUNT = "UPDATE arrivals SET attempts = attempts + ? WHERE id = ?"

SPOOL_ERRORS = (OSError, sqlite3.Error, ConfigurationError)
"""The errors of a file that fails or was replaced."""


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A notification in the spool: its body, number of arrivals and their times, in UTC."""

    id: int
    fingerprint: bytes
    body: bytes
    attempts: int
    trace_id: str | None
    received_at: datetime
    last_received_at: datetime


class Spool:
    """A file of at most `limit` bytes with an entry for each distinct notification.

    The entries are in the order of their first arrival. A change without a date is in that of its
    last one, which dates it, because a store may date nothing: the last one recorded then wins.

    Only the file's owner can read it. Processes may share it. If their stores hide different rows,
    which `mapping` identifies, each process takes its own entries out of it. Entries without a
    `mapping` belong to all. Raises `ConfigurationError` if the file cannot be created or
    written. `count`, `after`, `others`, `take`, `remove` and `drained` raise one of `SPOOL_ERRORS`
    if the file fails.
    """

    def __init__(
        self, path: str | os.PathLike[str], mapping: str = "", *, limit: int = LARGEST
    ) -> None:
        self._mapping = mapping
        self._path = Path(path).absolute()  # the process may change its directory
        self._limit = limit
        try:
            with self._open() as connection:
                connection.execute("SELECT count(*) FROM arrivals")
        except (OSError, ValueError, sqlite3.Error) as error:  # ValueError: NUL in the path
            raise ConfigurationError(
                f"The spool {self._path} cannot be written: {error}. "
                "Choose a separate file in a directory that hookrow may write to."
            ) from error

    def put(self, arrivals: Sequence[Arrival]) -> None:
        """Write the arrivals to the disk. Never raises: a failure is logged."""
        try:
            with self._open() as connection:
                for arrival in arrivals:
                    put = _PUT_LAST if _counts_last(arrival) else _PUT
                    connection.execute(put, (*_row(arrival), self._mapping))
        except SPOOL_ERRORS as error:
            if _is_full(error) and len(arrivals) > 1:  # some may fit
                half = len(arrivals) // 2
                self.put(arrivals[:half])
                self.put(arrivals[half:])
                return
            log.error(
                "Not spooled, so only the provider can send them again: %d. %s",
                len(arrivals),
                error,
            )

    def count(self) -> int:
        """Return the number of entries."""
        with self._open() as connection:
            (count,) = connection.execute("SELECT count(*) FROM arrivals").fetchone()
            return int(count)

    def after(self, last: int, *, limit: int) -> Sequence[SpoolEntry]:
        """Return at most `limit` entries with ids above `last`, oldest first.

        Returns fewer if their text might be larger than `LARGEST_GROUP`.
        """
        with self._open() as connection:
            rows = connection.execute(_AFTER, (self._mapping, last, limit))
            group = leading(rows, lambda row: TEXT_PER_BYTE * len(row[2]), most=limit)
            return [
                SpoolEntry(*fields, *map(datetime.fromisoformat, (first, last)))
                for *fields, first, last in group
            ]

    def others(self) -> tuple[int, str]:
        """Return the number of entries of other mappings, and the key of one of these."""
        with self._open() as connection:
            number, mapping = connection.execute(_OTHERS, (self._mapping,)).fetchone()
            return number, mapping or ""

    def take(self, entries: Sequence[SpoolEntry]) -> None:
        """Subtract the attempts of entries, which the log counts next."""
        with self._open() as connection:
            connection.executemany(_COUNT, [(-each.attempts, each.id) for each in entries])

    def put_back(self, entries: Sequence[SpoolEntry]) -> None:
        """Restore the attempts of entries. Never raises: a failure is logged."""
        try:
            with self._open() as connection:
                connection.executemany(_COUNT, [(each.attempts, each.id) for each in entries])
        except SPOOL_ERRORS as error:
            log.warning("The attempts of spooled notifications could not be counted: %s", error)

    def remove(self, entries: Sequence[SpoolEntry]) -> None:
        """Remove entries whose attempts were taken, unless they have arrived again since."""
        with self._open() as connection:
            connection.executemany(
                "DELETE FROM arrivals WHERE id = ? AND attempts <= 0",
                [(each.id,) for each in entries],
            )

    @contextmanager
    def drained(self) -> Iterator[bool]:
        """Lock the spool against drains in all processes; yield False if another has locked it."""
        # The lock has a separate file, because closing the spool's would release SQLite's locks.
        descriptor = os.open(f"{self._path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            try:
                flock(descriptor, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
                flock(descriptor, LOCK_UN)  # a child process may still have the descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, so that no connection is shared after a fork."""
        if not self._path.exists():
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        timeout = max(min(LONGEST_WAIT, left()), SHORTEST_WAIT)
        with closing(sqlite3.connect(self._path, timeout=timeout)) as connection:
            self._prepare(connection)
            with connection:
                yield connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA synchronous = EXTRA")
        if _version(connection) != _VERSION or not _is_ours(connection):
            self._create(connection)
        self._path.chmod(0o600)
        connection.execute(f"PRAGMA max_page_count = {max(self._limit // _PAGE, 1)}")

    def _create(self, connection: sqlite3.Connection) -> None:
        """Create or upgrade the table, unless another process has just done so."""
        if not _is_ours(connection):  # in an existing spool, these would write to the file
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA auto_vacuum = FULL")
        connection.execute("BEGIN IMMEDIATE")
        if not _is_ours(connection):
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise ConfigurationError(
                    f"{self._path} is another database, not a spool: choose a separate file."
                )
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(_TABLE.format("arrivals"))
        elif _version(connection) < _VERSION:
            connection.execute(_TABLE.format("upgraded"))
            trace_id = "trace_id" if _version(connection) == _VERSION - 1 else "NULL"
            connection.execute(_COPY.format(trace_id))
            connection.execute("DROP TABLE arrivals")
            connection.execute("ALTER TABLE upgraded RENAME TO arrivals")
        elif _version(connection) > _VERSION:
            raise ConfigurationError(
                f"{self._path} was written by a newer version of hookrow: upgrade hookrow, or "
                "choose another file."
            )
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.commit()


def _is_ours(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == _APPLICATION)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_full(error: Exception) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL


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
