"""Measures what it costs to be observed: `python bench/observing.py [--turns N]`, in a minute.

Servers take turns under the same load, so that what else the machine does meets them all:
one that nobody observes, one with metrics, one whose metrics are shared by processes.
The server's own time on a core is the steadier figure where others use the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeAlias

from places import databases, facts, load, seconds_of, server
from report import Row, figure, show

CLIENTS = 64
SECONDS = 2.0
WARM_UP = 0.5
MOST = 0.05
"""Of the rate; what metrics may cost."""

Running: TypeAlias = tuple[int, int]
Measured: TypeAlias = tuple[float, float]
"""Answers a second, and microseconds on a core for each."""


def observing(name: str, url: str, turns: int) -> Iterator[Row]:
    """Let the servers take turns; yield the medians, and the medians of each turn's ratios."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        run = partial(server, url)
        made = {
            "unobserved": run(),
            "metrics": run("--metrics"),
            "metrics, shared": run("--metrics", PROMETHEUS_MULTIPROC_DIR=folder),
        }
        servers = {way: stack.enter_context(each) for way, each in made.items()}
        courses = [_turn(servers, turn) for turn in range(turns)]
    for way in servers:
        yield figure(f"{name}, {way}", median(each[way][0] for each in courses), "1/s")
        yield figure(f"{name}, {way}, on a core", median(each[way][1] for each in courses), "us")
    for way in ("metrics", "metrics, shared"):
        yield from _ratios(f"{name}, {way}", courses, way)


def _turn(servers: Mapping[str, Running], turn: int) -> Mapping[str, Measured]:
    """Put each under load once, in another order each turn."""
    ways = list(servers)
    first = turn % len(ways)
    return {way: _measure(*servers[way]) for way in ways[first:] + ways[:first]}


def _measure(port: int, pid: int) -> Measured:
    began = seconds_of(pid)
    rate = load(port, CLIENTS, SECONDS, WARM_UP)["rate"]
    return rate, (seconds_of(pid) - began) / (rate * (SECONDS + WARM_UP)) * 1e6


def _ratios(name: str, courses: list[Mapping[str, Measured]], way: str) -> Iterator[Row]:
    target = f">= {1 - MOST}"
    rate = median(each[way][0] / each["unobserved"][0] for each in courses)
    core = median(each["unobserved"][1] / each[way][1] for each in courses)
    yield figure(f"{name}, rate", rate, target=target)
    yield figure(f"{name}, by time on a core", core, target=target)


def main() -> None:
    """Measure on each database, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with databases() as urls:
        print(facts(urls["postgresql"]), end="\n\n", flush=True)
        for name, url in urls.items():
            for row in observing(name, url, given.turns):
                show(row)


if __name__ == "__main__":
    main()
