"""The tools for the tests of hosts: sample payloads, the client, and the pytest plugin."""

import json
import socket
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta, timezone
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from receiving import people, receive
from werkzeug.wsgi import get_input_stream

from hookrow import (
    Bounced,
    Clicked,
    Complained,
    ConfigurationError,
    Delivered,
    Handler,
    HookrowError,
    Notification,
    Opened,
    Postmark,
    Reactivated,
    Receiver,
    Refusal,
    Request,
    RequestHead,
    Response,
    Suppressed,
    testing,
)
from hookrow._core.notification import Unsupported
from hookrow._core.optional import ALWAYS, SUPPRESSIONS
from hookrow._http import refuse
from hookrow.asgi import ASGI
from hookrow.providers import Event
from hookrow.providers._base import mask
from hookrow.stores.sql import SQLStore
from hookrow.testing import SECRET, NoResponse, Payload, Tables, post
from loopback import loopback
from wire import ADA, AT, free_port

LOCAL = AT.astimezone(timezone(timedelta(hours=-4)))
NAMES = {"RecordType", "MessageStream", "ServerID", "MessageID", "Recipient", "Tag", "Metadata"}
CHANGE = {"ChangedAt", "Origin", "SuppressSending", "SuppressionReason"}
SPAM = testing.suppression(ADA, "m", at=AT, reason="SpamComplaint")


@pytest.mark.parametrize(
    ("payload", "notification", "names"),
    [
        (testing.delivery(ADA, "m-1", at=LOCAL), Delivered(ADA, "m-1", AT), {"Details"}),
        (testing.opening(ADA, None, at=AT), Opened(ADA, None, AT), {"FirstOpen", "Client", "Geo"}),
        (testing.suppression(ADA, "m", at=AT), Suppressed(ADA, "m", AT, "HardBounce"), CHANGE),
        (SPAM, Suppressed(ADA, "m", AT, "SpamComplaint"), CHANGE),
        (testing.reactivation(ADA, None, at=AT), Reactivated(ADA, None, AT), CHANGE),
    ],
)
def test_supported_payloads(payload: Payload, notification: Notification, names: set[str]) -> None:
    """They are parsed as their notification, with the time in UTC."""
    assert Postmark.parse(json.dumps(payload).encode()).notifications == (notification,)
    assert set(payload) >= NAMES | names
    assert "2026-03-04T05:06:07.123456Z" in payload.values()


@pytest.mark.parametrize(
    ("payload", "notification"),
    [
        (testing.bounce(ADA, "m-1", at=AT), Bounced(ADA, "m-1", AT, "HardBounce")),
        (testing.complaint(ADA, "m-1", at=AT), Complained(ADA, "m-1", AT)),
        (testing.click(ADA, "m-1", at=AT), Clicked(ADA, "m-1", AT)),
    ],
)
def test_optional_payloads(payload: Payload, notification: Notification) -> None:
    """The address, which has two names, is logged even if the type is not recorded."""
    body = json.dumps(payload).encode()
    event = Event((notification,), body)
    assert mask(Postmark.parse(body), frozenset({type(notification)})) == (event, None)
    unsupported = Unsupported(payload["RecordType"], ADA, "m-1")
    masked = Event((), body, unsupported)
    assert mask(event, ALWAYS) == (masked, None)


def test_events_without_dispatches() -> None:
    """Only a delivery or an open is left without them, and with a suppression only that."""
    delivered, clicked = Delivered(ADA, "m-1", AT), Clicked(ADA, "m-1", AT)
    suppressed = Suppressed(ADA, "m-1", AT, "HardBounce")
    event = Event((clicked, delivered), b"{}")
    assert mask(event, SUPPRESSIONS) == (Event((delivered,), b"{}"), "Click")
    event = Event((delivered, suppressed), b"{}")
    assert mask(event, SUPPRESSIONS) == (Event((suppressed,), b"{}"), "Delivery")


def test_an_unsupported_payload() -> None:
    body = json.dumps(testing.inbound(ADA, "m-1", at=AT)).encode()
    assert Postmark.parse(body) == Event((), body, Unsupported(None, None, "m-1"))


def test_the_test_of_the_provider() -> None:
    """Its time has no fraction, and its message ID is all zeros."""
    payload = testing.send_test(at=LOCAL)
    assert payload["DeliveredAt"] == "2026-03-04T05:06:07Z"
    assert set(payload) == {*NAMES, "DeliveredAt", "Details"}
    [parsed] = Postmark.parse(json.dumps(payload).encode()).notifications
    zeros = "00000000-0000-0000-0000-000000000000"
    assert parsed == Delivered("john@example.com", zeros, AT.replace(microsecond=0))


@pytest.mark.parametrize("function", [testing.delivery, testing.inbound])
def test_a_time_without_a_zone(function: Callable[..., Payload]) -> None:
    with pytest.raises(ConfigurationError, match=r"time zone: write at=datetime\.now\(UTC\)"):
        function(ADA, "m-1", at=AT.replace(tzinfo=None))


def test_the_dispatch_of_each_recipient(hookrow_tables: Tables) -> None:
    """A message may have several recipients, each with a dispatch."""
    ada, bob = (hookrow_tables.add_subscriber(f"{name}@example.com") for name in ("ada", "bob"))
    ids = {each: hookrow_tables.add_dispatch("m-1", each) for each in (ada, bob)}
    assert {each: hookrow_tables.dispatch("m-1", each).id for each in ids} == ids
    with pytest.raises(LookupError, match=r"no row with .* subscriber_id 77"):
        hookrow_tables.dispatch("m-1", 77)


# -- URLs ------------------------------------------------------------------------------


def test_post_sends_the_providers_headers_without_proxies_or_redirects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posted: list[WSGIEnvironment] = []

    def respond(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        posted.append(environ | {"body": get_input_stream(environ).read()})
        start_response(f"{environ['PATH_INFO'][1:]} Status", [("Location", "/200")])
        return [environ["QUERY_STRING"].encode()]

    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    with loopback(respond) as port:
        server = f"http://127.0.0.1:{port}"
        assert post(f"{server}/200?a=b&c", {"größe": [1, None]}, secret="s") == (200, "a=b&c")
        assert post(f"{server}/301", {}, secret=None) == (301, "")
    first, second = posted
    assert json.loads(first["body"]) == {"größe": [1, None]}
    assert first["HTTP_X_PROVIDER_SECRET"] == "s"
    assert "HTTP_X_PROVIDER_SECRET" not in second
    assert (first["CONTENT_TYPE"], first["HTTP_USER_AGENT"]) == ("application/json", "Postmark")


def test_a_server_that_does_not_respond() -> None:
    with pytest.raises(NoResponse, match=r"No response from.*Connection refused"):
        post(f"http://127.0.0.1:{free_port()}/", {})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(NoResponse, match="timed out"):
            post(url, {}, timeout=0.02)


@pytest.mark.parametrize(
    ("target", "payload", "error", "text"),
    [
        ("file:///etc/passwd", {}, HookrowError, "must begin with http://"),
        ("http://127.0.0.1/größe", {}, HookrowError, "http://127.0.0.1/größe"),
        ("http:///x", {}, ConfigurationError, "is not a URL"),
        ("http://ada:hunter2@x/", {}, HookrowError, "Remove the user name and the pass"),
        ("http://127.0.0.1/", object(), ConfigurationError, "cannot be encoded as JSON"),
        (ASGI(receive(people())), {}, ConfigurationError, r"use the test .*testing\.headers\(\)"),
    ],
)
def test_wrong_arguments(target: str, payload: Payload, error: type[Exception], text: str) -> None:
    """The error names the remedy, and never contains the password of a URL."""
    with pytest.raises(error, match=text) as raised:
        post(target, payload)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("secret", ["hunter2\nX: y", "hunter2-€"])
def test_a_secret_that_no_header_can_contain_is_rejected_and_not_quoted(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="an HTTP header cannot contain") as raised:
        testing.headers(secret=secret)
    assert "hunter2" not in str(raised.value)


# -- handlers --------------------------------------------------------------------------


@pytest.mark.parametrize("mount_path", ["", "/mail"])
def test_post_to_a_receiver_returns_its_status_and_text(mount_path: str) -> None:
    database = people("ada", "größe")
    mismatch = testing.opening("größe@example.com", "m-ada", at=AT)
    with closing(Receiver(Postmark(SECRET), database, mount_path=mount_path)) as receiver:
        assert post(receiver, testing.delivery(ADA, "m-ada", at=AT)) == (200, "")
        assert database.tables.dispatch("m-ada").delivered_at == AT
        text = f"Dispatch subscriber {ADA} does not match payload recipient größe@example.com"
        assert post(receiver, mismatch) == (400, text)
        for secret in (None, "größe"):
            assert post(receiver, mismatch, secret=secret) == (401, "Cannot verify webhook")


def test_post_to_another_handler() -> None:
    class Busy(Handler):
        def admit(self, head: RequestHead) -> Response | None:
            return None if head.header("user-agent") == b"Postmark" else refuse(Refusal.UNAUTHENTIC)

        def __call__(self, request: Request) -> Response:
            del request
            return refuse(Refusal.UNAVAILABLE)

    assert post(Busy(), {}) == (503, "Try again later")


def test_the_plugin_adds_three_fixtures_and_no_hooks(pytestconfig: pytest.Config) -> None:
    plugin = pytestconfig.pluginmanager.get_plugin("hookrow")
    assert not pytestconfig.pluginmanager.get_hookcallers(plugin)
    fixtures = {name for name in vars(plugin) if name.startswith("hookrow")}
    assert fixtures == {"hookrow_store", "hookrow_tables", "hookrow_receiver"}


def test_the_fixtures_record_in_one_database(
    hookrow_store: SQLStore, hookrow_tables: Tables, hookrow_receiver: Receiver
) -> None:
    """It is in memory, and empty at first."""
    assert str(hookrow_store.database) == "sqlite://"
    assert hookrow_receiver.store is hookrow_store
    ada = hookrow_tables.add_subscriber(ADA)
    hookrow_tables.add_dispatch("m-ada", ada)
    assert (ada, post(hookrow_receiver, testing.delivery(ADA, "m-ada", at=AT))) == (1, (200, ""))
    assert hookrow_tables.dispatch("m-ada").delivered_at == AT


def test_an_open_receiver_is_closed_at_the_end_of_its_block(hookrow_store: SQLStore) -> None:
    """All hooks have been called by then."""
    texts: list[str] = []
    with testing.open_receiver(
        hookrow_store, on_refused=lambda _, refused: texts.append(refused.text)
    ) as receiver:
        post(receiver, {})
    assert texts == ["Webhook payload not supported"]
    response = receiver(Request(RequestHead("POST", "/", ()), json.dumps(SPAM).encode()))
    assert isinstance(response, Response)
    assert response.status == 503
