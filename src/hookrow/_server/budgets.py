"""Limits for all connections of a server together: number, memory, and time in the event loop.

Without them, thousands of connections could take all memory or keep the event loop busy, although
each of them stays within its own limits, which are in `limits`.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import chain
from time import perf_counter
from typing import Protocol

MAX_CONNECTIONS = 8192
"""The number of open connections. Each takes 6 to 10 kB, besides what it holds. The limit is lower
if the process may open fewer files."""

RESERVED_FILES = 128
"""The number of files that connections leave to the database and to the process itself."""

MAX_UNFINISHED = 96 * 1024 * 1024
"""Bytes of requests that are not complete, and of data that waits to be parsed."""

KEPT_SHARE = 0.75
"""The share of `MAX_UNFINISHED` that connections still use after others were closed. A search for
those takes up to a millisecond, and is therefore not made for each piece of data."""

TURN_BUDGET = 0.001
"""Seconds for which data is parsed in one turn of the event loop. Then, the responses that are due
and all other work have their turn, before the rest of the data is parsed."""

CHECK_BUDGETS_EVERY = 1.0
"""Seconds between two searches for connections that are too slow."""

logger = logging.getLogger("hookrow")


class LimitedConnection(Protocol):
    """What a connection shares with the others of its server."""

    unfinished: int
    """The number of bytes that it holds; set by `Budgets.hold`."""

    is_admitted: bool
    """Whether an authenticated request is complete and waits for its response."""

    is_new: bool
    """Whether none of its data has been parsed yet."""

    is_deferred: bool
    """Whether it has to wait for `proceed`; set by `Budgets.defer`."""

    def proceed(self) -> None:
        """Parse the data that waits, unless the connection is closed."""

    def check(self, now: float) -> None:
        """Close the connection if it is too slow at this time of the event loop."""

    def abort(self) -> None:
        """Close the connection at once."""


class Budgets:
    """The connections of an event loop, and what they use.

    Above a limit, the connection that has gone longest without an authenticated request is closed:
    first those that never had one. No new connection is refused, and none is closed whose
    authenticated request waits for its response, or because of memory if it uses less than an equal
    share of it.

    `is_stopping` is whether the server stops, which its connections set.
    """

    is_stopping = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = min(MAX_CONNECTIONS, max(files - RESERVED_FILES, files // 2))
        # The keys are the connections, from the one that is closed first to the last.
        self._unauthenticated: OrderedDict[LimitedConnection, None] = OrderedDict()
        self._authenticated: OrderedDict[LimitedConnection, None] = OrderedDict()
        self._unfinished = 0
        # A new connection does not wait for all those that send one request after the other.
        self._new: deque[LimitedConnection] = deque()
        self._others: deque[LimitedConnection] = deque()
        self._turn_ends = 0.0
        self._is_scheduled = False

    def add(self, connection: LimitedConnection) -> None:
        """Add a new connection."""
        self._unauthenticated[connection] = None
        if len(self._unauthenticated) + len(self._authenticated) > self._most:
            self._make_room_for(connection)
        self._schedule()

    def discard(self, connection: LimitedConnection) -> None:
        """Forget a connection that is closed."""
        if connection in self._unauthenticated or connection in self._authenticated:
            self._unfinished -= connection.unfinished
            connection.unfinished = 0
        self._unauthenticated.pop(connection, None)
        self._authenticated.pop(connection, None)

    def admit(self, connection: LimitedConnection) -> None:
        """Record that an authenticated request of a connection is complete."""
        if connection in self._authenticated:
            self._authenticated.move_to_end(connection)
        elif connection in self._unauthenticated:
            del self._unauthenticated[connection]
            self._authenticated[connection] = None

    def hold(self, connection: LimitedConnection, size: int) -> None:
        """Record how many bytes of unfinished requests a connection holds."""
        if connection in self._unauthenticated or connection in self._authenticated:
            self._unfinished += size - connection.unfinished
            connection.unfinished = size
            if self._unfinished > MAX_UNFINISHED:
                self._close_unfinished()

    def has_time(self) -> bool:
        """Return whether more data may be parsed in this turn of the event loop."""
        now = perf_counter()
        if not self._turn_ends:
            self._turn_ends = now + TURN_BUDGET
            self._loop.call_soon(self._next_turn)
        return now < self._turn_ends

    def may_continue(self) -> bool:
        """Return whether a connection may parse another piece.

        No other connection waits, and the turn is not over.
        """
        return not self._new and not self._others and self.has_time()

    def defer(self, connection: LimitedConnection) -> None:
        """Let a connection proceed in one of the next turns, after those that already wait."""
        if not connection.is_deferred:
            connection.is_deferred = True
            queue = self._new if connection.is_new else self._others
            queue.append(connection)

    def _next_turn(self) -> None:
        self._turn_ends = 0.0
        while (self._new or self._others) and self.has_time():
            for queue in (self._new, self._others):
                if queue:
                    connection = queue.popleft()
                    connection.is_deferred = False
                    connection.proceed()

    def _candidates(self) -> Iterator[LimitedConnection]:
        """Yield the connections that may be closed, in this order."""
        return (
            each
            for each in chain(self._unauthenticated, self._authenticated)
            if not each.is_admitted
        )

    def _make_room_for(self, new: LimitedConnection) -> None:
        for connection in self._candidates():
            if connection is not new:
                self._close(connection)
                logger.warning(
                    "%d connections are open; closed the one that has gone longest without an "
                    "authenticated request.",
                    self._most,
                )
                return

    def _close_unfinished(self) -> None:
        """Close connections that hold unfinished requests until enough memory is free."""
        before, kept = self._unfinished, MAX_UNFINISHED * KEPT_SHARE
        share = kept / (len(self._unauthenticated) + len(self._authenticated))
        closed = 0
        for connection in [*self._candidates()]:
            if self._unfinished <= kept:
                break
            if connection.unfinished > share:
                self._close(connection)
                closed += 1
        if closed:
            logger.warning(
                "Unfinished requests took %d MiB; closed %d connections that have gone longest "
                "without an authenticated request.",
                before >> 20,
                closed,
            )

    def _close(self, connection: LimitedConnection) -> None:
        self.discard(connection)
        connection.abort()

    def _schedule(self) -> None:
        if not self._is_scheduled and (self._unauthenticated or self._authenticated):
            self._is_scheduled = True
            self._loop.call_later(CHECK_BUDGETS_EVERY, self._sweep)

    def _sweep(self) -> None:
        self._is_scheduled = False
        self._schedule()
        now = self._loop.time()
        for connection in chain(self._unauthenticated, self._authenticated):
            connection.check(now)
