"""WSGI by itself: what a server cannot be brought to do at will is done by hand here.

What any host does is in `hosts/host.py`, over real sockets.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event
from typing import Any, NoReturn
from wsgiref.types import WSGIEnvironment
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import msgspec
import pytest

from hookrow import Head, Postmark, Receiver, Request, Response, testing, wsgi
from hookrow.batch import GroupCommit
from hookrow.http import LARGEST_BODY
from hookrow.promise import Promise
from hookrow.stores.memory import MemoryStore
from hookrow.wsgi import WSGI, head
from wire import ENDPOINT, PATIENCE, SECRET, TEXT

DONE = Response(200, b"done", {"Content-Type": TEXT})

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)

DELIVERY = msgspec.json.encode(testing.delivery("ada@example.com", "m-1", at=AT))


class Unread(io.BytesIO):
    """A body that nobody may read."""

    def read(self, size: int | None = -1) -> NoReturn:
        """Fail."""
        raise AssertionError(size)


class Broken(io.BytesIO):
    """A body at which the server fails, in whatever way of its own."""

    def read(self, size: int | None = -1) -> NoReturn:
        """Fail."""
        del size
        raise LookupError("the server's own error")


class Trickling(io.BytesIO):
    """A body of which a byte comes at a time, and with each a second has passed."""

    def __init__(self, body: bytes, clock: list[float]) -> None:
        super().__init__(body)
        self._clock = clock

    def read(self, size: int | None = -1) -> bytes:
        """Return a byte."""
        del size
        self._clock[0] += 1
        return super().read(1)


class Answering:
    """A handler that answers as it is told, and keeps what it was asked."""

    blocking = False

    def __init__(self, answer: Response | Promise[Response] = DONE) -> None:
        self._answer = answer
        self.asked: list[Request] = []

    def admit(self, head: Head) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Response | Promise[Response]:
        """Answer."""
        self.asked.append(request)
        return self._answer


@dataclass(slots=True)
class Answer:
    """What an application gave to its server."""

    status: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def environment(stream: io.BytesIO, *, length: object = None, **more: Any) -> WSGIEnvironment:  # noqa: ANN401 - a server's
    """Return what a server says of a request that has the right secret."""
    environ: WSGIEnvironment = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": ENDPOINT,
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "HTTP_X_PROVIDER_SECRET": SECRET,
        "wsgi.input": stream,
    }
    if length is not None:
        environ["CONTENT_LENGTH"] = str(length)
    environ |= {name.replace("__", "."): value for name, value in more.items()}
    setup_testing_defaults(environ)
    return environ


def ask(app: Any, environ: WSGIEnvironment) -> Answer:  # noqa: ANN401 - any WSGI application
    """Make one request."""
    answer = Answer()

    def start_response(status: str, headers: list[tuple[str, str]], _: object = None) -> Any:  # noqa: ANN401 - never called
        answer.status, answer.headers = status, dict(headers)

    parts = app(environ, start_response)
    answer.body = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    return answer


@pytest.fixture
def store() -> MemoryStore:
    """Make a store with one subscriber and one dispatch."""
    return MemoryStore(
        subscribers={1: {"email": "ada@example.com"}},
        dispatches={1: {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": None}},
    )


@pytest.fixture
def app(store: MemoryStore) -> Iterator[WSGI]:
    """Make an application on the store."""
    receiver = Receiver(Postmark(SECRET), store)
    yield WSGI(receiver)
    receiver.close(PATIENCE)


class TestHead:
    def test_bytes(self) -> None:
        """Text is taken for the bytes that it shows: paths are UTF-8, headers stay bytes."""
        environ = environment(
            io.BytesIO(),
            length=0,
            SCRIPT_NAME="/grö".encode().decode("latin-1"),
            PATH_INFO="/ße".encode().decode("latin-1"),
            HTTP_X_PROVIDER_SECRET="\xff",
            QUERY_STRING="a=%2F",
        )
        asked = head(environ)
        assert (asked.path, asked.root, asked.query) == ("/grö/ße", "/grö", "a=%2F")
        assert not asked.secure
        assert head(environ | {"wsgi.url_scheme": "https"}).secure
        assert asked.header("X-Provider-Secret") == b"\xff"
        assert asked.header("Content-Length") == b"0"

    @pytest.mark.parametrize(
        ("root", "path", "status"),
        [
            ("", ENDPOINT, "422"),
            ("/mail", ENDPOINT, "422"),
            ("/mail", ENDPOINT + "/", "422"),
            ("/mail", "/x" + ENDPOINT, "404"),
            ("", "/mail" + ENDPOINT, "404"),
        ],
    )
    def test_mount(self, app: WSGI, root: str, path: str, status: str) -> None:
        """What the mount took is taken off, and the rest has to be the endpoint exactly."""
        environ = environment(io.BytesIO(), SCRIPT_NAME=root, PATH_INFO=path)
        assert ask(app, environ).status.startswith(status)

    @pytest.mark.parametrize(
        ("name", "status"),
        [
            ("HTTP_X_PROVIDER_SECRET", "401"),
            ("HTTP_X_€", "422"),
            ("PATH_INFO", "404"),
            ("SCRIPT_NAME", "422"),
            ("CONTENT_LENGTH", "422"),
        ],
    )
    def test_text_that_shows_no_bytes(self, app: WSGI, name: str, status: str) -> None:
        """What a middleware wrote against the specification is answered, not raised at."""
        assert ask(app, environment(io.BytesIO(), **{name: "/€\ud800"})).status.startswith(status)

    def test_no_path(self, app: WSGI) -> None:
        """A server may leave out what is empty: the specification lets it."""
        environ = environment(io.BytesIO())
        del environ["PATH_INFO"], environ["SCRIPT_NAME"]
        assert ask(app, environ).status == "404 Not Found"


class TestBody:
    @pytest.mark.parametrize(
        ("more", "status"),
        [
            ({"HTTP_X_PROVIDER_SECRET": "wrong"}, "401 Unauthorized"),
            ({"CONTENT_LENGTH": str(LARGEST_BODY + 1)}, "413 Request Entity Too Large"),
            ({"CONTENT_LENGTH": "9" * 5000}, "413 Request Entity Too Large"),
            ({"CONTENT_LENGTH": ""}, "422 Unprocessable Entity"),
            ({"CONTENT_LENGTH": "x"}, "422 Unprocessable Entity"),
            ({"CONTENT_LENGTH": "-1"}, "422 Unprocessable Entity"),
            ({"HTTP_TRANSFER_ENCODING": "chunked"}, "411 Length Required"),
        ],
    )
    def test_not_read(self, app: WSGI, more: dict[str, str], status: str) -> None:
        """What the head decides is answered before a byte of the body is asked for.

        A body without a length is empty, or else the server has to know its end.
        """
        answer = ask(app, environment(Unread(), **more))
        assert answer.status == status
        assert answer.headers["Content-Type"] == TEXT

    @pytest.mark.parametrize("more", [{}, {"length": ""}])
    def test_server_that_knows_the_end(
        self, app: WSGI, store: MemoryStore, more: dict[str, Any]
    ) -> None:
        """A body without a length is read to its end where the server knows it."""
        environ = environment(
            io.BytesIO(DELIVERY),
            HTTP_TRANSFER_ENCODING="chunked",
            wsgi__input_terminated=True,
            **more,
        )
        assert ask(app, environ).status == "200 OK"
        assert store.dispatches[1]["delivered_at"] == AT

    def test_no_more_is_read_than_may_be(self, app: WSGI) -> None:
        """Of a body without a length 1 MiB and a byte is read, and no more."""
        stream = io.BytesIO(b" " * 2 * LARGEST_BODY)
        answer = ask(app, environment(stream, wsgi__input_terminated=True))
        assert answer.status == "413 Request Entity Too Large"
        assert stream.tell() == LARGEST_BODY + 1

    def test_no_more_is_read_than_declared(self, app: WSGI) -> None:
        """Of a body with a length no byte more is read: it may belong to the next request."""
        stream = io.BytesIO(DELIVERY + b"POST")
        assert ask(app, environment(stream, length=len(DELIVERY))).status == "200 OK"
        assert stream.read() == b"POST"

    @pytest.mark.parametrize("stream", [io.BytesIO(DELIVERY[:-1]), Broken()])
    @pytest.mark.parametrize("terminated", [True, False])
    def test_incomplete(
        self, app: WSGI, store: MemoryStore, stream: io.BytesIO, *, terminated: bool
    ) -> None:
        """A body that ends before its length, or at which the server fails, changes nothing."""
        stream.seek(0)
        environ = environment(stream, length=len(DELIVERY), wsgi__input_terminated=terminated)
        assert ask(app, environ).status == "408 Request Timeout"
        assert "delivered_at" not in store.dispatches[1]


class TestTime:
    def test_clock(self, app: WSGI, monkeypatch: pytest.MonkeyPatch) -> None:
        """A body that comes a byte at a time is given up after 15 seconds."""
        clock = [100.0]
        monkeypatch.setattr(wsgi, "monotonic", lambda: clock[0])
        stream = Trickling(DELIVERY, clock)
        answer = ask(app, environment(stream, length=len(DELIVERY)))
        assert (answer.status, answer.body) == ("408 Request Timeout", b"Request Timeout")
        assert stream.tell() == 15

    @pytest.mark.parametrize("name", ["gunicorn.socket", "werkzeug.socket"])
    @pytest.mark.parametrize("before", [None, 5.0])
    def test_connection(
        self, app: WSGI, monkeypatch: pytest.MonkeyPatch, name: str, before: float | None
    ) -> None:
        """Where the server hands out the connection it has a time limit, but for us only."""
        monkeypatch.setattr(wsgi, "SLOWEST_BODY", 0.05)
        ours, theirs = socket.socketpair()
        with ours, theirs, ours.makefile("rb") as stream:
            ours.settimeout(before)
            environ = environment(io.BytesIO(), length=1) | {"wsgi.input": stream, name: ours}
            assert ask(app, environ).status == "408 Request Timeout"
            assert ours.gettimeout() == before


class TestAnswer:
    @pytest.mark.parametrize("method", ["POST", "HEAD"])
    def test_as_the_specification_has_it(self, app: WSGI, method: str) -> None:
        """The standard library's own judge of WSGI applications finds no fault."""
        checked = validator(app)
        environ = environment(io.BytesIO(DELIVERY), length=len(DELIVERY), REQUEST_METHOD=method)
        assert ask(checked, environ).status in {"200 OK", "405 Method Not Allowed"}

    def test_at_once(self) -> None:
        """A handler need not promise: what it returns is sent."""
        answer = ask(WSGI(Answering()), environment(io.BytesIO(b"x"), length=1))
        assert (answer.status, answer.body) == ("200 OK", b"done")

    def test_future_that_fails(self) -> None:
        """A handler's future that ends with an error is not hidden from the server."""
        future: Promise[Response] = Promise()
        future.set_exception(LookupError("a fault"))
        with pytest.raises(LookupError, match="a fault"):
            ask(WSGI(Answering(future)), environment(io.BytesIO()))

    def test_threads_share_a_group(self) -> None:
        """Requests that wait in the server's threads at the same time end in few groups."""
        together, groups = Event(), []

        def respond(requests: Sequence[Request]) -> list[Response]:
            together.wait(PATIENCE)
            groups.append(len(requests))
            return [DONE] * len(requests)

        commit = GroupCommit(respond)

        class Grouping(Answering):
            def __call__(self, request: Request) -> Promise[Response]:
                super().__call__(request)
                if len(self.asked) == 32:
                    together.set()
                return commit.submit(request)

        app = WSGI(Grouping())
        with ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda _: ask(app, environment(io.BytesIO())), range(32)))
        commit.close(PATIENCE)
        assert {answer.status for answer in answers} == {"200 OK"}
        assert len(groups) <= 3
