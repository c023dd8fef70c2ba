"""What was measured of growth, part by part: docs/scale/results.json."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from growth import Growth
from markdown import DOCS
from sample import Turns
from soak import Soak

FOLDER = DOCS / "scale"
FILE = FOLDER / "results.json"

T = TypeVar("T")


def read() -> dict[str, Any]:
    """Return each part as it was measured last, and when and on what."""
    return msgspec.json.decode(FILE.read_bytes()) if FILE.exists() else {}


def keep(name: str, machine: Mapping[str, str], measured: object) -> None:
    """Write a part down, in the place of what it had."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    parts = read() | {name: {"date": date, "machine": machine, "measured": measured}}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(parts)) + b"\n")


class Measured:
    """What was read, with its types. Raises `KeyError` with a part's name where it is not there."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts

    def growth(self, database: str) -> Growth:
        """Return how the rate changed with the rows of a kind of database."""
        return self._part("growth", dict[str, Growth])[database]

    def turns(self, name: str) -> Turns:
        """Return what took turns: workers, groups, or settings."""
        return self._part(name, Turns)

    def soak(self, name: str = "soak") -> Soak:
        """Return what was seen for long."""
        return self._part(name, Soak)

    def _part(self, name: str, type_: type[T]) -> T:
        return msgspec.convert(self.parts[name]["measured"], type_)
