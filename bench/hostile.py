"""Hostile clients: `hostile.py PORT KIND` attacks a server until it is terminated.

It prints a line when all its clients are connected. The kinds are `idle` connections, `slow`
bodies that are sent byte by byte, and requests `without` the secret, as fast as possible.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from contextlib import suppress

import uvloop

from data import SECRET

CONNECTIONS = {"idle": 1500, "slow": 500, "without": 8}
"""How many clients of each kind there are."""

_HEAD = (
    "POST /provider/webhooks HTTP/1.1\r\nHost: localhost\r\n"
    "X-Provider-Secret: {}\r\nContent-Length: {}\r\n\r\n"
)
_SLOW = _HEAD.format(SECRET, 1000).encode()
_WITHOUT = _HEAD.format("a-guess", 2).encode() + b"{}"


async def attack(port: int, kind: str) -> None:
    """Connect, and connect again whenever the server closes a connection."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    ready = asyncio.Semaphore(0)
    clients = [asyncio.create_task(_keep_at(port, kind, ready)) for _ in range(CONNECTIONS[kind])]
    for _ in clients:
        await ready.acquire()
    print(f"{len(clients)} connections", flush=True)
    await asyncio.gather(*clients)


async def _keep_at(port: int, kind: str, ready: asyncio.Semaphore) -> None:
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ready.release()
            match kind:
                case "idle":
                    await reader.read()
                case "slow":
                    await _drip(reader, writer)
                case _:
                    await _guess(reader, writer)
            writer.close()


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(_SLOW)
    while not reader.at_eof():
        writer.write(b" ")
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1024), 1.0)


async def _guess(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(_WITHOUT)
        await reader.readuntil(b"Cannot verify webhook")


if __name__ == "__main__":
    uvloop.run(attack(int(sys.argv[1]), sys.argv[2]))
