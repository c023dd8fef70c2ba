"""Each example in this process: its own routes, and the receiver where the framework mounts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
from drivers import ASGIHost, Host, WSGIHost

from process import EXAMPLES
from wire import ADAS, DELIVERY, ENDPOINT, PATIENCE, SECRET

DELIVERED = DELIVERY.replace(ADAS.encode(), b"m-1").replace(b"ada@", b"Ada@")

# Litestar's, from 2.25 on, of the example's query parameters.
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated inferred style:DeprecationWarning")


@pytest.fixture(
    scope="module",
    params=["asgi", "starlette", "fastapi", "litestar", "quart", "wsgi", "flask"],
)
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    """Import an example as a server does, on a database of its own."""
    name = f"{request.param}_app"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        patch.setenv("HOOKROW_SECRET", SECRET)
        patch.delenv("HOOKROW_PREVIOUS_SECRET", raising=False)
        file = tmp_path_factory.mktemp(name) / "hookrow.db"
        patch.setenv("HOOKROW_DATABASE_URL", f"sqlite:///{file}")
        example = import_module(name)
    kind = WSGIHost if request.param in {"wsgi", "flask"} else ASGIHost
    yield kind(example.app)
    example.receiver.close(PATIENCE)
    example.engine.dispose()
    del sys.modules[name]


def test_recorded(host: Host) -> None:
    """The application saves what it sends, the receiver records, the application shows it."""
    saved = host.ask(path="/dispatches?email=ada@example.com&message_id=m-1", secret=None)
    assert saved.status == 201
    assert host.ask(DELIVERED).status == 200
    shown = host.ask(path="/dispatches/m-1", method="GET", secret=None)
    assert json.loads(shown.body)["delivered_at"].startswith("2026-03-04")
    assert host.ask(path="/dispatches/m-2", method="GET", secret=None).status == 404


@pytest.mark.parametrize(
    ("secret", "status", "text"),
    [
        ("wrong", 401, b"Cannot verify webhook"),
        (SECRET, 422, b"Webhook payload not supported"),
    ],
)
def test_refused(host: Host, secret: str, status: int, text: bytes) -> None:
    """A wrong secret and a broken body are answered with the receiver's own text."""
    answer = host.ask(b"{", secret=secret)
    assert (answer.status, answer.body) == (status, text)


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        (f"/mail{ENDPOINT}/", "POST", 422),
        (f"/mail{ENDPOINT}", "GET", 405),
        (f"/mail{ENDPOINT}/x", "POST", 404),
        (ENDPOINT, "POST", 404),
    ],
)
def test_mount(host: Host, path: str, method: str, status: int) -> None:
    """The endpoint is below the mount only, without a redirect, and takes POST only."""
    answer = host.ask(b"{", path, method=method)
    assert (answer.status, answer.header("location")) == (status, None)
