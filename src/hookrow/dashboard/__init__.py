"""The dashboard: a handler that draws pages, mounted apart from the receiver.

`ASGI(Dashboard(store, authorize=basic("ada", password)))`, and so on in every host.
"""

from __future__ import annotations

from hookrow.errors import ConfigurationError, MissingExtra

try:
    from hookrow.dashboard.handler import Dashboard
except ModuleNotFoundError as error:
    if error.name != "jinja2":
        raise
    raise MissingExtra("The dashboard", "dashboard") from error

from hookrow.dashboard.session import Access, by_token
from hookrow.dashboard.visitor import USER, Authorize, basic, require_password
from hookrow.stores import Store

__all__ = ["Authorize", "Dashboard", "basic", "served"]


def served(
    store: Store,
    *,
    host: str,
    password: str | None,
    access: Access | None,
    path: str,
    keep_bodies: bool = True,
) -> Dashboard:
    """Return the dashboard of `hookrow serve` at a path, behind a password or else a token.

    Raises `ConfigurationError` if there is no password and `host`, at which the server listens,
    is not a loopback address.
    """
    require_password(password, host=host)
    if password:
        authorize = basic(USER, password)
    elif access is not None:
        authorize = by_token(access, path)
    else:
        raise ConfigurationError("The dashboard needs a password or a token.")
    return Dashboard(store, authorize=authorize, mount_path=path, keep_bodies=keep_bodies)
