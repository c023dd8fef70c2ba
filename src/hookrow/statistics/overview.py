"""The overview of a period: notifications by type and outcome, suppressions, and delays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from statistics import quantiles
from typing import TypeVar

from hookrow.core.log_entry import Result
from hookrow.stores import Store
from hookrow.stores.census import Census
from hookrow.stores.log import MOST_COUNTED, Count, LogReader, Query

K = TypeVar("K")

RECENT = 1000
"""The number of newest entries whose present outcomes are counted."""

DELIVERIES = 1000
"""The largest number of deliveries for which the time from sent to delivered is computed."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_REFUSED = {
    Result.SUBSCRIBER_NOT_FOUND: "for addresses that no subscriber has",
    Result.DISPATCH_NOT_FOUND: "for dispatches not yet saved",
    Result.RECIPIENT_MISMATCH: "for dispatches of another subscriber",
    Result.UNSUPPORTED: "because the payload is not supported",
    Result.FAILED: "because of database errors",
}


class Period(Enum):
    """A period that ends now, divided into buckets of equal length; the last is incomplete."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def bucket(self) -> timedelta:
        """The length of a bucket."""
        return _BUCKETS[self][0]

    def starts(self, now: datetime) -> Sequence[datetime]:
        """Return the start of each bucket, by the clock and calendar of UTC."""
        length, number = _BUCKETS[self]
        last = now - (now - _EPOCH) % length
        return [(last - n * length).astimezone(UTC) for n in reversed(range(number))]


_BUCKETS = {
    Period.HOUR: (timedelta(minutes=1), 60),
    Period.DAY: (timedelta(hours=1), 24),
    Period.WEEK: (timedelta(hours=6), 28),
    Period.MONTH: (timedelta(days=1), 30),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """The time from sent to delivered, of the newest `count` deliveries of a period."""

    median: timedelta
    p95: timedelta
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The figures of a period that ended at `now`, in buckets that begin at `starts`.

    `by_type` and `by_first_outcome` have a number of notifications for each bucket. Types, of which
    the most frequent comes first, are those that hookrow knows, or "other". `by_reason` counts the
    suppressions in the period by reason, also known ones or "other". `recovered` is the number of
    notifications that were refused at first and recorded later.

    `complete_since` is None if no notification of the period is missing in these counts; otherwise
    those before that time are still being counted.

    The rest describes the present: `last_received` is when the last notification arrived, `recent`
    has the outcomes of the newest `RECENT` ones, and `parked` is the number of those that wait for
    a retry. `delays` is None if the times of sending or of delivery are unknown.

    `logged` is False if the store has no log; there are no figures then.
    """

    period: Period
    now: datetime
    starts: Sequence[datetime]
    logged: bool
    by_type: Mapping[str, Sequence[int]] = field(default_factory=dict)
    by_first_outcome: Mapping[Result, Sequence[int]] = field(default_factory=dict)
    by_reason: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    complete_since: datetime | None = None
    last_received: datetime | None = None
    recent: Mapping[Result, int] = field(default_factory=dict)
    parked: int = 0
    delays: Delays | None = None

    @property
    def total(self) -> int:
        """The number of notifications in the period."""
        return sum(map(sum, self.by_type.values()))

    @property
    def health(self) -> str:
        """A sentence: when the last notification was received, how many were refused, and why."""
        if not self.logged:
            return "This store has no log, so notifications are not counted."
        if self.last_received is None:
            return "No notification has been received yet."
        received = f"The last notification was received {ago(self.now - self.last_received)} ago"
        return f"{received}; {_refusals(self.recent)}"


def read_overview(store: Store, period: Period, now: datetime) -> Overview:
    """Read the figures of a period up to now. Raises a `StoreError`."""
    starts, log = period.starts(now), store.log
    empty = Overview(period=period, now=now, starts=starts, logged=log is not None)
    if log is None:
        return empty
    counts, complete_since = log.counts(starts[0], period.bucket)
    newest = log.newest(Query(), limit=RECENT, bodies=False)
    types = _series(empty, counts, lambda count: count.record_type)
    outcomes = _series(empty, counts, lambda count: count.first_outcome)
    reasons: Counter[str] = Counter()
    for count in counts:
        reasons[count.reason] += count.entries
    return replace(
        empty,
        by_type=dict(sorted(types.items(), key=lambda each: -sum(each[1]))),
        by_first_outcome={each: outcomes[each] for each in Result if each in outcomes},
        by_reason={reason: number for reason, number in reasons.most_common() if reason},
        recovered=sum(count.recovered for count in counts),
        complete_since=complete_since,
        last_received=max((each.last_received_at for each in newest), default=None),
        recent=Counter(each.outcome for each in newest),
        parked=log.count_parked(),
        delays=_delays(store.census, log, starts[0]),
    )


def _series(
    overview: Overview, counts: Sequence[Count], key: Callable[[Count], K]
) -> Mapping[K, Sequence[int]]:
    """Return the numbers of entries for each bucket, by a key."""
    starts, series = overview.starts, dict[K, list[int]]()
    for count in counts:
        # An entry may be ahead of this clock.
        place = min((count.at - starts[0]) // overview.period.bucket, len(starts) - 1)
        series.setdefault(key(count), [0] * len(starts))[place] += count.entries
    return series


def _delays(census: Census, log: LogReader, since: datetime) -> Delays | None:
    """Return the delays of the newest deliveries; those sent after they arrived count as zero."""
    last = (log.bounds() or (1, 0))[1]
    ids = range(max(log.reached(since), last - MOST_COUNTED + 1), last + 1)
    query = Query(ids=ids, record_type="Delivery", outcome=Result.RECORDED, since=since)
    delivered = {
        each.message_id: each.occurred_at
        for each in log.newest(query, limit=DELIVERIES, bodies=False)
        if each.message_id is not None and each.occurred_at is not None
    }
    sent = census.sent(delivered.keys())
    seconds = [max((delivered[id_] - at).total_seconds(), 0) for id_, at in sent.items()]
    if not seconds:
        return None
    # It requires at least two values.
    cuts = quantiles(seconds * 2 if len(seconds) == 1 else seconds, n=20, method="inclusive")
    return Delays(
        median=timedelta(seconds=cuts[9]), p95=timedelta(seconds=cuts[18]), count=len(seconds)
    )


def _refusals(recent: Mapping[Result, int]) -> str:
    """Return the end of a sentence: how many of the newest entries were refused, and why."""
    total = sum(recent.values())
    refused = {each: number for each in _REFUSED if (number := recent.get(each, 0))}
    number = sum(refused.values())
    if not number:
        return f"none of the last {total:,} was refused."
    of_them = f"{number:,} of the last {total:,} {'was' if number == 1 else 'were'} refused"
    if len(refused) == 1:
        every = "all " if number > 1 else ""
        return f"{of_them}, {every}{_REFUSED[next(iter(refused))]}."
    reasons = ", ".join(f"{count:,} {_REFUSED[each]}" for each, count in refused.items())
    return f"{of_them}: {reasons}."


def ago(time: timedelta) -> str:
    """Format a duration in the largest unit that makes it at least 2."""
    seconds = max(time.total_seconds(), 0)
    for name, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {name}"
    return f"{seconds:.0f} s"
