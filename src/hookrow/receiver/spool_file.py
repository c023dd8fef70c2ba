"""The file of the spool: an SQLite database with one table, whose transactions are synced.

What its rows mean is in `spool`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from errno import EDQUOT, ENOSPC
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from pathlib import Path
from typing import TypeVar

from hookrow.errors import ConfigurationError
from hookrow.stores.timeouts import left

LONGEST_WAIT = 5.0
SHORTEST_WAIT = 0.3
"""In seconds; the longest and the shortest time that a write waits for other processes."""

APPLICATION = 0x686F6F6B  # "hook": https://sqlite.org/pragma.html#pragma_application_id

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

T = TypeVar("T")


class SpoolFile:
    """A file of at most `limit` bytes, which only its owner can read; processes may share it.

    The methods raise `OSError`, `sqlite3.Error` or `ConfigurationError` if the file fails.
    """

    def __init__(self, path: Path, *, limit: int) -> None:
        self._path = path
        self._lock_path = Path(f"{path}.lock")
        self._limit = limit

    def create(self) -> None:
        """Create the files that are missing."""
        self.transact(lambda connection: connection.execute("SELECT count(*) FROM arrivals"))
        with suppress(OSError):  # only drains need it, and they report the error
            os.close(self._open_lock())

    def transact(self, work: Callable[[sqlite3.Connection], T], *, grows: bool = False) -> T:
        """Run `work` in one transaction; return its result. It may run twice.

        Unless the file `grows`, no room on the disk is needed. For the journal, there may be none:
        the transaction is then repeated with a journal in memory, and writes only to pages that
        the file has already. A crash in that moment may damage the file.
        """
        if grows:
            return self._transact(work, [f"PRAGMA max_page_count = {max(self._limit // _PAGE, 1)}"])
        try:
            return self._transact(work)
        except sqlite3.Error as error:
            if not lacks_room(error):
                raise
        # A page that does not fit into the cache would be written beyond the end of the file.
        return self._transact(work, ["PRAGMA journal_mode = MEMORY", "PRAGMA cache_spill = OFF"])

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Lock the file against drains in all processes; yield False if another has locked it."""
        # The lock has a separate file, because closing the spool's would release SQLite's locks.
        descriptor = self._open_lock()
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

    def _open_lock(self) -> int:
        return os.open(self._lock_path, os.O_CREAT | os.O_RDWR, 0o600)

    def _transact(self, work: Callable[[sqlite3.Connection], T], settings: Sequence[str] = ()) -> T:
        """Open the file for one transaction, so that no connection is shared after a fork."""
        if not self._path.exists():
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        timeout = max(min(LONGEST_WAIT, left()), SHORTEST_WAIT)
        with closing(sqlite3.connect(self._path, timeout=timeout)) as connection:
            connection.text_factory = _text
            connection.execute("PRAGMA synchronous = EXTRA")
            if _version(connection) != _VERSION or not _is_ours(connection):
                self._create(connection)
            self._path.chmod(0o600)
            for each in settings:
                connection.execute(each)
            with connection:
                return work(connection)

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
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
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


def _text(stored: bytes) -> str:
    return stored.decode(errors="replace")  # a single damaged text must not hide all rows


def _is_ours(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == APPLICATION)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def lacks_room(error: sqlite3.Error) -> bool:
    """Return whether an error may be due to a full disk, which may also prevent a journal."""
    return _code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


def is_full(error: Exception) -> bool:
    """Return whether an error means that the disk or the file is full."""
    if isinstance(error, OSError):
        return error.errno in {ENOSPC, EDQUOT}
    return _code(error) == sqlite3.SQLITE_FULL


def _code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
