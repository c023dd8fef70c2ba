"""FastAPI: the endpoint as a router, for `app.include_router`, shown on the OpenAPI page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from http import HTTPMethod
from typing import Any

from hookrow.asgi import ASGI, Message, Receive, Scope, Send
from hookrow.core.log_entry import RECORD_TYPES
from hookrow.core.notification import Refusal
from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT, Handler

try:
    from fastapi import APIRouter, Request
    from fastapi.responses import PlainTextResponse, Response
    from starlette.requests import ClientDisconnect
except ModuleNotFoundError as error:
    raise ConfigurationError("hookrow.fastapi needs FastAPI: pip install fastapi") from error

_REQUEST: Mapping[str, Any] = {
    "parameters": [
        {
            "name": "X-Provider-Secret",
            "in": "header",
            "required": True,
            "description": "The secret that the provider was given.",
            "schema": {"type": "string"},
        }
    ],
    "requestBody": {
        "required": True,
        "description": "One notification, as the provider writes it.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["RecordType", "Recipient"],
                    "properties": {
                        "RecordType": {"enum": [*dict.fromkeys(RECORD_TYPES.values())]},
                        "Recipient": {"type": "string"},
                        "MessageID": {"type": ["string", "null"]},
                        "DeliveredAt": {"type": "string", "format": "date-time"},
                        "ReceivedAt": {"type": "string", "format": "date-time"},
                        "ChangedAt": {"type": "string", "format": "date-time"},
                        "SuppressSending": {"type": "boolean"},
                        "SuppressionReason": {"type": ["string", "null"]},
                    },
                }
            }
        },
    },
}


def router(receiver: Handler) -> APIRouter:
    """Return what `app.include_router(router(receiver), prefix="/mail")` takes.

    The prefix is the mount: the receiver has no `mount_path`. All answers are the
    receiver's own, and FastAPI reads no body. Dependencies of the host come first.
    """
    app = ASGI(receiver)

    async def webhook(request: Request) -> Response:
        """Record a notification of the email provider."""
        return _Answer(app, request)

    made = APIRouter()
    made.add_api_route(
        ENDPOINT,
        webhook,
        methods=["POST"],
        response_class=PlainTextResponse,
        responses=_answers(),
        openapi_extra=dict(_REQUEST),
    )
    others: list[str] = [method for method in HTTPMethod if method is not HTTPMethod.POST]
    made.add_api_route(ENDPOINT, webhook, methods=others, include_in_schema=False)
    made.add_api_route(f"{ENDPOINT}/", webhook, methods=[*HTTPMethod], include_in_schema=False)
    return made


class _Answer(Response):
    """A response that lets the ASGI application answer, as if it were mounted at the prefix."""

    def __init__(self, webhook: ASGI, request: Request) -> None:
        super().__init__()
        self._webhook = webhook
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and then do what the host's dependencies left to be done."""
        del receive
        scope = {**scope, "path": ENDPOINT, "root_path": ""}
        await self._webhook(scope, _receiving(self._request), send)
        if self.background is not None:
            await self.background()


def _receiving(request: Request) -> Receive:
    """Return what brings the body piece by piece, from its beginning if a dependency read it."""
    pieces = request.stream()

    async def receive() -> Message:
        try:
            piece = await anext(pieces, None)
        except ClientDisconnect:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    return receive


def _answers() -> dict[int | str, dict[str, Any]]:
    """Return what is answered, by status, as FastAPI's `responses` has it."""
    texts = defaultdict(list)
    for refusal in Refusal:
        if refusal not in _ELSEWHERE:
            texts[refusal.status].append(refusal.text)
    return {
        200: {"description": "It is recorded and committed."},
        **{
            status: {"description": " | ".join(dict.fromkeys(told)), "content": _TEXT}
            for status, told in sorted(texts.items())
        },
    }


_ELSEWHERE = (Refusal.NO_SUCH_PATH, Refusal.METHOD_NOT_ALLOWED, Refusal.LENGTH_REQUIRED)
"""What a POST to the endpoint is never answered on ASGI."""

_TEXT = {"text/plain": {"schema": {"type": "string"}}}
