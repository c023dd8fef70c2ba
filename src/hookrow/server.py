"""The server of its own: the receiver at its mount path, and the health checks.

`hookrow serve` runs it under uvicorn, in one process or in several.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import logging.config
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import httptools  # noqa: F401 - uvicorn asks for it by name, too late to say what is missing
import msgspec
import uvicorn
import uvloop  # noqa: F401 - as httptools
from sqlalchemy import Engine
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from hookrow import __version__, logs, migrations
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.check import check_database, check_secrets
from hookrow.errors import ConfigurationError
from hookrow.finding import Finding, Level
from hookrow.health import Liveness, Readiness
from hookrow.observing import Observer
from hookrow.periodic import Periodic
from hookrow.postmark import Postmark
from hookrow.protocol import LimitedProtocol
from hookrow.receiver import ENDPOINT, Receiver
from hookrow.retention import pruned
from hookrow.schema import Schema
from hookrow.settings import Settings, dashboard_path, endpoint
from hookrow.spool import Spool
from hookrow.stores import Unavailable
from hookrow.stores.engines import absent, open_engine, opened
from hookrow.stores.log import LogReader
from hookrow.stores.sql import SQLStore

if TYPE_CHECKING:
    from hookrow.dashboard import Dashboard

log = logging.getLogger("hookrow")

VARIABLE = "HOOKROW_SERVE"
"""Of the environment: where the settings are, for workers that are started anew."""

HOUR = 3600.0
DAY = 24 * HOUR

DRAIN = 20
"""In seconds; how long a server that stops waits for what is in flight: a body, and its answer."""


class Server:
    """The ASGI application, with the `receiver` that answers at its mount path.

    Raises `ConfigurationError` where the settings cannot work.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._provider = Postmark(*settings.accepted())
        self._engine = open_engine(settings.database_url)
        store = SQLStore(self._engine, settings.schema)
        self._pages = {"/healthz": ASGI(Liveness()), "/readyz": ASGI(Readiness(self._fault))}
        bodies = settings.keep_bodies != timedelta(0)
        self.receiver = Receiver(
            self._provider,
            store,
            mount_path=settings.mount_path,
            sweep=settings.sweep and bodies and store.log is not None,
            spool=settings.spool,
            keep_bodies=bodies,
            observer=self._metrics() if settings.metrics else None,
        )
        self._tasks = [Periodic(self._count_secrets, seconds=HOUR, name="count of secrets")]
        if store.log is not None:
            prune = partial(self._prune, store.log)
            self._tasks.append(Periodic(prune, seconds=DAY, name="pruning of the log"))
        self._webhook = ASGI(self.receiver)
        self._dashboard = _dashboard(settings, store) if settings.dashboard else None
        self._drawn = ASGI(self._dashboard) if self._dashboard else self._webhook
        self._drawn_at = f"{dashboard_path(settings.mount_path)}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by its path; end when the server does."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            is_drawn = f"{scope['path']}/".startswith(self._drawn_at)
            other = self._drawn if is_drawn else self._webhook
            await self._pages.get(scope["path"], other)(scope, receive, send)

    def reload(self) -> None:
        """Accept from now on what the secret file says; where it is wrong, what it said before."""
        self._count_secrets()
        try:
            self._provider.accept(*self._settings.accepted())
        except ConfigurationError as error:
            log.error("The secrets stay as they were. %s", error)  # noqa: TRY400 - it says all
        else:
            log.info("The secrets were read anew.")
            _warn_of(check_secrets(self._settings))

    def close(self) -> None:
        """Record what waits, then leave the database."""
        for task in self._tasks:
            task.close(1.0)  # a batch of the log at most is left to the next start
        if self._dashboard is not None:
            self._dashboard.close(1.0)
        self.receiver.close(DRAIN)
        self._count_secrets()
        self._engine.dispose()

    def _metrics(self) -> Observer:
        """Return what counts, and show the counts."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra of its own

        from hookrow.exposition import Exposition  # noqa: PLC0415 - as above
        from hookrow.metrics import Metrics  # noqa: PLC0415 - as above

        registry = CollectorRegistry()
        self._pages["/metrics"] = ASGI(Exposition(registry))
        return Metrics(registry)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        # What is loaded by now stays: without this the garbage collector goes through it
        # again and again, and one notification in a hundred waits for 30 ms and more.
        gc.collect()
        gc.freeze()
        self.receiver.start()
        for task in self._tasks:
            task.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    def _count_secrets(self) -> None:
        """Say how often each secret was used, where there is one to be given up."""
        used = self._provider.matched
        if len(used) > 1:
            told = ", ".join(map(str, used.values()))
            log.info("How often each secret was used, the newest first: %s.", told)

    def _prune(self, entries: LogReader) -> None:
        settings = self._settings
        count = sum(pruned(entries, keep=settings.keep, keep_bodies=settings.keep_bodies))
        if count:
            log.info("Pruned from the log, entries and bodies: %d.", count)

    def _fault(self) -> str | None:
        for finding in check_database(self._engine, self._settings.schema):
            if finding.level is Level.ERROR:
                return finding.text
        return None


def _dashboard(settings: Settings, store: SQLStore) -> Dashboard:
    """Make the dashboard. Raises `ConfigurationError` where it would be open to everybody."""
    from hookrow.dashboard import served  # noqa: PLC0415 - an extra of its own

    return served(
        store,
        host=settings.host,
        password=settings.dashboard_password,
        mount_path=settings.mount_path,
        keep_bodies=settings.keep_bodies != timedelta(0),
    )


def application() -> Server:
    """Make the server of a worker process, from the settings that its parent left it."""
    try:
        server = Server(msgspec.json.decode(os.environ[VARIABLE], type=Settings))
    except ConfigurationError as error:
        log.error("This worker cannot start. %s", error)  # noqa: TRY400 - it says all
        sys.exit(1)  # not uvicorn's STARTUP_FAILURE, upon which it ends all others too
    signal.signal(signal.SIGHUP, lambda *_: server.reload())
    return server


class _Workers(Multiprocess):
    """uvicorn's worker processes; on SIGHUP it would start each anew, and drop connections.

    `ended` hears of each process, by its id, in whose place there is another.
    """

    ended: Callable[[int], object] | None = None

    def keep_subprocess_alive(self) -> None:
        """Start another process in the place of one that has ended."""
        before = {process.pid for process in self.processes}
        super().keep_subprocess_alive()
        for pid in before - {process.pid for process in self.processes}:
            if pid is not None and self.ended is not None:
                self.ended(pid)

    def handle_hup(self) -> None:
        """Have each read its secrets anew."""
        for process in self.processes:
            if process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)


def serve(settings: Settings, *, port: int, workers: int, log_level: str, log_format: str) -> None:
    """Serve until SIGTERM or SIGINT, then answer what is in flight and return.

    Raises `ConfigurationError` where the settings cannot work.
    """
    configuration = logs.configuration(log_level, log_format)
    logging.config.dictConfig(configuration)
    _prepare(settings)
    _allow_connections()
    _listen(settings.host, port)
    where = endpoint(settings.host, port, settings.mount_path)
    log.info("hookrow %s takes notifications at %s", __version__, where)
    if settings.dashboard:
        log.info("The dashboard is at %s/dashboard/", where.removesuffix(ENDPOINT))
    configured = partial(
        uvicorn.Config,
        host=settings.host,
        port=port,
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        log_config=configuration,
    )
    if workers > 1:
        os.environ[VARIABLE] = msgspec.json.encode(settings).decode()
        config = configured("hookrow.server:application", factory=True, workers=workers)
        processes = _Workers(config, sockets=[config.bind_socket()])
        with _counted(processes) if settings.metrics else nullcontext():
            processes.run()
    else:
        # uvicorn stops on these, and then sends them once more to whoever had them.
        signal.signal(signal.SIGTERM, stopped)
        signal.signal(signal.SIGINT, stopped)
        server = Server(settings)
        signal.signal(signal.SIGHUP, lambda *_: server.reload())
        running = uvicorn.Server(configured(server))
        running.run()
        if not running.started:
            sys.exit(STARTUP_FAILURE)


@contextmanager
def _counted(processes: _Workers) -> Iterator[None]:
    """Let the processes that are started in the block count together."""
    from hookrow.exposition import forget_process, shared  # noqa: PLC0415 - an extra of its own

    processes.ended = forget_process
    with shared():
        yield


def _prepare(settings: Settings) -> None:
    """Look at what would make every notification fail, before the first one comes."""
    secret = check_secrets(settings)
    if secret.level is Level.ERROR:
        raise ConfigurationError(secret.text)
    _warn_of(secret)
    _prepare_extras(settings)
    if settings.spool is not None:
        Spool(settings.spool)  # or it would be reported by each worker
    if settings.keep_bodies == timedelta(0):
        log.warning("No body is kept: what cannot be recorded is not tried again.")
    with opened(settings.database_url) as engine:
        ours = engine.dialect.name == "sqlite" and settings.schema.ours
        # Nothing is wrong with tables that migrations of the host's made.
        if ours and any(_errors(engine, settings.schema)):
            try:
                migrations.upgrade(engine, settings.schema)
            except Unavailable as error:
                if absent(engine):
                    raise
                log.warning("%s", error)
        for finding in _errors(engine, settings.schema):
            if finding.about != "database":
                raise ConfigurationError(finding.text)


def _prepare_extras(settings: Settings) -> None:
    """Import what is an extra of its own: it says what to install."""
    if settings.metrics:
        importlib.import_module("hookrow.metrics")
    if settings.dashboard:
        from hookrow.dashboard.visitor import served_to  # noqa: PLC0415 - as said above

        served_to(settings.dashboard_password, host=settings.host)


def _errors(engine: Engine, schema: Schema) -> Iterator[Finding]:
    return (each for each in check_database(engine, schema) if each.level is Level.ERROR)


def _warn_of(secret: Finding) -> None:
    if secret.level is Level.WARNING:
        log.warning("The webhook secret: %s", secret.text)


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


def _allow_connections() -> None:
    """Allow as many open files as this process may have: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems have a limit that they do not tell
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
