"""The examples in this process, and the receiver with the features of FastAPI and Flask."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing
from io import BytesIO
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import fastapi
import flask
import litestar
import pytest
import quart
import uvicorn
from drivers import GatedStore, example_serving, receiving
from hypercorn.middleware import DispatcherMiddleware as Dispatcher
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.routing import Mount
from uvicorn.lifespan.on import LifespanOn
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse
from werkzeug.wsgi import get_input_stream

import asgi_client
import wire
from courier import Courier
from engines import MEMORY
from hookrow import ConfigurationError, Postmark, Receiver, Refusal, Schema
from hookrow._http import MAX_BODY
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.fastapi import router
from hookrow.flask import blueprint
from hookrow.migrations import upgrade
from hookrow.providers.resend import Resend
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import ADAS, DELIVERY, ENDPOINT, SECRET, STRANGER

TERMINATED = {"wsgi.input_terminated": True}
DELIVERED = DELIVERY.replace(ADAS.encode(), b"m-1").replace(b"ada@", b"Ada@")
SAVE = wire.head("/dispatches?email=ada@example.com&message_id=m-1", length=0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with closing(GatedStore()) as store, receiving(store) as receiver:
        yield receiver


def delivered_at(port: int) -> str:
    """Return the delivery time that an example has for the saved dispatch."""
    return str(json.loads(wire.get(port, "/dispatches/m-1").body)["delivered_at"])


# Litestar 2.25 and later warn of the example's query parameters.
@pytest.mark.filterwarnings("ignore:.*deprecated inferred style:DeprecationWarning")
class TestExamples:
    @pytest.fixture(
        scope="class",
        params=["asgi", "starlette", "fastapi", "litestar", "quart", "wsgi", "flask"],
    )
    @classmethod
    def port(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[int]:
        """Serve an example, with its own database."""
        url = f"sqlite:///{tmp_path_factory.mktemp(request.param)}/hookrow.db"
        upgrade(url, Schema())
        with example_serving(request.param, url) as port:
            yield port

    def test_recorded(self, port: int) -> None:
        """The application saves a dispatch, and returns what the receiver has recorded on it."""
        assert wire.ask(port, SAVE).status == 201
        assert wire.ask(port, wire.request(DELIVERED, f"/mail{ENDPOINT}")).status == 200
        assert delivered_at(port).startswith("2026-03-04")
        assert wire.get(port, "/dispatches/m-2").status == 404

    @pytest.mark.parametrize(
        ("path", "method", "secret", "status"),
        [
            (f"/mail{ENDPOINT}", "POST", "wrong", 401),
            (f"/mail{ENDPOINT}/", "POST", SECRET, 422),
            (f"/mail{ENDPOINT}", "GET", SECRET, 405),
            (f"/mail{ENDPOINT}/x", "POST", SECRET, 404),
            (ENDPOINT, "POST", SECRET, 404),
        ],
    )
    def test_mount(self, port: int, path: str, method: str, secret: str, status: int) -> None:
        """The endpoint is below the mount path only, without a redirect, and accepts POST only."""
        answer = wire.ask(port, wire.request(b"{", path, method=method, secret=secret))
        assert (answer.status, answer.header("location")) == (status, None)


@pytest.mark.parametrize("host", ["fastapi", "flask"])
def test_an_endpoint_whose_tables_are_created_later(
    host: str, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application factory's endpoint responds with 503, and then records without a restart."""
    monkeypatch.setattr("hookrow.stores.sql._store.VERIFY_EVERY", 0.1)
    monkeypatch.setattr("hookrow._receiver.recorder.PAUSE_AFTER_OUTAGE", 0.1)
    with example_serving(host, empty_database_url) as port:
        sent = wire.request(DELIVERED, f"/mail{ENDPOINT}")
        assert wire.ask(port, sent).status == 503
        upgrade(empty_database_url, Schema())
        wire.eventually(lambda: wire.ask(port, sent).status == 404)
        assert wire.ask(port, SAVE).status == 201
        assert wire.ask(port, sent).status == 200
        assert delivered_at(port).startswith("2026-03-04")


class TestFastAPI:
    def test_page(self, receiver: Receiver) -> None:
        """OpenAPI has the endpoint once, with its method, header, body and all responses."""
        app = fastapi.FastAPI()
        app.include_router(router(receiver), prefix="/mail")
        paths: dict[str, Any] = app.openapi()["paths"]
        assert {path: [*verbs] for path, verbs in paths.items()} == {f"/mail{ENDPOINT}": ["post"]}
        operation = paths[f"/mail{ENDPOINT}"]["post"]
        (header,) = operation["parameters"]
        assert (header["name"], header["required"]) == ("X-Provider-Secret", True)
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert {"RecordType", "MessageID", "Recipient", "BouncedAt"} <= set(schema["properties"])
        assert {"Delivery", "Click"} <= set(schema["properties"]["RecordType"]["enum"])
        elsewhere = {Refusal.NO_SUCH_PATH, Refusal.METHOD_NOT_ALLOWED, Refusal.LENGTH_REQUIRED}
        for refusal in {*Refusal} - elsewhere:
            assert refusal.text in operation["responses"][str(refusal.status)]["description"]

    def test_page_with_another_provider(self) -> None:
        """OpenAPI describes neither Postmark's header nor its body."""
        app = fastapi.FastAPI()
        resend = Resend("whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw==")
        with closing(Receiver(resend, SQLStore(MEMORY))) as receiver:
            app.include_router(router(receiver))
        assert not {"parameters", "requestBody"} & {*app.openapi()["paths"][ENDPOINT]["post"]}

    def test_page_with_several_entries(self) -> None:
        """Each path has the description of its provider; that of the endpoint has the first's."""
        app = fastapi.FastAPI()
        entries = {"parcels": Courier(), "mail": Postmark(SECRET)}
        with closing(Receiver(entries, SQLStore(MEMORY))) as receiver:
            app.include_router(router(receiver), prefix="/mail")
        paths: dict[str, Any] = app.openapi()["paths"]
        assert {path: "parameters" in verbs["post"] for path, verbs in paths.items()} == {
            f"/mail{ENDPOINT}": False,
            f"/mail{ENDPOINT}/parcels": False,
            f"/mail{ENDPOINT}/mail": True,
        }
        ids = {verbs["post"]["operationId"] for verbs in paths.values()}
        assert len(ids) == len(paths)

    def test_dependencies(self, receiver: Receiver) -> None:
        """Dependencies run before the receiver, and their background tasks after it."""
        called = []

        async def note(tasks: fastapi.BackgroundTasks) -> None:
            called.append("before")
            tasks.add_task(called.append, "after")

        app = fastapi.FastAPI()
        dependencies = [fastapi.Depends(note)]
        app.include_router(router(receiver), prefix="/mail", dependencies=dependencies)
        with wire.uvicorn_serving(app) as port:
            assert wire.ask(port, wire.request(b"{", f"/mail{ENDPOINT}")).status == 422
        assert called == ["before", "after"]

    @pytest.mark.parametrize("depends", [True, False])
    @pytest.mark.parametrize("wraps", [True, False])
    def test_host_reads_the_body(self, receiver: Receiver, *, depends: bool, wraps: bool) -> None:
        """A dependency or a middleware may read the body first; the responses are the same."""

        async def read(request: fastapi.Request) -> None:
            await request.body()

        async def pass_on(
            request: fastapi.Request, call_next: RequestResponseEndpoint
        ) -> fastapi.Response:
            await request.body()
            return await call_next(request)

        app = fastapi.FastAPI()
        if wraps:
            app.middleware("http")(pass_on)
        dependencies = [fastapi.Depends(read)] * depends
        app.include_router(router(receiver), prefix="/mail", dependencies=dependencies)
        with wire.uvicorn_serving(app) as port:
            for body, secret, status in (
                *((STRANGER, SECRET, 404), (b"{}", "wrong", 401), (b"", SECRET, 422)),
                (b" " * (MAX_BODY + 1), SECRET, 413),
            ):
                posted = wire.request(body, f"/mail{ENDPOINT}", secret=secret)
                assert wire.ask(port, posted).status == status


class Draining:
    """A middleware that reads the whole body of a request, and passes on none of it."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401 - any ASGI application
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while scope["type"] == "http" and (await receive()).get("more_body"):
            pass
        await self.app(scope, receive, send)


async def read_stream(request: fastapi.Request) -> None:
    async for _ in request.stream():
        pass


async def read_stream_first(
    request: fastapi.Request, call_next: RequestResponseEndpoint
) -> fastapi.Response:
    await read_stream(request)
    return await call_next(request)


def consuming(host: str, receiver: Receiver) -> AbstractContextManager[int]:
    """Serve a receiver at /mail in a host, other code of which reads the body first."""
    mount = ASGI(receiver)
    match host:
        case "starlette":
            first = Middleware(BaseHTTPMiddleware, dispatch=read_stream_first)
            return wire.uvicorn_serving(
                Starlette(routes=[Mount("/mail", mount)], middleware=[first])
            )
        case "fastapi":
            app = fastapi.FastAPI()
            app.include_router(
                router(receiver), prefix="/mail", dependencies=[fastapi.Depends(read_stream)]
            )
            return wire.uvicorn_serving(app)
        case "litestar":
            mounted = litestar.asgi("/mail", is_mount=True, copy_scope=True)(mount)
            return wire.uvicorn_serving(
                litestar.Litestar(
                    [mounted],
                    middleware=[Draining],  # type: ignore[list-item] # it has its own ASGI types
                )
            )
        case "quart":
            mounts = {"/mail": mount, "": quart.Quart("host")}
            return wire.uvicorn_serving(
                Draining(Dispatcher(mounts))  # type: ignore[arg-type] # it has its own ASGI types
            )
        case "flask":
            flask_app = flask.Flask("host")
            flask_app.register_blueprint(blueprint(receiver), url_prefix="/mail")
            flask_app.before_request(lambda: flask.request.stream.read() and None)
            return loopback(flask_app)
        case _:

            def read_first(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
                get_input_stream(environ).read()
                return WSGI(receiver)(environ, start)

            return loopback(DispatcherMiddleware(NotFound(), {"/mail": read_first}))


@pytest.mark.parametrize("host", ["starlette", "fastapi", "litestar", "quart", "wsgi", "flask"])
def test_other_code_of_the_host_has_read_the_body(
    receiver: Receiver, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that nobody can read any more gets a 408, after which the provider repeats it.

    The length of the body may be declared or not. The servers of pure ASGI middlewares and of
    Flask wait for more of the body, so the time limit applies.
    """
    for module in ("asgi", "_environ"):
        monkeypatch.setattr(f"hookrow.{module}.BODY_TIMEOUT", 0.2)
    path = f"/mail{ENDPOINT}"
    chunks = wire.chunk(STRANGER) + wire.chunk(b"")
    with consuming(host, receiver) as port:
        for sent in (
            wire.request(STRANGER, path),
            wire.head(path, extra=[b"Transfer-Encoding: chunked"]) + chunks,
        ):
            answer = wire.ask(port, sent)
            assert (answer.status, answer.body) == (408, b"Request Timeout")


class TestFlask:
    @pytest.fixture
    def app(self, receiver: Receiver) -> flask.Flask:
        """Return an application with the blueprint at several prefixes."""
        app = flask.Flask(__name__)
        for number, prefix in enumerate(("/mail", "/a/b", "")):
            app.register_blueprint(blueprint(receiver), url_prefix=prefix, name=f"hookrow{number}")
        return app

    def post(self, app: flask.Flask, body: bytes, path: str = "/mail", **more: Any) -> TestResponse:  # noqa: ANN401 - Flask's
        options = {"headers": {"X-Provider-Secret": SECRET}, "content_length": len(body)} | more
        return app.test_client().post(path + ENDPOINT, input_stream=BytesIO(body), **options)

    @pytest.mark.parametrize("prefix", ["/a/b", ""])
    def test_prefix(self, app: flask.Flask, prefix: str) -> None:
        """The prefix is the host's choice, and the application may itself be mounted."""
        answer = self.post(app, b"{", prefix, base_url="http://localhost/root")
        assert (answer.status_code, answer.text) == (422, "Webhook payload not supported")

    def test_functions_of_the_host(self, app: flask.Flask) -> None:
        """Functions before and after a request are called, and may change the response."""
        called = []
        app.before_request(lambda: called.append(flask.request.endpoint))

        @app.after_request
        def mark(response: flask.Response) -> flask.Response:
            response.headers["X-Host"] = "ours"
            return response

        answer = self.post(app, b"{")
        assert (answer.status_code, answer.headers["X-Host"]) == (422, "ours")
        assert called == ["hookrow0.notification"]

    @pytest.mark.parametrize("terminated", [{}, TERMINATED])
    def test_functions_that_read_the_body(
        self, app: flask.Flask, terminated: dict[str, bool]
    ) -> None:
        """They may read it before or after the receiver, even if the request is refused."""
        seen = []
        app.before_request(lambda: seen.append(flask.request.data) if flask.request.args else None)
        app.teardown_request(lambda _: seen.append(flask.request.get_data()))
        for query in ({"before": "too"}, {}):
            answer = self.post(app, b"{", query_string=query, environ_overrides=terminated)
            assert answer.status_code == 422
        assert self.post(app, b"{", headers={}, environ_overrides=terminated).status_code == 401
        assert seen == [b"{"] * 4

    @pytest.mark.parametrize("length", [MAX_BODY + 1, None])
    def test_large_body_that_the_host_reads(self, app: flask.Flask, length: int | None) -> None:
        app.before_request(lambda: flask.request.get_data() and None)
        body = b" " * (MAX_BODY + 1)
        answer = self.post(app, body, content_length=length, environ_overrides=TERMINATED)
        assert answer.status_code == 413


class TestReceiverInPlaceOfAnApplication:
    """A receiver that is mounted without `ASGI` or `WSGI`: the host logs the right line."""

    @pytest.mark.parametrize("framework", [Starlette, fastapi.FastAPI])
    def test_asgi(self, receiver: Any, framework: Callable[..., Any]) -> None:  # noqa: ANN401 - no application
        app = framework()
        app.mount("/mail", receiver)
        line = r'write app\.mount\("/mail", ASGI\(receiver\)\)'
        with pytest.raises(ConfigurationError, match=line):
            asgi_client.request(app, "POST", f"/mail{ENDPOINT}")

    def test_wsgi(self, receiver: Any) -> None:  # noqa: ANN401 - no application
        app = DispatcherMiddleware(flask.Flask("host"), {"/mail": receiver})
        with pytest.raises(ConfigurationError, match=r"write WSGI\(receiver\)"):
            Client(app).post(f"/mail{ENDPOINT}")

    def test_whole_server(self, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:  # noqa: ANN401 - no application
        """`uvicorn app:receiver` does not start."""

        async def start() -> bool:
            lifespan = LifespanOn(uvicorn.Config(receiver, log_config=None))
            await lifespan.startup()
            return lifespan.should_exit

        with caplog.at_level("ERROR", "uvicorn.error"):
            assert asyncio.run(start())
        assert "write app = ASGI(receiver)" in caplog.text
