"""Copies of dataclasses and of `msgspec.Struct` values, with changed fields."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:  # noqa: ANN401 - of any field
    """Return a copy of the value with these changes."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(value, **changes)  # type: ignore[type-var] # it is a dataclass
