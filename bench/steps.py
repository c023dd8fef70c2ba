"""Measures the CPU time of each step of a notification, in microseconds.

`python bench/steps.py [--group N] [--django] [--only database]`. The steps before the database run
without sockets, each together with all steps before it; the steps at the database run in one
thread, one by one. With --django, the store is a Django project's, as with GROUP_COMMIT. The lowest
result of a few turns counts, because other work on the machine can only increase it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import cycle
from time import process_time, sleep, thread_time
from typing import Any

import uvicorn
import uvloop
from uvicorn.server import ServerState

from data import ROWS, SECRET, payloads
from environment import databases
from hookrow import Arrival, Postmark, Receiver, Recorded
from hookrow.core.log_entry import entries
from hookrow.core.notification import Refusal
from hookrow.core.rules import decide, lookup_keys, merge
from hookrow.http import ENDPOINT, Request, Response, refuse, respond
from hookrow.receiver.batch import BatchWriter
from hookrow.receiver.receiver import ArrivalReader
from hookrow.server import RECEIVER
from hookrow.server.protocol import NotificationProtocol
from hookrow.stores import Store
from hookrow.stores.memory import MemoryStore
from record import open_store, read_arrivals

CONNECTIONS = 64
REQUESTS = 20_000
TURNS = 4
GROUP_SECONDS = 0.0015
"""In seconds; the time that a database would take for a group."""

Reply = Callable[[Response], object]

_PROVIDER = Postmark(SECRET)
_READER = ArrivalReader(_PROVIDER)
_RECORDED = respond(Recorded(()))
_UNAVAILABLE = refuse(Refusal.UNAVAILABLE)


class _Admitted:
    """Admits a request, and responds immediately."""

    endpoint = ENDPOINT

    def __init__(self) -> None:
        self.admit = Receiver(_PROVIDER, MemoryStore()).admit

    def submit(self, request: Request, loop: asyncio.AbstractEventLoop, reply: Reply) -> None:
        del request, loop
        reply(_RECORDED)


class _Parsed(_Admitted):
    """Also parses the body."""

    def submit(self, request: Request, loop: asyncio.AbstractEventLoop, reply: Reply) -> None:
        del loop
        _arrival(request)
        reply(_RECORDED)


class _Queued(_Admitted):
    """Also waits for a group, whose work only sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self._writer = BatchWriter[Arrival, Response](
            _work, fallback=lambda _: _UNAVAILABLE, deadline=5.0
        )

    def submit(self, request: Request, loop: asyncio.AbstractEventLoop, reply: Reply) -> None:
        self._writer.submit(_arrival(request), loop, reply)


def _arrival(request: Request) -> Arrival:
    parts, now = _PROVIDER.read(request), datetime.now(UTC)
    return _READER.arrivals(parts, now, request.head.request_id)[0]


def _work(arrivals: Sequence[Arrival]) -> Sequence[Response]:
    sleep(GROUP_SECONDS)
    return [_RECORDED] * len(arrivals)


STEPS = {
    "protocol, head, secret, response": _Admitted,
    "payload": _Parsed,
    "queue, deadline, wake-up": _Queued,
}


class _Socket(asyncio.Transport):
    """Calls `respond` with each response, and reports an empty buffer."""

    def __init__(self, respond: Callable[[], object]) -> None:
        super().__init__()
        self._respond = respond

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise AssertionError("the server closed a connection")

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert bytes(data[:12]) == b"HTTP/1.1 200", data
        self._respond()


class _Drive:
    """Connections, each with one request in flight until all requests have their responses."""

    def __init__(self, handler: _Admitted) -> None:
        self._loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._left, self._in_flight = REQUESTS, CONNECTIONS
        config = uvicorn.Config(_application, access_log=False, ws="none")
        config.load()
        state: dict[str, Any] = {RECEIVER: handler}
        for _ in range(CONNECTIONS):
            connection = NotificationProtocol(config, ServerState(), state, self._loop)
            connection.connection_made(_Socket(self._next(connection)))
            self._loop.call_soon(self._post, connection)

    def __call__(self) -> float:
        """Run the connections; return the CPU time per request, in microseconds."""
        began = process_time()
        self._loop.run_forever()
        self._loop.close()
        return (process_time() - began) / REQUESTS * 1e6

    def _next(self, connection: NotificationProtocol) -> Callable[[], object]:
        return lambda: self._loop.call_soon(self._post, connection)

    def _post(self, connection: NotificationProtocol) -> None:
        if self._left:
            self._left -= 1
            connection.data_received(next(_REQUESTS))
            return
        self._in_flight -= 1
        if not self._in_flight:
            self._loop.stop()


async def _application(scope: object, receive: object, send: object) -> None:
    del scope, receive, send
    raise AssertionError("a request was passed to uvicorn's protocol")


def _request(body: bytes) -> bytes:
    head = (
        "POST /provider/webhooks HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Postmark\r\n"
        f"X-Provider-Secret: {SECRET}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_REQUESTS = cycle(map(_request, payloads()))


def before_the_database() -> dict[str, float]:
    """Return the CPU time of each step by itself, in microseconds per notification."""
    costs: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(TURNS):
        for name, handler in STEPS.items():
            costs[name].append(_Drive(handler())())
    least = [min(costs[name]) for name in STEPS]
    before = [0.0, *least[:-1]]
    return {name: b - a for name, a, b in zip(STEPS, before, least, strict=True)}


def at_the_database(store: Store, group: int) -> dict[str, float]:
    """Return the CPU time of each step of `record`, in microseconds per notification."""
    arrivals = read_arrivals()
    groups = [arrivals[n : n + group] for n in range(0, len(arrivals) - group + 1, group)]
    count = len(groups) // TURNS
    turns = [dict(_measured(store, groups[n * count : (n + 1) * count])) for n in range(TURNS)]
    return {step: min(turn[step] for turn in turns) for step in turns[0]}


def _measured(store: Store, groups: Sequence[Sequence[Arrival]]) -> Iterator[tuple[str, float]]:
    spent: defaultdict[str, float] = defaultdict(float)
    for arrivals in groups:
        timed = _timer(spent)
        with store.transaction() as transaction:
            timed("begin")
            keys = lookup_keys(arrivals)
            timed("decide")
            rows = transaction.find(keys)
            timed("find")
            outcomes = [decide(arrival, rows) for arrival in arrivals]
            changes = merge(outcomes)
            timed("decide")
            log_entries = entries(arrivals, outcomes, datetime.now(UTC))
            timed("log entries")
            transaction.write(changes, log_entries)
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


def main() -> None:
    """Print a table for the steps before the database, and one for each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--group", type=int, default=32, help="notifications in a group")
    parser.add_argument("--django", action="store_true", help="through a Django project's store")
    parser.add_argument("--only", choices=["database"], help="omit the steps before the database")
    options = parser.parse_args()
    gc.freeze()
    if not options.only:
        _print("before the database", before_the_database())
    with databases(ROWS) as created:
        for name, database in created.items():
            with open_store(database.url, django=options.django) as store:
                title = f"{name}{', Django' * options.django}, groups of {options.group}"
                _print(title, at_the_database(store, options.group))


def _print(title: str, costs: dict[str, float]) -> None:
    print(f"{title:36} {'us':>6}  share")
    total = sum(costs.values())
    for step, cost in costs.items():
        print(f"  {step:34} {cost:6.1f} {cost / total:6.0%}")
    print(f"  {'all':34} {total:6.1f}\n")


if __name__ == "__main__":
    main()
