"""SQLite through the standard library's module, which begins no transaction by itself."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import isinf
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from hookrow.errors import ConfigurationError
from hookrow.stores import Unavailable
from hookrow.stores.sql.connections import (
    BeginsSessions,
    Connection,
    ConnectionPool,
    DriverConnection,
)
from hookrow.stores.sql.dialects import SQLITE, question_marks
from hookrow.stores.timeouts import LOCK_TIMEOUT, left, milliseconds

_STEPS = 10_000
"""How many instructions SQLite executes between two checks of the time limit."""


class SQLiteConnection(DriverConnection):
    """One of hookrow's own connections to a file; see `connections.Connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.close = connection, connection.close

    def _run(self, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        return self.connection.execute(question_marks(sql), parameters)

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run it with one call of the driver."""
        self.connection.executemany(question_marks(sql), rows)


class SQLiteDatabase(BeginsSessions, ConnectionPool[SQLiteConnection]):
    """The database in a file; see `connections.Database`. Every commit is synced to the disk.

    Raises `ConfigurationError` if no file is named.
    """

    dialect = SQLITE
    errors = (sqlite3.Error,)

    def __init__(self, file: str) -> None:
        if file in {"", ":memory:"}:
            raise ConfigurationError(
                "An in-memory SQLite database disappears with its connection: name a file, "
                "or pass an engine that keeps the connection open."
            )
        self.name, self.file = file, Path(file).absolute()  # the current folder may change
        self._opened: tuple[int, int] | None = None
        super().__init__()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Wait for the write lock, and commit at the end of the block."""
        with self._connection() as connection, _lock_timeout(connection):
            connection.execute(SQLITE.begin)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, without a lock."""
        with self._connection(reads=True) as connection:
            if isinf(left()):
                yield connection
                return
            until = monotonic() + left()
            sqlite = connection.connection
            sqlite.set_progress_handler(lambda: monotonic() > until, _STEPS)
            try:
                yield connection
            finally:
                sqlite.set_progress_handler(None, 0)

    def upgrading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction: a statement has no time limits here."""
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
        """Take a connection to the file that was opened first.

        One to a file that was moved or removed would commit where nobody looks any more. A new
        one is no remedy: SQLite would apply the old file's write-ahead log to the new file.
        """
        if self._opened not in {None, self._identity()}:
            raise Unavailable(
                f"The file {self.name} was moved, removed or replaced while it was open. Restart "
                "hookrow, or move the file back."
            )
        connection = super()._take()
        self._opened = self._opened or self._identity()
        return connection

    def _identity(self) -> tuple[int, int] | None:
        """Return the device and the inode of the file; None if it does not exist."""
        try:
            found = os.stat(self.file)  # noqa: PTH116 - half as long as a Path's
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _connect(self) -> SQLiteConnection:
        # SQLite would open a file read-only, and not notice when it can be written again.
        if self.file.exists() and not os.access(self.file, os.W_OK):
            raise sqlite3.OperationalError("the file cannot be written")
        connection = sqlite3.connect(
            self.file, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        set_pragmas(connection)
        return SQLiteConnection(connection)


@contextmanager
def _lock_timeout(connection: SQLiteConnection) -> Iterator[None]:
    """Wait for the file's lock no longer than `limited_to` allows."""
    if left() >= LOCK_TIMEOUT:
        yield
        return
    connection.fetch(f"PRAGMA busy_timeout = {milliseconds(LOCK_TIMEOUT)}")
    try:
        yield
    finally:
        connection.fetch(f"PRAGMA busy_timeout = {LOCK_TIMEOUT * 1000}")


def set_pragmas(connection: sqlite3.Connection) -> None:
    """Sync every commit to the disk, check foreign keys, and switch to a write-ahead log."""
    connection.executescript("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")
    until = monotonic() + LOCK_TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # SQLite itself waits for its turn to write, but not for its turn to switch.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
            sleep(0.01)
        else:
            return
