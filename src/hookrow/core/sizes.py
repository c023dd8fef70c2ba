"""Limits of the queue and of a group, most of them in bytes; the text written for an arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from threading import TIMEOUT_MAX
from typing import TypeVar

from hookrow.core.notification import Arrival
from hookrow.errors import ConfigurationError

T = TypeVar("T")

CAPACITY = 64 * 1024 * 1024
"""In bytes; the largest total size of the arrivals in the queue."""

LARGEST_GROUP = 8 * 1024 * 1024
"""In bytes; the largest text of a group's statements, unless a single arrival is larger.

A database driver makes about four copies of it.
"""

TEXT_PER_BYTE = 28
"""The largest possible `written_size` of an arrival per byte of its body: 16 for the body in the
log, and 4 for the reason in each of three rows."""

WIDEST_CHARACTER = 4
"""In bytes; the largest size of a character, in UTF-8 and in memory (PEP 393)."""

_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n\r"
"""Bytes that are escaped to at most two characters."""


def check_options(*, group: object, backlog: object, deadline: object) -> None:
    """Check the limits that a host chooses. Raises `ConfigurationError` with the option's name."""
    for name, value in (("group", group), ("backlog", backlog)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigurationError(f"{name} must be an integer of at least 1, not {value!r}.")
    if isinstance(deadline, bool) or not (
        isinstance(deadline, int | float) and 0 < deadline <= TIMEOUT_MAX
    ):
        raise ConfigurationError(
            "deadline must be a number of seconds greater than 0 and at most "
            f"{TIMEOUT_MAX:.0f}, not {deadline!r}."
        )


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


def written_size(arrival: Arrival) -> int:
    """Return an upper bound on the size of the text that is written for an arrival, in bytes.

    Its body is written to the log, and its reason to three rows.
    """
    reason: str = getattr(arrival.notification, "reason", "")
    return _text_size(arrival.body) + 3 * WIDEST_CHARACTER * len(reason)


def largest_written_size(body: bytes) -> int:
    """Return an upper bound on `written_size`, in bytes, for a body that has not been parsed."""
    return _text_size(body) + 3 * WIDEST_CHARACTER * len(body)


def _text_size(body: bytes) -> int:
    """Return an upper bound on the size of a body's text, in memory or in a statement.

    A control character is escaped as six characters, a byte that is not UTF-8 as four or five.
    """
    width = 2 if body.isascii() else WIDEST_CHARACTER  # a statement doubles quotes and backslashes
    return width * (len(body) + 3 * len(body.translate(None, _PLAIN)))
