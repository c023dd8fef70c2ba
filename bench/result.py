"""What was measured: of one subject over one number of connections, and in one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median

from data import Size


@dataclass(frozen=True, slots=True)
class Result:
    """The rate in notifications a second, p50 and p99 in milliseconds.

    Of the time for which cores were kept busy, in seconds for a thousand notifications:
    what the server's processes took, what the database's did, and what made the load, which
    shared the cores. `memory` is the most that the server's largest process had, in MB. What has
    no such process has no figure.
    """

    name: str
    family: str
    database: str | None
    processes: int
    log: bool
    connections: int
    rate: float
    p50: float
    p99: float
    server: float | None
    base: float | None
    load: float | None
    memory: float | None
    errors: int

    @property
    def cores(self) -> float:
        """What the server and the database took together."""
        return (self.server or 0) + (self.base or 0)


@dataclass(frozen=True, slots=True)
class Failure:
    """What could not be measured to its end, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Run:
    """All that was measured side by side: when, on what, on how many rows, and what failed."""

    date: str
    machine: Mapping[str, str]
    size: Size
    results: Sequence[Result]
    failures: Sequence[Failure]


BUSY = 64
"""Connections; who is the best over these is taken for the best."""


def medians(results: Iterable[Result]) -> list[Result]:
    """Return for each subject and number of connections the median of every figure."""
    places: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        places.setdefault((result.name, result.connections), []).append(result)
    return [_median(each) for each in places.values()]


def _median(results: Sequence[Result]) -> Result:
    first = results[0]
    values = {
        field.name: [getattr(each, field.name) for each in results] for field in fields(first)
    }
    return Result(
        **{
            name: median(all_) if isinstance(all_[0], float) else all_[0]
            for name, all_ in values.items()
        }
    )


def best(
    results: Iterable[Result], family: str, database: str | None, *, log: bool = False
) -> dict[int, Result]:
    """Return what a family measured in its best number of processes, by connections."""
    courses: dict[str, dict[int, Result]] = {}
    for each in results:
        if (each.family, each.database, each.log) == (family, database, log):
            courses.setdefault(each.name, {})[each.connections] = each
    busy = [course for course in courses.values() if BUSY in course]
    return max(busy, key=lambda course: course[BUSY].rate, default={})
