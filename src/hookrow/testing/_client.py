"""Posts payloads as the provider would: to a URL, or to a receiver in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlsplit

import msgspec

from hookrow._arguments import check_seconds, has_members, kind_of, reject_secret
from hookrow._core.notification import Key
from hookrow._http import ENDPOINT, SECRET_HEADER, Handler, Request, RequestHead
from hookrow._receiver.entries import Providers, Tenant
from hookrow._receiver.hooks import OnRecorded, OnRefused
from hookrow._receiver.receiver import Receiver
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.providers.postmark import Postmark
from hookrow.stores.sql import SQLStore

SECRET = "a-secret-for-tests"  # noqa: S105 - it protects nothing
"""The default secret of `post` and `headers`, which `open_receiver` accepts."""


TIMEOUT = 10.0
"""Seconds to wait for a response, by default."""


class NoResponse(HookrowError):
    """The server cannot be reached, or sent no HTTP response in time."""


def headers(*, secret: str | None = SECRET) -> dict[str, str]:
    """Return the headers that the provider sends, for a test client that posts JSON.

    If the secret is None, its header is omitted. Raises `ConfigurationError`, whose message does
    not contain the secret, if a header cannot contain it.
    """
    sent = {"User-Agent": "Postmark"}
    if secret is None:
        return sent
    if not isinstance(secret, str):
        reject_secret("The secret", secret, "headers(secret=SECRET)")
    if any(letter > "\xff" or letter in "\r\n\0" for letter in secret):
        raise ConfigurationError("The secret has a character that an HTTP header cannot contain.")
    return sent | {SECRET_HEADER: secret}


def post(
    target: str | Handler,
    payload: object,
    *,
    secret: str | None = SECRET,
    timeout: float = TIMEOUT,
) -> tuple[int, str]:
    """Post a payload as the provider would; return the status and the text of the response.

    The target is the URL of an endpoint, or a receiver (any `Handler`) with any mount path. If the
    secret is None, its header is omitted. A receiver records in the calling thread, so that the
    changes are part of the test's own transaction. For a URL, redirects are not followed, and
    proxies are not used.

    Raises `ConfigurationError` if the arguments are not valid, and `NoResponse` if a server cannot
    be reached or does not respond within `timeout` seconds.
    """
    sent = headers(secret=secret)
    check_seconds("timeout", timeout)
    try:
        body = msgspec.json.encode(payload)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"The payload cannot be encoded as JSON: {error}.") from error
    if isinstance(target, str):
        return send(target, body, sent | {"Content-Type": "application/json"}, timeout)
    return call(target, body, sent)


@contextmanager
def open_receiver(
    store: SQLStore,
    *,
    on_recorded: OnRecorded = None,
    on_refused: OnRefused = None,
    tenant: Key | None = None,
) -> Iterator[Receiver]:
    """Open a receiver that accepts the secret of `post` and records in the store.

    At the end of the block, the hooks have been called for all notifications posted in it. Each of
    `on_recorded` and `on_refused` may be a function or a list of functions. If the mapping names
    columns of tenants, the receiver's only entry is the `tenant`.
    """
    provider = Postmark(SECRET)
    providers: Providers = provider
    if tenant is not None:
        names = (name for name, each in store.tenants.items() if each == tenant)
        providers = {next(names, f"tenant-{len(store.tenants)}"): Tenant(provider, tenant)}
    receiver = Receiver(providers, store, on_recorded=on_recorded, on_refused=on_refused)
    try:
        yield receiver
    finally:
        receiver.close()


def send(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Post a body; see `post`."""
    connection, path = _connect(url, timeout)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise NoResponse(f"No response from {url}: {error!s:.200}") from error
    finally:
        connection.close()


def call(handler: Handler, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    """Post a body to a handler, whatever its mount path is; see `post`.

    Raises `ConfigurationError` if it is not a handler.
    """
    if not has_members(handler, ("admit",)):
        raise ConfigurationError(
            f"post() cannot post to {kind_of(handler)}: pass a URL or a receiver. For an "
            "application, use the test client of its framework, with hookrow.testing.headers()."
        )
    path, respond = ENDPOINT, handler.__call__
    if isinstance(handler, Receiver):  # in this thread, whose connection may be in a transaction
        path, respond = handler.endpoint, handler.record_directly
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    head = RequestHead("POST", path, raw)
    response = handler.admit(head) or respond(Request(head, body))
    return response.status, response.body.decode()


def _connect(url: str, timeout: float) -> tuple[HTTPConnection, str]:
    """Return a connection that is not yet open, and the path to request."""
    try:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(url)  # noqa: TRY301 - handled with the other invalid URLs
        kind = {"http": HTTPConnection, "https": HTTPSConnection}[parts.scheme]
        connection = kind(parts.hostname, parts.port, timeout=timeout)
    except (KeyError, ValueError, HTTPException):
        raise ConfigurationError(
            f"{url!r} is not a URL: it must begin with http:// or https://."
        ) from None
    if parts.username is not None:
        raise ConfigurationError("Remove the user name and the password from the URL.")
    target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
    return connection, quote(target, safe="/%?&=+:;,@!$'()*~")
