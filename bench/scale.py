"""Measures how hookrow grows: `python bench/scale.py [--only PART] [--rows N] ...`.

It takes an hour and 12 GB of disk, and writes docs/scale/results.json, the plots beside it
and the figures within docs/scale.md: after each part, whose last figures it takes the
place of. With fewer rows or minutes it is a trial, and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from signal import SIGTERM, signal
from time import perf_counter
from traceback import print_exc

import scale_page
from growth import LEAST, growing
from machine import facts, told
from needs import provide
from places import postgres
from receivers import crowding, grouping
from scale_results import keep
from soak import soaking
from tuning import tuning

ROWS = 10_000_000
MINUTES = 15.0


def parts(rows: int, turns: int, minutes: float) -> Mapping[str, Callable[[], object]]:
    """Return what can be measured, by name."""
    return {
        "growth": partial(growing, rows, turns),
        "workers": partial(crowding, rows, turns),
        "groups": partial(grouping, rows, turns),
        "settings": partial(tuning, rows, turns),
        "soak": partial(soaking, rows, minutes),
    }


def main() -> None:
    """Measure all parts, or one; where one fails, the others are measured all the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=parts(0, 0, 0), help="this part alone")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the largest tables")
    parser.add_argument("--turns", type=int, default=5, help="how often each case is measured")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long the soak takes")
    given = parser.parse_args()
    if given.rows < LEAST or given.turns < 1 or given.minutes < 1:
        parser.error(f"it takes {LEAST} rows, a turn and a minute at the least")
    trial = given.rows < ROWS or given.minutes < MINUTES
    signal(SIGTERM, lambda *_: sys.exit("Terminated."))  # and nothing that was started goes on
    provide()
    with postgres() as server:
        machine = facts(server.url())
    print(told(machine), flush=True)
    failed = []
    for name, measure in parts(given.rows, given.turns, given.minutes).items():
        if given.only in (None, name) and not _measured(name, measure, machine, trial=trial):
            failed.append(name)
    if failed:
        sys.exit(f"Not measured, for what is said above: {', '.join(failed)}.")


def _measured(
    name: str, measure: Callable[[], object], machine: Mapping[str, str], *, trial: bool
) -> bool:
    """Measure a part and write it down; tell whether that could be done."""
    print(f"\n{name} ...", flush=True)
    began = perf_counter()
    try:
        measured = measure()
        if not trial:
            keep(name, machine, measured)
            scale_page.write()
    except Exception:  # noqa: BLE001 - whatever it is, the other parts can be measured
        print_exc()
        return False
    print(f"{name}: {(perf_counter() - began) / 60:.1f} minutes", flush=True)
    return True


if __name__ == "__main__":
    main()
