"""A sweep retries the entries that can be recorded now before the others, however many these are.

Many are parked in vain: for people of another application, or for messages that never existed.
"""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from contract import ADA
from homes import Home
from locations import PLACES, filled_home
from log_contract import entry, keep, reader

from hookrow import testing
from hookrow._core.log_entry import LogEntry
from hookrow._core.result import Result
from hookrow._receiver import replay
from hookrow._receiver.clock import Clock
from hookrow._receiver.entries import POSTMARK
from hookrow._receiver.replay import ParkedRetry
from hookrow.stores._errors import Unavailable
from times import DAY, HOUR, MINUTE
from wire import PATIENCE

NOW = datetime.now(UTC)

STRANGER = {"outcome": Result.SUBSCRIBER_NOT_FOUND, "recipient": "eve@elsewhere.example"}
UNSENT = {"outcome": Result.DISPATCH_NOT_FOUND, "recipient": ADA, "message_id": "m-nowhere"}
MISMATCH = {"outcome": Result.RECIPIENT_MISMATCH, "recipient": ADA, "message_id": "m-bea"}


home = pytest.fixture(filled_home, params=PLACES)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "REPLAY_PAUSE", 0.0)


def parked(number: int, **columns: Any) -> LogEntry:  # noqa: ANN401 - of any column
    """Return an open that arrived an hour ago, and is due."""
    given = {"message_id": "m-ada", "recipient": ADA, **columns}
    body = json.dumps(testing.opening(given["recipient"], given["message_id"], at=NOW))
    times = {"received_at": NOW - HOUR, "last_received_at": NOW - HOUR, "retry_at": NOW - MINUTE}
    return entry(number, status=404, **{**times, "body": body, **given})


def hopeless(numbers: Sequence[int]) -> list[LogEntry]:
    """Return entries that cannot be recorded, and have been due longer than any other."""
    kinds = (STRANGER, UNSENT, MISMATCH)
    return [
        parked(n, **kinds[n % 3], retry_at=NOW - HOUR, received_at=NOW - 2 * HOUR) for n in numbers
    ]


def sweeper(home: Home) -> ParkedRetry:
    return ParkedRetry(home.store, reader(home), POSTMARK, lambda *_: None, Clock(home.store))


def outcome(home: Home, number: int) -> str:
    [found] = [
        row["outcome"]
        for row in home.logged()
        if int.from_bytes(bytes(row["fingerprint"])) == number
    ]
    return str(found)


def test_entries_whose_rows_exist_come_first(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are recorded even if a sweep has no time for any other, and others stay due."""
    monkeypatch.setattr(replay, "FAILING_UNTIL", 0.0)
    monkeypatch.setattr(replay, "OTHERS_UNTIL", 0.0)
    keep(home, *hopeless(range(1, 200)))
    keep(home, parked(200, outcome=Result.DISPATCH_NOT_FOUND))
    keep(home, parked(201, outcome=Result.RECIPIENT_MISMATCH))
    assert sweeper(home).retry_due() == 2
    assert outcome(home, 200) == outcome(home, 201) == "recorded"
    assert reader(home).backlog(NOW).oldest_due == NOW - HOUR


def test_the_next_sweep_continues_the_search(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is too long for one sweep is searched to its end, and then from its beginning."""
    seconds = count()
    monkeypatch.setattr(replay, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(replay, "FIRST_PART", replay.SMALLEST_PART)
    monkeypatch.setattr(replay, "FAILING_UNTIL", 0.0)
    monkeypatch.setattr(replay, "OTHERS_UNTIL", 0.0)
    keep(home, *hopeless(range(1, 400)))
    keep(home, parked(400, outcome=Result.DISPATCH_NOT_FOUND))
    sweeps = sweeper(home)
    recorded = [sweeps.retry_due() for _ in range(6)]
    assert recorded[0] == 0
    assert sum(recorded) == 1
    keep(home, parked(401, outcome=Result.DISPATCH_NOT_FOUND, retry_at=NOW - 2 * HOUR))
    assert sum(sweeps.retry_due() for _ in range(6)) == 1


def test_a_part_that_takes_too_long_is_searched_in_smaller_ones(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The database stops a search after a second; if the smallest part fails, the search ends."""
    log, limits = reader(home), []
    hopeful, most = log.hopeful, 100

    def limited(*args: Any, limit: int, **named: Any) -> Any:  # noqa: ANN401 - passed on
        limits.append(limit)
        if limit > most:
            raise Unavailable("QueryCanceled 57014")
        return hopeful(*args, limit=limit, **named)

    monkeypatch.setattr(log, "hopeful", limited)
    keep(home, *hopeless(range(1, 4)), parked(4, outcome=Result.DISPATCH_NOT_FOUND))
    assert sweeper(home).retry_due() == 1
    assert limits == [1000, 250, 62]
    most = 0
    keep(home, parked(5, outcome=Result.DISPATCH_NOT_FOUND))
    assert sweeper(home).retry_due() == 1  # among the others
    assert limits[3:] == [1000, 250, 62, 50]
    assert "The search for entries whose rows exist failed" in caplog.text


@pytest.mark.parametrize("home", [each for each in PLACES if "postgres" in each], indirect=True)
def test_a_locked_row_delays_no_other_entry(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries stay as they are, for a later retry; the sweep does not wait."""
    monkeypatch.setattr("hookrow._receiver.replay.RETRY_CONFLICTS_FOR", PATIENCE)
    keep(home, *(parked(n, outcome=Result.DISPATCH_NOT_FOUND) for n in range(1, 200, 2)))
    other = {"recipient": "bea.upper@example.com", "message_id": "m-bea"}
    keep(home, *(parked(n, outcome=Result.DISPATCH_NOT_FOUND, **other) for n in range(2, 201, 2)))
    with psycopg.connect(home.url) as host:
        host.execute(
            "SELECT FROM hookrow_dispatches WHERE provider_message_id = 'm-ada' FOR UPDATE"
        )
        began = time.monotonic()
        assert sweeper(home).retry_due() == 100
        assert time.monotonic() - began < PATIENCE / 2
    assert {outcome(home, 1), outcome(home, 199)} == {"dispatch_not_found"}


def test_the_entries_of_another_provider_do_not_end_the_search(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the log is read even if none of its entries is this receiver's."""
    monkeypatch.setattr(replay, "FIRST_PART", replay.SMALLEST_PART)
    monkeypatch.setattr(replay, "LARGEST_PART", replay.SMALLEST_PART)
    others = {"provider": "courier", "outcome": Result.DISPATCH_NOT_FOUND}
    keep(home, *(parked(n, retry_at=NOW - HOUR, **others) for n in range(1, 200)))
    keep(home, parked(200, outcome=Result.DISPATCH_NOT_FOUND))
    log = reader(home)
    hopeful = Mock(wraps=log.hopeful)
    monkeypatch.setattr(log, "hopeful", hopeful)
    assert sweeper(home).retry_due() == 1
    assert hopeful.call_count == 5
    assert {outcome(home, n) for n in range(1, 200)} == {"dispatch_not_found"}


def test_entries_that_are_too_old_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is retried a last time if a sweep has the time, and otherwise ends after an hour more.

    The latter does not apply to entries whose rows exist.
    """
    old = {"received_at": NOW - 4 * DAY, "retry_at": NOW - DAY}
    keep(home, parked(1, outcome=Result.DISPATCH_NOT_FOUND, **old), parked(2, **UNSENT, **old))
    keep(home, parked(3, **MISMATCH, **old))
    for name in ("FAILING_UNTIL", "OTHERS_UNTIL"):
        monkeypatch.setattr(replay, name, 0.0)
    assert sweeper(home).retry_due() == 1
    retries = {int.from_bytes(bytes(row["fingerprint"])): row["retry_at"] for row in home.logged()}
    assert retries == {1: None, 2: None, 3: NOW - DAY}
    assert reader(home).backlog(NOW).expired == 1
    monkeypatch.undo()
    assert sweeper(home).retry_due() == 0
    assert reader(home).backlog(NOW) == (0, None, 2)


def test_a_sweep_ends_when_the_receiver_stops(home: Home) -> None:
    """It does not retry the rest first."""
    keep(home, *(parked(n, outcome=Result.DISPATCH_NOT_FOUND) for n in range(1, 200)))
    groups: list[int] = []

    def close(arrivals: Sequence[Any], _: object) -> None:
        groups.append(len(arrivals))
        sweeps.close()

    sweeps = ParkedRetry(home.store, reader(home), POSTMARK, close, Clock(home.store))
    assert [sweeps.retry_due()] == groups
