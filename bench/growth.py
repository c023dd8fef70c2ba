"""Growth: the rate as dispatches and log become more, ten times at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from large import Relation, fill_large, relations, sized
from pgbench import MOST, ONE, limit
from places import POSTGRESQL, SQLITE, Place, postgres
from processes import HERE
from sample import Sample, in_turns, rotated, serving

LEAST = 10_000
MOST_ON_FILE = 1_000_000
"""Rows; the largest of the tables that SQLite is given."""

SECONDS = 5


@dataclass(frozen=True, slots=True)
class Growth:
    """What was measured of a kind of database, or of pgbench there, by the number of rows.

    `loading` is how long it took to make them, in seconds.
    """

    samples: list[Sample]
    loading: dict[str, float] = field(default_factory=dict)
    relations: dict[str, list[Relation]] = field(default_factory=dict)


def growing(rows: int, turns: int) -> dict[str, Growth]:
    """Measure databases of ten thousand dispatches and entries up to so many, in turns.

    What pgbench's one UPDATE loses there PostgreSQL loses, whoever asks it.
    """
    with _postgres(rows) as places:
        measured = {POSTGRESQL: _measured(places, turns)}
        measured[ONE] = Growth(list(_limits(places, turns)))
    with _files(min(rows, MOST_ON_FILE)) as places:
        measured[SQLITE] = _measured(places, turns)
    return measured


def _measured(places: Mapping[str, Place], turns: int) -> Growth:
    loading = {}
    for rows, place in places.items():
        loading[rows] = fill_large(place, int(rows))
        print(f"{int(rows):,} rows of each, {place.name}: {loading[rows]:.0f} s", flush=True)
    with ExitStack() as stack:
        cases = {
            rows: stack.enter_context(serving(place, HOOKROW_KEEP="forever"))
            for rows, place in places.items()
        }
        sizes = {rows: sized(int(rows)) for rows in places}
        found = {rows: relations(place) for rows, place in places.items()}
        samples = list(in_turns(cases, sizes, seconds=SECONDS, turns=turns))
    return Growth(samples, loading, found)


def _limits(places: Mapping[str, Place], turns: int) -> Iterator[Sample]:
    for turn in range(turns):
        for rows in rotated(places, turn):
            found = limit(ONE, places[rows], sized(int(rows)), MOST, SECONDS)
            print(
                f"{f'{ONE}, {rows}':>24}{MOST:>5}{found.rate:>9,.0f}{found.p99:>9.2f}", flush=True
            )
            yield Sample(
                case=rows,
                connections=MOST,
                turn=turn,
                rate=found.rate,
                p50=found.p50,
                p99=found.p99,
                cores=found.base or 0.0,
                errors=found.errors,
            )


def _sizes(rows: int) -> Iterator[int]:
    size = LEAST
    while size <= rows:
        yield size
        size *= 10


@contextmanager
def _postgres(rows: int) -> Iterator[dict[str, Place]]:
    with postgres() as server:
        yield {
            str(size): Place(POSTGRESQL, server.create(), server.pid, server.binaries)
            for size in _sizes(rows)
        }


@contextmanager
def _files(rows: int) -> Iterator[dict[str, Place]]:
    with TemporaryDirectory(dir=HERE) as folder:
        yield {
            str(size): Place(SQLITE, f"sqlite:///{Path(folder) / str(size)}.db")
            for size in _sizes(rows)
        }
