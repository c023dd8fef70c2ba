"""The present state of the log, the overview of a period, and the counts of the host's tables.

An overview has the notifications by type and outcome, suppressions, their rates, and delays. The
tables are counted for dispatches sent, delivered and opened, and for suppressed subscribers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from statistics import quantiles
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hookrow._core.log_entry import RECORD_TYPES
from hookrow._core.notification import Delivered, Key
from hookrow._core.result import SUBSCRIBER_FOUND, Result
from hookrow._describe import format_duration
from hookrow.stores._log import MOST_COUNTED, UNAUTHENTIC, Count, RequestKind, Requests

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._log import SQLLog
    from hookrow.stores.sql._row_counts import ListCount, SentCount, SQLRowCounts

K = TypeVar("K")

RECENT_ENTRIES = 1000
"""The number of newest entries whose present outcomes are counted."""

MAX_DELIVERIES = 1000
"""The largest number of deliveries for which the time from sent to delivered is computed."""

RATES = {"bounce": "HardBounce", "complaint": "SpamComplaint", "unsubscribe": "ManualSuppression"}
"""The rates, and the reason of the suppressions that each of them counts."""


class RateLimit(NamedTuple):
    """A rate is too high if it is above `rate`, and at least `least` suppressions are counted.

    One complaint would otherwise put any sender of fewer than 1,000 messages above the limit.
    """

    rate: float
    least: int


RATE_LIMITS: Mapping[str, RateLimit] = {
    "bounce": RateLimit(0.02, 10),
    "complaint": RateLimit(0.001, 3),
}
"""The limits above which mail may be refused, by the name of the rate.

Gmail expects complaints to stay below 0.1 %: https://support.google.com/a/answer/81126. If the true
rate of complaints is half of that, three occur by chance on one day in 70 with 1,000 deliveries,
and on one in 50,000 with 100. The rules in docs/how-to/metrics/alerts.yml are the same.
"""

_SECOND = timedelta(seconds=1)

_DAY = timedelta(days=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_REFUSED = {
    Result.SUBSCRIBER_NOT_FOUND: "because no subscriber has the address",
    Result.DISPATCH_NOT_FOUND: "because the dispatch was not yet saved",
    Result.UNMAPPED: "because the mapping has no dispatches",
    Result.RECIPIENT_MISMATCH: "because the dispatch belongs to another subscriber",
    Result.UNSUPPORTED: "because the payload is not supported",
    Result.FAILED: "because of a database error",
}

MAX_REASONS = 20
"""The largest number of reasons listed, because users can enter any text as a reason."""

DUE_AFTER, DUE_WITHIN = timedelta(hours=1), timedelta(days=7)
"""The ages between which a dispatch that is not delivered is counted as undelivered."""

OTHERS = "other reasons"


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


class Rate(NamedTuple):
    """Recorded suppressions for a reason in a period, divided by its recorded deliveries.

    Bounces are divided by the messages that were delivered or bounced. `previous` is the rate of
    the period of the same length before it. A rate is None if no message was counted. The previous
    rate is also None if notifications are missing from the counts. `above_limit` is whether the
    current rate is too high.
    """

    current: float | None
    above_limit: bool
    previous: float | None


class BucketRate(NamedTuple):
    """The rate of a bucket, None if no message was counted, and whether it is too high."""

    rate: float | None
    above_limit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """The time from sent to delivered, of the newest `count` deliveries of a period."""

    median: timedelta
    p95: timedelta
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The state of the log at `now`; `logged` is False if the store has none.

    If `entry` is set, it is the state of that entry of the receiver. `last_received` is when the
    last notification arrived, `outcomes` has the outcomes of the newest `RECENT_ENTRIES` ones,
    `types` their record types, and `entries` the names of their entries. `parked` is the number of
    notifications that wait for a retry, and `expired` the number of those that are neither recorded
    nor retried any more, at most `MOST_EXPIRED`. `unauthentic` are the requests of the last day
    that got a 401, and `unavailable` the notifications that got a 503, by entry; see
    `SQLLog.requests_by_kind`.
    """

    now: datetime
    entry: str | None = None
    logged: bool = True
    last_received: datetime | None = None
    outcomes: Mapping[Result, int] = field(default_factory=dict)
    types: Collection[str] = ()
    entries: Collection[str] = ()
    parked: int = 0
    expired: int = 0
    unauthentic: Mapping[str, Requests] = field(default_factory=dict)
    unavailable: Mapping[str, Requests] = field(default_factory=dict)

    @property
    def received(self) -> str:
        """How long ago the last notification was received."""
        if self.last_received is None:
            return "never"
        age = self.now - self.last_received
        return "just now" if age < _SECOND else f"{format_duration(age)} ago"

    @property
    def health(self) -> str:
        """A sentence: when the last notification was received, how many were refused, and why."""
        if not self.logged:
            return "This store has no log, so notifications are not counted."
        if self.last_received is None and self.entry is not None:
            return f"None of the last {MOST_COUNTED:,} notifications is of the entry {self.entry}."
        if self.last_received is None:
            return "No notification has been received yet."
        of_entry = "" if self.entry is None else f" of the entry {self.entry}"
        refusals = _refusals(self.outcomes)
        return f"The last notification{of_entry} was received {self.received}; {refusals}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Overview:
    """The figures of a period that ended at `now`, in buckets that begin at `starts`.

    If `entry` is set, they are those of that entry of the receiver. `by_type` and
    `by_first_outcome` have a number of notifications for each bucket. Types are those that hookrow
    knows, or "other", most frequent first. `by_reason` counts the suppressions in the period by
    reason: one that hookrow knows, or "other". `rates` are those of `RATES`, by name, and
    `complaint_rates` the rates of complaints in the buckets. `recovered` is the number of
    notifications that were refused at first and recorded later.

    `complete_since` is None if no notification of the period is missing from these counts;
    otherwise, those before that time are missing, for the reason that `why_incomplete` states.
    `delays` is None if the times of sending or of delivery are unknown. Without a log, there are no
    figures.

    Overviews are compared by identity, so that text rendered from one can be cached.
    """

    period: Period
    now: datetime
    starts: Sequence[datetime]
    entry: str | None = None
    by_type: Mapping[str, Sequence[int]] = field(default_factory=dict)
    by_first_outcome: Mapping[Result, Sequence[int]] = field(default_factory=dict)
    by_reason: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    complaint_rates: Sequence[BucketRate] = ()
    recovered: int = 0
    complete_since: datetime | None = None
    delays: Delays | None = None

    @property
    def total(self) -> int:
        """The number of notifications in the period."""
        return sum(map(sum, self.by_type.values()))

    @property
    def why_incomplete(self) -> str:
        """Why the counts may be incomplete; those of the last hour do not use hourly counts."""
        if self.period is Period.HOUR:
            return f"More than {MOST_COUNTED:,} notifications"
        return "The hourly counts are not up to date"


def read_present(store: SQLStore, now: datetime, entry: str | None = None) -> Present:
    """Read the state of the log, or of a receiver's entry. Raises a `StoreError`."""
    if store.log is None:
        return Present(now=now, entry=entry, logged=False)
    last_received, outcomes, types, entries = store.log.recent(RECENT_ENTRIES, entry)
    backlog = store.log.backlog(now, entry)
    requests = store.log.requests_by_kind(now - _DAY)

    def of_entry(*kinds: RequestKind) -> Mapping[str, Requests]:
        found = add_up(requests, kinds)
        return {name: each for name, each in found.items() if entry in {None, name}}

    return Present(
        now=now,
        entry=entry,
        last_received=last_received,
        outcomes=outcomes,
        types=types,
        entries=entries,
        parked=backlog.parked,
        expired=backlog.expired,
        unauthentic=of_entry(*UNAUTHENTIC),
        unavailable=of_entry(RequestKind.UNAVAILABLE),
    )


def read_unauthentic(log: SQLLog, now: datetime) -> Mapping[str, Requests]:
    """Read how many requests had no valid secret in the last day, by the receiver's entry.

    The log has no entry for them. See `SQLLog.requests`. Raises a `StoreError`.
    """
    return add_up(log.requests_by_kind(now - _DAY), UNAUTHENTIC)


def add_up(
    requests: Mapping[RequestKind, Mapping[str, Requests]], kinds: Collection[RequestKind]
) -> Mapping[str, Requests]:
    """Return the requests of several kinds together, by the receiver's entry, most first."""
    found: dict[str, Requests] = {}
    for each in kinds:
        for entry, (number, first, last) in requests.get(each, {}).items():
            other = found.get(entry, Requests(0, first, last))
            found[entry] = Requests(
                other.number + number, min(other.first, first), max(other.last, last)
            )
    return dict(sorted(found.items(), key=lambda each: (-each[1].number, each[0])))


def read_overview(
    store: SQLStore, period: Period, now: datetime, entry: str | None = None
) -> Overview:
    """Read the figures of a period up to now, or those of a receiver's entry.

    Raises a `StoreError`.
    """
    starts, log = period.starts(now), store.log
    empty = Overview(period=period, now=now, entry=entry, starts=starts)
    if log is None:
        return empty
    previous_start = starts[0] - period.bucket * len(starts)
    all_counts, complete_since = log.counts(previous_start, period.bucket)
    both = [each for each in all_counts if entry in {None, each.entry}]
    counts = [each for each in both if each.at >= starts[0]]
    before = [each for each in both if each.at < starts[0]] if complete_since is None else []
    if complete_since is not None and complete_since <= starts[0]:
        complete_since = None
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
        rates={
            name: Rate(*_rate(counts, name), previous=_rate(before, name).rate) for name in RATES
        },
        complaint_rates=[_rate(each, "complaint") for each in _by_bucket(empty, counts)],
        recovered=sum(count.recovered for count in counts),
        complete_since=complete_since,
        delays=_delays(store.row_counts, log, starts[0], entry),
    )


def _series(
    overview: Overview, counts: Sequence[Count], key: Callable[[Count], K]
) -> Mapping[K, Sequence[int]]:
    """Return the numbers of entries for each bucket, by a key."""
    series: dict[K, list[int]] = {}
    for count in counts:
        numbers = series.setdefault(key(count), [0] * len(overview.starts))
        numbers[_bucket_of(overview, count)] += count.entries
    return series


def _by_bucket(overview: Overview, counts: Sequence[Count]) -> Sequence[Sequence[Count]]:
    """Return the counts of each bucket."""
    buckets: list[list[Count]] = [[] for _ in overview.starts]
    for count in counts:
        buckets[_bucket_of(overview, count)].append(count)
    return buckets


def _bucket_of(overview: Overview, count: Count) -> int:
    """Return the index of a count's bucket, which is the last one if its clock was ahead."""
    starts = overview.starts
    return min((count.at - starts[0]) // overview.period.bucket, len(starts) - 1)


def _rate(counts: Sequence[Count], name: str) -> BucketRate:
    """Return one of `RATES`: recorded suppressions for its reason, divided by recorded deliveries.

    An event that suppresses may be of any type. Its suppression was also recorded if the event was
    refused for another of its effects.
    """
    suppressions = deliveries = 0
    for count in counts:
        if count.reason == RATES[name]:
            suppressions += _recorded(count, SUBSCRIBER_FOUND)
        elif count.record_type == RECORD_TYPES[Delivered] and not count.reason:
            deliveries += _recorded(count, {Result.RECORDED})
    # A message that bounces is not delivered, but that of a complaint is.
    messages = deliveries + suppressions if name == "bounce" else deliveries
    if not messages:
        return BucketRate(None)
    rate, limit = suppressions / messages, RATE_LIMITS.get(name)
    is_high = limit is not None and rate > limit.rate and suppressions >= limit.least
    return BucketRate(rate, is_high)


def _recorded(count: Count, results: Collection[Result]) -> int:
    """Return how many entries had one of these results at first, or have recovered."""
    return count.entries if count.first_outcome in results else count.recovered


def _delays(
    row_counts: SQLRowCounts, log: SQLLog, since: datetime, entry: str | None
) -> Delays | None:
    """Return the delays of the newest deliveries; a negative delay counts as zero."""
    delivered = log.deliveries(since, entry, limit=MAX_DELIVERIES)
    sent = row_counts.sent(delivered.keys())
    seconds = [max((delivered[id_] - at).total_seconds(), 0) for id_, at in sent.items()]
    if not seconds:
        return None
    # `quantiles` requires at least two values.
    cuts = quantiles(seconds * 2 if len(seconds) == 1 else seconds, n=20, method="inclusive")
    return Delays(
        median=timedelta(seconds=cuts[9]), p95=timedelta(seconds=cuts[18]), count=len(seconds)
    )


def _refusals(outcomes: Mapping[Result, int]) -> str:
    """Return the end of a sentence: how many of the newest entries were refused, and why."""
    total = sum(outcomes.values())
    refused = {each: number for each in _REFUSED if (number := outcomes.get(each, 0))}
    number = sum(refused.values())
    if not number:
        return "it was recorded." if total == 1 else f"none of the last {total:,} was refused."
    of_them = f"{number:,} of the last {total:,} {'was' if number == 1 else 'were'} refused"
    if total == 1:
        of_them = "it was refused"
    if len(refused) == 1:
        every = "all " if number > 1 else ""
        return f"{of_them}, {every}{_REFUSED[next(iter(refused))]}."
    reasons = ", ".join(f"{count:,} {_REFUSED[each]}" for each, count in refused.items())
    return f"{of_them}: {reasons}."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCounts:
    """The counts of all rows of the host's tables at `as_of`.

    `suppressed` counts subscribers by reason, of which the rarest are added up as `OTHERS`; None
    stands for no reason. `recent` counts the dispatches that were sent more than `DUE_AFTER` and at
    most `DUE_WITHIN` ago; None if the time of sending is unknown.
    """

    as_of: datetime
    lists: Sequence[ListCount]
    suppressed: Mapping[str | None, int]
    recent: SentCount | None = None

    @property
    def undelivered(self) -> int | None:
        """The number of `recent` dispatches that are not delivered, or None if it is unknown."""
        return None if self.recent is None else self.recent.sent - self.recent.delivered

    @property
    def sent(self) -> int:
        """The number of dispatches that were sent."""
        return sum(each.sent for each in self.lists)

    @property
    def delivery_rate(self) -> float | None:
        """The share of sent dispatches that were delivered, from 0 to 1; None if none was sent."""
        return self._share(sum(each.delivered for each in self.lists))

    @property
    def open_rate(self) -> float | None:
        """The share of sent dispatches that were opened, from 0 to 1; None if none was sent."""
        return self._share(sum(each.opened for each in self.lists))

    def _share(self, part: int) -> float | None:
        return part / self.sent if self.sent else None


def count_tables(store: SQLStore, now: datetime, *, tenant: Key | None = None) -> TableCounts:
    """Count all rows, or those of a tenant, which may take a long time. Raises a `StoreError`."""
    row_counts = store.row_counts
    return TableCounts(
        as_of=now,
        lists=row_counts.lists(tenant=tenant),
        suppressed=_frequent(row_counts.suppressed(tenant=tenant)),
        recent=row_counts.sent_between(now - DUE_WITHIN, now - DUE_AFTER, tenant=tenant),
    )


def _frequent(reasons: Mapping[str | None, int]) -> Mapping[str | None, int]:
    """Add up all but the most frequent reasons as `OTHERS`; an empty reason counts as None."""
    counts: Counter[str | None] = Counter()
    for reason, count in reasons.items():
        counts[reason or None] += count
    if len(counts) <= MAX_REASONS:
        return counts
    most = Counter(dict(counts.most_common(MAX_REASONS - 1)))
    most[OTHERS] += counts.total() - most.total()
    return most
