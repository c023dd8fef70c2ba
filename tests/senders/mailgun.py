"""Mailgun: a key, events, and the signatures in the bodies of requests."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from hmac import new
from itertools import count
from typing import Any

from hookrow import Request, RequestHead
from hookrow.providers.mailgun import Mailgun
from senders.sender import ADA, Sender
from wire import ENDPOINT

KEY = "f3ab91c1d0e24bd0a5c3"
NOW = datetime(2026, 2, 12, 18, 26, 12, tzinfo=UTC)
AT = datetime(2026, 2, 12, 18, 26, 12, 250000, tzinfo=UTC)
ID = "<20260212182531.0d5ed3254c319957@mg.example.com>"
TOKENS = count(10**49)


def event(type_: str, **fields: object) -> dict[str, Any]:
    headers = {"message-id": ID.strip("<>"), "to": ADA, "subject": "Your receipt"}
    common = {"id": f"id-{type_}", "timestamp": AT.timestamp(), "log-level": "info"}
    sent = {"recipient": ADA, "message": {"headers": headers, "size": 341}, "tags": ["receipts"]}
    return {"event": type_, **common, **sent, **fields}


def block(*, key: str = KEY, at: datetime = NOW, name: str = "signature") -> dict[str, str]:
    """Return the signature of a request, with another token than that of any other."""
    timestamp, token = f"{at.timestamp():.0f}", f"{next(TOKENS)}"
    signature = new(key.encode(), (timestamp + token).encode(), sha256).hexdigest()
    return {"timestamp": timestamp, "token": token, name: signature}


def post(body: bytes, content_type: str = "application/json") -> Request:
    return Request(RequestHead("POST", ENDPOINT, [(b"Content-Type", content_type.encode())]), body)


def signed(fields: object, **options: Any) -> Request:  # noqa: ANN401 - of `block`
    return post(json.dumps({"signature": block(**options), "event-data": fields}).encode())


def with_block(body: bytes, **options: Any) -> Request:  # noqa: ANN401 - of `block`
    """Return a request with a JSON object, to which a signature is added; others have none."""
    if not body.startswith(b"{"):
        return post(body)
    signature = json.dumps({"signature": block(**options)}).encode()
    rest = body[1:] if body == b"{}" else b", " + body[1:]
    return post(signature[:-1] + rest)


def _pack(events: Sequence[Any]) -> bytes:
    [alone] = events
    return json.dumps({"event-data": alone}).encode()


SENDER = Sender(
    construct=lambda: Mailgun(KEY),
    message_id=ID,
    opened=lambda second: event("opened", timestamp=AT.timestamp() + second),
    unknown=event("a new type"),
    nobody=event("delivered", recipient=None),
    pack=_pack,
    sign=lambda body: with_block(body, at=datetime.now(UTC)),
)
