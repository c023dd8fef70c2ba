"""SQLite through the standard library's module, which begins no transaction by itself."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isinf
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from hookrow.errors import ConfigurationError
from hookrow.stores.sql.connections import Connection, Pool, Row, store_errors
from hookrow.stores.sql.dialects import SQLITE, question_marks
from hookrow.stores.timeouts import LOCK_TIMEOUT, left

_ERRORS = (sqlite3.Error,)

_STEPS = 10_000
"""Of SQLite's machine: how many it takes between two looks at the clock."""


class SQLiteConnection:
    """A connection of our own to a file; see `connections.Connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return the rows of a statement."""
        return self.connection.execute(question_marks(sql), parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows a statement changed."""
        return self.connection.execute(question_marks(sql), parameters).rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""
        self.connection.executemany(question_marks(sql), rows)


class SQLiteDatabase:
    """The database in a file; see `connections.Database`. Every commit is synced to the disk.

    Raises `ConfigurationError` if no file is named.
    """

    dialect = SQLITE

    def __init__(self, file: str) -> None:
        if file in {"", ":memory:"}:
            raise ConfigurationError(
                "An in-memory SQLite database disappears with its connection: name a file, "
                "or pass an engine that keeps the connection open."
            )
        self.name, self.file = file, Path(file).absolute()  # whatever folder is the current one
        self._pool: Pool[SQLiteConnection] = Pool(
            self._connect, lambda idle: idle.connection.close()
        )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Wait for the write lock, and commit at the end of the block."""
        with self._lent() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def session(self) -> Iterator[tuple[Connection, bool]]:
        """Begin a transaction."""
        with self.transaction() as connection:
            yield connection, True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, without a lock, and without a time limit but that of `limited_to`."""
        with self._lent() as connection:
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

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def __str__(self) -> str:
        return f"sqlite:///{self.name}"

    @contextmanager
    def _lent(self) -> Iterator[SQLiteConnection]:
        with store_errors(_ERRORS), self._pool.slot():
            connection = self._pool.take()
            try:
                yield connection
            except BaseException:
                connection.connection.rollback()
                raise
            finally:
                self._pool.put(connection)

    def _connect(self) -> SQLiteConnection:
        # SQLite would open a file read-only, and not notice when it can be written again.
        if self.file.exists() and not os.access(self.file, os.W_OK):
            raise sqlite3.OperationalError("the file cannot be written")
        connection = sqlite3.connect(
            self.file, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        set_pragmas(connection)
        return SQLiteConnection(connection)


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
