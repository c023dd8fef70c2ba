"""Compares hookrow with its alternatives side by side: `python bench/compare.py`, three minutes.

Prints the rate in notifications per second, p50 and p99 in milliseconds (for pgbench, the average
instead of p50), the CPU time of the server and of the database in microseconds for each
notification, and the peak memory of the server's largest process in MB; then the ratios. The load
shares the machine's cores. Every notification is new. After each load, the rows that changed are
counted.

With `--against COMMIT`, the servers of that commit and of this tree alternate instead, on the same
databases. If the machine has other work, only the ratios are meaningful.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from signal import SIGTERM, signal
from typing import TypeAlias

import pgbench
import results
from data import payload
from environment import (
    DATABASES,
    POSTGRESQL,
    Database,
    checkout,
    databases,
    describe_machine,
    request,
)
from load import Load, post
from results import HEADINGS, Figures, Names, Unproven, format_row, format_turns, medians, ratios
from subjects import SERVE, SUBJECTS, Subject

Measurement: TypeAlias = tuple[int, Figures]
"""A number of connections, and the figures of a load."""

Step: TypeAlias = tuple[Names, Callable[[], Iterable[Measurement]]]
"""Names, and a function that measures the subject with each number of connections."""

Results: TypeAlias = Mapping[Names, Mapping[int, Sequence[Figures]]]
"""The figures of each turn, by subject and number of connections."""


def main() -> None:
    """Measure every subject, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="only names with this text")
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit instead")
    parser.add_argument("--seconds", type=int, default=3, help="duration of a load")
    parser.add_argument("--turns", type=int, default=1, help="how often to measure each subject")
    parser.add_argument("--rows", type=int, default=200_000, help="number of dispatches")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 64, 256])
    options = parser.parse_args()
    signal(SIGTERM, lambda *_: sys.exit("Terminated."))  # the servers are stopped, too
    if not shutil.which("wrk"):
        sys.exit("wrk is not installed: apt-get install wrk")
    with checkout(options.against) if options.against else nullcontext() as tree:
        chosen = _versions(tree, options.against) if tree else SUBJECTS
        subjects = [each for each in chosen if options.only in each.name and is_installed(each)]
        with databases(options.rows) as created:
            print(f"{describe_machine(created[POSTGRESQL])}; {options.rows:,} dispatches\n")
            print(HEADINGS)
            steps: list[Step] = [
                (each.names, partial(measure, each, created.get(each.database or ""), options))
                for each in subjects
            ]
            if not tree:
                steps += pgbench_steps(created[POSTGRESQL], options)
            measured, failed = run(steps, options.turns)
    if failed:
        sys.exit(f"Failed: {'; '.join(failed)}.")
    compare = compare_versions if tree else compare_subjects
    print(*compare(measured), sep="\n")


def _versions(tree: Path, commit: str) -> list[Subject]:
    """Return the servers of a commit and of this tree on each database."""
    return [
        each
        for database in DATABASES
        for each in (SERVE(database=database, tree=tree, version=commit), SERVE(database=database))
    ]


def is_installed(subject: Subject) -> bool:
    """Return whether a subject can run; if not, print how to install what is missing."""
    if subject.missing:
        print(f"Skipped {subject.name}: {', '.join(subject.missing)} not installed (`make bench`).")
    return not subject.missing


def run(steps: Sequence[Step], turns: int) -> tuple[Results, list[str]]:
    """Run every step once in each turn; return the results, and the names of failed steps.

    The order alternates, because the machine may become faster or slower.
    """
    measured: dict[Names, dict[int, list[Figures]]] = {names: {} for names, _ in steps}
    failed: dict[str, None] = {}
    for turn in range(turns):
        for names, measure_all in steps[:: -1 if turn % 2 else 1]:
            try:
                for connections, figures in measure_all():
                    print(format_row(names[0], connections, figures), flush=True)
                    measured[names].setdefault(connections, []).append(figures)
            except Exception as error:  # noqa: BLE001 - the other steps can still run
                print(f"{names[0]} failed: {type(error).__name__}: {error}", flush=True)
                failed[names[0]] = None
    return measured, list(failed)


def compare_subjects(measured: Results) -> Iterator[str]:
    """Yield the medians, and the ratios of `hookrow serve` to the other subjects."""
    results = {
        names: {connections: medians(turns) for connections, turns in loads.items()}
        for names, loads in measured.items()
    }
    yield "\nmedians of the turns"
    for (name, _), loads in results.items():
        yield from (format_row(name, *each) for each in loads.items())
    yield ""
    yield from ratios(results)


def compare_versions(measured: Results) -> Iterator[str]:
    """Yield the medians of each figure, their ratio, and the ratio of each turn."""
    for database in DATABASES:
        both = [loads for (_, its), loads in measured.items() if its == database]
        if not both:
            continue
        before, now = both
        for connections in now:
            yield f"\n{database}, {connections} connections"
            for figure in now[connections][0]:
                turns = zip(before[connections], now[connections], strict=True)
                yield f"{figure:10} {format_turns([(a[figure], b[figure]) for a, b in turns])}"


def measure(
    subject: Subject, database: Database | None, options: argparse.Namespace
) -> Iterator[Measurement]:
    """Put a subject under load; yield the results. Raises `Unproven` if it did not do the work."""
    if database:
        database.empty_log()
        database.settle()
    with subject.running(database) as (port, pid):
        check_secret(subject, port, options.rows)
        load = partial(post, port, rows=options.rows, endpoint=subject.endpoint)
        load(max(options.connections), 1)  # to warm up
        for connections in options.connections:
            loaded, figures = results.measure(
                partial(load, connections, options.seconds),
                pid,
                database.pid if database else None,
            )
            if database:
                check_rows(database, loaded)
            yield connections, figures


def check_secret(subject: Subject, port: int, rows: int) -> None:
    """Post without and with the secret. Raises `Unproven` if a response has a different status."""
    name, _, value = subject.endpoint.header.partition(": ")
    body = payload(rows, 0, "Open", 0)
    for headers, expected in (({}, subject.refusal), ({name: value}, 200)):
        headers |= {"Content-Type": "application/json"}
        status = request(port, subject.endpoint.path, body, headers)
        if status != expected:
            raise Unproven(f"the status is {status} instead of {expected}")


_CHANGED = """
    SELECT count(CASE WHEN delivered_at BETWEEN '{0}' AND '{0}.999999' THEN 1 END)
        + count(CASE WHEN opened_at BETWEEN '{0}' AND '{0}.999999' THEN 1 END)
        + count(CASE WHEN suppression_changed_at BETWEEN '{0}' AND '{0}.999999' THEN 1 END)
    FROM hookrow_dispatches
"""


def check_rows(database: Database, load: Load) -> None:
    """Compare the changed rows with the responses. Raises `Unproven` if they differ.

    Requests in flight at the end, at most one on each connection, may have changed rows, too.
    """
    [(count,)] = database.execute(_CHANGED.format(f"{load.at:%Y-%m-%d %H:%M:%S}"))
    if not 0 <= count - load.answered <= load.connections:
        raise Unproven(f"{load.answered} responses of 200, but {count} changed dispatches")


def pgbench_steps(database: Database, options: argparse.Namespace) -> Iterator[Step]:
    """Yield a step for each script of pgbench."""
    scripts = [name for name in pgbench.SCRIPTS if options.only in name]
    assert database.binaries is not None
    if scripts and not (database.binaries / "pgbench").is_file():
        print("Skipped pgbench, which is not installed: apt-get install postgresql")
        return
    for name in scripts:
        yield (name, POSTGRESQL), partial(run_pgbench, name, database, options)


def run_pgbench(
    script: str, database: Database, options: argparse.Namespace
) -> Iterator[Measurement]:
    """Measure PostgreSQL by itself, with the numbers of connections that it allows."""
    database.settle()
    for connections in options.connections:
        if connections <= pgbench.MAX_CONNECTIONS:
            load = partial(
                pgbench.run, script, database, options.rows, connections, options.seconds
            )
            yield connections, results.measure(load, None, database.pid)[1]


if __name__ == "__main__":
    main()
