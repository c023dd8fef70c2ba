"""Measures the figures of a long log: `python bench/figures.py [--rows N]`; else of ten million.

That takes some minutes, and 8 GB of disk; `bench/run.py` does it with fewer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from time import perf_counter

from sqlalchemy import Engine, delete, func, select, update

from data import SMALL
from hookrow.core.log_entry import Result
from hookrow.statistics import Figures, Period
from hookrow.statistics.counting import counted
from hookrow.statistics.tally import Tally
from hookrow.stores.log import Query
from hookrow.stores.sql import SQLStore
from hookrow.stores.tables import notifications
from load import load
from log import fill_log
from machine import facts, told
from places import databases, opened, server
from report import Row, figure, head, loaded, show

PAGE = 50
PARKED = 1000
RARE = 40
"""How many entries are of a type and an outcome that nothing else is, far from each other."""
TIMES = 9
TURNS = 5
CLIENTS = 64

QUERIES = {
    "newest": Query(),
    "a rare type": Query(record_type="Bounce"),
    "a rare outcome": Query(outcome=Result.UNSUPPORTED),
    "no such outcome": Query(outcome=Result.FAILED),
    "parked": Query(parked=True),
    "no such address": Query(recipient="nobody@example.com"),
    "30 to 31 days ago": Query(
        since=datetime.now(UTC) - timedelta(days=31), until=datetime.now(UTC) - timedelta(days=30)
    ),
}


def figuring(name: str, url: str, rows: int) -> Iterator[Row]:
    """Make the figures of a log of that many rows, and read pages of it."""
    with opened(url) as engine, closing(SQLStore(url)) as store:
        _fill(engine, rows)
        with closing(Figures(store)) as figures:
            first = _took(lambda: figures.overview(Period.DAY, datetime.now(UTC)))
            yield figure(f"first overview, {name}, {rows:,}", first * 1000, "ms", "< 1000")
            tally = vars(figures)["_tally"]
            yield figure(f"to count all, {name}, without rests", _took(lambda: _rush(tally)), "s")
            for what, work in _pages(figures).items():
                yield figure(f"{what}, {name}", _typical(work) * 1000, "ms", "< 100")
        census = _took(lambda: counted(store, datetime.now(UTC)))
        yield figure(f"census of {SMALL.dispatches:,} dispatches, {name}", census * 1000, "ms")


def watching(name: str, url: str) -> Iterator[Row]:
    """Put a server under load that twenty dashboards watch, and one that none does, in turns."""
    courses = []
    for _ in range(TURNS):
        course = {}
        for what, flags in {"alone": [], "watched": ["--watched"]}.items():
            with server(url, *flags) as (port, pid):
                course[what] = load(port, CLIENTS)
                ratio = course[what].rate / course["alone"].rate
                row = loaded(f"{name}, {what}", course[what], pid, ratio=ratio)
            yield row
        courses.append(course)
    ratio = median(each["watched"].rate / each["alone"].rate for each in courses)
    yield figure(f"watched to alone, {name}", ratio, target=">= 0.9")


def _pages(figures: Figures) -> dict[str, Callable[[], object]]:
    """Return what draws each page."""

    def overview(period: Period) -> object:
        return figures.overview(period, datetime.now(UTC))

    def page(query: Query) -> object:
        return figures.search(query, limit=PAGE)

    return {
        **{f"overview, {each.value}": partial(overview, each) for each in Period},
        **{f"page, {what}": partial(page, query) for what, query in QUERIES.items()},
    }


def _rush(tally: Tally) -> None:
    """Count all that there is without a rest, which takes nine tenths of the time else."""
    while tally.complete(datetime.min.replace(tzinfo=UTC), datetime.now(UTC)) < 1:
        vars(tally)["_rest_until"] = 0.0
        tally.work(datetime.now(UTC))


def _fill(engine: Engine, rows: int) -> None:
    """Make a log of that many rows; a few are parked, and a few of a kind are far apart."""
    with engine.begin() as connection:
        connection.execute(delete(notifications))
    fill_log(engine, rows)
    fill_log(engine, PARKED, parked=True)
    with engine.begin() as connection:
        id_ = notifications.c.id
        last = connection.execute(select(func.max(id_))).scalar_one()
        few = [last - (n + 1) * rows // (RARE + 2) for n in range(RARE)]
        odd = {"record_type": "Bounce", "outcome": Result.UNSUPPORTED.value}
        connection.execute(update(notifications).where(id_.in_(few)).values(odd))


def _typical(work: Callable[[], object]) -> float:
    return median(_took(work) for _ in range(TIMES))


def _took(work: Callable[[], object]) -> float:
    """Return how long it takes, in seconds."""
    begin = perf_counter()
    work()
    return perf_counter() - begin


def main() -> None:
    """Measure the figures on each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    with databases() as urls:
        print(told(facts(urls["postgresql"])), end="\n\n", flush=True)
        for name, url in urls.items():
            for row in figuring(name, url, rows):
                show(row)
            head("to alone")
            for row in watching(name, url):
                show(row)


if __name__ == "__main__":
    main()
