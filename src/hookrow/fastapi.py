"""FastAPI: the endpoint as a router for `app.include_router`, documented on the OpenAPI page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from http import HTTPMethod
from typing import Any

from hookrow._core.notification import Refusal
from hookrow._http import ENDPOINT
from hookrow._receiver.receiver import Receiver, check_receiver
from hookrow.asgi import ASGI, Message, Receive, Scope, Send
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Provider

try:
    from fastapi import APIRouter, Request
    from fastapi.responses import PlainTextResponse, Response
    from starlette.requests import ClientDisconnect
except ModuleNotFoundError as _error:
    if _error.name != "fastapi":
        raise
    raise ConfigurationError("hookrow.fastapi needs FastAPI: pip install fastapi") from _error


def router(receiver: Receiver) -> APIRouter:
    """Return a router for `app.include_router(router(receiver), prefix="/mail")`.

    The prefix is the mount path, so the receiver needs no `mount_path`. All responses are the
    receiver's, also those below the endpoint, where a path has the name of an entry. FastAPI does
    not read the body. Dependencies of the host run first.

    Raises `ConfigurationError` for anything but a receiver: mount other handlers with `ASGI`.
    """
    check_receiver("router", receiver)
    app = ASGI(receiver)

    async def webhook(request: Request) -> Response:
        """Record a notification of the email provider."""
        return _ReceiverResponse(app, request)

    api_router = APIRouter()
    for path, provider in _paths(receiver):
        api_router.add_api_route(
            path,
            webhook,
            methods=["POST"],
            response_class=PlainTextResponse,
            responses=_responses(),
            openapi_extra=_describe_request(provider),
        )
    # All other methods and paths, whose responses are the receiver's, too.
    every = [*HTTPMethod]
    for path in (ENDPOINT, f"{ENDPOINT}/", f"{ENDPOINT}/{{name}}", f"{ENDPOINT}/{{name}}/"):
        api_router.add_api_route(path, webhook, methods=every, include_in_schema=False)
    return api_router


def _paths(receiver: Receiver) -> Iterator[tuple[str, Provider]]:
    """Yield the paths of a receiver, and the provider that sends to each."""
    yield ENDPOINT, receiver.entries.default.provider
    for each in receiver.entries:
        if each.name is not None:
            yield f"{ENDPOINT}/{each.name}", each.provider


def _describe_request(provider: Provider) -> dict[str, Any]:
    """Return the OpenAPI description of requests: the header with the secret, and the body."""
    described: dict[str, Any] = {}
    schema = provider.body_schema()
    if schema is not None:
        described["requestBody"] = {
            "required": True,
            "description": "One notification, in the provider's format.",
            "content": {"application/json": {"schema": schema}},
        }
    if provider.header is not None:
        described["parameters"] = [
            {
                "name": provider.header,
                "in": "header",
                "required": True,
                "description": "The secret that is configured at the provider.",
                "schema": {"type": "string"},
            }
        ]
    return described


class _ReceiverResponse(Response):
    """Sends the ASGI application's response, as if the application were mounted at the prefix."""

    def __init__(self, webhook: ASGI, request: Request) -> None:
        super().__init__()
        self._webhook = webhook
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, then run the background tasks of the host's dependencies."""
        del receive
        _, endpoint, rest = scope["path"].rpartition(ENDPOINT)
        scope = {**scope, "path": endpoint + rest, "root_path": ""}
        await self._webhook(scope, _receive_body(self._request), send)
        if self.background is not None:
            await self.background()


def _receive_body(request: Request) -> Receive:
    """Return an ASGI `receive` for the whole body, even if a dependency has read it already.

    If the dependency has read `request.stream()`, which caches nothing, the body is empty.
    """
    chunks = request.stream()

    async def receive() -> Message:
        try:
            chunk = await anext(chunks, None)
        except ClientDisconnect:
            return {"type": "http.disconnect"}
        except RuntimeError:  # the stream is consumed
            chunk = None
        return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}

    return receive


def _responses() -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of all responses, by status, for FastAPI's `responses`."""
    texts = defaultdict(list)
    for refusal in Refusal:
        if refusal not in _IMPOSSIBLE:
            texts[refusal.status].append(refusal.text)
    return {
        200: {"description": "The notification is recorded and committed."},
        **{
            status: {"description": " | ".join(dict.fromkeys(each)), "content": _TEXT}
            for status, each in sorted(texts.items())
        },
    }


_IMPOSSIBLE = (Refusal.NO_SUCH_PATH, Refusal.METHOD_NOT_ALLOWED, Refusal.LENGTH_REQUIRED)
"""The refusals that a POST to the endpoint never receives on ASGI."""

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
