"""The sentence that explains a log entry: why it ended so, how often it came, what is next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hookrow.entry import Ending, Logged
from hookrow.story import story

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
LATER = {"ended_at": NOON + timedelta(seconds=64), "attempts": 3}
RETRIED = {**LATER, "retry_at": datetime(2026, 3, 4, 12, 3, 8, tzinfo=UTC)}
NO_DISPATCH = Ending.DISPATCH_NOT_FOUND


@pytest.mark.parametrize(
    ("first", "last", "fields", "sentence"),
    [
        (Ending.RECORDED, Ending.RECORDED, {}, "1 attempt; recorded within 20 ms"),
        (
            *(NO_DISPATCH, Ending.RECORDED, LATER),
            "no dispatch had the id m-1 when it came; 3 attempts; recorded 64 s later",
        ),
        (
            *(Ending.SUBSCRIBER_NOT_FOUND, NO_DISPATCH, RETRIED),
            (
                "nobody had the address ada@example.com when it came; 3 attempts; 64 s later "
                "no dispatch had the id m-1; tried again 2026-03-04 12:03:08Z"
            ),
        ),
        (
            *(NO_DISPATCH, NO_DISPATCH, {"message_id": None}),
            (
                "no dispatch had its id, for it named none when it came; 1 attempt; "
                "not tried again any more"
            ),
        ),
        (
            *(Ending.UNSUPPORTED, Ending.UNSUPPORTED, {"recipient": None}),
            (
                "its type was not supported, or something that it needs was missing when it came; "
                "1 attempt"
            ),
        ),
    ],
)
def test_sentence(first: Ending, last: Ending, fields: dict[str, Any], sentence: str) -> None:
    """It tells the first reason, the number of attempts, the latest result and the next retry."""
    values: dict[str, Any] = {
        "fingerprint": b"",
        "record_type": "Open",
        "recipient": "ada@example.com",
        "message_id": "m-1",
        "occurred_at": NOON,
        "received_at": NOON,
        "last_received_at": NOON,
        "ended_at": NOON + timedelta(milliseconds=20),
        "status": 200,
        "body": "{}",
        "attempts": 1,
        "retry_at": None,
        **fields,
    }
    assert story(Logged(**values, id=1, outcome=last, first_outcome=first)) == sentence
