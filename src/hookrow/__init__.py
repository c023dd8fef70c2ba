"""A webhook becomes a row: email providers' notifications, recorded on your own tables.

This is all that a host needs beside a store (`hookrow.stores`) and a host module
(`hookrow.asgi`, `hookrow.wsgi`). Importing it loads nothing else: each name is imported when it
is first used (PEP 562), and that loads msgspec and the standard library, no more.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it as true; to import it from typing costs 5 ms
if TYPE_CHECKING:
    from hookrow.errors import ConfigurationError, HookrowError, MissingExtra, SchemaMismatch
    from hookrow.http import Handler, Head, Request, Response
    from hookrow.notification import (
        Arrival,
        Delivered,
        Notification,
        Opened,
        Outcome,
        Reactivated,
        Recorded,
        Refusal,
        Refused,
        Suppressed,
    )
    from hookrow.postmark import Postmark
    from hookrow.promise import Promise
    from hookrow.receiver import Receiver
    from hookrow.schema import Role, Schema

__version__ = "0.1.0"

__all__ = [
    "Arrival",
    "ConfigurationError",
    "Delivered",
    "Handler",
    "Head",
    "HookrowError",
    "MissingExtra",
    "Notification",
    "Opened",
    "Outcome",
    "Postmark",
    "Promise",
    "Reactivated",
    "Receiver",
    "Recorded",
    "Refusal",
    "Refused",
    "Request",
    "Response",
    "Role",
    "Schema",
    "SchemaMismatch",
    "Suppressed",
]

_MODULES = {
    "Arrival": "hookrow.notification",
    "ConfigurationError": "hookrow.errors",
    "Delivered": "hookrow.notification",
    "Handler": "hookrow.http",
    "Head": "hookrow.http",
    "HookrowError": "hookrow.errors",
    "MissingExtra": "hookrow.errors",
    "Notification": "hookrow.notification",
    "Opened": "hookrow.notification",
    "Outcome": "hookrow.notification",
    "Postmark": "hookrow.postmark",
    "Promise": "hookrow.promise",
    "Reactivated": "hookrow.notification",
    "Receiver": "hookrow.receiver",
    "Recorded": "hookrow.notification",
    "Refusal": "hookrow.notification",
    "Refused": "hookrow.notification",
    "Request": "hookrow.http",
    "Response": "hookrow.http",
    "Role": "hookrow.schema",
    "Schema": "hookrow.schema",
    "SchemaMismatch": "hookrow.errors",
    "Suppressed": "hookrow.notification",
}
"""The module of each public name."""


if not TYPE_CHECKING:  # else type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        """Return all loaded names, and the public names that are not loaded yet."""
        return sorted({*globals(), *__all__})
