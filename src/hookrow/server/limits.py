"""Limits for uvicorn's protocol, which has none: on heads, pipelines, time and unread responses.

uvicorn waits for a head as long as the connection lasts, accepts a head of any length, and reads
the whole of a body to which it has responded. It parses any number of pipelined requests, and
waits forever for a client that does not read. `asgi` limits the bodies that the application reads.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

MAX_HEAD = 64 * 1024
"""In bytes; a longer head gets 431 (RFC 6585, section 5). All other data that is neither a head nor
part of a body, such as trailers, has the same limit."""

MAX_DISCARDED = 1024 * 1024
"""In bytes; how much of a body is read after its response, so that the client can read the
response."""

CHUNK_SIZE = 4096
"""In bytes; the most that is parsed at once. This limits the number of pipelined requests that
wait: at most 227 requests of 18 bytes, whose objects take 1.4 kB each."""

CLIENT_TIMEOUT = 15.0
"""In seconds; a connection is closed if a head, or the rest of a body after its response, takes
longer, or if the client reads none of its responses for that long."""

GRACE_PERIOD = 5.0
"""In seconds; how long a stopping server waits for the rest of a request, and for clients that
have not read their responses. A response that is still being generated is then cut off."""

SWEEP_EVERY = 1.0
"""In seconds; the interval at which connections that are too slow are closed."""

_SWEEP = "hookrow.sweep"
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class LimitedProtocol(HttpToolsProtocol):
    """One of uvicorn's connections, which is closed if it exceeds a limit.

    `_in_head` and `_in_body` show whether uvicorn's parser is in a head or a body, and `_is_idle`
    whether no head has begun since the last response. `_bytes_allowed` is the number of bytes that
    may follow until the parser makes progress. `_running` is uvicorn's cycle whose response is
    next; the other cycles wait in `pipeline`. `_buffered` is the data after requests that wait;
    reading is paused until they have their responses. The connection is closed at `_expires`, a
    time of the event loop. In a stopping server, `_last_call` is the time from which neither the
    rest of a body nor an unread or unfinished response keeps it open.
    """

    _expires = _last_call = inf
    _in_head = _in_body = _is_idle = False
    _unread = 0
    _bytes_allowed = MAX_HEAD
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
        self._expire_in(CLIENT_TIMEOUT)
        self._sweep.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and end its request in progress."""
        self._sweep.discard(self)
        if self.pipeline:
            self.cycle = self._running  # uvicorn ends only the last request
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, within the limits, until a request has to wait for another's response."""
        if self._is_idle:  # even an empty line begins a head
            self._expire_in(CLIENT_TIMEOUT)
        end = 0
        while end < len(data) and not self.pipeline and not self.transport.is_closing():
            begin, end = end, end + min(CHUNK_SIZE, self._bytes_allowed)
            self._parse(data[begin:end])
        if self.pipeline:
            self._buffer(data[end:])

    def eof_received(self) -> bool:  # type: ignore[override] # uvicorn's closes the connection
        """Keep the connection open if the client has only stopped sending and responses are due."""
        if self._in_body or self._is_answered():
            return False
        super().shutdown()  # closes it after the last response
        return True

    def shutdown(self) -> None:
        """Limit the client's remaining time, because a stopping server waits for the connection."""
        self._last_call = self.loop.time() + GRACE_PERIOD
        super().shutdown()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignore trailers, which ASGI would present as headers."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head; only the application limits the time for the body."""
        self._in_head, self._in_body, self._bytes_allowed = False, True, MAX_HEAD
        self._expire_in(inf)
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle

    def on_body(self, body: bytes) -> None:
        """Accept part of a body; more may follow unless the response has been sent."""
        if not self._is_answered():
            self._bytes_allowed = MAX_HEAD
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Limit the wait for the next head if this request already has its response."""
        self._in_body, self._bytes_allowed = False, MAX_HEAD
        super().on_message_complete()
        if self._is_answered():
            self._idle()

    def on_response_complete(self) -> None:
        """Limit the rest of the body or the next head; parse the next chunk if nothing waits."""
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
        """Let the sweep close the connection: uvicorn's timer may belong to an earlier request."""

    def check(self, now: float) -> None:
        """Close the connection if its time is over; abort it if its responses are not read.

        A connection that is only closed stays open until the client has read everything.
        """
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._read_at = now
        self._unread = unread
        if unread and now >= min(self._read_at + CLIENT_TIMEOUT, self._last_call):
            self.transport.abort()
        elif now >= self._expires or (
            now >= self._last_call and (self._in_body or self._is_streaming())
        ):
            self.transport.close()

    def _parse(self, chunk: bytes) -> None:
        self._bytes_allowed -= len(chunk)
        super().data_received(chunk)
        if not self._bytes_allowed:  # the parser has made no progress, and more data would follow
            self._refuse()

    def _buffer(self, data: bytes) -> None:
        """Keep data, and pause reading, until all earlier requests have their responses."""
        self._buffered += data
        # uvicorn ends its own pauses as soon as the application reads a body.
        self.flow.resume_reading()
        self.transport.pause_reading()

    def _resume(self) -> None:
        """Resume reading, and parse the buffered data first."""
        buffered, self._buffered = self._buffered, b""
        self.transport.resume_reading()
        if buffered:
            self.data_received(buffered)

    def _is_answered(self) -> bool:
        """Return whether all requests with a complete head have their responses."""
        return (
            self.cycle is None  # type: ignore[redundant-expr] # before the first request
            or self.cycle.response_complete
        )

    def _is_streaming(self) -> bool:
        """Return whether a response has begun that is not complete."""
        return not self._is_answered() and self._running.response_started

    def _limit_rest(self) -> None:
        """Limit the rest of a body after its response; otherwise, limit the next request head."""
        if self._in_body:
            self._bytes_allowed = MAX_DISCARDED
        if self._in_body or self._in_head:
            self._expire_in(CLIENT_TIMEOUT)
        else:
            self._idle()

    def _idle(self) -> None:
        self._expire_in(self.timeout_keep_alive)
        self._is_idle = True

    def _expire_in(self, seconds: float) -> None:
        self._expires = self.loop.time() + seconds
        self._is_idle = False

    def _refuse(self) -> None:
        """Close the connection, with a 431 if the response of this request is next and not sent."""
        if self.transport.is_closing():
            return
        if self._in_body != self._is_answered():
            self.transport.write(_TOO_LONG)
        self.transport.close()


class _Sweep:
    """Checks the connections of one server, with one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: set[LimitedProtocol] = set()
        self._is_scheduled = False

    def add(self, connection: LimitedProtocol) -> None:
        """Start checking a connection."""
        self._connections.add(connection)
        self._schedule()

    def discard(self, connection: LimitedProtocol) -> None:
        """Stop checking a connection, which is closed."""
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
