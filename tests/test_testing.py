"""Sample payloads, which the provider's own reading takes; and the ways to post one."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from functools import partial, wraps
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread, current_thread
from typing import Any, ClassVar
from wsgiref.types import StartResponse, WSGIApplication
from wsgiref.validate import validator

import pytest
from fastapi import FastAPI
from flask import Flask
from hypercorn.middleware import DispatcherMiddleware
from litestar import Litestar, asgi
from quart import Quart
from starlette.applications import Starlette
from werkzeug.middleware.dispatcher import DispatcherMiddleware as MountedInFlask

from command import run_script
from hookrow import (
    ConfigurationError,
    Delivered,
    Head,
    HookrowError,
    Notification,
    Opened,
    Postmark,
    Reactivated,
    Receiver,
    Request,
    Response,
    Suppressed,
    testing,
)
from hookrow.asgi import ASGI
from hookrow.http import plain
from hookrow.notification import Unsupported
from hookrow.promise import Promise
from hookrow.stores.memory import MemoryStore
from hookrow.testing import SECRET, NotPosted, Payload, post
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

    @pytest.mark.parametrize(
        ("make", "record_type", "recipient"),
        [
            (testing.bounce, "Bounce", "ada@example.com"),
            (testing.complaint, "SpamComplaint", "ada@example.com"),
            (testing.click, "Click", "ada@example.com"),
            (testing.inbound, None, None),
        ],
    )
    def test_unsupported(
        self,
        make: Any,  # noqa: ANN401 - any of them
        record_type: str | None,
        recipient: str | None,
    ) -> None:
        """What else the provider posts is not supported, and says of itself what it can."""
        body = json.dumps(make("ada@example.com", "m-1", at=AT)).encode()
        provider = Postmark("a-secret")
        assert provider.parse(body) is None
        assert provider.describe(body) == Unsupported(record_type, recipient, "m-1")


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

    def test_path_of_an_address(self, server: str) -> None:
        """An address has a path: another one beside it is refused."""
        with pytest.raises(ConfigurationError, match="leave it out"):
            post(f"{server}/200", {}, path="/404")


def _store() -> MemoryStore:
    """Return a store with a subscriber and two dispatches, one of them nobody's."""
    return MemoryStore(
        {1: {"email": "ada@example.com"}},
        {
            1: {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": None},
            2: {"provider_message_id": "m-2", "subscriber_id": 2, "list_id": None},
        },
    )


def _wsgi(receiver: Receiver) -> WSGIApplication:
    """Return the least that a WSGI application may be."""

    def application(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        secret = environ.get("HTTP_X_PROVIDER_SECRET", "").encode("latin-1")
        path, root = environ["PATH_INFO"], environ["SCRIPT_NAME"]
        head = Head(environ["REQUEST_METHOD"], path, [(b"x-provider-secret", secret)], root)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        response = receiver.admit(head) or receiver.answer(Request(head, body))
        start_response(f"{response.status} ", list(response.headers.items()))
        return [response.body]

    return application


def _starlette(receiver: Receiver) -> Starlette:
    application = Starlette()
    application.mount("/mail", ASGI(receiver))
    return application


def _fastapi(receiver: Receiver) -> FastAPI:
    application = FastAPI()
    application.mount("/mail", ASGI(receiver))
    return application


def _quart(receiver: Receiver) -> Any:  # noqa: ANN401 - its types are its own
    return DispatcherMiddleware({"/mail": ASGI(receiver), "/": Quart(__name__)})  # type: ignore[dict-item] # as above


HOSTS: dict[str, Callable[[Receiver], Any]] = {
    "asgi": ASGI,
    "fastapi": _fastapi,
    "flask": lambda receiver: MountedInFlask(Flask(__name__), {"/mail": _wsgi(receiver)}),
    "litestar": lambda receiver: Litestar(
        [asgi("/mail", is_mount=True, copy_scope=True)(ASGI(receiver))],
        logging_config=None,  # by default it sets up the root logger, for all tests that follow
    ),
    "quart": _quart,
    "receiver": lambda receiver: receiver,
    "starlette": _starlette,
    "wsgi": lambda receiver: validator(_wsgi(receiver)),
}


class TestPostToAnApplication:
    @pytest.fixture(params=HOSTS)
    def host(self, request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - any application
        """Mount a receiver at `/mail`, or make it all that there is."""
        self.store = _store()
        mounted = request.param not in {"asgi", "receiver", "wsgi"}
        self.path = "/mail/provider/webhooks" if mounted else "/provider/webhooks"
        with closing(Receiver(Postmark(SECRET), self.store)) as receiver:
            yield HOSTS[request.param](receiver)

    def test_it_is_recorded(self, host: testing.Target) -> None:
        """Without a server the application records what is posted, as often as it is."""
        for at in (AT, AT + timedelta(seconds=1)):
            payload = testing.delivery("ada@example.com", "m-1", at=at)
            assert post(host, payload, path=self.path) == (200, "")
            assert self.store.dispatches[1]["delivered_at"] == at

    def test_refusals(self, host: testing.Target) -> None:
        """The texts come as they are, beyond ASCII too."""
        open_, bounce = (
            make("größe@example.com", "m-1", at=AT) for make in (testing.opening, testing.bounce)
        )
        self.store.subscribers[2] = {"email": "größe@example.com"}
        mismatch = "Dispatch subscriber ada@example.com does not match payload recipient "
        assert post(host, open_, path=self.path) == (400, f"{mismatch}größe@example.com")
        assert post(host, bounce, path=self.path) == (422, "Webhook payload not supported")
        for secret in (None, "", "another", "größe"):
            refused = post(host, open_, path=self.path, secret=secret)
            assert refused == (401, "Cannot verify webhook")

    def test_another_path(self, host: testing.Target) -> None:
        """Where no endpoint is, the host says so, in its own words."""
        assert post(host, {}, path="/elsewhere/größe")[0] == 404

    @pytest.mark.parametrize("secret", ["hunter2\r\nX: y", "hunter2-€"])
    def test_secret_that_cannot_be_sent(self, host: testing.Target, secret: str) -> None:
        """A secret that no header carries is refused without being shown, as by a server."""
        with pytest.raises(ConfigurationError, match="no header carries") as raised:
            post(host, {}, path=self.path, secret=secret)
        assert "hunter2" not in str(raised.value)

    def test_django(self) -> None:
        """Django's applications take it under the name of the host that its tests admit."""
        run_script(
            """
            from django.conf import settings
            from django.core.asgi import get_asgi_application
            from django.core.wsgi import get_wsgi_application
            from django.http import HttpResponse
            from django.urls import path
            from django.views.decorators.csrf import csrf_exempt
            from hookrow.testing import post

            @csrf_exempt
            def view(request):
                said = request.get_host(), request.method, request.headers["X-Provider-Secret"]
                return HttpResponse(" ".join((*said, request.body.decode())), status=202)

            urlpatterns = [path("provider/webhooks/größe", view)]
            settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"])
            for application in (get_wsgi_application(), get_asgi_application()):
                answer = post(application, {"a": 1}, path="/provider/webhooks/größe", secret="s")
                assert answer == (202, 'testserver POST s {"a":1}'), answer
            """
        )

    def test_nothing_to_post_to(self) -> None:
        """What is no target is refused, and told what is one."""

        async def pair(one: object, two: object) -> None:
            """Be neither ASGI nor WSGI."""

        for target in (None, 1, object(), len, lambda: None, pair):
            with pytest.raises(ConfigurationError, match="give a web address, a receiver"):
                post(target, {})  # type: ignore[arg-type] # that is what is tried

    @pytest.mark.parametrize("value", ["\ud800", object()])
    def test_payload_that_cannot_be_written(self, value: object) -> None:
        """What JSON cannot say is refused before anything is asked."""
        with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
            post("http://127.0.0.1/", {"a": value})


class TestASGI:
    def test_the_request(self) -> None:
        """The application hears what a server would tell it; at the end the client is gone."""

        async def application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
            request = await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            told = {
                **scope,
                "headers": [each.decode("latin-1") for pair in scope["headers"] for each in pair],
            }
            said = json.dumps([told, request["body"].decode()], default=bytes.decode)
            await send({"type": "http.response.body", "body": said.encode(), "more_body": True})
            await send({"type": "http.response.body"})
            assert await receive() == {"type": "http.disconnect"}

        status, text = post(application, {"größe": 1}, secret="s", path="/größe")
        scope, body = json.loads(text)
        headers = dict(zip(scope["headers"][::2], scope["headers"][1::2], strict=True))
        assert (status, body) == (200, '{"größe":1}')
        assert (scope["type"], scope["method"], scope["path"]) == ("http", "POST", "/größe")
        assert scope["raw_path"] == "/gr%C3%B6%C3%9Fe"
        assert headers == {
            "host": "testserver",
            "content-length": str(len(body.encode())),
            "content-type": "application/json",
            "user-agent": "Postmark",
            "x-provider-secret": "s",
        }

    def test_no_answer(self) -> None:
        """An application that ends without one, or not in time, gave no answer."""

        async def silent(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
            pass

        async def waiting(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
            del scope, receive, send
            await asyncio.Event().wait()

        with pytest.raises(NotPosted, match="without an answer"):
            post(silent, {})
        with pytest.raises(NotPosted, match=r"No answer within 0\.1 seconds"):
            post(waiting, {}, timeout=0.1)

    @pytest.mark.parametrize("fault", [ValueError, TimeoutError])
    def test_it_raises(self, fault: type[Exception]) -> None:
        """What the application raises comes through to the test, its own timeouts too."""

        async def broken(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's
            del scope, receive, send
            raise fault

        with pytest.raises(fault):
            post(broken, {})

    def test_any_number_of_arguments(self) -> None:
        """What has to be awaited is ASGI, also where its arguments would do for WSGI."""

        async def application(*told: Any) -> None:  # noqa: ANN401 - ASGI's
            scope, _, send = told
            await send({"type": "http.response.start", "status": 202, "headers": []})
            await send({"type": "http.response.body", "body": scope["type"].encode()})

        class Application:
            async def __call__(self, *told: Any) -> None:  # noqa: ANN401 - ASGI's
                """Answer."""
                await application(*told)

        @wraps(application)
        def wrapping(*told: Any) -> Awaitable[None]:  # noqa: ANN401 - ASGI's
            return application(*told)

        for target in (application, partial(application), wrapping, Application()):
            assert post(target, {}) == (202, "http")

    def test_the_current_event_loop_stays(self) -> None:
        """A test's own event loop, which does not run just now, is the current one still."""
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            asyncio.set_event_loop(loop)
            assert post(ASGI(Receiver(Postmark(SECRET), MemoryStore(log=None))), {})[0] == 422
            assert asyncio.get_event_loop() is loop

    def test_within_an_event_loop(self) -> None:
        """It would have to wait: that is refused, and told what to write instead."""
        host = ASGI(Receiver(Postmark(SECRET), _store()))
        payload = testing.opening("ada@example.com", "m-1", at=AT)

        async def test() -> tuple[int, str]:
            with pytest.raises(ConfigurationError, match=r"write `await asyncio\.to_thread\(post"):
                post(host, payload)
            return await asyncio.to_thread(post, host, payload)

        assert asyncio.run(test()) == (200, "")


class TestWSGI:
    def test_any_number_of_arguments(self) -> None:
        """What need not be awaited is WSGI where its arguments would do for both."""

        class Application:
            def __call__(self, *told: Any) -> list[bytes]:  # noqa: ANN401 - WSGI's
                """Answer."""
                environ, start_response = told
                start_response("202 So", [])
                return [environ["REQUEST_METHOD"].encode()]

        assert post(Application(), {}) == (202, "POST")

    def test_whatever_way_it_answers(self) -> None:
        """What is written counts as what is returned does, and at the end it is closed."""
        closed = []

        class Said(list[bytes]):
            def close(self) -> None:
                """Note it."""
                closed.append(self)

        def application(environ: dict[str, Any], start_response: StartResponse) -> Said:
            write = start_response("500 Not so", [])
            write = start_response("202 So", [], None)
            write(f"{environ['HTTP_USER_AGENT']}, ".encode())
            return Said([environ["CONTENT_TYPE"].encode(), b"."])

        assert post(application, {}) == (202, "Postmark, application/json.")
        assert len(closed) == 1

    def test_no_answer(self) -> None:
        """An application that ends without a status gave none; what it raises comes through."""

        def silent(environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
            del start_response
            return [] if environ["PATH_INFO"] == "/" else [environ["nothing"]]

        with pytest.raises(NotPosted, match="without an answer"):
            post(silent, {}, path="/")
        with pytest.raises(KeyError):
            post(silent, {})


class TestReceiver:
    def test_it_records_in_this_thread(self) -> None:
        """A receiver records where a test's own transaction is: in the thread that posts."""
        threads = []

        class Seen(MemoryStore):
            def transaction(self, *, skip_locked: bool = False) -> Any:  # noqa: ANN401 - the parent's
                """Note the thread."""
                threads.append(current_thread())
                return super().transaction(skip_locked=skip_locked)

        with testing.memory_receiver(Seen()) as receiver:
            post(receiver, testing.opening("ada@example.com", None, at=AT))
        assert threads == [current_thread()]

    def test_another_handler(self) -> None:
        """Any handler can be posted to; one whose answer does not come in time gave none."""
        future: Promise[Response] = Promise()

        class Late:
            blocking = False

            def admit(self, head: Head) -> Response | None:
                """Refuse another path."""
                return None if head.path == "/provider/webhooks" else plain(404, "no")

            def __call__(self, request: Request) -> Promise[Response]:
                """Answer later."""
                del request
                return future

        assert post(Late(), {}, path="/elsewhere") == (404, "no")
        with pytest.raises(NotPosted, match=r"within 0\.1 seconds"):
            post(Late(), {}, timeout=0.1)
        future.set_result(plain(200, "so"))
        assert post(Late(), {}) == (200, "so")

    def test_hooks_have_been_called_at_the_end(self) -> None:
        """After the block a test sees what its hooks did, and the rows are as they were left."""
        store, heard = _store(), list[object]()
        with testing.memory_receiver(
            store,
            on_recorded=lambda arrival, _: heard.append(arrival.notification),
            on_refused=lambda _, refused: heard.append(refused.text),
        ) as receiver:
            post(receiver, testing.opening("ada@example.com", "m-1", at=AT))
            post(receiver, testing.opening("bea@example.com", "m-1", at=AT))
        assert sorted(heard, key=str) == [
            "Engine::Subscriber not found",
            Opened("ada@example.com", "m-1", AT),
        ]
        assert store.dispatches[1]["opened_at"] == AT
