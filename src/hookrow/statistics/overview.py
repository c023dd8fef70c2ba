"""What is seen at a glance: values alone, made of what others have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median, quantiles

from hookrow.core.log_entry import Result
from hookrow.statistics.period import Period
from hookrow.stores.census import ListCount
from hookrow.stores.log import Cell

OTHER = "other"
"""The type of all that the log has no type of, and of all but the most frequent."""

OLD = timedelta(minutes=1)
"""How long after the log was read what was read is no longer the present."""

TYPES = 7
"""How many types are told apart at the most, `OTHER` among them."""

_REFUSED = {
    Result.SUBSCRIBER_NOT_FOUND: "for addresses that no subscriber has",
    Result.DISPATCH_NOT_FOUND: "for dispatches not yet saved",
    Result.RECIPIENT_MISMATCH: "for dispatches of another subscriber",
    Result.UNSUPPORTED: "for what is not supported",
    Result.FAILED: "for faults of the database",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """How long it took from sent to delivered, of the newest `count` deliveries."""

    median: timedelta
    p95: timedelta
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was counted in the host's own tables at `as_of`, all that there ever was.

    `suppressed` counts subscribers by reason, the rarest together; None stands for no reason.
    `delays` is None where no time of sending is kept, or nothing was delivered.
    """

    as_of: datetime
    lists: Sequence[ListCount]
    suppressed: Mapping[str | None, int]
    delays: Delays | None

    @property
    def sent(self) -> int:
        """How many dispatches were sent."""
        return sum(each.sent for each in self.lists)

    @property
    def delivery_rate(self) -> float | None:
        """Of those that were sent, the share that was delivered; None where there are none."""
        return _share(sum(each.delivered for each in self.lists), self.sent)

    @property
    def open_rate(self) -> float | None:
        """Of those that were sent, the share that was opened; None where there are none."""
        return _share(sum(each.opened for each in self.lists), self.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What the log says of the present, at `as_of`: of its newest entries, how each ended.

    `last` is when the newest came, None of an empty log.
    """

    as_of: datetime
    last: datetime | None
    recent: Mapping[Result, int]
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The figures of a period up to `now`, by the buckets that begin at `starts`.

    `by_type` has the most frequent types first and `by_outcome` the outcomes in the
    order of `Result`: each a count for each bucket, and only those that there are.
    `complete` is about which share of the period's entries is in them, from 0 to 1;
    `logged` is whether the store has a log. `heard`
    is None before the log was looked at, or where there is none, and `counts` before
    the tables were.
    """

    period: Period
    now: datetime
    starts: Sequence[datetime]
    by_type: Mapping[str, Sequence[int]]
    by_outcome: Mapping[Result, Sequence[int]]
    complete: float
    logged: bool
    heard: Heard | None
    counts: Counts | None

    @property
    def total(self) -> int:
        """How many notifications came in the period."""
        return sum(map(sum, self.by_outcome.values()))

    @property
    def health(self) -> str:
        """How it goes, in a sentence."""
        if not self.logged:
            return "There is no log, which would tell what came."
        if self.heard is None:
            return "The log is being read."
        told, unread = health(self.heard, self.now), self.now - self.heard.as_of
        return f"The log was last read {ago(unread)} ago. By then: {told}" if unread > OLD else told


def overview(
    cells: Mapping[Cell, int],
    period: Period,
    now: datetime,
    *,
    complete: float,
    logged: bool = True,
    heard: Heard | None,
    counts: Counts | None,
) -> Overview:
    """Sort the cells into the buckets of a period."""
    starts = period.starts(now)
    types: dict[str, list[int]] = {}
    outcomes: dict[Result, list[int]] = {}
    frequent = _frequent(cells, starts[0])
    for (at, record_type, outcome), count in cells.items():
        # What a clock ahead of ours dated belongs to the present, too.
        bucket = min((at - starts[0]) // period.bucket, len(starts) - 1)
        if bucket < 0:
            continue
        name = record_type if record_type in frequent else OTHER
        types.setdefault(str(name), [0] * len(starts))[bucket] += count
        outcomes.setdefault(outcome, [0] * len(starts))[bucket] += count
    return Overview(
        period=period,
        now=now,
        starts=starts,
        by_type=dict(sorted(types.items(), key=lambda each: -sum(each[1]))),
        by_outcome={each: outcomes[each] for each in Result if each in outcomes},
        complete=complete,
        logged=logged,
        heard=heard,
        counts=counts,
    )


def health(heard: Heard, now: datetime) -> str:
    """Tell when the provider was heard of, and what of the newest was refused, and why."""
    if heard.last is None:
        return "No notification has come yet."
    came = f"The last notification came {ago(now - heard.last)} ago"
    total = sum(heard.recent.values())
    refused = {each: n for each in _REFUSED if (n := heard.recent.get(each, 0))}
    if not refused:
        return f"{came}; none of the last {total:,} was refused."
    number = sum(refused.values())
    of_them = f"{number:,} of the last {total:,} {'was' if number == 1 else 'were'} refused"
    if len(refused) == 1:
        every = "all " if number > 1 else ""
        return f"{came}; {of_them}, {every}{_REFUSED[next(iter(refused))]}."
    why = ", ".join(f"{n:,} {_REFUSED[each]}" for each, n in refused.items())
    return f"{came}; {of_them}: {why}."


def ago(time: timedelta) -> str:
    """Write how long a time is, in its largest unit but one that it fills twice."""
    seconds = max(time.total_seconds(), 0)
    for name, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {name}"
    return f"{seconds:.0f} s"


def delays(times: Sequence[tuple[datetime, datetime]]) -> Delays | None:
    """Return how long it took from the one to the other of each pair; None of none.

    What was delivered before it was sent, by a clock that goes wrong, took no time.
    """
    seconds = [max((delivered - sent).total_seconds(), 0) for sent, delivered in times]
    if not seconds:
        return None
    p95 = quantiles(seconds, n=20, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    return Delays(
        median=timedelta(seconds=median(seconds)),
        p95=timedelta(seconds=p95),
        count=len(seconds),
    )


def _frequent(cells: Mapping[Cell, int], since: datetime) -> set[str]:
    """Return the types that are told apart."""
    counts: Counter[str] = Counter()
    for (at, record_type, _), count in cells.items():
        if at >= since and record_type is not None:
            counts[record_type] += count
    most = len(counts) if len(counts) < TYPES else TYPES - 1
    return {name for name, _ in counts.most_common(most)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
