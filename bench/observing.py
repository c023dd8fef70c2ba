"""The cost of metrics and traces: `python bench/observing.py [--group N] [--turns N]`.

In this process, without a server, receivers without an observer, with the summary that `serve` logs
each minute, with metrics, and with traces that are not exported take turns. To measure metrics that
several processes share, set PROMETHEUS_MULTIPROC_DIR to an empty directory.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from statistics import median
from time import process_time

from prometheus_client import CollectorRegistry

from data import ROWS, SECRET, payloads
from environment import databases
from hookrow import Postmark, Receiver, Request, RequestHead
from hookrow._http import ENDPOINT, Response
from hookrow._server.app import MinuteSummary
from hookrow.metrics import Metrics
from hookrow.stores.sql import SQLStore
from hookrow.tracing import Tracing

NOTIFICATIONS = 4096


def main() -> None:
    """Print the CPU time of each receiver, and its median ratio to the one without an observer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", type=int, default=64, help="notifications in a group")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with databases(ROWS) as created:
        for name, database in created.items():
            turns = measure(database.url, options)
            for observer in turns[0]:
                cost = median(each[observer] for each in turns)
                ratio = median(each[observer] / each["no observer"] for each in turns)
                print(f"{f'{name}, {observer}':34} {cost:7.1f} us {ratio:6.2f}")


def measure(url: str, options: argparse.Namespace) -> Sequence[Mapping[str, float]]:
    """Return the CPU time per notification, in microseconds, for each turn and observer."""
    observers = {
        "no observer": None,
        "summary of each minute": MinuteSummary(),
        "metrics": Metrics(CollectorRegistry()),
        "traces, not exported": Tracing(),
    }
    with closing(SQLStore(url)) as store, ExitStack() as stack:
        receivers = {
            name: stack.enter_context(closing(Receiver(Postmark(SECRET), store, observer=each)))
            for name, each in observers.items()
        }
        return [
            {name: receive(each, options.group) for name, each in receivers.items()}
            for _ in range(options.turns)
        ]


def receive(receiver: Receiver, group: int) -> float:
    """Record new notifications in groups; return the CPU time per notification in microseconds."""
    secret = [(b"x-provider-secret", SECRET.encode())]
    head = RequestHead("POST", ENDPOINT, secret, request_id="r-1")
    requests = [Request(head, body) for body in payloads(NOTIFICATIONS)]
    began = process_time()
    asyncio.run(_submit(receiver, requests, group))
    return (process_time() - began) / NOTIFICATIONS * 1e6


async def _submit(receiver: Receiver, requests: Sequence[Request], group: int) -> None:
    """Submit the requests in groups, each after the responses to the previous one."""
    loop = asyncio.get_running_loop()
    for start in range(0, len(requests), group):
        responses: list[asyncio.Future[Response]] = []
        for request in requests[start : start + group]:
            responses.append(loop.create_future())
            receiver.submit(request, loop, responses[-1].set_result)
        await asyncio.gather(*responses)


if __name__ == "__main__":
    main()
