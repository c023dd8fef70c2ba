"""Where else on the server hookrow may be, if not at the path that was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hookrow.outside.address import Address
from hookrow.receiver import ENDPOINT

_MOUNTS = ("", "/mail", "/email", "/hookrow", "/webhooks", "/api")
"""Where people mount it."""


def candidates(address: Address) -> Iterable[Address]:
    """Return the likely addresses, the likeliest first: the given one is none of them."""
    paths = dict.fromkeys(_paths(address.path))
    return [address.at(path) for path in paths if path != address.path]


def _paths(path: str) -> Iterator[str]:
    yield path.rstrip("/") if path.endswith("/") else f"{path}/"
    mount = path.rstrip("/").removesuffix(ENDPOINT).rstrip("/")
    parts = mount.split("/")[1:]
    for length in range(len(parts), 0, -1):
        yield f"/{'/'.join(parts[:length])}{ENDPOINT}"
    for start in range(1, len(parts)):
        yield f"/{'/'.join(parts[start:])}{ENDPOINT}"
    for likely in _MOUNTS:
        yield f"{likely}{ENDPOINT}"
