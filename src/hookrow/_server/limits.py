"""Limits for uvicorn's protocol, which has none: on heads, pipelines, time and unread responses.

uvicorn waits for a head as long as the connection lasts, accepts a head of any length, and reads
the whole of a body to which it has responded. It parses any number of pipelined requests, and
waits forever for a client that does not read. `asgi` limits the bodies that the application reads,
and `budgets` what all connections use together.
"""

from __future__ import annotations

import asyncio
import re
from math import inf
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from hookrow._http import ADMITTED
from hookrow._server.budgets import Budgets

MAX_HEAD = 16 * 1024
"""Bytes of a head; a longer one gets 431 (RFC 6585, section 5). All other data that is neither a
head nor part of a body, such as trailers, has the same limit."""

MAX_HEADERS = 100
"""The number of headers in a head; one with more gets 431, too. Trailers have the same limit."""

HEADER_SIZE = 150
"""Bytes of memory that a header takes in addition to its name and value."""

MAX_DISCARDED_BODY = 1024 * 1024
"""Bytes of a body that are read after its response, so that the client can read the
response."""

PIECE = 4096
"""Bytes that are parsed at once, before the time is checked."""

CHUNKED_PIECE = 512
"""Bytes of a chunked body that are parsed at once. Its end is not known in advance, so a piece may
also contain the next requests: at most 28 of 18 bytes each."""

END = b"\r\n\r\n"
"""The end of each head. httptools requires exactly these bytes."""

_BLANK = re.compile(rb"[\r\n]*")
"""The empty lines before a head."""

CLIENT_TIMEOUT = 15.0
"""Seconds after which a connection is closed if a head, or the rest of a body after its response,
is not complete, or if the client has read none of its responses."""

GRACE_PERIOD = 5.0
"""Seconds that a stopping server waits for the rest of a request, and for clients that have not
read their responses. A response that is still being generated is then cut off."""

IDLE_GRACE_PERIOD = 0.5
"""Seconds that a stopping server waits for a request on an idle connection, whose response then
closes it. Clients send requests until they know that the connection closes; if it were closed at
once, those on their way, and those of connections that were just accepted, would get no response
(RFC 9112, section 9.5)."""

_BUDGETS = "hookrow.budgets"
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class LimitedProtocol(HttpToolsProtocol):
    """One of uvicorn's connections, which is closed if it exceeds a limit.

    `_in_head` and `_in_body` show whether uvicorn's parser is in a head or a body, and `_is_idle`
    whether no head has begun since the last response. `_bytes_allowed` is the number of bytes that
    may follow until the parser makes progress. `_running` is uvicorn's cycle whose response is
    next; a request waits in `pipeline` only if its head was parsed with the end of a chunked body.
    `_is_authenticated` is whether one of its requests was authenticated.
    `_rest` is the length of the rest of a body that is not chunked, in bytes. Data after a request
    waits in `_buffered`, from `_begin`, and reading is paused, until the client has
    read the response. The connection is closed at `_expires`, a time of the event loop. In a
    stopping server, `_last_call` is the time from which neither the rest of a request nor an unread
    or unfinished response keeps it open.
    """

    unfinished = 0
    is_admitted = is_deferred = False
    is_new = True

    _expires = _last_call = inf
    _in_head = _in_body = _is_idle = _is_authenticated = False
    _unread = 0
    _bytes_allowed = MAX_HEAD
    _head_size = _headers = _body_size = _rest = 0
    _buffered = b""
    _begin = 0

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        if _BUDGETS not in app_state:
            app_state[_BUDGETS] = Budgets(self.loop)
        self._budgets: Budgets = app_state[_BUDGETS]

    def connection_made(  # type: ignore[override] # as uvicorn's
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # `resume_writing` is called if all has been read
        self._read_at = self.loop.time()
        self._expire_in(CLIENT_TIMEOUT)
        self._budgets.add(self)
        if self._budgets.is_stopping:  # accepted just before the server stopped listening
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and end its request in progress."""
        self._budgets.discard(self)
        self._buffered = b""
        if self.scope:  # type: ignore[truthy-bool,unused-ignore] # None at first
            self.scope["extensions"] = {}  # refers to this connection
        if self.pipeline:
            self.cycle = self._running  # uvicorn ends only the last request
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data, within the limits, or keep it until its turn."""
        if self._buffered or self._must_wait():
            self._buffer(self._buffered[self._begin :] + data, 0)
        elif self._may_begin(data, 0):
            self._consume(data, 0)
            if self._last_call < inf and not self._in_head:
                self._end_after_buffered()
        else:
            self._buffer(data, 0)
            self._budgets.defer(self)

    def eof_received(self) -> bool:  # type: ignore[override] # uvicorn's closes the connection
        """Keep the connection open if the client has only stopped sending and responses are due."""
        if self._in_body or self._is_answered():
            return False
        super().shutdown()  # closes it after the last response
        return True

    def shutdown(self) -> None:
        """Limit the client's remaining time, because a stopping server waits for the connection."""
        self._budgets.is_stopping = True
        self._last_call = self.loop.time() + GRACE_PERIOD
        self._end_after_buffered()

    def resume_writing(self) -> None:
        """Parse the next request: the client has read all responses."""
        super().resume_writing()
        self._resume()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = True
        self._head_size = self._headers = self._rest = 0
        super().on_message_begin()
        self.scope["extensions"] = {ADMITTED: {"call": self._admit}}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count headers and trailers; ignore trailers, which ASGI would present as headers."""
        self._headers += 1
        if self._headers > MAX_HEADERS:
            raise TooManyHeadersError  # stops the parser
        if not self._in_head:
            return
        if value.isdigit() and name.lower() == b"content-length":
            self._rest = int(value[:20])
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
        self._rest -= len(body)
        if not self._is_answered():
            self._bytes_allowed = MAX_HEAD
            self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Limit the wait for the next head if this request already has its response."""
        self._in_body, self._bytes_allowed = False, MAX_HEAD
        super().on_message_complete()
        if self._is_answered():
            self._idle()

    def on_response_complete(self) -> None:
        """Limit the rest of the body or the next head; parse what follows if nothing waits."""
        if self.loop.time() >= self._last_call:
            self.transport.close()  # before the next request begins
        self.is_admitted = False
        self._body_size = 0
        self._running.body = bytearray()  # if the application has not read it
        if self.pipeline:
            self._running, _ = self.pipeline[-1]
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._is_answered():
            self._limit_rest()
        self._resume()

    def send_400_response(self, msg: str) -> None:
        """Respond to a head with too many headers, or to data that is not HTTP."""
        if self._headers > MAX_HEADERS:
            self._refuse()
        else:
            super().send_400_response(msg)

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
            now >= self._last_call and (self._in_head or self._in_body or self._is_streaming())
        ):
            self.transport.close()

    def proceed(self) -> None:
        """Parse the data that waits, unless it has to wait longer; then resume reading."""
        if self.transport.is_closing() or self._must_wait():
            return
        if self._buffered:
            data, self._buffered = self._buffered, b""
            self._consume(data, self._begin)
            if self._buffered or self.transport.is_closing():
                return
            if self._last_call < inf:
                self._end()
        if not self.flow.read_paused:  # by uvicorn, because the application has not read the body
            self.transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once, even if the client has not read everything."""
        self.transport.abort()

    def _end_after_buffered(self) -> None:
        if not self._buffered:  # otherwise, `proceed` does it after these requests
            self._end()

    def _end(self) -> None:
        """Close the connection after the response that is due, or else after the next one.

        If no request arrives, close it after a while.
        """
        if self._is_answered() and not self._in_body:
            self.loop.call_later(IDLE_GRACE_PERIOD, self._close_if_idle)
        else:
            super().shutdown()

    def _close_if_idle(self) -> None:
        if self._is_answered() and not (self._in_head or self._in_body or self._buffered):
            self.transport.close()

    def _may_begin(self, data: bytes, begin: int) -> bool:
        """Return whether the data from an offset may be parsed now, at least its first piece."""
        del data, begin
        return self._budgets.has_time()

    def _resume(self) -> None:
        """Proceed, now or in its turn."""
        if self.is_deferred:
            return
        if self._buffered and not self._may_begin(self._buffered, self._begin):
            self._budgets.defer(self)
        else:
            self.proceed()

    def _consume(self, data: bytes, begin: int) -> None:
        """Parse data from an offset until a request has to wait, or other connections do."""
        self.is_new = False
        if self._is_idle:  # even an empty line begins a head
            self._expire_in(CLIENT_TIMEOUT)
        size = len(data)
        while begin < size:
            end = self._end_of_piece(data, begin)
            self._parse(data[begin:end])
            begin = end
            if not self._in_body and self.parser.should_upgrade():
                begin = size  # uvicorn drops what follows a request for another protocol, too
            if self.transport.is_closing() or self._must_wait():
                break
            if begin < size and not self._budgets.may_continue():
                self._budgets.defer(self)
                break
        self._buffer(data, begin)

    def _end_of_piece(self, data: bytes, begin: int) -> int:
        """Return where to stop parsing: at the latest where a request ends, if that is known."""
        if self._in_body:
            size = min(PIECE, self._rest) if self._rest > 0 else CHUNKED_PIECE
            return min(begin + min(size, self._bytes_allowed), len(data))
        most = min(begin + min(PIECE, self._bytes_allowed), len(data))
        head = begin
        if not self._in_head and (blank := _BLANK.match(data, begin, most)):
            head = blank.end()
        offset = data.find(END, head, most)
        return most if offset < 0 else offset + len(END)

    def _parse(self, piece: bytes) -> None:
        self._bytes_allowed -= len(piece)
        was_in_body = self._in_body
        super().data_received(piece)
        if self._in_head or not was_in_body:
            self._head_size += len(piece)
        if not self._bytes_allowed:  # the parser has made no progress, and more data would follow
            self._refuse()

    def _must_wait(self) -> bool:
        """Return whether the next request has to wait for a response, or for its reader."""
        return bool(
            self.pipeline
            or not (self._in_body or self._is_answered())
            or self.transport.get_write_buffer_size()
        )

    def _buffer(self, data: bytes, begin: int) -> None:
        """Keep the data from an offset, if there is any, and pause reading.

        All of it is kept: copying the rest after each of many small requests would take longer than
        parsing them.
        """
        if begin < len(data) and not self.transport.is_closing():
            self._buffered, self._begin = data, begin
            # uvicorn ends its own pauses as soon as the application reads a body.
            self.flow.resume_reading()
            self.transport.pause_reading()
        self._report_size()

    def _report_size(self) -> None:
        head = self._head_size + self._headers * HEADER_SIZE
        size = head + self._body_size + len(self._buffered)
        if size != self.unfinished:
            self._budgets.hold(self, size)

    def _admit(self) -> None:
        self.is_admitted = self._is_authenticated = True
        self._budgets.admit(self)

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
            self._bytes_allowed = MAX_DISCARDED_BODY
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


class TooManyHeadersError(Exception):
    """Raised in a callback of the parser, which stops it."""
