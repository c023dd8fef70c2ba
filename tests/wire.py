"""HTTP as bytes on a socket, because client libraries hide, correct or reject some requests."""

import asyncio
import json
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from random import randrange
from threading import Thread, Timer
from typing import Any, Literal, Self, TypeVar

import uvicorn

from hookrow import Receiver, Request, Response, testing

T = TypeVar("T")

SECRET = "the-secret-of-the-tests"
ENDPOINT = "/provider/webhooks"
TEXT = "text/plain; charset=utf-8"
PATIENCE = 30.0  # in seconds; the time limit of all waits, for busy machines

# The first subscriber in cases/world.json, and the message id of the first dispatch.
ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"

AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
DELIVERY = json.dumps(testing.delivery(ADA, ADAS, at=AT)).encode()
STRANGER = DELIVERY.replace(ADA.encode(), b"eve@example.com")  # not a subscriber


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return a header's value, or None; it may not be repeated."""
        values = [value for key, value in self.headers if key.lower() == name]
        assert len(values) < 2, f"{name} is repeated: {values}"
        return values[0] if values else None


class Connection:
    """A connection to a local server: sends bytes, and parses responses."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), PATIENCE)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def end(self) -> None:
        """Close the sending half of the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def interim(self, status: int) -> None:
        assert self._file.readline().startswith(b"HTTP/1.1 %d " % status)
        for _ in iter(self._file.readline, b"\r\n"):
            pass

    def answer(self, *, of_head: bool = False) -> Answer:
        """Wait for a response; one to HEAD has no body."""
        version, status, _ = self._file.readline().split(b" ", 2)
        assert version == b"HTTP/1.1"
        headers = [
            (name.decode(), value.strip().decode("latin-1"))
            for line in iter(self._file.readline, b"\r\n")
            for name, _, value in [line.partition(b":")]
        ]
        length = next(int(value) for name, value in headers if name.lower() == "content-length")
        body = b"" if of_head else self._file.read(length)
        return Answer(int(status), headers, body)

    def is_readable(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def is_over(self) -> bool:
        """Wait for more data; return whether the server closed the connection instead."""
        try:
            return not self._file.read(1)
        except ConnectionError:
            return True

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def reset(self) -> None:
        """Reset the connection, as a client that crashes does."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def head(
    path: str = ENDPOINT,
    *,
    method: str = "POST",
    secret: str | bytes | None = SECRET,
    length: int | None = None,
    extra: Sequence[bytes] = (),
) -> bytes:
    """Return the head of a request; if the secret is None, its header is omitted."""
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost"]
    secret = secret.encode() if isinstance(secret, str) else secret
    if secret is not None:
        lines.append(b"X-Provider-Secret: " + secret)
    if length is not None:
        lines.append(b"Content-Length: %d" % length)
    return b"\r\n".join([*lines, *extra, b"", b""])


def request(
    body: bytes,
    path: str = ENDPOINT,
    *,
    method: str = "POST",
    secret: str | bytes | None = SECRET,
    extra: Sequence[bytes] = (),
) -> bytes:
    return head(path, method=method, secret=secret, length=len(body), extra=extra) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def ask(port: int, data: bytes, *, of_head: bool = False) -> Answer:
    with Connection(port) as connection:
        with suppress(ConnectionError):  # a server may respond and close before the end
            connection.send(data)
        return connection.answer(of_head=of_head)


def get(port: int, path: str) -> Answer:
    return ask(port, head(path, method="GET", secret=None))


def free_port() -> int:
    """Return an unused port outside of the range that the system assigns to clients."""
    while True:
        port = randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def listens(port: int, host: str = "127.0.0.1") -> bool:
    with suppress(ConnectionError):
        Connection(port, host).close()
        return True
    return False


def eventually(true: Callable[[], T | None], *, seconds: float = PATIENCE) -> T:
    """Wait until the result is true, and return it. Fails if this takes too long."""
    until = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < until, "the condition did not become true in time"
        time.sleep(0.01)
    return found


@contextmanager
def time_limit(expire: Callable[[], object]) -> Iterator[None]:
    """Call this if the block takes longer than `PATIENCE`, so that a failing test cannot hang."""
    timer = Timer(PATIENCE, expire)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def uvicorn_serving(
    app: Any,  # noqa: ANN401 - any ASGI application
    *,
    lifespan: Literal["auto", "on", "off"] = "auto",
    http: Any = "httptools",  # noqa: ANN401 - a protocol, or the name of one
) -> Iterator[int]:
    """Serve an application with uvicorn, in a thread; yield the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=http,
            lifespan=lifespan,
            log_config=None,
            timeout_keep_alive=60,  # an idle connection outlasts the tests
            access_log=False,
        )
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        eventually(lambda: server.started or not thread.is_alive())
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
        assert not thread.is_alive(), "the server does not stop"


def post_together(receiver: Receiver, requests: Iterable[Request]) -> list[Response]:
    """Submit requests in one iteration of an event loop; return the responses."""

    async def submit() -> list[Response]:
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Response]] = []
        for request in requests:
            futures.append(loop.create_future())
            receiver.submit(request, loop, futures[-1].set_result)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*futures)

    return asyncio.run(submit())
