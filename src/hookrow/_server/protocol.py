"""The protocol of `hookrow serve`: notifications go straight from the connection to the receiver.

ASGI's messages and a task for each request cost more than everything else that the server does for
a notification. This protocol handles a notification itself if it arrives in one piece, and passes
all other data to uvicorn's protocol, unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from http import HTTPStatus
from inspect import signature
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from hookrow._faults import describe_bug, log_fault
from hookrow._http import REQUEST_ID_NAME, RETRY_LATER, Request, RequestHead, Response, request_id
from hookrow._server import RECEIVER
from hookrow._server.limits import (
    END,
    MAX_HEAD,
    MAX_HEADERS,
    LimitedProtocol,
    TooManyHeadersError,
)

if TYPE_CHECKING:
    from hookrow._receiver.receiver import Receiver
    from hookrow.providers import Provider

UVICORN = (
    "cycle.body",
    "cycle.response_complete",
    "cycle.response_started",
    "flow.read_paused",
    "flow.resume_reading",
    "loop",
    "on_response_complete",
    "parser",
    "pipeline",
    "resume_writing",
    "scope",
    "send_400_response",
    "server_state.default_headers",
    "shutdown",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "transport",
)
"""The undocumented attributes of uvicorn's protocol on which hookrow's protocol depends."""

MAX_DIRECT = 64 * 1024
"""Bytes of a request that is handled without uvicorn."""

_ENDPOINT_KEY = "hookrow.endpoint"


def check_uvicorn() -> None:
    """Raise an `AttributeError` or `TypeError` if uvicorn's protocol lacks one of `UVICORN`."""
    config = uvicorn.Config(
        object, factory=True, interface="asgi3", ws="none", lifespan="off", log_config=None
    )
    with closing(asyncio.new_event_loop()) as loop:
        protocol = HttpToolsProtocol(config, ServerState(), {}, loop)
    # Each connection and request would create these objects, which only keep their arguments.
    nothing: Any = None
    protocol.flow = FlowControl(nothing)
    protocol.cycle = RequestResponseCycle(
        **dict.fromkeys(signature(RequestResponseCycle).parameters, nothing)
    )
    attrgetter(*UVICORN)(protocol)


class NotificationProtocol(LimitedProtocol):
    """One connection. The application passes its receiver in ASGI's lifespan state.

    While a request waits for the receiver (`_pending`), the data that follows is buffered.
    """

    _pending: RequestHead | None = None
    _is_last = False

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        if _ENDPOINT_KEY not in app_state and RECEIVER in app_state:
            app_state[_ENDPOINT_KEY] = DirectEndpoint(app_state[RECEIVER])
        self._endpoint: DirectEndpoint | None = app_state.get(_ENDPOINT_KEY)

    def eof_received(self) -> bool:  # type: ignore[override] # as in `LimitedProtocol`
        """Keep the connection open if the client has only stopped sending and a response is due."""
        self._is_last = self._pending is not None
        return self._is_last or super().eof_received()

    def _may_begin(self, data: bytes, begin: int) -> bool:
        """Do not let a client wait that sends one valid notification after the other."""
        if (
            self._is_authenticated
            and self._endpoint is not None
            and self._endpoint.target_at(data, begin) is not None
        ):
            return True
        return super()._may_begin(data, begin)

    def _consume(self, data: bytes, begin: int) -> None:
        """Submit a whole notification to the receiver; pass all other data to uvicorn."""
        endpoint = self._endpoint
        if (
            endpoint is not None
            and not self._in_head
            and not self._in_body
            and (request := endpoint.parse(data, begin))
        ):
            self.is_new = False
            self._submit(endpoint, request)
            if self.unfinished:
                self._report_size()
        else:
            super()._consume(data, begin)

    def _must_wait(self) -> bool:
        return self._pending is not None or super()._must_wait()

    def _end(self) -> None:
        if self._pending is None:
            super()._end()
        else:
            self._is_last = True

    def _close_if_idle(self) -> None:
        if self._pending is None:
            super()._close_if_idle()

    def _submit(self, endpoint: DirectEndpoint, request: Request) -> None:
        self._pending = head = request.head
        self._expire_in(inf)
        reply = partial(self._reply, endpoint, head)
        try:
            refusal = endpoint.receiver.admit(head)
            if refusal is None:
                self._admit()
                endpoint.receiver.submit(request, self.loop, reply)
        except Exception as error:  # noqa: BLE001 - a bug, but the provider retries after a 503
            refusal = _failed(error, head.request_id)
        if refusal is not None:
            reply(refusal)

    def _reply(self, endpoint: DirectEndpoint, head: RequestHead, response: Response) -> None:
        """Write the response to the pending request, then handle the data that followed."""
        if self._pending is not head:
            return
        self._pending = None
        self.is_admitted = False
        if self.transport.is_closing():
            return
        if self._last_call < inf and (not self._buffered or self.loop.time() >= self._last_call):
            self._is_last = True
        start = endpoint.encode(response, self.server_state.default_headers)
        end = b"\r\nconnection: close\r\n\r\n" if self._is_last else b"\r\n\r\n"
        self.transport.write(b"".join((start, head.request_id.encode(), end, response.body)))
        if self._is_last:
            self.transport.close()
            return
        self._idle()
        if self._buffered:
            self._resume()


class _Target(NamedTuple):
    """The path of an entry, and the bytes of a request to it that is handled without uvicorn.

    A longer request may have a body that the entry's provider does not accept.
    """

    path: str
    most: int

    @classmethod
    def of(cls, path: str, provider: Provider) -> Self:
        """Return the target at a path whose requests a provider reads."""
        return cls(path, min(MAX_DIRECT, provider.max_body))


class DirectEndpoint:
    """The objects that the connections of one server share: receiver, parser, encoded response."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self._default = _Target.of(receiver.endpoint, receiver.entries.default.provider)
        self._request_line = _request_line(receiver.endpoint)
        named = (
            _Target.of(f"{receiver.endpoint}/{each.name}", each.provider)
            for each in receiver.entries
            if each.name
        )
        self._named = {_request_line(each.path): each for each in named}
        self._longest = max(map(len, self._named), default=0)
        self._parser = _Parser()
        self._encoded: tuple[Response | None, object, bytes] = (None, None, b"")

    def target_at(self, data: bytes, begin: int) -> _Target | None:
        """Return the target if the data from an offset begins with a request to one, or None."""
        if data.startswith(self._request_line, begin):
            return self._default
        if not self._named:
            return None
        end = data.find(b"\n", begin, begin + self._longest) + 1  # 0 if there is none
        return self._named.get(data[begin:end])

    def parse(self, data: bytes, begin: int) -> Request | None:
        """Return the request if the data from an offset is exactly one to an entry, or None.

        Also returns None if its body may be too large.
        """
        target = self.target_at(data, begin)
        if target is None or len(data) - begin > target.most:
            return None
        if not self._parser.parse(data[begin:]):
            self._parser = _Parser()  # the old one may have stopped anywhere
            return None
        headers = self._parser.headers
        id_ = request_id(headers)
        head = RequestHead("POST", target.path, headers, request_id=id_)
        return Request(head, self._parser.body)

    def encode(self, response: Response, default_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Encode a response up to its request id; if it is the same as the last one, reuse that."""
        if self._encoded[0] is not response or self._encoded[1] is not default_headers:
            self._encoded = response, default_headers, _encode(response, default_headers)
        return self._encoded[2]


def _request_line(path: str) -> bytes:
    return f"POST {quote(path)} HTTP/1.1\r\n".encode()


class _Parser:
    """Parses data that may be a whole request, and keeps the `headers` and the `body`."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._is_simple = True

    def parse(self, data: bytes) -> bool:
        """Return whether the data is exactly one request, which needs only a response."""
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self._is_complete = False
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return False
        if not (self._is_complete and self._is_simple):
            return False
        head = data.index(END) + len(END)
        return head <= MAX_HEAD and len(data) == head + len(self.body)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, with its name in lower case as in ASGI."""
        name = name.lower()
        if name in {b"expect", b"transfer-encoding"}:
            self._is_simple = False
        if len(self.headers) == MAX_HEADERS:
            raise TooManyHeadersError  # stops the parser
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        """Keep the body."""
        self.body += body

    def on_message_complete(self) -> None:
        """Record that the request is complete, unless it closes the connection."""
        if self._is_complete:
            raise SecondRequestError  # stops the parser
        self._is_complete = self._parser.should_keep_alive()


class SecondRequestError(Exception):
    """Raised in a callback of the parser, which stops it."""


def _encode(response: Response, default_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Encode a response up to its request id, as uvicorn encodes the responses of `asgi`."""
    status = HTTPStatus(response.status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}".encode(),
        *(b"%s: %s" % header for header in default_headers),
        *(f"{name.lower()}: {value}".encode() for name, value in response.headers.items()),
        b"content-length: %d" % len(response.body),
        b"%s: " % REQUEST_ID_NAME,
    ]
    return b"\r\n".join(lines)


def _failed(error: Exception, id_: str) -> Response:
    log_fault(
        error,
        "Returned 503 to request %s: %s",
        id_,
        describe_bug(error),
        extra={"request_id": id_},
    )
    return RETRY_LATER
