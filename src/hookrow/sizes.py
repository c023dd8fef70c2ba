"""How many bytes notifications take: while they wait, and as the text that is written of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from hookrow.notification import Arrival, Suppressed

T = TypeVar("T")

CAPACITY = 64 * 1024 * 1024
"""In bytes; the most that waits to be recorded."""

LARGEST_GROUP = 8 * 1024 * 1024
"""In bytes; the most that the text of a group takes, unless a single notification takes more.

A statement's text is copied about four times on its way to the database.
"""

_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n\r"
"""Bytes that are escaped to at most two characters."""


def leading(items: Iterable[T], size: Callable[[T], int], *, most: int) -> list[T]:
    """Return the leading items that make one group: at most so many, and at least one if any."""
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


def held_size(arrival: Arrival) -> int:
    """Return how many bytes an arrival takes in memory while it waits to be recorded."""
    return len(arrival.body) + _reason_size(arrival)


def written_size(arrival: Arrival) -> int:
    """Return an upper bound of the bytes that the text to be written of an arrival takes.

    Its body goes to the log, its reason to three rows.
    """
    return text_size(arrival.body) + 3 * _reason_size(arrival)


def largest_written_size(body: bytes) -> int:
    """Return an upper bound of `written_size` for a body that has not been parsed."""
    return text_size(body) + 3 * 4 * len(body)


def text_size(body: bytes) -> int:
    """Return an upper bound of the bytes that a body's text takes, in memory or in a statement.

    A string takes up to four bytes for each character (PEP 393). A control character is
    escaped to six characters, and a byte that is not UTF-8 to four or five.
    """
    width = 2 if body.isascii() else 4  # a statement doubles quotes and backslashes
    return width * (len(body) + 3 * len(body.translate(None, _PLAIN)))


def _reason_size(arrival: Arrival) -> int:
    """Return an upper bound of the bytes that the reason of a suppression takes."""
    notification = arrival.notification
    return 4 * len(notification.reason) if isinstance(notification, Suppressed) else 0
