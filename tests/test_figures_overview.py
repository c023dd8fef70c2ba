"""The overview: which buckets there are, what falls into them, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest

from hookrow.entry import Ending
from hookrow.figures.overview import OTHER, TYPES, Counts, Heard, ago, delays, health, overview
from hookrow.figures.period import Period
from hookrow.stores.census import ListCount
from hookrow.stores.log import Cell

NOW = datetime(2026, 3, 4, 12, 30, 15, 5, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOON = NOW.replace(minute=0, second=0, microsecond=0)
RECORDED, UNSUPPORTED = Ending.RECORDED, Ending.UNSUPPORTED


@pytest.mark.parametrize(
    ("period", "number", "first", "last"),
    [
        (Period.HOUR, 60, NOON - 29 * MINUTE, NOON + 30 * MINUTE),
        (Period.DAY, 24, NOON - 23 * HOUR, NOON),
        (Period.WEEK, 28, NOON - 27 * 6 * HOUR, NOON),
        (Period.MONTH, 30, NOON - 29 * DAY - 12 * HOUR, NOON - 12 * HOUR),
    ],
)
def test_a_period_is_cut_at_whole_units(
    period: Period, number: int, first: datetime, last: datetime
) -> None:
    """Of UTC, wherever the clock is; the last bucket is the one that is not over."""
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    starts = period.starts(elsewhere)
    assert (len(starts), starts[0]) == (number, first)
    assert starts[-1] == last
    assert {later - start for start, later in pairwise(starts)} == {period.bucket}


def test_cells_fall_into_buckets() -> None:
    """By type and by outcome; what is before is left out, what is ahead belongs to the last."""
    cells = {
        Cell(NOON - 24 * HOUR, "Open", RECORDED): 99,
        Cell(NOON - 23 * HOUR, "Open", RECORDED): 1,
        Cell(NOON, "Delivery", RECORDED): 2,
        Cell(NOON, "Open", Ending.FAILED): 3,
        Cell(NOON + HOUR, None, UNSUPPORTED): 5,
    }
    seen = overview(cells, Period.DAY, NOW, complete=1.0, heard=None, counts=None)
    none = [0] * 22
    assert seen.by_type == {OTHER: [0, *none, 5], "Open": [1, *none, 3], "Delivery": [0, *none, 2]}
    assert [*seen.by_type] == [OTHER, "Open", "Delivery"]
    assert [*seen.by_outcome] == [RECORDED, UNSUPPORTED, Ending.FAILED]
    assert (seen.total, seen.health) == (11, "The log is being read.")


def test_only_the_most_frequent_types_are_told_apart() -> None:
    """However many a sender makes up."""
    cells = {Cell(NOW, f"Made-{n}", UNSUPPORTED): 100 - n for n in range(90)}
    seen = overview(cells, Period.HOUR, NOW, complete=1.0, heard=None, counts=None)
    assert [*seen.by_type] == [OTHER, *(f"Made-{n}" for n in range(TYPES - 1))]
    assert sum(map(sum, seen.by_type.values())) == seen.total == sum(cells.values())


@pytest.mark.parametrize(
    ("recent", "said"),
    [
        ({RECORDED: 10_000}, "none of the last 10,000 was refused."),
        (
            {RECORDED: 9997, Ending.DISPATCH_NOT_FOUND: 3},
            "3 of the last 10,000 were refused, all for dispatches not yet saved.",
        ),
        ({UNSUPPORTED: 1}, "1 of the last 1 was refused, for what is not supported."),
        (
            {Ending.FAILED: 1, Ending.SUBSCRIBER_NOT_FOUND: 2, RECORDED: 1},
            (
                "3 of the last 4 were refused: "
                "2 for addresses that no subscriber has, 1 for faults of the database."
            ),
        ),
    ],
)
def test_health_is_a_sentence(recent: Mapping[Ending, int], said: str) -> None:
    """It tells when the provider was heard of, and what was refused for which reason."""
    heard = Heard(as_of=NOW, last=NOW - 40 * SECOND, recent=recent, parked=0)
    assert health(heard, NOW) == f"The last notification came 40 s ago; {said}"


def test_a_log_that_cannot_be_read_is_not_the_present() -> None:
    """What was read a minute ago and more is told as that."""
    heard = Heard(as_of=NOW - 2 * MINUTE, last=None, recent={}, parked=0)
    seen = overview({}, Period.DAY, NOW, complete=1.0, heard=heard, counts=None)
    said = "The log was last read 2 min ago. By then: No notification has come yet."
    assert seen.health == said


def test_an_empty_log_has_heard_of_nobody() -> None:
    """And says so."""
    heard = Heard(as_of=NOW, last=None, recent={}, parked=0)
    assert health(heard, NOW) == "No notification has come yet."


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (-SECOND, "0 s"),
        (119 * SECOND, "119 s"),
        (2 * MINUTE, "2 min"),
        (2 * HOUR, "2 h"),
        (47 * HOUR, "47 h"),
        (9 * DAY, "9 days"),
    ],
)
def test_a_time_is_told_in_one_unit(time: timedelta, said: str) -> None:
    """The largest that it fills twice."""
    assert ago(time) == said


def test_delays_are_a_median_and_a_95th_percentile() -> None:
    """Of none there is none; a clock that goes wrong makes no negative one."""
    found = delays([(NOW, NOW + n * SECOND) for n in range(101)])
    assert found is not None
    assert (found.median, found.p95, found.count) == (50 * SECOND, 95 * SECOND, 101)
    assert delays([]) is None
    alone = delays([(NOW, NOW - SECOND)])
    assert alone is not None
    assert (alone.median, alone.p95) == (0 * SECOND, 0 * SECOND)


def test_rates_are_shares_of_what_was_sent() -> None:
    """Over all lists; of nothing there is none."""
    lists = [
        ListCount(list=1, sent=6, delivered=5, opened=1),
        ListCount(list=2, sent=2, delivered=1, opened=1),
    ]
    some = Counts(as_of=NOW, lists=lists, suppressed={}, delays=None)
    assert (some.sent, some.delivery_rate, some.open_rate) == (8, 0.75, 0.25)
    none = Counts(as_of=NOW, lists=[], suppressed={}, delays=None)
    assert (none.delivery_rate, none.open_rate) == (None, None)
