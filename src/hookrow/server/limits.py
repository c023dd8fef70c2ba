"""Limits for uvicorn's protocol, which has none: on the size of heads, on time, on refused bodies.

uvicorn waits for a head as long as the connection lasts, accepts one of any length, and reads all
of a body to which it has responded. Bodies for which the application waits have limits in `asgi`.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

LARGEST_HEAD = 64 * 1024
"""In bytes; a longer head gets 431 (RFC 6585, section 5). All other data that is neither a head nor
part of a body, such as trailers, has the same limit."""

LARGEST_REST = 1024 * 1024
"""In bytes; how much of a body is read after its response, so that the client can read that."""

SLOWEST = 15.0
"""In seconds; a connection is closed if a head, or the rest of an answered body, takes longer."""

SWEEP_EVERY = 1.0
"""In seconds; how often connections that are too slow are closed."""

_SWEEP = "hookrow.sweep"
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class LimitedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's, which is closed if it exceeds a limit.

    `_in_head` and `_in_body` tell what uvicorn's parser has begun, and `_is_idle` that it has
    begun nothing since the last response. `_left` is how many bytes may follow until it makes
    progress. `expires` is the time of the event loop at which the connection is closed.
    """

    expires = inf
    _in_head = _in_body = _is_idle = False
    _head_size = 0
    _left = LARGEST_HEAD

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        if _SWEEP not in app_state:
            app_state[_SWEEP] = _Sweep(self.loop)
        self._sweep: _Sweep = app_state[_SWEEP]

    def connection_made(  # type: ignore[override] # as uvicorn's
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._expire_in(SLOWEST)
        self._sweep.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._sweep.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, within the limits."""
        if self._is_idle:  # even an empty line begins a head
            self._expire_in(SLOWEST)
        self._left -= len(data)
        super().data_received(data)
        if self._left < 0:
            self._refuse()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the bytes of the address."""
        self._head_size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count the bytes of a header; ignore trailers, which ASGI would present as headers."""
        if self._in_head:
            self._head_size += len(name) + len(value)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head; only the application limits the time for the body."""
        if self._head_size > LARGEST_HEAD:  # it ended in the data that exceeded the limit
            self._left = -1
            raise httptools.HttpParserError("The head is too long.")
        self._in_head, self._in_body, self._left = False, True, LARGEST_HEAD
        self._expire_in(inf)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Accept part of a body; without a response, more may follow."""
        if not self._is_answered():
            self._left = LARGEST_HEAD
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_body, self._left = False, LARGEST_HEAD
        super().on_message_complete()
        if self._is_answered():
            self._idle()

    def on_response_complete(self) -> None:
        """Limit the rest of the body, the next head, or the wait for it."""
        super().on_response_complete()
        if not self._is_answered():  # a pipelined request is next
            return
        if self._in_body:
            self._left = LARGEST_REST
        if self._in_body or self._in_head:
            self._expire_in(SLOWEST)
        else:
            self._idle()

    def timeout_keep_alive_handler(self) -> None:
        """Leave the connection to the sweep: uvicorn's timer may belong to an earlier request."""

    def send_400_response(self, msg: str) -> None:
        """Refuse a request at which the parser stopped, for its length or for its form."""
        if self._left < 0:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _is_answered(self) -> bool:
        """Return whether all requests whose heads have ended have their responses."""
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def _idle(self) -> None:
        self._expire_in(self.timeout_keep_alive)
        self._is_idle = True

    def _expire_in(self, seconds: float) -> None:
        self.expires = self.loop.time() + seconds
        self._is_idle = False

    def _refuse(self) -> None:
        """Close the connection, with 431 if it is this request's turn and it has no response."""
        if self.transport.is_closing():
            return
        if self._in_body != self._is_answered():
            self.transport.write(_TOO_LONG)
        self.transport.close()


class _Sweep:
    """Closes the connections of one server that have expired: one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: set[LimitedProtocol] = set()
        self._is_scheduled = False

    def add(self, connection: LimitedProtocol) -> None:
        """Watch a connection."""
        self._connections.add(connection)
        self._schedule()

    def discard(self, connection: LimitedProtocol) -> None:
        """Forget a connection, which is closed."""
        self._connections.discard(connection)

    def _schedule(self) -> None:
        if self._connections and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(SWEEP_EVERY, self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._schedule()
        now = self._loop.time()
        for connection in self._connections:
            if connection.expires <= now:
                connection.transport.close()
