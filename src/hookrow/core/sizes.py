"""How many bytes may wait to be recorded, and how many one group may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TypeVar

T = TypeVar("T")

CAPACITY = 64 * 1024 * 1024
"""In bytes; the most that waits to be recorded."""

LARGEST_GROUP = 8 * 1024 * 1024
"""In bytes; the longest text of a group's statements, unless a single item is longer.

A driver copies it about four times on its way to the database.
"""

TEXT_PER_BYTE = 28
"""The largest possible size of the text that is written of an arrival, per byte of its body: 16 of
the body in the log, and 4 of the reason in each of three rows. See `log_entry.written_size`."""


def leading(items: Iterable[T], size: Callable[[T], int], *, most: float = inf) -> list[T]:
    """Return the leading items that form one group.

    They are at most `most`, and together at most `LARGEST_GROUP` bytes, but at least one if any.
    """
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
