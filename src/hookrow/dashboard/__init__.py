"""The dashboard: a handler that renders pages, and is mounted separately from the receiver.

For example, `ASGI(Dashboard(store, authorize=basic("ada", password)))`.
"""

from __future__ import annotations

from hookrow.errors import MissingExtra

try:
    from hookrow.dashboard._app import Dashboard
except ModuleNotFoundError as _error:
    if _error.name != "jinja2":
        raise
    raise MissingExtra("The dashboard", "dashboard") from _error

from hookrow.dashboard._auth import Authorize, basic

__all__ = ["Authorize", "Dashboard", "basic"]
