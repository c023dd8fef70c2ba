"""Figures: the tally of a log, the search that it shortens, and the overview of a period."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest

from copying import replace
from hookrow import Arrival, Opened, Recorded, statistics
from hookrow.core.log_entry import LogEntry, Result, entries
from hookrow.statistics import Counts, Figures, Heard, Period, searching, tally
from hookrow.statistics.overview import OTHER, TYPES, ago, delays, health, overview
from hookrow.statistics.searching import search
from hookrow.statistics.tally import Tally
from hookrow.stores import Unavailable
from hookrow.stores.census import ListCount
from hookrow.stores.log import Cell, Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_log import MemoryLog
from wire import eventually

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AT = datetime(2026, 3, 4, 12, 30, 15, 5, tzinfo=UTC)
NOON = AT.replace(minute=0, second=0, microsecond=0)
NOW = datetime.now(UTC)
EVER = NOW - 4000 * DAY
RECORDED, UNSUPPORTED, FAILED = Result.RECORDED, Result.UNSUPPORTED, Result.FAILED
NOT_SAVED, UNKNOWN = Result.DISPATCH_NOT_FOUND, Result.SUBSCRIBER_NOT_FOUND


# -- the overview ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("period", "number", "first", "last"),
    [
        (Period.HOUR, 60, NOON - 29 * MINUTE, NOON + 30 * MINUTE),
        (Period.DAY, 24, NOON - 23 * HOUR, NOON),
        (Period.WEEK, 28, NOON - 27 * 6 * HOUR, NOON),
        (Period.MONTH, 30, NOON - 29 * DAY - 12 * HOUR, NOON - 12 * HOUR),
    ],
)
def test_buckets_are_of_utc(period: Period, number: int, first: datetime, last: datetime) -> None:
    starts = period.starts(AT.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert (len(starts), starts[0], starts[-1]) == (number, first, last)
    assert {later - start for start, later in pairwise(starts)} == {period.bucket}


def test_cells_are_counted_by_type_and_outcome_and_the_future_in_the_last_bucket() -> None:
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


def test_only_the_most_frequent_types_are_listed() -> None:
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
def test_health_is_told_in_a_sentence(recent: Mapping[Result, int], text: str) -> None:
    heard = Heard(as_of=AT, last=AT - 40 * SECOND, recent=recent, parked=0)
    sentence = health(heard, AT)
    assert sentence.startswith("The last notification came 40 s ago; ")
    assert text in sentence
    later = overview({}, Period.DAY, AT + 2 * MINUTE, complete=1.0, heard=heard, counts=None)
    assert later.health.startswith("The log was last read 2 min ago. By then: ")


def test_a_duration_is_given_in_the_largest_unit_that_it_fills_twice() -> None:
    times = (-SECOND, 119 * SECOND, 2 * MINUTE, 47 * HOUR, 9 * DAY)
    assert [*map(ago, times)] == ["0 s", "119 s", "2 min", "47 h", "9 days"]


def test_delays_and_rates_are_never_of_nothing() -> None:
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


def test_in_an_outage_the_overview_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "LOOK", 0.01)
    monkeypatch.setattr(MemoryLog, "bounds", Mock(side_effect=Unavailable))
    with closing(Figures(MemoryStore())) as made:
        seen = made.overview(Period.DAY, NOW)
        assert (seen.health, seen.complete) == ("The log is being read.", 0.0)
        eventually(lambda: made.fault is not None)


# -- the tally: each entry counts once, none is missed ---------------------------------


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Return a store with an empty log, counted in small chunks and without a rest."""
    for name, value in {"CHUNK": 10, "UNSETTLED": 3, "RECENT": 5, "REST": 0, "TURN": 60.0}.items():
        monkeypatch.setattr(tally, name, value)
    monkeypatch.setattr(searching, "NARROWEST", 3)
    return MemoryStore()


def entry(number: int, came: datetime, **columns: Any) -> LogEntry:  # noqa: ANN401 - of any column
    """Return an entry that is identified by its number."""
    arrival = Arrival(Opened("a@x", "m", came), b"", came, fingerprint=number.to_bytes(16))
    [made] = entries([arrival], [Recorded(())], came)
    return replace(made, **columns)


def keep(store: MemoryStore, *entries: LogEntry) -> MemoryLog:
    """Write entries to the log, and return it."""
    with store.transaction() as transaction:
        transaction.write((), entries)
    assert store.log is not None
    return store.log


def work(made: Tally, now: datetime = NOW, times: int = 1) -> None:
    """Count everything that is not counted yet, and so many times something anew."""
    for _ in range(times):
        made.work(now)
        while made._due:
            made.work(now)


def counted(made: Tally) -> dict[Result, int]:
    found: Counter[Result] = Counter()
    for cell, count in made.cells(EVER).items():
        found[cell.outcome] += count
    return dict(found)


def test_every_entry_is_counted_by_hour_and_in_the_last_hour_by_minute(store: MemoryStore) -> None:
    came = [NOW - 40 * DAY + n * 29 * HOUR for n in range(33)]
    came += [NOW - 59 * MINUTE + n * 7 * MINUTE for n in range(8)]
    made = Tally(keep(store, *(entry(n, at) for n, at in enumerate(came))))
    assert (made.heard, made.complete(EVER, NOW)) == (None, 0.0)
    work(made)
    assert (counted(made), made.complete(EVER, NOW)) == ({RECORDED: 41}, 1.0)
    minutes = [at.replace(second=0, microsecond=0) for at in came]
    hours = {at.replace(minute=0) for at in minutes[:33]}
    assert {cell.at for cell in made.cells(EVER)} == hours | {*minutes[33:]}


def test_each_turn_adds_what_is_new_and_how_the_newest_ended(store: MemoryStore) -> None:
    made = Tally(keep(store))
    work(made)
    assert (counted(made), made.complete(EVER, NOW)) == ({}, 1.0)
    keep(store, *(entry(n, NOW - MINUTE) for n in range(25)))
    work(made)
    late = entry(30, NOW, outcome=Result.FAILED, retry_at=NOW + HOUR)
    keep(store, *(entry(n, NOW) for n in range(25, 30)), late)
    work(made, NOW + SECOND)
    assert counted(made) == {RECORDED: 30, FAILED: 1}
    recent = {Result.RECORDED: 4, Result.FAILED: 1}
    assert made.heard == Heard(as_of=NOW + SECOND, last=NOW, recent=recent, parked=1)


def test_pruned_entries_are_no_longer_counted(store: MemoryStore) -> None:
    log = keep(store, *(entry(n, NOW - (40 - n) * DAY) for n in range(40)))
    made = Tally(log)
    for before, count in ((EVER, 40), (NOW - 15 * DAY, 15), (NOW, 0)):
        sum(log.prune(before=before, parked_before=before, bodies_only=False))
        work(made, times=3)
        assert sum(counted(made).values()) == count
    keep(store, entry(1, NOW))
    work(made)
    assert counted(made) == {RECORDED: 1}


def test_a_changed_outcome_is_noticed(store: MemoryStore) -> None:
    first = entry(1, NOW - 9 * DAY, outcome=Result.FAILED)
    made = Tally(keep(store, first, *(entry(n, NOW) for n in range(2, 40))))
    work(made)
    assert counted(made) == {RECORDED: 38, FAILED: 1}
    keep(store, replace(first, outcome=Result.RECORDED))
    work(made, times=4)
    assert counted(made) == {RECORDED: 39}


def test_an_entry_that_is_committed_behind_newer_ones_is_noticed(store: MemoryStore) -> None:
    log = keep(store, *(entry(n, NOW) for n in range(1, 13)))
    late = log.entries.pop((9).to_bytes(16))
    made = Tally(log)
    work(made)
    assert counted(made) == {RECORDED: 11}
    log.entries[late.fingerprint] = late
    work(made, times=2)
    assert counted(made) == {RECORDED: 12}


@pytest.mark.parametrize(("limit", "budget"), [(2, 60.0), (50, 0.0)])
def test_pages_of_a_search_have_each_entry_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, limit: int, budget: float
) -> None:
    monkeypatch.setattr(searching, "BUDGET", budget)
    odd = {"outcome": UNSUPPORTED, "record_type": "Bounce"}
    columns = {n: odd if n in {7, 50, 55} else {} for n in range(1, 101)}
    log = keep(store, *(entry(n, NOW + n * MINUTE, **more) for n, more in columns.items()))
    half, end = NOW + 50 * MINUTE, NOW + 100 * MINUTE
    for query, expected in (
        (Query(), [*range(100, 0, -1)]),
        (Query(outcome=UNSUPPORTED), [55, 50, 7]),
        (Query(recipient="nobody@example.com"), []),
        (Query(since=half, outcome=UNSUPPORTED), [55, 50]),
        (Query(until=half, record_type="Bounce"), [7]),
        (Query(since=end - 2 * MINUTE, until=end), [99, 98]),
    ):
        found = search(log, query, limit=limit)
        ids = [each.id for each in found.entries]
        while found.before is not None:
            found = search(log, query, before=found.before, limit=limit)
            assert len(found.entries) <= limit
            ids += [each.id for each in found.entries]
        assert ids == expected
