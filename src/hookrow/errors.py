"""The exceptions of hookrow: mostly configuration mistakes, raised by constructors.

Each message contains the remedy. The result of a notification is not an exception but a value:
`core.notification.Outcome`.
"""

from __future__ import annotations

from contextvars import ContextVar

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="hookrow")
"""The command that messages recommend: `hookrow`, with the options that the user has typed."""

DATABASE_OPTION: ContextVar[str] = ContextVar("DATABASE_OPTION", default="")
"""The option --database-url of such a command, if the user has typed it, without a password."""

OWN_TABLES = (
    "If your application has its own tables, use its mapping instead: with --app, or [tables] in "
    "hookrow.toml."
)
"""The other remedy for missing tables, if no mapping is given."""


def recommended(subcommand: str) -> str:
    """Return a command for a message, with the options that the user has typed."""
    return f"{COMMAND.get()} {subcommand}{DATABASE_OPTION.get()}"


class HookrowError(Exception):
    """The base class of all exceptions that hookrow raises intentionally."""


class ConfigurationError(HookrowError):
    """An argument or a setting is invalid. The message contains the remedy."""


class SchemaMismatch(ConfigurationError):
    """The tables in the database do not fit the schema."""


class MissingExtra(ConfigurationError, ImportError):
    """An optional dependency is not installed. The message contains the command to install it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} needs an extra: pip install 'hookrow[{extra}]'")
