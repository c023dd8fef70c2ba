"""Closes connections whose server no longer responds, which its own time limits cannot detect."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Condition, Lock
from time import monotonic
from typing import TYPE_CHECKING

from hookrow.concurrency import PeriodicTask, reset_after_fork
from hookrow.stores.timeouts import left

if TYPE_CHECKING:
    from sqlalchemy import Connection

TRANSACTION_TIMEOUT = 10.0
"""In seconds; how long a transaction may take at the most, statements and commit together."""

GRACE = 0.1
"""In seconds; a grace period, so that the server's own timeout takes effect first."""

LOOK_EVERY = 1.0
"""In seconds; the longest interval between two checks."""


class Watch:
    """Shuts down the socket of a connection that is watched for too long; one for all stores.

    The thread that waits for the server then gets an error. A server that is stopped, or a
    proxy that lost it, keeps a socket open: TCP's own limits notice neither.
    """

    _changed: Condition
    _watched: dict[socket.socket, float]
    _looks_at: float

    def __init__(self) -> None:
        # The work itself waits until the first connection is due.
        self._look = PeriodicTask(self._cut_overdue, seconds=0.0, name="watch over the database")
        self.reset()
        reset_after_fork(self)

    def over(self, connection: Connection) -> AbstractContextManager[None]:
        """Watch the connection during the block, if it has a socket."""
        return self.over_driver(connection.connection.dbapi_connection)

    def over_driver(self, connection: object) -> AbstractContextManager[None]:
        """Watch the driver's own connection during the block, if it has a socket."""
        fileno = getattr(connection, "fileno", None)
        return nullcontext() if fileno is None else self._over(fileno)

    @contextmanager
    def over_socket(self, duplicate: socket.socket) -> Iterator[None]:
        """Watch a connection by a duplicate of its socket; blocks may be nested."""
        self._look.start()
        until = monotonic() + min(TRANSACTION_TIMEOUT, left()) + GRACE
        with self._changed:
            outer = self._watched.get(duplicate)
            self._watched[duplicate] = until
            if until < self._looks_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(duplicate, None)  # a fork may have forgotten it
                if outer is not None:
                    self._watched[duplicate] = outer

    @contextmanager
    def _over(self, fileno: Callable[[], int]) -> Iterator[None]:
        # A duplicate: the driver may close its own, and the number then be another socket's.
        with (
            socket.fromfd(fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as duplicate,
            self.over_socket(duplicate),
        ):
            yield

    def reset(self) -> None:
        """Begin without connections to watch."""
        self._changed = Condition(Lock())
        self._watched = {}
        self._looks_at = 0.0

    def _cut_overdue(self) -> None:
        """Wait until a connection is overdue, and shut down its socket."""
        with self._changed:
            now = monotonic()
            self._looks_at = min([now + LOOK_EVERY, *self._watched.values()])
            self._changed.wait(max(self._looks_at - now, 0.0))
            now = monotonic()
            for duplicate in [each for each, until in self._watched.items() if until <= now]:
                del self._watched[duplicate]
                with suppress(OSError):  # it is closed already
                    duplicate.shutdown(socket.SHUT_RDWR)


watch = Watch()
