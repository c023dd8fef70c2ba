"""Replay: notifications from the log or the spool are recorded again, but are not live."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count, repeat
from typing import Any

import pytest
from receiving import NOON, Database, people

from copying import replace
from engines import MEMORY
from hookrow import Arrival, Recorded, Suppressed
from hookrow._core.log_entry import LogEntry, StoredEntry
from hookrow._core.notification import (
    Change,
    Outcome,
    Refusal,
    SetSuppression,
    Source,
    Suppressible,
)
from hookrow._core.result import Result
from hookrow._receiver import recorder
from hookrow._receiver import replay as replaying
from hookrow._receiver.clock import utc_now
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.recorder import keep_failed
from hookrow._receiver.replay import arrivals_of, replay
from hookrow.providers.postmark import Postmark
from hookrow.stores._errors import Conflict, Rejected, Unavailable
from hookrow.stores.sql import SQLStore
from times import HOUR
from wire import ADA

STORE = SQLStore(MEMORY)  # which is not used
HELD = (Suppressible.SUBSCRIBER, 1)
BODY = (
    b'{"RecordType": "SubscriptionChange", "Recipient": "ada@example.com", '
    b'"SuppressSending": true, "SuppressionReason": "HardBounce"}'
)


@pytest.fixture
def database() -> Iterator[Database]:
    with closing(people("Ada", "bea", "zoe")) as database:
        yield database


def logged(body: bytes) -> StoredEntry:
    """Return the log entry of a body that arrived at noon and failed."""
    database = people()
    keep_failed(database, [Arrival(Postmark.parse(body).notifications, body, NOON)], clock=utc_now)
    [entry] = database.logged()
    return entry


def test_the_arrival_of_an_entry_is_not_live() -> None:
    entry = logged(BODY)
    live = Arrival((Suppressed(ADA, None, None, "HardBounce"),), BODY, NOON)
    late = {"source": Source.REPLAY, "attempts": 0, "fingerprint": entry.fingerprint}
    times = {"last_received_at": NOON, "applied_at": NOON + HOUR}
    expected = replace(live, **late, **times)
    assert arrivals_of(STORE, [entry], POSTMARK, NOON + HOUR) == [expected]


@pytest.mark.parametrize("body", [b"\xff\\xff", b"\0\\x00", None])
def test_entries_without_their_body_are_omitted(body: bytes | None) -> None:
    gone = logged(body) if body else replace(logged(BODY), body=None)
    [again] = arrivals_of(STORE, [gone, logged(BODY), gone], POSTMARK, NOON)
    assert again.body == BODY


def suppressions(*names: str) -> list[Arrival]:
    """Return suppressions of these people that arrived an hour ago."""
    at = datetime.now(UTC) - timedelta(hours=1)
    bounces = [Suppressed(f"{name}@example.com", None, at, "HardBounce") for name in names]
    late: dict[str, Any] = {"source": Source.REPLAY, "attempts": 0}
    return [Arrival((each,), repr(each).encode(), at, **late) for each in bounces]


def ends(database: Database) -> dict[str | None, str]:
    """Return the outcomes in the log by recipient."""
    return {each.recipient: each.outcome.value for each in database.logged()}


def letters(outcomes: Sequence[Outcome]) -> str:
    """Return R for recorded, F for failed, L for unavailable."""
    refused = {Refusal.FAILED.refused(): "F", Refusal.UNAVAILABLE.refused(): "L"}
    return "".join("R" if isinstance(each, Recorded) else refused[each] for each in outcomes)


def poisons(*keys: int) -> Callable[[Change | LogEntry], bool]:
    """Return a function that returns whether a change concerns one of these subscribers."""
    return lambda each: isinstance(each, SetSuppression) and each.key in keys


@pytest.mark.parametrize("error", [Rejected("23514"), ValueError("bea@example.com")], ids=repr)
def test_a_poisoned_notification_fails_alone(
    database: Database, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(each: Change | LogEntry) -> bool:
        if poisons(2)(each):
            raise error
        return False

    database.refuses = refuses
    assert letters(replay(database, suppressions("ada", "bea", "zoe"), clock=utc_now)) == "RFR"
    expected = {ADA: "recorded", "bea@example.com": "failed", "zoe@example.com": "recorded"}
    assert ends(database) == expected
    [failed] = [each for each in database.logged() if each.outcome is Result.FAILED]
    assert (failed.attempts, failed.retry_at is None) == (0, False)
    [message] = caplog.messages
    assert message.startswith("Cannot record Suppressed None of 'b***@example.com': ")
    assert "bea@" not in message


@pytest.mark.parametrize("released", [True, False])
def test_a_locked_row_is_retried(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, released: bool
) -> None:
    database.held.add(HELD)

    now = [0.0]

    def sleep(seconds: float) -> None:
        now.append(now[-1] + seconds)
        if released:
            database.held.clear()

    monkeypatch.setattr(recorder, "sleep", sleep)
    for module in (recorder, replaying):
        monkeypatch.setattr(module, "monotonic", lambda: now[-1])
    late = [replace(each, attempts=1) for each in suppressions("ada", "bea")]
    assert letters(replay(database, late, clock=utc_now)) == ("RR" if released else "FR")
    assert database.begun[:2] == [True, True]
    assert (0.0 if released else 4.5) < now[-1] < 5.5
    entry = next(each for each in database.logged() if each.recipient == ADA)
    assert (entry.attempts, entry.retry_at is None) == (1, released)


@pytest.mark.parametrize("pause", [1.7, 2.1])
def test_a_conflict_is_retried_for_five_seconds(
    database: Database, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    clock = count(step=pause)
    now = [next(clock)]
    monkeypatch.setattr(recorder, "sleep", lambda _: now.append(next(clock)))
    for module in (recorder, replaying):
        monkeypatch.setattr(module, "monotonic", lambda: now[-1])
    database.faults = repeat(Conflict("40P01"))
    with pytest.raises(Conflict):
        replay(database, suppressions("ada"), clock=utc_now)
    assert len(database.begun) == 4


def test_notifications_before_an_outage_stay_recorded(database: Database) -> None:
    database.faults = iter([Rejected("poisoned"), None, *[Unavailable("gone")] * 9])
    assert letters(replay(database, suppressions("ada", "bea", "zoe"), clock=utc_now)) == "RLL"
    assert ends(database) == {ADA: "recorded"}
    database.away = True
    with pytest.raises(Unavailable):
        replay(database, suppressions("ada", "bea"), clock=utc_now)


def test_without_bodies_no_body_is_logged(database: Database) -> None:
    database.refuses = poisons(1, 2)
    replay(database, suppressions("ada", "bea", "zoe"), bodies=False, clock=utc_now)
    assert {each.body for each in database.logged()} == {None}
