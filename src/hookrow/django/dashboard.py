"""The dashboard in a project: `path("mail/dashboard/", include("hookrow.django.dashboard"))`.

Staff users with `hookrow.view_notification` may open every page, including those with subscribers;
replaying and suppressing need the same permissions as in the admin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.admin.views.decorators import staff_member_required
from django.core.exceptions import PermissionDenied
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import NoReverseMatch, URLPattern, re_path, reverse
from django.views.decorators.csrf import csrf_exempt

from hookrow._core.notification import Refusal
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._http import (
    MAX_BODY,
    REQUEST_ID_HEADER,
    BodyReader,
    Request,
    RequestHead,
    Response,
    refuse,
)
from hookrow._receiver.entries import Parsers
from hookrow.dashboard import Dashboard
from hookrow.django._conf import conf
from hookrow.django._receiver import built_receiver, parsers, store
from hookrow.django._status import status_source
from hookrow.django._store import DjangoStore
from hookrow.django._views import django_response, head_of, outside_transactions, read_body

app_name = "hookrow-dashboard"


@outside_transactions
@csrf_exempt  # the dashboard itself checks the origin of forms
@staff_member_required
def _respond(request: HttpRequest, path: str) -> HttpResponse | StreamingHttpResponse:
    """Respond to a staff user who may view the log; `_allowed` lists the forms to submit."""
    user: Any = request.user
    if not user.has_perm("hookrow.view_notification"):
        raise PermissionDenied
    root = request.path.removesuffix(path).removesuffix("/")
    head = head_of(request, request.path, root)
    body = read_body(request, BodyReader(head, MAX_BODY))
    if isinstance(body, Refusal):
        return django_response(refuse(body), head)
    handler = _handler(store(), parsers(), keep_bodies=conf.keep_bodies)
    response = handler.respond(Request(head, body), user.get_username(), allowed=_allowed(user))
    if response.stream is None:
        return django_response(response, head)
    return _streamed(request, response, response.stream, head)


urlpatterns: list[URLPattern] = [re_path("^(?P<path>.*)$", _respond, name="dashboard")]


class _Dashboard(Dashboard):
    """Shows the command of the project."""

    _command = "python manage.py hookrow"


@lru_cache(maxsize=1)
def _handler(store: DjangoStore, parsers: Parsers, *, keep_bodies: bool) -> Dashboard:
    source = status_source(store, parsers, receiver=built_receiver)
    endpoint = None
    with suppress(NoReverseMatch):  # another process may have the endpoint
        endpoint = reverse("hookrow:webhooks")
    return _Dashboard(
        store,
        authorize=lambda _: False,
        providers=parsers,
        endpoint=endpoint,
        status=StatusReader(source),
        keep_bodies=keep_bodies,
    )


def _streamed(
    request: HttpRequest, response: Response, stream: Iterator[bytes], head: RequestHead
) -> StreamingHttpResponse:
    """Convert a response with a stream. On ASGI, Django would read a plain iterator at once."""
    chunks: Iterable[bytes] | AsyncIterator[bytes] = filter(None, stream)
    if head.method == "HEAD":
        chunks = ()
    elif not isinstance(request, WSGIRequest):
        chunks = _in_threads(stream)
    headers = {REQUEST_ID_HEADER: head.request_id, **response.headers}
    return StreamingHttpResponse(chunks, status=response.status, headers=headers)


async def _in_threads(stream: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Take each chunk of a stream in the thread of the request, which has its connections."""
    take = sync_to_async(partial(next, stream, None))
    while (chunk := await take()) is not None:
        yield chunk


def _allowed(user: Any) -> Collection[str]:  # noqa: ANN401 - the project's own
    """Return the pages whose forms the user may submit."""
    meta = store().mapping.models["subscribers"]._meta
    change = f"{meta.app_label}.change_{meta.model_name}"
    needed = {
        **dict.fromkeys(("notification", "parked"), "hookrow.replay_notification"),
        "subscriber": change,
        "dispatch": change,
    }
    return {page for page, permission in needed.items() if user.has_perm(permission)}
