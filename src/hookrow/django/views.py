"""The endpoint: one Django view for WSGI and ASGI, whose only access check is the secret."""

from __future__ import annotations

import logging

from django.contrib.auth.decorators import login_not_required
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from hookrow import wsgi
from hookrow.core.notification import Refusal
from hookrow.django.conf import conf
from hookrow.django.receiver import receiver
from hookrow.errors import ConfigurationError
from hookrow.http import (
    ENDPOINT,
    MAX_BODY,
    REQUEST_ID_HEADER,
    Request,
    RequestHead,
    Response,
    refuse,
    request_id,
)

log = logging.getLogger("hookrow")


@csrf_exempt
@login_not_required
def webhooks(request: HttpRequest) -> HttpResponse:
    """Respond to a notification, outside the transaction of `ATOMIC_REQUESTS`.

    On WSGI, the secret is checked before the body is read. On ASGI, Django reads the body first.
    """
    # The URLconf has checked the path below its mount path.
    head = head_of(request, ENDPOINT)
    return django_response(_respond(request, head), head)


for _alias in connections:
    non_atomic_requests(using=_alias)(webhooks)


def django_response(response: Response, head: RequestHead) -> HttpResponse:
    """Convert a response to a Django response."""
    headers = {"Content-Length": str(len(response.body)), REQUEST_ID_HEADER: head.request_id}
    headers |= response.headers
    return HttpResponse(response.body, status=response.status, headers=headers)


def head_of(request: HttpRequest, path: str, root: str = "") -> RequestHead:
    """Return the head of a request; the URLconf has already checked the path."""
    headers = [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
    ]
    query = request.META.get("QUERY_STRING", "")
    return RequestHead(request.method or "", path, headers, root, query, request_id(headers))


def _respond(request: HttpRequest, head: RequestHead) -> Response:
    try:
        handler = receiver()
    except ConfigurationError as error:
        log.error("Returned 503 because of the settings: %s", error)
        return refuse(Refusal.UNAVAILABLE)
    refusal = handler.admit(head)
    if refusal is not None:
        return refusal
    body = _read_body(request, head)
    if isinstance(body, Refusal):
        return handler.refuse(head, body)
    admitted = Request(head, body)
    if connections[conf.database].in_atomic_block:  # of a test: no other thread sees its rows
        return handler.record_directly(admitted)
    if not conf.group_commit:
        handler.start()
        return handler.record_directly(admitted)
    return handler(admitted)


def _read_body(request: HttpRequest, head: RequestHead) -> bytes | Refusal:
    """Read the body, without the project's limits; return it, or the reason to refuse it."""
    # If a middleware has read the body, Django keeps it; no public attribute shows whether it has.
    if isinstance(request, WSGIRequest) and not request._read_started:  # type: ignore[attr-defined] # noqa: SLF001
        return wsgi.read_body(head, request.environ)
    body: bytes = request.read(MAX_BODY + 1)
    return Refusal.TOO_LARGE if len(body) > MAX_BODY else body
