"""Sample payloads, which the provider's own reading takes; and a way to post one."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from hookrow import (
    ConfigurationError,
    Delivered,
    HookrowError,
    Notification,
    Opened,
    Postmark,
    Reactivated,
    Suppressed,
    testing,
)
from hookrow.testing import NotPosted, Payload, post
from wire import PATIENCE, free_port

AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)


class Provoked(BaseHTTPRequestHandler):
    """Keeps what is posted, and answers what its path asks for."""

    posted: ClassVar[list[tuple[str, Message, bytes]]] = []

    def do_POST(self) -> None:
        """Answer a POST."""
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.posted.append((self.path, self.headers, body))
        if self.path == "/silent":
            return
        status = int(self.path[1:4])
        self.send_response(status)
        if status in {301, 302, 303, 307, 308}:
            self.send_header("Location", "/200/elsewhere")
        text = self.path[5:].encode()
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        """Answer a GET, which a redirect may have become."""
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """Run a server; return its address."""
    Provoked.posted.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Provoked) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(PATIENCE)


class TestPayloads:
    @pytest.mark.parametrize(
        ("payload", "notification"),
        [
            (
                testing.delivery("ada@example.com", "m-1", at=AT),
                Delivered("ada@example.com", "m-1", AT),
            ),
            (testing.opening("ada@example.com", None, at=AT), Opened("ada@example.com", None, AT)),
            (
                testing.suppression("ada@example.com", "m-1", at=AT, reason="SpamComplaint"),
                Suppressed("ada@example.com", "m-1", AT, "SpamComplaint"),
            ),
            (
                testing.suppression("ada@example.com", "m-1", at=AT),
                Suppressed("ada@example.com", "m-1", AT, "HardBounce"),
            ),
            (
                testing.reactivation("ada@example.com", None, at=AT),
                Reactivated("ada@example.com", None, AT),
            ),
        ],
    )
    def test_read_back(self, payload: Payload, notification: Notification) -> None:
        """Each payload is read as the notification that it is a sample of."""
        assert Postmark("a-secret").parse(json.dumps(payload).encode()) == notification

    def test_time_is_utc(self) -> None:
        """A time of any zone is written as the provider writes it: UTC, with a Z."""
        local = AT.astimezone(timezone(timedelta(hours=-4)))
        payload = testing.delivery("ada@example.com", None, at=local)
        assert payload["DeliveredAt"] == "2026-03-04T05:06:07.123456Z"

    @pytest.mark.parametrize(
        ("make", "names"),
        [
            (testing.delivery, {"DeliveredAt", "Details"}),
            (testing.opening, {"ReceivedAt", "FirstOpen", "ReadSeconds", "Client", "OS", "Geo"}),
            (testing.suppression, {"ChangedAt", "Origin", "SuppressSending", "SuppressionReason"}),
            (testing.reactivation, {"ChangedAt", "Origin", "SuppressSending", "SuppressionReason"}),
        ],
    )
    def test_whole(self, make: Any, names: set[str]) -> None:  # noqa: ANN401 - any of them
        """A payload has the provider's other fields too, so that a host meets them in its tests."""
        common = {"RecordType", "MessageStream", "ServerID", "MessageID", "Recipient", "Tag"}
        assert set(make("ada@example.com", None, at=AT)) >= common | names | {"Metadata"}


class TestPost:
    def test_as_the_provider_does(self, server: str) -> None:
        """The payload comes as JSON, with the secret, from the provider's user agent."""
        assert post(f"{server}/200", {"größe": [1, None]}, secret="a-secret") == (200, "")
        ((path, headers, body),) = Provoked.posted
        assert (path, json.loads(body)) == ("/200", {"größe": [1, None]})
        assert headers["X-Provider-Secret"] == "a-secret"
        assert headers["Content-Type"] == "application/json"
        assert headers["User-Agent"] == "Postmark"

    def test_without_a_secret(self, server: str) -> None:
        """Without a secret there is no header of that name."""
        post(f"{server}/200", {}, secret=None)
        ((_, headers, _),) = Provoked.posted
        assert headers["X-Provider-Secret"] is None

    def test_query(self, server: str) -> None:
        """All of the address counts, its query too."""
        post(f"{server}/200?a=b&c", {}, secret="s")
        assert [path for path, _, _ in Provoked.posted] == ["/200?a=b&c"]

    @pytest.mark.parametrize("status", [200, 400, 401, 404, 422, 500, 503])
    def test_answer(self, server: str, status: int) -> None:
        """Whatever the status, it is returned, and the text with it."""
        assert post(f"{server}/{status}/so", {}, secret="s") == (status, "so")

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirect(self, server: str, status: int) -> None:
        """A redirect is an answer like any other: what was asked for is not posted elsewhere."""
        assert post(f"{server}/{status}", {}, secret="s")[0] == status
        assert [path for path, _, _ in Provoked.posted] == [f"/{status}"]

    def test_proxy(self, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server of this machine is asked itself, whatever proxy the environment names."""
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setattr("urllib.request._opener", None)  # it remembers older proxies
        assert post(f"{server}/200", {}, secret="s") == (200, "")

    @pytest.mark.parametrize(
        "url", ["", "nowhere", "localhost:8000", "/provider/webhooks", "file:///etc/passwd"]
    )
    def test_no_web_address(self, url: str) -> None:
        """What is no web address is refused, and told how one begins."""
        with pytest.raises(ConfigurationError, match=r"is no web address.*http://"):
            post(url, {}, secret="s")

    def test_password_in_the_address(self) -> None:
        """It would be sent in vain and printed: it is refused, and not shown."""
        with pytest.raises(ConfigurationError, match="Leave the user") as raised:
            post("http://ada:hunter2@127.0.0.1/", {}, secret="s")
        assert "hunter2" not in str(raised.value)

    @pytest.mark.parametrize(
        "url", ["http://", "http://a b/", "http://x:port/", "http://[::1", "http://127.0.0.1/größe"]
    )
    def test_address_that_leads_nowhere(self, url: str) -> None:
        """What begins as an address and is none is one of our errors, and names it."""
        with pytest.raises(HookrowError) as raised:
            post(url, {}, secret="s")
        assert url in str(raised.value)

    def test_nobody_listens(self) -> None:
        """Where nobody listens, the error says so."""
        with pytest.raises(NotPosted, match="Connection refused"):
            post(f"http://127.0.0.1:{free_port()}/", {}, secret="s")

    def test_nobody_answers(self, server: str) -> None:
        """A server that hangs up without an answer gave none."""
        with pytest.raises(NotPosted, match="No answer from"):
            post(f"{server}/silent", {}, secret="s")

    def test_no_answer_in_time(self) -> None:
        """Who does not answer within the time gave no answer."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            with pytest.raises(NotPosted, match="timed out"):
                post(url, {}, secret="s", timeout=0.2)

    @pytest.mark.parametrize("secret", ["hunter2\r", "hunter2\nX: y", "hunter2-größe-€"])
    def test_secret_that_cannot_be_sent(self, server: str, secret: str) -> None:
        """A secret that no header carries is refused without being shown."""
        with pytest.raises(HookrowError) as raised:
            post(f"{server}/200", {}, secret=secret)
        assert "hunter2" not in str(raised.value)
        assert Provoked.posted == []
