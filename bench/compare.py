"""Measures hookrow and its peers side by side: `python bench/compare.py [--full]`.

It takes less than three minutes; in full it takes half an hour, and writes
docs/performance.md, unless it is a trial with other rows or seconds. All share the machine's
cores, the load as well. The databases have their defaults: every commit is on the disk before
its notification is answered. Every notification is new. Where something fails all else is
measured all the same; the results are written down as they come.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from signal import SIGTERM, signal
from typing import TypeAlias

import page
from data import Size
from load import Load, post
from machine import facts
from needs import has_pgbench, provided
from pgbench import MOST, limit
from places import POSTGRESQL, Place, places, reset
from plan import FULL, QUICK, Plan
from processes import cores, largest
from proof import prove_door, prove_load
from report import as_json, show_results, show_targets
from result import Failure, Result, Run, medians
from subjects import Subject

Measuring: TypeAlias = Callable[[], Iterator[Result]]


LONGEST = 300
"""Characters of what is said of a failure."""


def compared(plan: Plan, made: Mapping[str, Place]) -> Iterator[Result | Failure]:
    """Measure everything once a turn."""
    for turn in range(plan.turns):
        for name, measure in _in_turn(plan, made, turn):
            try:
                yield from measure()
            except Exception as error:  # noqa: BLE001 - whatever it is, the others can be measured
                why = " ".join(str(error).split())[:LONGEST]
                yield Failure(name, f"{type(error).__name__}: {why}")


def _in_turn(plan: Plan, made: Mapping[str, Place], turn: int) -> Sequence[tuple[str, Measuring]]:
    """List what is measured: there and back, for a machine may become slower, or faster."""
    subjects = [
        (each.name, partial(_measured, each, made.get(each.database or ""), plan))
        for each in plan.subjects
    ]
    limits = [(each, partial(_limit, each, made[POSTGRESQL], plan)) for each in plan.scripts]
    return (subjects + limits)[:: -1 if turn % 2 else 1]


def _limit(script: str, place: Place, plan: Plan) -> Iterator[Result]:
    """Measure what PostgreSQL does by itself, over each number of connections that it allows."""
    reset(place)
    for clients in (each for each in plan.connections if each <= MOST):
        yield limit(script, place, plan.size, clients, plan.seconds)


def _measured(subject: Subject, place: Place | None, plan: Plan) -> Iterator[Result]:
    """Measure a subject over each number of connections, and prove that it did the work."""
    if place:
        reset(place)
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
    parser.add_argument("--rows", type=int, help="how many dispatches there are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    given = parser.parse_args()
    documented = given.full and not (given.only or given.seconds or given.rows)
    signal(SIGTERM, lambda *_: sys.exit("Terminated."))  # and nothing that was started goes on
    plan = _chosen(given)
    print(plan, flush=True)
    run = _run(plan, given.json or (page.RESULTS if documented else None))
    if plan.turns > 1:
        print("\nmedians")
        list(show_results(run.results))
    show_targets(run.results)
    if documented and not given.json:
        page.write()
    if run.failures:
        sys.exit(f"Failed: {', '.join(each.name for each in run.failures)}.")


def _run(plan: Plan, file: Path | None) -> Run:
    """Measure, and write down in the file what was measured until then, each time."""
    measured: list[Result | Failure] = []
    with places(plan.size) as made:
        machine = facts(made[POSTGRESQL].url)
        for each in show_results(compared(plan, made)):
            measured.append(each)
            if file:
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(as_json(_summed(measured, machine, plan.size)))
    return _summed(measured, machine, plan.size)


def _summed(measured: Sequence[Result | Failure], machine: Mapping[str, str], size: Size) -> Run:
    return Run(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine,
        size=size,
        results=medians(each for each in measured if isinstance(each, Result)),
        failures=[each for each in measured if isinstance(each, Failure)],
    )


def _chosen(given: argparse.Namespace) -> Plan:
    """Return the plan as it can be run, and as it was asked for."""
    plan = FULL if given.full else QUICK
    return replace(
        plan,
        subjects=provided(each for each in plan.subjects if given.only in each.name),
        scripts=[each for each in plan.scripts if given.only in each and has_pgbench()],
        seconds=given.seconds or plan.seconds,
        turns=given.turns or plan.turns,
        size=Size(given.rows, given.rows // 10) if given.rows else plan.size,
    )


if __name__ == "__main__":
    main()
