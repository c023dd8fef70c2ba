"""Random streams of requests, and the bytes that a protocol sends for one, without sockets.

A stream is the list of the pieces in which its bytes arrive. It holds requests that are valid,
broken, split, pipelined, chunked, of old versions of HTTP, or several of these.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias, TypeVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

import wire
from engines import MEMORY
from hookrow import Postmark, Receiver, Request, Response
from hookrow._core.notification import Refusal
from hookrow._http import LoopHandler, plain, refuse
from hookrow._server import RECEIVER
from hookrow._server.protocol import NotificationProtocol
from hookrow.asgi import ASGI
from hookrow.stores.sql import SQLStore
from wire import ENDPOINT, SECRET

P = TypeVar("P", bound=asyncio.Protocol)

Reply: TypeAlias = Callable[[Response], object]

DATE = (b"date", b"Thu, 01 Jan 2026 00:00:00 GMT")

TURNS = 12
"""How often the event loop runs after each piece: enough for any response."""

MOST_REQUESTS = 6
"""The number of requests in a stream; a server may respond to them one by one."""

BODIES = (
    b'{"RecordType": "Open"}',
    b"{}",
    b"{}\r\n",
    b"",
    b"\r\n\r\n",
    b"late",
    b"\0" * 99,
    wire.request(b"{}"),  # within a body, it is not a request
)

INVALID = (
    b"HTTP/1.1 400 Bad Request\r\n%s: %s\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 30\r\nconnection: close\r\n\r\nInvalid HTTP request received." % DATE
)
"""uvicorn's response to broken data, after which the connection is closed."""

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

METHODS = ("GET", "HEAD", "PUT", "OPTIONS", "CONNECT", "post")

VERSIONS = ("1.0", "0.9", "2.0", "1.2")

TARGETS = (
    f"{ENDPOINT}/",
    f"{ENDPOINT}?x=1",
    f"{ENDPOINT}#x",
    ENDPOINT.replace("p", "%70"),
    f"http://localhost{ENDPOINT}",
    "/",
    "*",
    "//",
    "/\N{SNOWMAN}",
)

LAST_CHUNKS = (b"0\r\n\r\n", b"0;x=1\r\n\r\n", b"0\r\nX-Trailer: 1\r\n\r\n", b"0\r\n")

STEERING = (
    b"Connection: close",
    b"Connection: keep-alive",
    b"connection: x, Close",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
)
"""Headers that decide what follows a request, or precedes its response."""

ODD = (
    b"Connection: Upgrade\r\nUpgrade: h2c",
    b"Expect: a miracle",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity",
    b"Content-Length: +117",
    b"Content-Length: 2",
    b"Content-Length: 1, 1",
    b"Content-Length: 2000000",
    b"Content-Length:",
    f"X-Provider-Secret: {SECRET}".encode(),
    b"X-Provider-Secret: wrong",
    b"X-Request-Id: from-a-proxy",
    b"X-Request-Id: not one of ours",
    b"X-Late: 1",
    b"X: caf\xe9",
    b"X:",
    b": x",
    b"no colon",
    b"space : before",
    b"X: folded\r\n into two",
    b"X: y\nbare: newline",
    b"X: y\0z",
)


class Echo(Receiver):
    """Admits as a receiver does; responds at once to some bodies, and later to others."""

    def __init__(self) -> None:
        super().__init__(Postmark(SECRET), SQLStore(MEMORY))

    def _count_requests(self, *_: object) -> None:
        """Count nothing: the thread that counts would outlive the database of the test."""

    def submit(self, request: Request, loop: asyncio.AbstractEventLoop, reply: Reply) -> None:
        if request.body == b"{}":
            reply(plain(200, ""))
        elif request.body == b"late":
            loop.call_soon(loop.call_soon, reply, refuse(Refusal.UNAVAILABLE))
        else:
            # A trailer is not a header, but uvicorn presents it to ASGI as one.
            headers = [each for each in request.head.headers if each[0] != b"x-trailer"]
            loop.call_soon(reply, plain(422, repr((headers, request.body))))


class Transport(asyncio.Transport):
    """A connection that keeps the written bytes, and closes as those of asyncio do.

    `unread` is the number of bytes that its client has not read.
    """

    unread = 0
    is_aborted = False

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.sent = b""
        self.is_paused = False
        self._is_closing = False
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self.sent += bytes(data)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0  # a protocol expects `resume_writing` when everything has been read
        assert low is None

    def get_write_buffer_size(self) -> int:
        return self.unread

    def abort(self) -> None:
        self.is_aborted = True
        self.close()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_reading(self) -> bool:
        return not self.is_paused


def connect(
    protocol: type[P], receiver: LoopHandler, shared: dict[str, Any] | None = None
) -> tuple[P, Transport]:
    """Open a connection to a server with this protocol; call it in an event loop.

    Connections with the same `shared` state belong to one server.
    """
    config = uvicorn.Config(ASGI(receiver), log_config=None, ws="none", access_log=False)
    config.load()
    state = ServerState()
    state.default_headers = [DATE]
    make: Callable[..., P] = protocol
    app_state = {} if shared is None else shared
    app_state[RECEIVER] = receiver
    connection = make(config, state, app_state)
    transport = Transport(connection)
    connection.connection_made(transport)
    return connection, transport


async def responses(
    protocol: type[asyncio.Protocol],
    receiver: LoopHandler,
    stream: Sequence[bytes],
    *,
    patient: bool = True,
) -> bytes:
    """Return all bytes that a protocol sends for a stream, without the random request ids.

    A patient client sends each piece after the responses to those before it.
    """
    connection, transport = connect(protocol, receiver)
    for piece in stream:
        while transport.is_paused and not transport.is_closing():  # noqa: ASYNC110 - few turns
            await asyncio.sleep(0)
        if not transport.is_closing():
            connection.data_received(piece)
        if patient:
            await settle()
    for _ in range(MOST_REQUESTS + 1):
        await settle()
    transport.close()
    await settle()
    return re.sub(rb"(?<=x-request-id: )[0-9a-f]{16}(?=\r\n)", b"random", transport.sent)


async def settle() -> None:
    """Let the event loop run all callbacks that need no time."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def compare(number: int) -> Counter[int]:
    """Compare hookrow's protocol with uvicorn's on random streams; count the statuses sent.

    The pieces of every fifth stream arrive without a wait for responses, and none of its requests
    is broken: uvicorn refuses broken data before it has responded to the requests before it in the
    same piece. hookrow has responded to some of them.
    """
    statuses: Counter[int] = Counter()
    receiver = Echo()
    for seed in range(number):
        patient = seed % 5 > 0
        pieces = stream(Random(seed), valid=not patient)
        expected = await responses(HttpToolsProtocol, receiver, pieces, patient=patient)
        sent = await responses(NotificationProtocol, receiver, pieces, patient=patient)
        if sent != expected:
            assert expected.endswith(INVALID), pieces
            assert sent.startswith(expected.removesuffix(INVALID)), pieces
        statuses.update(map(int, re.findall(rb"HTTP/1\.1 (\d+) ", expected)))
    return statuses


def stream(random: Random, *, valid: bool) -> list[bytes]:
    """Make a stream; a valid one is HTTP without anything broken or unusual."""
    requests = [_request(random, valid=valid) for _ in range(random.randint(1, MOST_REQUESTS))]
    place = random.randrange(len(requests))
    match random.randrange(12):
        case 0 | 1 if not valid:
            requests[place] = _damaged(requests[place], random)
        case 2 if not valid:
            requests.insert(place, b"GET / HTTP/1.1\r\nX: ")  # the next request is its rest
    match random.randrange(5):
        case 0:
            return [b"".join(requests)]
        case 1:
            return [part for each in requests for part in _head_and_body(each)]
        case 2:
            return _cut(b"".join(requests), random)
        case _:
            return requests


def _head_and_body(request: bytes) -> list[bytes]:
    place = request.find(b"\r\n\r\n") + 4
    return [part for part in (request[:place], request[place:]) if part]


def _cut(data: bytes, random: Random) -> list[bytes]:
    """Cut data at a few places, which may be within a line or between two requests."""
    ends = [*sorted(random.sample(range(1, len(data)), random.randint(0, 3))), len(data)]
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _damaged(request: bytes, random: Random) -> bytes:
    """Replace, remove, insert or append some bytes."""
    place = random.randrange(len(request))
    removed = random.choice((0, 1, 1, 20))
    inserted = random.choice((b"", b"\0", b"\r\n", b"\n", b" ", b"\x16\x03", HTTP2))
    return request[:place] + inserted + request[place + removed :]


def _request(random: Random, *, valid: bool) -> bytes:
    """Make a request: in most cases a notification, with something unusual or nothing."""
    unusual = not valid and random.random() < 0.4
    rare = 0.15 if unusual else 0.0
    method = random.choice(METHODS) if random.random() < rare else "POST"
    target = random.choice(TARGETS) if random.random() < rare else ENDPOINT
    if valid and random.random() < 0.2:
        target = "/"
    version = random.choice(VERSIONS) if random.random() < rare else "1.1"
    body = random.choice(BODIES)
    headers = [b"Host: localhost", f"X-Provider-Secret: {SECRET}".encode()]
    if unusual and random.random() < 0.2:
        headers.pop()
    if unusual and random.random() < 0.2:
        headers.append(b"Transfer-Encoding: chunked")
        body = _chunked(body, random)
    elif not unusual or random.random() < 0.9:
        headers.append(b"Content-Length: %d" % len(body))
    if unusual:
        headers += random.sample(*random.choice(((STEERING, 1), (ODD, 1), (ODD, 0))))
    random.shuffle(headers)
    before = b"\r\n" if random.random() < rare else b""
    after = random.choice((b"\r", b"\n", b"\r\n", b"x")) if random.random() < rare else b""
    line = f"{method} {target} HTTP/{version}".encode()
    return b"".join((before, b"\r\n".join((line, *headers, b"", body)), after))


def _chunked(body: bytes, random: Random) -> bytes:
    middle = len(body) // 2
    chunks = b"".join(wire.chunk(part) for part in (body[:middle], body[middle:]) if part)
    return chunks + random.choice(LAST_CHUNKS)
