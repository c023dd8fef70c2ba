"""The tools for a host's tests: sample payloads, the ways to post one, and the pytest plugin."""

import asyncio
import json
import socket
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
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
    Request,
    RequestHead,
    Response,
    Suppressed,
    testing,
)
from hookrow.asgi import ASGI
from hookrow.core.notification import Unsupported
from hookrow.stores.memory import MemoryStore
from hookrow.testing import SECRET, NotPosted, Payload, post
from hookrow.wsgi import WSGI
from loopback import loopback
from small_world import store
from wire import free_port

ADA = "ada@example.com"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
LOCAL = AT.astimezone(timezone(timedelta(hours=-4)))
OPENING = testing.opening(ADA, "m-1", at=AT)
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
def test_other_payloads_are_unsupported(payload: Payload, unsupported: Unsupported) -> None:
    body, provider = json.dumps(payload).encode(), Postmark(SECRET)
    assert (provider.parse(body), provider.describe(body)) == (None, unsupported)


# -- posting over HTTP -----------------------------------------------------------------


def test_request_without_proxy_or_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[WSGIEnvironment] = []

    def provoked(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        posted.append(environ | {"body": environ["wsgi.input"].read()})
        start_response(f"{environ['PATH_INFO'][1:]} So", [("Location", "/200")])
        return [environ["QUERY_STRING"].encode()]

    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    with loopback(provoked) as port:
        server = f"http://127.0.0.1:{port}"
        assert post(f"{server}/200?a=b&c", {"größe": [1, None]}, secret="s") == (200, "a=b&c")
        assert post(f"{server}/301", {}, secret=None) == (301, "")
    first, second = posted
    assert json.loads(first["body"]) == {"größe": [1, None]}
    assert first["HTTP_X_PROVIDER_SECRET"] == "s"
    assert "HTTP_X_PROVIDER_SECRET" not in second
    assert (first["CONTENT_TYPE"], first["HTTP_USER_AGENT"]) == ("application/json", "Postmark")


def test_no_response_or_none_in_time_is_an_error() -> None:
    with pytest.raises(NotPosted, match=r"No answer from.*Connection refused"):
        post(f"http://127.0.0.1:{free_port()}/", {})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(NotPosted, match="timed out"):
            post(url, {}, timeout=0.02)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("file:///etc/passwd", "begin it with http://"),
        ("http://127.0.0.1/größe", "http://127.0.0.1/größe"),
        ("http://ada:hunter2@127.0.0.1/", "Leave the user"),
    ],
)
def test_an_invalid_address_is_refused_without_its_password(url: str, text: str) -> None:
    with pytest.raises(HookrowError) as raised:
        post(url, {})
    assert text in str(raised.value)
    assert "hunter2" not in str(raised.value)


# -- posting to an application ---------------------------------------------------------


async def _pair(one: object, two: object) -> None:
    """Be neither ASGI nor WSGI."""


def test_a_payload_that_is_no_json_a_second_path_and_another_target_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        post("http://127.0.0.1/", object())
    with pytest.raises(ConfigurationError, match="leave it out"):
        post("http://127.0.0.1/", {}, path="/404")
    for target in (None, len, _pair):
        with pytest.raises(ConfigurationError, match="give a web address, a receiver"):
            post(target, {})  # type: ignore[arg-type] # that is what is tried


@pytest.mark.parametrize("secret", ["hunter2\nX: y", "hunter2-€"])
def test_a_secret_that_no_header_carries_is_refused_and_not_shown(secret: str) -> None:
    for target in ("http://127.0.0.1/", ASGI(Receiver(Postmark(SECRET), store()))):
        with pytest.raises(ConfigurationError, match="no header carries") as raised:
            post(target, {}, secret=secret)
        assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("host", [Receiver, ASGI, WSGI])
def test_an_application_records_and_its_texts_are_returned(host: type) -> None:
    rows = store()
    rows.subscribers[2] = {"email": "größe@example.com"}
    opening = testing.opening("größe@example.com", "m-1", at=AT)
    with closing(Receiver(Postmark(SECRET), rows)) as receiver:
        target: Any = receiver if host is Receiver else host(receiver)
        assert post(target, testing.delivery(ADA, "m-1", at=AT)) == (200, "")
        assert rows.dispatches[1]["delivered_at"] == AT
        mismatch = f"Dispatch subscriber {ADA} does not match payload recipient größe@example.com"
        assert post(target, opening) == (400, mismatch)
        for secret in (None, "größe"):
            assert post(target, opening, secret=secret) == (401, "Cannot verify webhook")
        assert post(target, {}, path="/elsewhere/größe")[0] == 404


async def _asgi(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
    del receive, send
    if scope["path"] == "/late":
        await asyncio.Event().wait()
    if scope["path"] == "/fault":
        raise TimeoutError("so")


@pytest.mark.parametrize(
    ("path", "raised", "text"),
    [
        ("/", NotPosted, "without an answer"),
        ("/late", NotPosted, r"No answer within 0\.02 seconds"),
        ("/fault", TimeoutError, "so"),  # the application's own
    ],
)
def test_no_response_from_asgi(path: str, raised: type[Exception], text: str) -> None:
    with pytest.raises(raised, match=text):
        post(_asgi, {}, path=path, timeout=0.02)


def test_inside_a_running_event_loop_the_error_names_to_thread_which_works() -> None:
    application = ASGI(Receiver(Postmark(SECRET), store()))

    async def test() -> int:
        with pytest.raises(ConfigurationError, match=r"write `await asyncio\.to_thread\(post"):
            post(application, {}, path="/")
        return (await asyncio.to_thread(post, application, {}, path="/"))[0]

    assert asyncio.run(test()) == 404


def test_a_wsgi_application_may_write_its_text_and_has_to_give_a_status() -> None:
    def application(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] != "/":
            start_response("202 So", [], None)(environ["HTTP_USER_AGENT"].encode())
        return [b"."]

    assert post(application, {}) == (202, "Postmark.")
    with pytest.raises(NotPosted, match="without an answer"):
        post(application, {}, path="/")


def test_the_plugin_adds_two_fixtures_and_no_hook(pytestconfig: pytest.Config) -> None:
    plugin = pytestconfig.pluginmanager.get_plugin("hookrow")
    assert not pytestconfig.pluginmanager.get_hookcallers(plugin)
    fixtures = {name for name in vars(plugin) if name.startswith("hookrow")}
    assert fixtures == {"hookrow_store", "hookrow_receiver"}


def test_after_its_block_a_memory_receiver_has_called_all_hooks_and_is_closed() -> None:
    heard: list[str] = []
    with testing.memory_receiver(
        MemoryStore(), on_refused=lambda _, refused: heard.append(refused.text)
    ) as receiver:
        post(receiver, {})
    assert heard == ["Webhook payload not supported"]
    response = receiver(Request(RequestHead("POST", "/", ()), json.dumps(OPENING).encode()))
    assert isinstance(response, Response)
    assert response.status == 503
