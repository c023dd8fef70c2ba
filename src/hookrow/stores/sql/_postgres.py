"""PostgreSQL through psycopg 3, in hookrow's own sessions.

A statement commits by itself, without the round trips of BEGIN and COMMIT, and the time limits
are those of the session. Behind a pooler such as PgBouncer, which may run each transaction in
another session, a transaction sets its own limits, and no statement is prepared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from math import inf, isinf
from typing import TYPE_CHECKING, Any
from weakref import finalize

from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.stores._driver_errors import UNWRITABLE
from hookrow.stores._errors import Unavailable
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, left
from hookrow.stores._watchdog import duplicate_socket, watchdog
from hookrow.stores.sql._connections import (
    CONNECT_TIMEOUT,
    NOT_A_URL,
    Connection,
    ConnectionPool,
    Row,
    SessionLiveness,
    close_all,
    store_errors,
)
from hookrow.stores.sql._dialects.base import numbered
from hookrow.stores.sql._dialects.postgresql import POSTGRESQL
from hookrow.stores.sql._limits import POSTGRES_LIMITS

if TYPE_CHECKING:
    import psycopg

PREPARED_AFTER = 5
"""How many times a statement runs before psycopg has the server prepare it: psycopg's default."""


class Session(Connection):
    """One of hookrow's own connections. It autocommits, except behind a pooler."""

    place = ("", "")
    """The name and the port of its host, if the URL has several."""

    def __init__(self, connection: psycopg.Connection, cursor: Callable[..., Any]) -> None:
        self.connection, self.close, self._cursor = connection, connection.close, cursor
        self.socket = duplicate_socket(connection.fileno())
        finalize(connection, self.socket.close)
        # A pooler reports another process id: behind one, nothing is set, no row returned.
        pid = connection.info.backend_pid
        with watchdog.watch_socket(self.socket):
            result = connection.execute(
                f"{POSTGRES_LIMITS.session()} WHERE pg_backend_pid() = {pid}"
            )
        self.autocommits = result.fetchone() is not None
        if self.autocommits:
            connection.prepare_threshold = PREPARED_AFTER
        self.liveness = SessionLiveness(self.socket)

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        return self._run(sql, parameters).fetchall()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the number of rows. Raises `Unavailable` for a COMMIT after an ignored error."""
        cursor = self._run(sql, parameters)
        if sql == "COMMIT" and cursor.statusmessage != sql:
            raise Unavailable("The transaction was rolled back because of an earlier error.")
        return cursor.rowcount

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement row by row."""
        return sum(self._run(sql, row).rowcount for row in rows)

    def command(self, sql: str) -> None:
        """Run one or more statements without parameters."""
        self.connection.execute(sql, prepare=False)

    def _run(self, sql: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        cursor: psycopg.Cursor[Any] = self._cursor(self.connection)
        return cursor.execute(numbered(sql), parameters)


class PostgresDatabase(ConnectionPool[Session]):
    """The database of a `postgresql://` URL, as libpq reads it; see `_connections.Database`.

    Of several hosts, it uses the first one that accepts changes. A host whose session failed is
    tried last from then on, because a server that is silent accepts connections.

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
            unknown = option and f"PostgreSQL has no option {option[1]!r}: remove it from the URL."
            raise ConfigurationError(unknown or NOT_A_URL) from None
        except UnicodeError:  # whose text quotes the URL
            raise ConfigurationError(NOT_A_URL) from None
        if not re.fullmatch("[0-9,]*", str(self.options.get("port", ""))):
            raise ConfigurationError(NOT_A_URL)
        self._driver = psycopg
        self._places = _places(self.options)
        self._order = list(range(len(self._places)))
        self.errors = (psycopg.Error, *UNWRITABLE)
        super().__init__()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begin a transaction; it is committed at the end of the block."""
        with self._session() as session, _begun(session, recording=False):
            yield session

    @contextmanager
    def recording(self) -> Iterator[Connection]:
        """Connect so that statements commit by themselves; behind a pooler, begin a transaction."""
        with (
            self._session(seconds=self._silence) as session,
            nullcontext() if session.autocommits else _begun(session, recording=True),
        ):
            yield session

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, in a transaction."""
        limited = not isinf(left())
        settings = POSTGRES_LIMITS.reading() if limited else POSTGRES_LIMITS.none()
        with self._session(reads=True, watched=limited) as session:
            if not session.autocommits:
                settings = f"{settings}; {POSTGRES_LIMITS.time_format()}"
            with nullcontext() if limited else watchdog.watch_socket(session.socket):
                session.command(f"{POSTGRESQL.begin}; {settings}")
            yield session
            session.command("COMMIT")

    @contextmanager
    def upgrading(self) -> Iterator[Connection]:
        """Open a session without time limits, and begin a transaction in it."""
        with self.autocommit() as session:
            session.execute(POSTGRESQL.begin)
            session.fetch(POSTGRES_LIMITS.none())
            yield session
            session.execute("COMMIT")

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Open a session without time limits, in which each statement commits by itself."""
        with store_errors(self.errors), closing(self._connect()) as session:
            if session.autocommits:
                session.command(POSTGRES_LIMITS.none(local=False))
            yield session

    def __str__(self) -> str:
        """Return the URL without the password and the options, for display."""
        user, name = self.options.get("user"), self.options.get("dbname")
        password = ":***" if "password" in self.options else ""
        login = f"{user}{password}@" if user else ""
        places = (f"{host}:{port}" if port else host for host, port in self._places)
        return f"postgresql://{login}{','.join(places)}/{name or ''}"

    @contextmanager
    def _session(
        self, *, reads: bool = False, watched: bool = True, seconds: float = inf
    ) -> Iterator[Session]:
        """Take a session for the block, and close it if the server does not respond in time."""
        with self._reader() if reads else self._connection() as session:
            with watchdog.watch_socket(session.socket, seconds) if watched else nullcontext():
                yield session
            session.liveness.renew()

    def _take(self) -> Session:
        session = super()._take()
        if session.liveness.lasts():
            return session
        # In the same time as a new session: the server may have been silent since the last use.
        seconds = min(CONNECT_TIMEOUT, left() / 2) if self._has_other_hosts else inf
        try:
            with watchdog.watch_socket(session.socket, seconds):
                # Set the limits again, because a host's trigger may have changed them. Behind a
                # pooler, other clients use the session, too.
                check = POSTGRES_LIMITS.session() if session.autocommits else "SELECT 1"
                session.command(check)
        except self._driver.Error:
            self._lose(session)
            close_all(self._idle)  # the server has probably closed these, too
            return super()._take()
        return session

    def _roll_back(self, session: Session) -> bool:
        """Roll back; the driver then discards its prepared statements, which may be outdated."""
        connection = session.connection
        with suppress(self._driver.Error), watchdog.watch_socket(session.socket):
            if connection.info.transaction_status == self._driver.pq.TransactionStatus.IDLE:
                connection.execute("BEGIN")  # otherwise the rollback would do nothing
            connection.rollback()
            return True
        return False

    def _lose(self, session: Session) -> None:
        """Try the session's host last from now on."""
        host, port = session.place
        for number, place in enumerate(self._places):
            if place in {(host, port), (host, "")}:
                self._order = [*(each for each in self._order if each != number), number]
        super()._lose(session)

    @property
    def _has_other_hosts(self) -> bool:
        return len(self._places) > 1

    def _connect(self) -> Session:
        if left() <= 0:  # for example, after the check of an idle session that did not respond
            raise Unavailable("No time is left to connect.")
        options = OPTIONS | self._ordered_options()
        options["connect_timeout"] = _shortened(options["connect_timeout"], len(self._places))
        if self._has_other_hosts:
            options = {"target_session_attrs": "read-write", **options}  # one of them is a standby
        connection = self._driver.connect(**options, autocommit=True)
        # A pooler may run the next statement in a session that has not prepared it.
        connection.prepare_threshold = None
        try:
            session = Session(connection, self._driver.RawCursor)
            if self._has_other_hosts:
                session.place = connection.info.host, str(connection.info.port)
        except BaseException:
            connection.close()
            raise
        return session

    def _ordered_options(self) -> dict[str, Any]:
        """Return the options of the URL, with the hosts in the order in which they are tried.

        libpq replaces an option that is absent with its environment variable, but not an empty one.
        """
        order, options = self._order, dict(self.options)
        for name in _LISTS & options.keys():
            values = str(options[name] or "").split(",")
            if len(values) == len(order):  # a single port applies to all hosts
                options[name] = ",".join(values[number] for number in order)
        return options


def _shortened(timeout: Any, hosts: int) -> Any:  # noqa: ANN401 - a number or text, as in the URL
    """Return the time limit for connecting to each host, in seconds, or less if less is left.

    libpq and psycopg wait for two seconds at least, and without a limit if it is not positive.
    """
    if isinf(left()):
        return timeout
    seconds = max(int(left() / hosts), 1)
    try:
        given = float(timeout)
    except ValueError:  # which the driver reports
        return timeout
    return min(seconds, int(given)) if given > 0 else seconds


_LISTS = {"host", "hostaddr", "port"}
"""The options of libpq with a value for each host."""


def _places(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the host and the port of each server; a part that is not in the URL is empty."""
    names, addresses = (str(options.get(name) or "").split(",") for name in ("host", "hostaddr"))
    hosts = addresses if not any(names) or len(addresses) > len(names) else names
    ports = str(options.get("port") or "").split(",")
    if len(ports) == 1:  # it applies to all hosts
        ports *= len(hosts)
    return list(zip(hosts, ports, strict=False))


@contextmanager
def _begun(session: Session, *, recording: bool) -> Iterator[None]:
    limits = POSTGRES_LIMITS.transaction(recording=recording, tuned=not session.autocommits)
    session.command(f"{POSTGRESQL.begin}; {limits}")
    yield
    session.execute("COMMIT")


OPTIONS: dict[str, Any] = {
    "client_encoding": "utf8",
    "connect_timeout": CONNECT_TIMEOUT,
    "tcp_user_timeout": STATEMENT_TIMEOUT * 1000,
    "keepalives_idle": STATEMENT_TIMEOUT,
    "keepalives_interval": 1,
    "keepalives_count": STATEMENT_TIMEOUT,
}
"""Options of libpq, unless the URL overrides them."""
