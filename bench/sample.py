"""Samples: what a load measured of one case in one turn, and what turns say together.

A machine that others use is twice as fast in one minute as in the next. So the cases take
turns, each turn in another order, and are compared within each turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from statistics import median
from typing import Any

from sqlalchemy import text

from data import SECRET, Size
from load import post
from places import POSTGRESQL, Place, opened
from processes import cores, free_port, largest, running
from subjects import serve

_WRITTEN = text("""
    SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'), wal_sync, n_tup_upd, n_tup_hot_upd
    FROM pg_stat_wal, pg_stat_user_tables WHERE relname = 'hookrow_dispatches'
""")


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers: its port, the first of its processes, and its database."""

    port: int
    pid: int
    place: Place


@dataclass(frozen=True, slots=True)
class Written:
    """What PostgreSQL has written until now: bytes of WAL, its flushes, updates of dispatches.

    A `hot` update touches no index. All but the bytes are counted up to a second late.
    """

    wal: float
    flushes: float
    updates: float
    hot: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The rate in notifications a second, p50 and p99 in milliseconds.

    `cores` are seconds on a core for a thousand notifications, of server and database;
    `memory` is the most that the server's largest process had, in MB; `wal` is in bytes for a
    notification; `flush` is how many notifications a flush of the WAL was for; `hot` is the
    share of the updates of dispatches that touched no index. SQLite has none of these three,
    and where no server of ours is at work there is no memory either.
    """

    case: str
    connections: int
    turn: int
    rate: float
    p50: float
    p99: float
    cores: float
    errors: int
    memory: float | None = None
    wal: float | None = None
    flush: float | None = None
    hot: float | None = None


@dataclass(frozen=True, slots=True)
class Turns:
    """Samples of cases that took turns, on so many rows of each table."""

    rows: int
    samples: list[Sample]


@contextmanager
def serving(place: Place, workers: int = 1, **variables: str) -> Iterator[Running]:
    """Run `hookrow serve` until the block ends."""
    port = free_port()
    given = {"HOOKROW_DATABASE_URL": place.url, "HOOKROW_SECRET": SECRET, **variables}
    with running(serve(port, workers), port, given) as pid:
        yield Running(port, pid, place)


def in_turns(
    cases: Mapping[str, Running],
    sizes: Mapping[str, Size],
    *,
    connections: Sequence[int] = (64,),
    seconds: int,
    turns: int,
) -> Iterator[Sample]:
    """Put each under load, each turn in another order."""
    for turn in range(turns):
        for name in rotated(cases, turn):
            for each in connections:
                yield sampled(name, turn, cases[name], each, seconds, sizes[name])


def rotated(names: Iterable[str], turn: int) -> list[str]:
    """Return the order of a turn, in which each comes first in its own."""
    order = list(names)
    first = turn % len(order)
    return order[first:] + order[:first]


def sampled(
    case: str, turn: int, server: Running, connections: int, seconds: int, size: Size
) -> Sample:
    """Put a server under load: for a second to warm up, which does not count, and then so long."""
    post(server.port, connections, 1, size=size)
    before, busy = written(server.place), _busy(server)
    load = post(server.port, connections, seconds, size=size)
    after, busy = written(server.place), _busy(server) - busy
    answered = max(1, load.answered)
    print(f"{case:>24}{connections:>5}{load.rate:>9,.0f}{load.p99:>9.2f}", flush=True)
    return Sample(
        case=case,
        connections=connections,
        turn=turn,
        rate=load.rate,
        p50=load.p50,
        p99=load.p99,
        cores=busy / answered * 1000,
        memory=largest(server.pid),
        wal=(after.wal - before.wal) / answered if before and after else None,
        flush=answered / max(1, after.flushes - before.flushes) if before and after else None,
        hot=hot_share(before, after),
        errors=load.errors,
    )


def written(place: Place) -> Written | None:
    """Return what PostgreSQL has written; SQLite does not count it."""
    if place.name != POSTGRESQL:
        return None
    with opened(place.url) as engine, engine.connect() as connection:
        return Written(*map(float, connection.execute(_WRITTEN).one()))


def hot_share(before: Written | None, after: Written | None) -> float | None:
    """Return the share of the updates between that touched no index; None where none was seen."""
    if before is None or after is None or after.updates == before.updates:
        return None
    return (after.hot - before.hot) / (after.updates - before.updates)


def medians(samples: Sequence[Sample]) -> list[Sample]:
    """Return for each case and number of connections the median of every figure, all errors."""
    groups: dict[tuple[str, int], list[Sample]] = {}
    for each in samples:
        groups.setdefault((each.case, each.connections), []).append(each)
    return [_median(each) for each in groups.values()]


def ratio(samples: Sequence[Sample], case: str, to: str, connections: int = 64) -> float | None:
    """Return the median of the turns' ratios of the rates of two cases; None without any."""
    rates = {
        (each.case, each.turn): each.rate for each in samples if each.connections == connections
    }
    turns = {turn for _, turn in rates}
    both = [
        rates[case, turn] / rates[to, turn]
        for turn in turns
        if (case, turn) in rates and rates.get((to, turn))
    ]
    return median(both) if both else None


def _median(samples: Sequence[Sample]) -> Sample:
    figures: dict[str, Any] = {"case": samples[0].case}
    for name in (each.name for each in fields(Sample) if each.name != "case"):
        known = [each for sample in samples if (each := getattr(sample, name)) is not None]
        figures[name] = median(known) if known else None
    figures["errors"] = sum(each.errors for each in samples)
    return Sample(**figures)


def _busy(server: Running) -> float:
    return cores(server.pid) + (cores(server.place.pid) if server.place.pid else 0.0)
