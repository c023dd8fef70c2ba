"""How many bytes may wait, and how many a group may hold. It knows nothing of mail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TypeVar

T = TypeVar("T")

CAPACITY = 64 * 1024 * 1024
"""In bytes; the most that waits to be recorded."""

LARGEST_GROUP = 8 * 1024 * 1024
"""In bytes; the most that a group holds, unless a single item is larger.

A statement's text is copied about four times on its way to the database.
"""


def leading(items: Iterable[T], size: Callable[[T], int], *, most: float = inf) -> list[T]:
    """Return the leading items that make one group: `most` at most, and at least one if any."""
    group: list[T] = []
    total = 0
    for item in items:
        total += size(item)
        if group and total > LARGEST_GROUP:
            break
        group.append(item)
        if len(group) == most:
            break
    return group
