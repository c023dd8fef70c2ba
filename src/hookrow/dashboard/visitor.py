"""Who may look at the dashboard, and whether a form that comes is one of ours."""

from __future__ import annotations

import secrets
from base64 import b64decode
from collections.abc import Callable
from hmac import compare_digest
from ipaddress import ip_address
from typing import TypeAlias
from urllib.parse import urlsplit

from hookrow.errors import ConfigurationError
from hookrow.http import Head, Response, plain

Authorize: TypeAlias = Callable[[Head], bool | str | Response]
"""Says who comes: their name or True, False for nobody who may, or what to answer instead.

The name is kept in the log with what they do.
"""

COOKIE = "hookrow_dashboard"

USER = "hookrow"
"""Whom `hookrow serve` asks for."""

_LOGIN = plain(
    401,
    "The dashboard asks for a user and a password.",
    {"WWW-Authenticate": 'Basic realm="hookrow", charset="UTF-8"'},
)

_PROXIES = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""What a proxy adds: behind one everybody comes from this machine."""


def basic(user: str, password: str) -> Authorize:
    """Ask for a user and a password, as RFC 7617 says; compared in constant time.

    Raises `ConfigurationError` where one is empty, or the user has a colon.
    """
    if not user or not password or ":" in user:
        raise ConfigurationError(
            "The dashboard needs a user, without a colon, and a password: both not empty."
        )
    right = f"{user}:{password}".encode()

    def authorize(head: Head) -> str | Response:
        scheme, _, given = (head.header("authorization") or b"").partition(b" ")
        if scheme.lower() == b"basic" and compare_digest(_decoded(given.strip()), right):
            return user
        return _LOGIN

    return authorize


def local(head: Head) -> bool:
    """Take who asks this machine for itself: no proxy, and no other name that leads here.

    A page elsewhere can make its own name lead to 127.0.0.1, and read what answers there.
    """
    try:
        host = urlsplit(f"//{(head.header('host') or b'').decode('latin-1')}").hostname
    except ValueError:
        return False
    return _is_loopback(host) and not any(map(head.header, _PROXIES))


def served_to(password: str | None, *, host: str) -> Authorize:
    """Return whom `hookrow serve` lets in at an address.

    Raises `ConfigurationError` where there is no password and others can reach it.
    """
    if password:
        return basic(USER, password)
    if not _is_loopback(host):
        raise ConfigurationError(
            f"The dashboard at {host} would be open to everybody: set HOOKROW_DASHBOARD_PASSWORD, "
            "or serve at 127.0.0.1."
        )
    return local


def new_token() -> str:
    """Make a token for the forms of a visitor."""
    return secrets.token_urlsafe()


def token(head: Head) -> str | None:
    """Return the token that the visitor's cookie has, or None.

    The host's own cookies stand beside it, written as it likes; in HTTP/2 each may have a
    header of its own.
    """
    headers = [value for name, value in head.headers if name.lower() == b"cookie"]
    for cookie in b";".join(headers).decode("latin-1").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE:
            return value or None
    return None


def is_ours(head: Head, sent: str) -> bool:
    """Tell whether a form came from a page of ours: its token is the cookie's, and its origin here.

    Browsers say the latter in `Sec-Fetch-Site`, over HTTP in `Origin`.
    """
    kept = token(head)
    if not kept or not compare_digest(kept.encode(), sent.encode()):
        return False
    site, origin = head.header("sec-fetch-site"), head.header("origin")
    if site is not None:
        return site == b"same-origin"
    return origin is None or origin.partition(b"://")[2] == head.header("host")


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def _decoded(given: bytes) -> bytes:
    try:
        return b64decode(given, validate=True)
    except ValueError:
        return b""
