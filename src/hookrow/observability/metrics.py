"""Metrics: what a receiver does as Prometheus counts it, in names that begin with `hookrow_`.

Every label has a few values that are known beforehand; none is made of what a request says.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter, time
from typing import TypeAlias

from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal
from hookrow.errors import ConfigurationError, MissingExtra
from hookrow.http import RequestHead
from hookrow.observability.observer import Ended, Inside, Observer
from hookrow.receiver.spool import FAULTS
from hookrow.stores import StoreError
from hookrow.stores.log import Query

try:
    from prometheus_client import CollectorRegistry

    from hookrow.observability.series import RESULTS, Series
except ModuleNotFoundError as error:
    raise MissingExtra("hookrow.observability.metrics", "metrics") from error

_Ending: TypeAlias = tuple[type, Refusal | None]


class Metrics(Observer):
    """The metrics of one receiver: `Receiver(..., observer=Metrics(registry))`.

    Raises `ConfigurationError` where the registry has such metrics already.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        try:
            self._series = Series(registry)
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
        self._set_newest(self._newest_at)  # the clock may have been set back
        self._series.backlog.set(inside.backlog())
        self._count_secrets(inside.matched())
        with suppress(*FAULTS):
            self._series.spooled.set(inside.spooled())
        if inside.log is not None:
            with suppress(StoreError):
                self._series.parked.set(inside.log.count_parked())
                for entry in inside.log.newest(Query(), limit=1, bodies=False):
                    self._set_newest(entry.received_at.timestamp())

    def refused(self, head: RequestHead, refusal: Refusal) -> None:
        """Count it."""
        del head
        self._series.refused[refusal].inc()

    def arrived(self, head: RequestHead) -> float:
        """Return when it was, by the clock that never goes back."""
        del head
        return perf_counter()

    def recording(self, arrivals: Sequence[Arrival], seen: Sequence[object | None]) -> Ended:
        """Set the backlog, and at the group's end count what became of it."""
        if self._inside is not None:
            self._series.backlog.set(self._inside.backlog())
        return partial(self._end, arrivals, seen)

    def attempted(self, arrivals: Sequence[Arrival], error: Exception | None) -> None:
        """Count it, and its size if it is committed."""
        if error is None:
            self._series.group.observe_all([len(arrivals)])
        self._series.attempts[RESULTS.get(type(error), "fault")].inc()

    def late(self) -> None:
        """Count it."""
        self._series.late.inc()

    def _end(
        self,
        arrivals: Sequence[Arrival],
        seen: Sequence[object | None],
        outcomes: Sequence[Outcome],
    ) -> None:
        now = perf_counter()
        for ending, count in Tally(map(_ending, arrivals, outcomes)).items():
            self._series.notifications[ending].inc(count)
        self._series.answer.observe_all([now - began for began in seen if isinstance(began, float)])
        self._series.lag.observe_all(
            # Of two clocks, of which one may be ahead.
            [
                max(0.0, (arrival.received_at - arrival.notification.at).total_seconds())
                for arrival in arrivals
                if arrival.notification is not None and arrival.notification.at is not None
            ]
        )
        self._set_newest(arrivals[-1].received_at.timestamp())

    def _set_newest(self, at: float) -> None:
        """Set it to no earlier time, unless what it is lies ahead: then a clock was wrong."""
        now = time()
        passed = [each for each in (at, self._newest_at) if each <= now]
        self._newest_at = max(passed, default=now)
        self._series.newest.set(self._newest_at)

    def _count_secrets(self, matched: Mapping[int, int]) -> None:
        """Count what was added since the last look; after a rotation it began anew."""
        for place, count in matched.items():
            known = self._matched.get(place, 0)
            self._series.secrets.labels(str(place + 1)).inc(
                count - known if count >= known else count
            )
            self._matched[place] = count


def _ending(arrival: Arrival, outcome: Outcome) -> _Ending:
    refusal = None if isinstance(outcome, Recorded) else outcome.refusal
    return type(arrival.notification), refusal
