"""The server of its own: the receiver at its mount path, and the health checks.

`hookrow serve` runs it under uvicorn, in one process or in several.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import logging.config
import os
import signal
import socket
import sys
from functools import partial
from types import FrameType
from typing import Any

import httptools  # noqa: F401 - uvicorn asks for it by name, too late to say what is missing
import msgspec
import uvicorn
import uvloop  # noqa: F401 - as httptools

from hookrow import __version__, migrations
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.check import Level, check_database, check_secrets
from hookrow.errors import ConfigurationError
from hookrow.health import Liveness, Readiness
from hookrow.postmark import Postmark
from hookrow.receiver import Receiver
from hookrow.schema import Schema
from hookrow.settings import Settings, endpoint
from hookrow.stores.engines import open_engine, opened
from hookrow.stores.sql import SQLStore

log = logging.getLogger("hookrow")

VARIABLE = "HOOKROW_SERVE"
"""Of the environment: where the settings are, for workers that are started anew."""

DRAIN = 20
"""In seconds; how long a server that stops waits for what is in flight: a body, and its answer."""


class Server:
    """The ASGI application. Raises `ConfigurationError` where the settings cannot work."""

    def __init__(self, settings: Settings) -> None:
        self._schema = settings.schema
        self._engine = open_engine(settings.database_url)
        self._receiver = Receiver(
            Postmark(*settings.secrets),
            SQLStore(self._engine, settings.schema),
            mount_path=settings.mount_path,
        )
        self._webhook = ASGI(self._receiver)
        self._health = {"/healthz": ASGI(Liveness()), "/readyz": ASGI(Readiness(self._fault))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by its path; end when the server does."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await self._health.get(scope["path"], self._webhook)(scope, receive, send)

    def close(self) -> None:
        """Record what waits, then leave the database."""
        self._receiver.close(DRAIN)
        self._engine.dispose()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        # What is loaded by now stays: without this the garbage collector goes through it
        # again and again, and one notification in a hundred waits for 30 ms and more.
        gc.collect()
        gc.freeze()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    def _fault(self) -> str | None:
        for finding in check_database(self._engine, self._schema):
            if finding.level is Level.ERROR:
                return finding.text
        return None


def application() -> Server:
    """Make the server of a worker process, from the settings that its parent left it."""
    return Server(msgspec.json.decode(os.environ[VARIABLE], type=Settings))


def serve(settings: Settings, *, host: str, port: int, workers: int, log_level: str) -> None:
    """Serve until SIGTERM or SIGINT, then answer what is in flight and return.

    Raises `ConfigurationError` where the settings cannot work.
    """
    logging.config.dictConfig(_logging(log_level))
    _prepare(settings)
    _listen(host, port)
    where = endpoint(host, port, settings.mount_path)
    log.info("hookrow %s takes notifications at %s", __version__, where)
    run = partial(
        uvicorn.run,
        host=host,
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        log_config=_logging(log_level),
    )
    if workers > 1:
        os.environ[VARIABLE] = msgspec.json.encode(settings).decode()
        run("hookrow.server:application", factory=True, workers=workers)
    else:
        # uvicorn stops on these, and then sends them once more to whoever had them.
        signal.signal(signal.SIGTERM, stopped)
        signal.signal(signal.SIGINT, stopped)
        signal.signal(signal.SIGHUP, _hung_up)
        run(Server(settings))


def _prepare(settings: Settings) -> None:
    """Look at what would make every notification fail, before the first one comes."""
    secret = check_secrets(settings.secrets)
    if secret.level is Level.ERROR:
        raise ConfigurationError(secret.text)
    if secret.level is Level.WARNING:
        log.warning("The webhook secret: %s", secret.text)
    with opened(settings.database_url) as engine:
        if engine.dialect.name == "sqlite" and settings.schema == Schema():
            migrations.upgrade(engine, settings.schema)
        for finding in check_database(engine, settings.schema):
            if finding.level is Level.ERROR and finding.about != "database":
                raise ConfigurationError(finding.text)


def _listen(host: str, port: int) -> None:
    """Try the address: uvicorn reports one that is in use only in its log."""
    if not host:
        raise ConfigurationError("There is no --host: write 127.0.0.1, or 0.0.0.0 for all.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as trial:  # bound only: nobody can connect to it
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except (OSError, TypeError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is no address"
        raise ConfigurationError(
            f"Cannot listen at {host}:{port}: {why}. Choose another --host or --port."
        ) from error


def stopped(signum: int, frame: FrameType | None) -> None:
    """Handle a signal that asks to stop: that is no failure."""
    del signum, frame
    sys.exit(0)


def _hung_up(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    log.info("SIGHUP: settings are read once, at the start; start anew for others.")


def _logging(level: str) -> dict[str, Any]:
    """Return a configuration of our loggers and uvicorn's, and of no other."""
    logger = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)-8s %(name)s: %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {"hookrow": logger, "uvicorn": logger},
    }
