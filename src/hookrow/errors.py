"""Mistakes of configuration, raised when a thing is built; each says what to do.

How a notification ends is no error but a value: see `notification.Outcome`.
"""

from __future__ import annotations


class HookrowError(Exception):
    """Anything that hookrow raises on purpose."""


class ConfigurationError(HookrowError):
    """What hookrow was given cannot work. The message says what to do about it."""


class SchemaMismatch(ConfigurationError):
    """The database lacks a table or column that the schema names."""


class MissingExtra(ConfigurationError, ImportError):
    """An optional dependency is not installed. The message is the line that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: pip install 'hookrow[{extra}]'")
