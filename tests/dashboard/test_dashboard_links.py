"""The links, assets and forms of each page, with and without a trailing slash in its URL."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urljoin

import litestar
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

import asgi_client
from hookrow import testing
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from hookrow.wsgi import WSGI
from visitor import MOUNT, broken_links, links, receive, with_slash
from wire import ADA, ADAS, AT


@pytest.fixture
def dashboard(hookrow_store: SQLStore, hookrow_tables: Tables) -> Iterator[Dashboard]:
    """Return a dashboard with what each page shows, and an id that is also a message id."""
    ada, news = hookrow_tables.add_subscriber(ADA), hookrow_tables.add_list("news")
    for message_id in (ADAS, "2"):
        hookrow_tables.add_dispatch(message_id, ada, news)
    changes = (testing.delivery(ADA, ADAS, at=AT), testing.suppression(ADA, ADAS, at=AT))
    receive(hookrow_store, *changes)
    with closing(Dashboard(hookrow_store, authorize=lambda _: "ada")) as dashboard:
        yield dashboard


@pytest.fixture
def browser(dashboard: Dashboard) -> Client:
    """Return a client for a WSGI host."""
    return Client(DispatcherMiddleware(lambda *_: [], {MOUNT: WSGI(dashboard)}))


def asgi(dashboard: Dashboard) -> Callable[[str], tuple[int, str]]:
    """Return a function that requests a URL of an ASGI host."""
    return getter(Starlette(routes=[Mount(MOUNT, ASGI(dashboard))]))


def getter(app: object) -> Callable[[str], tuple[int, str]]:
    """Return a function that requests a URL of an ASGI application."""

    def get(url: str) -> tuple[int, str]:
        response = asgi_client.request(app, "GET", url)
        return response.status_code, response.text

    return get


def test_links_in_asgi(dashboard: Dashboard) -> None:
    """Every link, asset and form of a page leads to a page, without a redirect."""
    assert not broken_links(asgi(dashboard))


def test_links_in_litestar(dashboard: Dashboard) -> None:
    """Every link leads to a page, although Litestar adds a slash to each path."""
    mounted = litestar.asgi(MOUNT, is_mount=True, copy_scope=True)(ASGI(dashboard))
    get = getter(litestar.Litestar([mounted]))
    assert not broken_links(get)
    status, text = get(MOUNT)
    assert status == 200
    assert {get(link)[0] for link in links(MOUNT, text)} == {200}


def test_an_unknown_path_below_a_page(dashboard: Dashboard) -> None:
    """The error page links to the pages from any depth."""
    get = asgi(dashboard)
    url = f"{MOUNT}/lists/of/all/"
    status, text = get(url)
    assert status == 404
    assert {f"{MOUNT}/", f"{MOUNT}/lists"} <= {*links(url, text)}


@pytest.mark.parametrize(
    ("place", "form"),
    [
        (f"subscriber?email={ADA}", {"action": "suppress", "reason": "x"}),
        (f"dispatch?message_id={ADAS}", {"action": "lift", "reason": "x", "email": ADA}),
        ("notification?id=1", {"action": "replay"}),
    ],
)
def test_forms(browser: Client, place: str, form: dict[str, str]) -> None:
    """A form of a page with a slash redirects to the page."""
    url = f"{MOUNT}/{with_slash(place)}"
    text = browser.get(url).text
    [action] = re.findall('method="post" class="act" action="(.+?)"', text)
    for target in (urljoin(url, action), url):
        response = browser.post(target, data=form, headers={"Sec-Fetch-Site": "same-origin"})
        assert response.status_code == 303
        shown = browser.get(urljoin(target, response.headers["Location"]))
        assert (shown.status_code, 'role="status"' in shown.text) == (200, True)
