"""Histograms that are updated once for each group of notifications."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import inf
from threading import Lock

from hookrow.errors import MissingExtra

try:
    from prometheus_client import CollectorRegistry, Histogram
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise MissingExtra("hookrow.observability.histogram", "metrics") from error


class GroupHistogram(Collector):
    """A histogram of this process that counts all observations of a group in one update.

    prometheus_client's own `Histogram` takes two locks for each observation.
    """

    def __init__(
        self, name: str, text: str, *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name, self._text = name, text
        self._bounds = (*buckets, inf)
        self._lock = Lock()
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
        registry.register(self)

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Count the amounts."""
        positions = [bisect_left(self._bounds, each) for each in amounts]
        with self._lock:
            for position in positions:
                self._counts[position] += 1
            self._sum += sum(amounts)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Return the counts of this process."""
        with self._lock:
            counts, total = [*accumulate(self._counts)], self._sum
        labels = [*map(str, self._bounds[:-1]), "+Inf"]
        buckets = list(zip(labels, counts, strict=True))
        yield HistogramMetricFamily(self._name, self._text, buckets, total)


class SharedHistogram(Histogram):
    """A histogram for processes that share their metrics: custom collectors do not support this."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Count the amounts."""
        for each in amounts:
            self.observe(each)
