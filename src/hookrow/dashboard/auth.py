"""Authentication by password, and protection of the forms against CSRF."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest
from time import monotonic
from typing import TypeAlias

from hookrow.errors import ConfigurationError
from hookrow.http import RequestHead, Response, is_loopback, plain

log = logging.getLogger("hookrow")

Authorize: TypeAlias = Callable[[RequestHead], bool | str | Response]
"""Returns the user's name or True, False to deny access, or the response to send.

To delay a response, set its `delay`. The log keeps the name with each action of the user.
"""

USER = "hookrow"
"""The user name that `hookrow serve` requires."""

MIN_PASSWORD_LENGTH = 12
"""In characters; `hookrow serve` warns about a shorter password."""

DELAY = 1.0
"""In seconds; the delay of the response to a wrong password."""

MAX_DELAYED = 32
"""The maximum number of responses that are delayed at the same time."""

_UNAUTHORIZED = plain(
    401,
    "The dashboard requires a user name and a password.",
    {"WWW-Authenticate": 'Basic realm="hookrow", charset="UTF-8"'},
)

_TOO_MANY = plain(
    429, "Too many wrong passwords. Try again in a few seconds.\n", {"Retry-After": "5"}
)


def basic(user: str, password: str) -> Authorize:
    """Require a user name and a password (RFC 7617), which are compared in constant time.

    Wrong passwords are logged, without their text, and get a 401 after a second; while 32 such
    responses are delayed, others get a 429. The correct password is never delayed. Raises
    `ConfigurationError` if `user` or `password` is empty, or if `user` contains a colon.
    """
    if not user or not password or ":" in user:
        raise ConfigurationError(
            "The dashboard needs a user name without a colon, and a password; neither may be empty."
        )
    expected = b64encode(f"{user}:{password}".encode())
    ends: deque[float] = deque(maxlen=MAX_DELAYED)  # when each delay ends, oldest first

    def authorize(head: RequestHead) -> str | Response:
        scheme, _, credentials = (head.header("authorization") or b"").partition(b" ")
        if scheme.lower() != b"basic":
            return _UNAUTHORIZED
        if compare_digest(credentials.strip(), expected):
            return user
        id_ = head.request_id
        log.warning(
            "The dashboard refused a wrong user name or password, request %s",
            id_,
            extra={"request_id": id_},
        )
        now = monotonic()
        if len(ends) == MAX_DELAYED and ends[0] > now:
            return _TOO_MANY
        ends.append(now + DELAY)
        return replace(_UNAUTHORIZED, delay=DELAY)

    return authorize


def require_password(password: str | None, *, host: str) -> None:
    """Raise `ConfigurationError` if there is no password and `host` is not a loopback address.

    A password that is generated at each start is printed only to a terminal of this machine.
    """
    if not password and not is_loopback(host):
        raise ConfigurationError(
            f"The dashboard at {host} needs a password: set HOOKROW_DASHBOARD_PASSWORD, "
            "or listen on 127.0.0.1."
        )


def is_own_form(head: RequestHead) -> bool:
    """Return whether a page of the dashboard sent a form, and not one of another website.

    Browsers send the origin in `Sec-Fetch-Site` or, over HTTP, only in `Origin`; scripts of other
    websites cannot change these headers. Go's `http.CrossOriginProtection` uses the same rule, but
    admits requests without either header.
    """
    site = head.header("sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    scheme, _, host = (head.header("origin") or b"").partition(b"://")
    return bool(scheme and host) and host == head.header("host")
