"""Protocols for databases and connections, and what hookrow's own connections have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import inf
from threading import Semaphore
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import finalize

from hookrow.concurrency import reset_after_fork
from hookrow.stores import Rejected, Unavailable
from hookrow.stores.errors import store_error
from hookrow.stores.sql.dialects import Dialect
from hookrow.stores.timeouts import DEADLINE

CONNECT_TIMEOUT = 3
"""In seconds; how long to wait for a new connection, or for a free one."""

SESSIONS = 8
"""The largest number of connections that hookrow opens to one database."""

READERS = SESSIONS - 2
"""How many of them may be readers': readers that wait for a lock do not stop the writers."""

NOT_A_URL = (
    "This is no database URL: write for example sqlite:///hookrow.db "
    "or postgresql://user@host/database. An @ in a password is written %40."
)

Row = Sequence[Any]


class Connection(Protocol):
    """Runs SQL text, with `%s` for each parameter. Raises the driver's own errors."""

    @property
    def autocommits(self) -> bool:
        """Whether each statement of a `Database.session` commits by itself."""

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return the rows of a statement."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows a statement changed."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""


class DriverConnection(ABC):
    """A `Connection` on top of a method that runs a statement and returns a cursor."""

    autocommits = False

    @abstractmethod
    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:  # noqa: ANN401 - a driver's cursor
        """Run a statement."""

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        rows: Sequence[Row] = self._run(sql, parameters).fetchall()
        return rows

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the driver's count."""
        count: int = self._run(sql, parameters).rowcount
        return count

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run it row by row."""
        for row in rows:
            self._run(sql, row)


@runtime_checkable
class Database(Protocol):
    """Opens connections and transactions.

    All methods raise a `StoreError`, also from within the block. Blocks are not nested: each
    takes one of a few connections.
    """

    @property
    def dialect(self) -> Dialect:
        """The SQL that the database understands."""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block.

        On SQLite it holds the write lock from the beginning.
        """

    def session(self) -> AbstractContextManager[Connection]:
        """Connect with time limits, and begin a transaction unless the connection autocommits.

        If it does, each statement commits by itself, or BEGIN and COMMIT are sent as statements.
        """

    def reading(self) -> AbstractContextManager[Connection]:
        """Connect to read: without locks, and without time limits but that of `limited_to`."""

    def close(self) -> None:
        """Close the connections, unless they are the host's."""


@runtime_checkable
class Upgradable(Database, Protocol):
    """A database whose tables hookrow's migrations can change.

    On PostgreSQL, the connections of both methods are new ones without time limits, which are
    closed at the end.
    """

    def upgrading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction; it is committed at the end of the block."""

    def autocommit(self) -> AbstractContextManager[Connection]:
        """Connect so that each statement commits by itself."""


class Closable(Protocol):
    """One of hookrow's own connections."""

    def close(self) -> None:
        """Close it. Never raises."""


C = TypeVar("C", bound=Closable)


class _Idle(list[C]):
    """A stack of idle connections. After `closed`, a connection that is put there is closed."""

    closed = False


class ConnectionPool(ABC, Generic[C]):
    """A database to which hookrow opens its own connections, at most `SESSIONS` at a time.

    After a fork, the child begins with an empty stack: the connections stay the parent's.
    """

    errors: tuple[type[Exception], ...]
    """What the driver raises."""

    _idle: _Idle[C]
    _free: Semaphore
    _free_for_readers: Semaphore
    _finalizer: finalize[Any, Any] | None = None

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    @abstractmethod
    def _connect(self) -> C:
        """Open a connection."""

    @abstractmethod
    def _roll_back(self, connection: C) -> bool:
        """Roll back after an error in the block; return whether the connection can be reused."""

    @contextmanager
    def _connection(self, until: float = inf) -> Iterator[C]:
        """Take an idle or new connection for the block. Raises a `StoreError`.

        If all connections are in use for too long, or at the time `until`, this is `Unavailable`.
        """
        idle, free, now = self._idle, self._free, monotonic()  # a child process has others
        if not free.acquire(
            timeout=max(min(CONNECT_TIMEOUT, until - now, DEADLINE.get() - now), 0)
        ):
            raise Unavailable(f"All {SESSIONS} connections are in use.")
        try:
            connection = self._take()
            try:
                yield connection
            except BaseException:
                if self._roll_back(connection):
                    idle.append(connection)
                else:
                    connection.close()
                raise
            idle.append(connection)
        except self.errors as error:
            raise store_error(error) from error
        except (UnicodeError, OverflowError) as error:
            raise unwritable(error) from error
        finally:
            if idle.closed:
                close_all(idle)
            free.release()

    @contextmanager
    def _reader(self) -> Iterator[C]:
        """Take a connection to read, of which there are fewer; see `_connection`."""
        free, now = self._free_for_readers, monotonic()
        seconds = min(CONNECT_TIMEOUT, DEADLINE.get() - now)
        if not free.acquire(timeout=max(seconds, 0)):
            raise Unavailable(f"All {READERS} connections of readers are in use.")
        try:
            with self._connection(until=now + seconds) as connection:
                yield connection
        finally:
            free.release()

    def _take(self) -> C:
        """Return the connection that was idle for the shortest time, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def close(self) -> None:
        """Close the idle connections now, and those in use when their blocks end."""
        idle = self._idle
        self._begin_stack()
        idle.closed = True
        close_all(idle)

    def reset(self) -> None:
        """Begin without connections."""
        if self._finalizer is not None:
            _inherited.append(self._idle)
        self._free, self._free_for_readers = Semaphore(SESSIONS), Semaphore(READERS)
        self._begin_stack()

    def _begin_stack(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self._idle = _Idle()
        self._finalizer = finalize(self, close_all, self._idle)


_inherited: list[object] = []
"""A parent's connections: to close or to collect them in a child would end them for both."""


def close_all(idle: list[C]) -> None:
    """Empty a stack of connections, and close them."""
    while idle:
        idle.pop().close()


@contextmanager
def store_errors(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise a `StoreError` for what a driver raises in the block."""
    try:
        yield
    except errors as error:
        raise store_error(error) from error
    except (UnicodeError, OverflowError) as error:
        raise unwritable(error) from error


def unwritable(error: Exception) -> Rejected:
    """Return the `StoreError` for a value that a driver cannot write."""
    return Rejected(type(error).__name__)
