"""Sends requests for the client: without redirects, and with limits for each response."""

from __future__ import annotations

import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from io import BufferedReader, RawIOBase
from socket import SocketIO
from typing import TYPE_CHECKING, Any, cast
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    ProxyHandler,
    Request,
    build_opener,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LONGEST = 120.0
"""In seconds; the limit for a whole response, each part of which may arrive before a timeout."""

LARGEST = 64 * 2**20
"""In bytes; the limit for a response. A page of 500 messages has a few MiB, but all suppressions of
a stream are in one response, with about 150 bytes each."""


class Excessive(OSError):
    """A response exceeds a limit."""


class _TimedReader(RawIOBase):
    """Reads a response until its time limit."""

    def __init__(self, raw: SocketIO) -> None:
        self._raw = raw
        self._until = time.monotonic() + LONGEST

    def readable(self) -> bool:
        """Return True, because a buffer reads from this."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Read the bytes that have arrived, or wait for the next ones. Raises `Excessive`."""
        if time.monotonic() > self._until:
            raise Excessive(f"is not complete after {LONGEST:g} s")
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Release the socket."""
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - of the class
        super().__init__(*arguments, **options)
        self.fp = BufferedReader(_TimedReader(cast("SocketIO", self.fp.detach())))


class _Connection(HTTPConnection):
    response_class = _Response


class _SecureConnection(HTTPSConnection):
    response_class = _Response


class _Handler(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        """Open an http URL."""
        return self.do_open(_Connection, req)


class _SecureHandler(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        """Open an https URL."""
        return self.do_open(_SecureConnection, req)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect, because it might take the token to another host."""


def read(response: HTTPResponse) -> bytes:
    """Return the body. Raises `Excessive`, and `IncompleteRead` if the connection was closed."""
    text = response.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise Excessive(f"is larger than {LARGEST >> 20} MiB")
    if response.length:
        raise IncompleteRead(text, response.length)
    return text


def opener(*, secure: bool) -> Callable[..., Any]:
    """Return a function that opens a request, as `urllib.request.urlopen` does."""
    # With plain http, a proxy would see the token.
    proxies = ProxyHandler(None if secure else {})
    return build_opener(_NoRedirects(), proxies, _Handler(), _SecureHandler()).open
