"""Resend: a secret, events, and the signatures of requests."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from standardwebhooks import Webhook

from hookrow import Request, RequestHead
from hookrow.providers.resend import Resend
from senders.sender import ADA, Sender
from wire import ENDPOINT

AT = datetime(2026, 11, 22, 8, 30, 15, 126000, tzinfo=UTC)
SECRET = f"whsec_{b64encode(b'a key of the webhook').decode()}"
ID = "msg_1"
ADAS = (ADA, "m-ada")


def event(type_: str = "email.delivered", **data: object) -> dict[str, Any]:
    given = {"email_id": "m-ada", "to": [ADA], "subject": "Hello", **data}
    return {"type": type_, "created_at": "2026-11-22T08:30:15.126Z", "data": given}


def signed(
    body: bytes,
    *secrets: str,
    at: datetime | None = None,
    id_: str = ID,
    prefix: str = "svix",
    changed: Mapping[str, str] = MappingProxyType({}),
) -> Request:
    """Return a request with a signature by each secret, which the reference library makes."""
    at = at or datetime.now(UTC).replace(microsecond=0)
    signatures = [
        Webhook(each).sign(id_, at.replace(tzinfo=None), body.decode()) for each in secrets
    ]
    headers = {"id": id_, "timestamp": f"{at.timestamp():.0f}", "signature": " ".join(signatures)}
    given = {**headers, **changed}
    pairs = [(f"{prefix}-{name}".encode(), value.encode()) for name, value in given.items()]
    return Request(RequestHead("POST", ENDPOINT, pairs, request_id="r-1"), body)


def _pack(events: Sequence[Any]) -> bytes:
    [alone] = events
    return json.dumps(alone).encode()


def _opened(second: int) -> dict[str, Any]:
    return event("email.opened") | {"created_at": (AT + timedelta(seconds=second)).isoformat()}


def _sign(body: bytes) -> Request:
    """Return a request whose id is that of its body, as each event has an id."""
    return signed(body, SECRET, id_=f"msg_{sha256(body).hexdigest()}")


SENDER = Sender(
    construct=lambda: Resend(SECRET),
    message_id=ADAS[1],
    opened=_opened,
    unknown=event("email.renamed"),
    nobody=event(to=None),
    pack=_pack,
    sign=_sign,
)
