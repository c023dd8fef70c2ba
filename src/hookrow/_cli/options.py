"""The options that several commands share, and the types of durations and times."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from hookrow._arguments import LONGEST_AGE
from hookrow._core.log_entry import LONGEST_ENTRY_NAME, is_entry_name
from hookrow._core.times import as_utc
from hookrow._postmark_api import ADDRESS
from hookrow.errors import ConfigurationError

ENTRY_ID = click.IntRange(1, 2**63 - 1)
"""The id of a log entry."""

F = TypeVar("F", bound=Callable[..., object])

OTHER_SYSTEMS = "mount the receiver in your application, or use Linux, macOS, WSL or a container"
"""What to do on Windows, where hookrow's own server does not run."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration(value: object) -> timedelta | None:
    """Parse a number with a unit, such as 90d; return None for `forever`."""
    if value == "forever":
        return None
    parsed = _parse_duration(str(value))
    if not parsed or parsed > LONGEST_AGE:
        raise click.BadParameter(f"{value!r} is not a duration: use 90d, 12h or forever.")
    return parsed


def duration_or_none(value: object) -> timedelta | None:
    """Parse a duration, or `none`, which is zero."""
    return timedelta(0) if value == "none" else duration(value)


def moment(value: object) -> datetime:
    """Parse a time, in UTC if it has no offset, or a duration before now."""
    try:
        if ago := _parse_duration(str(value)):
            return datetime.now(UTC) - ago
        return as_utc(datetime.fromisoformat(str(value)))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(
            f"{value!r} is not a time: use 2h for two hours ago, or 2026-03-04T05:06."
        ) from error


def entry_name(value: object) -> str:
    """Check the name of a receiver's entry."""
    name = str(value)
    if not is_entry_name(name):
        raise click.BadParameter(
            f"{name!r} is not the name of an entry, which has 1 to {LONGEST_ENTRY_NAME} lower-case "
            "letters, digits, hyphens and underscores."
        )
    return name


def webhook_url(value: object) -> str:
    """Check the URL of a webhook. Errors do not quote it, because it may contain a password."""
    from hookrow._diagnostics.probe import parse_url
    from hookrow.stores.sql._urls import is_database_url

    url = str(value)
    try:
        parse_url(url)
    except ConfigurationError as error:
        hint = ""
        if is_database_url(url):
            hint = " Name a database with --database-url, or with HOOKROW_DATABASE_URL."
        raise click.BadParameter(f"{error}{hint}") from error
    return url


def public_url(value: object) -> str:
    """Check the URL of a webhook at the provider; see `webhook_url`."""
    from hookrow._postmark_api.register import check_webhook_url

    try:
        check_webhook_url(str(value))
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error
    return str(value)


def api_address(value: object) -> str:
    """Check the address of the provider's API."""
    if value == ADDRESS:  # the default, without the import of the client
        return ADDRESS
    from hookrow._postmark_api.client import check_address

    try:
        return check_address(str(value))
    except ConfigurationError as error:
        raise click.BadParameter(str(error)) from error


def _parse_duration(text: str) -> timedelta | None:
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text, re.ASCII)
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None


def option(name: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Return click's decorator for an option that also has an environment variable.

    Its help shows the default, and the variable: HOOKROW_ followed by the option's name.
    """
    bare = name.partition("/")[0].removeprefix("--")
    usual: dict[str, Any] = {
        "envvar": f"HOOKROW_{bare.replace('-', '_').upper()}",
        "show_envvar": True,
        "show_default": bool(attributes.get("default")),
    }
    return click.option(name, **(usual | attributes))


SECRET_OPTION = option(
    "--secret", metavar="SECRET", help="The secret that X-Provider-Secret must contain."
)
PREVIOUS_SECRET = option(
    "--previous-secret",
    metavar="SECRET",
    help="A second secret that is also accepted, during a rotation.",
)
SECRET_FILE = option(
    "--secret-file",
    metavar="FILE",
    help="Read the secrets from this file instead: one per line, the newest first.",
)
DATABASE_URL = option(
    "--database-url",
    envvar=["HOOKROW_DATABASE_URL", "DATABASE_URL"],
    default="sqlite:///hookrow.db",
    show_default="sqlite:///hookrow.db",  # not the value in a file, which may have a password
    metavar="URL",
    help="The URL of a PostgreSQL, MariaDB, MySQL or SQLite database.",
)
MOUNT_PATH = option(
    "--mount-path", default="", metavar="PATH", help="The path before /provider/webhooks."
)
HOST = option("--host", default="127.0.0.1", help="The server's address.")
PORT = option("--port", type=click.IntRange(1, 65535), default=8000, help="The server's port.")
KEEP_OPTION = option(
    "--keep",
    type=duration,
    default="90d",
    metavar="DURATION",
    help="How long the log keeps notifications: for example 90d, 12h, or forever.",
)
KEEP_BODIES = option(
    "--keep-bodies",
    type=duration_or_none,
    default="forever",
    show_default="as long as the notification",
    metavar="DURATION",
    help="How long the log keeps bodies, which contain personal data; none keeps no bodies.",
)
PROVIDER_API = option(
    "--provider-api",
    type=api_address,
    default=ADDRESS,
    metavar="URL",
    help="The address of the provider's API.",
)
PROVIDER_TOKEN_FILE = option(
    "--provider-token-file",
    metavar="FILE",
    help="Read the token of the API from this file, not from HOOKROW_PROVIDER_TOKEN.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
