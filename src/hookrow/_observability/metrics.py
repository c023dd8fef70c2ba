"""Prometheus metrics of a receiver, and the endpoint that Prometheus reads.

Every name begins with `hookrow_`. The values of every label are known in advance: none is taken
from a request, so that no request can add a time series.
"""

from __future__ import annotations

import collections
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, time
from types import NoneType
from typing import TYPE_CHECKING

from hookrow._arguments import check_function, has_members, reject
from hookrow._core.notification import (
    Arrival,
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Suppressed,
    first_of,
)
from hookrow._core.result import RESULTS, SUBSCRIBER_FOUND
from hookrow._core.status import Status, StatusSubject
from hookrow._http import Handler, Request, RequestHead, Response, reject_call
from hookrow._observability.observer import Gauges, GroupEnd, Observer
from hookrow.errors import ConfigurationError, HookrowError, MissingExtra
from hookrow.stores._errors import Conflict, Locked, Rejected, Unavailable, Unchanged
from hookrow.stores._log import MOST_EXPIRED, Query
from hookrow.stores._log_operations import totals

if TYPE_CHECKING:
    from hookrow.stores.sql._log import SQLLog

try:
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        generate_latest,
        multiprocess,
    )
except ModuleNotFoundError as error:
    if error.name != "prometheus_client":
        raise
    raise MissingExtra("hookrow.metrics", "metrics") from error

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the directory in which processes share their metrics.

prometheus_client reads it on import: https://prometheus.github.io/client_python/multiprocess/
"""

RESPONSE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""The upper bounds of the buckets of the response times, in seconds."""

LAG_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86400.0, 3 * 86400.0)
"""The upper bounds of the buckets of the lags, in seconds."""

GROUP_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""The upper bounds of the buckets of the sizes of groups, in notifications."""

TYPES = {
    Delivered: "delivered",
    Opened: "opened",
    Clicked: "clicked",
    Bounced: "bounced",
    Complained: "complained",
    Suppressed: "suppressed",
    Reactivated: "reactivated",
    NoneType: "unsupported",
}
"""The label of each type of notification."""

BEFORE_PARSING = (
    Refusal.NO_SUCH_PATH,
    Refusal.METHOD_NOT_ALLOWED,
    Refusal.UNAUTHENTIC,
    Refusal.TIMED_OUT,
    Refusal.LENGTH_REQUIRED,
    Refusal.TOO_LARGE,
    Refusal.NOT_READY,
)
"""Refusals of a request. All other refusals are outcomes of a notification."""

ATTEMPT_LABELS = {
    NoneType: "committed",
    Conflict: "conflict",
    Unchanged: "conflict",
    Locked: "locked",
    Rejected: "rejected",
    Unavailable: "unavailable",
}
"""The label of an attempt by the class of its exception; any other exception is a fault."""

_OF_OTHERS = {refusal for refusal, result in RESULTS.items() if result in SUBSCRIBER_FOUND}
"""The refusals of an event that are never those of its change of suppression."""

_FAULT = "fault"

TOTALS_EVERY = 60.0
"""Seconds between two reads of the totals of the log, at least: they are the slowest gauges."""

TOTALS_SHARE = 1 / 100
"""The largest share of the time for reading the totals, of which a receiver with many entries has
many."""

_UNREADABLE = (HookrowError, OSError, sqlite3.Error)
"""Raised if the database or the spool cannot be read; the gauge then keeps its last value."""


class Metrics(Observer):
    """The metrics of one receiver: `Receiver(..., observer=Metrics(registry))`.

    Raises `ConfigurationError` if the registry already contains the metrics of a receiver, or if it
    is not a registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        check_registry("Metrics", registry)
        self._registry = registry
        with _registering():
            self._register_counters(registry)
            self._register_histograms(registry)
            self._register_gauges(registry)
        self._source: Gauges | None = None
        self._counted_matches: dict[tuple[str | None, int], int] = {}
        self._newest_at = 0.0
        self._totals_due = 0.0
        self._read_status: Callable[[], Status] | None = None

    def watch(self, status: Callable[[], Status]) -> None:
        """Set the gauges of the status from now on: `metrics.watch(Readiness(receiver).status)`.

        Without it, there are no such gauges. Raises `ConfigurationError` if the argument is no
        function, and if the registry has them already.
        """
        check_function("status", status)
        with _registering():
            self._register_status(self._registry)
        self._read_status = status

    def start(self, gauges: Gauges) -> None:
        """Store the gauges, which `collect` reads, and begin the counts of refusals at zero.

        Otherwise, Prometheus would not see that the first refusal increases a count.
        """
        self._source = gauges
        self._refused_by(Refusal.NO_SUCH_PATH, None)
        for entry in gauges.secret_matches():
            for refusal in BEFORE_PARSING:
                if refusal is not Refusal.NO_SUCH_PATH:  # which no entry has
                    self._refused_by(refusal, entry)

    def collect(self) -> None:
        """Update the gauges, and count the matches of each secret."""
        if self._read_status is not None:
            self._set_status(self._read_status())
        source = self._source
        if source is None:
            return
        self._set_newest(self._newest_at)  # the clock may have been set back
        self._backlog.set(source.backlog())
        self._count_secret_matches(source.secret_matches())
        with suppress(*_UNREADABLE):
            self._spooled.set(source.spooled())
        if source.log is not None:
            with suppress(*_UNREADABLE):
                self._read_log(source.log)

    def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
        """Count the refusal."""
        del head
        self._refused_by(refusal, entry).inc()

    def admitted(self, head: RequestHead) -> float:
        """Return the time of a monotonic clock, in seconds."""
        del head
        return perf_counter()

    def begin_group(
        self, arrivals: Sequence[Arrival], contexts: Sequence[object | None]
    ) -> GroupEnd:
        """Set the backlog; at the end of the group, count its outcomes."""
        if self._source is not None:
            self._backlog.set(self._source.backlog())
        return partial(self._end_group, arrivals, contexts)

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Count the attempt; if it was committed, observe the size of the group."""
        if error is None:
            self._group_size.observe(len(arrivals))
        self._attempts[_attempt_label(error)].inc()

    def late(self) -> None:
        """Count the response."""
        self._late.inc()

    def _set_status(self, status: Status) -> None:
        self._status.set(status.level.severity)
        for subject in StatusSubject:
            self._findings.labels(subject.value).set(status.about(subject).severity)

    def _refused_by(self, refusal: Refusal, entry: str | None) -> Counter:
        """Return the count of a refusal by an entry."""
        return self._refused.labels(refusal.name.lower(), entry or "")

    def _end_group(
        self,
        arrivals: Sequence[Arrival],
        contexts: Sequence[object | None],
        outcomes: Sequence[Outcome | None],
    ) -> None:
        now = perf_counter()
        ended = [
            (arrival, began, outcome)
            for arrival, began, outcome in zip(arrivals, contexts, outcomes, strict=True)
            if outcome is not None
        ]
        results = chain.from_iterable(_results(arrival, outcome) for arrival, _, outcome in ended)
        for result, count in collections.Counter(results).items():
            self._notifications[result].inc(count)
        for arrival, began, _ in ended:
            if isinstance(began, float):
                self._seconds.observe(now - began)
            notification = first_of(arrival.notifications)
            if notification is not None and notification.at is not None:
                lag = (arrival.received_at - notification.at).total_seconds()
                self._lag.observe(max(0.0, lag))  # the provider's clock may be ahead
        self._set_newest(arrivals[-1].received_at.timestamp())

    def _read_log(self, log: SQLLog) -> None:
        now = datetime.now(UTC)
        backlog = log.backlog(now)
        self._parked.set(backlog.parked)
        self._oldest_due.set((now - (backlog.oldest_due or now)).total_seconds())
        self._expired.set(backlog.expired)
        for entry in log.newest(Query(), limit=1, bodies=False):
            self._set_newest(entry.received_at.timestamp())
        if (begin := monotonic()) >= self._totals_due:
            self._totals_due = begin + TOTALS_EVERY
            for each in totals(log):
                labels = (each.record_type, each.reason, each.first_outcome.value, each.entry)
                self._logged.labels(*labels).set(each.entries)
                self._recovered.labels(*labels).set(each.recovered)
            seconds = monotonic() - begin
            self._totals_due = monotonic() + max(TOTALS_EVERY, seconds / TOTALS_SHARE)

    def _set_newest(self, at: float) -> None:
        """Set the time of the newest notification to `at` if it is later, but not in the future."""
        now = time()
        past = [each for each in (at, self._newest_at) if each <= now]
        self._newest_at = max(past, default=now)
        self._newest.set(self._newest_at)

    def _count_secret_matches(self, matches: Mapping[str | None, Mapping[int, int]]) -> None:
        """Add the matches since the last call; a rotation of secrets resets them to zero."""
        for entry, by_position in matches.items():
            for position, count in by_position.items():
                counted = self._counted_matches.get((entry, position), 0)
                self._secret_matches.labels(entry or "", str(position + 1)).inc(
                    count - counted if count >= counted else count
                )
                self._counted_matches[entry, position] = count

    def _register_counters(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        notifications = counter(
            "hookrow_notifications",
            "Notifications with a valid secret, by type and outcome.",
            ("type", "outcome"),
        )
        outcomes = (None, *(each for each in Refusal if each not in BEFORE_PARSING))
        self._notifications = {
            (kind, refusal): notifications.labels(
                name, refusal.name.lower() if refusal else "recorded"
            )
            for kind, name in TYPES.items()
            for refusal in outcomes
        }
        self._refused = counter(
            "hookrow_requests_refused",
            "Requests that were refused before their body was parsed, by reason and entry.",
            ("refusal", "entry"),
        )
        attempts = counter(
            "hookrow_attempts",
            "Attempts to record a group in one transaction, by result.",
            ("result",),
        )
        results = dict.fromkeys((*ATTEMPT_LABELS.values(), _FAULT))
        self._attempts = {result: attempts.labels(result) for result in results}
        self._late = counter(
            "hookrow_late_responses",
            "Responses sent at the deadline, before the outcome of the notification was known.",
        )
        self._secret_matches = counter(
            "hookrow_secret_matches",
            "Requests that each secret of an entry authenticated; 1 is the newest secret.",
            ("entry", "secret"),
        )

    def _register_histograms(self, registry: CollectorRegistry) -> None:
        histogram = partial(Histogram, registry=registry)
        self._seconds = histogram(
            "hookrow_response_seconds",
            "Time from the arrival of a notification until its response is known.",
            buckets=RESPONSE_SECONDS,
        )
        self._lag = histogram(
            "hookrow_lag_seconds",
            "Time from an event, by the provider's clock, until its notification arrived.",
            buckets=LAG_SECONDS,
        )
        self._group_size = histogram(
            "hookrow_group_size", "Notifications committed together.", buckets=GROUP_SIZES
        )

    def _register_status(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livemax")
        self._status = gauge(
            "hookrow_status",
            "The status: 0 if all is well, 1 if something needs attention, 2 if it is broken.",
        )
        self._findings = gauge(
            "hookrow_finding",
            "The worst finding about a subject: 0 without one, 1 for attention, 2 if it is broken.",
            ("subject",),
        )

    def _register_gauges(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._backlog = gauge(
            "hookrow_backlog",
            "Notifications waiting for a commit.",
            multiprocess_mode="livesum",
        )
        self._parked = gauge(
            "hookrow_parked",
            "Notifications in the log that are waiting for a retry.",
            multiprocess_mode="mostrecent",
        )
        self._oldest_due = gauge(
            "hookrow_oldest_due_seconds",
            "Time since the most overdue retry of the log was due, in seconds; 0 if none is due.",
            multiprocess_mode="mostrecent",
        )
        self._expired = gauge(
            "hookrow_expired",
            f"Logged notifications that are neither recorded nor retried, up to {MOST_EXPIRED}.",
            multiprocess_mode="mostrecent",
        )
        self._spooled = gauge(
            "hookrow_spooled",
            "Notifications in the spool, waiting for the database.",
            multiprocess_mode="mostrecent",
        )
        labels = ("type", "reason", "first_outcome", "entry")
        self._logged = gauge(
            "hookrow_log_notifications",
            "Distinct notifications that the log has counted since it was created.",
            labels,
            multiprocess_mode="mostrecent",
        )
        self._recovered = gauge(
            "hookrow_log_recovered",
            "Notifications that the log has counted, refused at first and recorded later.",
            labels,
            multiprocess_mode="mostrecent",
        )
        self._newest = gauge(
            "hookrow_newest_notification_timestamp_seconds",
            "Arrival of the newest notification, in seconds since 1970; 0 without notifications.",
            multiprocess_mode="livemax",
        )


def _results(arrival: Arrival, outcome: Outcome) -> Iterator[tuple[type, Refusal | None]]:
    """Yield the type of each notification of an event, and its refusal unless it was recorded.

    A change of suppression is also recorded if another notification of the event is refused.
    """
    refusal = None if isinstance(outcome, Recorded) else outcome.refusal
    for each in arrival.notifications or (None,):
        is_change = isinstance(each, Suppressed | Reactivated)
        yield type(each), None if is_change and refusal in _OF_OTHERS else refusal


@contextmanager
def _registering() -> Iterator[None]:
    """Raise `ConfigurationError` if the block registers a metric that the registry has already."""
    try:
        yield
    except ValueError as error:
        raise ConfigurationError(
            "A registry can contain the metrics of one receiver only: pass another "
            f"registry. ({error})"
        ) from error


class MetricsEndpoint(Handler):
    """A handler that returns the metrics in a registry, in Prometheus' text format.

    If processes share their metrics, the response covers all of them. Raises `ConfigurationError`
    for an object that is not a registry.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        check_registry("MetricsEndpoint", registry)
        self._registry = registry

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request, *others: object) -> Response:
        """Return the metrics."""
        if others or not isinstance(request, Request):
            return reject_call("endpoint", self, request, *others)
        registry = self._registry
        if MULTIPROCESS_FOLDER in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
        return Response(200, generate_latest(registry), {"Content-Type": CONTENT_TYPE_LATEST})


def create_registry() -> CollectorRegistry:
    """Return a registry without metrics."""
    return CollectorRegistry()


def check_registry(name: str, registry: object) -> None:
    """Raise `ConfigurationError` if the argument of `name` is not a registry."""
    if not has_members(registry, ("register", "collect")):
        reject(f"The argument of {name}()", "a CollectorRegistry", registry, f"{name}(registry)")


@contextmanager
def shared_counts() -> Iterator[None]:
    """Let all processes that start in the block share their metrics in a temporary directory.

    A process that has already imported prometheus_client keeps separate metrics.
    """
    with TemporaryDirectory(prefix="hookrow-metrics-") as folder:
        os.environ[MULTIPROCESS_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[MULTIPROCESS_FOLDER]


def forget_process(pid: int) -> None:
    """Remove the gauges of a process that has ended, if processes share their metrics."""
    if MULTIPROCESS_FOLDER in os.environ:
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call] # it has no types


def _attempt_label(error: Exception | None) -> str:
    classes = type(error).__mro__
    return next((ATTEMPT_LABELS[each] for each in classes if each in ATTEMPT_LABELS), _FAULT)
