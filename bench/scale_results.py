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


class NotMeasured(Exception):
    """There are no figures of a part, which is the argument."""


def read() -> dict[str, Any]:
    """Return each part as it was measured last, and when and on what."""
    return msgspec.json.decode(FILE.read_bytes()) if FILE.exists() else {}


def keep(name: str, machine: Mapping[str, str], measured: object) -> None:
    """Write a part down, in the place of what it had."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    parts = read() | {name: {"date": date, "machine": machine, "measured": measured}}
    beside = FILE.with_suffix(".new")
    beside.write_bytes(msgspec.json.format(msgspec.json.encode(parts)) + b"\n")
    beside.replace(FILE)


class Measured:
    """What was read, with its types. Raises `NotMeasured` for a part that is not there."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = parts

    def growths(self) -> Mapping[str, Growth]:
        """Return how rates changed with the rows of each kind of database."""
        return self._part("growth", dict[str, Growth])

    def turns(self, name: str) -> Turns:
        """Return what took turns: workers, groups, or settings."""
        return self._part(name, Turns)

    def soak(self) -> Soak:
        """Return what was seen for long."""
        return self._part("soak", Soak)

    def _part(self, name: str, type_: type[T]) -> T:
        if name not in self.parts:
            raise NotMeasured(name)
        return msgspec.convert(self.parts[name]["measured"], type_)
