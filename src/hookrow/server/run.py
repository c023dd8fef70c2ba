"""The processes of `hookrow serve`: uvicorn runs the server in one, or in several.

Several processes share only the port. Their parent passes the settings to them in a file, because
the environment of a process can be read by others and is inherited by every process that it starts.
"""

from __future__ import annotations

import fcntl
import logging
import logging.config
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from tempfile import mkstemp
from threading import Thread
from types import FrameType
from weakref import WeakKeyDictionary

import click
import httptools  # noqa: F401 - uvicorn asks for it by name, too late to say what is missing
import msgspec
import uvicorn
import uvloop  # noqa: F401 - as httptools
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from hookrow import __version__
from hookrow.errors import ConfigurationError
from hookrow.observability import logging as logs
from hookrow.receiver.receiver import ENDPOINT
from hookrow.server import hangup
from hookrow.server.app import DRAIN, Server
from hookrow.server.direct import DirectProtocol
from hookrow.server.preflight import prepare
from hookrow.server.settings import DashboardAccess, Settings, endpoint

log = logging.getLogger("hookrow")

VARIABLE = "HOOKROW_SERVE"
"""The environment variable with the path of the file from which workers read a `Handover`."""

_APPLICATION = "hookrow.server.run:application"

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}

_CHECK_INTERVAL = 0.2
"""In seconds; how often the parent checks its workers and signals."""

_RESTART_INTERVAL = 0.5
"""In seconds; workers are replaced no more often, because one that cannot start ends at once."""

STOP_TIMEOUT = DRAIN + 5.0
"""In seconds; how long the parent waits for its workers to stop before it kills them."""


class Handover(msgspec.Struct, frozen=True):
    """Everything that a worker gets from its parent."""

    settings: Settings


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
        if not settings.dashboard_password:
            settings = replace(settings, dashboard_access=DashboardAccess.generate(port))
        _announce(f"{where.removesuffix(ENDPOINT)}/dashboard/", settings.dashboard_access)
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
        config = configured(_APPLICATION, factory=True, workers=workers)
        _run_workers(Handover(settings), config)
    else:
        _run(settings, configured)


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


def _run_workers(handover: Handover, config: uvicorn.Config) -> None:
    hangup.hold()  # never released here: workers inherit it, whenever they start
    # This handles SIGTERM and SIGINT from now on, so that the file is always deleted.
    processes = _Workers(config, sockets=[config.bind_socket()])
    with (
        _settings_file(handover),
        _counted(processes) if handover.settings.metrics else nullcontext(),
    ):
        processes.run()


def _run(settings: Settings, configured: Callable[[Server], uvicorn.Config]) -> None:
    """Run the server in this process."""
    # uvicorn stops on these, and then sends them once more to whoever had them.
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    server = Server(settings)
    _reload_on_hangup(server)
    running = uvicorn.Server(configured(server))
    running.run()
    if not running.started:
        sys.exit(STARTUP_FAILURE)


def application() -> Server:
    """Build the server of a worker process from its parent's settings file."""
    try:
        server = Server(_read_handover().settings)
    except ConfigurationError as error:
        log.error(f"This worker cannot start. {error}")
        sys.exit(1)  # not uvicorn's STARTUP_FAILURE, upon which it ends all others too
    _reload_on_hangup(server)
    return server


def _reload_on_hangup(server: Server) -> None:
    """Reload on SIGHUP, in a thread: a handler that interrupts a log line cannot log."""
    hangups = SimpleQueue[None]()

    def reload() -> None:
        while True:
            hangups.get()
            try:
                server.reload()
            except Exception:
                log.exception("The secrets stay as they were.")

    Thread(target=reload, name="hookrow-reload", daemon=True).start()
    signal.signal(signal.SIGHUP, lambda *_: hangups.put(None))  # `put` is reentrant
    hangup.release()


class _Workers(Multiprocess):
    """uvicorn's worker processes, supervised without waiting for any of them.

    uvicorn's own loop waits up to 5 seconds for a worker that hangs or is still starting, and
    meanwhile handles no signal and replaces no other worker. On SIGHUP it would replace all of
    them and drop connections. `ended` is called with the id of each process that was replaced.
    """

    ended: Callable[[int], object] | None = None

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._pinged: WeakKeyDictionary[Process, float] = WeakKeyDictionary()
        self._replaced_at = -_RESTART_INTERVAL

    def run(self) -> None:
        """Run the workers until SIGTERM or SIGINT, and stop them."""
        self.init_processes()
        while not self.should_exit.wait(_CHECK_INTERVAL):
            self.handle_signals()
            self.keep_subprocess_alive()
        self.terminate_all()
        self.join_all()

    def join_all(self) -> None:
        """Wait until the workers have ended; kill those that take too long.

        Another SIGTERM or SIGINT kills them at once.
        """
        until = time.monotonic() + STOP_TIMEOUT
        running = self.processes
        while running and time.monotonic() < until and not _STOP_SIGNALS & {*self.signal_queue}:
            running[0].process.join(_CHECK_INTERVAL)
            running = [each for each in self.processes if each.process.is_alive()]
        for process in running:
            log.warning(f"Worker {process.pid} had not stopped; killed.")
            process.kill()
        super().join_all()

    def keep_subprocess_alive(self) -> None:
        """Replace each worker that has ended or hangs."""
        if time.monotonic() < self._replaced_at + _RESTART_INTERVAL:
            return
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            if not self._is_healthy(process):
                self._replace(place, process)

    def handle_signals(self) -> None:
        """Handle the signals that have arrived, among them SIGHUP, which has no handler here."""
        if hangup.consume_pending():
            self.handle_hup()
        super().handle_signals()

    def handle_hup(self) -> None:
        """Make each worker reload its secrets; one that is starting does so as soon as it can."""
        for process in self.processes:
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGHUP)

    def _is_healthy(self, process: Process) -> bool:
        """Return whether a worker is running and has answered its last ping in time."""
        if not process.process.is_alive():
            return False
        pings = process.parent_conn
        if pings.poll():
            pings.recv()
            del self._pinged[process]
        if process not in self._pinged:
            pings.send(b"ping")
            self._pinged[process] = time.monotonic()
        waited = time.monotonic() - self._pinged[process]
        return waited < self.config.timeout_worker_healthcheck

    def _replace(self, place: int, process: Process) -> None:
        process.kill()  # it may hang
        process.join()
        if process.exitcode == STARTUP_FAILURE:  # any other worker would fail too
            log.error("A worker failed to start; the server stops.")
            self.should_exit.set()
            return
        log.warning(f"Worker {process.pid} ended with status {process.exitcode}; replaced.")
        self.processes[place] = Process(self.config, self.sockets)
        self.processes[place].start()
        self._replaced_at = time.monotonic()
        if self.ended is not None and process.pid is not None:
            self.ended(process.pid)


@contextmanager
def _settings_file(handover: Handover) -> Iterator[None]:
    """Write the settings to a file that workers started in this block can read.

    Only this user can read the file. Variables with settings are removed from the environment,
    because workers would inherit them, secrets included. Raises `ConfigurationError` if the file
    cannot be written.
    """
    for name in list(os.environ):
        if name.startswith("HOOKROW_") or name == "DATABASE_URL":
            del os.environ[name]
    with ExitStack() as stack:
        try:
            descriptor, path = mkstemp(prefix="hookrow-settings-")  # with mode 0600
            stack.callback(os.close, descriptor)
            stack.callback(Path(path).unlink, missing_ok=True)
            # Without a lock, systemd-tmpfiles deletes the file after 10 days.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            Path(path).write_bytes(msgspec.json.encode(handover))
        except OSError as error:
            raise ConfigurationError(
                f"The settings for the workers cannot be written: {error}. "
                "Set TMPDIR to a writable folder."
            ) from error
        os.environ[VARIABLE] = path
        yield


def _read_handover() -> Handover:
    path = os.environ[VARIABLE]
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Handover)
    except OSError as error:
        raise ConfigurationError(
            f"The settings in {path} cannot be read: {error.strerror}. Restart the server."
        ) from error


@contextmanager
def _counted(processes: _Workers) -> Iterator[None]:
    """Let the processes that are started in the block count together."""
    from hookrow.observability.endpoint import forget_process, shared_counts  # noqa: PLC0415 - an extra of its own

    processes.ended = forget_process
    with shared_counts():
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
