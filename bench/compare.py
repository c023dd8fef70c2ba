"""Measures hookrow and its peers side by side: `python bench/compare.py [--full]`.

It takes less than three minutes; in full it takes an hour and more, and writes
docs/performance.md. All share the machine's cores, the load as well. The databases have
their defaults: every commit is on the disk before its notification is answered. Every
notification is new.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

import page
import pgbench
import subjects
from data import Size
from load import Load, post
from machine import facts
from needs import provided
from places import POSTGRESQL, Place, places, renew
from processes import cores, largest
from proof import Unproved, prove_door, prove_load
from report import show_results, show_targets
from result import Result, medians
from subjects import Subject
from targets import targets


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: loads of so many seconds. One of a second goes before, to warm up."""

    subjects: Sequence[Subject]
    size: Size
    connections: Sequence[int]
    seconds: int
    turns: int


QUICK = Plan(list(subjects.quick()), Size(200_000, 20_000), (1, 64, 256), 2, 1)
FULL = Plan(list(subjects.full()), Size(1_000_000, 100_000), (1, 16, 64, 256), 5, 3)


def compared(plan: Plan, made: Mapping[str, Place]) -> Iterator[Result]:
    """Measure everything once a turn, each turn in another order. Raises `Unproved`."""
    for turn in range(plan.turns):
        first = turn * len(plan.subjects) // plan.turns
        for subject in (*plan.subjects[first:], *plan.subjects[:first]):
            yield from _measured(subject, made.get(subject.database or ""), plan)
        for script in pgbench.scripts(made[POSTGRESQL]):
            renew(made[POSTGRESQL])
            for clients in (each for each in plan.connections if each <= pgbench.MOST):
                pgbench.limit(script, made[POSTGRESQL], plan.size, clients, 1)
                yield pgbench.limit(script, made[POSTGRESQL], plan.size, clients, plan.seconds)


def _measured(subject: Subject, place: Place | None, plan: Plan) -> Iterator[Result]:
    """Measure a subject over each number of connections, and prove that it did the work."""
    if place:
        renew(place)
    with subject.running(place) as (port, pid):
        prove_door(subject, port)
        _post(subject, port, max(plan.connections), 1, plan.size)
        for connections in plan.connections:
            server, base = cores(pid), _cores_of(place)
            load = _post(subject, port, connections, plan.seconds, plan.size)
            server, base = cores(pid) - server, _cores_of(place) - base
            yield _result(subject, load, server, base, largest(pid))
            if place:
                prove_load(subject, place, load)


def _post(subject: Subject, port: int, connections: int, seconds: int, size: Size) -> Load:
    return post(port, connections, seconds, size=size, door=subject.family.door)


def _cores_of(place: Place | None) -> float:
    """Return what a database's own processes took until now; SQLite has none."""
    return cores(place.pid) if place and place.pid else 0.0


def _result(subject: Subject, load: Load, server: float, base: float, memory: float) -> Result:
    each = 1000 / load.answered
    return Result(
        name=subject.name,
        family=subject.family.name,
        database=subject.database,
        processes=subject.processes,
        log=subject.log,
        connections=load.connections,
        rate=load.rate,
        p50=load.p50,
        p99=load.p99,
        server=server * each,
        base=base * each if subject.database == POSTGRESQL else None,
        wrk=load.cores * each,
        memory=memory,
        errors=load.errors,
    )


def main() -> None:
    """Measure, print, and in full write the page of documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all there is, on a million rows")
    parser.add_argument("--seconds", type=int, help="how long each load takes")
    parser.add_argument("--turns", type=int, help="how often each is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    given = parser.parse_args()
    plan = FULL if given.full else QUICK
    plan = Plan(
        provided(plan.subjects),
        plan.size,
        plan.connections,
        given.seconds or plan.seconds,
        given.turns or plan.turns,
    )
    with places(plan.size) as made:
        machine = facts(made[POSTGRESQL].url)
        try:
            results = medians(show_results(compared(plan, made)))
        except Unproved as error:
            sys.exit(str(error))
    show_targets(targets(results))
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(results)))
    if given.full:
        page.write(results, machine, plan.size)


if __name__ == "__main__":
    main()
