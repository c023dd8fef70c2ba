"""HTTP as the server of our own speaks it: uvicorn's protocol, with limits.

uvicorn waits for a head as long as the connection lasts, takes one of any length, and
goes on to read what comes of a body that is answered already.
"""

from __future__ import annotations

import asyncio
from itertools import chain

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

LARGEST_HEAD = 64 * 1024
"""In bytes; a longer head, or trailer, is answered 431 (RFC 6585, section 5)."""

LARGEST_REST = 1024 * 1024
"""In bytes; of what still comes after the answer, so that the client can read that; and of
what comes without being a part of a body, such as a trailer's line."""

SLOWEST = 15.0
"""In seconds; a connection on which a head, or that rest, takes longer is closed."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's own, closed where a head or a rest is too long or too slow."""

    _timer: asyncio.TimerHandle | None = None
    _in_head = True
    _whole = True
    _coming = 0
    _size = 0
    _fields = 0
    _counted = 0

    def connection_made(  # type: ignore[override] # as uvicorn has it
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for a head."""
        super().connection_made(transport)
        self._limit_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._end_limit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, within the limits."""
        self._coming = len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._whole:
            self._count()
        # Where it is whole that was an empty line, which began no request and ended the idling.
        if self._timer is None and (self.cycle.response_complete if self._whole else self._in_head):
            self._limit_time()

    def on_message_begin(self) -> None:
        """Wait for the rest of the head."""
        super().on_message_begin()
        self._in_head, self._whole = True, False
        self._size = self._fields = self._counted = 0
        self._end_limit()

    def on_headers_complete(self) -> None:
        """Answer."""
        if self._size + self._coming > LARGEST_HEAD:
            self._count_fields()
        if self.transport.is_closing():
            return
        self._in_head, self._size, self._fields, self._counted = False, 0, 0, len(self.headers)
        self._end_limit()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; what is none, as the line of a trailer, has a limit."""
        if self.transport.is_closing():
            return
        if not self.cycle.response_complete:
            self._size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head, as long as a connection may idle."""
        self._count_fields()
        if self.transport.is_closing():
            return
        self._whole, self._size = True, 0
        self._end_limit()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for what still comes of the request."""
        super().on_response_complete()
        # Else it is another request's body, or the next one's head.
        if not self._whole and not self._in_head and self.cycle.response_complete:
            self._size = 0
            self._limit_time()

    def _limit_time(self) -> None:
        self._end_limit()
        self._timer = self.loop.call_later(SLOWEST, self.transport.close)

    def _end_limit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count(self) -> None:
        """Count what is coming of a request that is not whole."""
        self._count_fields()
        self._size += self._coming
        if self._size > (LARGEST_HEAD if self._in_head else LARGEST_REST):
            self._refuse()

    def _count_fields(self) -> None:
        """Count the headers that came, or else the trailers, which might go on for ever."""
        if len(self.headers) > self._counted:
            self._fields += sum(map(len, chain.from_iterable(self.headers[self._counted :])))
            self._counted = len(self.headers)
            if self._fields > LARGEST_HEAD:
                self._refuse()

    def _refuse(self) -> None:
        if self.transport.is_closing():
            return
        # Not where the answer was given, nor in the place of that to an earlier request.
        before: RequestResponseCycle | None = self.cycle  # uvicorn begins with None
        if self._in_head == (before is None or before.response_complete):
            head = STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head)
        self.transport.close()
