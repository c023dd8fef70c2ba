"""Statistics: the overview of a period, the counts of the tables, and the search of a log."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from copying import replace
from engines import MEMORY
from hookrow import Arrival, Opened, Recorded, Role, Schema
from hookrow._core.log_entry import LogEntry, log_entries
from hookrow._core.notification import EventTime, SetTime
from hookrow._core.result import Result
from hookrow._statistics import (
    Overview,
    Period,
    Present,
    Statistics,
    TableCounts,
    cache,
    count,
    count_tables,
    read_overview,
    read_present,
    search,
)
from hookrow._statistics.overview import MAX_REASONS, OTHERS, RECENT_ENTRIES
from hookrow.stores._errors import Locked, StoreError, Unavailable
from hookrow.stores._log import OTHER, Count, Counts, Query
from hookrow.stores._timeouts import STATEMENT_TIMEOUT
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._row_counts import ListCount
from hookrow.testing import Tables
from times import DAY, HOUR, MINUTE, SECOND
from wire import PATIENCE

AT = datetime(2026, 3, 4, 12, 30, 15, 5, tzinfo=UTC)
NOON = AT.replace(minute=0, second=0, microsecond=0)
RECORDED, UNSUPPORTED, FAILED = Result.RECORDED, Result.UNSUPPORTED, Result.FAILED
NOT_SAVED, UNKNOWN = Result.DISPATCH_NOT_FOUND, Result.SUBSCRIBER_NOT_FOUND


def entry(number: int, at: datetime = AT, /, **columns: Any) -> LogEntry:  # noqa: ANN401 - of any column
    """Return an entry that is identified by its number."""
    arrival = Arrival((Opened("a@x", "m", at),), b"", at, fingerprint=number.to_bytes(16))
    [made] = log_entries([arrival], [Recorded(())], at)
    return replace(made, **columns)


@pytest.fixture
def store() -> Iterator[SQLStore]:
    with closing(SQLStore(MEMORY)) as store:
        yield store


def keep(store: SQLStore, *entries: LogEntry) -> SQLLog:
    """Write entries to the log, and return it."""
    with store.transaction() as transaction:
        transaction.write((), entries)
    assert store.log is not None
    return store.log


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
def test_buckets(period: Period, number: int, first: datetime, last: datetime) -> None:
    """Buckets are of equal length and begin with those of UTC."""
    starts = period.starts(AT.astimezone(timezone(timedelta(hours=5, minutes=45))))
    assert (len(starts), starts[0], starts[-1]) == (number, first, last)
    assert {later - start for start, later in pairwise(starts)} == {period.bucket}


def test_overview(store: SQLStore) -> None:
    """Notifications are counted by type, first outcome and reason; the future counts as now."""
    change = dict[str, Any](record_type="SubscriptionChange")
    keep(
        store,
        entry(1, NOON - 24 * HOUR),
        entry(2, NOON - 23 * HOUR),
        entry(3, record_type="Delivery", outcome=FAILED, retry_at=AT),
        entry(4, record_type="Delivery", outcome=NOT_SAVED),
        entry(5, AT + HOUR, record_type="Made up", outcome=UNSUPPORTED),
        *(entry(n, **change, reason="HardBounce") for n in (6, 7, 8)),
        entry(9, **change, reason="made up"),
        entry(10, **change),
    )
    keep(store, entry(4, AT + MINUTE, record_type="Delivery"))
    seen = read_overview(store, Period.DAY, AT)
    by_type = {name: {row[0], sum(row[1:-1]), row[-1]} for name, row in seen.by_type.items()}
    expected = {"SubscriptionChange": {0, 5}, "Delivery": {0, 2}, "Open": {0, 1}, OTHER: {0, 1}}
    assert by_type == expected
    assert [*by_type][:2] == ["SubscriptionChange", "Delivery"]
    outcomes = [(name, sum(row)) for name, row in seen.by_first_outcome.items()]
    assert outcomes == [(RECORDED, 6), (NOT_SAVED, 1), (UNSUPPORTED, 1), (FAILED, 1)]
    assert seen.by_reason == {"HardBounce": 3, OTHER: 1}
    assert (seen.total, seen.recovered, seen.complete_since) == (9, 1, None)
    assert seen.delays is None
    present = read_present(store, AT)
    assert present.outcomes == {RECORDED: 8, UNSUPPORTED: 1, FAILED: 1}
    assert (present.last_received, present.parked) == (AT + HOUR, 1)
    assert present.types == {"Open", "Delivery", "SubscriptionChange", "Made up"}
    assert (present.entries, present.expired) == (set(), 0)


def test_an_entry_of_the_receiver(store: SQLStore) -> None:
    """The figures of an entry are those of its notifications, before and after they are counted."""
    ada = Tables(store).add_subscriber("ada@example.com")
    add_sent(store, "m-1", ada, AT - MINUTE)
    of_entry, delivery = {"entry": "sendgrid"}, {"record_type": "Delivery", "occurred_at": AT}
    log = keep(
        store,
        entry(1, **of_entry, **delivery, message_id="m-1"),
        entry(2, AT - MINUTE, **of_entry, record_type="Bounce", reason="HardBounce"),
        entry(3, AT - DAY, **of_entry, **delivery),
        entry(4, **of_entry, outcome=NOT_SAVED, retry_at=AT),
        entry(5, **of_entry, outcome=NOT_SAVED),
        entry(6, AT + MINUTE, entry="postmark", **delivery, reason="HardBounce"),
        entry(7, AT + MINUTE, **delivery, outcome=FAILED, retry_at=AT),
    )
    for _ in range(2):
        for period, previous in ((Period.DAY, 0), (Period.HOUR, None)):
            seen = read_overview(store, period, AT, "sendgrid")
            assert {name: sum(row) for name, row in seen.by_type.items()} == {
                "Open": 2,
                "Delivery": 1,
                "Bounce": 1,
            }
            assert (seen.by_reason, seen.rates["bounce"]) == (
                {"HardBounce": 1},
                (1 / 2, False, previous),
            )
            assert seen.delays is not None
            assert (seen.entry, seen.delays.count) == ("sendgrid", 1)
        while log.count_hours():
            pass
    present = read_present(store, AT, "sendgrid")
    assert present.outcomes == {RECORDED: 3, NOT_SAVED: 2}
    assert (present.parked, present.expired, present.last_received) == (1, 1, AT)
    assert present.health.startswith("The last notification of the entry sendgrid was received")
    unused = read_present(store, AT, "brevo")
    assert unused.health == "None of the last 100,000 notifications is of the entry brevo."
    assert read_present(store, AT).entries == {"sendgrid", "postmark"}


def test_rates_of_suppressions(store: SQLStore) -> None:
    """Recorded suppressions are divided by recorded deliveries, in the period and before it.

    A notification that was recorded later counts, one that was refused does not. A suppression also
    counts if its event is of another type, or was refused for another of its effects.
    """
    before = AT - DAY
    delivery, bounce = {"record_type": "Delivery"}, {"record_type": "SubscriptionChange"}
    both = {"record_type": "Bounce", "reason": "HardBounce"}
    keep(
        store,
        *(entry(n, **delivery) for n in range(1, 8)),
        entry(8, **delivery, outcome=NOT_SAVED),
        entry(9, **delivery, outcome=UNKNOWN),
        *(entry(n, **bounce, reason="HardBounce") for n in (10, 11)),
        entry(12, **bounce, reason="HardBounce", outcome=UNKNOWN),
        entry(13, **bounce, reason="ManualSuppression"),
        entry(14, **bounce),
        *(entry(n, before, **delivery) for n in (15, 16)),
        entry(17, before, **bounce, reason="SpamComplaint"),
        entry(18, AT - 3 * DAY, **bounce, reason="SpamComplaint"),
        entry(19, **both),
        entry(20, **both, outcome=NOT_SAVED),
        entry(21, **both, outcome=UNKNOWN),
        entry(22, record_type="Bounce"),
    )
    keep(store, entry(8, **delivery))
    assert read_overview(store, Period.DAY, AT).rates == {
        "bounce": (4 / 12, False, 0),
        "complaint": (0, False, 1 / 2),
        "unsubscribe": (1 / 8, False, 0),
    }
    assert read_overview(store, Period.HOUR, AT).rates["bounce"] == (4 / 12, False, None)


@pytest.mark.parametrize(
    ("reason", "number", "deliveries", "above"),
    [
        ("SpamComplaint", 1, 20, False),
        ("SpamComplaint", 2, 20, False),
        ("SpamComplaint", 3, 20, True),
        ("SpamComplaint", 3, 2999, True),
        ("SpamComplaint", 3, 3000, False),
        ("HardBounce", 9, 0, False),
        ("HardBounce", 10, 0, True),
        ("HardBounce", 10, 489, True),
        ("HardBounce", 10, 490, False),
        ("ManualSuppression", 100, 100, False),
    ],
)
def test_rates_above_the_limit(
    store: SQLStore,
    monkeypatch: pytest.MonkeyPatch,
    reason: str,
    number: int,
    deliveries: int,
    *,
    above: bool,
) -> None:
    """A rate counts only from a minimum of suppressions on; in the charts, too."""
    counts = [
        Count(AT, "Delivery", "", RECORDED, "", deliveries, 0),
        Count(AT, "SubscriptionChange", reason, RECORDED, "", number, 0),
    ]
    monkeypatch.setattr(store.log, "counts", lambda *_: Counts(counts, None))
    seen = read_overview(store, Period.DAY, AT)
    assert any(each.above_limit for each in seen.rates.values()) is above
    expected = above and reason == "SpamComplaint"
    assert [each.above_limit for each in seen.complaint_rates] == [False] * 23 + [expected]


def test_the_rate_of_complaints_by_bucket(store: SQLStore) -> None:
    """Each bucket has its rate, or None without a delivery, of an entry of the receiver or of all.

    A count by a clock that is ahead belongs to the last bucket.
    """
    delivery = {"record_type": "Delivery"}
    complaint = {"record_type": "SpamComplaint", "reason": "SpamComplaint"}
    before, ahead = AT - HOUR, AT + HOUR
    keep(
        store,
        *(entry(n, before, **delivery) for n in range(1, 5)),
        entry(5, before, **complaint),
        entry(6, before, **complaint, outcome=UNKNOWN),
        *(entry(n, **delivery) for n in (7, 8)),
        entry(9, ahead, **complaint),
        entry(10, AT - 2 * HOUR, **complaint),
        entry(11, before, **delivery, entry="sendgrid"),
    )
    *earlier, no_delivery, first, last = read_overview(store, Period.DAY, AT).complaint_rates
    assert (no_delivery.rate, first.rate, last.rate) == (None, 1 / 5, 1 / 2)
    assert {each.rate for each in earlier} == {None}
    assert len(earlier) == 21
    of_entry = read_overview(store, Period.DAY, AT, "sendgrid").complaint_rates
    assert [each.rate for each in of_entry[-2:]] == [0, None]


@pytest.mark.parametrize(
    ("complete_since", "shown"),
    [(None, 1 / 2), (AT - 30 * HOUR, None), (AT - HOUR, None)],
)
def test_rates_while_counting(
    store: SQLStore,
    monkeypatch: pytest.MonkeyPatch,
    complete_since: datetime | None,
    shown: float | None,
) -> None:
    """The previous rate is unknown if notifications are missing; the period may be complete."""
    at, found = NOON - 30 * HOUR, (RECORDED, "", 3, 0)
    counts = [
        Count(at, "Delivery", "", *found),
        Count(at, "SubscriptionChange", "HardBounce", *found),
    ]
    monkeypatch.setattr(store.log, "counts", lambda *_: Counts(counts, complete_since))
    seen = read_overview(store, Period.DAY, AT)
    assert seen.rates["bounce"] == (None, False, shown)
    assert (seen.complete_since is None) is (complete_since != AT - HOUR)
    assert seen.total == 0


def test_recent_outcomes(store: SQLStore) -> None:
    """Only the newest entries count, and a repeated one by its last arrival."""
    keep(store, *(entry(n, outcome=FAILED) for n in range(1, 11)))
    keep(store, *(entry(n) for n in range(11, RECENT_ENTRIES + 6)))
    keep(store, entry(RECENT_ENTRIES, AT + MINUTE))
    seen = read_present(store, AT + 2 * MINUTE)
    assert seen.outcomes == {FAILED: 5, RECORDED: RECENT_ENTRIES - 5}
    assert seen.health.startswith("The last notification was received 60 s ago; ")


@pytest.mark.parametrize(
    ("recent", "text"),
    [
        ({RECORDED: 1}, "; it was recorded."),
        ({UNSUPPORTED: 1}, "; it was refused, because the payload is not supported."),
        ({RECORDED: 1000}, "; none of the last 1,000 was refused."),
        ({RECORDED: 2, UNSUPPORTED: 1}, "1 of the last 3 was refused, because the payload is not"),
        ({RECORDED: 997, NOT_SAVED: 3}, "3 of the last 1,000 were refused, all because the disp"),
        ({RECORDED: 995, FAILED: 5}, "5 of the last 1,000 were refused, all because of a datab"),
        ({FAILED: 1, UNKNOWN: 2, RECORDED: 1}, "3 of the last 4 were refused: 2 because no sub"),
    ],
)
def test_health(recent: Mapping[Result, int], text: str) -> None:
    seen = Present(now=AT, last_received=AT, outcomes=recent)
    assert seen.health.startswith("The last notification was received just now; ")
    assert text in seen.health


@pytest.mark.parametrize(
    ("schema", "health"),
    [
        (Schema(), "No notification has been received yet."),
        (Schema(log=None), "This store has no log, so notifications are not counted."),
    ],
)
def test_an_empty_log_or_none_has_an_overview(schema: Schema, health: str) -> None:
    with closing(SQLStore(MEMORY, schema)) as store:
        assert read_present(store, AT).health == health
        assert read_overview(store, Period.WEEK, AT).total == 0


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        ([n * SECOND for n in range(101)], (50 * SECOND, 95 * SECOND, 101)),
        ([7 * SECOND], (7 * SECOND, 7 * SECOND, 1)),
        ([-SECOND], (0 * SECOND, 0 * SECOND, 1)),  # by a clock that is behind
        ([], None),
    ],
)
def test_delays(
    store: SQLStore,
    delays: list[timedelta],
    expected: tuple[timedelta, timedelta, int] | None,
) -> None:
    """Delays are measured from sent to delivered, for recorded deliveries in the period."""
    ada = Tables(store).add_subscriber("ada@example.com")
    delivery = {"record_type": "Delivery", "occurred_at": AT}
    others: list[dict[str, Any]] = [
        *({"outcome": FAILED}, {"record_type": "Open"}, {"message_id": None}),
        *({"occurred_at": None}, {"received_at": AT - 2 * DAY}),
    ]
    for number, more in enumerate([*[dict[str, Any]()] * len(delays), *others]):
        keep(store, entry(number, **{"message_id": f"m-{number}", **delivery, **more}))
        delay = delays[number] if number < len(delays) else HOUR
        add_sent(store, f"m-{number}", ada, AT - delay)
    found = read_overview(store, Period.DAY, AT).delays
    assert (found and (found.median, found.p95, found.count)) == expected


def add_sent(store: SQLStore, message_id: str | None, subscriber: int, at: datetime) -> None:
    """Add a dispatch that was sent at a time."""
    id_ = Tables(store).add_dispatch(message_id, subscriber)
    with store.database.transaction() as connection:
        connection.execute(
            "UPDATE hookrow_dispatches SET created_at = %s WHERE id = %s",
            [store.role_tables.dialect.write(at), id_],
        )


# -- the tables ------------------------------------------------------------------------


def test_rates(store: SQLStore) -> None:
    """Rates are shares of the sent messages; without any, they are unknown."""
    one = ListCount(list=1, sent=6, delivered=5, opened=1)
    two = ListCount(list=2, sent=2, delivered=1, opened=1)
    some = TableCounts(as_of=AT, lists=[one, two], suppressed={})
    assert (some.sent, some.delivery_rate, some.open_rate) == (8, 0.75, 0.25)
    none = count_tables(store, AT)
    assert (none.sent, none.delivery_rate, none.open_rate) == (0, None, None)


def test_recent_dispatches(store: SQLStore) -> None:
    """Dispatches sent more than an hour and at most a week ago are counted, also by delivery."""
    schema = Schema(dispatches=Role("hookrow_dispatches", {"sent_at": None}))
    unknown = count_tables(SQLStore(store.database, schema), AT)
    assert (unknown.recent, unknown.undelivered) == (None, None)
    ada = Tables(store).add_subscriber("ada@example.com")
    for number, sent in enumerate((HOUR, HOUR + SECOND, 7 * DAY, 7 * DAY + SECOND, 2 * HOUR)):
        add_sent(store, f"m-{number}", ada, AT - sent)
    assert count_tables(store, AT).undelivered == 3
    with store.transaction() as transaction:
        transaction.write([SetTime(5, EventTime.DELIVERED, AT, guarded=True)])
        transaction.write([SetTime(3, EventTime.OPENED, AT, guarded=True)])
    add_sent(store, None, ada, AT - HOUR - SECOND)
    counts = count_tables(store, AT)
    assert (counts.recent, counts.undelivered) == ((3, 1, 1), 2)


def test_many_reasons(store: SQLStore) -> None:
    """Only the most frequent reasons are listed; an empty one is none."""
    reasons = ["", None, *(f"reason {n}" for n in range(MAX_REASONS + 2))] * 2
    for number, reason in enumerate([*reasons, "reason 0"]):
        suppressed: Any = {"suppressed_at": AT, "suppression_reason": reason}
        Tables(store).add_subscriber(f"{number}@x", **suppressed)
    counts = count_tables(store, AT).suppressed
    assert (len(counts), counts[None], counts["reason 0"], counts[OTHERS]) == (MAX_REASONS, 4, 3, 8)
    assert sum(counts.values()) == len(reasons) + 1


# -- the cache of a process ------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock; return its time, in a list."""
    time = [1000.0]
    monkeypatch.setattr(cache, "monotonic", lambda: time[0])
    return time


@pytest.fixture
def statistics(store: SQLStore) -> Iterator[Statistics]:
    with closing(Statistics(store)) as statistics:
        yield statistics


@pytest.fixture
def read(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Replace `read_overview`; all overviews are empty."""
    read = Mock(return_value=read_overview(store, Period.DAY, AT))
    monkeypatch.setattr(cache, "read_overview", read)
    return read


def test_an_overview_is_kept(
    clock: list[float], store: SQLStore, statistics: Statistics, read: Mock
) -> None:
    """It is read again after some seconds, or later if that took long.

    Each period and entry has its own.

    If several take long, each is read less often: they share one budget of time.
    """

    def slow(*_: object) -> Overview:
        clock[0] += 1
        return read_overview(store, Period.DAY, AT)

    def reads(*, after: float, period: Period = Period.DAY, entry: str | None = None) -> int:
        clock[0] += after
        statistics.overview(period, AT, entry)
        return read.call_count

    assert [reads(after=0), reads(after=cache.FRESH_FOR / 2)] == [1, 1]
    assert reads(after=0, period=Period.WEEK) == 2
    assert reads(after=cache.FRESH_FOR) == 3
    read.side_effect = slow
    assert reads(after=cache.FRESH_FOR) == 4
    pause = 1 / cache.READ_SHARE
    assert [reads(after=pause - 1), reads(after=1)] == [4, 5]
    assert reads(after=0, period=Period.WEEK) == 6
    assert [reads(after=pause), reads(after=pause), reads(after=pause)] == [7, 7, 8]
    assert [reads(after=0, entry="a"), reads(after=1, entry="a"), reads(after=0)] == [9, 9, 9]


def test_overviews_that_are_not_requested_any_more(
    clock: list[float], statistics: Statistics, read: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last ones are cached, whatever entries users ask for."""
    monkeypatch.setattr(cache, "MOST_CACHED", 2)
    for entry, reads in (("a", 1), ("b", 2), ("a", 2), ("c", 3), ("a", 3), ("b", 4)):
        statistics.overview(Period.DAY, AT, entry)
        assert read.call_count == reads
    assert clock == [1000.0]


@pytest.mark.parametrize(
    ("error", "pause"),
    [(Unavailable, cache.FRESH_FOR), (Locked, STATEMENT_TIMEOUT / cache.SHARE_OF_ERRORS)],
)
def test_an_error_is_kept(
    clock: list[float], statistics: Statistics, read: Mock, error: type[StoreError], pause: float
) -> None:
    """After an outage, figures are read again soon; after a query that was too slow, later."""

    def fail(*_: object) -> Overview:
        clock[0] += STATEMENT_TIMEOUT
        raise error("gone")

    read.side_effect, raised = fail, []
    for later in (0, 0, pause - 1):
        clock[0] += later
        with pytest.raises(error, match="gone") as caught:
            statistics.overview(Period.DAY, AT)
        raised.append(len(caught.traceback))
    assert read.call_count == 1
    assert len(set(raised)) == 1  # each caller gets its own traceback
    clock[0] += 1
    read.side_effect = None
    assert statistics.overview(Period.DAY, AT).total == 0


@pytest.mark.parametrize(
    ("age", "waits"), [(cache.FRESH_FOR, False), (cache.FRESH_FOR + cache.STALE_FOR, True)]
)
def test_one_thread_reads(
    clock: list[float], statistics: Statistics, read: Mock, age: float, *, waits: bool
) -> None:
    """Others get the previous overview while it reads, unless that is too old."""
    began, end = Event(), Event()
    old = statistics.overview(Period.DAY, AT)
    clock[0] += age

    def wait(*_: object) -> Overview:
        began.set()
        assert end.wait(PATIENCE)
        return replace(old, recovered=7)

    read.side_effect = wait
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(statistics.overview, Period.DAY, AT)
        assert began.wait(PATIENCE)
        second = threads.submit(statistics.overview, Period.DAY, AT)
        if not waits:
            assert second.result(PATIENCE).recovered == 0
        end.set()
        assert first.result(PATIENCE).recovered == 7
        assert second.result(PATIENCE).recovered == (7 if waits else 0)


def wait_for_count(statistics: Statistics) -> None:
    """Wait until the thread that counts the tables has ended.

    `threading.enumerate` omits a thread a moment before `is_alive` returns False.
    """
    assert statistics._thread is not None
    statistics._thread.join(PATIENCE)
    assert not statistics._thread.is_alive()


def test_tables_are_counted_in_the_background(
    clock: list[float], statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first caller waits a moment; later ones get the last count, and some start the next."""
    end, counts, pause = Event(), list[TableCounts](), 100 / cache.RECOUNT_SHARE

    def count(_: object, at: datetime) -> TableCounts:
        assert end.wait(PATIENCE)
        counts.append(TableCounts(as_of=at, lists=[], suppressed={}))
        clock[0] += 100
        return counts[-1]

    def counted(*, after: float, wait: float = PATIENCE) -> TableCounts | None:
        clock[0] += after
        return statistics.table_counts(wait)

    monkeypatch.setattr(cache, "count_tables", count)
    assert counted(after=0, wait=0.01) is None
    end.set()
    wait_for_count(statistics)
    assert counted(after=0) is counts[0]
    assert counted(after=pause - 1) is counts[0]
    end.clear()
    assert counted(after=1) is counts[0]
    end.set()
    statistics.close(PATIENCE)
    assert counted(after=0) is counted(after=pause) is counts[1]
    assert len(counts) == 2


@pytest.mark.parametrize(
    ("error", "pause"),
    [(Unavailable("gone"), cache.FRESH_FOR), (OSError("gone"), cache.RECOUNT_AFTER)],
)
def test_a_failed_count(
    store: SQLStore,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    pause: float,
) -> None:
    """A failure is logged and raised; after an outage, the tables are counted again soon.

    Later failures leave the last counts.
    """
    count = Mock(side_effect=error)
    monkeypatch.setattr(cache, "count_tables", count)
    with closing(Statistics(store)) as statistics:
        for later in (0, pause - 1):
            clock[0] += later
            with pytest.raises(type(error), match="gone"):
                statistics.table_counts(PATIENCE)
            wait_for_count(statistics)
        assert caplog.messages == [f"Rows could not be counted: {type(error).__name__}: gone"]
        counts = TableCounts(as_of=AT, lists=[], suppressed={})
        count.side_effect = [counts, error]
        clock[0] += 1
        assert statistics.table_counts(PATIENCE) is counts
        wait_for_count(statistics)
        clock[0] += cache.RECOUNT_AFTER
        statistics.table_counts()
    assert count.call_count == 3
    assert statistics.table_counts() is counts


# -- the search ------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "budget"), [(2, 60.0), (50, 0.0)])
def test_pages_of_a_search(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch, limit: int, budget: float
) -> None:
    """The pages have each entry once, whether they are full or the time limit was reached."""
    monkeypatch.setattr("hookrow._statistics.log_search.NARROWEST", 3)
    monkeypatch.setattr("hookrow._statistics.log_search.BUDGET", budget)
    monkeypatch.setattr("hookrow._statistics.log_search.COUNT_BUDGET", budget)
    odd = {"outcome": UNSUPPORTED, "record_type": "Bounce"}
    columns = {n: odd if n in {7, 50, 55} else {} for n in range(1, 101)}
    log = keep(store, *(entry(n, AT + n * MINUTE, **more) for n, more in columns.items()))
    half, end = AT + 50 * MINUTE, AT + 100 * MINUTE
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
        assert count(log, query).number <= len(expected)
        if budget:
            assert count(log, query) == (len(expected), True)
            monkeypatch.setattr("hookrow._statistics.log_search.MOST_RESULTS", 2)
            assert count(log, query) == (min(len(expected), 2), len(expected) <= 2)
            monkeypatch.setattr("hookrow._statistics.log_search.MOST_RESULTS", 1000)
