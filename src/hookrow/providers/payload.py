"""Conversions of the values in payloads, which the providers share."""

from __future__ import annotations

from datetime import UTC, datetime

LONGEST_TEXT = 1000
"""In characters; a longer address or message id, which no row can contain, is truncated."""


def text_of(value: object) -> str | None:
    """Return a string, truncated if it is long, or None for a value of another type."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def utc(at: datetime | None) -> datetime | None:
    """Return a time in UTC, or None if it is out of range. A time without an offset is UTC."""
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        return None
