"""Figures: the overview of a period, the counts of the host's tables, and when they are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from hookrow import Arrival, figures, testing
from hookrow.entry import Ending
from hookrow.figures import Counts, Figures, Heard, Period
from hookrow.figures.overview import OTHER, TYPES, ago, delays, health, overview
from hookrow.notification import Key
from hookrow.postmark import parse
from hookrow.recording import record
from hookrow.stores import Unavailable
from hookrow.stores.census import ListCount
from hookrow.stores.log import Cell
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from wire import eventually

ADA = "ada@example.com"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AT = datetime(2026, 3, 4, 12, 30, 15, 5, tzinfo=UTC)
NOON = AT.replace(minute=0, second=0, microsecond=0)
RECORDED, UNSUPPORTED, FAILED = Ending.RECORDED, Ending.UNSUPPORTED, Ending.FAILED
NOT_SAVED, UNKNOWN = Ending.DISPATCH_NOT_FOUND, Ending.SUBSCRIBER_NOT_FOUND
NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("period", "number", "first", "last"),
    [
        (Period.HOUR, 60, NOON - 29 * MINUTE, NOON + 30 * MINUTE),
        (Period.DAY, 24, NOON - 23 * HOUR, NOON),
        (Period.WEEK, 28, NOON - 27 * 6 * HOUR, NOON),
        (Period.MONTH, 30, NOON - 29 * DAY - 12 * HOUR, NOON - 12 * HOUR),
    ],
)
def test_buckets(period: Period, number: int, first: datetime, last: datetime) -> None:
    """Buckets begin at whole units of UTC, whatever the time zone; the last one is not over."""
    starts = period.starts(AT.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert (len(starts), starts[0], starts[-1]) == (number, first, last)
    assert {later - start for start, later in pairwise(starts)} == {period.bucket}


def test_cells() -> None:
    """Cells are counted by type and outcome; a time in the future is in the last bucket."""
    cells = {
        Cell(NOON - 24 * HOUR, "Open", RECORDED): 99,
        Cell(NOON - 23 * HOUR, "Open", RECORDED): 1,
        Cell(NOON, "Delivery", RECORDED): 2,
        Cell(NOON, "Open", FAILED): 3,
        Cell(NOON + HOUR, None, UNSUPPORTED): 5,
    }
    seen = overview(cells, Period.DAY, AT, complete=1.0, heard=None, counts=None)
    by_type = [
        (name, counts[0], sum(counts[1:-1]), counts[-1]) for name, counts in seen.by_type.items()
    ]
    assert by_type == [(OTHER, 0, 0, 5), ("Open", 1, 0, 3), ("Delivery", 0, 0, 2)]
    assert [*seen.by_outcome] == [RECORDED, UNSUPPORTED, FAILED]
    assert (seen.total, seen.health) == (11, "The log is being read.")


def test_many_types() -> None:
    """Only the most frequent types are listed, however many a sender makes up."""
    cells = {Cell(AT, f"Made-{n}", UNSUPPORTED): 100 - n for n in range(90)}
    seen = overview(cells, Period.HOUR, AT, complete=1.0, heard=None, counts=None)
    assert [*seen.by_type] == [OTHER, *(f"Made-{n}" for n in range(TYPES - 1))]
    assert sum(map(sum, seen.by_type.values())) == seen.total == sum(cells.values())


@pytest.mark.parametrize(
    ("recent", "text"),
    [
        ({RECORDED: 10_000}, "; none of the last 10,000 was refused."),
        ({RECORDED: 9997, NOT_SAVED: 3}, "3 of the last 10,000 were refused, all for dispatches"),
        ({FAILED: 1, UNKNOWN: 2, RECORDED: 1}, "3 of the last 4 were refused: 2 for addresses"),
    ],
)
def test_health(recent: Mapping[Ending, int], text: str) -> None:
    """A sentence says when the last notification came, what was refused and why, and as of when."""
    heard = Heard(as_of=AT, last=AT - 40 * SECOND, recent=recent, parked=0)
    sentence = health(heard, AT)
    assert sentence.startswith("The last notification came 40 s ago; ")
    assert text in sentence
    later = overview({}, Period.DAY, AT + 2 * MINUTE, complete=1.0, heard=heard, counts=None)
    assert later.health.startswith("The log was last read 2 min ago. By then: ")


def test_ago() -> None:
    """A duration is given in the largest unit that it fills twice."""
    times = (-SECOND, 119 * SECOND, 2 * MINUTE, 47 * HOUR, 9 * DAY)
    assert [*map(ago, times)] == ["0 s", "119 s", "2 min", "47 h", "9 days"]


def test_delays_and_rates() -> None:
    """Delays are a median and a 95th percentile, rates are shares, and neither is of nothing."""
    found = delays([(AT, AT + n * SECOND) for n in range(101)])
    assert found is not None
    assert (found.median, found.p95, found.count) == (50 * SECOND, 95 * SECOND, 101)
    assert delays([]) is None
    wrong = delays([(AT, AT - SECOND)])  # by a clock that is behind
    assert wrong is not None
    assert (wrong.median, wrong.p95) == (0 * SECOND, 0 * SECOND)
    one = ListCount(list=1, sent=6, delivered=5, opened=1)
    two = ListCount(list=2, sent=2, delivered=1, opened=1)
    some = Counts(as_of=AT, lists=[one, two], suppressed={}, delays=None)
    assert (some.sent, some.delivery_rate, some.open_rate) == (8, 0.75, 0.25)
    none = Counts(as_of=AT, lists=[], suppressed={}, delays=None)
    assert (none.delivery_rate, none.open_rate) == (None, None)


def post(store: MemoryStore, *payloads: object) -> None:
    """Record payloads, each in a group of its own."""
    for payload in payloads:
        body = msgspec.json.encode(payload)
        record(store, [Arrival(parse(body), body, datetime.now(UTC))])


@pytest.fixture
def store() -> MemoryStore:
    """Return a store with 100 messages; message n was delivered after n seconds."""
    dispatches: dict[Key, dict[str, Any]] = {
        n: {"provider_message_id": f"m-{n}", "subscriber_id": 1, "sent_at": NOW - n * SECOND}
        for n in range(100)
    }
    store = MemoryStore(subscribers={1: {"email": ADA}}, dispatches=dispatches)
    post(store, *(testing.delivery(ADA, f"m-{n}", at=NOW) for n in range(100)))
    return store


class TestFigures:
    @pytest.fixture(autouse=True)
    def _times(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Count without pauses, and wait for it however busy the machine is."""
        monkeypatch.setattr(figures, "LOOK", 0.01)
        monkeypatch.setattr(Figures._ask, "__kwdefaults__", {"patience": 30.0})

    @pytest.fixture
    def made(self, store: MemoryStore) -> Iterator[Figures]:
        """Return the figures of the store."""
        with closing(Figures(store)) as made:
            yield made

    def test_overview(self, store: MemoryStore, made: Figures) -> None:
        """The first overview has the log's figures; those of the tables follow in a moment."""
        post(store, testing.opening(ADA, "not-saved", at=NOW), {"RecordType": "Bounce"})
        seen = made.overview(Period.WEEK, datetime.now(UTC))
        ends = {each: sum(counts) for each, counts in seen.by_outcome.items()}
        assert ends == {RECORDED: 100, NOT_SAVED: 1, UNSUPPORTED: 1}
        assert (seen.total, seen.complete) == (102, 1.0)
        assert seen.heard is not None
        assert seen.heard.parked == 1
        eventually(lambda: made.counts() is not None, seconds=30)
        counts = made.overview(Period.DAY, datetime.now(UTC)).counts
        assert counts is not None
        assert (counts.sent, counts.delivery_rate, counts.open_rate) == (100, 1.0, 0.0)

    def test_outage(self, made: Figures, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the database fails, the overview has no figures, and does not wait for them."""
        monkeypatch.setattr(MemoryLog, "bounds", Mock(side_effect=Unavailable))
        seen = made.overview(Period.DAY, NOW)
        assert (seen.health, seen.complete) == ("The log is being read.", 0.0)
        eventually(lambda: made.fault is not None, seconds=30)
