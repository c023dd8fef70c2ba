"""A client of the dashboard, in this process."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from hookrow import Head, Postmark, Receiver, Request, Response
from hookrow.dashboard import Dashboard
from hookrow.dashboard.handler import SECURITY
from hookrow.promise import Promise
from wire import PATIENCE, SECRET

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x07{{7*7}}"


def head(path: str, query: str = "", method: str = "GET", **headers: str) -> Head:
    """Return the head of a request below the mount /mail/dashboard."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Head(method, f"/mail/dashboard{path}", sent, "/mail/dashboard", query)


def ended(answer: Response | Promise[Response] | None) -> Response:
    """Return the response, which may be delayed."""
    assert answer is not None
    return answer.result(PATIENCE) if isinstance(answer, Promise) else answer


opened: list[Dashboard] = []
"""Dashboards that may run statistics in threads of their own."""


class Visitor:
    """A client of the dashboard that keeps its cookies."""

    def __init__(self, store: Any, user: str = "ada") -> None:  # noqa: ANN401 - any store
        self.dashboard = Dashboard(store, authorize=lambda _: user)
        opened.append(self.dashboard)
        self.headers = {"host": "localhost"}

    def get(self, path: str, **query: object) -> Response:
        """Request a page, which must have the security headers that every response has."""
        asked = head(path, urlencode(query), **self.headers)
        response = ended(self.dashboard(Request(asked, b"")))
        if "Set-Cookie" in response.headers:
            self.headers["cookie"] = response.headers["Set-Cookie"].partition(";")[0]
        assert SECURITY.items() <= response.headers.items()
        return response

    def shows(self, path: str, **query: object) -> str:
        """Return the HTML of a page that must exist."""
        response = self.get(path, **query)
        assert response.status == 200, response.body.decode()
        return response.body.decode()

    def token(self, path: str, **query: object) -> str:
        """Return the token of a page's forms."""
        [token] = re.findall('name="token" value="(.+?)"', self.shows(path, **query))
        return str(token)

    def post(self, path: str, form: Mapping[str, str], **query: object) -> Response:
        """Send a form to a page."""
        asked = head(path, urlencode(query), "POST", **self.headers)
        return ended(self.dashboard(Request(asked, urlencode(form).encode())))

    def send(self, path: str, form: Mapping[str, str], **query: object) -> str:
        """Submit the form of a page and follow the redirect."""
        token = self.token(path, **query)
        response = self.post(path, {"token": token, **form}, **query)
        assert response.status == 303, response.body
        place, _, asked = response.headers["Location"].partition("?")
        assert place == f".{path}"
        return html.unescape(self.shows(path, **dict(parse_qsl(asked))))


def receive(store: Any, *payloads: object) -> None:  # noqa: ANN401 - any store
    """Record each payload by itself."""
    receiver = Receiver(Postmark(SECRET), store)
    for payload in payloads:
        body = json.dumps(payload).encode()
        receiver.answer(Request(Head("POST", "/provider/webhooks", ()), body))
