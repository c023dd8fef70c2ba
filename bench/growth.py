"""Growth: the rate as dispatches and log become more, ten times at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from large import Relation, fill_large, relations, sized
from places import POSTGRESQL, SQLITE, Place, postgres
from processes import HERE
from sample import Sample, in_turns, serving

LEAST = 10_000
MOST_ON_FILE = 1_000_000
"""Rows; the largest of the tables that SQLite is given."""

SECONDS = 5


@dataclass(frozen=True, slots=True)
class Growth:
    """What was measured of a kind of database, by the number of rows.

    `loading` is how long it took to make them, in seconds.
    """

    loading: dict[str, float]
    relations: dict[str, list[Relation]]
    samples: list[Sample]


def growing(rows: int, turns: int) -> dict[str, Growth]:
    """Measure databases of ten thousand dispatches and entries up to so many, in turns."""
    with _postgres(rows) as places:
        measured = {POSTGRESQL: _measured(places, turns)}
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
    return Growth(loading, found, samples)


def _sizes(rows: int) -> Iterator[int]:
    size = LEAST
    while size <= rows:
        yield size
        size *= 10


@contextmanager
def _postgres(rows: int) -> Iterator[dict[str, Place]]:
    with postgres() as server:
        yield {str(size): Place(POSTGRESQL, server.create(), server.pid) for size in _sizes(rows)}


@contextmanager
def _files(rows: int) -> Iterator[dict[str, Place]]:
    with TemporaryDirectory(dir=HERE) as folder:
        yield {
            str(size): Place(SQLITE, f"sqlite:///{Path(folder) / str(size)}.db")
            for size in _sizes(rows)
        }
