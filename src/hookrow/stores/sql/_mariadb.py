"""MariaDB and MySQL, in hookrow's own sessions.

A statement commits by itself, without the round trips of BEGIN and COMMIT, and a session keeps its
time limits until a transaction needs others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from math import inf, isinf
from time import monotonic
from typing import Any

from hookrow._core.sizes import WIDEST_CHARACTER
from hookrow.stores._driver_errors import UNWRITABLE, store_error
from hookrow.stores._errors import Detached, ReadOnly, Rejected, StoreError, Unavailable
from hookrow.stores._timeouts import left, limited_to
from hookrow.stores._watchdog import watchdog
from hookrow.stores.sql._connections import (
    Connection,
    ConnectionPool,
    Insert,
    Row,
    SessionLiveness,
    close_all,
    store_errors,
)
from hookrow.stores.sql._dialects.mariadb import MARIADB
from hookrow.stores.sql._limits import MARIADB_LIMITS
from hookrow.stores.sql._mariadb_drivers import OpenedConnection, driver_of
from hookrow.stores.sql._mariadb_hosts import HostSelection, share
from hookrow.stores.sql._mariadb_literals import joined_rows, with_literals
from hookrow.stores.sql._mariadb_url import Host, parse

_SERVER_STATE = "SELECT @@max_allowed_packet, @@read_only, @@innodb_read_only"

_IS_GALERA = "SHOW VARIABLES WHERE variable_name = 'wsrep_on' AND value = 'ON'"

_STOP_WAITING = "SET wsrep_sync_wait = DEFAULT"

_CATCH_UP = f"SET wsrep_sync_wait = 1; SELECT 1; {_STOP_WAITING}"
"""Waits until the node has applied what any node of its cluster has committed."""

_GALERA_STATUS = "SHOW STATUS WHERE variable_name IN ('wsrep_ready', 'wsrep_provider_name')"


class MariaDBSession(Connection):
    """One of hookrow's own connections, to a host of the URL."""

    autocommits = True

    def __init__(self, opened: OpenedConnection, host: Host) -> None:
        self.connection, self.socket = opened
        self.host = host
        self.liveness = SessionLiveness(self.socket)
        self.prepare()
        with watchdog.watch_socket(self.socket):
            self._is_galera = bool(self.fetch(_IS_GALERA))

    def prepare(self) -> None:
        """Set what hookrow's SQL needs, and find out whether the server accepts changes."""
        with watchdog.watch_socket(self.socket), self.connection.cursor() as cursor:
            self._limits = MARIADB_LIMITS.transaction(recording=True)
            cursor.execute(f"{MARIADB_LIMITS.session()}; {_SERVER_STATE}")
            cursor.nextset()
            ((self.largest_packet, *read_only),) = cursor.fetchall()
        # Newer versions of MariaDB have several modes, by name.
        self.is_read_only = any(each not in {0, "OFF"} for each in read_only)
        self.liveness.renew()

    def is_ready(self) -> bool:
        """Return False for a node of a Galera cluster that is outside of its primary component.

        Such a node still executes statements that use no tables of a host.
        """
        if not self._is_galera:
            return True
        with watchdog.watch_socket(self.socket):
            status = {name.lower(): value for name, value in self.fetch(_GALERA_STATUS)}
        # Without a provider, there is no cluster, although MariaDB may know both variables.
        return not status.get("wsrep_provider_name") or status.get("wsrep_ready") == "ON"

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Row]:
        """Return all rows."""
        with self._run(with_literals(sql, parameters)) as cursor:
            return list(cursor.fetchall())

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Return the number of rows that the first statement found or changed."""
        with self._run(with_literals(sql, parameters)) as cursor:
            count: int = cursor.rowcount
            return count

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement row by row."""
        return sum(self.execute(sql, row) for row in rows)

    def insert(self, insert: Insert, rows: Sequence[Sequence[Any]]) -> int:
        """Insert the rows with as few packets as possible."""
        most = (self.largest_packet - len(insert.many)) // WIDEST_CHARACTER
        return sum(self.execute(insert.many, [each]) for each in joined_rows(rows, most))

    def command(self, sql: str) -> None:
        """Run one or more statements without parameters."""
        with self._run(sql):
            pass

    def limit(self, limits: str) -> None:
        """Set time limits, unless the session has them."""
        if limits != self._limits:
            self.command(limits)
            self._limits = limits

    def begin(self, limits: str) -> None:
        """Begin a transaction with time limits."""
        if limits == self._limits:
            self.command(MARIADB.begin)
        else:
            self.command(f"{limits}; {MARIADB.begin}")
            self._limits = limits

    def catch_up(self, limits: str) -> None:
        """Wait, with time limits, until this node has all earlier commits of its cluster.

        Otherwise, an entry of the log could be missing a moment after the response of 200.
        """
        if self._is_galera:
            self.limit(limits)
            self.command(_CATCH_UP)

    def roll_back(self) -> None:
        """Roll back, also what `catch_up` has set."""
        self.command(f"ROLLBACK; {_STOP_WAITING}" if self._is_galera else "ROLLBACK")

    def close(self) -> None:
        """Close the connection, also if the server has closed it."""
        with suppress(Exception):
            self.connection.close()
        self.socket.close()

    @contextmanager
    def _run(self, sql: str) -> Iterator[Any]:
        """Run one or more statements; the end of the block raises the errors of later ones.

        Raises `Rejected` if they are too long together: the server would end the session.
        """
        # Most are much shorter, so that their characters need not be counted as bytes.
        if len(sql) * WIDEST_CHARACTER + _COMMAND >= self.largest_packet:
            size = len(sql.encode())
            if size + _COMMAND >= self.largest_packet:
                raise Rejected(
                    f"A statement of {size} bytes is longer than the server's max_allowed_packet."
                )
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            yield cursor


class MariaDBDatabase(ConnectionPool[MariaDBSession]):
    """The database of a `mariadb://` or `mysql://` URL; see `_connections.Database`.

    Of several hosts, it uses the first one that responds and accepts changes.

    Raises `ConfigurationError` for a URL that it does not understand, and if the driver is not
    installed.
    """

    dialect = MARIADB

    def __init__(self, url: str) -> None:
        self.options = parse(url)
        self._driver = driver_of(self.options.scheme)
        self.errors = (*self._driver.errors, *UNWRITABLE)
        self._unusable: tuple[type[Exception], ...] = (*self.errors, StoreError)
        self._hosts = HostSelection(self.options.hosts)
        super().__init__()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Begin a transaction; it is committed at the end of the block."""
        with self._session() as session:
            session.begin(MARIADB_LIMITS.transaction(recording=False))
            yield session
            session.command("COMMIT")

    @contextmanager
    def recording(self) -> Iterator[Connection]:
        """Connect so that statements commit by themselves."""
        with self._session(seconds=self._silence) as session:
            session.limit(MARIADB_LIMITS.transaction(recording=True))
            yield session

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Connect to read, in a transaction; if a node has not caught up, on another host."""
        with ExitStack() as stack:
            try:
                session = self._begin_reading(stack)
            except Detached:
                if not self._has_other_hosts:
                    raise
                session = self._begin_reading(stack)
            yield session
            session.command("COMMIT")

    def _begin_reading(self, stack: ExitStack) -> MariaDBSession:
        """Begin to read in a session, which is in use until the end of the `stack`.

        Raises `Detached` if the server has not caught up with its cluster.
        """
        limited = not isinf(left())
        limits = MARIADB_LIMITS.reading() if limited else MARIADB_LIMITS.none()
        # Half of the time that is left is for another host.
        seconds = min(self._silence, left() / 2) if self._has_other_hosts else inf
        with ExitStack() as attempt:
            session = attempt.enter_context(self._session(reads=True, watched=limited))
            with watchdog.watch_socket(session.socket, seconds):
                try:
                    session.catch_up(limits)
                except self.errors as error:
                    place = self.options.place(session.host)
                    raise Detached(
                        f"The server {place} has not caught up with its Galera cluster."
                    ) from error
            with watchdog.watch_socket(session.socket):
                session.begin(limits)
            stack.push(attempt.pop_all())
        return session

    @contextmanager
    def upgrading(self) -> Iterator[Connection]:
        """Open a session without time limits, and begin a transaction in it.

        A statement that changes tables commits by itself.
        """
        with self.autocommit() as session:
            session.execute(MARIADB.begin)
            yield session
            session.execute("COMMIT")

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Open a session without time limits, in which each statement commits by itself."""
        with store_errors(self.errors), closing(self._connect()) as session:
            session.limit(MARIADB_LIMITS.none())
            yield session

    def __str__(self) -> str:
        """Return the URL without the password and the options, for display."""
        return str(self.options)

    @contextmanager
    def _session(
        self, *, reads: bool = False, watched: bool = True, seconds: float = inf
    ) -> Iterator[MariaDBSession]:
        """Take a session for the block, and close it if the server does not respond in time."""
        with self._reader() if reads else self._connection() as session:
            with watchdog.watch_socket(session.socket, seconds) if watched else nullcontext():
                yield session
            session.liveness.renew()

    def _take(self) -> MariaDBSession:
        session = super()._take()
        if session.liveness.lasts():
            return session
        try:
            # In the same time as a new session: the server may have been silent since the last use.
            with limited_to(share(self._connect_timeout(), len(self.options.hosts))):
                session.prepare()
                self._check(session)
        except self._unusable:
            self._lose(session)
            close_all(self._idle)  # the server has probably closed these, too
            return super()._take()
        return session

    def _roll_back(self, session: MariaDBSession) -> bool:
        with suppress(*self.errors), watchdog.watch_socket(session.socket):
            session.roll_back()
            return True
        return False

    def _lose(self, session: MariaDBSession) -> None:
        """Try another host first from now on, if there is one."""
        self._hosts.fail(session.host)
        super()._lose(session)

    def _connect(self) -> MariaDBSession:
        """Connect to the first host that responds. If none does, raises a `StoreError`."""
        return self._hosts.connect(self._open, monotonic() + self._connect_timeout())

    def _connect_timeout(self) -> float:
        """Return the seconds for an attempt to reach the hosts that begins now."""
        return min(self.options.connect_timeout, left())

    def _open(self, host: Host, until: float) -> MariaDBSession:
        """Connect to a host, until a time. Raises a `StoreError` if it cannot be used."""
        try:
            opened = self._driver.connect(self.options, host, until)
            try:
                with limited_to(until - monotonic()):
                    session = MariaDBSession(opened, host)
                self._check(session)
            except BaseException:
                opened.close()
                raise
        except self.errors as error:
            raise self._failure(host, error, is_late=monotonic() >= until) from error
        return session

    def _failure(self, host: Host, error: Exception, *, is_late: bool) -> StoreError:
        """Return why a host cannot be used. If it was too slow, the driver's text is misleading."""
        failure = store_error(error)
        if is_late and type(failure) is Unavailable:
            return Unavailable(f"The server {self.options.place(host)} did not respond in time.")
        return failure

    def _check(self, session: MariaDBSession) -> None:
        """Raise `Unavailable` if nothing can be recorded in a session.

        A server that is read-only is used if there is no other: its tables can be read.
        """
        if self._has_other_hosts and session.is_read_only:
            raise ReadOnly(
                f"The server {session.host} is read-only: a replica, or read_only is on."
            )
        if not session.is_ready():
            raise Detached(
                f"The server {self.options.place(session.host)} is not connected to its Galera "
                "cluster."
            )

    @property
    def _has_other_hosts(self) -> bool:
        return self._hosts.has_others


_COMMAND = 1
"""Bytes of a packet that precede its statement."""
