"""Options that commands share, and what may be written for a duration and a moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

ID = click.IntRange(1, 2**63 - 1)
"""Of an entry of the log."""

F = TypeVar("F", bound=Callable[..., object])

_LONGEST = timedelta(days=365_000)
"""So long ago there was a date still."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Duration(click.ParamType):  # type: ignore[type-arg] # it has none before click 8.5
    """A number and a unit, such as 90d; None for `forever`, zero for `none` where that is one."""

    name = "duration"

    def __init__(self, *, none: bool = False) -> None:
        self._none = none

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | None:
        """Read what was written."""
        if value == "forever":
            return None
        if value == "none" and self._none:
            return timedelta(0)
        found = duration(str(value))
        if not found or found > _LONGEST:
            others = "forever or none" if self._none else "forever"
            self.fail(f"{value!r} is no duration: write 90d, 12h, {others}.", param, ctx)
        return found


class Moment(click.ParamType):  # type: ignore[type-arg] # as above
    """A time, or how long ago it was; without a zone it is UTC."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read what was written."""
        try:
            if ago := duration(str(value)):
                return datetime.now(UTC) - ago
            at = datetime.fromisoformat(str(value))
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is no time: write 2h for two hours ago, or 2026-03-04T05:06.",
                param,
                ctx,
            )


def duration(text: str) -> timedelta | None:
    """Return how long a number and a unit are; None where it is another text."""
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text, re.ASCII)
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None


def option(name: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Make an option that has a variable of the environment too, and says so in its help."""
    bare = name.partition("/")[0].removeprefix("--")
    variable = f"HOOKROW_{bare.replace('-', '_').upper()}"
    attributes.setdefault("envvar", variable)
    return click.option(name, show_envvar=True, **attributes)


def given(*values: str | None) -> tuple[str, ...]:
    """Return the values of those options that were given."""
    return tuple(value for value in values if value is not None)


SECRET = option("--secret", metavar="SECRET", help="What X-Provider-Secret has to be.")
PREVIOUS_SECRET = option(
    "--previous-secret", metavar="SECRET", help="Accepted too, while a secret is rotated."
)
SECRET_FILE = option(
    "--secret-file",
    metavar="FILE",
    help="Accept the secrets in this file instead, one a line, the newest first.",
)
DATABASE_URL = option(
    "--database-url",
    envvar=["HOOKROW_DATABASE_URL", "DATABASE_URL"],
    default="sqlite:///hookrow.db",
    show_default="sqlite:///hookrow.db",  # not what a file says, with its password
    metavar="URL",
    help="A PostgreSQL or SQLite database.",
)
MOUNT_PATH = option(
    "--mount-path", default="", metavar="PATH", help="What comes before /provider/webhooks."
)
HOST = option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
PORT = option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    help="The port to listen at.",
)
KEEP = option(
    "--keep",
    type=Duration(),
    default="90d",
    show_default=True,
    metavar="DURATION",
    help="How long the log keeps a notification: 90d, 12h, forever.",
)
KEEP_BODIES = option(
    "--keep-bodies",
    type=Duration(none=True),
    default="forever",
    show_default="as long as the notification",
    metavar="DURATION",
    help="How long it keeps a body, which says more of a person; none for not at all.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
