"""The HTTP of `hookrow serve`: limits, and data before and after a notification."""

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import wraps
from math import inf
from typing import Any
from urllib.parse import unquote

import pytest
from drivers import GatedStore, Webhook
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

import streams
import wire
from courier import Courier
from engines import MEMORY
from hookrow import Postmark, Receiver, Request, RequestHead, Response
from hookrow._http import MAX_BODY, LoopHandler, plain
from hookrow._receiver import hourly
from hookrow._server import budgets, limits
from hookrow._server.limits import (
    CLIENT_TIMEOUT,
    GRACE_PERIOD,
    MAX_DISCARDED_BODY,
    MAX_HEAD,
)
from hookrow._server.protocol import MAX_DIRECT, DirectEndpoint, NotificationProtocol
from hookrow._server.run import choose_protocol
from hookrow.stores.sql import SQLStore
from wire import DELIVERY, PATIENCE, SECRET, STRANGER, Connection

BUFFERED = 48 * 1024 * 1024  # in bytes; more unread data than two sockets can hold
KEEP_ALIVE = 5.0  # in seconds; uvicorn's default, for an idle connection

BOUNCE = json.dumps({"RecordType": "Bounce"}).encode()
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = wire.head(extra=[CHUNKED]) + wire.chunk(BOUNCE)  # without the end of the body
GET = wire.head("/", method="GET")
POST = wire.request(b"{}")

CLOSING = b"connection: close\r\n\r\n"


class Failing(Receiver):
    """Raises an exception for requests that have a certain header."""

    def admit(self, head: RequestHead) -> Response | None:
        if head.header("x-fail"):
            raise ZeroDivisionError(head.header("x-fail"))
        return super().admit(head)

    def submit(
        self, request: Request, loop: asyncio.AbstractEventLoop, reply: streams.Reply
    ) -> None:
        if request.head.header("x-broken"):
            raise ZeroDivisionError(request.head.header("x-broken"))
        super().submit(request, loop, reply)


class Waiting(Receiver):
    """Keeps the replies, for a test to call."""

    def __init__(self) -> None:
        super().__init__(Postmark(SECRET), SQLStore(MEMORY))
        self.replies: list[streams.Reply] = []

    def _count_requests(self, *_: object) -> None:
        """Count nothing: the thread that counts would outlive the database of the test."""

    def submit(self, request: Request, _: object, reply: streams.Reply) -> None:
        self.replies.append(reply)
        if request.head.header("x-broken"):
            reply(plain(200, ""))
            raise ZeroDivisionError


@pytest.fixture(scope="module")
def store() -> Iterator[GatedStore]:
    with closing(GatedStore()) as store:
        yield store


@pytest.fixture(scope="module")
def running(store: GatedStore) -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        # The count would use the connection of the store while a test restores the rows.
        patch.setattr(hourly, "COUNT_EVERY", 3600.0)
        receiver = Failing(Postmark(SECRET), store, deadline=60)
    with (
        pytest.MonkeyPatch.context() as patch,
        wire.uvicorn_serving(Webhook(receiver), http=NotificationProtocol) as port,
    ):
        patch.setattr(budgets, "CHECK_BUDGETS_EVERY", 0.01)
        yield port
    receiver.close(PATIENCE)


@pytest.fixture
def port(running: int, store: GatedStore) -> Iterator[int]:
    store.reset()
    yield running
    store.gate.set()


@pytest.fixture
def receiver() -> Waiting:
    return Waiting()


def connect(receiver: LoopHandler) -> tuple[NotificationProtocol, streams.Transport]:
    return streams.connect(NotificationProtocol, receiver)


class TestNotifications:
    def test_requests_behind_one_that_waits(self, port: int, store: GatedStore) -> None:
        """They are processed after its response, in order, however they are split."""
        store.gate.clear()
        with Connection(port) as connection:
            connection.send(wire.request(DELIVERY))
            store.entered.wait(PATIENCE)
            behind = b"".join(map(wire.request, (b"{", STRANGER, DELIVERY)))
            for part in (behind[:10], behind[10:100], behind[100:]):
                connection.send(part)
                assert wire.get(port, "/").status == 404  # it has read that
            store.gate.set()
            assert [connection.answer().status for _ in range(4)] == [200, 422, 404, 200]

    def test_lost_connections(self, port: int, store: GatedStore) -> None:
        """100 connections that are reset, and one that sends nonsense, affect no other."""
        store.gate.clear()
        with ExitStack() as stack:
            first, other, wrong, *gone = (stack.enter_context(Connection(port)) for _ in range(103))
            first.send(wire.request(DELIVERY))
            store.entered.wait(PATIENCE)
            for connection in (wrong, *gone):
                connection.send(wire.request(DELIVERY))
            other.send(wire.request(STRANGER))
            assert wire.get(port, "/").status == 404  # it has read those before
            wrong.send(b"\x16\x03\x01\r\n\r\n")
            for connection in gone:
                connection.reset()
            assert wire.get(port, "/").status == 404
            store.gate.set()
            assert (first.answer().status, other.answer().status) == (200, 404)
            assert [wrong.answer().status for _ in range(2)] == [200, 400]

    @pytest.mark.parametrize("name", [b"X-Fail", b"X-Broken"])
    def test_error(self, port: int, name: bytes, caplog: pytest.LogCaptureFixture) -> None:
        """If a receiver raises, the response is 503; the log line has the place but no data."""
        extra = [b"X-Request-Id: one-of-ours", name + b": ada@example.com"]
        assert wire.ask(port, wire.request(DELIVERY, extra=extra)).status == 503
        (logged,) = [each.getMessage() for each in caplog.records if each.name == "hookrow"]
        assert all(each in logged for each in ("ZeroDivisionError", "test_protocol.py", "one-of-"))
        assert "ada@" not in logged

    @pytest.mark.parametrize(
        ("sent", "statuses"),
        [
            *((wire.request(b"{"), [422]), (GET, [404]), (CHUNKS + b"0\r\n\r\n", [422])),
            # A request that is not complete ends with its connection.
            *((b"", []), (b"POST /", []), (wire.head(length=2) + b"{", [])),
        ],
    )
    def test_half_closed(self, port: int, sent: bytes, statuses: list[int]) -> None:
        """A client may close its half of the connection right after its request."""
        with Connection(port) as connection:
            connection.send(sent)
            connection.end()
            assert [connection.answer().status for _ in statuses] == statuses
            assert connection.is_over()

    @pytest.mark.parametrize(
        ("header", "version"), [(b"close", b"HTTP/1.1"), (b"keep-alive", b"HTTP/1.0")]
    )
    def test_behind_the_last_request(
        self, port: int, store: GatedStore, header: bytes, version: bytes
    ) -> None:
        """A request that arrives behind the last one of its connection is not processed."""
        last = wire.request(b"{", extra=[b"Connection: " + header]).replace(b"HTTP/1.1", version)
        with Connection(port) as connection:
            connection.send(last + wire.request(DELIVERY))
            answer = connection.answer()
            assert (answer.status, answer.header("connection")) == (422, "close")
            assert connection.is_over()
        assert store.delivered_at is None


class TestDirectEndpoint:
    """Which requests are passed to the receiver without uvicorn."""

    @pytest.fixture
    def endpoint(self) -> DirectEndpoint:
        entries = {"mail": Postmark(SECRET), "parcels": Courier(limit=2000)}
        return DirectEndpoint(Receiver(entries, SQLStore(MEMORY), mount_path="/mäil"))

    @pytest.mark.parametrize(
        ("path", "is_direct"),
        [
            *(("", True), ("/mail", True), ("/parcels", True)),
            # All others get their responses through ASGI.
            *(("/", False), ("/mail/", False), ("/mail?a=b", False)),
            *(("/other", False), ("/parcels" + "s" * 99, False), ("/parcel", False)),
        ],
    )
    def test_paths(self, endpoint: DirectEndpoint, path: str, *, is_direct: bool) -> None:
        path = f"/m%C3%A4il{wire.ENDPOINT}{path}"
        for before in (b"", b"\n", wire.request(b"{}")):  # of another request
            parsed = endpoint.parse(before + wire.request(b"{}", path), len(before))
            assert (parsed is not None) == is_direct
            if parsed is not None:
                assert (parsed.head.path, parsed.body) == (unquote(path), b"{}")

    @pytest.mark.parametrize(
        ("name", "most"), [("", MAX_DIRECT), ("/mail", MAX_DIRECT), ("/parcels", 2000)]
    )
    def test_each_entry_has_its_limit(self, endpoint: DirectEndpoint, name: str, most: int) -> None:
        """Only uvicorn handles a request whose body may be over the limit of its entry."""
        path = f"/m%C3%A4il{wire.ENDPOINT}{name}"
        longest = most - len(wire.request(b" " * most, path)) + most
        for size, is_direct in ((longest, True), (longest + 1, False)):
            parsed = endpoint.parse(wire.request(b" " * size, path), 0)
            assert (parsed is not None) == is_direct


class TestHead:
    def test_long(self, port: int) -> None:
        """A head of 15 kB is accepted; a longer one gets 431 and ends the connection."""
        extra = [b"X-%d: %s" % (number, b"x" * 1000) for number in range(15)]
        assert wire.ask(port, wire.request(BOUNCE, extra=extra)).status == 422
        begin, long = b"GET / HTTP/1.1\r\nX: ", b"x" * (MAX_HEAD + 1)
        with_secret = wire.head(length=2)[:-2] + b"X: " + long
        for sent in (begin + long, begin + long + b"\r\n\r\n", with_secret):
            with Connection(port) as connection:
                connection.send(sent)
                answer = connection.answer()
                assert (answer.status, answer.header("connection")) == (431, "close")
                assert connection.is_over()

    @pytest.mark.parametrize(
        ("begin", "piece"),
        [
            (b"GET / HTTP/1.1\r\nX: ", b"x" * 8192),
            (CHUNKS + b"0\r\nX: ", b"x" * 8192),
            (CHUNKS + b"0\r\n", b"X:\r\n" * 2048),
        ],
        ids=["header", "trailer", "trailers"],
    )
    @pytest.mark.anyio
    async def test_endless_headers_end_the_connection(self, begin: bytes, piece: bytes) -> None:
        connection, transport = connect(streams.Echo())
        connection.data_received(begin)
        for _ in range(2 * MAX_HEAD // len(piece)):
            connection.data_received(piece)
        assert transport.is_closing()

    def test_trailers(self, port: int) -> None:
        """Trailers do not end the connection and are not headers: a secret in one is ignored."""
        trailer = b"0\r\nX-Provider-Secret: %s\r\n\r\n" % SECRET.encode()
        without = wire.head(secret=None, extra=[CHUNKED]) + trailer
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
    def test_invalid_http_is_no_error(
        self, port: int, bad: bytes, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Connection(port) as connection:
            connection.send(bad)
            assert connection.answer().status == 400
            assert connection.is_over()
        assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


class TestRest:
    """The rest of a request that is sent after its response."""

    @pytest.mark.parametrize(
        ("secret", "length", "status"),
        [("wrong", MAX_DISCARDED_BODY - 1, 401), (SECRET, MAX_BODY + 1, 413)],
    )
    def test_response_is_read_late(self, port: int, secret: str, length: int, status: int) -> None:
        """A client that reads only after it has sent everything gets its response."""
        with Connection(port) as connection:
            connection.send(wire.head(secret=secret, length=length))
            for begin in range(0, length, 1024):
                connection.send(b"x" * min(1024, length - begin))
            assert connection.answer().status == status

    def test_next_request(self, port: int) -> None:
        """After the rest, the connection serves the next request, even if a read ends within it."""
        body = wire.request(b"x" * (MAX_DISCARDED_BODY // 2), secret="wrong")
        after = wire.request(BOUNCE)
        with Connection(port) as connection:
            for _ in range(3):
                connection.send(body + after[:20])
                assert connection.answer().status == 401
                connection.send(after[20:])
                assert connection.answer().status == 422

    def test_no_second_response(self, port: int) -> None:
        with Connection(port) as connection:
            connection.send(wire.head(secret="wrong", extra=[CHUNKED]))
            assert connection.answer().status == 401
            with suppress(ConnectionError):
                connection.send(wire.chunk(b"x" * (MAX_DISCARDED_BODY + 1)))
            assert connection.is_over()


class TestTime:
    @pytest.mark.parametrize("begin", [b"", wire.head(length=2)[:-2]])
    def test_first_head(self, port: int, monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
        """A connection whose head is not complete in time is closed."""
        monkeypatch.setattr(limits, "CLIENT_TIMEOUT", 0.02)
        with Connection(port) as connection:
            connection.send(begin)
            assert connection.is_over()

    @pytest.mark.parametrize(
        ("pieces", "seconds"),
        [
            ((), KEEP_ALIVE),
            # The time begins with the first byte, even of an empty line, and is not extended.
            *(((b"\r\n",), CLIENT_TIMEOUT), ((b"P", b"OST"), CLIENT_TIMEOUT)),
            ((wire.head(secret="wrong", length=100) + b"{",), CLIENT_TIMEOUT),
            # A body has a time limit of its own, even if its head was sent before its turn.
            *(((POST[:-1],), inf), ((GET + POST[:-1],), inf)),
        ],
        ids=["idle", "empty line", "next head", "rest", "body", "pipelined body"],
    )
    @pytest.mark.anyio
    async def test_next_request(
        self, monkeypatch: pytest.MonkeyPatch, pieces: Sequence[bytes], seconds: float
    ) -> None:
        connection, transport = connect(streams.Echo())
        connection.data_received(POST)
        begin = connection.loop.time()
        for piece in pieces:
            connection.data_received(piece)
            await streams.settle()
            monkeypatch.setattr(limits, "CLIENT_TIMEOUT", 99.0)
        connection.check(begin + min(seconds, 1e6) - 1)
        assert not transport.is_closing()
        if seconds < inf:
            connection.check(connection.loop.time() + seconds)
            assert transport.is_closing()
        else:
            connection.data_received(POST[-1:])
            await streams.settle()
            assert transport.sent.count(b"HTTP/1.1 200") == 2


@pytest.mark.anyio
class TestPending:
    """A connection while the receiver works on its request."""

    async def test_shutdown(self, receiver: Waiting) -> None:
        """A server that stops waits for the response, and closes the connection after it."""
        connection, transport = connect(receiver)
        connection.data_received(POST)
        connection.shutdown()
        connection.data_received(POST)
        await streams.settle()
        assert not transport.is_closing()
        receiver.replies[0](plain(200, ""))
        assert transport.sent.endswith(CLOSING)
        assert transport.is_closing()
        assert len(receiver.replies) == 1

    async def test_half_closed(self, receiver: Waiting) -> None:
        """A client that has closed its half gets the response; then the connection is closed."""
        connection, transport = connect(receiver)
        connection.data_received(POST)
        assert connection.eof_received()
        receiver.replies[0](plain(200, ""))
        assert transport.sent.endswith(CLOSING)
        assert transport.is_closing()

    async def test_client_is_gone(self, receiver: Waiting) -> None:
        """A response to a client that has disconnected is dropped."""
        connection, transport = connect(receiver)
        connection.data_received(POST)
        connection.data_received(b"x")
        transport.close()
        await streams.settle()
        receiver.replies[0](plain(200, ""))
        assert transport.sent == b""

    async def test_reading_is_paused(self, receiver: Waiting) -> None:
        """Until the response, nothing is read except the data that contains the next request."""
        connection, transport = connect(receiver)
        connection.data_received(POST)
        assert not transport.is_paused
        connection.data_received(POST)
        assert transport.is_paused
        receiver.replies[0](plain(200, ""))
        assert not transport.is_paused
        assert len(receiver.replies) == 2

    async def test_error_after_the_reply(self, receiver: Waiting) -> None:
        """Only the first response is sent."""
        connection, transport = connect(receiver)
        connection.data_received(wire.request(b"{}", extra=[b"X-Broken: 1"]))
        assert transport.sent.startswith(b"HTTP/1.1 200 OK\r\n")
        assert transport.sent.count(b"HTTP/1.1") == 1

    async def test_idle(self, receiver: Waiting) -> None:
        """Only an idle connection is closed: uvicorn's timer of an earlier request is ignored."""
        connection, transport = connect(receiver)
        connection.data_received(GET)
        await streams.settle()
        assert transport.sent.startswith(b"HTTP/1.1 404")
        connection.data_received(POST)
        connection.timeout_keep_alive_handler()
        connection.check(connection.loop.time() + 1e6)
        assert not transport.is_closing()
        receiver.replies[0](plain(200, ""))
        connection.check(connection.loop.time() + KEEP_ALIVE)
        assert transport.is_closing()


class TestPipeline:
    """Requests that arrive before the responses to earlier ones."""

    @pytest.mark.parametrize("each", [GET, wire.request(b"x")])
    @pytest.mark.anyio
    async def test_many(self, each: bytes) -> None:
        """At most two are parsed at once, and no data is read until all have their responses."""
        connection, transport = connect(streams.Echo())
        connection.data_received(each * 2000)
        while transport.sent.count(b"HTTP/1.1 ") < 1999:
            assert len(connection.pipeline) <= 1
            assert transport.is_paused
            await asyncio.sleep(0)
        await streams.settle()
        assert transport.sent.count(b"HTTP/1.1 ") == 2000
        assert not transport.is_paused

    @pytest.mark.unmeasured
    def test_client_that_does_not_read(
        self, port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is disconnected; until then, the server reads no more than sockets and buffers hold.

        The request whose response waits then ends without an error.
        """
        monkeypatch.setattr(limits, "CLIENT_TIMEOUT", 0.5)
        sent = 0
        with Connection(port) as connection, suppress(ConnectionError):
            while sent < BUFFERED:
                connection.send(GET * 1000)
                sent += len(GET) * 1000
        assert sent < BUFFERED
        assert wire.get(port, "/").status == 404
        assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []

    @pytest.mark.anyio
    async def test_unread_responses(self) -> None:
        """A connection is aborted after 15 seconds without a read, even if it is closing."""
        connection, transport = connect(streams.Echo())
        now = connection.loop.time()
        for seconds, unread in ((0, 9), (14, 8), (28, 7), (42, 7)):
            transport.unread = unread
            connection.check(now + seconds)
            assert not transport.is_aborted
        assert transport.is_closing()
        connection.check(now + 28 + CLIENT_TIMEOUT)
        assert transport.is_aborted


@pytest.mark.anyio
class TestStop:
    """A server that stops gives requests in progress 5 seconds."""

    @pytest.mark.parametrize(("sent", "unread"), [(wire.head(length=100), 0), (GET, 9)])
    async def test_no_progress(self, sent: bytes, unread: int) -> None:
        """A body that is not complete, or a response that is not read, ends with its connection."""
        connection, transport = connect(streams.Echo())
        connection.data_received(sent)
        await streams.settle()
        transport.unread = unread
        connection.shutdown()
        now = connection.loop.time()
        connection.check(now + GRACE_PERIOD - 1)
        assert not (transport.is_aborted if unread else transport.is_closing())
        connection.check(now + GRACE_PERIOD)
        assert transport.is_aborted if unread else transport.is_closing()

    @pytest.mark.parametrize(("seconds", "number"), [(60.0, 3), (0.0, 1)])
    async def test_pipeline(
        self, seconds: float, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Pipelined requests have their responses, except those that begin too late."""
        monkeypatch.setattr(limits, "GRACE_PERIOD", seconds)
        connection, transport = connect(streams.Echo())
        connection.data_received(GET * 3)
        connection.shutdown()
        await streams.settle()
        assert transport.sent.count(b"HTTP/1.1 404") == number
        assert transport.is_closing()

    @pytest.mark.parametrize("before", [b"", GET, POST])
    @pytest.mark.parametrize("after", [(GET,), (POST,), (POST[:20], POST[20:])])
    async def test_a_request_on_an_idle_connection(
        self, before: bytes, after: Sequence[bytes], receiver: Waiting
    ) -> None:
        """It may have been sent before the server stopped: it has a response, the last one."""
        connection, transport = connect(receiver)
        if before:
            await self._exchange(connection, receiver, before)
            assert CLOSING not in transport.sent
        connection.shutdown()
        assert not transport.is_closing()
        await self._exchange(connection, receiver, *after)
        assert CLOSING in transport.sent
        assert transport.sent.count(b"HTTP/1.1 ") == 1 + bool(before)
        assert transport.is_closing()

    @staticmethod
    async def _exchange(connection: NotificationProtocol, receiver: Waiting, *sent: bytes) -> None:
        for data in sent:
            connection.data_received(data)
        await streams.settle()
        for reply in receiver.replies:
            reply(plain(200, ""))
        receiver.replies.clear()
        await streams.settle()

    async def test_no_request_on_an_idle_connection(
        self, receiver: Waiting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The connection is closed soon, unless a request has begun."""
        monkeypatch.setattr(limits, "IDLE_GRACE_PERIOD", 0.0)
        idle, begun, submitted = (connect(receiver) for _ in range(3))
        for connection, _ in (idle, begun, submitted):
            connection.shutdown()
        begun[0].data_received(POST[:20])
        submitted[0].data_received(POST)
        await asyncio.sleep(0.01)
        closed = [transport.is_closing() for _, transport in (idle, begun, submitted)]
        assert closed == [True, False, False]
        begun[0].check(begun[0].loop.time() + GRACE_PERIOD)
        assert begun[1].is_closing()

    async def test_a_connection_that_was_just_accepted(self, receiver: Waiting) -> None:
        """It is treated like the others, although uvicorn does not know it when it stops."""
        shared: dict[str, Any] = {}
        first, _ = streams.connect(NotificationProtocol, receiver, shared)
        first.shutdown()
        second, transport = streams.connect(NotificationProtocol, receiver, shared)
        await self._exchange(second, receiver, POST)
        assert transport.sent.endswith(CLOSING)


class TestUvicorn:
    """The parts of uvicorn's protocol that hookrow needs, which are not documented."""

    def test_streams(self) -> None:
        """The bytes sent for 200 random streams of requests are those that uvicorn would send."""
        statuses = asyncio.run(streams.compare(200))
        assert {200, 400, 401, 404, 405, 422, 503} <= {*statuses}

    def test_another_uvicorn(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """If an attribute is missing, uvicorn serves alone, and one warning names it."""
        assert choose_protocol() is NotificationProtocol
        assert not caplog.records
        monkeypatch.delattr(HttpToolsProtocol, "timeout_keep_alive_handler")
        chosen = choose_protocol()
        (record,) = caplog.records
        assert "timeout_keep_alive_handler" in record.getMessage()
        with wire.uvicorn_serving(Webhook(streams.Echo()), http=chosen) as port:
            assert wire.ask(port, wire.request(b"{}")).status == 200

    def test_another_cycle(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The same applies if an object that uvicorn creates for each request lacks one."""
        init = RequestResponseCycle.__init__

        @wraps(init)
        def other_init(cycle: RequestResponseCycle, **arguments: Any) -> None:  # noqa: ANN401 - any
            init(cycle, **arguments)
            del cycle.response_complete

        monkeypatch.setattr(RequestResponseCycle, "__init__", other_init)
        assert choose_protocol() == "auto"
        (message,) = caplog.messages
        assert "response_complete" in message
