"""SQLite through the standard library's module, in its mode without implicit transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from math import isinf
from os.path import samestat
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

from hookrow.errors import ConfigurationError
from hookrow.stores import Unavailable
from hookrow.stores.errors import UNWRITABLE
from hookrow.stores.private_file import create_private_file
from hookrow.stores.sql.connections import Connection, ConnectionPool, Row
from hookrow.stores.sql.dialects import SQLITE
from hookrow.stores.sql.parameters import question_marks
from hookrow.stores.timeouts import LOCK_TIMEOUT, STORE_DEADLINE, milliseconds

_STEPS = 10_000
"""How many instructions SQLite executes between two checks of the time limit."""


class SQLiteConnection(Connection):
    """One of hookrow's own connections to a file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.close = connection, connection.close

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        return self.connection.execute(question_marks(sql), parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the driver's count."""
        return self.connection.execute(question_marks(sql), parameters).rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement with one call of the driver, which adds up the counts."""
        return self.connection.executemany(question_marks(sql), rows).rowcount


class SQLiteDatabase(ConnectionPool[SQLiteConnection]):
    """The database in a file; see `connections.Database`. Every commit is synced to the disk.

    The first connection creates the file if it is missing: only its owner can use it, and SQLite's
    companions of it (-wal, -shm, -journal). Existing files keep their modes.

    Raises `ConfigurationError` if no file is named.
    """

    dialect = SQLITE
    errors = (sqlite3.Error, *UNWRITABLE)

    def __init__(self, file: str) -> None:
        if file in {"", ":memory:"}:
            raise ConfigurationError(
                "An in-memory SQLite database ends with its connection: name a file in the URL, or "
                "pass an engine that keeps the connection open."
            )
        self.name, self.file = file, Path(file).absolute()  # the current directory may change
        self._opened: os.stat_result | None = None
        super().__init__()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Wait for the write lock, and commit at the end of the block."""
        with self._connection() as connection:
            execute = connection.connection.execute
            is_short = STORE_DEADLINE.get() - monotonic() < LOCK_TIMEOUT
            if is_short:
                execute(f"PRAGMA busy_timeout = {milliseconds(LOCK_TIMEOUT)}")
            try:
                execute(SQLITE.begin)
                yield connection
                execute("COMMIT")
            finally:
                if is_short:
                    execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT * 1000}")

    session = transaction  # SQLite locks the file before the first statement

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read; `limited_to` interrupts it."""
        with self._reader() as connection:
            until = STORE_DEADLINE.get()
            if isinf(until):
                yield connection
                return
            sqlite = connection.connection
            sqlite.set_progress_handler(lambda: monotonic() > until, _STEPS)
            try:
                yield connection
            finally:
                sqlite.set_progress_handler(None, 0)

    def upgrading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction; statements have no time limits on SQLite."""
        return self.transaction()

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """See `connections.Upgradable`."""
        with self._connection() as connection:
            yield connection

    def __str__(self) -> str:
        return f"sqlite:///{self.name}"

    def _roll_back(self, connection: SQLiteConnection) -> bool:
        connection.connection.rollback()
        return True

    def _take(self) -> SQLiteConnection:
        """Take a connection, if the file is still the one that was opened first.

        A connection to a file that was moved or removed would commit to that file. Connecting again
        is no remedy: SQLite would apply the old file's write-ahead log to the new file.
        """
        try:
            status = os.stat(self.file)  # noqa: PTH116 - twice as fast as Path.stat
        except FileNotFoundError:
            status = None
        if self._opened and not (status and samestat(status, self._opened)):
            raise Unavailable(
                f"The file {self.name} was moved, removed or replaced while it was open. Restart "
                "hookrow, or move the file back."
            )
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        self._opened = self._opened or os.stat(self.file)  # noqa: PTH116 - as above
        return connection

    def _connect(self) -> SQLiteConnection:
        # SQLite would open the file read-only, and keep it so even once it is writable again.
        if self.file.exists() and not os.access(self.file, os.W_OK):
            raise Unavailable(
                f"The file {self.name} cannot be written: give this user write access to it."
            )
        with suppress(OSError):  # SQLite then reports that it cannot open the file
            create_private_file(self.file)
        # SQLite itself creates no file: it would give it the mode that the umask allows.
        connection = sqlite3.connect(
            f"file://{quote(os.fsencode(self.file))}?mode=rw",
            uri=True,
            timeout=LOCK_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            set_pragmas(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return SQLiteConnection(connection)


def set_pragmas(connection: sqlite3.Connection) -> None:
    """Sync every commit to the disk, check foreign keys, and switch to a write-ahead log.

    The write-ahead log is copied to the file at 16 MiB, not at the default of 4: a page that has
    changed several times by then is copied once.
    """
    connection.executescript(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 4000;"
    )
    until = monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite waits for a lock to write, but not for the lock to switch the journal.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
            sleep(0.01)
        else:
            return
