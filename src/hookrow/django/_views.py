"""The endpoint: one Django view for WSGI and ASGI, whose only access check is the secret."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from django.contrib.auth.decorators import login_not_required
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, HttpResponse, RawPostDataException, UnreadablePostError
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from hookrow._core.notification import Refusal
from hookrow._environ import read_input, request_headers
from hookrow._http import (
    ENDPOINT,
    REQUEST_ID_HEADER,
    RETRY_LATER,
    BodyReader,
    Request,
    RequestHead,
    Response,
    request_id,
)
from hookrow.django._conf import conf
from hookrow.django._receiver import receiver
from hookrow.errors import ConfigurationError

logger = logging.getLogger("hookrow")


NOT_CONFIGURED = "Returned 503 because of the settings: %s"
"""The log line of a request that the settings do not allow to process."""

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


def outside_transactions(view: View) -> View:
    """Exempt a view from ATOMIC_REQUESTS of every database; Django exempts one at a time."""
    for alias in connections:
        non_atomic_requests(using=alias)(view)
    return view


@outside_transactions
@csrf_exempt
@login_not_required
def webhooks(request: HttpRequest, name: str | None = None) -> HttpResponse:
    """Respond to a notification, outside the transaction of `ATOMIC_REQUESTS`.

    `name` is that of an entry of the receiver, which is in the path.

    On WSGI, the secret is checked before the body is read. On ASGI, Django reads the body first.
    """
    # The URLconf has checked the path below its mount path.
    head = head_of(request, ENDPOINT if name is None else f"{ENDPOINT}/{name}")
    return django_response(_respond(request, head), head)


def django_response(response: Response, head: RequestHead) -> HttpResponse:
    """Convert a response to a Django response; that to HEAD has no body."""
    headers = {"Content-Length": str(len(response.body)), REQUEST_ID_HEADER: head.request_id}
    headers |= response.headers
    content = b"" if head.method == "HEAD" else response.body
    return HttpResponse(content, status=response.status, headers=headers)


def head_of(request: HttpRequest, path: str, root: str = "") -> RequestHead:
    """Return the head of a request for `path`, mounted at `root`."""
    headers = request_headers(request.META)
    query = request.META.get("QUERY_STRING", "")
    return RequestHead(request.method or "", path, headers, root, query, request_id(headers))


def read_body(request: HttpRequest, body: BodyReader) -> bytes | Refusal:
    """Read a body, without the project's limits; return it, or the reason to refuse it."""
    # No public attribute shows whether a middleware has read from the body.
    is_untouched: bool = not request._read_started  # type: ignore[attr-defined] # noqa: SLF001
    # Without a declared length, Django returns an empty body on WSGI.
    if isinstance(request, WSGIRequest) and (is_untouched or body.declared is None):
        return read_input(body, request.environ)
    try:
        # `request.body` would apply DATA_UPLOAD_MAX_MEMORY_SIZE to a body that it has not read yet.
        read = request.read(body.most + 1) if is_untouched else request.body
    except RawPostDataException:
        read = b""  # the middleware has read from the stream, and Django keeps no copy
    except UnreadablePostError:
        return Refusal.TIMED_OUT
    body.add(read)
    return body.end()


def _respond(request: HttpRequest, head: RequestHead) -> Response:
    try:
        handler = receiver()
    except ConfigurationError as error:
        logger.error(NOT_CONFIGURED, error)
        return RETRY_LATER
    refusal = handler.admit(head)
    if refusal is not None:
        return refusal
    body = read_body(request, BodyReader(head, handler.max_body(head)))
    if isinstance(body, Refusal):
        return handler.refuse(head, body)
    admitted = Request(head, body)
    if connections[
        conf.database
    ].in_atomic_block:  # a test's transaction, whose rows no other thread sees
        return handler.record_directly(admitted)
    if not conf.group_commit:
        handler.start()
        return handler.record_directly(admitted)
    return handler(admitted)
