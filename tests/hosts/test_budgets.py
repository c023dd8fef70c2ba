"""What the connections of `hookrow serve` may use together: number, memory, and time."""

import asyncio
import json
import resource
from typing import Any
from unittest.mock import Mock

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import streams
import wire
from engines import MEMORY
from hookrow import Postmark, Receiver, Request
from hookrow._http import plain
from hookrow._server import budgets
from hookrow._server.limits import HEADER_SIZE, MAX_HEAD, MAX_HEADERS, PIECE
from hookrow._server.protocol import MAX_DIRECT, NotificationProtocol
from hookrow.stores.sql import SQLStore
from wire import SECRET

GET = wire.head("/", method="GET")
POST = wire.request(b"{}")
LARGE = wire.request(json.dumps({"Details": "x" * MAX_DIRECT}).encode())
GUESS = wire.request(b"{}", secret="wrong")
HALF = wire.head(length=2)

pytestmark = pytest.mark.anyio


class Slow(Receiver):
    """Keeps the replies to notifications, for a test to call."""

    def __init__(self) -> None:
        super().__init__(Postmark(SECRET), SQLStore(MEMORY))
        self.replies: list[streams.Reply] = []

    def _count_requests(self, *_: object) -> None:
        """Count nothing: the thread that counts would outlive the database of the test."""

    def submit(self, request: Request, _: object, reply: streams.Reply) -> None:
        del request
        self.replies.append(reply)


class Server:
    """Connections of one server, numbered from 0, without sockets."""

    def __init__(self, receiver: Receiver | None = None) -> None:
        self.receiver = receiver or streams.Echo()
        self._shared: dict[str, Any] = {}
        self.connections: list[NotificationProtocol] = []
        self.transports: list[streams.Transport] = []

    def connect(self, *data: bytes) -> None:
        """Open a connection, and send data on it."""
        connection, transport = streams.connect(NotificationProtocol, self.receiver, self._shared)
        self.connections.append(connection)
        self.transports.append(transport)
        for each in data:
            connection.data_received(each)

    async def send(self, number: int, data: bytes) -> None:
        """Send data on a connection, and wait for the response."""
        self.connections[number].data_received(data)
        await streams.settle()

    @property
    def closed(self) -> list[int]:
        """The connections that the server has closed at once."""
        return [n for n, each in enumerate(self.transports) if each.is_aborted]

    def answers(self, number: int) -> int:
        """Return the number of responses on a connection."""
        return self.transports[number].sent.count(b"HTTP/1.1 ")


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All data is parsed at once, even on a slow machine."""
    monkeypatch.setattr(budgets, "TURN_BUDGET", 60.0)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MAX_CONNECTIONS", 3)


@pytest.mark.usefixtures("three")
class TestNumber:
    async def test_the_oldest_is_closed(self, caplog: pytest.LogCaptureFixture) -> None:
        """No new connection is refused; the first ones are closed, and one line says so."""
        server = Server()
        for _ in range(5):
            server.connect()
        assert server.closed == [0, 1]
        await server.send(4, POST)
        assert server.answers(4) == 1
        [message] = caplog.messages
        assert message.startswith("3 connections are open; closed the one that has gone longest")

    @pytest.mark.parametrize("parts", [[POST], [POST[:-1], POST[-1:]], [LARGE]])
    async def test_an_authenticated_request_protects_a_connection(self, parts: list[bytes]) -> None:
        """However it arrives; those that never had one are closed first, then the least recent."""
        server = Server()
        for _ in range(3):
            server.connect()
        for number in (1, 0):
            for part in parts:
                await server.send(number, part)
        server.connect()
        server.connect()
        assert server.closed == [2, 3]
        await server.send(4, POST)
        server.connect()
        assert server.closed == [1, 2, 3]

    @pytest.mark.parametrize("data", [GET, GUESS, GUESS[:-1], HALF])
    async def test_any_other_request_does_not(self, data: bytes) -> None:
        """Neither one without the secret, nor one that is not complete."""
        server = Server()
        for _ in range(3):
            server.connect()
        await server.send(0, data)
        server.connect()
        assert server.closed == [0]

    @pytest.mark.parametrize("data", [POST, LARGE])
    async def test_a_request_that_waits_is_not_cut_off(self, data: bytes) -> None:
        """Even if that leaves more connections open than the limit."""
        server = Server(receiver := Slow())
        for _ in range(3):
            server.connect(data)
        await streams.settle()
        assert len(receiver.replies) == 3
        server.connect()
        server.connect()
        assert server.closed == [3]
        for reply in receiver.replies:
            reply(plain(200, ""))
        await streams.settle()
        assert [server.answers(number) for number in range(3)] == [1, 1, 1]
        server.connect()
        assert server.closed == [3, 4]

    async def test_connections_that_the_client_closed_do_not_count(self) -> None:
        server = Server()
        for _ in range(3):
            server.connect()
            server.transports[-1].close()
            await streams.settle()
        for _ in range(3):
            server.connect()
        assert server.closed == []


async def test_connections_leave_files_to_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process may open few files, fewer connections are open."""
    for files, most in ((budgets.RESERVED_FILES + 200, 200), (6, 3)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, 1 << 20))
        server = Server()
        for _ in range(most + 1):
            server.connect()
        assert server.closed == [0]


class TestMemory:
    @pytest.mark.parametrize(
        ("data", "size"),
        [
            (b"GET / HTTP/1.1\r\nX: " + b"x" * 5000, 5000),
            (b"GET / HTTP/1.1\r\n" + b"x:\r\n" * MAX_HEADERS, MAX_HEADERS * HEADER_SIZE),
            (wire.head(length=9000) + b"x" * 5000, 5000),
            (GET + GUESS * 40, 3000),
        ],
        ids=["head", "headers", "body", "pipelined"],
    )
    async def test_unfinished_requests_are_closed(
        self,
        data: bytes,
        size: int,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """The oldest first, but not the connections that hold nothing."""
        monkeypatch.setattr(budgets, "MAX_UNFINISHED", 4 * size)
        server = Server(Slow())
        server.connect()
        for _ in range(6):
            server.connect(data)
        assert 0 not in server.closed
        assert 1 in server.closed
        assert 6 not in server.closed
        assert any(each.startswith("Unfinished requests took ") for each in caplog.messages)
        await streams.settle()

    async def test_a_small_request_that_waits_for_its_turn_is_not_closed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A connection that holds less than an equal share is not the cause of the excess."""
        monkeypatch.setattr(budgets, "TURN_BUDGET", 0.0)
        monkeypatch.setattr(budgets, "MAX_UNFINISHED", 20_000)
        server = Server()
        server.connect(POST)
        for _ in range(8):
            server.connect(b"GET / HTTP/1.1\r\nX: " + b"x" * 3000)
        assert server.closed
        monkeypatch.setattr(budgets, "TURN_BUDGET", 60.0)
        await streams.settle()
        assert server.answers(0) == 1

    @pytest.mark.parametrize(
        "data", [POST, GET, GUESS, LARGE, wire.request(b"x" * 5000, secret="wrong"), POST[:50]]
    )
    async def test_what_has_ended_is_not_counted(
        self, data: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither a request that has its response, nor a connection that is closed."""
        monkeypatch.setattr(budgets, "MAX_UNFINISHED", 2 * len(LARGE))
        server = Server()
        for number in range(200 if data is not LARGE else 20):
            if number % 2 == 0 or len(data) == 50:
                server.connect()
            await server.send(-1, data)
            if number % 2:
                server.transports[-1].close()
                await streams.settle()
        assert server.closed == []

    async def test_an_excess_is_logged_once(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Even if the first connections that are closed do not free enough memory."""
        monkeypatch.setattr(budgets, "MAX_UNFINISHED", 1000)
        shared = budgets.Budgets(asyncio.get_running_loop())
        connections = [Mock(unfinished=0, is_admitted=False) for _ in range(21)]
        for each in connections:
            shared.add(each)
            shared.hold(each, 300 if each is connections[-1] else 50)
        assert [each.abort.called for each in connections] == [True] * 11 + [False] * 10
        assert len(caplog.messages) == 1
        assert "; closed 11 connections" in caplog.messages[0]

    async def test_a_refused_body_is_not_kept(self) -> None:
        """The connection of a client without the secret holds no body that it sent."""
        server = Server()
        server.connect(wire.head(secret="wrong", length=50_000), b"x" * 50_000)
        await streams.settle()
        assert not server.connections[0].cycle.body
        assert server.answers(0) == 1


class TestTime:
    @pytest.fixture(autouse=True)
    def _no_time(self, _time: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """In each turn of the event loop, only one piece of data is parsed."""
        monkeypatch.setattr(budgets, "TURN_BUDGET", 1e-9)

    @pytest.mark.parametrize("data", [GET * 50, GUESS * 50])
    async def test_connections_take_turns(self, data: bytes) -> None:
        """A client that pipelines requests delays others by one of them, not by all."""
        server = Server()
        for _ in range(3):
            server.connect(data)
        server.connect(POST)
        while not server.answers(3):  # noqa: ASYNC110 - few turns
            await asyncio.sleep(0)
        assert all(server.answers(number) <= 2 for number in range(3))
        assert [each.is_paused for each in server.transports[:3]] == [True] * 3
        while sum(map(server.answers, range(3))) < 150:  # noqa: ASYNC110 - few turns
            await asyncio.sleep(0)
        await streams.settle()
        assert not any(each.is_paused for each in server.transports)

    async def test_authenticated_connections_do_not_wait(self) -> None:
        """A notification on a connection that has had one is recorded before others' requests."""
        server = Server()
        server.connect(POST)
        for _ in range(3):
            server.connect(GET * 50)
        server.connections[0].data_received(POST)
        assert server.answers(0) == 2
        assert sum(map(server.answers, range(1, 4))) <= 3
        server.connections[0].data_received(GET)
        await asyncio.sleep(0)
        assert server.answers(0) == 2  # any other request waits for its turn
        for transport in server.transports:
            transport.close()
        await streams.settle()

    async def test_new_connections_do_not_wait_for_all_others(self) -> None:
        """They take turns with those that send one request after the other."""
        server = Server()
        for _ in range(30):
            server.connect(GET * 50)
        for _ in range(5):
            await streams.settle()
        before = sum(map(server.answers, range(30)))
        server.connect(POST)
        while not server.answers(30):  # noqa: ASYNC110 - few turns
            await asyncio.sleep(0)
        assert sum(map(server.answers, range(30))) - before < 10
        for transport in server.transports:
            transport.close()
        await streams.settle()

    async def test_a_connection_that_is_closed_meanwhile(self) -> None:
        """Its data is dropped, and the others proceed."""
        server = Server()
        for _ in range(3):
            server.connect(GET * 2)
        server.transports[1].close()
        for _ in range(10):
            await streams.settle()
        assert [server.answers(number) for number in range(3)] in ([2, 0, 2], [2, 1, 2])

    async def test_a_server_that_stops(self) -> None:
        """Requests that were received have their responses; then the connection is closed."""
        server = Server()
        server.connect(GET * 3)
        server.connect(POST)
        for connection in server.connections:
            connection.shutdown()
        for _ in range(10):
            await streams.settle()
        assert [server.answers(number) for number in range(2)] == [3, 1]
        assert all(each.is_closing() for each in server.transports)


@pytest.mark.parametrize(
    ("begin", "data"),
    [
        (b"", b"\r\n" * 8000),
        (wire.head(length=16_000), b"\r\n" * 8000),
        (wire.head(secret="wrong", length=16_000), b"\r\n" * 8000),
    ],
    ids=["before a head", "in a body", "in a refused body"],
)
async def test_empty_lines_are_parsed_in_large_pieces(
    begin: bytes, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They look like the ends of heads, but cost no more than other data."""
    pieces: list[int] = []
    parse = HttpToolsProtocol.data_received

    def count(protocol: HttpToolsProtocol, piece: bytes) -> None:
        pieces.append(len(piece))
        parse(protocol, piece)

    server = Server()
    server.connect(begin) if begin else server.connect()
    await streams.settle()
    monkeypatch.setattr(HttpToolsProtocol, "data_received", count)
    server.connections[0].data_received(data)
    await streams.settle()
    assert len(pieces) <= len(data) / PIECE + 1


class TestHeaders:
    @pytest.mark.parametrize("rest", [b"\r\n{}", b"\r\n", b"x"])
    @pytest.mark.parametrize(("method", "status"), [("POST", 200), ("PUT", 405)])
    async def test_too_many(self, method: str, status: int, rest: bytes) -> None:
        """More than 100 headers result in 431, whether the request is complete or not."""
        server = Server()
        begin = wire.head(method=method, length=2)[:-2]
        most = begin + b"x:\r\n" * (MAX_HEADERS - begin.count(b"\r\n") + 1)
        await self._ask(server, most + b"\r\n{}", status)
        await self._ask(server, most + b"x:\r\n" + rest, 431)
        assert server.transports[-1].is_closing()

    @pytest.mark.parametrize("rest", [b"\r\n\r\n{}", b""])
    async def test_too_long(self, rest: bytes) -> None:
        """More than 16 KiB result in 431, even if the rest of the head is in the same data."""
        server = Server()
        begin = wire.head(length=2)[:-2] + b"x: "
        most = begin + b"x" * (MAX_HEAD - len(begin) - 4)
        await self._ask(server, most + b"\r\n\r\n{}", 200)
        await self._ask(server, most + b"x" + rest + b"x" * 4, 431)

    @staticmethod
    async def _ask(server: Server, data: bytes, status: int) -> None:
        server.connect(data)
        await streams.settle()
        assert server.transports[-1].sent.startswith(b"HTTP/1.1 %d " % status)


async def test_a_response_is_read_before_the_next_request() -> None:
    """A client that reads nothing makes the server keep one response, not one for each request."""
    server = Server()
    server.connect()
    server.transports[0].unread = 1
    server.connections[0].pause_writing()
    await server.send(0, GET * 5)
    assert server.answers(0) == 0
    server.transports[0].unread = 0
    server.connections[0].resume_writing()
    for _ in range(5):
        await streams.settle()
    assert server.answers(0) == 5
