"""HTTP as bytes on a socket: what a client library would hide, mend or refuse to send."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import randrange
from threading import Thread
from types import TracebackType
from typing import Any, Self

import uvicorn

SECRET = "the-secret-of-the-tests"

ENDPOINT = "/provider/webhooks"

PATIENCE = 8.0
"""In seconds; how long anything is waited for. Less than a body may take, which is 15."""

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response as it came."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return a header's value, or None where there is none; it may not come twice."""
        values = [value for key, value in self.headers if key.lower() == name]
        assert len(values) < 2, f"{name} came twice: {values}"
        return values[0] if values else None


class Connection:
    """A connection to a server of this machine: bytes go out, answers come in."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), PATIENCE)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Send bytes. Raises `ConnectionError` where a server that has answered closed already."""
        self._socket.sendall(data)

    def line(self) -> bytes:
        """Return the next line that comes, without its end."""
        return self._file.readline().rstrip(b"\r\n")

    def interim(self, status: int) -> None:
        """Wait for a response that comes before the answer."""
        assert self.line().startswith(b"HTTP/1.1 %d " % status)
        while self.line():
            pass

    def answer(self, *, of_head: bool = False) -> Answer:
        """Wait for a response; `of_head`, for a request by HEAD, that it has no body."""
        version, status, _ = self.line().split(b" ", 2)
        assert version == b"HTTP/1.1"
        headers = [
            (name.decode(), value.strip().decode("latin-1"))
            for name, _, value in (line.partition(b":") for line in iter(self.line, b""))
        ]
        length = next(int(value) for name, value in headers if name.lower() == "content-length")
        body = b"" if of_head else self._file.read(length)
        return Answer(int(status), headers, body)

    def is_over(self) -> bool:
        """Wait for more; tell whether the server closed the connection instead."""
        try:
            return not self._file.read(1)
        except ConnectionError:
            return True

    def close(self) -> None:
        """Go away politely."""
        self._file.close()
        self._socket.close()

    def reset(self) -> None:
        """Go away as a client does that crashes: the server gets an error, not an end."""
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
    """Return the head of a request; without a secret its header is left out."""
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost"]
    if secret is not None:
        value = secret.encode() if isinstance(secret, str) else secret
        lines.append(b"X-Provider-Secret: " + value)
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
    """Return a whole request, its length declared."""
    return head(path, method=method, secret=secret, length=len(body), extra=extra) + body


def chunk(data: bytes) -> bytes:
    """Return a part of a body of which no length is declared; an empty one ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def ask(port: int, data: bytes) -> Answer:
    """Send a whole request on a connection of its own; return the answer."""
    with Connection(port) as connection:
        with suppress(ConnectionError):  # it may have answered, and closed, before the end
            connection.send(data)
        return connection.answer()


def get(port: int, path: str) -> Answer:
    """Ask for a page."""
    return ask(port, head(path, method="GET", secret=None))


def free_port() -> int:
    """Return a port of this machine at which nobody listens.

    It is none of those that the system gives to clients: tests that run beside this
    one could get it before it is used.
    """
    while True:
        port = randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def listens(port: int) -> bool:
    """Tell whether somebody takes connections at a port of this machine."""
    with suppress(ConnectionError):
        Connection(port).close()
        return True
    return False


def eventually(true: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Wait until it is true; fail where it is not in time."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.01)


@contextmanager
def uvicorn_serving(
    app: Any,  # noqa: ANN401 - any ASGI application
    *,
    lifespan: str = "auto",
    http: Any = "httptools",  # noqa: ANN401 - a protocol, or the name of one
) -> Iterator[int]:
    """Serve an application with uvicorn, in a thread; yield the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        config = uvicorn.Config(
            app,
            loop="uvloop",
            http=http,
            lifespan=lifespan,  # type: ignore[arg-type] # a Literal
            log_config=None,
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
