"""The steps of a notification before the database, without sockets; steps.py prints their costs.

Each is measured together with all steps before it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import cycle
from time import process_time, sleep
from typing import Any

import uvicorn
import uvloop
from uvicorn.server import ServerState

from data import SECRET, payloads
from hookrow import Arrival, Postmark, Receiver, Recorded
from hookrow._core.notification import Refusal
from hookrow._http import ENDPOINT, Request, Response, refuse, respond
from hookrow._receiver.batch import BatchWriter
from hookrow._receiver.entries import read_entries
from hookrow._receiver.receiver import ArrivalReader
from hookrow._server import RECEIVER
from hookrow._server.protocol import NotificationProtocol
from hookrow.stores.sql import SQLStore

CONNECTIONS = 64
REQUESTS = 20_000
GROUP_SECONDS = 0.0015
"""In seconds; the time that a database would take for a group."""

Reply = Callable[[Response], object]

_PROVIDER = Postmark(SECRET)
_ENTRIES = read_entries(_PROVIDER)
_READER = ArrivalReader(_ENTRIES)
_RECORDED = respond(Recorded(()))
_UNAVAILABLE = refuse(Refusal.UNAVAILABLE)


class _Admitted:
    """Admits a request, and responds immediately."""

    endpoint = ENDPOINT
    entries = _ENTRIES

    def __init__(self) -> None:
        self.admit = Receiver(_PROVIDER, SQLStore("sqlite://")).admit

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
        self._writer.submit([_arrival(request)], loop, reply)


def _arrival(request: Request) -> Arrival:
    events, now = _PROVIDER.read(request), datetime.now(UTC)
    return _READER.arrivals(_ENTRIES.default, events, now, request.head.request_id)[0]


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

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass  # nothing is buffered

    def pause_reading(self) -> None:
        pass  # a connection sends nothing before it has its response

    def resume_reading(self) -> None:
        pass

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


def before_the_database(turns: int) -> dict[str, float]:
    """Return the CPU time of each step by itself, in microseconds per notification."""
    costs: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for name, handler in STEPS.items():
            costs[name].append(_Drive(handler())())
    least = [min(costs[name]) for name in STEPS]
    before = [0.0, *least[:-1]]
    return {name: b - a for name, a, b in zip(STEPS, before, least, strict=True)}
