"""A soak: a rate held for long, while the log is pruned, and what becomes of everything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median
from threading import Event
from time import perf_counter
from typing import Any

from sqlalchemy import text

from large import fill_large, sized
from load import Load, post
from places import POSTGRESQL, Place, opened, postgres, reset
from processes import memory, tree
from sample import Running, hot_share, serving, written

CLIENTS = 256
WORKERS = 2
SHARE = 0.7
"""Of the peak; the rate that is held."""

WARM_UP = 30
"""In seconds, at the peak; the first whole pages after a checkpoint are written then."""

EVERY = 15
"""In seconds; how long each look is."""

KEEP = "2m"
PRUNE_EVERY = 60.0
"""In seconds; a log that is kept for 90 days would be pruned once a day."""

MOST = 1_000_000
"""Dispatches."""

_SIZES = text("""
    SELECT pg_table_size(log.relid) AS log, pg_indexes_size(log.relid) AS log_indexes,
        pg_table_size(sent.relid) AS dispatches, pg_indexes_size(sent.relid) AS dispatch_indexes,
        log.n_dead_tup AS dead_log, sent.n_dead_tup AS dead_dispatches
    FROM pg_stat_user_tables log, pg_stat_user_tables sent
    WHERE log.relname = 'hookrow_notifications' AND sent.relname = 'hookrow_dispatches'
""")

_LEFT = text("SELECT count(*) FROM hookrow_notifications")


class Unproved(Exception):
    """Something was not done that is said to have been done."""


@dataclass(frozen=True, slots=True)
class Look:
    """What there was in the seconds that ended `at`, in seconds after the beginning.

    `rate` is that held; p50 and p99 are in milliseconds; `memory` is in MB, of each worker;
    sizes are in bytes, and `wal` is what was written since the beginning; dead rows as
    PostgreSQL estimates them; `hot` is the share of updates that touched no index.
    """

    at: float
    rate: float
    p50: float
    p99: float
    errors: int
    memory: list[float]
    log: int
    log_indexes: int
    dispatches: int
    dispatch_indexes: int
    dead_log: int
    dead_dispatches: int
    wal: float
    hot: float | None


@dataclass(frozen=True, slots=True)
class Soak:
    """What was seen while a rate was to be held, of that peak, on so many dispatches.

    `pruned` is how many entries went, and in how many seconds, each time.
    """

    rows: int
    peak: float
    held: float
    looks: list[Look]
    pruned: list[tuple[int, float]]


def soaking(rows: int, minutes: float) -> Soak:
    """Hold 70 % of the peak for so long, and begin with an empty log.

    Raises `Unproved` where something was answered and is not in the log, nor was pruned.
    """
    rows = min(rows, MOST)
    with postgres() as server:
        place = Place(POSTGRESQL, server.create(), server.pid)
        fill_large(place, rows)
        reset(place)
        with serving(place, WORKERS) as running:
            loads = [post(running.port, CLIENTS, WARM_UP, size=sized(rows))]
            loads += [post(running.port, CLIENTS, 5, size=sized(rows)) for _ in range(3)]
            peak = median(each.rate for each in loads[1:])
            with _pruned(place) as pruned:
                looks = list(_looks(running, SHARE * peak, minutes * 60, rows, loads))
        _prove(loads, place, sum(count for count, _ in pruned))
    return Soak(rows, peak, SHARE * peak, looks, pruned)


def _prove(loads: Sequence[Load], place: Place, gone: int) -> None:
    """See that all that was answered is in the log, or was; so may be what was in flight."""
    with opened(place.url) as engine, engine.connect() as connection:
        kept = gone + connection.execute(_LEFT).scalar_one()
    answered, errors = (
        sum(getattr(each, name) for each in loads) for name in ("answered", "errors")
    )
    if errors or not gone or not 0 <= kept - answered <= CLIENTS * len(loads):
        raise Unproved(
            f"{answered} answered, {errors} errors, {kept} logged, {gone} of them pruned"
        )


def _looks(
    server: Running, rate: float, seconds: float, rows: int, loads: list[Load]
) -> Iterator[Look]:
    began, first = perf_counter(), written(server.place)
    assert first is not None
    last = first
    while perf_counter() - began < seconds:
        load = post(server.port, CLIENTS, EVERY, size=sized(rows), rate=rate)
        loads.append(load)
        now = written(server.place)
        assert now is not None
        yield Look(
            at=perf_counter() - began,
            rate=load.rate,
            p50=load.p50,
            p99=load.p99,
            errors=load.errors,
            memory=[memory(pid)["VmRSS"] for pid in sorted(tree(server.pid))[-WORKERS:]],
            **_sizes(server.place),
            wal=now.wal - first.wal,
            hot=hot_share(last, now),
        )
        last = now


def _sizes(place: Place) -> dict[str, Any]:
    with opened(place.url) as engine, engine.connect() as connection:
        return dict(connection.execute(_SIZES).mappings().one())


@contextmanager
def _pruned(place: Place) -> Iterator[list[tuple[int, float]]]:
    """Let `hookrow prune` run again and again while the block does; yield what it did.

    Raises `CalledProcessError` at the end where it failed.
    """
    over, done = Event(), list[tuple[int, float]]()

    def prune() -> None:
        while not over.wait(PRUNE_EVERY):
            done.append(_prune(place.url))

    with ThreadPoolExecutor() as threads:
        pruning = threads.submit(prune)
        try:
            yield done
        finally:
            over.set()
    pruning.result()


def _prune(url: str) -> tuple[int, float]:
    """Run it once; return how many entries went, and in how many seconds."""
    command = [str(Path(sys.executable).with_name("hookrow")), "prune", "--keep", KEEP]
    began = perf_counter()
    done = subprocess.run(
        [*command, "--database-url", url], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout.removeprefix("Pruned: ").rstrip(".\n")), perf_counter() - began


def growth(soak: Soak, of: Callable[[Look], float]) -> float:
    """Return how a figure goes on growing, an hour: a line through the last two thirds."""
    looks = soak.looks[len(soak.looks) // 3 :]
    slope = linear_regression([each.at for each in looks], [of(each) for each in looks]).slope
    return slope * 3600


def flatness(soak: Soak, of: Callable[[Look], float]) -> float:
    """Return a figure's median in the last third of the time, to that in the second third."""
    third = len(soak.looks) // 3
    figures = [of(look) for look in soak.looks]
    return median(figures[-third:]) / median(figures[third : 2 * third])
