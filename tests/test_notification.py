"""The values: the refusals are the contract's, to the byte, and nothing can be changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime

import pytest

from hookrow.notification import (
    Arrival,
    Delivered,
    Dispatch,
    EventTime,
    Mentioned,
    Opened,
    Reactivated,
    Recorded,
    Refusal,
    Refused,
    Rows,
    SetSuppression,
    SetTime,
    Subscriber,
    Suppressed,
    Suppressible,
    Unsupported,
)

AT = datetime(2026, 3, 5, 9, 10, 11, 654321, tzinfo=UTC)

CONTRACT: Mapping[Refusal, tuple[int, str]] = {
    Refusal.NO_SUCH_PATH: (404, "Not Found"),
    Refusal.METHOD_NOT_ALLOWED: (405, "Method Not Allowed"),
    Refusal.UNAUTHENTIC: (401, "Cannot verify webhook"),
    Refusal.TIMED_OUT: (408, "Request Timeout"),
    Refusal.LENGTH_REQUIRED: (411, "Length Required"),
    Refusal.TOO_LARGE: (413, "Webhook payload too large"),
    Refusal.UNSUPPORTED: (422, "Webhook payload not supported"),
    Refusal.SUBSCRIBER_NOT_FOUND: (404, "Engine::Subscriber not found"),
    Refusal.DISPATCH_NOT_FOUND: (404, "Engine::Dispatch not found"),
    Refusal.RECIPIENT_MISMATCH: (
        400,
        "Dispatch subscriber {owner} does not match payload recipient {recipient}",
    ),
    Refusal.UNAVAILABLE: (503, "Try again later"),
    Refusal.FAILED: (503, "Try again later"),
}

VALUES = [
    Delivered("ada@example.com", "m-1", AT),
    Opened("ada@example.com", "m-1", AT),
    Suppressed("ada@example.com", "m-1", AT, "HardBounce"),
    Reactivated("ada@example.com", None, None),
    Arrival(None, b"{}", AT),
    Unsupported("Click", "ada@example.com", None),
    Mentioned({"ada@example.com"}, {"m-1"}, {("m-1", "ada@example.com")}),
    Subscriber(1, "ada@example.com"),
    Dispatch(1, 1, "ada@example.com", None),
    Rows({}, {}),
    SetTime(1, EventTime.DELIVERED, AT, guarded=False),
    SetSuppression(Suppressible.SUBSCRIBER, 1, AT, None, guarded=True),
    Recorded(()),
    Refused(Refusal.UNSUPPORTED, Refusal.UNSUPPORTED.text),
]


class TestRefusal:
    def test_the_table_is_complete(self) -> None:
        """Every refusal stands in the contract's table, and none hides behind another's name."""
        assert list(Refusal) == list(CONTRACT)
        assert list(Refusal.__members__) == [refusal.name for refusal in CONTRACT]

    @pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name)
    def test_status_and_text(self, refusal: Refusal) -> None:
        """A refusal has the status and the text of the contract."""
        assert (refusal.status, refusal.text) == CONTRACT[refusal]

    @pytest.mark.parametrize("refusal", Refusal, ids=lambda refusal: refusal.name)
    def test_further_headers(self, refusal: Refusal) -> None:
        """405 names the method that is allowed and 503 when to come back; no other needs any."""
        match refusal:
            case Refusal.METHOD_NOT_ALLOWED:
                assert refusal.headers == {"Allow": "POST"}
            case Refusal.UNAVAILABLE | Refusal.FAILED:
                assert list(refusal.headers) == ["Retry-After"]
                assert int(refusal.headers["Retry-After"]) > 0
            case _:
                assert refusal.headers == {}


class TestValues:
    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_frozen(self, value: object) -> None:
        """No field of a value can be set or taken away."""
        for field in fields(value):  # type: ignore[arg-type]
            with pytest.raises(FrozenInstanceError):
                setattr(value, field.name, None)
            with pytest.raises(FrozenInstanceError):
                delattr(value, field.name)

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_slotted(self, value: object) -> None:
        """A value has its fields and no room for more."""
        assert not hasattr(value, "__dict__")

    def test_order_of_locks(self) -> None:
        """Rows are locked subscribers first, then dispatches, then subscriptions."""
        assert [kind.value for kind in Suppressible] == [
            "subscribers",
            "dispatches",
            "subscriptions",
        ]
