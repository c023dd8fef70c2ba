"""The load: `load.py PORT CONNECTIONS SECONDS WARM_UP` posts new payloads and prints the rate.

What is answered in the seconds of warming up does not count. Each connection has one
request in flight. A bare protocol, for a client library would take more of the machine
than the server does.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import quantiles
from time import perf_counter
from typing import cast

import uvloop

from data import SECRET, fresh, templates

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass(slots=True)
class Course:
    """What all connections share: the requests to come, and the answers that count."""

    requests: Iterator[bytes]
    begin: float
    end: float
    latencies: list[float] = field(default_factory=list)
    errors: int = 0


class Connection(asyncio.Protocol):
    """Posts, waits for the answer, posts again, until the course ends."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._received = b""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Post the first."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._post()

    def data_received(self, data: bytes) -> None:
        """Check an answer when it is complete, and post the next."""
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        if not blank or not length or len(body) < int(length[1]):
            return
        now = perf_counter()
        if not head.startswith(b"HTTP/1.1 200 "):
            self._course.errors += 1
        elif self._course.begin < now <= self._course.end:
            self._course.latencies.append(now - self._sent)
        self._received = b""
        if now < self._course.end:
            self._post()
        else:
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        """Count a connection that ends before its time."""
        self._course.errors += perf_counter() < self._course.end
        self.done.set_result(None)

    def _post(self) -> None:
        self._sent = perf_counter()
        self._transport.write(next(self._course.requests))


def request(body: bytes) -> bytes:
    """Return a whole request for a payload."""
    head = (
        "POST /provider/webhooks HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Postmark\r\n"
        f"X-Provider-Secret: {SECRET}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: int, connections: int, seconds: float, warm_up: float) -> dict[str, float]:
    """Run the course; return rate (1/s), p50 and p99 (ms) and the count of errors."""
    requests = fresh([request(body) for body in templates()])
    begin = perf_counter() + warm_up
    course = Course(requests, begin, begin + seconds)
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Connection(course), "127.0.0.1", port)
        for _ in range(connections)
    ]
    async with asyncio.timeout(warm_up + seconds + 10):
        await asyncio.gather(*(connection.done for _, connection in made))
    percentiles = quantiles(course.latencies, n=100)
    return {
        "rate": len(course.latencies) / seconds,
        "p50": percentiles[49] * 1000,
        "p99": percentiles[98] * 1000,
        "errors": course.errors,
    }


if __name__ == "__main__":
    _port, _connections, _seconds, _warm_up = sys.argv[1:]
    _course = load(int(_port), int(_connections), float(_seconds), float(_warm_up))
    print(json.dumps(uvloop.run(_course)))
