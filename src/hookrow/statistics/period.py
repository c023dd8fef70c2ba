"""The periods that figures are told of, and how each is cut."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(Enum):
    """The time up to now, in a number of buckets of one length; the last is not over yet."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def bucket(self) -> timedelta:
        """How long a bucket is."""
        return _CUT[self][0]

    def starts(self, now: datetime) -> Sequence[datetime]:
        """Return when each bucket begins, in UTC; whole hours and days do, too."""
        length, number = _CUT[self]
        last = now - (now - _EPOCH) % length
        return [(last - n * length).astimezone(UTC) for n in reversed(range(number))]


_CUT = {
    Period.HOUR: (timedelta(minutes=1), 60),
    Period.DAY: (timedelta(hours=1), 24),
    Period.WEEK: (timedelta(hours=6), 28),
    Period.MONTH: (timedelta(days=1), 30),
}
