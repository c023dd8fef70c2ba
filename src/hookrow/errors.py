"""The exceptions of hookrow: mostly configuration mistakes, raised by constructors.

Each message contains the remedy. The result of a notification is not an exception but a value:
`hookrow.Outcome`.
"""

from __future__ import annotations


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
