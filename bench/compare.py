"""Compares hookrow with its alternatives side by side: `python bench/compare.py`, three minutes.

Prints the rate in notifications per second, p50 and p99 in milliseconds (for pgbench, the average
instead of p50), the CPU time of the server and of PostgreSQL in microseconds for each notification,
and the peak memory of the server's largest process in MB; then the ratios and the sizes of the
tables. The load shares the machine's
cores. Every notification is new. After each load, the rows that changed are counted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from signal import SIGTERM, signal
from typing import TypeAlias

import pgbench
from environment import (
    POSTGRESQL,
    Database,
    cpu_seconds,
    databases,
    describe_machine,
    peak_memory,
)
from load import post
from proof import check_load, check_secret
from results import HEADINGS, Result, medians, ratios, sizes, summarize
from subjects import SUBJECTS, Subject

Step: TypeAlias = tuple[str, Callable[[], Iterable[Result]]]
"""A name, and a function that measures the subject with each number of connections."""


def main() -> None:
    """Measure every subject, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only names with this text")
    parser.add_argument("--seconds", type=int, default=3, help="duration of a load")
    parser.add_argument("--turns", type=int, default=1, help="how often to measure each subject")
    parser.add_argument("--rows", type=int, default=200_000, help="number of dispatches")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 256])
    options = parser.parse_args()
    signal(SIGTERM, lambda *_: sys.exit("Terminated."))  # the servers are stopped, too
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed: apt-get install wrk")
    subjects = [each for each in SUBJECTS if options.only in each.name and is_installed(each)]
    names = {POSTGRESQL, *(each.database for each in subjects if each.database)}
    with databases(options.rows, names) as created:
        postgresql = created[POSTGRESQL]
        print(f"{describe_machine(postgresql)}; {options.rows:,} dispatches\n\n{HEADINGS}")
        steps: list[Step] = [
            (each.name, partial(measure, each, created.get(each.database or ""), options))
            for each in subjects
        ]
        steps += pgbench_steps(postgresql, options)
        results, failed = run(steps, options.turns)
        if options.turns > 1:
            print("\nmedians", *medians(results), sep="\n")
        print("", *ratios(medians(results)), "", *sizes(postgresql), sep="\n")
    if failed:
        sys.exit(f"Failed: {'; '.join(failed)}.")


def is_installed(subject: Subject) -> bool:
    """Return whether a subject can run; if not, print how to install what is missing."""
    if subject.missing:
        print(f"Skipped {subject.name}: {', '.join(subject.missing)} not installed (`make bench`).")
    return not subject.missing


def run(steps: Sequence[Step], turns: int) -> tuple[list[Result], list[str]]:
    """Run every step once in each turn; return the results, and the names of failed steps.

    The order alternates, because the machine may become faster or slower.
    """
    results: list[Result] = []
    failed: dict[str, None] = {}
    for turn in range(turns):
        for name, measure_all in steps[:: -1 if turn % 2 else 1]:
            try:
                for result in measure_all():
                    print(result, flush=True)
                    results.append(result)
            except Exception as error:  # noqa: BLE001 - the other steps can still run
                print(f"{name} failed: {type(error).__name__}: {error}", flush=True)
                failed[name] = None
    return results, list(failed)


def measure(
    subject: Subject, database: Database | None, options: argparse.Namespace
) -> Iterator[Result]:
    """Put a subject under load; yield the results. Raises `Unproven` if it did not do the work."""
    postgres = database.pid if database else None
    if database:
        if subject.log:
            database.empty_log()
        database.settle()
    with subject.running(database) as (port, pid):
        check_secret(subject, port, options.rows)
        load = partial(post, port, rows=options.rows, endpoint=subject.endpoint)
        load(max(options.connections), 1)  # to warm up
        for connections in options.connections:
            before = cpu_seconds(pid), cpu_seconds(postgres)
            loaded = load(connections, options.seconds)
            after = cpu_seconds(pid), cpu_seconds(postgres)
            check_load(subject, database, loaded)
            yield summarize(
                (subject.name, subject.server, subject.database),
                loaded,
                server_cpu=after[0] - before[0],
                database_cpu=after[1] - before[1],
                memory=peak_memory(pid),
            )


def pgbench_steps(database: Database, options: argparse.Namespace) -> Iterator[Step]:
    """Yield a step for each script of pgbench."""
    scripts = [name for name in pgbench.SCRIPTS if options.only in name]
    assert database.binaries is not None
    if scripts and not (database.binaries / "pgbench").is_file():
        print("Skipped pgbench, which is not installed: apt-get install postgresql")
        return
    for name in scripts:
        yield name, partial(run_pgbench, name, database, options)


def run_pgbench(script: str, database: Database, options: argparse.Namespace) -> Iterator[Result]:
    """Measure PostgreSQL by itself, with the numbers of connections that it allows."""
    database.settle()
    for connections in options.connections:
        if connections <= pgbench.MAX_CONNECTIONS:
            began = cpu_seconds(database.pid)
            load = pgbench.run(script, database, options.rows, connections, options.seconds)
            cpu = cpu_seconds(database.pid) - began
            yield summarize((script, script, POSTGRESQL), load, database_cpu=cpu)


if __name__ == "__main__":
    main()
