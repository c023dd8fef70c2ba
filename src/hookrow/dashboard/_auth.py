"""Authentication by password, and protection of the forms against CSRF."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable
from hmac import compare_digest
from typing import TypeAlias

from hookrow._arguments import reject_secret
from hookrow._http import RequestHead, Response, plain
from hookrow.errors import ConfigurationError

logger = logging.getLogger("hookrow")

Authorize: TypeAlias = Callable[[RequestHead], bool | str | Response]
"""Returns the user's name or True, False to deny access, or the response to send.

The log keeps the name with each action of the user.
"""

_UNAUTHORIZED = plain(
    401,
    "The dashboard requires a user name and a password.",
    {"WWW-Authenticate": 'Basic realm="hookrow", charset="UTF-8"'},
)


def basic(user: str, password: str) -> Authorize:
    """Require a user name and a password (RFC 7617), which are compared in constant time.

    Wrong passwords are logged, without their text. Their number is not limited: a long password and
    the proxy protect against guessing. Raises `ConfigurationError` if `user` or `password` is
    empty, or if `user` contains a colon.
    """
    for name, value in (("user", user), ("password", password)):
        if value and not isinstance(value, str):
            reject_secret(f"The {name} of the dashboard", value, "basic(user, password)")
    if not user or not password or ":" in user:
        raise ConfigurationError(
            "The dashboard needs a user name without a colon, and a password; neither may be empty."
        )
    expected = b64encode(f"{user}:{password}".encode())

    def authorize(head: RequestHead) -> str | Response:
        scheme, _, credentials = (head.header("authorization") or b"").partition(b" ")
        if scheme.lower() != b"basic":
            return _UNAUTHORIZED
        if compare_digest(credentials.strip(), expected):
            return user
        id_ = head.request_id
        logger.warning(
            "The dashboard refused a wrong user name or password, request %s",
            id_,
            extra={"request_id": id_},
        )
        return _UNAUTHORIZED

    return authorize


def is_own_form(head: RequestHead) -> bool:
    """Return whether a form comes from a page of the dashboard, and not from another website.

    Browsers report in `Sec-Fetch-Site` whether the origin is the same or, over plain HTTP, send
    only `Origin`; scripts of other websites cannot change these headers. Go's
    `http.CrossOriginProtection` has a similar rule, but also admits `none`, and requests without
    either header.
    """
    site = head.header("sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    scheme, _, host = (head.header("origin") or b"").partition(b"://")
    return bool(scheme and host) and host == head.header("host")
