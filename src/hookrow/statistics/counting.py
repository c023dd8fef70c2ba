"""The host's own tables, counted in the background, now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from hookrow.statistics.overview import Counts, Delays, delays
from hookrow.stores import Store
from hookrow.stores.census import Census
from hookrow.stores.log import LogReader

EVERY = timedelta(minutes=5)
"""How often at the most."""

DELIVERIES = 10_000
"""How many of the newest the time from sent to delivered is taken of."""

REASONS = 20
"""How many reasons are told apart at the most: who suppresses by hand writes any."""

OTHERS = "other reasons"

FURTHEST = 100_000
"""In ids; how far back they are looked for."""

_STEP = 5000
"""In ids; how many are looked at in one statement."""


class Counting:
    """What a census found last. `work` is called again and again by one thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: Counts | None = None

    @property
    def counts(self) -> Counts | None:
        """The counts; None before the first."""
        return self._counts

    def work(self, now: datetime) -> None:
        """Count, where the last time was long ago. Raises a `StoreError`."""
        # A clock that was ahead, and is set back, would else put it off until it is there again.
        if self._counts is None or abs(now - self._counts.as_of) >= EVERY:
            self._counts = counted(self._store, now)


def counted(store: Store, now: datetime) -> Counts:
    """Count the rows of a store. Raises a `StoreError`."""
    return Counts(
        as_of=now,
        lists=store.census.lists(),
        suppressed=frequent(store.census.suppressed()),
        delays=None if store.log is None else _delays(store.census, store.log),
    )


def frequent(reasons: Mapping[str | None, int]) -> Mapping[str | None, int]:
    """Add up all but the most frequent reasons as `OTHERS`; an empty one is none."""
    counts: Counter[str | None] = Counter()
    for reason, count in reasons.items():
        counts[reason or None] += count
    if len(counts) <= REASONS:
        return counts
    most = Counter(dict(counts.most_common(REASONS - 1)))
    most[OTHERS] += counts.total() - most.total()
    return most


def _delays(census: Census, log: LogReader) -> Delays | None:
    delivered = dict(islice(_delivered(log), DELIVERIES))
    ids = list(delivered)
    times = []
    for start in range(0, len(ids), _STEP):
        sent = census.sent(ids[start : start + _STEP])
        times += [(at, delivered[id_]) for id_, at in sent.items()]
    return delays(times)


def _delivered(log: LogReader) -> Iterator[tuple[str, datetime]]:
    """Yield the message ids of the newest deliveries, and when they happened, newest first."""
    first, last = log.bounds() or (1, 0)
    for high in range(last, max(first - 1, last - FURTHEST), -_STEP):
        yield from reversed(log.delivered(max(high - _STEP + 1, first), high))
