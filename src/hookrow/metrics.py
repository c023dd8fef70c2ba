"""Metrics: what a receiver does as Prometheus counts it, in names that begin with `hookrow_`.

Every label has a few values that are known beforehand; none is made of what a request says.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from tempfile import TemporaryDirectory
from time import perf_counter
from types import NoneType
from typing import TypeAlias

from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.http import Head, Request, Response
from hookrow.notification import (
    Arrival,
    Delivered,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Suppressed,
)
from hookrow.observing import Ended, Inside, Observer
from hookrow.spool import FAULTS
from hookrow.stores import Conflict, Locked, Rejected, StoreError, Unavailable
from hookrow.stores.log import Query

try:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        generate_latest,
        multiprocess,
    )
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
except ModuleNotFoundError as error:
    raise MissingExtra("hookrow.metrics", "metrics") from error

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Of the environment: where processes share their counts, if they do. It is the client's own
variable, https://prometheus.github.io/client_python/multiprocess/, and read at its import."""

ANSWER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LAG_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86400.0, 3 * 86400.0)
GROUP_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

_TYPES = {
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

_RESULTS = {
    NoneType: "committed",
    Conflict: "conflict",
    Locked: "locked",
    Rejected: "rejected",
    Unavailable: "unavailable",
}
"""How a try to record a group ends; anything else is a fault."""

_Ending: TypeAlias = tuple[type, Refusal | None]


class Metrics(Observer):
    """The metrics of one receiver: `Receiver(..., observer=Metrics(registry))`.

    Raises `ConfigurationError` where the registry has such metrics already.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        try:
            self._make(registry)
        except ValueError as error:
            raise ConfigurationError(
                f"One registry can have the metrics of one receiver: {error}."
            ) from error
        self._inside: Inside | None = None
        self._matched: dict[int, int] = {}
        self._newest_at = 0.0

    def watch(self, inside: Inside) -> None:
        """Begin; what is inside is looked at from then on."""
        self._inside = inside

    def look(self) -> None:
        """Set what changes without a notification, and count the secrets."""
        inside = self._inside
        if inside is None:
            return
        self._backlog.set(inside.backlog())
        self._count_secrets(inside.matched())
        with suppress(*FAULTS):
            self._spooled.set(inside.spooled())
        if inside.log is not None:
            with suppress(StoreError):
                self._parked.set(inside.log.count_parked())
                for entry in inside.log.newest(Query(), limit=1):
                    self._set_newest(entry.received_at.timestamp())

    def refused(self, head: Head, refusal: Refusal) -> None:
        """Count it."""
        del head
        self._refused[refusal].inc()

    def arrived(self, head: Head) -> float:
        """Return when it was, by the clock that never goes back."""
        del head
        return perf_counter()

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Count the group, and at its end what became of it."""
        self._group.observe(len(arrivals))
        if self._inside is not None:
            self._backlog.set(self._inside.backlog())
        return partial(self._end, arrivals, seen)

    def attempted(self, error: Exception | None) -> None:
        """Count it."""
        self._attempts[_RESULTS.get(type(error), "fault")].inc()

    def _end(
        self,
        arrivals: Sequence[Arrival],
        seen: Sequence[object | None],
        outcomes: Sequence[Outcome],
    ) -> None:
        now = perf_counter()
        for ending, count in Tally(map(_ending, arrivals, outcomes)).items():
            self._notifications[ending].inc(count)
        self._answer.observe_all([now - began for began in seen if isinstance(began, float)])
        self._lag.observe_all(
            # Of two clocks, of which one may be ahead.
            [
                max(0.0, (arrival.received_at - arrival.notification.at).total_seconds())
                for arrival in arrivals
                if arrival.notification is not None and arrival.notification.at is not None
            ]
        )
        self._set_newest(arrivals[-1].received_at.timestamp())

    def _set_newest(self, at: float) -> None:
        if at > self._newest_at:
            self._newest_at = at
            self._newest.set(at)

    def _count_secrets(self, matched: Mapping[int, int]) -> None:
        """Count what was added since the last look; after a rotation it began anew."""
        for place, count in matched.items():
            known = self._matched.get(place, 0)
            self._secrets.labels(str(place + 1)).inc(count - known if count >= known else count)
            self._matched[place] = count

    def _make(self, registry: CollectorRegistry) -> None:
        notifications = Counter(
            "hookrow_notifications",
            "Notifications that passed the secret check, by type and by how they ended.",
            ("type", "outcome"),
            registry=registry,
        )
        self._notifications = {
            (kind, refusal): notifications.labels(
                name, refusal.name.lower() if refusal else "recorded"
            )
            for kind, name in _TYPES.items()
            for refusal in (None, *(each for each in Refusal if each not in _AT_ONCE))
        }
        refused = Counter(
            "hookrow_requests_refused",
            "Requests that were refused before there was a notification, by why.",
            ("refusal",),
            registry=registry,
        )
        self._refused = {each: refused.labels(each.name.lower()) for each in _AT_ONCE}
        attempts = Counter(
            "hookrow_attempts",
            "Tries to record a group in one transaction, by how they ended.",
            ("result",),
            registry=registry,
        )
        results = (*_RESULTS.values(), "fault")
        self._attempts = {result: attempts.labels(result) for result in results}
        self._secrets = Counter(
            "hookrow_secret_matches",
            "Requests that each secret let in; 1 is the newest.",
            ("secret",),
            registry=registry,
        )
        self._make_histograms(registry)
        self._make_gauges(registry)

    def _make_histograms(self, registry: CollectorRegistry) -> None:
        self._answer = _Histogram(
            "hookrow_answer_seconds",
            "From the arrival of a notification until its answer is known.",
            buckets=ANSWER_SECONDS,
            registry=registry,
        )
        self._lag = _Histogram(
            "hookrow_lag_seconds",
            "From an event, as the provider dates it, until its notification arrived.",
            buckets=LAG_SECONDS,
            registry=registry,
        )
        self._group = Histogram(
            "hookrow_group_size",
            "Notifications that shared a commit.",
            buckets=GROUP_SIZES,
            registry=registry,
        )

    def _make_gauges(self, registry: CollectorRegistry) -> None:
        self._backlog = Gauge(
            "hookrow_backlog",
            "Notifications that wait for a commit.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._parked = Gauge(
            "hookrow_parked",
            "Notifications in the log that are tried again.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._spooled = Gauge(
            "hookrow_spooled",
            "Notifications that wait in the spool for the database.",
            registry=registry,
            multiprocess_mode="mostrecent",
        )
        self._newest = Gauge(
            "hookrow_newest_notification_timestamp_seconds",
            "When the newest notification came, in seconds since 1970; 0 before there is one.",
            registry=registry,
            multiprocess_mode="max",
        )


class _Histogram(Histogram):
    """A histogram without labels that takes a group's observations at once.

    Processes that share their counts write each to a file: one by one it would be a
    tenth of all that a notification costs.
    """

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Observe each amount."""
        places = Tally(bisect_left(self._upper_bounds, amount) for amount in amounts)
        for place, count in places.items():
            self._buckets[place].inc(count)
        self._sum.inc(sum(amounts))


class Exposition:
    """Answers with what a registry holds, as Prometheus reads it; of all processes that share."""

    blocking = True

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def admit(self, head: Head) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Response:
        """Answer."""
        del request
        registry = self._registry
        if FOLDER in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return Response(200, generate_latest(registry), {"Content-Type": CONTENT_TYPE_LATEST})


@contextmanager
def shared() -> Iterator[None]:
    """Let the processes that are started in the block share their counts, in a folder made for it.

    A process that has imported the client by then counts for itself.
    """
    with TemporaryDirectory(prefix="hookrow-metrics-") as folder:
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]


def forget_process(pid: int) -> None:
    """Leave out from now on what only a living process has; where none share, do nothing."""
    if FOLDER in os.environ:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _ending(arrival: Arrival, outcome: Outcome) -> _Ending:
    refusal = None if isinstance(outcome, Recorded) else outcome.refusal
    return type(arrival.notification), refusal
