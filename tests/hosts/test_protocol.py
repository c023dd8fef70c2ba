"""HTTP as `hookrow serve` speaks it: the limits of size and time, and what they allow."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest
import uvicorn
from uvicorn.server import ServerState

from hookrow import Postmark, Receiver
from hookrow.asgi import ASGI
from hookrow.direct import DirectProtocol
from hookrow.http import LARGEST_BODY
from hookrow.protocol import LARGEST_HEAD, LARGEST_REST
from hookrow.stores.memory import MemoryStore
from wire import SECRET, Connection, ask, chunk, get, head, request, uvicorn_serving

BUFFERED = 48 * 1024 * 1024
"""In bytes; more than two sockets hold of what nobody has read yet."""

BOUNCE = json.dumps({"RecordType": "Bounce"}).encode()
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = head(extra=[CHUNKED]) + chunk(BOUNCE)
"""A request without the end of its body."""


class Webhook(ASGI):
    """An application with nothing but the webhook."""

    @property
    def webhook(self) -> ASGI:
        """The webhook."""
        return self


@pytest.fixture(scope="module")
def app() -> Iterator[Webhook]:
    """Return an application with an empty store."""
    with closing(Receiver(Postmark(SECRET), MemoryStore())) as receiver:
        yield Webhook(receiver)


@pytest.fixture(scope="module")
def port(app: Webhook) -> Iterator[int]:
    """Serve the application; return the port."""
    with uvicorn_serving(app, http=DirectProtocol) as port:
        yield port


def flood(connection: Connection, piece: bytes) -> int:
    """Send a piece again and again until the server closes; return how many bytes were sent."""
    sent = 0
    with suppress(ConnectionError):
        while sent < 4 * BUFFERED:
            connection.send(piece)
            sent += len(piece)
    return sent


class TestHead:
    def test_long(self, port: int) -> None:
        """A head of 60 kB is accepted; a longer one gets 431 and ends the connection."""
        extra = [b"X-%d: %s" % (number, b"x" * 1000) for number in range(60)]
        assert ask(port, request(BOUNCE, extra=extra)).status == 422
        begin, long = b"GET / HTTP/1.1\r\nX: ", b"x" * (LARGEST_HEAD + 1)
        with_secret = head(length=2)[:-2] + b"X: " + long
        for sent in (begin + long, begin + long + b"\r\n\r\n", with_secret):
            with Connection(port) as connection:
                connection.send(sent)
                answer = connection.answer()
                assert (answer.status, answer.header("connection")) == (431, "close")
                assert connection.is_over()

    @pytest.mark.parametrize(
        ("begin", "piece"),
        [
            (b"GET / HTTP/1.1\r\nX: ", b"x" * 65536),
            (CHUNKS + b"0\r\nX: ", b"x" * 65536),
            (CHUNKS + b"0\r\n", b"X:\r\n" * 10000),
        ],
        ids=["header", "trailer", "trailers"],
    )
    def test_endless(self, port: int, begin: bytes, piece: bytes) -> None:
        """Headers or trailers without an end are cut off."""
        with Connection(port) as connection:
            connection.send(begin)
            assert flood(connection, piece) < BUFFERED
        assert get(port, "/").status == 404

    def test_trailers(self, port: int) -> None:
        """Trailers do not end the connection, and are no headers: a secret in one is ignored."""
        trailer = b"0\r\nX-Provider-Secret: %s\r\n\r\n" % SECRET.encode()
        without = head(secret=None, extra=[CHUNKED]) + trailer
        with Connection(port) as connection:
            connection.send(CHUNKS + trailer + without + CHUNKS + trailer)
            assert [connection.answer().status for _ in range(3)] == [422, 401, 422]

    @pytest.mark.parametrize(
        "bad",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET http://a:b:c HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        ],
        ids=["TLS", "address", "HTTP2", "CONNECT", "two lengths"],
    )
    def test_invalid(self, port: int, bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
        """Invalid HTTP is answered 400, and is not logged as an error."""
        with Connection(port) as connection:
            connection.send(bad)
            assert connection.answer().status == 400
            assert connection.is_over()
        assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


class TestRest:
    """What is still sent of a request after its response."""

    @pytest.mark.parametrize(
        ("secret", "length", "status"),
        [("wrong", LARGEST_REST - 1, 401), (SECRET, LARGEST_BODY + 1, 413)],
    )
    def test_response_is_read_late(self, port: int, secret: str, length: int, status: int) -> None:
        """A client that reads only after it has sent everything gets its response."""
        with Connection(port) as connection:
            connection.send(head(secret=secret, length=length))
            for _ in range(length // 1024):
                connection.send(b"x" * 1024)
            connection.send(b"x" * (length % 1024))
            assert connection.answer().status == status

    def test_next_request(self, port: int) -> None:
        """After the rest the connection serves the next request, also if a read ends within it."""
        body, after = request(b"x" * (LARGEST_REST // 2), secret="wrong"), request(BOUNCE)
        with Connection(port) as connection:
            for _ in range(3):
                connection.send(body + after[:20])
                assert connection.answer().status == 401
                connection.send(after[20:])
                assert connection.answer().status == 422

    def test_no_second_response(self, port: int) -> None:
        """A connection that is closed for its rest gets no second response."""
        with Connection(port) as connection:
            connection.send(head(secret="wrong", extra=[CHUNKED]))
            assert connection.answer().status == 401
            with suppress(ConnectionError):
                connection.send(chunk(b"x" * (LARGEST_REST + 1)))
            assert connection.is_over()


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be set forward."""

    ahead = 0.0

    def time(self) -> float:
        """Return the time, in seconds."""
        return super().time() + self.ahead


class Client(asyncio.Transport):
    """A client of the protocol, without a socket."""

    def __init__(self, loop: Loop, protocol: DirectProtocol) -> None:
        super().__init__()
        self._loop, self._protocol = loop, protocol
        self._written, self._closed = b"", False
        self.pause_reading = self.resume_reading = lambda: None  # type: ignore[method-assign] # little is sent
        self._run(lambda: protocol.connection_made(self))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the protocol writes."""
        self._written += data

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        """Return whether the protocol has closed the connection."""
        return self._closed

    def send(self, data: bytes) -> None:
        """Send, if the connection is open."""
        if data and not self._closed:
            self._run(lambda: self._protocol.data_received(data))

    def wait(self, seconds: float) -> None:
        """Set the clock forward."""
        self._loop.ahead += seconds
        self._run(lambda: None)

    def statuses(self, number: int) -> list[int]:
        """Wait for so many responses; return the status of each."""
        found: list[bytes] = []

        async def wait() -> None:
            while len(found) < number:
                await asyncio.sleep(0.001)
                found[:] = re.findall(rb"HTTP/1.1 (\d+)", self._written)

        self._loop.run_until_complete(asyncio.wait_for(wait(), 30))
        return [*map(int, found)]

    def _run(self, step: Callable[[], None]) -> None:
        async def run() -> None:
            step()
            for _ in range(10):
                await asyncio.sleep(0)

        self._loop.run_until_complete(run())


class TestTime:
    @pytest.fixture
    def client(self, app: Webhook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
        """Return a client that may take 5 seconds for a head, and 60 between two requests."""
        monkeypatch.setattr("hookrow.protocol.SLOWEST", 5.0)
        config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_keep_alive=60)
        config.load()
        with closing(Loop()) as loop:
            client = Client(loop, DirectProtocol(config, ServerState(), {}, loop))
            yield client
            client.close()
            client.wait(0)

    @pytest.mark.parametrize(
        ("begin", "answered", "closed"),
        [
            (b"", False, True),
            (head(length=2)[:-2], False, True),
            (b"", True, False),
            (b"\r\n", True, True),
            (b"POST", True, True),
            (head(secret="wrong", length=100) + b"{", True, True),
        ],
    )
    def test_no_head(self, client: Client, begin: bytes, *, answered: bool, closed: bool) -> None:
        """A connection is closed if its head is not complete in time, the first or another.

        After a response the time begins with the first byte, were it of an empty line. The rest of
        a request that has its response has the same limit.
        """
        if answered:
            client.send(request(BOUNCE))
            assert client.statuses(1) == [422]
        client.send(begin)
        client.wait(4.5)
        assert not client.is_closing()
        client.wait(1)
        assert client.is_closing() is closed

    def test_byte_by_byte(self, client: Client) -> None:
        """A head that arrives byte by byte has no more time."""
        client.send(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(11):
            client.send(b"x")
            client.wait(0.5)
        assert client.is_closing()

    @pytest.mark.parametrize("before", [b"", head("/", method="GET")], ids=["alone", "pipelined"])
    def test_slow_body(self, client: Client, before: bytes) -> None:
        """A body has a time limit of its own, also if its head was sent before its turn."""
        whole, answered = request(BOUNCE), [404] if before else []
        client.send(before + whole[:-1])
        assert client.statuses(len(answered)) == answered
        client.wait(10)
        client.send(whole[-1:])
        assert client.statuses(len(answered) + 1) == [*answered, 422]
