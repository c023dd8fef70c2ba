"""Mailjet: credentials, and events."""

import json
from typing import Any

from basic_auth import authorized
from courier import NOON
from hookrow.providers.mailjet import Mailjet
from senders.sender import ADA, Sender

ID = "1152921504606846977"  # 2**60 + 1, which no float is


def event(type_: str, **fields: object) -> dict[str, Any]:
    """Return an event like the samples on Mailjet's page."""
    return {
        "event": type_,
        "time": int(NOON.timestamp()),
        "MessageID": int(ID),
        "Message_GUID": "1ab23cd4-e567-8901-2345-6789f0ab1c2d",
        "email": ADA,
        "mj_campaign_id": 7257,
        "mj_contact_id": 4,
        "customcampaign": "",
        "CustomID": "receipt-7",
        "Payload": "",
        **fields,
    }


CREDENTIALS = "hookrow:k7Vd9-of-the-tests"


SENDER = Sender(
    construct=lambda: Mailjet(CREDENTIALS),
    message_id=ID,
    opened=lambda second: event("open", time=int(NOON.timestamp()) + second),
    unknown=event("a new type"),
    nobody=event("sent", email=None),
    pack=lambda events: json.dumps(events).encode(),
    sign=lambda body: authorized(body, CREDENTIALS),
    is_batched=True,
)
