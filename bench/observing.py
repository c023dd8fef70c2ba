"""Measures what it costs to be observed: `python bench/observing.py [--turns N]`, in two minutes.

First receivers take turns in this process, without a server: what they need of a core is
the steadiest figure, and a server's part would only make the ratio better. Then servers
take turns under the same load: one that nobody observes, one with metrics, one whose
metrics are shared by processes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import TypeAlias

from prometheus_client import CollectorRegistry

from data import SECRET, payloads
from hookrow import Postmark, Receiver, Request, RequestHead
from hookrow.metrics import Metrics
from hookrow.receiver.receiver import ENDPOINT
from hookrow.stores.sql import SQLStore
from hookrow.tracing import Tracing
from load import load
from machine import facts, told
from places import databases, server
from processes import cores
from report import Row, figure, show

CLIENTS = 64
MANY = 64 * 64
MOST = 0.05
"""Of the rate; what metrics may cost."""

Running: TypeAlias = tuple[int, int]
Measured: TypeAlias = tuple[float, float]
"""Answers a second, and microseconds on a core for each."""


def receiving(name: str, url: str, turns: int) -> Iterator[Row]:
    """Let receivers take turns; yield microseconds on a core, and each turn's median ratio."""
    with closing(SQLStore(url)) as store, ExitStack() as stack:
        observers = {
            "unobserved": None,
            "metrics": Metrics(CollectorRegistry()),
            "traces, not kept": Tracing(),
        }
        receivers = {
            way: stack.enter_context(closing(Receiver(Postmark(SECRET), store, observer=each)))
            for way, each in observers.items()
        }
        courses = [{way: _receive(each) for way, each in receivers.items()} for _ in range(turns)]
    for way in receivers:
        yield figure(f"{name}, receiver, {way}", median(each[way] for each in courses), "us")
    for way in ("metrics", "traces, not kept"):
        ratio = median(each["unobserved"] / each[way] for each in courses)
        yield figure(f"{name}, receiver, {way}, ratio", ratio, target=f">= {1 - MOST}")


def _receive(receiver: Receiver) -> float:
    """Record new notifications, a group's worth at a time; return microseconds for each."""
    head = RequestHead(
        "POST", ENDPOINT, [(b"x-provider-secret", SECRET.encode())], request_id="r-1"
    )
    requests = [Request(head, body) for body in payloads(MANY)]
    began = process_time()
    for start in range(0, MANY, CLIENTS):
        answers = [receiver(each) for each in requests[start : start + CLIENTS]]
        wait([each for each in answers if isinstance(each, Future)])
    return (process_time() - began) / MANY * 1e6


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
    began = cores(pid)
    measured = load(port, CLIENTS, warm_up=0)
    return measured.rate, (cores(pid) - began) / measured.answered * 1e6


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
        print(told(facts(urls["postgresql"])), end="\n\n", flush=True)
        for name, url in urls.items():
            for row in chain(receiving(name, url, given.turns), observing(name, url, given.turns)):
                show(row)


if __name__ == "__main__":
    main()
