"""A webhook becomes a row: email providers' notifications, recorded in your own tables.

A host also needs a store (`hookrow.stores.sql`) and a host module (`hookrow.asgi`, `hookrow.wsgi`).
Names are imported on first use (PEP 562), and need only msgspec and the standard library.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # true for type checkers; importing it from typing takes 5 ms
if TYPE_CHECKING:
    from hookrow._core.notification import (
        Arrival,
        Bounced,
        Change,
        Clicked,
        Complained,
        Delivered,
        DispatchEvent,
        EventTime,
        Key,
        Notification,
        Opened,
        Outcome,
        Reactivated,
        Recorded,
        Refusal,
        Refused,
        SetSuppression,
        SetTime,
        Source,
        Suppressed,
        Suppressible,
        Unsupported,
    )
    from hookrow._core.schema import Fold, Role, Schema
    from hookrow._fault import Fault
    from hookrow._observability.observer import Gauges, GroupEnd, Observer, Observers
    from hookrow._receiver.entries import Tenant
    from hookrow._receiver.receiver import Receiver
    from hookrow.errors import (
        ConfigurationError,
        HookrowError,
        MissingExtra,
        SchemaMismatch,
    )
    from hookrow.http import Handler, Request, RequestHead, Response
    from hookrow.providers import Event
    from hookrow.providers.postmark import Postmark

__version__ = "1.0.0"

__all__ = [
    "Arrival",
    "Bounced",
    "Change",
    "Clicked",
    "Complained",
    "ConfigurationError",
    "Delivered",
    "DispatchEvent",
    "Event",
    "EventTime",
    "Fault",
    "Fold",
    "Gauges",
    "GroupEnd",
    "Handler",
    "HookrowError",
    "Key",
    "MissingExtra",
    "Notification",
    "Observer",
    "Observers",
    "Opened",
    "Outcome",
    "Postmark",
    "Reactivated",
    "Receiver",
    "Recorded",
    "Refusal",
    "Refused",
    "Request",
    "RequestHead",
    "Response",
    "Role",
    "Schema",
    "SchemaMismatch",
    "SetSuppression",
    "SetTime",
    "Source",
    "Suppressed",
    "Suppressible",
    "Tenant",
    "Unsupported",
]

_MODULES = {
    name: f"hookrow.{module}"
    for module, names in {
        "_core.notification": (
            "Arrival",
            "Bounced",
            "Change",
            "Clicked",
            "Complained",
            "Delivered",
            "DispatchEvent",
            "EventTime",
            "Key",
            "Notification",
            "Opened",
            "Outcome",
            "Reactivated",
            "Recorded",
            "Refusal",
            "Refused",
            "SetSuppression",
            "SetTime",
            "Source",
            "Suppressed",
            "Suppressible",
            "Unsupported",
        ),
        "_fault": ("Fault",),
        "_core.schema": ("Fold", "Role", "Schema"),
        "errors": (
            "ConfigurationError",
            "HookrowError",
            "MissingExtra",
            "SchemaMismatch",
        ),
        "http": ("Handler", "Request", "RequestHead", "Response"),
        "_observability.observer": ("Gauges", "GroupEnd", "Observer", "Observers"),
        "providers": ("Event",),
        "providers.postmark": ("Postmark",),
        "_receiver.entries": ("Tenant",),
        "_receiver.receiver": ("Receiver",),
    }.items()
    for name in names
}
"""The module of each public name."""


if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        """Return the loaded names and the public names."""
        return sorted({*globals(), *__all__})
