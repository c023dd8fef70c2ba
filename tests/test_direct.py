"""What came whole is answered without ASGI, and as through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Queue

import pytest

from hookrow import Head, Postmark, Promise, Receiver, Request, Response
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.direct import DirectProtocol
from hookrow.http import plain
from hookrow.receiver import ENDPOINT
from hookrow.stores.memory import MemoryStore
from wire import (
    PATIENCE,
    SECRET,
    Answer,
    Connection,
    ask,
    chunk,
    eventually,
    head,
    request,
    uvicorn_serving,
)

BOUNCE = json.dumps({"RecordType": "Bounce"}).encode()

CHUNKED = b"Transfer-Encoding: chunked"

ID = b"X-Request-Id: one-of-ours"


class App(ASGI):
    """Counts what comes through ASGI."""

    calls = 0

    @property
    def webhook(self) -> ASGI:
        """Return itself."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count a request."""
        self.calls += scope["type"] == "http"
        await super().__call__(scope, receive, send)


@dataclass(slots=True)
class Promising:
    """A handler whose answers a test ends."""

    promises: Queue[Promise[Response]]
    endpoint: str = ENDPOINT
    blocking: bool = False

    def admit(self, head: Head) -> Response | None:
        """Refuse who asks for it, and fail for who asks for that."""
        if head.header("x-fail"):
            raise ZeroDivisionError(head.header("x-fail"))
        return plain(401, "") if head.header("x-refuse") else None

    def __call__(self, request: Request) -> Promise[Response]:
        """Promise an answer."""
        del request
        promise: Promise[Response] = Promise()
        self.promises.put(promise)
        return promise


@pytest.fixture
def app() -> Iterator[App]:
    """Make an application with a receiver to which nobody is known."""
    receiver = Receiver(Postmark(SECRET), MemoryStore())
    yield App(receiver)
    receiver.close()


@pytest.fixture
def port(app: App) -> Iterator[int]:
    """Serve it."""
    with uvicorn_serving(app, http=DirectProtocol) as port:
        yield port


def in_pieces(port: int, app: App, data: bytes) -> Answer:
    """Send a request such that the server does not get it whole."""
    before = app.calls
    with Connection(port) as connection:
        connection.send(data[: data.index(b"\r\n\r\n") + 4])
        eventually(lambda: app.calls > before)
        connection.send(data[data.index(b"\r\n\r\n") + 4 :])
        return connection.answer()


@pytest.mark.parametrize(
    "data",
    [
        request(BOUNCE, extra=[ID]),
        request(b"x" * 10_000, extra=[ID]),
        request(BOUNCE, secret="wrong", extra=[ID]),
        request(BOUNCE, secret=None, extra=[ID, b"Connection: close"]),
        request(BOUNCE, extra=[ID]).replace(b"HTTP/1.1", b"HTTP/1.0"),
        head(extra=[ID, CHUNKED]) + chunk(BOUNCE[:5]) + chunk(BOUNCE[5:]) + chunk(b""),
        head(extra=[ID, CHUNKED], secret=None)
        + b"0\r\nX-Provider-Secret: %s\r\n\r\n" % SECRET.encode(),
    ],
)
def test_whole_or_in_pieces(app: App, port: int, data: bytes) -> None:
    """The answer is the same, to its headers and their order."""
    through = in_pieces(port, app, data)
    before = app.calls
    direct = ask(port, data)
    assert app.calls == before
    assert (direct.status, direct.body) == (through.status, through.body)
    dated = [(name, "" if name == "date" else value) for name, value in through.headers]
    assert [(name, "" if name == "date" else value) for name, value in direct.headers] == dated


@pytest.mark.parametrize(
    "data",
    [
        request(BOUNCE, f"{ENDPOINT}?a=b"),
        request(BOUNCE, f"{ENDPOINT}/"),
        request(BOUNCE, "/"),
        request(BOUNCE, method="PUT"),
        request(BOUNCE, extra=[b"Connection: Upgrade", b"Upgrade: h2c"]),
        request(BOUNCE, extra=[b"Expect: 100-continue"]),
    ],
)
def test_all_else(app: App, port: int, data: bytes) -> None:
    """What is no plain notification goes through ASGI."""
    with Connection(port) as connection:
        connection.send(data)
        assert connection.line().startswith(b"HTTP/1.1 ")
    assert app.calls == 1


class TestPromise:
    @pytest.fixture
    def promises(self) -> Queue[Promise[Response]]:
        """Return what is promised."""
        return Queue()

    @pytest.fixture
    def port(self, promises: Queue[Promise[Response]]) -> Iterator[int]:
        """Serve a handler that promises its answers."""
        with uvicorn_serving(App(Promising(promises)), http=DirectProtocol) as port:
            yield port

    def test_order(self, port: int, promises: Queue[Promise[Response]]) -> None:
        """What comes in the meantime on the same connection is answered after it."""
        with Connection(port) as connection:
            connection.send(request(BOUNCE) * 3)
            for body in ("one", "two", "three"):
                promises.get(timeout=PATIENCE).set_result(plain(200, body))
                assert connection.answer().body == body.encode()

    def test_error(
        self, port: int, promises: Queue[Promise[Response]], caplog: pytest.LogCaptureFixture
    ) -> None:
        """One that ends with an error is answered 503 and logged, and others with it are not."""
        with Connection(port) as one, Connection(port) as other:
            one.send(request(BOUNCE, extra=[ID]))
            broken = promises.get(timeout=PATIENCE)
            other.send(request(BOUNCE))
            broken.set_exception(ZeroDivisionError())
            promises.get(timeout=PATIENCE).set_result(plain(200, ""))
            assert (one.answer().status, other.answer().status) == (503, 200)
        [logged] = [each for each in caplog.records if each.name == "hookrow"]
        assert "one-of-ours" in logged.getMessage()

    def test_gone(self, port: int, promises: Queue[Promise[Response]]) -> None:
        """Who went away is not answered, and keeps nobody from an answer."""
        with Connection(port) as gone, Connection(port) as other:
            gone.send(request(BOUNCE))
            unheard = promises.get(timeout=PATIENCE)
            gone.reset()
            other.send(request(BOUNCE))
            unheard.set_result(plain(200, ""))
            promises.get(timeout=PATIENCE).set_result(plain(200, ""))
            assert other.answer().status == 200

    def test_not_kept(self, port: int, promises: Queue[Promise[Response]]) -> None:
        """A connection that is not to be kept is closed behind the answer."""
        with Connection(port) as connection:
            connection.send(request(BOUNCE, extra=[b"Connection: close"]))
            promises.get(timeout=PATIENCE).set_result(plain(200, ""))
            assert connection.answer().header("connection") == "close"
            assert connection.is_over()

    def test_garbage_behind(self, port: int, promises: Queue[Promise[Response]]) -> None:
        """A connection that is closed for what came behind keeps nobody from an answer."""
        with Connection(port) as broken, Connection(port) as other:
            broken.send(request(BOUNCE))
            unheard = promises.get(timeout=PATIENCE)
            broken.send(b"\x16\x03\x01\r\n\r\n")
            assert broken.answer().status == 400
            other.send(request(BOUNCE))
            heard = promises.get(timeout=PATIENCE)
            unheard.set_result(plain(200, ""))
            heard.set_result(plain(200, ""))
            assert other.answer().status == 200

    def test_behind_an_end(self, port: int, promises: Queue[Promise[Response]]) -> None:
        """What comes at once with the last request of a connection is not taken."""
        last = request(BOUNCE, extra=[b"Connection: keep-alive", b"X-Refuse: x"])
        with Connection(port) as connection:
            connection.send(last.replace(b"HTTP/1.1", b"HTTP/1.0") + request(BOUNCE))
            assert connection.answer().status == 401
            assert connection.is_over()
        assert promises.empty()

    def test_trailer(self, port: int, promises: Queue[Promise[Response]]) -> None:
        """A trailer does not end the connection."""
        whole = head(extra=[CHUNKED]) + chunk(BOUNCE) + b"0\r\nConnection: close\r\n\r\n"
        with Connection(port) as connection:
            connection.send(whole)
            promises.get(timeout=PATIENCE).set_result(plain(200, ""))
            assert connection.answer().header("connection") is None

    def test_failure(self, port: int, caplog: pytest.LogCaptureFixture) -> None:
        """A handler that raises costs a 503, and a line that says where and quotes nothing."""
        assert ask(port, request(BOUNCE, extra=[b"X-Fail: ada@example.com"])).status == 503
        [logged] = [each.getMessage() for each in caplog.records if each.name == "hookrow"]
        assert "ZeroDivisionError" in logged
        assert "admit" in logged
        assert "ada@" not in logged
