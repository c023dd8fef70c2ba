"""WSGI: carries a handler into Flask, Pyramid, Bottle or a bare server.

https://peps.python.org/pep-3333/ is the specification. A notification waits in the
server's own thread; those of all its threads share their commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from time import monotonic
from wsgiref.types import InputStream, StartResponse, WSGIEnvironment

from hookrow.core.notification import Refusal
from hookrow.http import (
    LARGEST_BODY,
    SLOWEST_BODY,
    Handler,
    Request,
    RequestHead,
    Response,
    declared_length,
    refuse_body,
)
from hookrow.promise import Promise
from hookrow.request_id import HEADER, request_id

PIECE = 64 * 1024
"""In bytes; how much is read at a time, between two looks at the clock."""

_SOCKETS = ("gunicorn.socket", "werkzeug.socket")
"""Where servers hand out the connection. Others have time limits of their own."""


class WSGI:
    """A WSGI application that lets a handler answer.

    Below a path of another application: `DispatcherMiddleware(app, {"/mail": WSGI(receiver)})`.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        asked = head(environ)
        response = self._answer(asked, environ)
        headers = [
            *response.headers.items(),
            ("Content-Length", str(len(response.body))),
            (HEADER, asked.request_id),
        ]
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", headers)
        return [] if asked.method == "HEAD" else [response.body]

    def _answer(self, asked: RequestHead, environ: WSGIEnvironment) -> Response:
        answer = self._handler.admit(asked)
        if answer is None:
            posted = body(asked, environ)
            if isinstance(posted, Refusal):
                return refuse_body(self._handler, asked, posted)
            answer = self._handler(Request(asked, posted))
        return answer.result() if isinstance(answer, Promise) else answer


def head(environ: WSGIEnvironment) -> RequestHead:
    """Return what a server says of a request; its text is bytes, each shown as a character.

    What a middleware has put there that shows no bytes counts as question marks.
    """
    root, path = _text(environ.get("SCRIPT_NAME", "")), _text(environ.get("PATH_INFO", ""))
    headers = [
        (_bytes(name.removeprefix("HTTP_").replace("_", "-")), _bytes(value))
        for name, value in environ.items()
        if name.startswith(("HTTP_", "CONTENT_"))
    ]
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    secure = environ.get("wsgi.url_scheme") == "https"
    return RequestHead(method, root + path, headers, root, query, secure, request_id(headers))


def body(asked: RequestHead, environ: WSGIEnvironment) -> bytes | Refusal:
    """Read the body, at most 1 MiB in 15 seconds; return it, or why it is refused.

    Without a length it is read where the server knows its end (`wsgi.input_terminated`).
    Else it is empty, unless it comes in chunks: 411 (RFC 9110, section 15.5.12).
    One that ends too early is as good as one that is too slow, for nobody is left who
    could hear the answer: 408.
    """
    length = declared_length(asked)
    if length is None and not environ.get("wsgi.input_terminated"):
        chunked = asked.header("transfer-encoding") is not None
        return Refusal.LENGTH_REQUIRED if chunked else b""
    if length is not None and length > LARGEST_BODY:
        return Refusal.TOO_LARGE
    read = _read(environ, LARGEST_BODY + 1 if length is None else length)
    if read is None or len(read) < (length or 0):
        return Refusal.TIMED_OUT
    return Refusal.TOO_LARGE if len(read) > LARGEST_BODY else read


def _read(environ: WSGIEnvironment, size: int) -> bytes | None:
    """Read up to so many bytes; None where they did not come in time, or came ill-formed."""
    stream = environ["wsgi.input"]
    connection = next((environ[name] for name in _SOCKETS if name in environ), None)
    if connection is None:
        return _read_in_time(stream, size, lambda _: None)
    before = connection.gettimeout()
    try:
        return _read_in_time(stream, size, connection.settimeout)
    finally:
        connection.settimeout(before)


def _read_in_time(stream: InputStream, size: int, limit: Callable[[float], object]) -> bytes | None:
    """Read as `_read` does; `limit` says how long the next read may wait, in seconds."""
    until = monotonic() + SLOWEST_BODY
    read = bytearray()
    while len(read) < size:
        seconds = until - monotonic()
        if seconds <= 0:
            return None
        limit(seconds)
        try:
            piece = stream.read(min(PIECE, size - len(read)))
        except Exception:  # noqa: BLE001 - each server has errors of its own for it
            return None
        if not piece:
            break
        read += piece
    return bytes(read)


def _bytes(shown: str) -> bytes:
    return shown.encode("latin-1", "replace")


def _text(shown: str) -> str:
    return _bytes(shown).decode(errors="replace")
