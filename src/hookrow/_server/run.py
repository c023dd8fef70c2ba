"""`hookrow serve`: checks the settings, configures uvicorn, and runs the server until a signal.

A single process serves here; `workers` runs several.
"""

from __future__ import annotations

import asyncio
import logging
import logging.config
import resource
import signal
import socket
import sys
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import click
import httptools  # noqa: F401 - uvicorn imports it too late for a helpful error
import uvicorn
import uvloop  # noqa: F401 - uvicorn imports it too late for a helpful error

from hookrow import __version__
from hookrow._http import endpoint_path
from hookrow._observability import logging as logs
from hookrow._server.app import DRAIN_TIMEOUT, Server
from hookrow._server.budgets import MAX_CONNECTIONS
from hookrow._server.draining import DrainingServer
from hookrow._server.inherited import inherit
from hookrow._server.preflight import check_and_prepare
from hookrow._server.settings import Settings, origin
from hookrow._server.workers import build_server, run_workers
from hookrow.errors import ConfigurationError
from hookrow.stores.sql._urls import location, open_database

ACCEPTED_AT_ONCE = 16
"""How many connections are accepted in one turn of the event loop. uvloop accepts one for each
listening socket, so that a new client would wait for as many turns as others connected before it.
Sockets that share a port cost a microsecond each when a client connects."""

logger = logging.getLogger("hookrow")


def serve(
    settings: Settings,
    *,
    descriptor: int | None = None,
    workers: int,
    log_level: str,
    log_format: str,
) -> None:
    """Serve until SIGTERM or SIGINT; then send the responses that are due, and exit with status 0.

    With the `descriptor` of a listening socket, its address replaces the one of the settings.

    Raises a `HookrowError` if the settings are not valid, or if a package is not installed.
    """
    log_config = logs.configuration(log_level, log_format)
    logging.config.dictConfig(log_config)
    inherited = None if descriptor is None else inherit(descriptor)
    if inherited is not None:
        host, port, *_ = inherited.getsockname()
        settings = replace(settings, host=host, port=port)
    server = Server(settings)
    with inherited or _bind(settings.host, settings.port) as listener:
        address = origin(settings.host, settings.port)
        endpoint = f"{address}{endpoint_path(settings.mount_path)}"
        start = "hookrow %s receives notifications at %s and records them in %s"
        # Before anything that may fail because of the database, so that the log shows which it is.
        with closing(open_database(settings.database_url)) as database:
            logger.info(start, __version__, endpoint, location(database))
        if names := [f"{each.name} ({each.provider})" for each in settings.entries if each.name]:
            logger.info("Its entries are below this path: %s", ", ".join(names))
        check_and_prepare(settings)
        _raise_file_limit()
        if settings.dashboard:
            _announce_dashboard(settings, f"{address}{settings.dashboard_path}/")
        listeners = [listener, *(listener.dup() for _ in range(ACCEPTED_AT_ONCE - 1))]
        _serve(server, settings, listeners, log_config, workers)


def _serve(
    server: Server,
    settings: Settings,
    listeners: list[socket.socket],
    log_config: dict[str, Any],
    workers: int,
) -> None:
    configure = partial(
        uvicorn.Config,
        loop="uvloop",
        lifespan="on",  # otherwise, uvicorn hides an exception of the application's start or stop
        http=choose_protocol(),
        ws="none",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_TIMEOUT,
        backlog=MAX_CONNECTIONS,  # the system may have a lower limit: somaxconn
        log_config=log_config,
    )
    if workers > 1:
        server.close()  # it only checked the settings: each worker builds its own server
        config = configure(partial(build_server, settings), factory=True, workers=workers)
        run_workers(config, listeners, share_counts=settings.metrics)
    else:
        _run(DrainingServer(configure(server)), listeners)


def choose_protocol() -> type[asyncio.Protocol] | Literal["auto"]:
    """Return hookrow's protocol, or uvicorn's own choice if the two are not compatible."""
    try:
        from hookrow._server import protocol  # noqa: PLC0415 - uvicorn may lack what it imports

        protocol.check_uvicorn()
    except (ImportError, AttributeError, TypeError) as error:
        logger.warning(
            "uvicorn %s is not compatible with hookrow: %s. Notifications are slower, and heads "
            "and idle connections have no limits. Run: pip install 'hookrow[serve]'",
            uvicorn.__version__,
            error,
        )
        return "auto"
    return protocol.NotificationProtocol


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket at the address. Raises `ConfigurationError` if it cannot be used."""
    if not host:
        raise ConfigurationError("--host is empty: use 127.0.0.1, or 0.0.0.0 for all addresses.")
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, TypeError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or "the host is not valid"
        raise ConfigurationError(
            f"Cannot listen on {host}:{port}: {reason}. Choose another --host or --port."
        ) from error
    return listener


def _raise_file_limit() -> None:
    """Raise the limit of open files to the maximum, because each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems have a lower limit that they do not report
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce_dashboard(settings: Settings, dashboard: str) -> None:
    """Log the URL; print the password that was generated, if any, only to a terminal."""
    logger.info("The dashboard is at %s", dashboard)
    if settings.dashboard_password:
        return
    if sys.stdout is not None and sys.stdout.isatty():
        password = settings.generated_password
        click.echo(f"Open {dashboard} as the user hookrow with the password {password}")
    else:
        logger.warning(
            "Nobody can open the dashboard: its password was generated, and is printed only to a "
            "terminal. Set HOOKROW_DASHBOARD_PASSWORD."
        )


def _run(server: uvicorn.Server, listeners: list[socket.socket]) -> None:
    """Run the server in this process; exit with status 0 if a signal stopped it."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        # After it has stopped, uvicorn raises the signal again for the handler that it replaced.
        signal.signal(signum, lambda *_: sys.exit(0))
    server.run(listeners)
