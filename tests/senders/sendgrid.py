"""SendGrid: a key, events, and the signatures of requests."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from time import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hookrow import Request, RequestHead
from hookrow.providers.sendgrid import SendGrid
from senders.sender import ADA, Sender
from wire import ENDPOINT

ID = "14c5d75ce93Xk3dV0pTQzW"
AT = datetime(2026, 11, 20, 10, 11, 12, tzinfo=UTC)
SIGNATURE = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP = "X-Twilio-Email-Event-Webhook-Timestamp"


@cache
def key(owner: str = "SendGrid") -> ec.EllipticCurvePrivateKey:
    """Return the same key for an owner."""
    assert owner
    return ec.generate_private_key(ec.SECP256R1())


def der(private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None) -> bytes:
    public = (private or key()).public_key()
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def event(type_: str, **changed: object) -> dict[str, object]:
    return {
        "email": ADA,
        "timestamp": int(AT.timestamp()),
        "smtp-id": f"<{ID}@geopod-ismtpd-11>",
        "event": type_,
        "category": ["receipts"],
        "sg_event_id": f"ZXZlbnQ-{type_}",
        "sg_message_id": f"{ID}.recvd-6b9f-abcde-1-6740.0",
        **changed,
    }


def signed(
    body: bytes, private: ec.EllipticCurvePrivateKey | None = None, at: object = None
) -> Request:
    timestamp = str(int(time()) if at is None else at)
    content = timestamp.encode() + body
    signature = (private or key()).sign(content, ec.ECDSA(hashes.SHA256()))
    headers = {SIGNATURE: b64encode(signature).decode(), TIMESTAMP: timestamp}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request(RequestHead("POST", ENDPOINT, pairs), body)


SENDER = Sender(
    construct=lambda: SendGrid(der()),
    message_id=ID,
    opened=lambda second: event("open", timestamp=int(AT.timestamp()) + second),
    unknown=event("a new type"),
    nobody=event("delivered", email=None),
    pack=lambda events: json.dumps(events).encode(),
    sign=signed,
    is_batched=True,
)
