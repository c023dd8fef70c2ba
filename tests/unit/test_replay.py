"""Replay: what comes from the log, how it is recorded, and what follows if that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from receiving import NOON, PROVIDER, Database, people

from hookrow import Arrival, Recorded, Suppressed
from hookrow.entry import Ending, Entry, Logged, entries
from hookrow.notification import Change, Outcome, Refusal, SetSuppression, Suppressible
from hookrow.quiet import Quiet
from hookrow.replay import arrivals_of, matching, record_late
from hookrow.stores import Rejected, Unavailable
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore

FAILED, LATER = Refusal.FAILED.refused(), Refusal.UNAVAILABLE.refused()
HELD = (Suppressible.SUBSCRIBER, 1)
BODY = (
    b'{"RecordType": "SubscriptionChange", "Recipient": "ada@example.com", '
    b'"SuppressSending": true, "SuppressionReason": "HardBounce"}'
)


def logged(body: bytes) -> Logged:
    """Return the log entry of a body that came at noon and was refused."""
    store = MemoryStore()
    told = Arrival(PROVIDER.parse(body), body, NOON)
    with store.transaction() as transaction:
        transaction.write((), entries([told], [FAILED], NOON))
    assert store.log is not None
    [[entry]] = matching(store.log, Query())
    return entry


def test_arrivals() -> None:
    """An entry arrives again as it came, with its fingerprint: not live, and no attempt more."""
    entry = logged(BODY)
    suppressed = Suppressed("ada@example.com", None, None, "HardBounce")
    assert arrivals_of([entry], PROVIDER.parse) == [
        Arrival(suppressed, BODY, NOON, live=False, attempts=0, fingerprint=entry.fingerprint)
    ]


@pytest.mark.parametrize("body", [b"\xff", b"\0", None])
def test_bodies_that_are_gone(body: bytes | None) -> None:
    """Entries whose body was escaped or erased are left out, their neighbours are not."""
    gone = logged(body) if body else replace(logged(BODY), body=None)
    [again] = arrivals_of([gone, logged(BODY), gone], PROVIDER.parse)
    assert again.body == BODY


@pytest.fixture
def database() -> Database:
    """Return a database with three subscribers."""
    return people("ada", "bea", "zoe")


def suppressions(*names: str, reason: str = "HardBounce") -> list[Arrival]:
    """Return suppressions of these people that came an hour ago."""
    at = datetime.now(UTC) - timedelta(hours=1)
    told = [Suppressed(f"{name}@example.com", None, at, reason) for name in names]
    return [Arrival(each, repr(each).encode(), at, live=False, attempts=0) for each in told]


def ends(database: Database) -> dict[str | None, Ending]:
    """Return the outcomes in the log by the letter that a recipient begins with."""
    return {each.recipient and each.recipient[0]: each.outcome for each in database.logged()}


def letters(outcomes: Sequence[Outcome]) -> str:
    """Return R for recorded, F for failed, L for unavailable."""
    return "".join(
        "R" if isinstance(each, Recorded) else {FAILED: "F", LATER: "L"}[each] for each in outcomes
    )


def poisons(*keys: int) -> Callable[[Change | Entry], bool]:
    """Tell which changes are of these subscribers."""
    return lambda each: isinstance(each, SetSuppression) and each.key in keys


@pytest.mark.parametrize("error", [Rejected("23514"), ValueError("bea@example.com")], ids=repr)
def test_poisoned(database: Database, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be recorded fails alone, and is logged without its text and its address."""

    def refuses(each: Change | Entry) -> bool:
        if poisons(2)(each):
            raise error
        return False

    database.refuses = refuses
    assert letters(record_late(database, suppressions("ada", "bea", "zoe"), quiet=Quiet())) == "RFR"
    assert ends(database) == {"a": Ending.RECORDED, "b": Ending.FAILED, "z": Ending.RECORDED}
    [failed] = [each for each in database.logged() if each.outcome is Ending.FAILED]
    assert (failed.attempts, failed.retry_at is None) == (0, False)
    [message] = caplog.messages
    assert message.startswith("Cannot record Suppressed None of 'b***@example.com': ")
    assert "bea@" not in message


def test_what_the_log_refuses_too(database: Database) -> None:
    """It ends as unavailable, because nothing keeps it; the rest of the group is recorded."""
    database.refuses = lambda each: isinstance(each, Entry) and each.recipient == "bea@example.com"
    assert letters(record_late(database, suppressions("ada", "bea", "zoe"), quiet=Quiet())) == "RLR"
    assert ends(database).keys() == {"a", "z"}


@pytest.mark.parametrize("released", [True, False])
def test_held_row(database: Database, monkeypatch: pytest.MonkeyPatch, *, released: bool) -> None:
    """A locked row holds up no others: it is waited for afterwards, and parked if that fails.

    It is counted once.
    """
    database.held.add(HELD)

    def release(*_: object, **__: object) -> float:
        if released and database.begun:
            database.held.clear()
        return 0.0

    monkeypatch.setattr("hookrow.replay.monotonic", release)
    late = [replace(each, attempts=1) for each in suppressions("ada", "bea")]
    assert letters(record_late(database, late, quiet=Quiet())) == ("RR" if released else "FR")
    assert database.begun[:2] == [True, False]
    entry = next(each for each in database.logged() if each.recipient == "ada@example.com")
    assert (entry.attempts, entry.retry_at is None) == (1, released)


def test_outage(database: Database) -> None:
    """During a split, what was recorded by then ends so; if nothing can be, the error passes."""
    database.faults = iter([Rejected("poisoned"), None, *[Unavailable("gone")] * 9])
    assert letters(record_late(database, suppressions("ada", "bea", "zoe"), quiet=Quiet())) == "RLL"
    assert ends(database).keys() == {"a"}
    database.away = True
    with pytest.raises(Unavailable):
        record_late(database, suppressions("ada", "bea"), quiet=Quiet())


def test_without_bodies(database: Database) -> None:
    """No body is logged, neither of what is recorded nor of what fails."""
    database.refuses = poisons(1, 2)
    record_late(database, suppressions("ada", "bea", "zoe"), quiet=Quiet(), bodies=False)
    assert {each.body for each in database.logged()} == {None}
