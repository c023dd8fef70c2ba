"""Posts a payload as the provider would, to a URL, a receiver or an application."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from inspect import iscoroutinefunction, signature, unwrap
from typing import TypeAlias, TypeGuard
from urllib.parse import quote, urlsplit
from wsgiref.types import WSGIApplication

import msgspec

from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT, Handler, Request, RequestHead
from hookrow.receiver.receiver import Receiver
from hookrow.testing.applications import (
    Answer,
    ASGIApplication,
    NotPosted,
    call_asgi,
    call_wsgi,
)

SECRET = "a-secret-for-tests"  # noqa: S105 - it protects nothing
"""The default secret of `post`, which a `memory_receiver` accepts."""

Target: TypeAlias = str | Handler | ASGIApplication | WSGIApplication
"""A web address, a receiver, or an application of the host."""


def post(
    target: Target,
    payload: object,
    *,
    secret: str | None = SECRET,
    path: str | None = None,
    timeout: float = 10.0,
) -> Answer:
    """Post a payload as the provider would; return the status and the text of the response.

    If the secret is None, the header is omitted. A URL contains the path; for a receiver or an
    application, `path` is the path of the request, by default `/provider/webhooks`. A receiver
    records in the calling thread, so that a test's own transaction contains the changes. An
    application is called in this process, without a server and lifespan events; its exceptions
    propagate. Redirects are not followed, and proxies are not used.

    Raises `ConfigurationError` if the arguments cannot be used, and `NotPosted` if there is no
    response within `timeout` seconds (a WSGI application may take longer).
    """
    headers = _headers(secret)
    try:
        body = msgspec.json.encode(payload)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The payload cannot be written as JSON: {error}.") from error
    if isinstance(target, str):
        if path is not None:
            raise ConfigurationError("A web address says the path itself: leave it out.")
        return _post(target, body, headers, timeout)
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    request = Request(RequestHead("POST", path or ENDPOINT, raw), body)
    if _is_handler(target):
        return _call(target, request)
    if _is_wsgi(target):
        return call_wsgi(target, request)
    if _is_asgi(target):
        return call_asgi(target, request, timeout)
    raise ConfigurationError(
        f"Nothing can be posted to {target!r:.80}: "
        "give a web address, a receiver, or an ASGI or WSGI application."
    )


def _headers(secret: str | None) -> Mapping[str, str]:
    """Return the headers that the provider sends. No error message contains the secret."""
    headers = {"Content-Type": "application/json", "User-Agent": "Postmark"}
    if secret is None:
        return headers
    if any(letter > "\xff" or letter in "\r\n\0" for letter in secret):
        raise ConfigurationError("The secret has a character that no header carries.")
    return headers | {"X-Provider-Secret": secret}


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> Answer:
    connection, path = _connect(url, timeout)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise NotPosted(f"No answer from {url}: {error!s:.200}") from error
    finally:
        connection.close()


def _connect(url: str, timeout: float) -> tuple[HTTPConnection, str]:
    """Return a connection that is not open yet, and the path to request."""
    try:
        parts = urlsplit(url)
        kind = {"http": HTTPConnection, "https": HTTPSConnection}[parts.scheme]
        connection = kind(parts.hostname or "", parts.port, timeout=timeout)
        if parts.username is not None:
            raise ConfigurationError("Leave the user and the password out of the web address.")
    except (KeyError, ValueError, HTTPException):
        raise ConfigurationError(
            f"{url!r} is no web address: begin it with http:// or https://."
        ) from None
    target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    return connection, quote(target, safe="/%?&=+:;,@!$'()*~")


def _call(handler: Handler, request: Request) -> Answer:
    # A test may have a transaction on the connection of its own thread.
    respond = handler.record_directly if isinstance(handler, Receiver) else handler
    response = handler.admit(request.head) or respond(request)
    return response.status, response.body.decode(errors="replace")


def _is_handler(target: object) -> TypeGuard[Handler]:
    return hasattr(target, "admit")


def _is_wsgi(target: object) -> TypeGuard[WSGIApplication]:
    return _takes(target, 2) and not _is_async(target)


def _is_asgi(target: object) -> TypeGuard[ASGIApplication]:
    return _takes(target, 3)


def _is_async(target: object) -> bool:
    """Return whether a function, an instance or what it wraps is a coroutine function."""
    called = unwrap(target)  # type: ignore[arg-type] # `_takes` has checked that it is callable
    return iscoroutinefunction(called) or iscoroutinefunction(type(called).__call__)


def _takes(target: object, arguments: int) -> bool:
    """Return whether an object can be called with this number of positional arguments."""
    try:
        signature(target).bind(*range(arguments))  # type: ignore[arg-type] # it may be anything
    except (TypeError, ValueError):  # not callable, or without a known signature
        return False
    return True
