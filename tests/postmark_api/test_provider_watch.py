"""The line on the dashboard about the webhooks at the provider."""

from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from threading import Event
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from providing import TRIGGERS, client

import asgi_client
from hookrow import Postmark, Receiver, _migrations
from hookrow._core.schema import Schema
from hookrow._diagnostics.status import WebhookState
from hookrow._http import PROBE_AGENT
from hookrow._postmark_api.register import ExpectedWebhook, register
from hookrow._postmark_api.status import ProviderWatch
from hookrow._postmark_api.webhooks import read_streams
from hookrow._server.app import Server
from hookrow._server.settings import EntrySettings, Settings
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard
from hookrow.errors import ConfigurationError
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from stand_in import Fault, PostmarkStandIn
from wire import ADA, ENDPOINT, SECRET, eventually

LINE = "Stand-in: no webhook posts to hookrow."


def test_the_line(hookrow_store: SQLStore) -> None:
    with PostmarkStandIn() as api:
        watch = ProviderWatch(api.token, api.address, hookrow_store, lambda: [SECRET])
        with closing(watch):
            assert watch.line is None
            watch.start()
            eventually(lambda: watch.line is not None)
        assert watch.line == LINE
        assert watch.state == WebhookState(LINE, are_correct=False, are_accepted=False)
        api.inject(Fault.NOT_JSON)
        watch.ask()
        assert watch.line.startswith("Unknown. The response of the provider's API is not a JSON")
        assert watch.state is None


def test_an_obstacle(hookrow_store: SQLStore) -> None:
    """If the log lacks notifications, the URL is tested, until it is sound, and not again."""
    blocked = Event()
    probes = 0

    def site(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        nonlocal probes
        probes += environ["HTTP_USER_AGENT"] == PROBE_AGENT.decode()
        if blocked.is_set():
            start("403 Forbidden", [("Content-Length", "0")])
            return []
        return app(environ, start)

    receiver = Receiver(Postmark(SECRET), hookrow_store, acknowledge_tests=True)
    app = WSGI(receiver)
    with closing(receiver), PostmarkStandIn(now=datetime.now(UTC)) as api, loopback(site) as port:
        url = f"http://127.0.0.1:{port}{ENDPOINT}"
        expected = ExpectedWebhook(url=url, secrets=[SECRET], triggers=TRIGGERS)
        assert list(register(client(api), expected, read_streams(client(api), ["outbound"])))
        watch = ProviderWatch(api.token, api.address, hookrow_store, lambda: [SECRET])

        def obstacle() -> str | None:
            api.deliver(api.send(ADA))
            api.flush()
            watch.ask()
            assert watch.state is not None
            found = watch.state.obstacle
            return None if found is None else found.subject

        assert (obstacle(), probes) == (None, 0)
        blocked.set()
        assert obstacle() == obstacle() == "forbidden"
        blocked.clear()
        assert obstacle() is None
        made = probes
        assert (obstacle(), probes) == (None, made)


def test_a_wrong_address(hookrow_store: SQLStore) -> None:
    with pytest.raises(ConfigurationError, match="HOOKROW_PROVIDER_API"):
        ProviderWatch("a-token", "http://example.com", hookrow_store, lambda: [SECRET])


@pytest.mark.parametrize("line", [None, "All is <well>."])
def test_the_overview(hookrow_store: SQLStore, line: str | None) -> None:
    """The line is shown if there is one, and escaped."""
    dashboard = Dashboard(hookrow_store, authorize=lambda _: "ada", provider_status=lambda: line)
    with closing(dashboard):
        page = asgi_client.request(ASGI(dashboard), "GET", "/").text
    assert ("Webhooks at the provider" in page) == (line is not None)
    assert ("All is &lt;well&gt;." in page) == (line is not None)


def test_the_server_asks_only_with_a_token(sqlite_url: str) -> None:
    _migrations.upgrade(sqlite_url, Schema())
    for token, dashboard, expected in (("t", True, 1), (None, True, 0), ("t", False, 1)):
        settings = Settings(
            database_url=sqlite_url,
            entries=[EntrySettings(credentials=(SECRET,))],
            dashboard=dashboard,
            provider_tokens={} if token is None else {None: token},
            provider_api="http://127.0.0.1:1",
        )
        assert "'t'" not in repr(settings)
        with closing(Server(settings)) as server:
            assert sum(isinstance(each, ProviderWatch) for each in server._tasks) == expected


def test_each_entry_with_a_token_has_a_line(sqlite_url: str) -> None:
    """The lines of several begin with the names of the entries; one without a token has none."""
    _migrations.upgrade(sqlite_url, Schema())
    names = ("acme", "globex", "initech")
    with PostmarkStandIn() as api:
        settings = Settings(
            database_url=sqlite_url,
            entries=[EntrySettings(name=name, credentials=(f"{SECRET}-{name}",)) for name in names],
            dashboard=True,
            provider_tokens={"acme": api.token, "globex": api.token},
            provider_api=api.address,
        )
        with closing(Server(settings)) as server:
            assert server._dashboard is not None
            status = server._dashboard._context.provider_status
            watches = [each for each in server._tasks if isinstance(each, ProviderWatch)]
            assert status() is None
            watches[1].ask()
            assert status() == f"globex: {LINE}"
            watches[0].ask()
            assert status() == f"acme: {LINE} globex: {LINE}"
