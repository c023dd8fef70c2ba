"""Suppressing and lifting by hand: recorded and logged as the provider's own changes are."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from receiving import Database, people

from hookrow import Recorded, Refusal
from hookrow.byhand import change_by_hand
from hookrow.entry import Ending
from hookrow.notification import Suppressible
from hookrow.postmark import parse
from hookrow.quiet import Quiet
from hookrow.replay import arrivals_of, record_late
from hookrow.stores import Conflict, Locked

ADA = "ada@example.com"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)
SUPPRESSED = {"suppressed_at": AT, "suppression_reason": "a letter", "suppression_changed_at": AT}


@pytest.fixture
def database() -> Database:
    """Return a database with one subscriber."""
    return people("Ada")


def test_suppression(database: Database) -> None:
    """The rows have the reason and the time; the log has who did it, as a change of the host's."""
    outcome = change_by_hand(database, ADA, reason="a letter", by="eve", at=AT, message_id="m-Ada")
    assert isinstance(outcome, Recorded)
    assert database.subscribers[1] == {"email": "Ada@example.com"} | SUPPRESSED
    assert database.dispatches[1].items() >= SUPPRESSED.items()
    [entry] = database.logged()
    assert (entry.outcome, entry.recipient, entry.occurred_at) == (Ending.RECORDED, ADA, AT)
    body = json.loads(entry.body or "")
    assert [body[name] for name in ("Origin", "ChangedBy", "SuppressionReason")] == [
        *("Host", "eve", "a letter")
    ]


def test_lifting(database: Database) -> None:
    """Both changes stay in the log; a replay of the first does not undo the second."""
    change_by_hand(database, ADA, reason="a mistake", by="eve", at=AT)
    later = AT + timedelta(microseconds=1)
    change_by_hand(database, ADA, reason=None, by="eve", at=later, note="she wrote")
    assert database.subscribers[1]["suppressed_at"] is None
    entries = database.logged()
    assert [json.loads(entry.body or "")["Note"] for entry in entries] == [None, "she wrote"]
    record_late(database, arrivals_of(entries[:1], parse), quiet=Quiet())
    assert database.subscribers[1]["suppressed_at"] is None


@pytest.mark.parametrize(
    ("email", "reason", "refusal", "kept"),
    [
        ("eve@example.com", "a letter", Refusal.SUBSCRIBER_NOT_FOUND, 1),
        (ADA, " ", Refusal.UNSUPPORTED, 0),
    ],
)
def test_refusal(database: Database, email: str, reason: str, refusal: Refusal, kept: int) -> None:
    """A change of an unknown subscriber is logged as refused; one without a reason is not."""
    assert change_by_hand(database, email, reason=reason, by="eve", at=AT) == refusal.refused()
    assert len(database.logged()) == kept


def test_conflict(database: Database) -> None:
    """A change that meets live notifications is tried again; a row that stays locked fails."""
    database.faults = iter([Conflict("40001")])
    outcome = change_by_hand(database, ADA, reason="x", by="eve", at=AT)
    assert isinstance(outcome, Recorded)
    database.held.add((Suppressible.SUBSCRIBER, 1))
    outcome = change_by_hand(database, ADA, reason="y", by="eve", at=AT)
    assert outcome == Refusal.FAILED.refused()
    database.faults = iter([Locked("57014")] * 2)
    database.held.clear()
    with pytest.raises(Locked):
        change_by_hand(database, ADA, reason="z", by="eve", at=AT)
