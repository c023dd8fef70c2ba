"""What is to be reached, as ratios within one run, and what was.

Of every family its best number of processes is taken: that of the highest rate over 64
connections. hookrow is `hookrow serve` with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from pgbench import ONE, THREE
from places import POSTGRESQL, SQLITE
from result import BUSY, Result, best
from subjects import ANYMAIL, FASTAPI, FLOOR, SERVE

Course: TypeAlias = Mapping[int, Result]
"""What the best of a family measured, by connections."""

CROWDED = 256
"""Connections; over so many, memory is looked at."""

MEMORY = 120
"""In MB, of one process."""

RATES = (
    (ANYMAIL.name, POSTGRESQL, 10, 20),
    (FASTAPI.name, POSTGRESQL, 10, 20),
    (THREE, POSTGRESQL, 0.9, 1.5),
    (ONE, POSTGRESQL, 0.35, 0.8),
    (FLOOR.name, None, 0.2, 0.5),
)
"""Families, and what hookrow's rate is to be to theirs: at least, and hopefully."""


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio, to be at least `least` and hopefully `aim`; None where it was not measured."""

    what: str
    value: float | None
    least: float
    aim: float | None = None

    @property
    def verdict(self) -> str:
        """Say whether it is met."""
        if self.value is None:
            return "not measured"
        if self.value < self.least:
            return "missed"
        return "aim met" if self.aim and self.value >= self.aim else "met"


def targets(results: Sequence[Result]) -> list[Target]:
    """Compare, and list all that is to be reached."""
    return list(_targets(results))


def _targets(results: Sequence[Result]) -> Iterator[Target]:
    ours = best(results, SERVE.name, POSTGRESQL, log=True)
    for family, database, least, aim in RATES:
        ratio = _ratio(ours, best(results, family, database), attrgetter("rate"))
        yield Target(f"rate, to {family}", ratio, least, aim)
    on_file = best(results, SERVE.name, SQLITE, log=True)
    ratio = _ratio(on_file, best(results, FASTAPI.name, SQLITE), attrgetter("rate"))
    yield Target(f"rate on SQLite, to {FASTAPI.name}", ratio, 10)
    for peer in (ANYMAIL.name, FASTAPI.name):
        yield from _ahead(peer, best(results, peer, POSTGRESQL), ours)
    memory = ours[CROWDED].memory if CROWDED in ours else None
    room = MEMORY / memory if memory else None
    yield Target(f"{MEMORY} MB to a worker's, {CROWDED} connections", room, 1)


def _ahead(peer: str, theirs: Course, ours: Course) -> Iterator[Target]:
    """Compare how long one waits and what it costs: theirs to ours."""
    alone = _ratio(theirs, ours, attrgetter("p50"), connections=1)
    yield Target(f"p50 of {peer} to hookrow's, 1 connection", alone, 1)
    busy = theirs[BUSY].p50 / ours[BUSY].p99 if theirs and ours else None
    yield Target(f"p50 of {peer} to hookrow's p99", busy, 1)
    cost = _ratio(theirs, ours, attrgetter("cores"))
    yield Target(f"cores of {peer} to hookrow's", cost, 10)


def _ratio(
    one: Course, other: Course, figure: Callable[[Result], float], *, connections: int = BUSY
) -> float | None:
    if connections not in one or connections not in other:
        return None
    return figure(one[connections]) / figure(other[connections])
