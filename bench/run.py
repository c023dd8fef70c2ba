"""Measures the parts of hookrow, each by itself: `python bench/run.py [--json FILE]`.

It takes some minutes. The server, the load and PostgreSQL share the machine's cores. The
databases have their defaults: every commit is on the disk before its notifications are
answered. Every notification is new: the log gets a row for each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter
from timeit import Timer

from data import SECRET, arrivals, memory, payloads
from figures import figuring, watching
from hookrow import Postmark, Schema
from hookrow.core.rules import decide, lookup_keys
from hookrow.receiver.recorder import record
from hookrow.stores import Store
from hookrow.stores.sql import SQLStore
from load import load
from log import growing, sweeping
from machine import facts, told
from places import attacked, databases, server
from report import Row, figure, head, loaded, show

GROUPS = (1, 64, 256)
MANY = 300_000
PARKED = 1_000_000
SECONDS = 0.5
"""How long is recorded at a time."""
HOSTILE = ("idle", "slow", "without")


def parsing() -> Iterator[Row]:
    """Time the pure steps, in microseconds for one notification."""
    bodies, parse = payloads(1000), Postmark(SECRET).parse
    yield figure("parse", _best(lambda: [parse(body) for body in bodies]) / 1000 * 1e6, "us", "< 2")
    group = arrivals(64)
    with memory(64).transaction() as transaction:
        rows = transaction.find(lookup_keys(group))
    each = _best(lambda: [decide(arrival, rows) for arrival in group]) / 64
    yield figure("decide, group of 64", each * 1e6, "us", "< 3")


def importing() -> Iterator[Row]:
    """Time `import hookrow` in a fresh interpreter, in milliseconds."""

    def run(code: str) -> float:
        begin = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return perf_counter() - begin

    differences = [run("import hookrow") - run("pass") for _ in range(9)]
    yield figure("import hookrow", median(differences) * 1000, "ms", "< 60")


def recording(name: str, url: str) -> Iterator[Row]:
    """Record groups in one thread, in notifications per second, with the log and without it."""
    with closing(SQLStore(url)) as store, closing(SQLStore(url, Schema(log=None))) as silent:
        for size in GROUPS:
            rates = [(_rate(store, size), _rate(silent, size)) for _ in range(2)]
            on, off = map(max, zip(*rates, strict=True))  # the slower one met a disturbance
            what = f"record, {name}, group of {size}"
            yield figure(what, on, "1/s")
            yield figure(f"{what}, no log", off, "1/s")
            yield figure(f"{what}, ratio", on / off, target=">= 0.5")


def _rate(store: Store, size: int) -> float:
    """Record new notifications for a while."""
    everything = arrivals()
    done, begin = 0, perf_counter()
    while (seconds := perf_counter() - begin) < SECONDS and done + size <= len(everything):
        record(store, everything[done : done + size])
        done += size
    return done / seconds


def suffering(name: str, url: str) -> Iterator[Row]:
    """Put a server under load while hostile clients are at it; the ratio is that of p99."""
    with server(url) as (port, pid):
        quiet = load(port, 16)
        yield loaded(f"{name}, quiet", quiet, pid)
        for kind in HOSTILE:
            with attacked(port, kind):
                measured = load(port, 16)
                ratio = measured.p99 / quiet.p99
                yield loaded(f"{name}, {kind}", measured, pid, ratio=ratio)


def _best(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of many runs: the others met a disturbance."""
    return min(Timer(run).repeat(repeat=200, number=2)) / 2


def main() -> None:
    """Run every part, print each result as it comes, write them all to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    file = parser.parse_args().json
    results = []

    def note(rows: Iterable[Row]) -> None:
        for row in rows:
            show(row)
            results.append(row)

    with databases() as urls:
        machine = facts(urls["postgresql"])
        print(told(machine), end="\n\n", flush=True)
        note(parsing())
        note(importing())
        note([figure("record, memory, group of 64", _rate(memory(256), 64), "1/s")])
        for name, url in urls.items():
            note(recording(name, url))
        head("to quiet")
        note(suffering("postgresql", urls["postgresql"]))
        print()
        for name, url in urls.items():
            note(growing(name, url, MANY))
        for name, url in urls.items():
            note(figuring(name, url, MANY))
        head("to alone")
        for name, url in urls.items():
            note(watching(name, url))
        head("to quiet")
        for name, url in urls.items():
            note(sweeping(name, url, PARKED))
    if file:
        file.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
