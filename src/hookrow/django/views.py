"""The endpoint as a Django view: one for WSGI and ASGI, for the secret is all that it asks for."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.core.handlers.wsgi import WSGIRequest
from django.db import connections
from django.db.transaction import non_atomic_requests
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from hookrow import wsgi
from hookrow.django.conf import conf
from hookrow.django.receiver import receiver
from hookrow.errors import ConfigurationError
from hookrow.http import LARGEST_BODY, Head, Request, Response, refuse
from hookrow.notification import Refusal
from hookrow.promise import Promise
from hookrow.quiet import Quiet
from hookrow.receiver import ENDPOINT
from hookrow.request_id import HEADER, request_id

_quiet = Quiet()


@csrf_exempt
@login_not_required
def webhooks(request: HttpRequest) -> HttpResponse:
    """Answer a notification, whatever of a transaction, login or form the project asks for.

    On WSGI nothing of the body is read before the secret is judged. On ASGI Django has
    read it all by then.
    """
    # That the path is ours, wherever it is mounted, the URLconf has found.
    head = head_of(request, ENDPOINT)
    return sent(_answer(request, head), head)


for _alias in connections:
    non_atomic_requests(using=_alias)(webhooks)


def sent(response: Response, head: Head) -> HttpResponse:
    """Return a response as Django sends it."""
    more = {"Content-Length": str(len(response.body)), HEADER: head.request_id}
    return HttpResponse(response.body, status=response.status, headers=more | {**response.headers})


def head_of(request: HttpRequest, path: str, root: str = "") -> Head:
    """Return the head of a request, at a path that the URLconf has found it to be at."""
    headers = [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in request.headers.items()
    ]
    query = request.META.get("QUERY_STRING", "")
    secure = request.is_secure()
    return Head(request.method or "", path, headers, root, query, secure, request_id(headers))


def _answer(request: HttpRequest, head: Head) -> Response:
    try:
        handler = receiver()
    except ConfigurationError as error:
        _quiet.error("Answering 503: the settings cannot work. %s", error)
        return refuse(Refusal.UNAVAILABLE)
    refusal = handler.admit(head)
    if refusal is not None:
        return refusal
    body = _body(request, head)
    if isinstance(body, Refusal):
        return handler.refuse(head, body)
    if connections[conf.database].in_atomic_block:  # a test's, whose rows no other thread sees
        return handler.answer(Request(head, body))
    if not conf.group_commit:
        handler.start()
        return handler.answer(Request(head, body))
    answer = handler(Request(head, body))
    return answer.result() if isinstance(answer, Promise) else answer


def _body(request: HttpRequest, head: Head) -> bytes | Refusal:
    """Read the body, under no limit of the project's, or return why it is refused.

    What a middleware has read already Django gives once more.
    """
    # Django's stubs leave out what alone tells.
    if isinstance(request, WSGIRequest) and not request._read_started:  # type: ignore[attr-defined] # noqa: SLF001
        return wsgi.body(head, request.environ)
    body: bytes = request.read(LARGEST_BODY + 1)
    return Refusal.TOO_LARGE if len(body) > LARGEST_BODY else body
