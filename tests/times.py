"""Times and durations that many tests use."""

from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
