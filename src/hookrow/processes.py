"""The processes of `hookrow serve`: uvicorn runs the server in one, or in several.

Several share the port alone, and have the settings from their parent through the environment.
"""

from __future__ import annotations

import logging
import logging.config
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from types import FrameType

import httptools  # noqa: F401 - uvicorn asks for it by name, too late to say what is missing
import msgspec
import uvicorn
import uvloop  # noqa: F401 - as httptools
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from hookrow import __version__, logs
from hookrow.direct import DirectProtocol
from hookrow.errors import ConfigurationError
from hookrow.prepare import prepare
from hookrow.receiver import ENDPOINT
from hookrow.server import DRAIN, Server
from hookrow.settings import Settings, endpoint

log = logging.getLogger("hookrow")

VARIABLE = "HOOKROW_SERVE"
"""Of the environment: where the settings are, for workers that are started anew."""

_APPLICATION = "hookrow.processes:application"


def serve(settings: Settings, *, port: int, workers: int, log_level: str, log_format: str) -> None:
    """Serve until SIGTERM or SIGINT, then answer what is in flight and return.

    Raises `ConfigurationError` where the settings cannot work.
    """
    configuration = logs.configuration(log_level, log_format)
    logging.config.dictConfig(configuration)
    prepare(settings)
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
        http=DirectProtocol,
        ws="none",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
        log_config=configuration,
    )
    if workers > 1:
        os.environ[VARIABLE] = msgspec.json.encode(settings).decode()
        _run_workers(settings, configured(_APPLICATION, factory=True, workers=workers))
    else:
        _run(settings, configured)


def _run_workers(settings: Settings, config: uvicorn.Config) -> None:
    processes = _Workers(config, sockets=[config.bind_socket()])
    with _counted(processes) if settings.metrics else nullcontext():
        processes.run()


def _run(settings: Settings, configured: Callable[[Server], uvicorn.Config]) -> None:
    """Run the server in this process."""
    # uvicorn stops on these, and then sends them once more to whoever had them.
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    server = Server(settings)
    signal.signal(signal.SIGHUP, lambda *_: server.reload())
    running = uvicorn.Server(configured(server))
    running.run()
    if not running.started:
        sys.exit(STARTUP_FAILURE)


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


@contextmanager
def _counted(processes: _Workers) -> Iterator[None]:
    """Let the processes that are started in the block count together."""
    from hookrow.exposition import forget_process, shared  # noqa: PLC0415 - an extra of its own

    processes.ended = forget_process
    with shared():
        yield


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
