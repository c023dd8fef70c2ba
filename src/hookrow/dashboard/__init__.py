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

from hookrow.dashboard.visitor import Authorize, basic, local, served_to
from hookrow.stores import Store

__all__ = ["Authorize", "Dashboard", "basic", "local", "served"]


def served(
    store: Store, *, host: str, password: str | None, mount_path: str = "", keep_bodies: bool = True
) -> Dashboard:
    """Return the dashboard of `hookrow serve`, at `<mount_path>/dashboard/`.

    `host` is the address that it is served at. Raises `ConfigurationError` where there is
    no password and others can reach that.
    """
    return Dashboard(
        store,
        authorize=served_to(password, host=host),
        mount_path=f"{mount_path}/dashboard",
        keep_bodies=keep_bodies,
    )
