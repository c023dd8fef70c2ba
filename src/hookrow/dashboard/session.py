"""Sessions of a dashboard without a password: the token in its address sets a cookie."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Protocol
from urllib.parse import parse_qsl, quote, urlencode

from hookrow.dashboard.drawing import Drawn, draw
from hookrow.dashboard.visitor import Authorize, cookie
from hookrow.http import RequestHead, Response

PARAMETER = "token"

_MAX_FIELDS = 100


class Access(Protocol):
    """The credentials of a dashboard without a password.

    The `token` is in its address, the `key` signs the session cookie, and the `port` is part of
    the cookie's name, because browsers send cookies to all ports of a host.
    """

    @property
    def token(self) -> str:
        """The token in the address."""

    @property
    def key(self) -> str:
        """The key of the cookie's signature."""

    @property
    def port(self) -> int:
        """The port of the server."""


def by_token(access: Access, path: str) -> Authorize:
    """Admit requests that carry the session cookie, which the token in the address sets.

    `path` is the dashboard's, for which the cookie is valid. The cookie is an HMAC of the token,
    and is valid for as long as the token: until the server stops.
    """
    token = access.token.encode()
    session = hmac.digest(access.key.encode(), token, "sha256").hex()
    name = f"hookrow_session_{access.port}"
    attributes = f"Path={quote(path)}; HttpOnly; SameSite=Strict"

    def authorize(head: RequestHead) -> bool | Response:
        given = dict(_fields(head)).get(PARAMETER) if head.method in {"GET", "HEAD"} else None
        if given is None:
            kept = cookie(head, name) or ""
            return hmac.compare_digest(kept.encode(), session.encode()) or _refused()
        if not hmac.compare_digest(given.encode(), token):
            return _refused()
        secure = "; Secure" if head.secure else ""
        return Response(
            303,
            b"",
            {
                "Location": _without_token(head),
                "Set-Cookie": f"{name}={session}; {attributes}{secure}",
                "Referrer-Policy": "no-referrer",
            },
        )

    return authorize


def _fields(head: RequestHead) -> Sequence[tuple[str, str]]:
    try:
        return parse_qsl(head.query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:  # too many fields
        return ()


def _without_token(head: RequestHead) -> str:
    """Return a relative address, because a proxy may have removed a prefix."""
    fields = [(name, value) for name, value in _fields(head) if name != PARAMETER]
    page = quote(head.path.rpartition("/")[2])
    return f"./{page}?{urlencode(fields)}" if fields else f"./{page}"


@cache
def _refused() -> Response:
    """Return the page that explains how to sign in.

    It contains its style sheet, because the dashboard serves its files only to visitors who have
    signed in. The policy allows this style sheet and nothing else.
    """
    style = files("hookrow.dashboard").joinpath("static", "dashboard.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    page = draw(Drawn("sign_in.html", {"style": style}, 401))
    headers = {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{digest}'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        "Referrer-Policy": "no-referrer",
        "WWW-Authenticate": 'Cookie realm="hookrow"',
    }
    return Response(page.status, page.body, {**page.headers, **headers})
