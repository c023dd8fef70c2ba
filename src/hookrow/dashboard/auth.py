"""Authentication by password, and protection of the forms against CSRF."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from hmac import compare_digest
from secrets import token_urlsafe
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

_FORM_COOKIE = "hookrow_dashboard"

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


def form_token(head: RequestHead) -> str:
    """Return the token for the forms of a page: the one in the user's cookie, or a new one."""
    return _cookie(head, _FORM_COOKIE) or token_urlsafe()


def keep_form_token(head: RequestHead, response: Response, token: str) -> Response:
    """Add the cookie with the form token to a response, unless the user already has it."""
    if _cookie(head, _FORM_COOKIE):
        return response
    # Without a path, browsers send it to the whole directory of the page: the mount path.
    cookie = _set_cookie(head, _FORM_COOKIE, token)
    return replace(response, headers={**response.headers, "Set-Cookie": cookie})


def is_own_form(head: RequestHead, token: str) -> bool:
    """Return whether a page of the dashboard sent a form: its token matches the cookie's.

    The origin must match as well: browsers send it in `Sec-Fetch-Site` or, over HTTP, in `Origin`.
    """
    cookie = _cookie(head, _FORM_COOKIE)
    if not cookie or not compare_digest(cookie.encode(), token.encode()):
        return False
    site, origin = head.header("sec-fetch-site"), head.header("origin")
    if site is not None:
        return site == b"same-origin"
    return origin is None or origin.partition(b"://")[2] == head.header("host")


def _cookie(head: RequestHead, name: str) -> str | None:
    """Return the value of a cookie, or None if it is missing or empty.

    The same header may contain cookies of the host, in any format. In HTTP/2, each cookie may have
    its own header.
    """
    headers = [value for key, value in head.headers if key.lower() == b"cookie"]
    for each in b";".join(headers).decode("latin-1").split(";"):
        key, _, value = each.strip().partition("=")
        if key == name:
            return value or None
    return None


def _set_cookie(head: RequestHead, name: str, value: str) -> str:
    return f"{name}={value}; HttpOnly; SameSite=Strict{'; Secure' * head.secure}"
