"""A client of the dashboard, in this process."""

import html
import json
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import parse_qsl, urlencode, urljoin

from hookrow import Postmark, Receiver, Request, RequestHead, Response, Role, Schema
from hookrow._receiver.entries import Parsers
from hookrow.dashboard import Dashboard
from hookrow.dashboard._app import SECURITY_HEADERS
from hookrow.providers import BodyParser
from hookrow.stores.sql import SQLStore
from wire import ADA, ADAS, ENDPOINT, SECRET

MOUNT = "/mail/dashboard"

HOST = Schema(dispatches=Role("hookrow_dispatches", {"sent_at": None}))
"""hookrow's tables as those of a host: without names of lists, and without times of sending.

hookrow expects no index of a host's reasons, either.
"""


def head(path: str, query: str = "", method: str = "GET", **headers: str) -> RequestHead:
    """Return the head of a request below the mount path."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return RequestHead(method, f"{MOUNT}{path}", sent, MOUNT, query)


def present(response: Response | None) -> Response:
    """Return the response, which must not be None."""
    assert response is not None
    return response


def ask(dashboard: Dashboard, head: RequestHead, form: Mapping[str, str] = {}) -> Response:
    """Send a request as a host does, with an optional form."""
    body = urlencode(form).encode()
    return present(dashboard.admit(head) or dashboard(Request(head, body)))


PLACES = (
    "lists",
    "suppressions?reason=&list=&since=",
    "notifications",
    "notifications?rows=0",
    "parked",
    "notification?id=1",
    f"subscriber?email={ADA}",
    f"dispatch?message_id={ADAS}",
    "search?q=nothing",
    "search?q=2",  # finds two pages
    "suppressions?before=x",
    "nowhere",
)
"""The URL of each page, and of some errors, relative to the dashboard."""


def with_slash(place: str) -> str:
    """Return the URL of a page with a trailing slash."""
    name, _, query = place.partition("?")
    return f"{name}/?{query}" if query else f"{name}/"


def links(url: str, page: str) -> Iterable[str]:
    """Return the URLs of the links, assets and forms of a page."""
    found = re.findall('(?:href|src|action)="([^"#]*)"', page)
    assert found, url
    return {urljoin(url, html.unescape(each)) for each in found}


def broken_links(get: Callable[[str], tuple[int, str]]) -> Iterable[str]:
    """Return the links of all pages to which there is no page, or only a redirect to it.

    `get` returns the status and the text at a URL.
    """
    urls = [f"{MOUNT}/{place}" for each in PLACES for place in (each, with_slash(each))]
    urls.append(f"{MOUNT}/")
    pages = {url: get(url) for url in urls}
    assert {status for status, _ in pages.values()} == {200, 400, 404}
    linked = {link: url for url, (_, text) in pages.items() for link in links(url, text)}
    return [f"{link} on {url}" for link, url in linked.items() if get(link)[0] >= 300]


class Visitor:
    """A client of the dashboard that sends the headers of a browser."""

    def __init__(
        self, store: SQLStore, user: str = "ada", providers: Parsers | BodyParser = Postmark
    ) -> None:
        self.dashboard = Dashboard(store, authorize=lambda _: user, providers=providers)
        self.headers = {"host": "localhost", "origin": "http://localhost"}

    def get(self, path: str, **query: object) -> Response:
        """Request a page; every response must have the security headers."""
        response = ask(self.dashboard, head(path, urlencode(query), **self.headers))
        assert SECURITY_HEADERS.items() <= response.headers.items()
        return response

    def shows(self, path: str, **query: object) -> str:
        """Return the HTML of a page that must exist."""
        response = self.get(path, **query)
        assert response.status == 200, response.body.decode()
        return response.body.decode()

    def post(self, path: str, form: Mapping[str, str], **query: object) -> Response:
        """Send a form to a page."""
        return ask(self.dashboard, head(path, urlencode(query), "POST", **self.headers), form)

    def send(self, path: str, form: Mapping[str, str], **query: object) -> str:
        """Submit a form of a page, which must have one, and follow the redirect."""
        assert '<form method="post"' in self.shows(path, **query)
        response = self.post(path, form, **query)
        assert response.status == 303, response.body
        location, _, fields = response.headers["Location"].partition("?")
        assert urljoin(path, location) == path.rstrip("/")
        return html.unescape(self.shows(path, **dict(parse_qsl(fields))))


def receive(store: SQLStore, *payloads: object, keep_bodies: bool = True) -> None:
    """Record each payload separately."""
    receiver = Receiver(Postmark(SECRET), store, keep_bodies=keep_bodies)
    for payload in payloads:
        receiver.record_directly(
            Request(RequestHead("POST", ENDPOINT, ()), json.dumps(payload).encode())
        )
