"""The exceptions of hookrow: mostly configuration mistakes, raised by constructors.

Each message contains the solution. The result of a notification is not an exception, but a value:
`core.notification.Outcome`.
"""

from __future__ import annotations


class HookrowError(Exception):
    """The base class of all exceptions that hookrow raises intentionally."""


class ConfigurationError(HookrowError):
    """An argument or a setting cannot be used. The message contains the solution."""


class SchemaMismatch(ConfigurationError):
    """The tables in the database do not fit the schema."""


class MissingExtra(ConfigurationError, ImportError):
    """An optional dependency is not installed. The message contains the command to install it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'hookrow[{extra}]'")
