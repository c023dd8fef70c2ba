"""Closes connections to a server that no longer responds, and so cannot enforce its own limits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from threading import Condition, Lock
from time import monotonic
from typing import Protocol

from hookrow._concurrency import PeriodicTask, reset_after_fork
from hookrow.stores._timeouts import left

TRANSACTION_TIMEOUT = 10.0
"""Seconds that a transaction may take, including its commit."""

GRACE = 0.1
"""Seconds of grace, so that the server's own timeout takes effect first."""

CHECK_INTERVAL = 1.0
"""Seconds between two checks, at most."""


class Socket(Protocol):
    """A socket, or an object that finds the socket to shut down when that is necessary."""

    def shutdown(self, how: int, /) -> None:
        """Shut down the socket. Raises nothing but `OSError`."""


class ConnectionWatchdog:
    """Shuts down the socket of a connection that has been in use for too long.

    The thread that waits for the server then gets an error. It might wait forever otherwise: if the
    server's process is stopped, or a proxy has lost the server, the socket stays open, and TCP's
    own limits do not apply.
    """

    _changed: Condition
    _deadlines: dict[Socket, float]
    _next_check: float

    def __init__(self) -> None:
        # `_shut_down_overdue` itself waits until the first deadline.
        self._task = PeriodicTask(
            self._shut_down_overdue, seconds=0.0, name="watchdog of database connections"
        )
        self.reset()
        reset_after_fork(self)

    @contextmanager
    def watch(self, connection: object) -> Iterator[None]:
        """Watch a driver's connection during the block, if its socket can be found."""
        number = socket_of(connection)
        if number is None:
            yield
            return
        with duplicate_socket(number) as duplicate, self.watch_socket(duplicate):
            yield

    @contextmanager
    def watch_socket(self, duplicate: Socket, seconds: float = inf) -> Iterator[None]:
        """Watch a connection by a duplicate of its socket. Blocks may be nested.

        The block may take this many seconds, at most `TRANSACTION_TIMEOUT`.
        """
        self._task.start()
        deadline = monotonic() + min(TRANSACTION_TIMEOUT, seconds, left()) + GRACE
        with self._changed:
            outer = self._deadlines.get(duplicate)
            self._deadlines[duplicate] = deadline
            if deadline < self._next_check:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._deadlines.pop(duplicate, None)  # missing after a fork
                if outer is not None:
                    self._deadlines[duplicate] = outer

    def reset(self) -> None:
        """Forget all connections; see `reset_after_fork`."""
        self._changed = Condition(Lock())
        self._deadlines = {}
        self._next_check = 0.0

    def _shut_down_overdue(self) -> None:
        """Wait until a connection is overdue, and shut down its socket."""
        with self._changed:
            now = monotonic()
            self._next_check = min([now + CHECK_INTERVAL, *self._deadlines.values()])
            self._changed.wait(max(self._next_check - now, 0.0))
            now = monotonic()
            for duplicate in [each for each, until in self._deadlines.items() if until <= now]:
                del self._deadlines[duplicate]
                with suppress(OSError):  # it is closed already
                    duplicate.shutdown(socket.SHUT_RDWR)


def socket_of(connection: object) -> int | None:
    """Return the number of the socket of a driver's connection, or None if it cannot be found.

    psycopg and mysqlclient have a method for it, and MariaDB's own driver has an attribute. PyMySQL
    has only a private one, and mysql.connector hides it.
    """
    if (fileno := getattr(connection, "fileno", None)) is not None:
        number: int = fileno()
        return number
    opened = getattr(connection, "_sock", None) or getattr(connection, "socket", None)
    return opened.fileno() if isinstance(opened, socket.socket) else None


def duplicate_socket(number: int) -> socket.socket:
    """Return a duplicate of a driver's socket.

    The driver may close its own socket at any time, and the system may then reuse its number. The
    duplicate is only shut down, which works with any family.
    """
    return socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM)


watchdog = ConnectionWatchdog()
"""The watchdog of all stores."""
