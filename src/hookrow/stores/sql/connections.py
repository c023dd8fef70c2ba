"""Protocols for databases and connections, and the pool of hookrow's own connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from threading import Semaphore
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import finalize

from hookrow.forks import renew_after_fork
from hookrow.stores import Rejected, Unavailable
from hookrow.stores.errors import store_error
from hookrow.stores.sql.dialects import Dialect

CONNECT_TIMEOUT = 3
"""In seconds; how long to wait for a new connection, or for a free one."""

SESSIONS = 8
"""The largest number of connections that hookrow opens to one database."""

NOT_A_URL = (
    "This is no database URL: write for example sqlite:///hookrow.db "
    "or postgresql://user@host/database. An @ in a password is written %40."
)

Row = Sequence[Any]
C = TypeVar("C")


class Connection(Protocol):
    """Runs SQL text, with `%s` for each parameter. Raises what its driver raises."""

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return the rows of a statement."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows a statement changed."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""


@runtime_checkable
class Database(Protocol):
    """Opens connections and transactions.

    All methods raise a `StoreError`, also from within the block. Blocks are not nested: each
    takes one of a few connections.
    """

    @property
    def dialect(self) -> Dialect:
        """The SQL that it takes."""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block.

        On SQLite it holds the write lock from the beginning.
        """

    def session(self) -> AbstractContextManager[tuple[Connection, bool]]:
        """Connect with time limits; also tell whether a transaction has begun, as above.

        If not, each statement commits by itself, or BEGIN and COMMIT are sent as statements.
        """

    def reading(self) -> AbstractContextManager[Connection]:
        """Connect to read: without locks, and without time limits but that of `limited_to`."""

    def close(self) -> None:
        """Close the connections, unless they are the host's."""


class Pool(Generic[C]):
    """A stack of idle connections, of which at most `SESSIONS` are open.

    After a fork the child begins with an empty stack: what is on it stays the parent's.
    """

    _idle: list[C]
    _free: Semaphore
    _finalizer: finalize[Any, Any] | None = None

    def __init__(self, connect: Callable[[], C], close: Callable[[C], None]) -> None:
        self._connect, self._close = connect, close
        self.renew()
        renew_after_fork(self)

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Wait for the right to use a connection. Raises `Unavailable` if that takes too long."""
        free = self._free
        if not free.acquire(timeout=CONNECT_TIMEOUT):
            raise Unavailable(f"All {SESSIONS} connections are in use.")
        try:
            yield
        finally:
            free.release()

    def take(self) -> C:
        """Return the connection that was idle for the shortest time, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def put(self, connection: C) -> None:
        """Return a connection to the pool."""
        self._idle.append(connection)

    def clear(self) -> None:
        """Close the idle connections."""
        _close_all(self._idle, self._close)

    def renew(self) -> None:
        """Begin with no connection."""
        if self._finalizer is not None:
            # To close or to collect the parent's connections in a child would end them for both.
            self._finalizer.detach()
            _inherited.append(self._idle)
        self._idle, self._free = [], Semaphore(SESSIONS)
        self._finalizer = finalize(self, _close_all, self._idle, self._close)


_inherited: list[object] = []


def _close_all(idle: list[C], close: Callable[[C], None]) -> None:
    while idle:
        close(idle.pop())


@contextmanager
def store_errors(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Raise a `StoreError` for what a driver raises in the block."""
    try:
        yield
    except errors as error:
        raise store_error(error) from error
    except (UnicodeError, OverflowError) as error:  # the driver cannot write a value
        raise Rejected(type(error).__name__) from error
