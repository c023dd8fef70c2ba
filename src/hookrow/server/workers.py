"""The worker processes of `hookrow serve`: their supervision, and how they get their settings.

Workers share only the port. Their parent passes the settings to them in a file, because the
environment of a process can be read by others and is inherited by every process that it starts.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from tempfile import mkstemp
from weakref import WeakKeyDictionary

import msgspec
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from hookrow.errors import ConfigurationError
from hookrow.server import sighup
from hookrow.server.app import Server
from hookrow.server.settings import Settings

log = logging.getLogger("hookrow")

APPLICATION = f"{__name__}:application"

VARIABLE = "HOOKROW_SERVE"
"""The environment variable with the path of the file from which workers read the settings."""

STOP_TIMEOUT = 25.0
"""In seconds; how long the parent waits for its workers to stop before it kills them: longer than
they need (`DRAIN` and `RECORD` in `app`), and shorter than its own time (deploy/hookrow@.service).
"""

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}

_CHECK_INTERVAL = 0.2
"""In seconds; how often the parent checks its workers and signals."""

_RESTART_INTERVAL = 0.5
"""In seconds; the shortest interval between replacements, because a worker may fail to start."""


def run_workers(settings: Settings, config: uvicorn.Config) -> None:
    """Run workers with these settings until SIGTERM or SIGINT."""
    sighup.hold()  # never released here: workers inherit it, whenever they start
    # This handles SIGTERM and SIGINT from now on, so that the file is always deleted.
    workers = _Workers(config, sockets=[config.bind_socket()])
    with settings_file(settings), _shared_counts(workers) if settings.metrics else nullcontext():
        workers.run()


def application() -> Server:
    """Build the server of a worker process from its parent's settings file."""
    try:
        return Server(_read_settings())
    except ConfigurationError as error:
        log.error(f"This worker cannot start. {error}")
        sys.exit(1)  # not uvicorn's STARTUP_FAILURE, which would end all other workers too


@contextmanager
def settings_file(settings: Settings) -> Iterator[None]:
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
            Path(path).write_bytes(msgspec.json.encode(settings))
        except OSError as error:
            raise ConfigurationError(
                f"The settings for the workers cannot be written: {error}. "
                "Set TMPDIR to a writable folder."
            ) from error
        os.environ[VARIABLE] = path
        yield


def _read_settings() -> Settings:
    path = os.environ[VARIABLE]
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Settings)
    except OSError as error:
        raise ConfigurationError(
            f"The settings in {path} cannot be read: {error.strerror}. Restart the server."
        ) from error


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
        if sighup.consume_pending():
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
def _shared_counts(workers: _Workers) -> Iterator[None]:
    """Add up the counts of all workers that are started in this block."""
    from hookrow.observability.endpoint import forget_process, shared_counts  # noqa: PLC0415 - an extra

    workers.ended = forget_process
    with shared_counts():
        yield
