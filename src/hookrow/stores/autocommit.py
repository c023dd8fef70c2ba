"""Statements that commit by themselves, and that no library carries but the driver.

BEGIN and COMMIT are two round trips, half of what a group takes on PostgreSQL; and what
SQLAlchemy does around two statements takes longer than all that is decided on a small group.
The time limits that come with BEGIN elsewhere are the session's here, which nobody else may
have: behind a pooler, which hands sessions around, all is as elsewhere.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import finalize

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

from hookrow.notification import RowId
from hookrow.schema import Schema
from hookrow.stores import State
from hookrow.stores.at_once import AtOnce
from hookrow.stores.faults import faults
from hookrow.stores.limits import set_limits
from hookrow.stores.prepared import Step, Values
from hookrow.stores.sql_rows import SQLTransaction
from hookrow.stores.statements import Statements
from hookrow.stores.watch import watch

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.pool import ConnectionPoolEntry

IDLE = 1.0
"""In seconds; so long is a server taken to be there, where it does not say otherwise."""

PREPARED_AFTER = 5
"""How often a statement is run before the server is to keep it: psycopg's own default."""

_SESSION = "hookrow_session"

_LIMITS = set_limits(local=False, prepared=True)


class Session:
    """A session that is ours alone, with our limits: it runs what `Prepared` and `AtOnce` ask for.

    It raises what SQLAlchemy would. `driver` is the module psycopg.
    """

    def __init__(self, connection: psycopg.Connection, driver: Any) -> None:  # noqa: ANN401 - a module
        self._connection, self._driver = connection, driver
        self._last_used = monotonic()
        # A duplicate: the driver may close its own, and the number then be another socket's.
        self.socket = socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
        finalize(connection, self.socket.close)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def exec_driver_sql(self, text: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Run a statement with its values."""
        with _sqlalchemys(self._driver, self._connection):
            cursor: psycopg.Cursor[Any] = self._driver.RawCursor(self._connection)
            return cursor.execute(_numbered(text), values)

    def ping(self) -> None:
        """Ask a server that let the session idle, or has something to say, whether it is there.

        Unasked it only says that it leaves.
        """
        now = monotonic()
        if now - self._last_used > IDLE or self._poll.poll(0):
            self.exec_driver_sql(_LIMITS)  # again: a trigger of the host's may have undone them
        self._last_used = now

    def commit(self) -> None:
        """End what a BEGIN began."""
        self.exec_driver_sql("COMMIT")

    def recover(self) -> None:
        """Roll back; then the driver forgets what it prepared, which may not fit any more."""
        with _sqlalchemys(self._driver, self._connection):
            if self._connection.info.transaction_status == self._driver.pq.TransactionStatus.IDLE:
                self._connection.execute("BEGIN")  # else there is nothing to be rolled back
            self._connection.rollback()


class Sessions:
    """The sessions of an engine that nothing else is for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._driver = engine.dialect.loaded_dbapi
        self._behind_pooler = False
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "checkout", _ping)

    @contextmanager
    def lend(self) -> Iterator[Session | None]:
        """Lend a session to this thread; None behind a pooler. Raises what SQLAlchemy would."""
        if self._behind_pooler:
            yield None
            return
        with _sqlalchemys(self._driver):
            pooled = self._engine.raw_connection()
        with closing(pooled):
            session: Session | None = pooled.info.get(_SESSION)
            if session is None:
                self._behind_pooler = True
                pooled.invalidate()
                yield None
                return
            with watch.over_socket(session.socket):
                try:
                    yield session
                except BaseException:
                    try:
                        session.recover()
                    except DBAPIError:
                        pooled.invalidate()
                    raise

    def _connected(self, connection: psycopg.Connection, record: ConnectionPoolEntry) -> None:
        """Set the limits where the server itself answers: a pooler names a process not its own."""
        pid = connection.info.backend_pid
        found = connection.execute(f"{_LIMITS} WHERE pg_backend_pid() = {pid}")
        direct = found.fetchone() is not None
        connection.commit()
        if direct:
            connection.autocommit = True
            connection.prepare_threshold = PREPARED_AFTER
            record.info[_SESSION] = Session(connection, self._driver)


def _ping(_connection: object, record: ConnectionPoolEntry, _pooled: object) -> None:
    """Have the pool connect anew in the place of all that idled, where the server left one."""
    session: Session | None = record.info.get(_SESSION)
    if session is not None:
        try:
            with watch.over_socket(session.socket):
                session.ping()
        except DBAPIError as error:
            raise InvalidatePoolError from error


def sessions(engine: Engine) -> Sessions | None:
    """Return the sessions of an engine of our own, where it can have any."""
    if engine.dialect.driver == "psycopg" and hasattr(select, "poll"):  # not on Windows
        return Sessions(engine)
    return None


class Transaction(SQLTransaction):
    """A transaction that begins only where one statement, which commits by itself, is not enough.

    What is written waits for the end. Where something is locked or read before that, all is done
    on the connection that `begin` returns.
    """

    _connected = False

    def __init__(
        self,
        session: Session,
        statements: Statements,
        schema: Schema,
        begin: Callable[[], Connection],
    ) -> None:
        # To find, and to write at once, a session is all of a connection that is needed.
        super().__init__(session, statements, schema, skip_locked=False)  # type: ignore[arg-type]
        self._connect = begin
        self._pending: list[Callable[[], None]] = []
        self._is_one = True

    def read(self, rows: Collection[RowId]) -> Mapping[RowId, State]:
        """Read what notifications set in the rows, after what is written so far."""
        self._begin()
        return super().read(rows)

    @faults()
    def lock(self, rows: Collection[RowId]) -> Collection[RowId]:
        """Lock what is written to, kind by kind."""
        self._begin()
        return super().lock(rows)

    def commit(self) -> None:
        """Write, and end it: by the one statement, or with COMMIT."""
        in_transaction = self._connected or not self._is_one
        if in_transaction and not self._connected:
            self._connection.exec_driver_sql("BEGIN")
        self._write()
        if in_transaction:
            super().commit()

    def _one_by_one(self, steps: Sequence[Step]) -> None:
        if steps:
            self._is_one = False
            self._pending.append(partial(super()._one_by_one, steps))

    def _at_once(self, statement: AtOnce, values: Sequence[Values]) -> None:
        self._is_one = not self._pending
        self._pending.append(partial(super()._at_once, statement, values))

    def _begin(self) -> None:
        if not self._connected:
            self._connected = True
            self._connection = self._connect()
        self._write()

    def _write(self) -> None:
        while self._pending:
            self._pending.pop(0)()


@cache
def _numbered(text: str) -> str:
    """Return it with numbered parameters: the driver would look for others each time anew."""
    numbers = count(1)
    return re.sub("%(.)", lambda mark: f"${next(numbers)}" if mark[1] == "s" else mark[1], text)


@contextmanager
def _sqlalchemys(driver: Any, connection: psycopg.Connection | None = None) -> Iterator[None]:  # noqa: ANN401 - a module
    """Raise errors of the driver as SQLAlchemy's."""
    try:
        yield
    except driver.Error as error:
        lost = connection is not None and connection.closed
        raise DBAPIError.instance(
            None, None, error, driver.Error, connection_invalidated=lost
        ) from error
