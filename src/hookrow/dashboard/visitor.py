"""Authentication for the dashboard, and the protection of its forms against CSRF."""

from __future__ import annotations

import logging
import secrets
from base64 import b64decode
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest
from ipaddress import ip_address
from threading import Lock
from time import monotonic
from typing import TypeAlias

from hookrow.concurrency import reset_after_fork
from hookrow.errors import ConfigurationError
from hookrow.http import RequestHead, Response, plain

log = logging.getLogger("hookrow")

Authorize: TypeAlias = Callable[[RequestHead], bool | str | Response]
"""Returns the user's name or True, False to deny access, or the response to send.

To delay a response, set its `delay`. The log keeps the name with each action of the user.
"""

COOKIE = "hookrow_dashboard"

USER = "hookrow"
"""The user name that `hookrow serve` requires."""

SHORTEST_PASSWORD = 12
"""In characters; `hookrow serve` warns of a shorter one."""

DELAY = 1.0
"""In seconds; how long the response to a wrong password is delayed."""

MOST_DELAYED = 32
"""The maximum number of responses that are delayed at the same time."""

_LOGIN = plain(
    401,
    "The dashboard asks for a user and a password.",
    {"WWW-Authenticate": 'Basic realm="hookrow", charset="UTF-8"'},
)

_TOO_MANY = plain(
    429, "Too many wrong passwords. Try again in a few seconds.\n", {"Retry-After": "5"}
)


def basic(user: str, password: str) -> Authorize:
    """Require a user and a password (RFC 7617), which are compared in constant time.

    Wrong passwords are logged, without their text, and get a 401 after a second; while 32 such
    responses are delayed, others get a 429. The right password is never delayed. Raises
    `ConfigurationError` if user or password is empty, or if the user contains a colon.
    """
    if not user or not password or ":" in user:
        raise ConfigurationError(
            "The dashboard needs a user, without a colon, and a password: both not empty."
        )
    right = f"{user}:{password}".encode()
    wrong = _WrongPasswords()

    def authorize(head: RequestHead) -> str | Response:
        scheme, _, given = (head.header("authorization") or b"").partition(b" ")
        if scheme.lower() != b"basic":
            return _LOGIN
        if compare_digest(_decoded(given.strip()), right):
            return user
        return wrong.refuse(head)

    return authorize


class _WrongPasswords:
    """Logs wrong passwords, and delays the responses."""

    _lock: Lock
    _delayed: deque[float]

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    def refuse(self, head: RequestHead) -> Response:
        """Return the response to a wrong password: 401 after a delay, or 429 immediately."""
        id_ = head.request_id
        log.warning(
            "The dashboard refused a wrong user or password, request %s",
            id_,
            extra={"request_id": id_},
        )
        now = monotonic()
        with self._lock:
            while self._delayed and self._delayed[0] <= now:  # all have the same delay
                self._delayed.popleft()
            if len(self._delayed) >= MOST_DELAYED:
                return _TOO_MANY
            self._delayed.append(now + DELAY)
        return replace(_LOGIN, delay=DELAY)

    def reset(self) -> None:
        """Start again with no delayed responses."""
        self._lock = Lock()
        self._delayed = deque()


def require_password(password: str | None, *, host: str) -> None:
    """Raise `ConfigurationError` if there is no password and `host` is not a loopback address.

    A token in a URL can be read in transit, and is kept in browser histories and logs.
    """
    if not password and not _is_loopback(host):
        raise ConfigurationError(
            f"The dashboard at {host} needs a password: set HOOKROW_DASHBOARD_PASSWORD, "
            "or serve at 127.0.0.1."
        )


def new_token() -> str:
    """Return a new token for the forms of a visitor."""
    return secrets.token_urlsafe()


def token(head: RequestHead) -> str | None:
    """Return the token in the visitor's cookie, or None."""
    return cookie(head, COOKIE)


def cookie(head: RequestHead, name: str) -> str | None:
    """Return the value of a cookie, or None if it is missing or empty.

    The host's cookies may be in the same header, in any format. In HTTP/2, each cookie may have
    a header of its own.
    """
    headers = [value for name, value in head.headers if name.lower() == b"cookie"]
    for each in b";".join(headers).decode("latin-1").split(";"):
        key, _, value = each.strip().partition("=")
        if key == name:
            return value or None
    return None


def is_ours(head: RequestHead, sent: str) -> bool:
    """Return whether a page of the dashboard sent a form: its token matches the cookie's.

    The origin has to match, too: browsers send it in `Sec-Fetch-Site`, over HTTP in `Origin`.
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
