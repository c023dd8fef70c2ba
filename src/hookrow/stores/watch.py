"""Ends transactions whose server no longer says anything: no time limit of its own can."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Lock
from time import monotonic

from sqlalchemy import Connection

from hookrow.forks import renew_after_fork
from hookrow.periodic import Periodic
from hookrow.stores.limits import left

TRANSACTION_TIMEOUT = 10.0
"""In seconds; how long a transaction may take at the most, statements and commit together."""


class Watch:
    """Cuts the socket of a connection that is `over` it for too long; one for all stores.

    Whoever waits for the server then gets an error. A server that is stopped, or a
    proxy that lost it, keeps a socket open: TCP's own limits notice neither.
    """

    _lock: Lock
    _watched: dict[socket.socket, float]

    def __init__(self) -> None:
        self._look = Periodic(self._cut_overdue, seconds=1.0, name="watch over the database")
        self.renew()
        renew_after_fork(self)

    def over(self, connection: Connection) -> AbstractContextManager[None]:
        """Watch the connection during the block, where it has a socket."""
        fileno = getattr(connection.connection.dbapi_connection, "fileno", None)
        return nullcontext() if fileno is None else self._over(fileno)

    @contextmanager
    def over_socket(self, duplicate: socket.socket) -> Iterator[None]:
        """Watch a connection by a duplicate of its socket."""
        self._look.start()
        with self._lock:
            self._watched[duplicate] = monotonic() + min(TRANSACTION_TIMEOUT, left())
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(duplicate, None)  # a fork may have forgotten it

    @contextmanager
    def _over(self, fileno: Callable[[], int]) -> Iterator[None]:
        # A duplicate: the driver may close its own, and the number then be another socket's.
        with (
            socket.fromfd(fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as duplicate,
            self.over_socket(duplicate),
        ):
            yield

    def renew(self) -> None:
        """Begin anew: nothing watched."""
        self._lock = Lock()
        self._watched = {}

    def _cut_overdue(self) -> None:
        now = monotonic()
        with self._lock:
            for duplicate, until in self._watched.items():
                if now > until:
                    with suppress(OSError):  # it is cut already
                        duplicate.shutdown(socket.SHUT_RDWR)


watch = Watch()
