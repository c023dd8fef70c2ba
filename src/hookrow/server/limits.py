"""Limits for uvicorn's protocol, which has none: on heads, pipelines, time and unread responses.

uvicorn waits for a head as long as the connection lasts, accepts one of any length, and reads all
of a body to which it has responded. It parses pipelined requests without end, and waits for ever
for a client that does not read. Bodies for which the application waits have limits in `asgi`.
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

PIECE = 4096
"""In bytes; no more is parsed at once. One piece holds all requests that may wait for their turn:
at most 227 with 18 bytes each, whose objects take 1.4 kB each."""

SLOWEST = 15.0
"""In seconds; a connection is closed if a head, or the rest of an answered body, takes longer, or
if the client reads nothing of its responses for so long."""

LAST_REQUEST = 5.0
"""In seconds; how long a server that stops waits for the rest of a request, and for clients that
have not read their responses."""

SWEEP_EVERY = 1.0
"""In seconds; how often connections that are too slow are closed."""

_SWEEP = "hookrow.sweep"
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class LimitedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's, which is closed if it exceeds a limit.

    `_in_head` and `_in_body` show whether uvicorn's parser is in a head or a body, and `_is_idle`
    that it has begun nothing since the last response. `_bytes_allowed` is how many bytes may follow
    until it makes progress. `_running` is the cycle of uvicorn's whose response is next, and other
    cycles wait in `pipeline`. `_buffered` is data behind requests that wait for their turn; reading
    is paused meanwhile. The connection is closed at `_expires`, a time of the event loop, and has
    little time left from `_last_call` on, if the server stops.
    """

    _expires = _last_call = inf
    _in_head = _in_body = _is_idle = False
    _head_size = _unread = 0
    _bytes_allowed = LARGEST_HEAD
    _buffered = b""

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
        self._read_at = self.loop.time()
        self._expire_in(SLOWEST)
        self._sweep.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and end its request in progress."""
        self._sweep.discard(self)
        if self.pipeline:
            self.cycle = self._running  # uvicorn ends only the last request
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, within the limits, until a request has to wait for its turn."""
        if self._is_idle:  # even an empty line begins a head
            self._expire_in(SLOWEST)
        end = 0
        while end < len(data) and not self.pipeline and not self.transport.is_closing():
            begin, end = end, end + PIECE
            self._parse(data[begin:end])
        if self.pipeline:
            self._buffer(data[end:])

    def eof_received(self) -> bool:  # type: ignore[override] # uvicorn's closes the connection
        """Keep a connection whose client sends no more, if only responses are due on it."""
        if self._in_body or self._is_answered():
            return False
        super().shutdown()  # closes it after the last response
        return True

    def shutdown(self) -> None:
        """Give the client a last moment, because a server that stops waits for the connection."""
        self._last_call = self.loop.time() + LAST_REQUEST
        super().shutdown()

    def on_message_begin(self) -> None:
        """Count the bytes of the head from here on."""
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
            self._bytes_allowed = -1
            raise httptools.HttpParserError("The head is too long.")
        self._in_head, self._in_body, self._bytes_allowed = False, True, LARGEST_HEAD
        self._expire_in(inf)
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle

    def on_body(self, body: bytes) -> None:
        """Accept part of a body; without a response, more may follow."""
        if not self._is_answered():
            self._bytes_allowed = LARGEST_HEAD
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Limit the wait for the next head, if this request has its response already."""
        self._in_body, self._bytes_allowed = False, LARGEST_HEAD
        super().on_message_complete()
        if self._is_answered():
            self._idle()

    def on_response_complete(self) -> None:
        """Limit what follows; parse the next piece when the last request of this one begins."""
        if self.loop.time() >= self._last_call:
            self.transport.close()  # before the next request begins
        if self.pipeline:
            self._running, _ = self.pipeline[-1]
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._is_answered():
            self._limit_rest()
        if not self.pipeline:
            self._resume()

    def timeout_keep_alive_handler(self) -> None:
        """Leave the connection to the sweep: uvicorn's timer may belong to an earlier request."""

    def send_400_response(self, msg: str) -> None:
        """Refuse a request at which the parser stopped, for its length or for its form."""
        if self._bytes_allowed < 0:
            self._refuse()
        else:
            super().send_400_response(msg)

    def check(self, now: float) -> None:
        """Close the connection if its time is over, or cut it off if nothing reads its responses.

        A connection that is closed stays open until the client has read everything.
        """
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._read_at = now
        self._unread = unread
        if unread and now >= min(self._read_at + SLOWEST, self._last_call):
            self.transport.abort()
        elif now >= self._expires or (self._in_body and now >= self._last_call):
            self.transport.close()

    def _parse(self, piece: bytes) -> None:
        self._bytes_allowed -= len(piece)
        super().data_received(piece)
        if self._bytes_allowed < 0:
            self._refuse()

    def _buffer(self, data: bytes) -> None:
        """Keep data until the requests before it have their responses, and read no more."""
        self._buffered += data
        # uvicorn ends its own pauses as soon as the application reads a body.
        self.flow.resume_reading()
        self.transport.pause_reading()

    def _resume(self) -> None:
        """Read on, but parse the data in the buffer first."""
        buffered, self._buffered = self._buffered, b""
        self.transport.resume_reading()
        if buffered:
            self.data_received(buffered)

    def _is_answered(self) -> bool:
        """Return whether all requests whose heads have ended have their responses."""
        return (
            self.cycle is None  # type: ignore[redundant-expr] # before the first request
            or self.cycle.response_complete
        )

    def _limit_rest(self) -> None:
        """Limit the rest of an answered body, the next head, or the wait for it."""
        if self._in_body:
            self._bytes_allowed = LARGEST_REST
        if self._in_body or self._in_head:
            self._expire_in(SLOWEST)
        else:
            self._idle()

    def _idle(self) -> None:
        self._expire_in(self.timeout_keep_alive)
        self._is_idle = True

    def _expire_in(self, seconds: float) -> None:
        self._expires = self.loop.time() + seconds
        self._is_idle = False

    def _refuse(self) -> None:
        """Close the connection, with 431 if it is this request's turn and it has no response."""
        if self.transport.is_closing():
            return
        if self._in_body != self._is_answered():
            self.transport.write(_TOO_LONG)
        self.transport.close()


class _Sweep:
    """Checks the connections of one server: one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: set[LimitedProtocol] = set()
        self._is_scheduled = False

    def add(self, connection: LimitedProtocol) -> None:
        """Check a connection from now on."""
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
            connection.check(now)
