"""The tools for the tests of hosts: sample payloads, the client, and the pytest plugin."""

import json
import socket
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from hookrow import (
    ConfigurationError,
    Delivered,
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
from hookrow.asgi import ASGI
from hookrow.core.notification import Unsupported
from hookrow.http import refuse
from hookrow.stores.memory import MemoryStore
from hookrow.testing import SECRET, NoResponse, Payload, post
from loopback import loopback
from small_world import store
from wire import free_port

ADA = "ada@example.com"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
LOCAL = AT.astimezone(timezone(timedelta(hours=-4)))
NAMES = {"RecordType", "MessageStream", "ServerID", "MessageID", "Recipient", "Tag", "Metadata"}
CHANGE = {"ChangedAt", "Origin", "SuppressSending", "SuppressionReason"}


@pytest.mark.parametrize(
    ("payload", "notification", "names"),
    [
        (testing.delivery(ADA, "m-1", at=LOCAL), Delivered(ADA, "m-1", AT), {"Details"}),
        (testing.opening(ADA, None, at=AT), Opened(ADA, None, AT), {"FirstOpen", "Client", "Geo"}),
        (testing.suppression(ADA, "m", at=AT), Suppressed(ADA, "m", AT, "HardBounce"), CHANGE),
        (
            testing.suppression(ADA, "m", at=AT, reason="SpamComplaint"),
            Suppressed(ADA, "m", AT, "SpamComplaint"),
            CHANGE,
        ),
        (testing.reactivation(ADA, None, at=AT), Reactivated(ADA, None, AT), CHANGE),
    ],
)
def test_payloads(payload: Payload, notification: Notification, names: set[str]) -> None:
    """Supported payloads are parsed as their notification, with the time in UTC."""
    assert Postmark(SECRET).parse(json.dumps(payload).encode()) == notification
    assert set(payload) >= NAMES | names
    assert "2026-03-04T05:06:07.123456Z" in payload.values()


@pytest.mark.parametrize(
    ("payload", "unsupported"),
    [
        (testing.bounce(ADA, "m-1", at=AT), Unsupported("Bounce", ADA, "m-1")),
        (testing.complaint(ADA, "m-1", at=AT), Unsupported("SpamComplaint", ADA, "m-1")),
        (testing.click(ADA, "m-1", at=AT), Unsupported("Click", ADA, "m-1")),
        (testing.inbound(ADA, "m-1", at=AT), Unsupported(None, None, "m-1")),
    ],
)
def test_unsupported_payloads(payload: Payload, unsupported: Unsupported) -> None:
    body, provider = json.dumps(payload).encode(), Postmark(SECRET)
    assert (provider.parse(body), provider.describe(body)) == (None, unsupported)


class TestURL:
    def test_no_proxy_and_no_redirect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The provider's headers are sent; proxies and redirects are ignored."""
        posted: list[WSGIEnvironment] = []

        def respond(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
            posted.append(environ | {"body": environ["wsgi.input"].read()})
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

    def test_no_response(self) -> None:
        with pytest.raises(NoResponse, match=r"No response from.*Connection refused"):
            post(f"http://127.0.0.1:{free_port()}/", {})
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            with pytest.raises(NoResponse, match="timed out"):
                post(url, {}, timeout=0.02)

    @pytest.mark.parametrize(
        ("url", "text"),
        [
            ("file:///etc/passwd", "must begin with http://"),
            ("http://127.0.0.1/größe", "http://127.0.0.1/größe"),
            ("http://ada:hunter2@127.0.0.1/", "Remove the user and the password"),
        ],
    )
    def test_invalid(self, url: str, text: str) -> None:
        """The error names the fault, and never contains the password of a URL."""
        with pytest.raises(HookrowError) as raised:
            post(url, {})
        assert text in str(raised.value)
        assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("mount_path", ["", "/mail"])
def test_post_to_a_receiver(mount_path: str) -> None:
    """The receiver records, and its status and text are returned."""
    rows = store()
    rows.subscribers[2] = {"email": "größe@example.com"}
    opening = testing.opening("größe@example.com", "m-1", at=AT)
    with closing(Receiver(Postmark(SECRET), rows, mount_path=mount_path)) as receiver:
        assert post(receiver, testing.delivery(ADA, "m-1", at=AT)) == (200, "")
        assert rows.dispatches[1]["delivered_at"] == AT
        mismatch = f"Dispatch subscriber {ADA} does not match payload recipient größe@example.com"
        assert post(receiver, opening) == (400, mismatch)
        for secret in (None, "größe"):
            assert post(receiver, opening, secret=secret) == (401, "Cannot verify webhook")


def test_post_to_another_handler() -> None:
    class Busy:
        def admit(self, head: RequestHead) -> Response | None:
            return None if head.header("user-agent") == b"Postmark" else refuse(Refusal.UNAUTHENTIC)

        def __call__(self, request: Request) -> Response:
            del request
            return refuse(Refusal.UNAVAILABLE)

    assert post(Busy(), {}) == (503, "Try again later")


def test_wrong_arguments() -> None:
    """An application is refused with a remedy, and so is a payload that is not JSON."""
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        post("http://127.0.0.1/", object())
    with pytest.raises(ConfigurationError, match=r"use the test client .*testing\.headers\(\)"):
        post(ASGI(Receiver(Postmark(SECRET), store())), {})  # type: ignore[arg-type] # the mistake


@pytest.mark.parametrize("secret", ["hunter2\nX: y", "hunter2-€"])
def test_a_secret_that_no_header_can_contain(secret: str) -> None:
    """It is refused, and the error does not contain it."""
    with pytest.raises(ConfigurationError, match="an HTTP header cannot contain") as raised:
        testing.headers(secret=secret)
    assert "hunter2" not in str(raised.value)


def test_plugin(pytestconfig: pytest.Config) -> None:
    """The plugin adds two fixtures, and no hooks."""
    plugin = pytestconfig.pluginmanager.get_plugin("hookrow")
    assert not pytestconfig.pluginmanager.get_hookcallers(plugin)
    fixtures = {name for name in vars(plugin) if name.startswith("hookrow")}
    assert fixtures == {"hookrow_store", "hookrow_receiver"}


def test_memory_receiver() -> None:
    """At the end of its block, all hooks have been called and the receiver is closed."""
    texts: list[str] = []
    with testing.memory_receiver(
        MemoryStore(), on_refused=lambda _, refused: texts.append(refused.text)
    ) as receiver:
        post(receiver, {})
    assert texts == ["Webhook payload not supported"]
    opening = json.dumps(testing.opening(ADA, "m-1", at=AT)).encode()
    response = receiver(Request(RequestHead("POST", "/", ()), opening))
    assert isinstance(response, Response)
    assert response.status == 503
