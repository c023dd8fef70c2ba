"""Readiness beside a mounted receiver, on ASGI and WSGI."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from werkzeug.test import Client

from asgi_client import request
from engines import run
from hookrow import ConfigurationError, Postmark, Receiver
from hookrow.asgi import ASGI
from hookrow.fastapi import router
from hookrow.flask import blueprint
from hookrow.readiness import Readiness
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from wire import SECRET


@pytest.fixture
def receiver(database_url: str) -> Iterator[Receiver]:
    store = SQLStore(database_url)
    with closing(store), closing(Receiver(Postmark(SECRET), store, sweep=True)) as receiver:
        yield receiver


def test_a_database_that_lacks_a_table(
    receiver: Receiver, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response names the table, on each host and below each path."""
    monkeypatch.setattr("hookrow._diagnostics.status_reader.VALID_FOR", 0.0)
    with closing(Readiness(receiver)) as readiness:
        app = Starlette(routes=[Route("/readyz", ASGI(readiness))])
        client = Client(WSGI(readiness))
        assert request(app, "GET", "/readyz").text == client.get("/").text == "ready\n"
        run(database_url, "DROP TABLE hookrow_subscriptions")
        asgi, wsgi = request(app, "HEAD", "/readyz"), client.get("/any")
        assert asgi.text == ""
        asgi = request(app, "GET", "/readyz")
        assert (asgi.status_code, wsgi.status_code) == (503, 503)
        assert asgi.text == wsgi.text
        assert asgi.text.startswith("not ready: ")
        assert "hookrow_subscriptions" in asgi.text


def test_a_spool(tmp_path: Path, sqlite_url: str) -> None:
    """While notifications are kept there, the text asks for attention."""
    run(sqlite_url, "DROP TABLE hookrow_subscriptions")
    store = SQLStore(sqlite_url)
    receiver = Receiver(Postmark(SECRET), store, spool=tmp_path / "spool.db", sweep=True)
    with closing(store), closing(receiver), closing(Readiness(receiver)) as readiness:
        response = Client(WSGI(readiness)).get("/")
    assert response.status_code == 200
    assert response.text.startswith("attention: ")


def test_frameworks_mount_only_a_receiver(receiver: Receiver) -> None:
    """`Readiness` would respond to every notification with 200, and lose it."""
    with closing(Readiness(receiver)) as readiness:
        for mount in (router, blueprint):
            write = rf"not Readiness: write {mount.__name__}\(receiver\)"
            with pytest.raises(ConfigurationError, match=write):
                mount(readiness)  # type: ignore[arg-type]


def test_an_argument_that_is_no_receiver() -> None:
    with (
        closing(SQLStore("sqlite://")) as store,
        pytest.raises(ConfigurationError, match=r"not SQLStore: write Readiness\(receiver\)"),
    ):
        Readiness(store)  # type: ignore[arg-type]
