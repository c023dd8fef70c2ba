"""The protocols of databases and connections, and the pool of hookrow's own connections."""

from __future__ import annotations

import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from math import inf
from threading import Semaphore
from time import monotonic
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable
from weakref import finalize

from hookrow._concurrency import reset_after_fork
from hookrow.stores._driver_errors import is_of_session, store_error
from hookrow.stores._errors import Detached, Unavailable
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, STORE_DEADLINE
from hookrow.stores.sql._dialects.base import Dialect, utc

CONNECT_TIMEOUT = 3
"""Seconds to wait for a new connection, or for one to become free."""

SESSIONS = 8
"""The largest number of connections that hookrow opens to one database."""

READERS = SESSIONS - 2
"""How many connections readers may use, so that readers waiting for a lock do not block writers."""

NOT_A_URL = (
    "This is not a database URL: write, for example, sqlite:///hookrow.db, "
    "postgresql://user@host/database or mariadb://user@host/database. "
    "Write an @ in a password as %40."
)

IDLE = 1.0
"""Seconds after which an idle session is checked before it is used again."""

SILENCE = STATEMENT_TIMEOUT
"""Seconds that recording may take if there is another host. A server that needs longer is probably
silent, and this leaves time to record on the other host before the deadline of the response."""

_SAVEPOINT = "SAVEPOINT hookrow_rehearsal"

Row = Sequence[Any]


class Insert(NamedTuple):
    """An INSERT of values as SQL text, for one row and for many.

    The text for one row has a parameter for each value. The text for many has a single one,
    which is replaced with the rows as in VALUES: the literals of each in parentheses.
    """

    one: str
    many: str


class Connection(Protocol):
    """Runs SQL text, with `%s` for each parameter. Raises the driver's own errors."""

    autocommits: bool = False
    """Whether each statement of a `Database.recording` commits by itself."""

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return the rows of a statement."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows a statement changed."""

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run a statement once for each row of parameters; return how many rows it changed."""

    def insert(self, insert: Insert, rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows of values, together if the connection writes literals; return the count."""
        return self.execute_many(insert.one, rows)


@runtime_checkable
class Database(Protocol):
    """Opens connections and transactions.

    A method may raise a `StoreError`, and translates a driver's error in its block into one. Do not
    nest blocks: each uses one of a few connections.
    """

    @property
    def dialect(self) -> Dialect:
        """The SQL that the database understands."""

    @property
    def converters(self) -> Mapping[tuple[str, str], Callable[[Any], Any]]:
        """The conversions of reasons by the host's own types, by table and column."""

    def transaction(self) -> AbstractContextManager[Connection]:
        """Begin a transaction on hookrow's own tables; it is committed at the end of the block.

        It waits for a lock for `LOCK_TIMEOUT`. On SQLite, it holds the write lock from the
        beginning.
        """

    def recording(self) -> AbstractContextManager[Connection]:
        """Connect to write the host's rows. Begin a transaction unless the connection autocommits.

        It waits for a row for `ROW_LOCK_TIMEOUT`. If it autocommits, each statement commits by
        itself, except between BEGIN and COMMIT.
        """

    def reading(self) -> AbstractContextManager[Connection]:
        """Connect to read, without locks; the only time limit is that of `limited_to`."""

    def renew(self) -> None:
        """Replace the connections: a trigger may have changed the settings of their sessions."""

    def close(self) -> None:
        """Close the connections, unless the host supplies them."""


@runtime_checkable
class Upgradable(Database, Protocol):
    """A database whose tables hookrow's migrations can change.

    On PostgreSQL, both methods open a new connection without time limits, and close it at the end.
    """

    def upgrading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction; it is committed at the end of the block."""

    def autocommit(self) -> AbstractContextManager[Connection]:
        """Connect so that each statement commits by itself."""


class OwnConnection(Protocol):
    """One of hookrow's own connections."""

    def close(self) -> None:
        """Close the connection. Never raises."""


class SessionLiveness:
    """Shows without a round trip whether a server still serves a session, by the session's socket.

    A server sends data without a request only when it ends the session.
    """

    def __init__(self, socket: socket.socket) -> None:
        self._poll = select.poll()
        self._poll.register(socket, select.POLLIN)
        self.renew()

    def renew(self) -> None:
        """Note that the server has just responded."""
        self._responded_at = monotonic()

    def lasts(self) -> bool:
        """Return whether the server responded a moment ago, and has sent nothing since."""
        return monotonic() - self._responded_at <= IDLE and not self._poll.poll(0)


C = TypeVar("C", bound=OwnConnection)


class _IdleStack(list[C]):
    """A stack of idle connections. Once it is `closed`, no connection stays on it."""

    closed = False


class ConnectionPool(ABC, Generic[C]):
    """A database to which hookrow opens its own connections, at most `SESSIONS` at a time.

    After a fork, the child begins with an empty stack: the connections remain the parent's.
    """

    errors: tuple[type[Exception], ...]
    """The errors of the driver, and `UNWRITABLE`."""
    converters: ClassVar[Mapping[tuple[str, str], Callable[[Any], Any]]] = {}

    _idle: _IdleStack[C]
    _free: Semaphore
    _free_for_readers: Semaphore
    _finalizer: finalize[Any, Any] | None = None

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    @abstractmethod
    def _connect(self) -> C:
        """Open a connection."""

    @property
    def _has_other_hosts(self) -> bool:
        """Whether the URL names several hosts."""
        return False

    @property
    def _silence(self) -> float:
        """The seconds after which a server is considered silent; without another host, infinity."""
        return SILENCE if self._has_other_hosts else inf

    @abstractmethod
    def _roll_back(self, connection: C) -> bool:
        """Roll back after an error in the block; return whether the connection can be reused."""

    @contextmanager
    def _connection(self, until: float = inf) -> Iterator[C]:
        """Take an idle or new connection for the block. Raises a `StoreError`.

        The error is `Unavailable` if no connection becomes free within `CONNECT_TIMEOUT`, or before
        `until`, a time on the clock of `monotonic`.
        """
        idle, free, now = self._idle, self._free, monotonic()  # a fork in the block replaces them
        seconds = min(CONNECT_TIMEOUT, until - now, STORE_DEADLINE.get() - now)
        if not free.acquire(timeout=max(seconds, 0)):
            raise Unavailable(f"All {SESSIONS} connections are in use.")
        try:
            connection = self._take()
            try:
                yield connection
            except BaseException as error:
                is_useless = isinstance(error, Detached)
                if is_useless or (isinstance(error, self.errors) and is_of_session(error)):
                    # The server may have become a standby, or shut down: another one may have
                    # taken its address, to which a new session connects.
                    self._lose(connection)
                    close_all(idle)
                elif self._roll_back(connection):
                    idle.append(connection)
                else:
                    connection.close()
                raise
            idle.append(connection)
        except self.errors as error:
            raise store_error(error) from error
        finally:
            if idle.closed:
                close_all(idle)
            free.release()

    def _lose(self, connection: C) -> None:
        """Close a connection whose session or server has failed."""
        connection.close()

    @contextmanager
    def _reader(self) -> Iterator[C]:
        """Take one of the connections for readers; see `_connection`."""
        free, now = self._free_for_readers, monotonic()
        seconds = min(CONNECT_TIMEOUT, STORE_DEADLINE.get() - now)
        if not free.acquire(timeout=max(seconds, 0)):
            raise Unavailable(f"All {READERS} connections for readers are in use.")
        try:
            with self._connection(until=now + seconds) as connection:
                yield connection
        finally:
            free.release()

    def _take(self) -> C:
        """Return the connection that became idle last, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def renew(self) -> None:
        """Close the connections as `close` does; the next use opens new ones."""
        self.close()

    def close(self) -> None:
        """Close the idle connections now, and those in use when their blocks end."""
        idle = self._idle
        self._begin_stack()
        idle.closed = True
        close_all(idle)

    def reset(self) -> None:
        """Start with no connections; see `reset_after_fork`."""
        if self._finalizer is not None:
            INHERITED.append(self._idle)
        self._free, self._free_for_readers = Semaphore(SESSIONS), Semaphore(READERS)
        self._begin_stack()

    def _begin_stack(self) -> None:
        if self._finalizer is not None:
            self._finalizer.detach()
        self._idle = _IdleStack()
        self._finalizer = finalize(self, close_all, self._idle)


INHERITED: list[object] = []
"""Connections of the parent process: closing or collecting them would end them for both."""


def close_all(idle: list[C]) -> None:
    """Empty a stack of connections, and close them."""
    while idle:
        idle.pop().close()


@contextmanager
def store_errors(errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Translate these errors, raised in the block, into a `StoreError`."""
    try:
        yield
    except errors as error:
        raise store_error(error) from error


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    """Let `undone` roll back what single statements of the block did."""
    connection.execute(_SAVEPOINT)
    yield
    connection.execute(f"RELEASE {_SAVEPOINT}")


@contextmanager
def undone(connection: Connection) -> Iterator[None]:
    """Roll back what the block did: a constraint may call a function that writes.

    The transaction stays writable, because such a function may treat an error as a refusal.
    """
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the connection may be broken: the first error says why
            connection.execute(f"ROLLBACK TO {_SAVEPOINT}")
        raise
    connection.execute(f"ROLLBACK TO {_SAVEPOINT}")


def server_time(database: Database) -> datetime | None:
    """Return the time of the server's clock, in UTC; None if the clock is the process's.

    Raises a `StoreError`.
    """
    if database.dialect.clock is None:
        return None
    with database.reading() as connection:
        ((now,),) = connection.fetch(f"SELECT {database.dialect.clock}")
    return utc(now)
