"""Drivers of hosts in this process: each sends a request to an application as its protocol does."""

import asyncio
import io
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import Any, Literal, TypeAlias
from wsgiref.util import setup_testing_defaults

from werkzeug.test import run_wsgi_app

import world
from hookrow import Postmark, Receiver
from hookrow.asgi import ASGI, Message, Scope
from hookrow.stores.memory import MemoryStore, MemoryTransaction
from wire import ENDPOINT, PATIENCE, SECRET, Answer, Connection, chunk, head

MOUNT = "/mail"

Headers: TypeAlias = Sequence[tuple[str, bytes]]

_ACCEPTED = [("X-Provider-Secret", SECRET.encode())]


@dataclass(frozen=True, slots=True)
class Body:
    """A body in pieces, after which it ends, the client waits, or the client leaves.

    It is chunked if no `length` is declared.
    """

    pieces: Sequence[bytes]
    length: int | None = None
    then: Literal["ends", "waits", "leaves"] = "ends"


class Host(ABC):
    """A host with an endpoint at `/mail/provider/webhooks`."""

    def ask(
        self,
        body: bytes | Body = b"",
        path: str = MOUNT + ENDPOINT,
        *,
        method: str = "POST",
        secret: str | bytes | None = SECRET,
        extra: Headers = (),
    ) -> Answer:
        """Send a request; return the answer."""
        if isinstance(body, bytes):
            body = Body([body], len(body))
        secret = secret.encode() if isinstance(secret, str) else secret
        declared = None if body.length is None else b"%d" % body.length
        headers = [
            ("Host", b"localhost"),
            *extra,
            *([] if secret is None else [("X-Provider-Secret", secret)]),
            ("Content-Length", declared) if declared else ("Transfer-Encoding", b"chunked"),
        ]
        return self.send(method, path, headers, body)

    @abstractmethod
    def send(self, method: str, path: str, headers: Headers, body: Body) -> Answer:
        """Send a request; return the answer, with the status 0 to a client that has left."""


class GatedStore(MemoryStore):
    """The world of the cases in memory; transactions wait until `gate` is set, as it is at first.

    `entered` is set when a transaction begins.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.entered = Event(), Event()
        self.reset()

    def reset(self) -> None:
        """Restore the rows, empty the log and open the gate."""
        world.fill(self)
        assert self.log is not None
        self.log.entries.clear()
        self.gate.set()
        self.entered.clear()

    @contextmanager
    def transaction(self, *, skip_locked: bool = False) -> Iterator[MemoryTransaction]:
        self.entered.set()
        assert self.gate.wait(PATIENCE)
        with super().transaction(skip_locked=skip_locked) as transaction:
            yield transaction

    @property
    def delivered_at(self) -> object:
        """The delivery time of the first dispatch."""
        return self.dispatches[1]["delivered_at"]


@contextmanager
def receiving(store: GatedStore) -> Iterator[Receiver]:
    """Open a receiver whose requests may wait for a long time."""
    receiver = Receiver(Postmark(SECRET), store, deadline=60)
    try:
        yield receiver
    finally:
        store.gate.set()
        receiver.close(PATIENCE)


class Webhook(ASGI):
    """An application in which the protocol of `hookrow serve` finds the receiver."""

    @property
    def webhook(self) -> ASGI:
        return self


def asgi_scope(
    path: str = ENDPOINT, headers: Headers = _ACCEPTED, *, method: str = "POST", root: str = ""
) -> dict[str, Any]:
    """Return the scope of a request as servers build it."""
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": root,
        "headers": [(name.lower().encode(), value) for name, value in headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("localhost", 80),
    }


def asgi_body(*pieces: bytes, whole: bool = True) -> list[Message]:
    """Return the messages of a body, which ends with the last one if it is whole."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = not whole
    return [*messages]


async def call_asgi(app: Any, messages: Iterable[Message], scope: Scope | None = None) -> Answer:  # noqa: ANN401 - any application
    """Call an application; return its answer. After it, nothing but the disconnect comes."""
    coming, sent, answered = iter(messages), list[Message](), asyncio.Event()

    async def receive() -> Message:
        if (message := next(coming, None)) is None:
            await answered.wait()
            return {"type": "http.disconnect"}
        return message

    async def send(message: Message) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            answered.set()

    async with asyncio.timeout(PATIENCE):
        await app(scope or asgi_scope(), receive, send)
    if not sent:
        return Answer(0, [], b"")
    headers = [(name.decode(), value.decode("latin-1")) for name, value in sent[0]["headers"]]
    assert all(name.islower() for name, _ in headers)  # as the specification says
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], headers, body)


@dataclass(slots=True)
class ASGIHost(Host):
    """An ASGI application; `root` is the part of the path which a mount outside of it took."""

    app: Any
    root: str = ""

    def send(self, method: str, path: str, headers: Headers, body: Body) -> Answer:
        messages = asgi_body(*body.pieces, whole=body.then == "ends")
        if body.then == "leaves":
            messages.append({"type": "http.disconnect"})
        scope = asgi_scope(path, headers, method=method, root=self.root)
        return asyncio.run(call_asgi(self.app, messages, scope))


def wsgi_environ(
    path: str = ENDPOINT, headers: Headers = _ACCEPTED, *, method: str = "POST", root: str = ""
) -> dict[str, Any]:
    """Return the environment of a request as servers build it, without its body."""
    path, _, query = path.partition("?")
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": root,
        "PATH_INFO": path.removeprefix(root),
        "QUERY_STRING": query,
    }
    for name, value in headers:
        variable = f"HTTP_{name}".upper().replace("-", "_").replace("HTTP_CONTENT_", "CONTENT_")
        text = value.decode("latin-1")
        environ[variable] = f"{environ[variable]},{text}" if variable in environ else text
    setup_testing_defaults(environ)
    return environ


def call_wsgi(app: Any, environ: dict[str, Any]) -> Answer:  # noqa: ANN401 - any WSGI application
    parts, status, headers = run_wsgi_app(app, environ, buffered=True)
    return Answer(int(status.partition(" ")[0]), headers.to_wsgi_list(), b"".join(parts))


@dataclass(slots=True)
class WSGIHost(Host):
    """A WSGI application; a body that does not end is read from a socket, as gunicorn's are."""

    app: Any
    root: str = ""

    def send(self, method: str, path: str, headers: Headers, body: Body) -> Answer:
        environ = wsgi_environ(path, headers, method=method, root=self.root)
        ours, theirs = socket.socketpair()
        with ours, theirs, ours.makefile("rb") as stream:
            if body.then == "waits":
                theirs.sendall(body.pieces[0])
                environ |= {"wsgi.input": stream, "gunicorn.socket": ours}
            else:
                environ["wsgi.input"] = io.BytesIO(b"".join(body.pieces))
                environ["wsgi.input_terminated"] = body.length is None
            return call_wsgi(self.app, environ)


@dataclass(slots=True)
class SocketHost(Host):
    """A server at a port of this machine."""

    port: int

    def send(self, method: str, path: str, headers: Headers, body: Body) -> Answer:
        lines = [name.encode() + b": " + value for name, value in headers[1:]]
        sent = b"".join(body.pieces)
        if body.length is None:
            sent = b"".join(chunk(piece) for piece in body.pieces if piece) + chunk(b"")
        with Connection(self.port) as connection:
            with suppress(ConnectionError):  # a server may respond and close before the end
                connection.send(head(path, method=method, secret=None, extra=lines) + sent)
            if body.then == "leaves":
                return Answer(0, [], b"")
            return connection.answer(of_head=method == "HEAD")
