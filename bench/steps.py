"""Steps: what each step of a notification costs, in millionths of a second on a core.

`python bench/steps.py [--group N] [--django] [--only database]`. The steps before the database are
measured without sockets, each with all that come before it; those at the database in the thread
that writes, one by one. With --django a project's store writes, as it does with GROUP_COMMIT. Of a
few turns the cheapest counts: what is more was somebody else's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import cycle
from time import process_time, sleep, thread_time

import uvicorn
import uvloop
from uvicorn.server import ServerState

from data import SECRET, payloads
from hookrow import Arrival, Postmark, Receiver, Recorded
from hookrow.asgi import ASGI
from hookrow.core.log_entry import entries
from hookrow.core.notification import Refusal
from hookrow.core.rules import decide, lookup_keys, merge
from hookrow.deadline import Deadline
from hookrow.http import Handler, Request, Response, refuse, respond
from hookrow.promise import Promise
from hookrow.providers import read
from hookrow.receiver.batch import GroupCommit
from hookrow.server.direct import DirectProtocol
from hookrow.stores import Store
from hookrow.stores.memory import MemoryStore
from hookrow.stores.sql import SQLStore
from places import databases

CONNECTIONS = 64
REQUESTS = 20_000
TURNS = 4
AT_WORK = 0.0015
"""In seconds; how long a group takes that a database would be at work on."""

_PROVIDER = Postmark(SECRET)
_RECORDED = respond(Recorded(()))
_LATE = refuse(Refusal.UNAVAILABLE)


class _Admitted:
    """Lets a request in, and answers it at once."""

    blocking = False

    def __init__(self) -> None:
        receiver = Receiver(_PROVIDER, MemoryStore())
        self.admit, self.endpoint = receiver.admit, receiver.endpoint

    def __call__(self, request: Request) -> Response | Promise[Response]:  # noqa: ARG002 - as all handlers
        return _RECORDED


class _Parsed(_Admitted):
    """Reads it, too."""

    def __call__(self, request: Request) -> Response | Promise[Response]:
        _arrived(request)
        return _RECORDED


class _Queued(_Admitted):
    """Has it wait for a group that does nothing for a while."""

    def __init__(self) -> None:
        super().__init__()
        self._commit = GroupCommit[Arrival, Response](_rest)
        self._deadline = Deadline[Response](5.0)

    def __call__(self, request: Request) -> Response | Promise[Response]:
        return self._deadline.watch(self._commit.submit(_arrived(request)), late=_LATE)


def _arrived(request: Request) -> Arrival:
    return read(_PROVIDER, request.body, datetime.now(UTC), request.head.request_id)


def _rest(arrivals: Sequence[Arrival]) -> Sequence[Response]:
    sleep(AT_WORK)
    return [_RECORDED] * len(arrivals)


STEPS = {
    "protocol, head, secret, response": _Admitted,
    "payload": _Parsed,
    "queue, deadline, wake-up": _Queued,
}


class _App(ASGI):
    """What a server is to the protocol."""

    @property
    def webhook(self) -> ASGI:
        return self


class _Socket(asyncio.Transport):
    """What the protocol writes to, and nobody reads."""

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise AssertionError("the server closed a connection")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert bytes(data[:12]) in {b"HTTP/1.1 200", b""}, data


class _Drive:
    """Connections that each have one request in flight, until all requests are answered."""

    def __init__(self, handler: Handler) -> None:
        self._loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._left, self._in_flight = REQUESTS, CONNECTIONS
        drive = self

        class Next(DirectProtocol):
            def on_response_complete(self) -> None:
                super().on_response_complete()
                drive._loop.call_soon(drive._post, self)

        config = uvicorn.Config(_App(handler), access_log=False, ws="none")
        config.load()
        for _ in range(CONNECTIONS):
            connection = Next(config, ServerState(), {}, self._loop)
            connection.connection_made(_Socket())
            self._loop.call_soon(self._post, connection)

    def __call__(self) -> float:
        """Return what a request costs."""
        began = process_time()
        self._loop.run_forever()
        self._loop.close()
        return (process_time() - began) / REQUESTS * 1e6

    def _post(self, connection: DirectProtocol) -> None:
        if self._left:
            self._left -= 1
            connection.data_received(next(_REQUESTS))
            return
        self._in_flight -= 1
        if not self._in_flight:
            self._loop.stop()


def _request(body: bytes) -> bytes:
    head = (
        "POST /provider/webhooks HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Postmark\r\n"
        f"X-Provider-Secret: {SECRET}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_REQUESTS = cycle(map(_request, payloads()))


def before_the_database() -> dict[str, float]:
    """Return what each step costs besides those before it."""
    costs: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(TURNS):
        for name, handler in STEPS.items():
            costs[name].append(_Drive(handler())())
    least = [min(costs[name]) for name in STEPS]
    before = [0.0, *least[:-1]]
    return {name: b - a for name, a, b in zip(STEPS, before, least, strict=True)}


def at_the_database(store: Store, group: int) -> dict[str, float]:
    """Return what each step costs the thread that writes: what `record` does, one by one."""
    arrivals = [read(_PROVIDER, body, datetime.now(UTC)) for body in payloads()]
    groups = [arrivals[n : n + group] for n in range(0, len(arrivals) - group + 1, group)]
    part = len(groups) // TURNS
    turns = [dict(_measured(store, groups[n * part : (n + 1) * part])) for n in range(TURNS)]
    return {step: min(turn[step] for turn in turns) for step in turns[0]}


def _measured(store: Store, groups: Sequence[Sequence[Arrival]]) -> Iterator[tuple[str, float]]:
    spent: defaultdict[str, float] = defaultdict(float)
    for arrivals in groups:
        timed = _timer(spent)
        with store.transaction() as transaction:
            timed("begin")
            mentions = lookup_keys(arrivals)
            timed("decide")
            rows = transaction.find(mentions)
            timed("find")
            outcomes = [decide(arrival, rows) for arrival in arrivals]
            changes = merge(outcomes)
            timed("decide")
            kept = entries(arrivals, outcomes, datetime.now(UTC))
            timed("log entries")
            transaction.write(changes, kept)
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
    parser.add_argument("--django", action="store_true", help="through Django's connection")
    parser.add_argument("--only", choices=["database"], help="leave out the steps before it")
    given = parser.parse_args()
    gc.freeze()
    if not given.only:
        _tell("before the database", before_the_database())
    with databases() as urls:
        for name, url in urls.items():
            with _django_store(url) if given.django else closing(SQLStore(url)) as store:
                where = f"{name}{', Django' * given.django}, groups of {given.group}"
                _tell(where, at_the_database(store, given.group))


@contextmanager
def _django_store(url: str) -> Iterator[Store]:
    """Open the store of a Django project with hookrow's tables."""
    import django  # noqa: PLC0415 - before its settings
    from django.conf import settings  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    from django_project.manage import database  # noqa: PLC0415 - of the tests

    if not settings.configured:
        apps = ["hookrow.django", "hookrow.django.tables"]
        settings.configure(INSTALLED_APPS=apps, DATABASES={"default": database(url)})
        django.setup()
    from hookrow.django.store import DjangoStore  # noqa: PLC0415 - its models need the apps

    connections.settings["default"] = connections.configure_settings({"default": database(url)})[
        "default"
    ]
    connections["default"].close()
    del connections["default"]
    yield DjangoStore()
    connections["default"].close()


def _tell(where: str, costs: dict[str, float]) -> None:
    print(f"{where:36} {'us':>6}  share")
    total = sum(costs.values())
    for step, cost in costs.items():
        print(f"  {step:34} {cost:6.1f} {cost / total:6.0%}")
    print(f"  {'all':34} {total:6.1f}\n")


if __name__ == "__main__":
    main()
