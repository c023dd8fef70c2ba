"""Manual suppression: a change by the host is recorded and logged as a notification."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest
from receiving import Database, people

from hookrow import Outcome, Recorded
from hookrow._core.notification import Refusal, Suppressible
from hookrow._core.result import Result
from hookrow._receiver import manual
from hookrow._receiver.manual import change_suppression
from hookrow.stores._errors import Conflict, Locked, Rejected
from wire import ADA, AT


@pytest.fixture
def database() -> Iterator[Database]:
    with closing(people("Ada")) as database:
        yield database


def test_a_change_is_logged_with_its_author(database: Database) -> None:
    outcome = change_suppression(
        database, ADA, reason="a letter", by="eve", at=AT, message_id="m-Ada", note="torn"
    )
    assert isinstance(outcome, Recorded)
    subscriber = database.tables.subscriber("Ada@example.com")
    for row in (subscriber, database.tables.dispatch("m-Ada")):
        assert (row.suppressed_at, row.suppression_reason) == (AT, "a letter")
        assert row.suppression_changed_at == AT
    [entry] = database.logged()
    assert (entry.outcome, entry.recipient, entry.occurred_at) == (Result.RECORDED, ADA, AT)
    body = json.loads(entry.body or "")
    assert (body["Origin"], body["ChangedBy"], body["Note"]) == ("Host", "eve", "torn")
    assert body["SuppressionReason"] == "a letter"


@pytest.mark.parametrize(
    ("email", "reason", "refusal", "kept"),
    [
        ("eve@example.com", "a letter", Refusal.SUBSCRIBER_NOT_FOUND, 1),
        (ADA, " ", Refusal.UNSUPPORTED, 0),
    ],
)
def test_a_change_that_is_refused(
    database: Database, email: str, reason: str, refusal: Refusal, kept: int
) -> None:
    outcome = change_suppression(database, email, reason=reason, by="eve", at=AT)
    assert outcome == refusal.refused()
    assert len(database.logged()) == kept


def test_a_change_that_conflicts_with_live_notifications_is_retried(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change() -> Outcome:
        return change_suppression(database, ADA, reason="x", by="eve", at=AT)

    database.faults = iter([Conflict("40001")])
    assert isinstance(change(), Recorded)
    database.faults = iter([Locked("57014")] * 3)
    assert isinstance(change(), Recorded)
    monkeypatch.setattr(manual, "RETRY_CONFLICTS_FOR", 0.2)
    database.held.add((Suppressible.SUBSCRIBER, 1))
    assert change() == Refusal.FAILED.refused()


def test_a_change_that_the_database_rejects(database: Database) -> None:
    """The error states what may be wrong, because a driver's code alone does not."""
    database.faults = iter([Rejected("StringDataRightTruncation 22001")] * 9)
    expected = (
        "^The database rejects the change: StringDataRightTruncation 22001. If it is the length of "
        "the reason, enter a shorter one"
    )
    with pytest.raises(Rejected, match=expected):
        change_suppression(database, ADA, reason="x" * 150, by="eve", at=AT)
    assert database.logged() == []
