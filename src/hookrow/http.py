"""What a host hands to a handler and gets back: the little of HTTP that both need.

No server, no framework: `asgi` and the other host modules translate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from hookrow.core.notification import Outcome, Recorded, Refusal
from hookrow.promise import Promise

LARGEST_BODY = 1024 * 1024
"""In bytes; a longer body is answered 413."""

SLOWEST_BODY = 15.0
"""In seconds; a body that takes longer to come is answered 408."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What is known of a request before its body.

    `path` is the decoded path as the host saw it, `root` the part of it that the
    host's mount took (ASGI's `root_path`, WSGI's `SCRIPT_NAME`). `query` is what came
    behind the question mark, not decoded. Header values are bytes as they came.
    `secure` is whether it came by https, as far as the host knows.
    `request_id` is what the log and the answer call it. `context` holds what a handler
    determines in `admit` and uses again in its call, under the handler itself as the key.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    root: str = ""
    query: str = ""
    secure: bool = False
    request_id: str = field(default="", compare=False)
    context: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def is_at(self, endpoint: str) -> bool:
        """Tell whether the request is for the endpoint, with or without a slash at its end.

        The root is taken off where it begins the path. A host behind a proxy may
        name a root that does not (FastAPI's `root_path`): there the tail decides.
        """
        path, root = self.path.removesuffix("/"), self.root.rstrip("/")
        if f"{path}/".startswith(f"{root}/"):
            return path.removeprefix(root) == endpoint
        return path.endswith(endpoint)

    def header(self, name: str) -> bytes | None:
        """Return a header's value, joined with a comma where it comes more than once.

        White space around a value does not belong to it. None where there is no
        such header. RFC 9110, sections 5.3 and 5.5.
        """
        wanted = name.lower().encode()
        values = [value.strip(b" \t") for key, value in self.headers if key.lower() == wanted]
        return b", ".join(values) if values else None


@dataclass(frozen=True, slots=True)
class Request:
    """A head and the whole body, in bytes."""

    head: RequestHead
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back; the body is text in UTF-8."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Handler(Protocol):
    """Answers requests, whatever the host: the receiver is one.

    A host asks it to `admit` the head before it reads the body. A `blocking`
    handler may take its time in both calls; a host with an event loop runs it in
    a thread. One that has a method `refuse`, too, as the receiver has, is asked by it for
    the response to a request whose body the host refuses.
    """

    @property
    def blocking(self) -> bool:
        """Whether a call may wait, for a database or anything else."""

    def admit(self, head: RequestHead) -> Response | Promise[Response] | None:
        """Refuse a request by its head alone, at once or by a promise, or return None to take it.

        The call for the same request gets the same head.
        """

    def __call__(self, request: Request) -> Response | Promise[Response]:
        """Answer a request, at once or by a promise, and by no other future. Never raises."""


def respond(outcome: Outcome) -> Response:
    """Return the response that tells how a notification ended."""
    if isinstance(outcome, Recorded):
        return _RECORDED
    return plain(outcome.refusal.status, outcome.text, outcome.refusal.headers)


def refuse(refusal: Refusal) -> Response:
    """Return the response of a refusal whose text names nobody."""
    return respond(refusal.refused())


def plain(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of plain text in UTF-8, which may be shared: nothing of it can change."""
    sent = {"Content-Type": "text/plain; charset=utf-8", **(headers or {})}
    return Response(status, text.encode(), MappingProxyType(sent))


def declared_length(head: RequestHead) -> int | None:
    """Return how long the head says that the body is, in bytes; None where it says no length.

    A length is digits and nothing else (RFC 9110, section 8.6). What is none a server
    should not have let in (RFC 9112, section 6.3); here it counts as absent.
    """
    digits = head.header("content-length") or b""
    if not digits.isdigit():
        return None
    # Python reads no number of thousands of digits; cut, it is too large all the same.
    return int(digits.lstrip(b"0")[:20] or b"0")


def oversized(head: RequestHead) -> bool:
    """Tell whether the head declares a length for the body that is refused."""
    length = declared_length(head)
    return length is not None and length > LARGEST_BODY


def refuse_body(handler: Handler, head: RequestHead, refusal: Refusal) -> Response:
    """Return the response for a body that the host refuses, which the handler may hear of."""
    respond_by: Callable[[RequestHead, Refusal], Response] | None = getattr(handler, "refuse", None)
    return respond_by(head, refusal) if respond_by is not None else refuse(refusal)


_RECORDED = plain(200, "")
