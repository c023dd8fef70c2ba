"""Postmark: a secret, and notifications."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from courier import NOON
from hookrow import Postmark, Request, RequestHead, testing
from senders.sender import ADA, Sender
from wire import ENDPOINT, SECRET

ID = "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"


def authorized(body: bytes) -> Request:
    return Request(RequestHead("POST", ENDPOINT, [(b"X-Provider-Secret", SECRET.encode())]), body)


def _pack(events: Sequence[Any]) -> bytes:
    [alone] = events
    return json.dumps(alone).encode()


SENDER = Sender(
    construct=lambda: Postmark(SECRET),
    message_id=ID,
    opened=lambda second: testing.opening(ADA, ID, at=NOON + timedelta(seconds=second)),
    unknown=testing.opening(ADA, ID, at=NOON) | {"RecordType": "Transient"},
    nobody=testing.delivery(ADA, ID, at=NOON) | {"Recipient": None},
    pack=_pack,
    sign=authorized,
)
