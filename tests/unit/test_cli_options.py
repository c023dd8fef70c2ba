"""Values on the command line: durations, times, and secrets, which are hidden in output."""

from datetime import UTC, datetime

import click
import pytest

from hookrow._cli.options import duration, duration_or_none, moment
from hookrow._cli.settings import hide_secrets
from times import DAY, HOUR


def test_a_duration_is_a_number_and_a_unit_or_forever_or_none() -> None:
    texts = ("1s", "90m", "12h", "90d", "2w", "forever", "none")
    assert [duration_or_none(text) for text in texts] == [
        HOUR / 3600,
        1.5 * HOUR,
        12 * HOUR,
        90 * DAY,
        14 * DAY,
        None,
        0 * DAY,
    ]


@pytest.mark.parametrize("text", ["", "0d", "-1d", "1.5d", "1y", "٣d", "none", "999999w", "90d\n"])
def test_any_other_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration: use 90d, 12h"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2000-01-01", datetime(2000, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59+05:00", datetime(9999, 12, 31, 18, 59, tzinfo=UTC)),
    ],
)
def test_a_time_is_in_iso_8601_or_a_duration_before_now(text: str, time: datetime) -> None:
    assert moment(text) == time
    before = datetime.now(UTC)
    assert before - 2 * HOUR <= moment("2h") <= datetime.now(UTC) - 2 * HOUR


@pytest.mark.parametrize("text", ["", "999999w", "0001-01-01T00:00+05:00"])
def test_any_other_time_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a time: use 2h for two hours ago"):
        moment(text)


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
def test_secrets_are_printed_as_asterisks(setting: str, value: str, printed: str) -> None:
    assert hide_secrets(setting, value) == printed
