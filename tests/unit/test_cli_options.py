"""Values on the command line: durations, times, and what is hidden when a value is printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest

from hookrow.cli.options import Duration, Moment
from hookrow.cli.origins import concealed

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_durations() -> None:
    """A duration is a number and a unit, "forever" or "none"."""
    read = [
        Duration(none=True).convert(text, None, None)
        for text in ("1s", "90m", "12h", "90d", "2w", "forever", "none")
    ]
    assert read == [HOUR / 3600, 1.5 * HOUR, 12 * HOUR, 90 * DAY, 14 * DAY, None, 0 * DAY]


@pytest.mark.parametrize("text", ["", "0d", "-1d", "1.5d", "1y", "٣d", "none", "999999w", "90d\n"])
def test_wrong_durations(text: str) -> None:
    """Any other text, or more time than a calendar has, is rejected with an example."""
    with pytest.raises(click.BadParameter, match="is no duration: write 90d, 12h"):
        Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2000-01-01", datetime(2000, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59+05:00", datetime(9999, 12, 31, 18, 59, tzinfo=UTC)),
    ],
)
def test_times(text: str, time: datetime) -> None:
    """A time is written in ISO 8601, in UTC or with an offset; or it is so long ago."""
    assert Moment().convert(text, None, None) == time
    before = datetime.now(UTC)
    assert before - 2 * HOUR <= Moment().convert("2h", None, None) <= datetime.now(UTC) - 2 * HOUR


@pytest.mark.parametrize("text", ["", "999999w", "0001-01-01T00:00+05:00"])
def test_wrong_times(text: str) -> None:
    """Any other text, or a time before the year 1, is rejected with an example."""
    with pytest.raises(click.BadParameter, match="is no time: write 2h for two hours ago"):
        Moment().convert(text, None, None)


@pytest.mark.parametrize(
    ("setting", "value", "printed"),
    [
        *(("secret", "x", "***"), ("dashboard_password", "x", "***")),
        *(("secret_file", "/run/x", "/run/x"), ("mount_path", "/mail:x@y", "/mail:x@y")),
        ("database_url", "sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("database_url", "postgresql://bob@h/d", "postgresql://bob@h/d"),
        ("database_url", "postgresql://:p@h/d", "postgresql://:***@h/d"),
        ("database_url", "postgresql:///d?password=p&a=b", "postgresql:///d?password=***&a=b"),
        ("database_url", "postgresql:/bob:p\n@h", "postgresql:/bob:***@h"),
        ("database_url", "bob:p@h/d", "bob:***@h/d"),
        ("database_url", "host=h password=p user=u", "host=h password=*** user=u"),
    ],
)
def test_concealed(setting: str, value: str, printed: str) -> None:
    """Secrets are printed as asterisks, and so are the passwords in addresses."""
    assert concealed(setting, value) == printed
