"""The log, counted in the background: no request waits for it, no process for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Lock
from time import monotonic, sleep

from hookrow.entry import PARKED, PARKED_FOR
from hookrow.figures.overview import Heard
from hookrow.figures.period import Period
from hookrow.stores.log import Cell, LogReader, Query

CHUNK = 10_000
"""In ids; what is counted, and counted anew, at a time."""

UNSETTLED = 2000
"""In ids; how far behind the newest what is still being committed may turn up."""

RECENT = 10_000
"""In ids; the newest, of which is told how they ended."""

TURN = 2.0
"""In seconds; how long it counts and rests before it looks for what is new."""

HURRY = 1.0
"""In seconds; how long it counts without a rest at first, for somebody waits for it."""

REST = 9.0
"""How much longer it rests than it counts after that."""

AFRESH = timedelta(seconds=5)
"""How often it is asked who came last, and how the newest ended."""

AGAIN = timedelta(minutes=1)
"""How often what may end otherwise, for it is tried again, is counted anew."""

HEALED = timedelta(hours=1)
"""How often all else is: it may be pruned, or replayed by hand."""

TYPES = 100
"""How many types are told apart in a chunk; the others count as none."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What was counted of a chunk; `latest` is the last of its hours, or minutes."""

    cells: Mapping[Cell, int]
    latest: datetime
    counted_at: datetime

    def is_stale(self, now: datetime) -> bool:
        """Tell whether it is time to count it anew, or the clock was set back."""
        parked_since = now - PARKED_FOR
        may_change = self.latest > parked_since and any(
            cell.outcome in PARKED and cell.at > parked_since for cell in self.cells
        )
        return abs(now - self.counted_at) > (AGAIN if may_change else HEALED)


class Tally:
    """Counts of a log by hour, of its last hour by minute: in memory, the newest first.

    `work` is called again and again by one thread: it finds what is new, and counts
    what is not counted or may have changed since. All else is for any thread.
    """

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._lock = Lock()
        self._chunks: dict[int, _Chunk] = {}
        self._dirty: set[int] = set()
        self._begins: Mapping[Period, int] = {}
        self._begun_at = datetime.min.replace(tzinfo=UTC)
        self._last = 0
        self._moved = False
        self._heard: Heard | None = None
        self._parked = 0
        self._parked_until = 0.0
        self._hurry_until: float | None = None
        self.ready = Event()
        """Set once the last day is counted, or as much of it as could be in a turn."""

    @property
    def heard(self) -> Heard | None:
        """What the log says of the present; None before the first look."""
        return self._heard

    def cells(self, since: datetime) -> Mapping[Cell, int]:
        """Add up what is counted of the time since then; some of what was before is in it."""
        with self._lock:
            chunks = [each for each in self._chunks.values() if each.latest >= since]
        found: Counter[Cell] = Counter()
        for chunk in chunks:
            found.update(chunk.cells)
        return found

    def complete(self, period: Period) -> float:
        """Return about which share of a period's entries is counted, from 0 to 1."""
        with self._lock:
            if not self._begins:
                return 0.0
            last = self._last // CHUNK if self._last else -1
            wanted = range(self._begins[period] // CHUNK, last + 1)
            counted = sum(number in self._chunks for number in wanted)
        return counted / len(wanted) if wanted else 1.0

    def runs(self, query: Query, now: datetime, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of ids, newest first, that may hold a type or an outcome.

        The others had none when they were counted.
        """
        low, high = last + 1, last
        for number in range(last // CHUNK, first // CHUNK - 1, -1):
            if self._may_hold(number, query, now):
                low = max(number * CHUNK, first)
                continue
            if low <= high:
                yield low, high
            low, high = number * CHUNK, number * CHUNK - 1
        if low <= high:
            yield low, high

    def _may_hold(self, number: int, query: Query, now: datetime) -> bool:
        with self._lock:
            new = number >= (self._last - UNSETTLED) // CHUNK or number in self._dirty
            chunk = None if new else self._chunks.get(number)
        if chunk is None or chunk.is_stale(now):
            return True
        return any(
            (query.outcome is None or cell.outcome is query.outcome)
            and (query.record_type is None or cell.record_type in {query.record_type, None})
            for cell in chunk.cells
        )

    def work(self, now: datetime) -> None:
        """Look for what is new, and count for a turn. Raises a `StoreError`."""
        try:
            self._look(now)
            self._turn(now)
        finally:
            self.ready.set()

    def _turn(self, now: datetime) -> None:
        begin = monotonic()
        if self._hurry_until is None:
            self._hurry_until = begin + HURRY
        while (number := self._next(now)) is not None:
            counting = monotonic()
            self._count(number, now)
            if self.complete(Period.DAY) == 1:
                self.ready.set()
            counted = monotonic()
            if counted >= begin + TURN:
                break
            if counted >= self._hurry_until:
                sleep((counted - counting) * REST)

    def _look(self, now: datetime) -> None:
        """Find out what is new, or gone, and what the present is."""
        first, last = self._log.bounds() or (1, 0)
        # SQLite may give an id anew after the newest were deleted.
        changed = min(last, self._last) - UNSETTLED
        numbers = range(first // CHUNK, last // CHUNK + 1) if last else range(0)
        with self._lock:
            for number in self._chunks.keys() - set(numbers):
                del self._chunks[number]
            self._dirty &= set(numbers)
            # Once more when it has come to rest: of those at the end one may be committed last.
            if last != self._last or self._moved:
                self._dirty.update(range(max(changed // CHUNK, numbers.start), numbers.stop))
        if abs(now - self._begun_at) > AGAIN:
            begins = {period: self._log.reached(period.starts(now)[0]) for period in Period}
            self._begins, self._begun_at = begins, now
        if self._heard is None or abs(now - self._heard.as_of) >= AFRESH:
            self._heard = listened(self._log, now, parked=self._count_parked())
        self._last, self._moved = last, last != self._last

    def _count_parked(self) -> int:
        """Count what is parked, and not again for much longer than that takes."""
        if (begin := monotonic()) >= self._parked_until:
            self._parked = self._log.count_parked()
            self._parked_until = monotonic() + REST * REST * (monotonic() - begin)
        return self._parked

    def _next(self, now: datetime) -> int | None:
        """Return the chunk to count: the newest that is not counted, else the stalest."""
        if self._dirty:
            return max(self._dirty)
        stale = {each.counted_at: n for n, each in self._chunks.items() if each.is_stale(now)}
        return stale[min(stale)] if stale else None

    def _count(self, number: int, now: datetime) -> None:
        """Count a chunk, what came in the last hour by minute."""
        first, last = number * CHUNK, (number + 1) * CHUNK - 1
        fine = min(max(self._begins[Period.HOUR], first), last + 1)
        cells: Counter[Cell] = Counter()
        if first < fine:
            cells.update(self._log.tally(first, fine - 1, "hour"))
        if fine <= last:
            cells.update(self._log.tally(fine, last, "minute"))
        latest = max((cell.at for cell in cells), default=datetime.min.replace(tzinfo=UTC))
        with self._lock:
            self._chunks[number] = _Chunk(_bounded(cells), latest, now)
            self._dirty.discard(number)


def listened(log: LogReader, now: datetime, *, parked: int) -> Heard:
    """Ask when the last of the newest came, and how those ended. Raises a `StoreError`."""
    last = (log.bounds() or (1, 0))[1]
    ends = log.ends(last - RECENT + 1, last)
    return Heard(
        as_of=now,
        last=max((each.last for each in ends.values()), default=None),
        recent={ending: each.number for ending, each in ends.items()},
        parked=parked,
    )


def _bounded(cells: Counter[Cell]) -> Mapping[Cell, int]:
    """Tell only the most frequent types apart: whoever knows the secret may make up any."""
    types: Counter[str | None] = Counter()
    for cell, count in cells.items():
        types[cell.record_type] += count
    if len(types) <= TYPES:
        return cells
    known = {name for name, _ in types.most_common(TYPES)}
    bounded: Counter[Cell] = Counter()
    for cell, count in cells.items():
        bounded[cell if cell.record_type in known else cell._replace(record_type=None)] += count
    return bounded
