"""The log, counted in the background: no request waits for it, no process for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Lock
from time import monotonic

from hookrow.statistics.overview import Heard
from hookrow.stores.log import Cell, LogReader, Query

CHUNK = 10_000
"""In ids; what is counted, and counted anew, at a time."""

UNSETTLED = 2000
"""In ids; how far behind the newest what is still being committed may turn up."""

RECENT = 10_000
"""In ids; the newest, of which is told how they ended."""

TURN = 0.5
"""In seconds; how long it counts until it rests."""

REST = 9.0
"""How much longer it rests than it counted."""

TYPES = 100
"""How many types are told apart in a chunk; the others count as none."""

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What was counted of a chunk; `latest` is the last of its hours, or minutes."""

    cells: Mapping[Cell, int]
    latest: datetime


class Tally:
    """Counts of a log by hour, of its last hour by minute: in memory, the newest first.

    `work` is called again and again by one thread: it finds what is new and counts it. Once
    all is counted it counts anew, each time, what was counted longest ago: some of it may
    have ended otherwise, or be gone. All else is for any thread.
    """

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._lock = Lock()
        self._chunks: dict[int, _Chunk] = {}  # in the order in which they were counted
        self._due: set[int] = set()
        self._last = 0
        self._heard: Heard | None = None
        self._rest_until = 0.0
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

    def complete(self, since: datetime, now: datetime) -> float:
        """Return about which share of the time since then is counted, from 0 to 1."""
        with self._lock:
            missing = self._due - self._chunks.keys()
            newer = [
                each.latest for n, each in self._chunks.items() if missing and n > max(missing)
            ]
        if not missing:
            return 0.0 if self._heard is None else 1.0
        share = (now - min(newer, default=now)) / (now - since)
        return min(max(share, 0.0), 1.0)

    def runs(self, query: Query, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of ids, newest first, that may hold a type or an outcome.

        The others had none when they were counted.
        """
        low, high = last + 1, last
        for number in range(last // CHUNK, first // CHUNK - 1, -1):
            if self._may_hold(number, query):
                low = max(number * CHUNK, first)
                continue
            if low <= high:
                yield low, high
            low, high = number * CHUNK, number * CHUNK - 1
        if low <= high:
            yield low, high

    def _may_hold(self, number: int, query: Query) -> bool:
        with self._lock:
            new = number >= (self._last - UNSETTLED) // CHUNK or number in self._due
            chunk = None if new else self._chunks.get(number)
        return chunk is None or any(
            (query.outcome is None or cell.outcome is query.outcome)
            and (query.record_type is None or cell.record_type in {query.record_type, None})
            for cell in chunk.cells
        )

    def work(self, now: datetime) -> None:
        """Look for what is new, count for a turn, and rest: do nothing before that is over.

        Raises a `StoreError`.
        """
        if (begin := monotonic()) < self._rest_until:
            return
        try:
            self._look(now)
            while self._due:
                self._count(max(self._due), now)
                is_awaited = not self.ready.is_set() and self.complete(now - _DAY, now) == 1
                if is_awaited or monotonic() >= begin + TURN:
                    break
        finally:
            self.ready.set()
            self._rest_until = monotonic() + REST * (monotonic() - begin)

    def _look(self, now: datetime) -> None:
        """Find out what is new, or gone, and what the present is."""
        self._heard = listened(self._log, now, parked=self._log.count_parked())
        first, last = self._log.bounds() or (1, 0)
        numbers = range(first // CHUNK, last // CHUNK + 1) if last else range(0)
        # SQLite may give an id anew after the newest were deleted.
        changed = (min(last, self._last) - UNSETTLED) // CHUNK
        with self._lock:
            for number in self._chunks.keys() - set(numbers):
                del self._chunks[number]
            if last != self._last:
                self._due.update(range(max(changed, numbers.start), numbers.stop))
            self._due &= set(numbers)
            if self._due <= self._chunks.keys():
                self._due.update(list(self._chunks)[:1])
        self._last = last

    def _count(self, number: int, now: datetime) -> None:
        """Count a chunk: by minute, where some of it may be of the last hour."""
        newer = self._chunks.get(number + 1)
        recent = newer is None or newer.latest >= now - _HOUR
        first, last = number * CHUNK, (number + 1) * CHUNK - 1
        cells = _bounded(self._log.tally(first, last, "minute" if recent else "hour"), now)
        latest = max((cell.at for cell in cells), default=_NEVER)
        with self._lock:
            self._chunks.pop(number, None)
            self._chunks[number] = _Chunk(cells, latest)
            self._due.discard(number)


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


def _bounded(cells: Mapping[Cell, int], now: datetime) -> Mapping[Cell, int]:
    """Keep minutes of the last hour alone, and only the most frequent types.

    Whoever knows the secret may make up any.
    """
    types: Counter[str | None] = Counter()
    for cell, count in cells.items():
        types[cell.record_type] += count
    known = {name for name, _ in types.most_common(TYPES)}
    bounded: Counter[Cell] = Counter()
    for cell, count in cells.items():
        at = cell.at if cell.at >= now - _HOUR else cell.at.replace(minute=0)
        type_ = cell.record_type if cell.record_type in known else None
        bounded[Cell(at, type_, cell.outcome)] += count
    return bounded
