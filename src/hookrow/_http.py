"""The parts of HTTP that hosts and handlers share: request heads, requests, responses.

No server and no framework belongs here: host modules such as `asgi` convert their own types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from random import getrandbits
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import msgspec

from hookrow._arguments import has_members, reject
from hookrow._core.notification import Outcome, Recorded, Refusal
from hookrow.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

ENDPOINT = "/provider/webhooks"
"""The path of the endpoint below its mount path."""

MAX_BODY = 1024 * 1024
"""The largest size of a body, in bytes, unless a provider names another one; a longer one results
in 413."""

BODY_TIMEOUT = 15.0
"""Seconds within which a body must end; otherwise, it results in 408."""

SECRET_HEADER = "X-Provider-Secret"  # noqa: S105 - a name
"""The header that contains the secret, unless a provider names another one."""

ADMITTED = "hookrow.admitted"
"""The key of an extension in ASGI's scope. Its `call` is called when a request has been admitted
and is complete, so that a server knows which connections to close last."""

PROBE_AGENT = b"Postmark (hookrow check)"
"""The User-Agent of the requests by which hookrow checks a webhook."""

REQUEST_ID_HEADER = "X-Request-Id"
"""The header with the request's id: in requests, if a proxy assigns ids, and in all responses."""

REQUEST_ID_NAME = REQUEST_ID_HEADER.lower().encode()
"""The same name as a key, in the form of ASGI and of parsers."""

_SAFE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestHead(msgspec.Struct, frozen=True):
    """Everything in a request except its body.

    `path` is the decoded path that the host received, `root` the part of it that belongs to the
    host's mount (ASGI's `root_path`, WSGI's `SCRIPT_NAME`), and `query` the query string, not
    decoded. Header values are the received bytes. `request_id` identifies the request in
    log lines and in the response. `context` holds values that a handler computes in `admit` and
    reuses in its call, keyed by the handler itself.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    root: str = ""
    query: str = ""
    request_id: str = ""
    context: dict[object, Any] = msgspec.field(default_factory=dict)

    def is_at(self, endpoint: str) -> bool:
        """Return whether the path is the endpoint's, with or without a trailing slash.

        If the root is a prefix of the path, it is removed. A host behind a proxy may have a root
        that is not a prefix (FastAPI's `root_path`); then the end of the path is compared.
        """
        path = self.path.removesuffix("/")
        root = self.root.rstrip("/")
        if f"{path}/".startswith(f"{root}/"):
            return path.removeprefix(root) == endpoint
        return path.endswith(endpoint)

    def header(self, name: str) -> bytes | None:
        """Return the value of a header; the values of a repeated header are joined with a comma.

        Whitespace around a value is removed. Returns None if there is no such header.
        RFC 9110, sections 5.3 and 5.5.
        """
        values = header_values(self.headers, name.lower().encode())
        return b", ".join(values) if values else None


def header_values(headers: Sequence[tuple[bytes, bytes]], lowered: bytes) -> Sequence[bytes]:
    """Return the values of the headers with a name, without whitespace around them.

    The name, in lower case, may be in any case in the headers.
    """
    values = []  # not a comprehension, which is a function call until Python 3.12
    for key, value in headers:
        if key.lower() == lowered:
            values.append(value.strip(b" \t"))
    return values


class Request(msgspec.Struct, frozen=True):
    """A head and the complete body, in bytes."""

    head: RequestHead
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """A status, a body of text in UTF-8, and headers.

    If `stream` is set, it yields a body of unknown length in chunks, some of which may be empty.
    The host reads a chunk when the client has received the previous ones, and stops if the client
    disconnects. Reading a chunk may block, and may raise an exception.
    """

    status: int
    body: bytes
    headers: Mapping[str, str]
    stream: Iterator[bytes] | None = None


class Handler(Protocol):
    """The base class of handlers, which respond to requests on any host.

    A host calls `admit` before it reads the body. `admit` and `__call__` may block: a host with an
    event loop calls them in a thread. A mounted handler returns errors as responses.
    """

    def admit(self, head: RequestHead) -> Response | None:
        """Return None to admit a request, or the response that refuses it."""

    def max_body(self, head: RequestHead) -> int:
        """Return the largest size of the body of an admitted request, in bytes: 1 MiB by default.

        A host reads at most one byte more, and refuses a longer body.
        """
        del head
        return MAX_BODY

    def __call__(self, request: Request) -> Response:
        """Return the response to an admitted request; its head is the one that was admitted."""

    def refuse(self, head: RequestHead, refusal: Refusal) -> Response:
        """Return the response to an admitted request whose body the host refuses."""
        del head
        return refuse(refusal)


@runtime_checkable
class LoopHandler(Handler, Protocol):
    """A handler that an event loop calls directly, because `admit` and `submit` never block."""

    def submit(
        self, request: Request, loop: AbstractEventLoop, reply: Callable[[Response], object]
    ) -> None:
        """Call `reply` with the response exactly once, now or later, in the thread of the loop."""


def check_handler(host: str, handler: object) -> None:
    """Raise `ConfigurationError` for an object that `host`, such as "ASGI", cannot mount."""
    if not (callable(handler) and has_members(handler, ("admit",))):
        reject(
            f"The argument of {host}()", "a receiver or a dashboard", handler, f"{host}(receiver)"
        )


def reject_call(name: str, handler: Handler, *arguments: Any) -> Response:  # noqa: ANN401 - of any host
    """Raise `ConfigurationError` for a handler that a server or framework calls as an application.

    The message shows how to mount the handler, which is called `name` there. A server that starts
    its application (ASGI's lifespan) would ignore an exception, so it receives an application that
    makes the start fail, in place of a response.
    """
    first = arguments[0]
    scope = first.get("type") if isinstance(first, Mapping) else None
    if type(first).__module__.startswith("django."):
        module = "hookrow.django.urls" if name == "receiver" else f"hookrow.django.{name}"
        line = f'path("mail/", include("{module}"))'
    elif scope == "lifespan":
        line = f"app = ASGI({name}), with `from hookrow.asgi import ASGI`"
    elif scope is not None:
        line = f'app.mount("/mail", ASGI({name})), with `from hookrow.asgi import ASGI`'
    elif isinstance(first, Mapping) and "REQUEST_METHOD" in first:  # PEP 3333
        line = f"WSGI({name}), with `from hookrow.wsgi import WSGI`"
    else:
        line = f"hookrow.asgi.ASGI({name}) or hookrow.wsgi.WSGI({name})"
    text = f"A {type(handler).__name__} is not an application of a framework: write {line}."
    if scope == "lifespan":
        _, *rest = arguments
        fail = partial(_fail_start, text)
        # A server may make the two calls of ASGI 2.
        return cast("Response", fail(*rest) if rest else fail)
    raise ConfigurationError(text)


async def _fail_start(text: str, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": text})


def endpoint_path(mount_path: str) -> str:
    """Return the path of the endpoint below a mount path, which may begin or end with slashes.

    Raises `ConfigurationError` if no request can have the mount path.
    """
    if not isinstance(mount_path, str):
        reject("mount_path", "a string", mount_path, 'mount_path="/mail"')
    mount = mount_path.strip("/")
    if any(letter in "?#%" or letter.isspace() for letter in mount):
        raise ConfigurationError(
            f"The mount path {mount_path!r} is not valid: use a path such as /mail."
        )
    return f"/{mount}{ENDPOINT}" if mount else ENDPOINT


def request_id(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the id in the request's header if it is short and safe to log, otherwise a new id.

    An id is not a secret and does not authenticate the request.
    """
    ids = header_values(headers, REQUEST_ID_NAME)
    if len(ids) == 1 and _SAFE_ID.fullmatch(ids[0]):
        return ids[0].decode()
    return f"{getrandbits(64):016x}"


def respond(outcome: Outcome) -> Response:
    """Return the response that reports an outcome."""
    if isinstance(outcome, Recorded):
        return RECORDED
    return plain(outcome.refusal.status, outcome.text, outcome.refusal.headers)


def refuse(refusal: Refusal) -> Response:
    """Return the response for a refusal whose text has no placeholders."""
    return respond(refusal.refused())


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an immutable response with plain text in UTF-8."""
    all_headers = {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    return Response(status, text.encode(), MappingProxyType(all_headers))


def declared_length(head: RequestHead) -> int | None:
    """Return the length of the body that the head declares, in bytes, or None if it declares none.

    A length consists of digits (RFC 9110, section 8.6). A server should reject any other value
    (RFC 9112, section 6.3); here it counts as absent.
    """
    digits = head.header("content-length") or b""
    if not digits.isdigit():
        return None
    # Python refuses to parse thousands of digits; a number of 20 digits is too large anyway.
    return int(digits.lstrip(b"0")[:20] or b"0")


class BodyReader:
    """A body while a host reads it: decides for all hosts when to stop, and what to refuse.

    A host adds each chunk, until the body ends or there is a `refusal`. It reads nothing if there
    is one from the beginning, because of the declared length. The host itself limits the time to
    `BODY_TIMEOUT`, and refuses a body with `Refusal.TIMED_OUT` if the client disconnects.
    """

    refusal: Refusal | None
    """Why the body is refused before its end: it is over `most` bytes, as declared or as read."""

    def __init__(self, head: RequestHead, most: int) -> None:
        self._head = head
        self.most = most
        """The largest size of the body, in bytes."""
        self._read = bytearray()
        self.declared = declared_length(head)
        """The declared length in bytes, or None."""
        too_large = self.declared is not None and self.declared > most
        self.refusal = Refusal.TOO_LARGE if too_large else None

    @property
    def is_chunked(self) -> bool:
        """Whether the body has no declared length, but a transfer encoding."""
        return self.declared is None and self._head.header("transfer-encoding") is not None

    @property
    def left(self) -> int:
        """The bytes up to the declared length or, without one, up to a size that is refused."""
        end = self.most + 1 if self.declared is None else self.declared
        return end - len(self._read)

    def add(self, chunk: bytes) -> None:
        """Add a chunk.

        A body may be longer than declared, because a middleware may have decompressed it.
        """
        self._read += chunk
        if len(self._read) > self.most:
            self.refusal = Refusal.TOO_LARGE

    def end(self) -> bytes | Refusal:
        """Return the body, which the host has read to its end, or the reason to refuse it.

        A body that is too large results in 413. A body that is shorter than declared results in
        408, as does an empty chunked body, because no provider sends one: the rest was lost on the
        way, or a middleware of the host has read it. The provider repeats a notification after a
        408, but never after a 422.
        """
        if self.refusal is not None:
            return self.refusal
        size = len(self._read)
        is_cut = size < (self.declared or 0) or (not size and self.is_chunked)
        return Refusal.TIMED_OUT if is_cut else bytes(self._read)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's loopback interface: by name, or by address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


RECORDED = plain(200, "")
"""The response to a recorded notification."""

RETRY_LATER = refuse(Refusal.UNAVAILABLE)
"""The response to a notification that cannot be recorded now."""
