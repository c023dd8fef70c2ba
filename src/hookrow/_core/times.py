"""Times, which are in UTC throughout."""

from __future__ import annotations

from datetime import UTC, datetime


def as_utc(at: datetime) -> datetime:
    """Return a time in UTC; a time without a zone is in UTC already.

    Raises `OverflowError` if the time in UTC is out of range.
    """
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
