"""The file of the spool: an SQLite database with one table, whose transactions are synced.

If the file is damaged, a new one replaces it. `spool` defines the meaning of its rows.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from errno import EDQUOT, ENOSPC
from pathlib import Path
from shutil import disk_usage
from threading import local
from time import monotonic, sleep
from typing import TypeAlias, TypeVar

from hookrow.errors import ConfigurationError
from hookrow.stores._private_file import create_private_file
from hookrow.stores._timeouts import left

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock

LONGEST_WAIT = 5.0
SHORTEST_WAIT = 0.3
"""Seconds that a write waits for other processes, at most and at least."""

_FILE_LOCK_PAUSE = 0.001
"""Seconds to wait before another attempt to lock the file."""

_ATTEMPTS = 3
"""How often a transaction begins if its file is moved meanwhile, or is damaged and replaced."""

_MOST_PROBES = 1000
"""The largest number of ranges of ids that are read from a damaged file."""

APPLICATION = 0x686F6F6B
"""The application id of a spool in SQLite's header, "hook" in ASCII.

https://sqlite.org/pragma.html#pragma_application_id
"""

_APPLICATION_OFFSET = 68  # https://sqlite.org/fileformat2.html#database_header

_VERSION = 1
"""The version of the table, in SQLite's `user_version`."""

_PAGE = 4096

_TABLE = """
CREATE TABLE arrivals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint BLOB NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    received_at TEXT NOT NULL,
    last_received_at TEXT NOT NULL,
    trace_id TEXT,
    provider TEXT,
    entry TEXT,
    mapping TEXT NOT NULL,
    UNIQUE (fingerprint, mapping)
)
"""
"""The columns; `mapping` is the store's `mapping_key`."""

FINGERPRINT = "coalesce(CAST(fingerprint AS BLOB), x'')"
"""The fingerprint as bytes, whatever its type is."""

BODY = "CASE typeof(body) WHEN 'text' THEN CAST(body AS BLOB) ELSE body END"
"""The body, as bytes if it is text."""

_RANGE = f"""
SELECT
    id, {FINGERPRINT}, {BODY}, attempts, received_at, last_received_at, trace_id, provider, entry,
    mapping
FROM arrivals WHERE id BETWEEN ? AND ? ORDER BY id
"""  # noqa: S608 - constants

_INSERT_ARRIVAL = """
INSERT OR IGNORE INTO arrivals
    (
        id, fingerprint, body, attempts, received_at, last_received_at, trace_id, provider, entry,
        mapping
    )
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = 'arrivals'"

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""The codes of errors of a damaged file; the last one if its table is not as hookrow created it."""

Identity: TypeAlias = tuple[int, int] | None
"""The device and the inode of the file at a path, or None if there is none."""

T = TypeVar("T")

logger = logging.getLogger("hookrow")


class SpoolFile:
    """A file of at most `limit` bytes, which only its owner can read; processes may share it.

    The methods raise `OSError`, `sqlite3.Error` or `ConfigurationError` if the file fails. One
    that is damaged is renamed and replaced; that of another program is left as it is.
    """

    def __init__(self, path: Path, *, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._thread = local()

    def create(self) -> None:
        """Create the files that are missing."""
        self._path = Path(os.path.realpath(self._path))  # a link stays, even if its file is renamed
        self.transact(lambda connection: connection.execute("SELECT count(*) FROM arrivals"))
        with suppress(OSError):  # only drains need it, and they report the error
            descriptor = self._open_lock()
            self._give_to_owner(descriptor)
            os.close(descriptor)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._path

    def size_and_room(self) -> tuple[int, int]:
        """Return the size of the file, and by how much it may still grow, in bytes.

        Other users' processes may have more room on the disk, which keeps some for root.
        """
        size = self._path.stat().st_size
        return size, max(min(self._limit - size, disk_usage(self._path.parent).free), 0)

    def transact(self, work: Callable[[sqlite3.Connection], T], *, grows: bool = False) -> T:
        """Run `work` in one transaction; return its result. It may run more than once.

        The transaction is on the file that is at the path after its commit.

        With `grows`, the transaction may need room on the disk. Otherwise it needs none: if there
        is no room for the journal, it is repeated with a journal in memory, and writes only to
        pages that the file has already. A crash in that moment may damage the file.
        """
        if grows:
            pages = max(self._limit // _PAGE, 1)
            return self._transact(work, [f"PRAGMA max_page_count = {pages}"])
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
                return
            self._thread.has_lock = True
            try:
                yield True
            finally:
                self._thread.has_lock = False
                flock(descriptor, LOCK_UN)  # a child process may still have the descriptor
        finally:
            os.close(descriptor)

    def _open_lock(self) -> int:
        return os.open(self._lock_path, os.O_CREAT | os.O_RDWR, 0o600)

    @property
    def _lock_path(self) -> Path:
        return Path(f"{self._path}.lock")

    def _give_to_owner(self, file: int | Path) -> None:
        """Let a file have the owner of the spool: this may be a command that root runs."""
        owner = self._path.stat()
        with suppress(PermissionError):
            os.chown(file, owner.st_uid, owner.st_gid)

    def _identity(self) -> Identity:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _transact(self, work: Callable[[sqlite3.Connection], T], settings: Sequence[str] = ()) -> T:
        """Run `work` in a transaction, again if the file was moved, or was damaged and replaced."""
        for _ in range(_ATTEMPTS - 1):
            create_private_file(self._path)
            found = self._identity()
            try:
                return self._attempt(work, settings)
            except sqlite3.Error as error:
                # If the file was moved, SQLite may raise several errors about its journal.
                is_moved = self._identity() != found
                if not (is_moved or (_is_damage(error) and self._is_repaired(found))):
                    raise
        return self._attempt(work, settings)

    def _attempt(self, work: Callable[[sqlite3.Connection], T], settings: Sequence[str]) -> T:
        with self._used(LOCK_SH), self._open() as connection:
            opened = self._identity()
            connection.execute("PRAGMA synchronous = EXTRA")
            if _version(connection) != _VERSION or not _has_application_id(connection):
                self._create(connection)
            self._path.chmod(0o600)
            for each in settings:
                connection.execute(each)
            with connection:
                result = work(connection)
            # SQLite checks this, but only before it opens a journal on the disk. As long as the
            # file is open, no other one gets its inode.
            if self._identity() != opened:
                raise sqlite3.OperationalError(f"{self._path} was renamed or removed")
            return result

    def _open(self) -> closing[sqlite3.Connection]:
        """Open the file for one transaction, so that no connection is shared after a fork."""
        create_private_file(self._path)
        connection = sqlite3.connect(self._path, timeout=_timeout())
        connection.text_factory = _text
        return closing(connection)

    @contextmanager
    def _used(self, lock: int) -> Iterator[None]:
        """Use the file together with other transactions (LOCK_SH), or alone (LOCK_EX).

        SQLite finds a journal by the path of its database. If a connection was open while the file
        is replaced, it would apply the journal of the new file to the old one, and delete it. The
        lock is the directory's, because a file for it would need room on the disk.
        """
        try:
            directory = os.open(self._path.parent, os.O_RDONLY)
        except PermissionError:  # a directory that this user cannot list
            yield
            return
        try:
            _lock(directory, lock)
            yield
        finally:
            flock(directory, LOCK_UN)  # a child process may still have the descriptor
            os.close(directory)

    def _is_repaired(self, found: Identity) -> bool:
        """Replace a file if it is damaged and hookrow's; return whether to use the path again.

        Waits for a drain of another process or thread, which may replace the file itself.
        """
        if not self._is_spool():
            return False
        if getattr(self._thread, "has_lock", False):
            self._replace()
            return True
        until = monotonic() + _timeout()
        while monotonic() < until:
            with self.locked() as alone:
                if alone:
                    self._replace()
                    return True
            if self._identity() != found:
                return True
            sleep(_FILE_LOCK_PAUSE)
        return False

    def _is_spool(self) -> bool:
        """Return whether a damaged file is hookrow's: it has a lock file, or its application id."""
        if self._lock_path.exists():
            return True
        # No process has used the file yet, so closing it here releases no lock of SQLite's.
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(_APPLICATION_OFFSET)
            return file.read(4) == APPLICATION.to_bytes(4)
        return False

    def _replace(self) -> None:
        """Rename the file if it is damaged; replace it by one with the entries that are readable.

        Requires the drain's lock. Without room for the new file, the damaged one stays.
        """
        with self._used(LOCK_EX), self._open() as old:
            try:
                old.execute("BEGIN IMMEDIATE")  # other writes would be lost
            except sqlite3.Error as error:
                if not _is_damage(error):
                    raise
            if not _is_damaged(old):
                return
            new = Path(f"{self._path}.new")
            try:
                kept = self._copy(old, new)
            except BaseException:
                _remove(new)
                raise
            damaged = Path(f"{self._path}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
            self._move(new, damaged)
        logger.error(
            "The spool %s was damaged. It is now %s, and a new spool has the notifications that "
            "could be read: %d. Only the provider can send the others again. Check the disk, and "
            "delete the damaged file when it is no longer needed.",
            self._path,
            damaged,
            kept,
        )

    def _copy(self, old: sqlite3.Connection, new: Path) -> int:
        """Create a new file with the readable rows of a damaged one; return their number."""
        _remove(new)  # a crash may have left it
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._give_to_owner(new)
        with closing(sqlite3.connect(new)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            self._create(connection)
            with connection:
                for row in _readable(old):
                    connection.execute(_INSERT_ARRIVAL, row)
            (kept,) = connection.execute("SELECT count(*) FROM arrivals").fetchone()
            return int(kept)

    def _move(self, new: Path, damaged: Path) -> None:
        """Rename the file and its journal, and give its name to the new one."""
        try:
            os.link(self._path, damaged)  # so that there is a file at the path all the time
        except OSError:  # a file system without links
            self._path.rename(damaged)
        if _journal(self._path).exists():  # SQLite would apply it to the new file
            _journal(self._path).rename(_journal(damaged))
        new.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _create(self, connection: sqlite3.Connection) -> None:
        """Create the table, unless another process has just done so."""
        if not _has_application_id(
            connection
        ):  # in an existing spool, these would write to the file
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA auto_vacuum = FULL")
        connection.execute("BEGIN IMMEDIATE")
        if not _has_application_id(connection):
            if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise ConfigurationError(
                    f"{self._path} is another database, not a spool: choose a separate file."
                )
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif _version(connection) != _VERSION:
            raise ConfigurationError(
                f"{self._path} was written by another version of hookrow: install that version, "
                "or choose another file."
            )
        connection.commit()


def _lock(descriptor: int, lock: int) -> None:
    """Lock a file within the time limit. Raises `TimeoutError`."""
    until = monotonic() + _timeout()
    while True:
        try:
            flock(descriptor, lock | LOCK_NB)
        except BlockingIOError:
            if monotonic() > until:
                raise TimeoutError("The spool is in use.") from None
            sleep(_FILE_LOCK_PAUSE)
        else:
            return


def _timeout() -> float:
    return max(min(LONGEST_WAIT, left()), SHORTEST_WAIT)


def _journal(path: Path) -> Path:
    return Path(f"{path}-journal")


def _remove(path: Path) -> None:
    for each in (path, _journal(path)):
        each.unlink(missing_ok=True)


def _is_damaged(connection: sqlite3.Connection) -> bool:
    """Return whether a file of hookrow's is damaged; False if it is new or another program's."""
    try:
        if not _has_application_id(connection):
            return False
        connection.execute(_RANGE, (0, 0))
        verdict: tuple[str] = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        return _is_damage(error)
    return verdict != ("ok",)


def _readable(connection: sqlite3.Connection) -> Iterator[Sequence[object]]:
    """Yield the rows of a damaged file, except those that cannot be read.

    From both ends of a range of ids, SQLite reads up to the first damaged page; what is between
    them is halved. The widest ranges are first, because their number is limited.
    """
    ranges = deque([(1, _last_id(connection))])
    for _ in range(_MOST_PROBES):
        if not ranges:
            return
        low, high = ranges.popleft()
        try:
            for row in connection.execute(_RANGE, (low, high)):
                yield row
                low = row[0] + 1
            continue
        except (sqlite3.Error, MemoryError):  # a damaged length may seem to need much memory
            pass
        with suppress(sqlite3.Error, MemoryError):
            for row in connection.execute(f"{_RANGE} DESC", (low, high)):
                yield row
                high = row[0] - 1
        if low < high:
            middle = (low + high) // 2
            ranges += [(low, middle), (middle + 1, high)]


def _last_id(connection: sqlite3.Connection) -> int:
    with suppress(sqlite3.Error):
        (last,) = connection.execute(_LAST_ID).fetchone() or (None,)
        if isinstance(last, int):
            return last
    return 2**63 - 1


def _is_damage(error: sqlite3.Error) -> bool:
    return _code(error) in _DAMAGE


def _text(stored: bytes) -> str:
    return stored.decode(errors="replace")  # a single damaged text must not hide all rows


def _has_application_id(connection: sqlite3.Connection) -> bool:
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
