"""The cost of `record()`: microseconds of CPU time per notification, with the log.

`python bench/record.py` measures the recording thread, and PostgreSQL's own processes, over 20,000
notifications in groups. The cheapest of four parts counts. With `--against COMMIT`, that commit and
this tree alternate, each with its own copy of this file, and the medians are compared. If the
machine has other work, only their ratios are meaningful.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import thread_time

from data import ROWS, SECRET, payloads
from environment import cpu_seconds, databases, django_settings
from hookrow import Arrival, Postmark
from hookrow.receiver.receiver import ArrivalReader
from hookrow.receiver.recorder import record
from hookrow.stores import Store
from hookrow.stores.sql import SQLStore
from turns import ROOT, alternate, checkout

PARTS = 4


def main() -> None:
    """Print the costs, or compare them with those of another commit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", type=int, default=32, help="notifications in a group")
    parser.add_argument("--django", action="store_true", help="through a Django project's store")
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--turns", type=int, default=5, help="how often to measure each of the two")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.against:
        with checkout(options.against) as old:
            alternate(options.turns, [partial(_run, tree, options) for tree in (old, ROOT)])
    elif options.json:
        print(json.dumps(dict(measure(options.group, django=options.django))))
    else:
        for name, cost in measure(options.group, django=options.django):
            print(f"{name:40} {cost:9.2f}")


def _run(tree: Path, options: argparse.Namespace) -> Mapping[str, float]:
    """Measure the package of a tree with the tree's copy of this file, in a separate process."""
    file = os.fspath(tree / "bench" / "record.py")
    command = [sys.executable, file, "--json", "--group", str(options.group)]
    done = subprocess.run(
        command + ["--django"] * options.django,
        env=os.environ | {"PYTHONPATH": str(tree / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    costs: Mapping[str, float] = json.loads(done.stdout)
    return costs


def measure(group: int, *, django: bool) -> Iterator[tuple[str, float]]:
    """Yield the costs on each database."""
    arrivals = read_arrivals()
    groups = [arrivals[n : n + group] for n in range(0, len(arrivals) - group + 1, group)]
    gc.freeze()
    with databases(ROWS) as created:
        for name, database in created.items():
            began = cpu_seconds(database.pid)
            with open_store(database.url, django=django) as store:
                yield name, _measure_thread(store, groups)
            if database.pid:
                seconds = cpu_seconds(database.pid) - began
                yield f"{name}'s own processes", seconds / sum(map(len, groups)) * 1e6


def _measure_thread(store: Store, groups: Sequence[Sequence[Arrival]]) -> float:
    """Record the groups; return this thread's CPU time per notification, in microseconds."""
    costs, size = [], len(groups) // PARTS
    for start in range(0, PARTS * size, size):
        part, began = groups[start : start + size], thread_time()
        for arrivals in part:
            record(store, arrivals)
        costs.append((thread_time() - began) / sum(map(len, part)))
    return min(costs) * 1e6


def read_arrivals() -> list[Arrival]:
    """Return new notifications, as the receiver passes them to `record`."""
    parse = ArrivalReader(Postmark(SECRET)).parse
    return [parse(body, datetime.now(UTC)) for body in payloads()]


@contextmanager
def open_store(url: str, *, django: bool) -> Iterator[Store]:
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
    from hookrow.django.store import DjangoStore

    yield DjangoStore()
    connections["default"].close()
    del connections["default"]


if __name__ == "__main__":
    main()
