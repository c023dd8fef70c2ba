"""The endpoint as a Django view: one for WSGI and ASGI, for the secret is all that it asks for."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from django.contrib.auth.decorators import login_not_required
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from hookrow.django.conf import conf
from hookrow.django.receiving import receiver
from hookrow.http import LARGEST_BODY, Head, Request, Response, plain, refuse
from hookrow.notification import Refusal
from hookrow.receiver import ENDPOINT


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


@csrf_exempt
@login_not_required
def webhooks(request: HttpRequest) -> HttpResponse:
    """Answer a notification, whatever of a transaction, login or form the project asks for.

    On WSGI nothing of the body is read before the secret is judged. On ASGI Django has
    read it all by then.
    """
    response = _answer(request)
    length = {"Content-Length": str(len(response.body))}
    return HttpResponse(
        response.body, status=response.status, headers=length | {**response.headers}
    )


for _alias in connections:
    non_atomic_requests(using=_alias)(webhooks)


def _answer(request: HttpRequest) -> Response:
    handler, head = receiver(), _head(request)
    refusal = handler.admit(head)
    if refusal is not None:
        return refusal
    body = _body(request, head)
    if isinstance(body, Response):
        return body
    if not conf.group_commit:
        handler.start()
        return handler.answer(Request(head, body))
    answer = handler(Request(head, body))
    return answer.result() if isinstance(answer, Future) else answer


def _head(request: HttpRequest) -> Head:
    """Return the head. That the path is ours, wherever it is mounted, the URLconf has found."""
    headers = [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
    ]
    return Head(request.method or "", ENDPOINT, headers)


def _body(request: HttpRequest, head: Head) -> bytes | Response:
    """Read the body, or refuse it: one that is too long, that breaks off, or of unknown length.

    Read as a stream, it is under no limit of the project's.
    """
    stream: _Stream = request
    length = _declared(head)
    if length > LARGEST_BODY:
        return refuse(Refusal.TOO_LARGE)
    if isinstance(request, WSGIRequest) and head.header("transfer-encoding") is not None:
        if not request.environ.get("wsgi.input_terminated"):
            return plain(411, "Length Required")
        stream, length = request.environ["wsgi.input"], 0
    try:
        body = _read(stream)
    except OSError:  # the client is gone
        return refuse(Refusal.TIMED_OUT)
    if len(body) > LARGEST_BODY:
        return refuse(Refusal.TOO_LARGE)
    return refuse(Refusal.TIMED_OUT) if len(body) < length else body


def _declared(head: Head) -> int:
    """Return the length that the head declares, 0 where it declares none."""
    try:
        return int(head.header("content-length") or 0)
    except ValueError:  # no number, or too long for Python: what comes is counted anyway
        return 0


def _read(stream: _Stream) -> bytes:
    """Read to the end, though little more than may be."""
    body = bytearray()
    while part := stream.read(LARGEST_BODY + 1 - len(body)):
        body += part
        if len(body) > LARGEST_BODY:
            break
    return bytes(body)
