"""What `hookrow serve` costs: CPU for each notification over HTTP, with the log.

`python bench/serve.py [--against COMMIT] [--turns N] [--connections N] [--seconds N]` measures the
server, PostgreSQL's own processes, the rate, and the median latency of one connection. With
--against, a commit and this tree take turns on the same databases, and medians are compared.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from statistics import median

from sqlalchemy import text

from data import SECRET, SMALL
from load import load
from places import Place, opened, places, reset
from processes import cores, free_port, running
from record import ROOT, checkout

_FIRST_EDITION = (
    "CREATE TABLE IF NOT EXISTS hookrow_version (version_num VARCHAR(32) NOT NULL)",
    "INSERT INTO hookrow_version VALUES ('0001'), ('0002')",
)
"""What the first edition looks for in a database that it has not created."""


def main() -> None:
    """Print the costs of this tree, or compare them with another commit's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="COMMIT", help="compare with this commit")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=4, help="of each load")
    given = parser.parse_args()
    found: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    with (
        checkout(given.against) if given.against else nullcontext(ROOT) as other,
        places(SMALL) as made,
    ):
        trees = [other, ROOT] if given.against else [ROOT]
        for place in made.values():
            _admit_first_edition(place)
        for turn in range(given.turns):
            for name, place in made.items():
                turns = [measure(tree, place, given) for tree in trees]
                for what in turns[-1]:
                    found[f"{name}: {what}"].append(tuple(each[what] for each in turns))
            print(f"turn {turn + 1} of {given.turns}", file=sys.stderr)
    for name, values in found.items():
        medians = [median(each) for each in zip(*values, strict=True)]
        ratios = " ".join(f"{each[-1] / each[0]:.2f}" for each in values if len(each) > 1)
        ratio = f"{medians[-1] / medians[0]:6.2f}  by turn {ratios}" if ratios else ""
        print(f"{name:40} {' '.join(f'{each:9.2f}' for each in medians)} {ratio}")


def measure(tree: Path, place: Place, given: argparse.Namespace) -> Mapping[str, float]:
    """Serve with the package of a tree, and put the server under load."""
    reset(place)
    port = free_port()
    command = (sys.executable, "-m", "hookrow", "serve", "--port", port, "--no-sweep")
    variables = {
        "PYTHONPATH": os.fspath(tree / "src"),
        "HOOKROW_SECRET": SECRET,
        "HOOKROW_DATABASE_URL": place.url,
        "HOOKROW_LOG_LEVEL": "error",
    }
    with running(command, port, variables) as pid:
        before = cores(pid), cores(place.pid) if place.pid else 0.0
        many = load(port, given.connections, given.seconds, warm_up=0)
        server = cores(pid) - before[0]
        database = cores(place.pid) - before[1] if place.pid else 0.0
        one = load(port, 1, 1)
    assert not many.errors, "not every response was 200"
    costs = {"server, us of CPU": server / many.answered * 1e6}
    if place.pid:
        costs["database, us of CPU"] = database / many.answered * 1e6
    return costs | {"rate, a second": many.rate, "p50 of one connection, ms": one.p50}


def _admit_first_edition(place: Place) -> None:
    with opened(place.url) as engine, engine.begin() as connection:
        for statement in _FIRST_EDITION:
            connection.execute(text(statement))


if __name__ == "__main__":
    main()
