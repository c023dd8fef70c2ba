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
from dataclasses import dataclass, replace
from pathlib import Path

import page
import subjects
from data import Size
from load import Load, post
from machine import facts
from needs import has_pgbench, provided
from pgbench import MOST, SCRIPTS, limit
from places import POSTGRESQL, Place, places, renew
from processes import cores, largest
from proof import Unproved, prove_door, prove_load
from report import as_json, show_results, show_targets
from result import Result, medians
from subjects import Subject


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: loads of so many seconds. One of a second goes before, to warm up."""

    subjects: Sequence[Subject]
    scripts: Sequence[str]
    size: Size
    connections: Sequence[int]
    seconds: int
    turns: int


QUICK = Plan(list(subjects.quick()), list(SCRIPTS), Size(200_000, 20_000), (1, 64, 256), 2, 1)
FULL = Plan(list(subjects.full()), list(SCRIPTS), Size(1_000_000, 100_000), (1, 16, 64, 256), 5, 3)


def compared(plan: Plan, made: Mapping[str, Place]) -> Iterator[Result]:
    """Measure everything once a turn, each turn in another order. Raises `Unproved`."""
    for turn in range(plan.turns):
        first = turn * len(plan.subjects) // plan.turns
        for subject in (*plan.subjects[first:], *plan.subjects[:first]):
            yield from _measured(subject, made.get(subject.database or ""), plan)
        for script in plan.scripts:
            renew(made[POSTGRESQL])
            for clients in (each for each in plan.connections if each <= MOST):
                yield limit(script, made[POSTGRESQL], plan.size, clients, plan.seconds)


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
            prove_load(subject, place, load)
            yield _result(subject, load, server, base, largest(pid))


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
        load=load.cores * each,
        memory=memory,
        errors=load.errors,
    )


def main() -> None:
    """Measure, print, and in full write the page of documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="all there is, on a million rows")
    parser.add_argument("--only", default="", metavar="TEXT", help="what has this in its name")
    parser.add_argument("--seconds", type=int, help="how long each load takes")
    parser.add_argument("--turns", type=int, help="how often each is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, too")
    given = parser.parse_args()
    plan = _chosen(given)
    with places(plan.size) as made:
        machine = facts(made[POSTGRESQL].url)
        try:
            results = medians(show_results(compared(plan, made)))
        except Unproved as error:
            sys.exit(str(error))
    if plan.turns > 1:
        print("\nmedians")
        results = list(show_results(results))
    show_targets(results)
    if given.json:
        given.json.write_bytes(as_json(results, machine))
    if given.full and not given.only:
        page.write(results, machine, plan.size)


def _chosen(given: argparse.Namespace) -> Plan:
    """Return the plan as it can be run, and as it was asked for."""
    plan = FULL if given.full else QUICK
    return replace(
        plan,
        subjects=provided(each for each in plan.subjects if given.only in each.name),
        scripts=[each for each in plan.scripts if given.only in each and has_pgbench()],
        seconds=given.seconds or plan.seconds,
        turns=given.turns or plan.turns,
    )


if __name__ == "__main__":
    main()
