"""HTTP as the server of our own speaks it: uvicorn's protocol, with limits.

uvicorn waits for a head as long as the connection lasts, takes one of any length, and
goes on to read what comes of a body that is answered already.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import chain

from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

LARGEST_HEAD = 64 * 1024
"""In bytes; a longer head is answered 431 (RFC 6585, section 5), and so is what comes in a body
without being a part of it, such as a trailer. What is read at once with the end of a body,
or of a part of it, does not count: nobody says where that was."""

LARGEST_REST = 1024 * 1024
"""In bytes; of what still comes after the answer, so that the client can read that."""

SLOWEST = 15.0
"""In seconds; a connection on which a head, or that rest, takes longer is closed."""

_NOWHERE: deque[tuple[bytes, bytes]] = deque(maxlen=0)


class LimitedProtocol(HttpToolsProtocol):
    """One connection: uvicorn's own, closed where a head or a rest is too long or too slow.

    `_in_head` is whether the next head is what comes, or is waited for; `_left`, in bytes, how
    much may come until it ends, or a part of a body that is wanted, or the rest of one that is not.
    """

    _in_head = True
    _left = LARGEST_HEAD
    _timer: asyncio.TimerHandle | None = None

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
        self._left -= len(data)
        super().data_received(data)
        if self._left < 0:
            self._refuse()
        # Whatever came behind the answer has ended the idling, were it an empty line.
        if self._timer is None and self._in_head and self.cycle.response_complete:
            self._limit_time()

    def on_headers_complete(self) -> None:
        """Answer."""
        # What has come may be the body as well: the head alone is counted only then.
        if self._left < 0 and self._length_of_head() > LARGEST_HEAD:
            raise HttpParserError("The head is too long.")
        self._in_head, self._left = False, LARGEST_HEAD
        self._end_limit()
        super().on_headers_complete()
        self.headers = _NOWHERE  # type: ignore[assignment] # for the trailers, which nobody reads

    def on_body(self, body: bytes) -> None:
        """Take a part of a body; what is none, as the line of a trailer, has a limit."""
        if not self.cycle.response_complete:
            self._left = LARGEST_HEAD
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next head, as long as a connection may idle."""
        self._in_head, self._left = True, LARGEST_HEAD
        self._end_limit()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for what still comes of the request."""
        super().on_response_complete()
        # Else it is another request's body, or the next one's head.
        if not self._in_head and self.cycle.response_complete:
            self._left = LARGEST_REST
            self._limit_time()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser stopped at, for its form or for its length."""
        if self._left < 0:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _limit_time(self) -> None:
        self._end_limit()
        self._timer = self.loop.call_later(SLOWEST, self.transport.close)

    def _end_limit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _length_of_head(self) -> int:
        return len(self.url) + sum(map(len, chain.from_iterable(self.headers)))

    def _refuse(self) -> None:
        if self.transport.is_closing():
            return
        # Not where the answer was given, nor in the place of that to an earlier request.
        before: RequestResponseCycle | None = self.cycle  # uvicorn begins with None
        if self._in_head == (before is None or before.response_complete):
            head = STATUS_LINE[431] + b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(head)
        self.transport.close()
