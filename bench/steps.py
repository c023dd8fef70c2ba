"""Measures the CPU time of each step of a notification, in microseconds, on each database.

`python bench/steps.py [--group N] [--django] [--only database]`. The steps before the database are
in `protocol_steps`; the steps at the database, which `record` takes, run one by one in one thread.
With --django, the store is a Django project's, as with GROUP_COMMIT. The lowest result of a few
turns counts, because other work on the machine can only increase it.

Also prints how many of hookrow's functions one delivery calls from ASGI to the commit, and in how
many modules.

With `--against COMMIT`, that commit and this tree alternate, each with its own copy of this file,
and the medians are compared. If the machine has other work, only their ratios are meaningful.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import thread_time

from calls import calls_of_a_delivery
from data import ROWS, arrival, payloads
from environment import ROOT, checkout, cpu_seconds, databases, django_settings
from hookrow import Arrival, Schema
from hookrow._core.log_entry import log_entries
from hookrow._core.rules import decide, lookup_keys, merge
from hookrow.stores.sql import SQLStore
from protocol_steps import before_the_database
from results import format_turns

TURNS = 4


def at_the_database(store: SQLStore, group: int) -> dict[str, float]:
    """Return the CPU time of each step of `record`, in microseconds per notification."""
    arrivals = [arrival(body) for body in payloads()]
    groups = [arrivals[n : n + group] for n in range(0, len(arrivals) - group + 1, group)]
    count = len(groups) // TURNS
    turns = [dict(_measured(store, groups[n * count : (n + 1) * count])) for n in range(TURNS)]
    return {step: min(turn[step] for turn in turns) for step in turns[0]}


def _measured(store: SQLStore, groups: Sequence[Sequence[Arrival]]) -> Iterator[tuple[str, float]]:
    spent: defaultdict[str, float] = defaultdict(float)
    for arrivals in groups:
        timed = _timer(spent)
        with store.recording() as transaction:
            timed("begin")
            keys = lookup_keys(arrivals)
            timed("decide")
            rows = transaction.find(keys)
            timed("find")
            outcomes = [decide(arrival, rows) for arrival in arrivals]
            changes = merge(outcomes)
            timed("decide")
            entries = log_entries(arrivals, outcomes, datetime.now(UTC))
            timed("log entries")
            transaction.write(changes, entries)
            timed("write, commit")
        timed("write, commit")
    count = sum(map(len, groups))
    return ((step, seconds / count * 1e6) for step, seconds in spent.items())


def _timer(spent: defaultdict[str, float]) -> Callable[[str], None]:
    last = thread_time()

    def timed(step: str) -> None:
        nonlocal last
        now = thread_time()
        spent[step] += now - last
        last = thread_time()

    return timed


@contextmanager
def open_store(url: str, *, django: bool) -> Iterator[SQLStore]:
    """Open a store on hookrow's tables, or the store of a Django project on them."""
    if not django:
        with closing(SQLStore(url)) as store:
            yield store
        return
    import django as package
    from django.conf import settings
    from django.db import connections

    given = {"default": django_settings(url)}
    if settings.configured:
        connections.settings = connections.configure_settings(given)
    else:
        apps = ["hookrow.django", "hookrow.django.tables"]
        settings.configure(INSTALLED_APPS=apps, DATABASES=given)
        package.setup()
    from hookrow.django._store import DjangoStore

    yield DjangoStore(Schema(), "default")
    connections["default"].close()
    del connections["default"]


def alternate(options: argparse.Namespace) -> None:
    """Measure a commit and this tree in turns; print the medians of each step, and ratios."""
    steps: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with checkout(options.against) as old:
        for turn in range(options.turns):
            before, now = _run(old, options), _run(ROOT, options)
            for step in before.keys() & now.keys():
                steps[step].append((before[step], now[step]))
            print(f"turn {turn + 1} of {options.turns}", file=sys.stderr)
    for step in now:
        if step in steps:
            print(f"{step:64} {format_turns(steps[step])}")


def _run(tree: Path, options: argparse.Namespace) -> Mapping[str, float]:
    """Run a tree's copy of this file; return the costs that it prints, in the same order."""
    flags = ("--group", str(options.group), *["--django"] * options.django)
    only = ("--only", options.only) if options.only else ()
    done = subprocess.run(
        [sys.executable, os.fspath(tree / "bench" / "steps.py"), *flags, *only],
        env=os.environ | {"PYTHONPATH": str(tree / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    costs, title = {}, ""
    for line in done.stdout.splitlines():
        if step := re.match(r"  (.+?) +([\d.]+)( |$)", line):
            costs[f"{title}: {step[1]}"] = float(step[2])
        elif line:
            title = line[:36].strip()
    return costs


def main() -> None:
    """Print a table for the steps before the database, and one for each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", type=int, default=32, help="notifications in a group")
    parser.add_argument("--django", action="store_true", help="through a Django project's store")
    parser.add_argument("--only", choices=["database"], help="omit the steps before the database")
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--turns", type=int, default=5, help="of that comparison")
    options = parser.parse_args()
    if options.against:
        alternate(options)
        return
    gc.freeze()
    if not options.only:
        _print("before the database", before_the_database(TURNS))
    with databases(ROWS) as created:
        for name, database in created.items():
            began = cpu_seconds(database.pid)
            with open_store(database.url, django=options.django) as store:
                title = f"{name}{', Django' * options.django}, groups of {options.group}"
                _print(title, at_the_database(store, options.group))
                path = calls_of_a_delivery(store)
            print(f"  {'calls of one delivery':34} {path.total():7}")
            print(f"  {'modules of these calls':34} {len(path):7}")
            if database.pid:
                cost = (cpu_seconds(database.pid) - began) / ROWS * 1e6
                print(f"  {'its own processes':34} {cost:7.2f}")


def _print(title: str, costs: dict[str, float]) -> None:
    print(f"\n{title:36} {'us':>7}  share")
    total = sum(costs.values())
    for step, cost in costs.items():
        print(f"  {step:34} {cost:7.2f} {cost / total:6.0%}")
    print(f"  {'all':34} {total:7.2f}")


if __name__ == "__main__":
    main()
