"""`hookrow serve`: checks the settings, configures uvicorn, and runs the server until a signal.

One process serves by itself; several are in `workers`.
"""

from __future__ import annotations

import asyncio
import logging
import logging.config
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import click
import httptools  # noqa: F401 - uvicorn imports it too late for a helpful error
import uvicorn
import uvloop  # noqa: F401 - as httptools
from uvicorn.config import STARTUP_FAILURE

from hookrow import __version__
from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT
from hookrow.observability import logging as logs
from hookrow.server.app import DRAIN, Server
from hookrow.server.preflight import check_and_prepare
from hookrow.server.settings import DashboardAccess, Settings, endpoint
from hookrow.server.workers import APPLICATION, run_workers

if TYPE_CHECKING:
    from types import FrameType

log = logging.getLogger("hookrow")


def serve(settings: Settings, *, port: int, workers: int, log_level: str, log_format: str) -> None:
    """Serve until SIGTERM or SIGINT, then send the responses that are due and return.

    Raises `ConfigurationError` if the settings cannot work.
    """
    log_config = logs.configuration(log_level, log_format)
    logging.config.dictConfig(log_config)
    check_and_prepare(settings)
    _raise_file_limit()
    _check_address(settings.host, port)
    address = endpoint(settings.host, port, settings.mount_path)
    log.info("hookrow %s receives notifications at %s", __version__, address)
    if settings.dashboard:
        if not settings.dashboard_password:
            settings = replace(settings, dashboard_access=DashboardAccess.generate(port))
        _announce(f"{address.removesuffix(ENDPOINT)}/dashboard/", settings.dashboard_access)
    configure = partial(
        uvicorn.Config,
        host=settings.host,
        port=port,
        loop="uvloop",
        http=choose_protocol(),
        ws="none",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        log_config=log_config,
    )
    if workers > 1:
        run_workers(settings, configure(APPLICATION, factory=True, workers=workers))
    else:
        _run(settings, configure)


def choose_protocol() -> type[asyncio.Protocol] | Literal["auto"]:
    """Return hookrow's protocol, or uvicorn's own choice if this uvicorn does not fit it."""
    try:
        from hookrow.server import protocol  # noqa: PLC0415 - uvicorn may lack what it imports

        protocol.check_uvicorn()
    except (ImportError, AttributeError, TypeError) as error:
        log.warning(
            "uvicorn %s does not fit hookrow: %s. Notifications are slower, and neither heads nor "
            "idle connections have limits. Run: pip install 'hookrow[serve]'",
            uvicorn.__version__,
            error,
        )
        return "auto"
    return protocol.NotificationProtocol


def _announce(address: str, access: DashboardAccess | None) -> None:
    """Log the dashboard's address; print the token, if it needs one, only to a terminal."""
    log.info("The dashboard is at %s", address)
    if access is None:
        return
    if sys.stdout is not None and sys.stdout.isatty():  # None if the descriptor is closed
        click.echo(f"Open the dashboard at {address}?token={access.token}")
    else:
        log.warning(
            "Nobody can open the dashboard: it has no password, and the address with its token is "
            "printed only to a terminal. Set HOOKROW_DASHBOARD_PASSWORD."
        )


def _run(settings: Settings, configure: partial[uvicorn.Config]) -> None:
    """Run the server in this process."""
    # uvicorn stops on these, and then raises them again for the handlers that it replaced.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    server = uvicorn.Server(configure(Server(settings)))
    server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


def _exit(signum: int, frame: FrameType | None) -> None:
    """Exit with status 0: a signal to stop is no failure."""
    del signum, frame
    sys.exit(0)


def _check_address(host: str, port: int) -> None:
    """Bind the address once, because uvicorn reports one that is in use only in its log."""
    if not host:
        raise ConfigurationError("--host is empty: use 127.0.0.1, or 0.0.0.0 for all.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as trial:  # without `listen`, so that no client can connect
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except (OSError, TypeError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not an address"
        raise ConfigurationError(
            f"Cannot listen at {host}:{port}: {reason}. Choose another --host or --port."
        ) from error


def _raise_file_limit() -> None:
    """Allow as many open files as this process may have, because each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems have a lower limit that they do not report
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
