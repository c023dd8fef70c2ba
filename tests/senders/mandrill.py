"""Mandrill: a key and a URL, events, and the signatures of forms."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from hashlib import sha1
from hmac import new
from typing import Any
from urllib.parse import parse_qsl, urlencode

from hookrow import Request, RequestHead
from hookrow.providers.mandrill import Mandrill
from senders.sender import ADA, Sender
from wire import ENDPOINT

KEY = "hOB7v8ivGXd5Kn0eGvw3yA"
URL = "https://ada:secret@example.com/mail/provider/webhooks?a=b"
AT = datetime(2026, 11, 20, 10, 11, 12, tzinfo=UTC)
ID = "5f1c9a4b7d2e4c0f8a6b3d1e9c7f5a2b"


def event(type_: str, **fields: object) -> dict[str, Any]:
    message = {"ts": 1, "_id": ID, "email": ADA, "subject": "Ihre Quittung für März", "opens": []}
    return {"event": type_, "_id": ID, "ts": int(AT.timestamp()), "msg": message, **fields}


def body_of(events: object) -> bytes:
    return urlencode({"mandrill_events": json.dumps(events, ensure_ascii=False)}).encode()


def signature(body: bytes, key: str = KEY, url: str = URL) -> bytes:
    text, errors = body.decode(errors="replace"), "surrogateescape"
    pairs = sorted(parse_qsl(text, keep_blank_values=True, errors=errors))
    content = (url + "".join(name + value for name, value in pairs)).encode(errors=errors)
    return b64encode(new(key.encode(), content, sha1).digest())


def signed(body: bytes, key: str = KEY, url: str = URL) -> Request:
    headers = [
        (b"Content-Type", b"application/x-www-form-urlencoded"),
        (b"X-Mandrill-Signature", signature(body, key, url)),
    ]
    return Request(RequestHead("POST", ENDPOINT, headers), body)


SENDER = Sender(
    construct=lambda: Mandrill(KEY, url=URL),
    message_id=ID,
    opened=lambda second: event("open", ts=int(AT.timestamp()) + second),
    unknown=event("a new type"),
    nobody=event("delivered", msg={"_id": ID}),
    pack=body_of,
    sign=signed,
    is_batched=True,
)
