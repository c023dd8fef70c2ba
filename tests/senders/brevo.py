"""Brevo: credentials, and events."""

import json
from typing import Any

from basic_auth import authorized
from courier import NOON
from hookrow.providers.brevo import Brevo
from senders.sender import ADA, Sender

ID = "<202603041200.12345678901@smtp-relay.mailin.fr>"


def event(type_: str, **fields: object) -> dict[str, Any]:
    """Return an event like the samples on Brevo's page; its other times are in another zone."""
    seconds = int(NOON.timestamp())
    return {
        "event": type_,
        "email": ADA,
        "id": 4711,
        "date": "2026-03-04 13:00:00",
        "ts": seconds + 3600,
        "message-id": ID,
        "ts_event": seconds + 3600,
        "subject": "Your receipt",
        "X-Mailin-custom": "some_custom_header",
        "sending_ip": "192.0.2.7",
        "ts_epoch": seconds * 1000 + 123,
        "template_id": 22,
        "tags": ["receipts"],
        **fields,
    }


CREDENTIALS = "hookrow:Qz41x-of-the-tests"


SENDER = Sender(
    construct=lambda: Brevo(CREDENTIALS),
    message_id=ID,
    opened=lambda second: event("opened", ts_epoch=(int(NOON.timestamp()) + second) * 1000),
    unknown=event("a new type"),
    nobody=event("delivered", email=None),
    pack=lambda events: json.dumps(events).encode(),
    sign=lambda body: authorized(body, CREDENTIALS),
    is_batched=True,
)
