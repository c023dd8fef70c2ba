"""What the overview shows until the first notification arrives."""

import html
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from engines import MEMORY
from hookrow import Postmark, testing
from hookrow.dashboard import Dashboard
from hookrow.dashboard._first_steps import MAX_FIRST_STEPS
from hookrow.errors import ConfigurationError
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from hookrow.providers.mailjet import Mailjet
from hookrow.providers.sendgrid import SendGrid
from hookrow.stores._log import RequestHour, RequestKind
from hookrow.stores.sql import SQLStore
from visitor import Visitor, receive
from wire import ADA, AT, PATIENCE

ENDPOINT = "/mail/provider/webhooks"


@pytest.fixture
def store() -> Iterator[SQLStore]:
    with closing(SQLStore(MEMORY)) as store:
        yield store


def overview(store: SQLStore, host: str = "app.example.com", **options: Any) -> str:  # noqa: ANN401 - those of `Dashboard`
    """Return the overview as a browser at a host shows it."""
    visitor = Visitor(store)
    visitor.dashboard.close(PATIENCE)
    visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", **options)
    visitor.headers["host"] = host
    page = html.unescape(visitor.shows("/"))
    visitor.dashboard.close(PATIENCE)
    return page


def test_postmark(store: SQLStore) -> None:
    """The page has the URL, the header, and the commands, until a notification arrives."""
    page = overview(store, endpoint=ENDPOINT)
    assert "No notification has been received yet." in page
    url = f"https://app.example.com{ENDPOINT}"
    assert f'<code class="line">{url}</code>' in page
    assert "Add the custom header <code>X-Provider-Secret</code>" in page
    assert f"hookrow simulate delivery ada@example.com m-1 --url {url}<" in page
    assert f"hookrow provider register --url {url}<" in page
    assert "<h2>Now</h2>" not in page
    assert 'data-chart="type"' not in page
    receive(store, testing.delivery(ADA, "m-1", at=AT))
    page = overview(store, endpoint=ENDPOINT)
    assert "No notification has been received yet." not in page
    assert "<h2>Now</h2>" in page
    assert 'data-chart="type"' in page


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("localhost", "http://localhost"),
        ("app.example.com:8443", "https://app.example.com:8443"),
        ("<b>", "https://<b>"),
    ],
)
def test_the_origin(store: SQLStore, host: str, origin: str) -> None:
    """The URL is that of the host to which the browser connects; only a local one has no TLS."""
    visitor = Visitor(store)
    visitor.dashboard.close(PATIENCE)
    visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", endpoint=ENDPOINT)
    visitor.headers["host"] = host
    assert f'<code class="line">{html.escape(origin)}{ENDPOINT}</code>' in visitor.shows("/")


def test_an_endpoint_elsewhere(store: SQLStore) -> None:
    """The endpoint may be at another host, or unknown."""
    url = "https://mail.example.com/provider/webhooks"
    page = overview(store, endpoint=url)
    assert f'<code class="line">{url}</code>' in page
    assert "after the path at which your application mounts the receiver" not in page
    page = overview(store)
    assert "after the path at which your application mounts the receiver" in page
    assert '<code class="line">/provider/webhooks</code>' in page
    assert "m-1</code>" in page
    page = overview(store, "127.0.0.1:8000", endpoint=ENDPOINT)
    assert f"provider register --url https://app.example.com{ENDPOINT}<" in page


def test_several_entries(store: SQLStore) -> None:
    """Each entry has its URL and the steps of its provider; the first one's URL has no name."""
    own = SimpleNamespace(name="own", parse=Postmark.parse)
    providers: Mapping[str, Any] = {
        "acme": Postmark,
        "globex": SendGrid,
        "mailjet": Mailjet,
        "initech": own,
    }
    page = overview(store, endpoint=ENDPOINT, providers=providers)
    first, *rest = (page.partition("<section")[2]).split("<section")
    url = f"https://app.example.com{ENDPOINT}"
    assert f'<code class="line">{url}</code>' in first
    assert "<h2>acme <small>postmark</small></h2>" in first
    for part, name in zip(rest, ("globex", "mailjet", "initech"), strict=True):
        assert f'<code class="line">{url}/{name}</code>' in part
    assert "Enable the signature" in rest[0]
    assert "Test Your Integration" in rest[0]
    assert "hookrow simulate" not in rest[0]
    assert "user:password@" in rest[1]
    assert "<h2>mailjet</h2>" in rest[1]
    assert "provider register" not in rest[1]
    assert "<h2>initech <small>own</small></h2>" in rest[2]


def test_many_tenants(store: SQLStore) -> None:
    """The page describes the first entries only."""
    providers = {f"tenant-{n}": Postmark for n in range(MAX_FIRST_STEPS + 5)}
    assert overview(store, providers=providers).count("<section") == MAX_FIRST_STEPS


def test_a_wrong_secret(store: SQLStore) -> None:
    """The status counts the requests with a wrong secret, which the log does not have."""
    assert store.log is not None
    store.log.add_requests({RequestHour(RequestKind.WRONG_SECRET, "", datetime.now(UTC)): 2})
    page = overview(store)
    assert "No notification has been received yet." in page
    assert "2 requests with a wrong secret or signature got a 401 in the last day, all" in page


@pytest.mark.parametrize("name", PROVIDER_NAMES)
def test_every_provider_has_steps(name: str) -> None:
    assert built_in(name).setup.endswith(".")


@pytest.mark.parametrize("endpoint", ["mail/provider/webhooks", 7])
def test_a_wrong_endpoint(store: SQLStore, endpoint: Any) -> None:  # noqa: ANN401 - of any type
    with pytest.raises(ConfigurationError, match="endpoint must be a path or a URL"):
        Dashboard(store, authorize=lambda _: True, endpoint=endpoint)
