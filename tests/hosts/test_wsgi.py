"""WSGI alone: environments, and the limits on reading a body."""

import io
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, NoReturn
from wsgiref.validate import validator

import pytest
from drivers import GatedStore, receiving
from werkzeug.test import create_environ, run_wsgi_app

from hookrow import _environ
from hookrow._environ import request_head
from hookrow._http import MAX_BODY
from hookrow.wsgi import WSGI
from wire import DELIVERY, ENDPOINT, SECRET

LENGTH = {"CONTENT_LENGTH": str(len(DELIVERY))}


class Broken(io.BytesIO):
    def read(self, size: int | None = -1) -> NoReturn:
        raise LookupError(size)


class Slow(io.BytesIO):
    """A body that arrives at one byte per second."""

    clock = 100.0

    def read(self, _: int | None = -1) -> bytes:
        self.clock += 1
        return super().read(1)


@pytest.fixture
def app() -> Iterator[WSGI]:
    with closing(GatedStore()) as store, receiving(store) as receiver:
        yield WSGI(receiver)


def ask(app: Any, stream: io.BufferedIOBase, more: Mapping[str, Any] = {}) -> int:  # noqa: ANN401 - any application
    """Post a body with more variables in the environment; return the status."""
    return call(app, {**environment(), "wsgi.input": stream, **more})


def environment() -> dict[str, Any]:
    return create_environ(ENDPOINT, method="POST", headers={"X-Provider-Secret": SECRET})


def call(app: Any, environ: dict[str, Any]) -> int:  # noqa: ANN401 - any application
    _, status, _ = run_wsgi_app(app, environ, buffered=True)
    return int(status.partition(" ")[0])


def test_text_of_the_environment() -> None:
    """Its characters represent bytes: paths are decoded as UTF-8, and headers stay bytes."""
    _environ = environment() | {
        "HTTP_X_PROVIDER_SECRET": "\xff",
        "SCRIPT_NAME": "/grö".encode().decode("latin-1"),
        "PATH_INFO": "/ße".encode().decode("latin-1"),
        "QUERY_STRING": "a=%2F",
    }
    asked = request_head(_environ)
    assert (asked.path, asked.root, asked.query) == ("/grö/ße", "/grö", "a=%2F")
    assert asked.header("X-Provider-Secret") == b"\xff"


@pytest.mark.parametrize(
    ("name", "status"),
    [("HTTP_X_PROVIDER_SECRET", 401), ("PATH_INFO", 404), ("CONTENT_LENGTH", 422)],
)
def test_characters_that_represent_no_bytes(app: WSGI, name: str, status: int) -> None:
    """Text that a middleware sets in violation of the specification raises no exception."""
    assert ask(app, io.BytesIO(), {name: "/€\ud800"}) == status


def test_environment_without_empty_variables(app: WSGI) -> None:
    _environ = environment()
    del _environ["PATH_INFO"], _environ["SCRIPT_NAME"]
    assert call(app, _environ) == 404


@pytest.mark.parametrize(("method", "status"), [("POST", 200), ("HEAD", 405)])
def test_validator(app: WSGI, method: str, status: int) -> None:
    more = {**LENGTH, "REQUEST_METHOD": method}
    assert ask(validator(app), io.BytesIO(DELIVERY), more) == status


class TestBody:
    @pytest.mark.parametrize(
        ("more", "status"),
        [
            ({"HTTP_X_PROVIDER_SECRET": "wrong"}, 401),
            ({"CONTENT_LENGTH": "9" * 5000}, 413),
            ({"CONTENT_LENGTH": ""}, 422),
            ({"CONTENT_LENGTH": "-1"}, 422),
            ({"HTTP_TRANSFER_ENCODING": "chunked"}, 411),
        ],
    )
    def test_not_read(self, app: WSGI, more: dict[str, str], status: int) -> None:
        """The body is not read if the head is refused, or if nothing determines its end."""
        stream = io.BytesIO(DELIVERY)
        assert ask(app, stream, more) == status
        assert stream.tell() == 0

    def test_without_a_length(self, app: WSGI) -> None:
        """If the server knows the end, 1 MiB and a byte are read of a body without a length."""
        stream = io.BytesIO(b" " * 2 * MAX_BODY)
        assert ask(app, stream, {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}) == 413
        assert stream.tell() == MAX_BODY + 1

    def test_no_more_than_declared(self, app: WSGI) -> None:
        """Data after a body with a length is not read: it may be the next request."""
        stream = io.BytesIO(DELIVERY + b"POST")
        assert ask(app, stream, LENGTH) == 200
        assert stream.read() == b"POST"

    @pytest.mark.parametrize("stream", [io.BytesIO(DELIVERY[:-1]), Broken()])
    def test_incomplete(self, app: WSGI, stream: io.BytesIO) -> None:
        """A body shorter than its length, or whose reading raises, gets a 408."""
        assert ask(app, stream, LENGTH) == 408

    def test_slow(self, app: WSGI, monkeypatch: pytest.MonkeyPatch) -> None:
        """A body that is not complete after 15 seconds gets a 408."""
        stream = Slow(DELIVERY)
        monkeypatch.setattr(_environ, "monotonic", lambda: stream.clock)
        assert ask(app, stream, LENGTH) == 408
        assert stream.tell() == 15

    @pytest.mark.parametrize(
        ("name", "before"), [("gunicorn.socket", None), ("werkzeug.socket", 5.0)]
    )
    def test_timeout_of_the_connection(
        self, app: WSGI, monkeypatch: pytest.MonkeyPatch, name: str, before: float | None
    ) -> None:
        """If the server provides its connection, reading times out; the timeout is then reset."""
        monkeypatch.setattr(_environ, "BODY_TIMEOUT", 0.05)
        ours, theirs = socket.socketpair()
        with ours, theirs, ours.makefile("rb") as stream:
            ours.settimeout(before)
            assert ask(app, stream, {**LENGTH, name: ours}) == 408
            assert ours.gettimeout() == before
