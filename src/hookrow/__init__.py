"""A webhook becomes a row: email providers' notifications, recorded on your own tables.

This is all that a host needs beside a store (`hookrow.stores`) and a host module
(`hookrow.asgi`, `hookrow.wsgi`). Importing it loads msgspec and the standard library, no more.
"""

from __future__ import annotations

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
