"""PostgreSQL through psycopg 3, in sessions of hookrow's own.

A statement commits by itself, without the round trips of BEGIN and COMMIT, and the time limits
are the session's. Behind a pooler such as PgBouncer, which hands sessions around between
statements, each transaction sets its own limits, and nothing is prepared.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import isinf
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.stores.sql.connections import (
    CONNECT_TIMEOUT,
    NOT_A_URL,
    Connection,
    Pool,
    Row,
    store_errors,
)
from hookrow.stores.sql.dialects import POSTGRESQL, numbered
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, left, limit_statements, set_limits
from hookrow.stores.watch import watch

if TYPE_CHECKING:
    import psycopg

IDLE = 1.0
"""In seconds; how long an idle session is taken to be alive unless its server says otherwise."""

PREPARED_AFTER = 5
"""How often a statement runs before the server is to prepare it: psycopg's own default."""

_LIMITS = set_limits(local=False, prepared=True)


class Session:
    """A connection of our own. `owned` is false behind a pooler."""

    def __init__(self, connection: psycopg.Connection, cursor: Callable[..., Any]) -> None:
        pid = connection.info.backend_pid  # a pooler's is not that of the server
        found = connection.execute(f"{_LIMITS} WHERE pg_backend_pid() = {pid}")
        self.owned = found.fetchone() is not None
        if self.owned:
            connection.prepare_threshold = PREPARED_AFTER
        self.connection, self._cursor = connection, cursor
        # A duplicate: the driver may close its own, and the number then be another socket's.
        self.socket = socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
        finalize(connection, self.socket.close)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)
        self.used_at = monotonic()

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return the rows of a statement."""
        rows: Sequence[Row] = self._run(sql, parameters).fetchall()
        return rows

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows a statement changed."""
        count: int = self._run(sql, parameters).rowcount
        return count

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement once for each row of parameters."""
        for row in rows:
            self._run(sql, row)

    def command(self, sql: str) -> None:
        """Run one or more statements without parameters."""
        self.connection.execute(sql, prepare=False)

    def is_alive(self) -> bool:
        """Return whether the server is there, as far as one can tell without asking.

        A server sends data that nobody asked for only if it shuts down.
        """
        return monotonic() - self.used_at <= IDLE and not self._poll.poll(0)

    def _run(self, sql: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        cursor: psycopg.Cursor[Any] = self._cursor(self.connection)
        return cursor.execute(numbered(sql), parameters)


class PostgresDatabase:
    """The database of a `postgresql://` URL, as libpq reads it; see `connections.Database`.

    Raises `ConfigurationError` for a URL that libpq does not understand, and `MissingExtra` if
    psycopg is not installed.
    """

    dialect = POSTGRESQL

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("PostgreSQL", "postgres") from error
        try:
            self.options = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:  # whose text may quote the password
            option = re.search(r'query parameter: "(\w+)"', str(error))
            unknown = option and f"PostgreSQL has no option {option[1]!r}: leave it out of the URL."
            raise ConfigurationError(unknown or NOT_A_URL) from None
        if not re.fullmatch("[0-9,]*", str(self.options.get("port", ""))):
            raise ConfigurationError(NOT_A_URL)
        self._driver = psycopg
        self._errors = (psycopg.Error,)
        self._pool: Pool[Session] = Pool(self._connect, lambda session: session.connection.close())

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begin a transaction with time limits; it is committed at the end of the block."""
        with self._session() as session, _begun(session):
            yield session

    @contextmanager
    def session(self) -> Iterator[tuple[Connection, bool]]:
        """Connect so that each statement commits; behind a pooler, begin a transaction."""
        with self._session() as session:
            if session.owned:
                yield session, False
                return
            with _begun(session):
                yield session, True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, without time limits but that of `limited_to`."""
        limited = not isinf(left())
        limit = limit_statements() if limited else _NO_LIMITS
        with self._session(watched=limited) as session:
            with watch.over_socket(session.socket):
                session.command(f"BEGIN; {limit}")
            yield session
            session.command("COMMIT")

    def close(self) -> None:
        """Close the idle sessions."""
        self._pool.clear()

    def __str__(self) -> str:
        """Return its URL as it may be shown: without the password, and without options."""
        user, host, port, name = (
            self.options.get(key) for key in ("user", "host", "port", "dbname")
        )
        password = ":***" if "password" in self.options else ""
        login = f"{user}{password}@" if user else ""
        return f"postgresql://{login}{host or ''}{f':{port}' if port else ''}/{name or ''}"

    @contextmanager
    def _session(self, *, watched: bool = True) -> Iterator[Session]:
        with store_errors(self._errors), self._pool.slot():
            session = self._alive()
            watching: AbstractContextManager[None] = (
                watch.over_socket(session.socket) if watched else nullcontext()
            )
            try:
                with watching:
                    yield session
            except BaseException:
                self._recover(session)
                raise
            session.used_at = monotonic()
            self._pool.put(session)

    def _alive(self) -> Session:
        session = self._pool.take()
        if session.is_alive():
            return session
        try:
            with watch.over_socket(session.socket):
                # Again: a host's trigger may have changed them. A pooler's session is shared.
                session.command(_LIMITS if session.owned else "SELECT 1")
        except self._driver.Error:
            session.connection.close()
            self._pool.clear()  # the server has probably closed the other idle sessions, too
            return self._pool.take()
        return session

    def _recover(self, session: Session) -> None:
        """Roll back, upon which the driver forgets what it prepared: it may not fit any more."""
        connection = session.connection
        with suppress(self._driver.Error):
            if connection.info.transaction_status == self._driver.pq.TransactionStatus.IDLE:
                connection.execute("BEGIN")  # else there is nothing to be rolled back
            connection.rollback()
            self._pool.put(session)
            return
        connection.close()

    def _connect(self) -> Session:
        connection = self._driver.connect(**(OPTIONS | self.options), autocommit=True)
        # A pooler may give the next statement to a server that has none of ours prepared.
        connection.prepare_threshold = None
        try:
            return Session(connection, self._driver.RawCursor)
        except BaseException:
            connection.close()
            raise


@contextmanager
def _begun(session: Session) -> Iterator[None]:
    session.command("BEGIN" if session.owned else f"BEGIN; {set_limits(prepared=True)}")
    yield
    session.command("COMMIT")


_NO_LIMITS = (
    "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)"
)

OPTIONS: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": CONNECT_TIMEOUT,
    "tcp_user_timeout": STATEMENT_TIMEOUT * 1000,
    "keepalives_idle": STATEMENT_TIMEOUT,
    "keepalives_interval": 1,
    "keepalives_count": STATEMENT_TIMEOUT,
}
"""Of libpq's, unless the URL has others."""
