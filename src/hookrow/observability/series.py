"""The series: every metric's name, what it is, and all values that its labels have."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from math import inf
from types import NoneType

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.values import ValueClass

from hookrow.core.notification import Delivered, Opened, Reactivated, Refusal, Suppressed
from hookrow.stores import Conflict, Locked, Rejected, Unavailable

ANSWER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LAG_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86400.0, 3 * 86400.0)
GROUP_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

TYPES = {
    Delivered: "delivered",
    Opened: "opened",
    Suppressed: "suppressed",
    Reactivated: "reactivated",
    NoneType: "unsupported",
}

_AT_ONCE = (
    *(Refusal.NO_SUCH_PATH, Refusal.METHOD_NOT_ALLOWED, Refusal.UNAUTHENTIC),
    *(Refusal.TIMED_OUT, Refusal.LENGTH_REQUIRED, Refusal.TOO_LARGE),
)
"""Refused before there is a notification; whatever else there is ends with its group."""

RESULTS = {
    NoneType: "committed",
    Conflict: "conflict",
    Locked: "locked",
    Rejected: "rejected",
    Unavailable: "unavailable",
}
"""How a try to record a group ends; anything else is a fault."""


class GroupHistogram(Collector):
    """A histogram without labels that takes a group's observations at once.

    Processes that share their counts write each to a file: one by one it would be a
    tenth of all that a notification costs.
    """

    def __init__(
        self, name: str, text: str, *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._text = name, text
        self._bounds = (*buckets, inf)
        self._labels = [*map(str, buckets), "+Inf"]
        value = partial(ValueClass, "histogram", name)
        self._buckets = [value(f"{name}_bucket", ("le",), (le,), text) for le in self._labels]
        self._sum = value(f"{name}_sum", (), (), text)
        registry.register(self)

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Observe each amount."""
        places = Tally(bisect_left(self._bounds, amount) for amount in amounts)
        for place, count in places.items():
            self._buckets[place].inc(count)
        self._sum.inc(sum(amounts))

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Show what this process has observed."""
        counts = accumulate(bucket.get() for bucket in self._buckets)
        buckets = list(zip(self._labels, counts, strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets, self._sum.get())


class Series:
    """The metrics of one receiver, in a registry.

    Raises `ValueError` where that has some of the same names.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        notifications = Counter(
            "hookrow_notifications",
            "Notifications that passed the secret check, by type and by how they ended.",
            ("type", "outcome"),
            registry=registry,
        )
        self.notifications = {
            (kind, refusal): notifications.labels(
                name, refusal.name.lower() if refusal else "recorded"
            )
            for kind, name in TYPES.items()
            for refusal in (None, *(each for each in Refusal if each not in _AT_ONCE))
        }
        refused = Counter(
            "hookrow_requests_refused",
            "Requests that were refused before there was a notification, by why.",
            ("refusal",),
            registry=registry,
        )
        self.refused = {each: refused.labels(each.name.lower()) for each in _AT_ONCE}
        attempts = Counter(
            "hookrow_attempts",
            "Tries to record a group in one transaction, by how they ended.",
            ("result",),
            registry=registry,
        )
        results = (*RESULTS.values(), "fault")
        self.attempts = {result: attempts.labels(result) for result in results}
        self.late = Counter(
            "hookrow_late_answers",
            "Notifications that were answered by the deadline, before they ended.",
            registry=registry,
        )
        self.secrets = Counter(
            "hookrow_secret_matches",
            "Requests that each secret let in; 1 is the newest.",
            ("secret",),
            registry=registry,
        )
        self._make_histograms(registry)
        self._make_gauges(registry)

    def _make_histograms(self, registry: CollectorRegistry) -> None:
        histogram = partial(GroupHistogram, registry=registry)
        self.answer = histogram(
            "hookrow_answer_seconds",
            "From the arrival of a notification until its answer is known.",
            buckets=ANSWER_SECONDS,
        )
        self.lag = histogram(
            "hookrow_lag_seconds",
            "From an event, as the provider dates it, until its notification arrived.",
            buckets=LAG_SECONDS,
        )
        self.group = histogram(
            "hookrow_group_size", "Notifications that shared a commit.", buckets=GROUP_SIZES
        )

    def _make_gauges(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self.backlog = gauge(
            "hookrow_backlog", "Notifications that wait for a commit.", multiprocess_mode="livesum"
        )
        self.parked = gauge(
            "hookrow_parked",
            "Notifications in the log that are tried again.",
            multiprocess_mode="mostrecent",
        )
        self.spooled = gauge(
            "hookrow_spooled",
            "Notifications that wait in the spool for the database.",
            multiprocess_mode="mostrecent",
        )
        self.newest = gauge(
            "hookrow_newest_notification_timestamp_seconds",
            "When the newest notification came, in seconds since 1970; 0 before there is one.",
            multiprocess_mode="livemax",
        )
