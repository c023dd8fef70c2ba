"""ASGI alone: its messages, its event loops, and handlers that block."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from threading import Barrier, Event, Thread

import pytest
from drivers import GatedStore, receiving

from hookrow import Handler, Request, RequestHead, Response
from hookrow._http import MAX_BODY
from hookrow.asgi import _MAX_DISCARDED, ASGI, Message, Scope
from hookrow.stores._log import Query
from wire import DELIVERY, ENDPOINT, PATIENCE, SECRET

DONE = Response(200, b"done", {})

SCOPE: Scope = {
    "type": "http",
    "method": "POST",
    "path": ENDPOINT,
    "headers": [(b"x-provider-secret", SECRET.encode())],
}


def asgi_body(*pieces: bytes) -> list[Message]:
    """Return the messages of a body, which ends with the last one."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    return [*messages]


async def call_asgi(
    app: ASGI, messages: Iterable[Message], more: Mapping[str, object] = {}
) -> tuple[int, bytes]:
    """Call an application; return status and text. The last message is the disconnect."""
    remaining, sent, answered = iter(messages), list[Message](), asyncio.Event()

    async def receive() -> Message:
        if (message := next(remaining, None)) is None:
            await answered.wait()
            return {"type": "http.disconnect"}
        return message

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    async with asyncio.timeout(PATIENCE):
        await app({**SCOPE, **more}, receive, send)
    assert all(name.islower() for name, _ in sent[0]["headers"])  # as the specification requires
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


class Responding(Handler):
    """A handler that admits everything and returns a function's response."""

    def __init__(self, respond: Callable[[Request], Response]) -> None:
        self._respond = respond

    def admit(self, head: RequestHead) -> None:
        pass

    def __call__(self, request: Request) -> Response:
        return self._respond(request)


@pytest.fixture
def store() -> Iterator[GatedStore]:
    with closing(GatedStore()) as store:
        yield store


@pytest.fixture
def app(store: GatedStore) -> Iterator[ASGI]:
    with receiving(store) as receiver:
        yield ASGI(receiver)


async def ask(app: ASGI) -> int:
    status, _ = await call_asgi(app, asgi_body(DELIVERY))
    return status


@pytest.mark.anyio
class TestMessages:
    @pytest.mark.parametrize(("more", "text"), [({}, b""), ({"query_string": b"a=%2F"}, b"a=%2F")])
    async def test_optional_keys(self, more: dict[str, object], text: bytes) -> None:
        """Root path and query are optional; the query is not decoded."""

        def echo(request: Request) -> Response:
            return Response(200, request.head.query.encode(), {})

        assert await call_asgi(ASGI(Responding(echo)), asgi_body(b""), more) == (200, text)

    async def test_rest_of_a_large_body(self, app: ASGI) -> None:
        """Part of the rest of a body that is too large is read before the end of the response.

        A proxy that is still sending would otherwise lose the response.
        """
        rest = iter(asgi_body(b" " * MAX_BODY, b" ", *[b" " * (_MAX_DISCARDED // 4)] * 6))
        status, _ = await call_asgi(app, rest)
        assert (status, len([*rest])) == (413, 2)

    async def test_empty_messages(self, app: ASGI) -> None:
        pieces = (b"", DELIVERY[:1], b"", DELIVERY[1:], b"")
        assert await call_asgi(app, asgi_body(*pieces)) == (200, b"")

    @pytest.mark.parametrize("pieces", [(), (DELIVERY[:-1],), (DELIVERY,)])
    async def test_disconnect(
        self, app: ASGI, store: GatedStore, pieces: tuple[bytes, ...]
    ) -> None:
        """A disconnect before the end of the body gets a 408.

        A server may report it to an application whose middleware has read the body, although the
        client is still connected.
        """
        messages = [{"type": "http.request", "body": each, "more_body": True} for each in pieces]
        status, text = await call_asgi(app, [*messages, {"type": "http.disconnect"}])
        assert (status, text) == (408, b"Request Timeout")
        assert store.delivered_at is None

    @pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("fault")])
    async def test_error_of_the_server(self, app: ASGI, error: Exception) -> None:
        """An `OSError` means that the client is gone, which is no error; any other is raised."""

        async def receive() -> Message:
            return asgi_body(b"{")[0]

        async def send(_: Message) -> None:
            raise error

        with nullcontext() if isinstance(error, OSError) else pytest.raises(type(error)):
            await app(SCOPE, receive, send)

    @pytest.mark.parametrize(
        ("kind", "sent"),
        [
            ("websocket", ["websocket.close"]),
            ("lifespan", ["lifespan.startup.complete", "lifespan.shutdown.complete"]),
        ],
    )
    async def test_other_scopes(self, app: ASGI, kind: str, sent: list[str]) -> None:
        remaining, replies = iter(["lifespan.startup", "lifespan.shutdown"]), list[str]()

        async def receive() -> Message:
            return {"type": next(remaining)}

        async def send(message: Message) -> None:
            replies.append(message["type"])

        await app({"type": kind, "path": ENDPOINT}, receive, send)
        assert replies == sent

    async def test_an_unknown_scope(self, app: ASGI) -> None:
        """As the specification asks, the application raises an exception."""
        with pytest.raises(ValueError, match="does not support ASGI scopes of the type 'webtr"):
            await call_asgi(app, [], {"type": "webtransport"})

    async def test_cancelled(
        self, app: ASGI, store: GatedStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A request that is cancelled while it waits is recorded, and affects no other."""
        store.gate.clear()
        cancelled = asyncio.create_task(ask(app))
        await asyncio.to_thread(store.entered.wait, PATIENCE)
        cancelled.cancel()
        store.gate.set()
        assert await ask(app) == 200
        assert store.log is not None
        (entry,) = store.log.newest(Query(), limit=2)
        assert (entry.attempts, caplog.records) == (2, [])


@pytest.mark.anyio
class TestBlocking:
    @pytest.mark.parametrize("name", ["admit", "__call__"])
    async def test_runs_in_a_thread(self, name: str) -> None:
        """A handler that blocks in one of its methods does not delay other requests."""
        barrier = Barrier(2)  # neither request passes it until the other arrives

        def wait(self: Responding, _: object) -> Response:
            del self
            barrier.wait(PATIENCE)
            return DONE

        app = ASGI(type("Slow", (Responding,), {name: wait})(lambda _: DONE))
        assert [*await asyncio.gather(ask(app), ask(app))] == [200, 200]

    @pytest.mark.parametrize("error", [RuntimeError("a fault"), TimeoutError("a fault")])
    async def test_error(self, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
        """An error of the handler is raised, and not mistaken for a lack of time or threads."""

        def fail(_: Request) -> Response:
            raise error

        with pytest.raises(type(error), match="a fault"):
            await ask(ASGI(Responding(fail)))
        assert caplog.messages == []

    async def test_no_thread(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def start(_: Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(Thread, "start", start)
        app = ASGI(Responding(lambda _: DONE))
        assert await call_asgi(app, asgi_body(DELIVERY)) == (503, b"Try again later")
        assert caplog.messages[0].startswith("Returned 503: no thread could be started (request")

    async def test_all_threads_busy(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Requests that wait too long, even for a thread, get a 503, which is logged.

        The threads of the host's event loop are not used.
        """
        monkeypatch.setattr("hookrow.asgi._THREADS", 2)
        monkeypatch.setattr("hookrow.asgi._CALL_TIMEOUT", 0.2)
        go_on = Event()

        class Stuck(Responding):
            def admit(self, _: RequestHead) -> None:
                go_on.wait(PATIENCE)

        app = ASGI(Stuck(lambda _: DONE))
        assert await asyncio.gather(*(ask(app) for _ in range(5))) == [503] * 5
        assert await asyncio.to_thread(lambda: "done") == "done"
        go_on.set()
        assert "request_id" in vars(caplog.records[0])
