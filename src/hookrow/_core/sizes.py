"""Limits of the queue and of a group, most of them in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import TypeVar

T = TypeVar("T")

QUEUE_CAPACITY = 64 * 1024 * 1024
"""The total size of the arrivals in the queue, in bytes, at which it is full."""

LARGEST_GROUP = 8 * 1024 * 1024
"""The largest text of a group's statements, in bytes, unless a single arrival is larger.

A database driver makes about four copies of it.
"""

TEXT_PER_BYTE = 28
"""The largest text that is written for an arrival per byte of its body: 16 for the body in the log,
of which a byte may be escaped as four characters, and 4 for the reason in each of three rows."""

WIDEST_CHARACTER = 4
"""The largest size of a character in bytes, in UTF-8 and in memory (PEP 393)."""


def text_size(body: bytes) -> int:
    """Return the largest size of the text that is written for an arrival with a body, in bytes."""
    return TEXT_PER_BYTE * len(body)


def leading(items: Iterable[T], size: Callable[[T], int], *, most: float = inf) -> list[T]:
    """Return the leading items that form one group.

    A group has at most `most` items, and at most `LARGEST_GROUP` bytes unless it is a single item.
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
