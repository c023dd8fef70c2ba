"""Measures the cost of metrics and traces: `python bench/observing.py [--turns N]`, two minutes.

First, receivers without a server alternate in this process: their CPU time varies least, and
a server's share could only improve the ratios. Then servers alternate under the same load:
without an observer, with metrics, and with metrics that several processes could share.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
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
from hookrow.http import ENDPOINT, Response
from hookrow.metrics import Metrics
from hookrow.stores.sql import SQLStore
from hookrow.tracing import Tracing
from load import load
from machine import facts, told
from places import databases, server
from processes import cores
from report import Row, figure, show

CLIENTS = 64
NOTIFICATIONS = 64 * 64
MAX_COST = 0.05
"""The share of the rate that metrics may cost."""

Running: TypeAlias = tuple[int, int]
Measured: TypeAlias = tuple[float, float]
"""Responses per second, and microseconds of CPU for each."""


def receiver_figures(name: str, url: str, turns: int) -> Iterator[Row]:
    """Alternate the receivers; yield the medians of their CPU time, and of the turns' ratios."""
    with closing(SQLStore(url)) as store, ExitStack() as stack:
        observers = {
            "no observer": None,
            "metrics": Metrics(CollectorRegistry()),
            "traces, not exported": Tracing(),
        }
        receivers = {
            variant: stack.enter_context(closing(Receiver(Postmark(SECRET), store, observer=each)))
            for variant, each in observers.items()
        }
        measured = [
            {variant: _receive(each) for variant, each in receivers.items()} for _ in range(turns)
        ]
    for variant in receivers:
        yield figure(
            f"{name}, receiver, {variant}", median(each[variant] for each in measured), "us"
        )
    for variant in ("metrics", "traces, not exported"):
        ratio = median(each["no observer"] / each[variant] for each in measured)
        yield figure(f"{name}, receiver, {variant}, ratio", ratio, target=f">= {1 - MAX_COST}")


def _receive(receiver: Receiver) -> float:
    """Record new notifications in groups; return microseconds of CPU for each."""
    head = RequestHead(
        "POST", ENDPOINT, [(b"x-provider-secret", SECRET.encode())], request_id="r-1"
    )
    requests = [Request(head, body) for body in payloads(NOTIFICATIONS)]
    began = process_time()
    asyncio.run(_submit(receiver, requests))
    return (process_time() - began) / NOTIFICATIONS * 1e6


async def _submit(receiver: Receiver, requests: Sequence[Request]) -> None:
    """Submit the requests in groups, each after the responses to the previous one."""
    loop = asyncio.get_running_loop()
    for start in range(0, len(requests), CLIENTS):
        responses: list[asyncio.Future[Response]] = []
        for request in requests[start : start + CLIENTS]:
            responses.append(loop.create_future())
            receiver.submit(request, loop, responses[-1].set_result)
        await asyncio.gather(*responses)


def server_figures(name: str, url: str, turns: int) -> Iterator[Row]:
    """Alternate the servers; yield their medians, and the medians of the turns' ratios."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        run = partial(server, url)
        made = {
            "no observer": run(),
            "metrics": run("--metrics"),
            "metrics, shared": run("--metrics", PROMETHEUS_MULTIPROC_DIR=folder),
        }
        servers = {variant: stack.enter_context(each) for variant, each in made.items()}
        measured = [_turn(servers, turn) for turn in range(turns)]
    for variant in servers:
        yield figure(f"{name}, {variant}", median(each[variant][0] for each in measured), "1/s")
        yield figure(f"{name}, {variant}, CPU", median(each[variant][1] for each in measured), "us")
    for variant in ("metrics", "metrics, shared"):
        yield from _ratios(f"{name}, {variant}", measured, variant)


def _turn(servers: Mapping[str, Running], turn: int) -> Mapping[str, Measured]:
    """Put each server under load once, in another order in each turn."""
    variants = list(servers)
    first = turn % len(variants)
    return {variant: _load(*servers[variant]) for variant in variants[first:] + variants[:first]}


def _load(port: int, pid: int) -> Measured:
    began = cores(pid)
    result = load(port, CLIENTS, warm_up=0)
    return result.rate, (cores(pid) - began) / result.answered * 1e6


def _ratios(name: str, measured: list[Mapping[str, Measured]], variant: str) -> Iterator[Row]:
    target = f">= {1 - MAX_COST}"
    rate = median(each[variant][0] / each["no observer"][0] for each in measured)
    core = median(each["no observer"][1] / each[variant][1] for each in measured)
    yield figure(f"{name}, rate", rate, target=target)
    yield figure(f"{name}, CPU", core, target=target)


def main() -> None:
    """Measure on each database, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    with databases() as urls:
        print(told(facts(urls["postgresql"])), end="\n\n", flush=True)
        for name, url in urls.items():
            for row in chain(
                receiver_figures(name, url, given.turns), server_figures(name, url, given.turns)
            ):
                show(row)


if __name__ == "__main__":
    main()
