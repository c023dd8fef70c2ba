"""The load: wrk posts new notifications, with one request in flight on each connection.

wrk shares the machine's cores with the server and the database.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import time
from typing import IO

from data import BASE, ROWS, SECRET, WEIGHTS, payload, subscribers, targets, template

SCRIPT = Path(__file__).with_name("post.lua")

RESPONSE_TIMEOUT = 10
"""In seconds; a later response is an error."""

EXTRA_TIME = 60
"""In seconds; how much longer than the load wrk may run."""

PREPARED = 15_000
"""The number of requests that are built in advance, for each second of a load."""

GOLDEN_RATIO = 0.6180339887
"""The fractional parts of its multiples are far apart, and so are the dispatches at which loads
begin."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path, and the header with the secret."""

    path: str = "/provider/webhooks"
    header: str = f"X-Provider-Secret: {SECRET}"


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a load.

    All its events occurred in the second that begins `at`, which no other load uses. `seconds` is
    the duration; p50 and p99 are in milliseconds. Requests in flight at the end do not count as
    `answered`. `errors` counts failed connections, timeouts and statuses of 400 or more.
    """

    at: datetime
    connections: int
    answered: int
    seconds: float
    p50: float
    p99: float
    errors: int


def post(
    port: int,
    connections: int,
    seconds: int,
    *,
    rows: int = ROWS,
    endpoint: Endpoint = Endpoint(),
    pause: int = 0,
) -> Load:
    """Run wrk once. Each load begins at a different dispatch from the previous ones.

    `pause` is how long each connection waits between a response and its next request, in
    milliseconds.
    """
    serial = next(_SERIALS)
    at = datetime.fromtimestamp(serial, UTC)
    threads = min(2, connections)
    flags = (
        *("-t", threads, "-c", connections, "-d", seconds),
        *("--timeout", RESPONSE_TIMEOUT, "-s", SCRIPT),
    )
    arguments = (
        *(_request_file(endpoint, rows), _target_file(rows), subscribers(rows), BASE),
        *(f"{at:%Y-%m-%dT%H:%M:%S}", int(serial * GOLDEN_RATIO % 1 * rows)),
        *(threads, PREPARED * seconds // threads, pause),
    )
    command = ("wrk", *flags, f"http://127.0.0.1:{port}/", "--", *arguments)
    done = subprocess.run(
        list(map(str, command)),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds + EXTRA_TIME,
    )
    return Load(at=at, connections=connections, **json.loads(done.stdout.splitlines()[-1]))


_SERIALS: Iterator[int] = count(int(time()))
"""A second for each load; none is in the future, because a load takes longer than a second."""


@cache
def _request_file(endpoint: Endpoint, rows: int) -> str:
    """Write a request of each type with its placeholders, each followed by NUL."""
    requests = []
    for record_type in WEIGHTS:
        length = len(payload(rows, 0, record_type, 0))
        requests.append(
            f"POST {endpoint.path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Postmark\r\n"
            f"{endpoint.header}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n{template(record_type)}\0"
        )
    return _file("".join(requests))


@cache
def _target_file(rows: int) -> str:
    """Write a line for each notification: the dispatch's number, and a digit for the type."""
    digits = {record_type: digit for digit, record_type in enumerate(WEIGHTS, 1)}
    return _file("".join(f"{number:09}{digits[each]}\n" for number, each in targets(rows)))


def _file(text: str) -> str:
    """Write a file that exists until the process ends; return its name."""
    file = NamedTemporaryFile("w")  # noqa: SIM115 - closing deletes it
    _FILES.append(file)
    file.write(text)
    file.flush()
    return file.name


_FILES: list[IO[str]] = []
