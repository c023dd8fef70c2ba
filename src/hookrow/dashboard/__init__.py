"""The dashboard: a handler that draws pages, mounted apart from the receiver.

`ASGI(Dashboard(store, authorize=basic("ada", password)))`, and so on in every host.
"""

from __future__ import annotations

from hookrow.errors import MissingExtra

try:
    from hookrow.dashboard.handler import Dashboard
except ModuleNotFoundError as error:
    if error.name != "jinja2":
        raise
    raise MissingExtra("The dashboard", "dashboard") from error

from hookrow.dashboard.visitor import Authorize, basic, local, served

__all__ = ["Authorize", "Dashboard", "basic", "local", "served"]
