"""SQLite through the standard library's module, in its mode without implicit transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from math import isinf
from os.path import samestat
from pathlib import Path
from stat import S_ISREG
from threading import Lock, get_ident
from time import monotonic, sleep
from typing import Any, ClassVar
from weakref import finalize

from hookrow._concurrency import reset_after_fork
from hookrow._core.schema import Schema
from hookrow.stores._driver_errors import UNWRITABLE
from hookrow.stores._errors import Locked, Unavailable
from hookrow.stores._private_file import create_private_file
from hookrow.stores._timeouts import LOCK_TIMEOUT, STORE_DEADLINE, left, milliseconds
from hookrow.stores.sql._connections import (
    INHERITED,
    Connection,
    ConnectionPool,
    Row,
    store_errors,
)
from hookrow.stores.sql._dialects.base import question_marks
from hookrow.stores.sql._dialects.sqlite import SQLITE
from hookrow.stores.sql._scripts import Script, scripts_of

_STEPS_BETWEEN_CHECKS = 10_000
"""How many instructions SQLite executes between two checks of the time limit."""


SQLITE_ERRORS = (sqlite3.Error, *UNWRITABLE)
"""The errors of the driver."""


class SQLiteConnection(Connection):
    """One of hookrow's own connections."""

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
    """The database in a file; see `_connections.Database`. Every commit is synced to the disk.

    The first connection creates the file if it is missing: only its owner can use it and the
    files that SQLite creates beside it (-wal, -shm, -journal). Existing files keep their modes.
    """

    dialect = SQLITE
    errors = SQLITE_ERRORS

    def __init__(self, file: str) -> None:
        self.name, self.file = file, Path(file).absolute()  # the current directory may change
        self._opened: os.stat_result | None = None
        super().__init__()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Wait for the write lock, and commit at the end of the block."""
        with self._connection() as connection:
            execute = connection.connection.execute
            is_short = left() < LOCK_TIMEOUT
            if is_short:
                execute(f"PRAGMA busy_timeout = {milliseconds(LOCK_TIMEOUT)}")
            try:
                execute(SQLITE.begin)
                yield connection
                execute("COMMIT")
            finally:
                if is_short:
                    execute(f"PRAGMA busy_timeout = {LOCK_TIMEOUT * 1000}")

    recording = transaction  # SQLite locks the file before the first statement

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read; `limited_to` interrupts it."""
        with self._reader() as connection, _interrupted(connection):
            yield connection

    def upgrading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction; statements have no time limits on SQLite."""
        return self.transaction()

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Connect so that each statement commits by itself."""
        with self._connection() as connection:
            yield connection

    def status(self) -> os.stat_result | None:
        """Return the status of the file, or None if it does not exist.

        Raises `Unavailable` if there can be no database at the path.
        """
        try:
            status = os.stat(self.file)  # noqa: PTH116 - twice as fast as Path.stat
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or "the system does not allow it"
        else:
            if S_ISREG(status.st_mode):
                return status
            reason = "it is not a regular file"
        raise Unavailable(
            f"The file {self.name} cannot be used: {reason}. Name another file, or correct the "
            "path or this user's access to its directories."
        )

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
        status = self.status()
        if self._opened and not (status and samestat(status, self._opened)):
            raise Unavailable(
                f"The file {self.name} was moved, removed or replaced while it was open. Restart "
                "hookrow, or move the file back."
            )
        connection = super()._take()
        self._opened = self._opened or self.status()
        return connection

    def _connect(self) -> SQLiteConnection:
        # SQLite would open the file read-only, and keep it so even once it is writable again.
        if self.status() and not os.access(self.file, os.W_OK):
            raise Unavailable(
                f"The file {self.name} cannot be written: give this user write access to it."
            )
        with suppress(OSError):  # SQLite then reports that it cannot open the file
            create_private_file(self.file)
        # SQLite itself creates no file: it would give it the mode that the umask allows.
        connection = sqlite3.connect(
            f"{self.file.as_uri()}?mode=rw",
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


class SQLiteMemory:
    """A database in memory, on one connection; see `_connections.Database`.

    It belongs to the process and the object that open it, and ends with `close`. Threads take
    turns: each transaction and each reading waits until no other is open, for two seconds or until
    the deadline of `limited_to`, and then raises `Locked`. It has the own tables of each schema
    that was passed to `create_tables`.

    Raises `Unavailable` if it is used within a transaction or a reading of the same thread, in a
    child process, or after `close`.
    """

    dialect = SQLITE
    converters: ClassVar[Mapping[tuple[str, str], Callable[[Any], Any]]] = {}

    def __init__(self) -> None:
        self._lock, self._thread = Lock(), 0
        self._connection: SQLiteConnection | None = None
        self._ended = ""
        self._scripts: list[Script] = []
        self._created = 0
        reset_after_fork(self)

    def create_tables(self, schema: Schema) -> None:
        """Let the next use create the own tables that the schema needs, unless they exist."""
        self._scripts += [
            each for each in scripts_of(SQLITE.name, schema) if each not in self._scripts
        ]

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Wait for the connection, and commit at the end of the block."""
        with self._connected() as connection:
            connection.connection.execute(SQLITE.begin)
            yield connection
            connection.connection.execute("COMMIT")

    recording = transaction

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Wait for the connection; `limited_to` interrupts a statement."""
        with self._connected() as connection, _interrupted(connection):
            yield connection

    def renew(self) -> None:
        """Do nothing: a trigger cannot change the settings of the connection."""

    def close(self) -> None:
        """Drop the database: now, or at the end of the block that uses it."""
        self._ended = "The database in memory was closed, and its rows are gone."
        self._drop()

    def reset(self) -> None:
        """End the child's copy; see `reset_after_fork`."""
        self._lock, self._thread = Lock(), 0
        self._ended = (
            "A database in memory belongs to the process that created it, not to its child "
            'processes: create SQLStore("sqlite://") in the child, or use a file.'
        )
        if self._connection is not None:
            # Another thread may have been using it, so that closing it could wait forever.
            INHERITED.append(self._connection)
            self._connection = None
            self._finalizer.detach()

    def __str__(self) -> str:
        return "sqlite://"

    @contextmanager
    def _connected(self) -> Iterator[SQLiteConnection]:
        """Use the connection alone in the block, and roll back if the block raises."""
        if self._thread == get_ident():
            raise Unavailable(
                "This thread is already using the database in memory, which has one connection: "
                "end the transaction or the reading first."
            )
        lock = self._lock  # a fork in the block replaces it
        if not lock.acquire(timeout=max(min(LOCK_TIMEOUT, left()), 0)):
            raise Locked("Another thread is using the database in memory.")
        self._thread = get_ident()
        try:
            with store_errors(SQLITE_ERRORS):
                connection = self._open()
                try:
                    self._create_tables(connection)
                    yield connection
                except BaseException:
                    connection.connection.rollback()
                    raise
        finally:
            self._thread = 0
            lock.release()
            if self._ended:
                self._drop()

    def _open(self) -> SQLiteConnection:
        if self._ended:
            raise Unavailable(self._ended)
        if self._connection is None:
            connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA foreign_keys = ON")
            self._connection = SQLiteConnection(connection)
            self._finalizer = finalize(self, connection.close)
        return self._connection

    def _create_tables(self, connection: SQLiteConnection) -> None:
        for script in self._scripts[self._created :]:
            connection.connection.executescript(f"BEGIN; {script.text} COMMIT;")
            self._created += 1

    def _drop(self) -> None:
        """Close the connection, unless a thread is using it, which then closes it."""
        if self._lock.acquire(blocking=False):
            if self._connection is not None:
                self._finalizer()
                self._connection = None
            self._lock.release()


@contextmanager
def _interrupted(connection: SQLiteConnection) -> Iterator[None]:
    """Interrupt statements in the block at the deadline of `limited_to`."""
    until = STORE_DEADLINE.get()
    if isinf(until):
        yield
        return
    sqlite = connection.connection
    sqlite.set_progress_handler(lambda: monotonic() > until, _STEPS_BETWEEN_CHECKS)
    try:
        yield
    finally:
        sqlite.set_progress_handler(None, 0)


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
