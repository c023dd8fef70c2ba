"""The load: wrk, which posts new notifications over a number of connections.

Each connection has one request in flight. wrk runs on the same cores as what it measures,
whoever that is.
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

from data import BASE, KINDS, SECRET, SMALL, Size, form, numbers, payload

SCRIPT = Path(__file__).with_name("post.lua")

TIMEOUT = 10
"""In seconds; an answer that takes longer is an error."""

PATIENCE = 60
"""In seconds; how much longer than it should wrk may take."""

AHEAD = 15_000
"""A second; so many requests are made before the load begins."""


GOLDEN = 0.6180339887
"""Its multiples, of which only the fractions are taken, keep away from each other."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where notifications are posted: a path, and the header that proves who posts."""

    path: str = "/provider/webhooks"
    proof: str = f"X-Provider-Secret: {SECRET}"


@dataclass(frozen=True, slots=True)
class Load:
    """What became of a load.

    Its notifications tell of the second that begins `at`, and those of no other load do.
    p50 and p99 are in milliseconds, `cores` is for how long wrk itself kept cores busy with
    it, in seconds. What was in flight at the end is not `answered`.
    """

    at: datetime
    connections: int
    answered: int
    seconds: float
    p50: float
    p99: float
    errors: int
    cores: float

    @property
    def rate(self) -> float:
        """Notifications answered a second."""
        return self.answered / self.seconds


def load(
    port: int,
    connections: int,
    seconds: int = 2,
    *,
    warm_up: int = 1,
    size: Size = SMALL,
    door: Door = Door(),
) -> Load:
    """Put a server under load; what is posted in the seconds of warming up does not count."""
    if warm_up:
        post(port, connections, warm_up, size=size, door=door)
    return post(port, connections, seconds, size=size, door=door)


def post(
    port: int,
    connections: int,
    seconds: int,
    *,
    size: Size,
    door: Door = Door(),
    rate: float | None = None,
) -> Load:
    """Run wrk once. It begins far from where the last loads did: each has other dispatches.

    With a `rate` it posts no more than so many a second, and makes up for what was late.
    """
    serial = next(_SERIALS)
    at = datetime.fromtimestamp(serial, UTC)
    threads = min(2, connections)
    told = (
        *(
            _requests(door, short=size.short),
            _lines(size),
            size.subscribers,
            BASE,
            f"{at:%Y-%m-%dT%H:%M:%S}",
        ),
        *(int(serial * GOLDEN % 1 * size.dispatches), threads),
        *(0 if rate else AHEAD * seconds // threads, rate or 0),
    )
    flags = ("-t", threads, "-c", connections, "-d", seconds, "--timeout", TIMEOUT, "-s", SCRIPT)
    command = ["wrk", *map(str, flags), f"http://127.0.0.1:{port}/", "--", *map(str, told)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=seconds + PATIENCE
    )
    measured = json.loads(done.stdout.splitlines()[-1])
    return Load(at=at, connections=connections, **measured)


_SERIALS: Iterator[int] = count(int(time()))
"""A second for each load; none of them is in the future, for a load takes longer than that."""


@cache
def _requests(door: Door, *, short: bool) -> str:
    """Write a whole request for each kind, with its blanks; return the file's name."""
    return _written(
        "".join(f"{_head(kind, door, short)}{form(kind, short=short)}\0" for kind in KINDS)
    )


def _head(kind: str, door: Door, short: bool) -> str:  # noqa: FBT001 - as `form` has it
    return (
        f"POST {door.path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Postmark\r\n"
        f"{door.proof}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload(0, kind, 0, short=short))}\r\n\r\n"
    )


@cache
def _lines(size: Size) -> str:
    """Write what each notification is about; return the file's name."""
    digits = {kind: digit for digit, kind in enumerate(KINDS, 1)}
    return _written("".join(f"{n:09}{digits[kind]}\n" for n, kind in numbers(size)))


def _written(text: str) -> str:
    """Write a file that is there until the process ends; return its name."""
    file = NamedTemporaryFile("w")  # noqa: SIM115 - it is gone when it is closed
    _FILES.append(file)
    file.write(text)
    file.flush()
    return file.name


_FILES: list[IO[str]] = []
