"""The head and the body of a request in WSGI's environment, for WSGI hosts and Django.

The specification is https://peps.python.org/pep-3333/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any
from wsgiref.types import WSGIEnvironment

from hookrow._core.notification import Refusal
from hookrow._http import BODY_TIMEOUT, BodyReader, RequestHead, request_id

_CHUNK_SIZE = 64 * 1024
"""The most bytes that are read between two checks of the time limit."""

_SOCKETS = ("gunicorn.socket", "werkzeug.socket")
"""The keys under which some servers provide the connection. Others have their own timeouts."""


def request_head(environ: WSGIEnvironment) -> RequestHead:
    """Return the head of a request.

    WSGI represents bytes as Latin-1 characters; any other character, from a middleware, becomes a
    question mark.
    """
    root, path = _decode(environ.get("SCRIPT_NAME", "")), _decode(environ.get("PATH_INFO", ""))
    headers = request_headers(environ)
    method, query = environ["REQUEST_METHOD"], environ.get("QUERY_STRING", "")
    return RequestHead(method, root + path, headers, root, query, request_id(headers))


def request_headers(environ: Mapping[str, Any]) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers of a request from WSGI's environment, or Django's `META`."""
    return [
        (_bytes(name.removeprefix("HTTP_").replace("_", "-")), _bytes(value))
        for name, value in environ.items()
        if name.startswith(("HTTP_", "CONTENT_"))
    ]


def read_input(body: BodyReader, environ: WSGIEnvironment) -> bytes | Refusal:
    """Read a body within 15 seconds; return it, or the reason to refuse it.

    A body without a length is read if the server marks its end (`wsgi.input_terminated`).
    Otherwise it is empty, or refused if it is chunked: 411 (RFC 9110, section 15.5.12).
    """
    if body.declared is None and not environ.get("wsgi.input_terminated"):
        return Refusal.LENGTH_REQUIRED if body.is_chunked else b""
    if body.refusal is None and not _read(environ, body):
        return Refusal.TIMED_OUT
    return body.end()


def _read(environ: WSGIEnvironment, body: BodyReader) -> bool:
    """Read a body to its end; return False if it does not arrive in time or is malformed."""
    connection = next((environ[name] for name in _SOCKETS if name in environ), None)
    before = None if connection is None else connection.gettimeout()
    until = monotonic() + BODY_TIMEOUT
    try:
        while body.left > 0:
            if (seconds := until - monotonic()) <= 0:
                return False
            if connection is not None:
                connection.settimeout(seconds)
            chunk = environ["wsgi.input"].read(min(_CHUNK_SIZE, body.left))
            if not chunk:
                break
            body.add(chunk)
    except Exception:  # noqa: BLE001 - each server raises its own errors
        return False
    finally:
        if connection is not None:
            connection.settimeout(before)
    return True


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _decode(text: str) -> str:
    return _bytes(text).decode(errors="replace")
