"""The protocol of `hookrow serve`: what may arrive before, between and behind notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from drivers import GatedStore, Webhook

from hookrow import Head, Postmark, Promise, Receiver, Request, Response
from hookrow.direct import DirectProtocol
from wire import (
    DELIVERY,
    PATIENCE,
    SECRET,
    STRANGER,
    Connection,
    ask,
    head,
    request,
    uvicorn_serving,
)

ID = b"X-Request-Id: one-of-ours"


class Failing(Receiver):
    """Raises for requests that ask for it."""

    def admit(self, head: Head) -> Response | None:
        """Fail if the request asks for it."""
        if head.header("x-fail"):
            raise ZeroDivisionError(head.header("x-fail"))
        return super().admit(head)

    def __call__(self, request: Request) -> Response | Promise[Response]:
        """Return a broken promise if the request asks for it."""
        if not request.head.header("x-broken"):
            return super().__call__(request)
        broken: Promise[Response] = Promise()
        broken.set_exception(ZeroDivisionError(request.head.header("x-broken")))
        return broken


@pytest.fixture(scope="module")
def store() -> GatedStore:
    """Return a store that can be made to wait."""
    return GatedStore()


@pytest.fixture(scope="module")
def running(store: GatedStore) -> Iterator[int]:
    """Serve the application for all tests."""
    receiver = Failing(Postmark(SECRET), store, deadline=60)
    with uvicorn_serving(Webhook(receiver), http=DirectProtocol) as port:
        yield port
    receiver.close(PATIENCE)


@pytest.fixture
def port(running: int, store: GatedStore) -> Iterator[int]:
    """Return the port of the server, with a fresh world."""
    store.reset()
    yield running
    store.gate.set()


def test_expect(port: int) -> None:
    """A client that waits for "100 Continue" receives it."""
    with Connection(port) as connection:
        connection.send(head(length=len(DELIVERY), extra=[b"Expect: 100-continue"]))
        connection.interim(100)
        connection.send(DELIVERY)
        assert connection.answer().status == 200


def test_pipelined(port: int, store: GatedStore) -> None:
    """Requests sent at once are answered in their order, though the first one waits."""
    store.gate.clear()
    with Connection(port) as connection:
        connection.send(b"".join(map(request, (DELIVERY, b"{", STRANGER, DELIVERY))))
        store.entered.wait(PATIENCE)
        store.gate.set()
        assert [connection.answer().status for _ in range(4)] == [200, 422, 404, 200]


@pytest.mark.parametrize("name", [b"X-Fail", b"X-Broken"])
def test_error(port: int, name: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A receiver that raises costs a 503 and a log line with the place but without the data."""
    assert ask(port, request(DELIVERY, extra=[ID, name + b": ada@example.com"])).status == 503
    (logged,) = [each.getMessage() for each in caplog.records if each.name == "hookrow"]
    for part in ("ZeroDivisionError", "test_direct.py" if name == b"X-Fail" else "", "one-of-ours"):
        assert part in logged
    assert "ada@" not in logged


def break_off(connection: Connection) -> None:
    """Send what is no request; the connection is closed."""
    connection.send(b"\x16\x03\x01\r\n\r\n")
    assert connection.answer().status == 400


@pytest.mark.parametrize("end", [Connection.reset, break_off])
def test_client_is_gone(port: int, store: GatedStore, end: Callable[[Connection], None]) -> None:
    """A connection that is lost, or closed for an invalid request, costs no other its response."""
    store.gate.clear()
    with Connection(port) as first, Connection(port) as gone, Connection(port) as other:
        first.send(request(DELIVERY))
        store.entered.wait(PATIENCE)
        gone.send(request(DELIVERY))
        other.send(request(STRANGER))
        assert ask(port, request(b"", "/")).status == 404  # it has read those before
        end(gone)
        assert ask(port, request(b"", "/")).status == 404
        store.gate.set()
        assert (first.answer().status, other.answer().status) == (200, 404)


def test_behind_the_last_request(port: int, store: GatedStore) -> None:
    """A request that arrives behind the last one of its connection is not processed."""
    for last in (
        request(b"{", extra=[b"Connection: close"]),
        request(b"{", extra=[b"Connection: keep-alive"]).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ):
        with Connection(port) as connection:
            connection.send(last + request(DELIVERY))
            answer = connection.answer()
            assert (answer.status, answer.header("connection")) == (422, "close")
            assert connection.is_over()
    assert store.delivered_at is None
