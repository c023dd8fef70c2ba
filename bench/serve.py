"""The cost of `hookrow serve` over HTTP, with the log: `python bench/serve.py`.

Prints the CPU time of the server and of PostgreSQL for each notification, the rate, and latencies,
also with one connection. With `--against COMMIT`, that commit and this tree alternate on the
same databases; with `--metrics`, this tree alternates without and with Prometheus metrics. The
medians of the turns are compared. If the machine has other work, only their ratios are meaningful.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from data import ROWS, SECRET
from environment import Database, databases, free_port, running
from load import post
from turns import ROOT, alternate, checkout, measure_load

_FIRST_EDITION = (
    "CREATE TABLE IF NOT EXISTS hookrow_version (version_num VARCHAR(32) NOT NULL)",
    "INSERT INTO hookrow_version VALUES ('0001'), ('0002')",
)
"""The table without which the first edition rejects a database that it did not create."""


def main() -> None:
    """Print the costs, and ratios if two variants are compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    variants = parser.add_mutually_exclusive_group()
    variants.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    variants.add_argument("--metrics", action="store_true", help="compare with metrics")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=4, help="duration of a load")
    options = parser.parse_args()
    other = checkout(options.against) if options.against else nullcontext(ROOT)
    with other as tree, databases(ROWS) as created:
        commands: list[tuple[Path, Sequence[str]]] = [(ROOT, ())]
        if options.against:
            commands.insert(0, (tree, ()))
        elif options.metrics:
            commands.append((ROOT, ("--metrics",)))
        for database in created.values():
            database.execute(*_FIRST_EDITION)
        alternate(options.turns, [partial(measure, *each, created, options) for each in commands])


def measure(
    tree: Path,
    flags: Sequence[str],
    created: Mapping[str, Database],
    options: argparse.Namespace,
) -> Mapping[str, float]:
    """Run the server of a tree on each database, and put it under load; return its costs."""
    costs: dict[str, float] = {}
    for name, database in created.items():
        database.empty_log()
        database.settle()
        port = free_port()
        command = (sys.executable, "-m", "hookrow", "serve", "--port", port, "--no-sweep", *flags)
        variables = {
            "PYTHONPATH": os.fspath(tree / "src"),
            "HOOKROW_SECRET": SECRET,
            "HOOKROW_DATABASE_URL": database.url,
            "HOOKROW_LOG_LEVEL": "error",
        }
        with running(command, port, variables) as pid:
            found = measure_load(port, pid, database, options.connections, options.seconds)
            post(port, 1, 1)  # to warm up
            found["p50 of one connection, ms"] = post(port, 1, 1).p50
        costs |= {f"{name}: {figure}": cost for figure, cost in found.items()}
    return costs


if __name__ == "__main__":
    main()
