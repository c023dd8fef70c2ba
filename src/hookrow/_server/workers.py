"""The worker processes of `hookrow serve`, and their supervision.

Workers share only the port. They receive their settings from the parent, through a pipe.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from multiprocessing import parent_process
from threading import Thread
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from hookrow._server.draining import DrainingServer
from hookrow._server.settings import Settings
from hookrow.errors import ConfigurationError

if TYPE_CHECKING:
    from hookrow._server.app import Server

logger = logging.getLogger("hookrow")

STOP_TIMEOUT = 25.0
"""Seconds that the parent waits for its workers to stop before it kills them: longer than
they need (`DRAIN_TIMEOUT` and `RECORD_TIMEOUT` in `app`), but shorter than its own stop timeout
(deploy/hookrow@.service)."""

_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def run_workers(
    config: uvicorn.Config, listeners: list[socket.socket], *, share_counts: bool
) -> None:
    """Run workers until SIGTERM or SIGINT; with `share_counts`, sum their metrics.

    `config` builds the application with `build_server`. Exits with an error status if a worker's
    application failed to start.
    """
    # Workers would inherit these variables, including secrets, but do not need them.
    for name in list(os.environ):
        if name.startswith("HOOKROW_") or name == "DATABASE_URL":
            del os.environ[name]
    # This handles SIGTERM and SIGINT from now on, so that the directory of counts is deleted.
    workers = _Workers(config, listeners)
    with ExitStack() as stack:
        if share_counts:
            from hookrow._observability import metrics  # noqa: PLC0415 - an extra

            workers.ended = metrics.forget_process
            stack.enter_context(metrics.shared_counts())
        workers.run()
    if any(each.exitcode == STARTUP_FAILURE for each in workers.processes):
        sys.exit(STARTUP_FAILURE)


def build_server(settings: Settings) -> Server:
    """Build the server of a worker; if that is impossible, log why and exit."""
    _end_with_parent()
    # A worker must import this module before it can answer its first ping, which has a time limit.
    from hookrow._server.app import Server  # noqa: PLC0415 - therefore not at the top

    try:
        return Server(settings)
    except ConfigurationError as error:
        logger.error(f"This worker cannot start. {error}")
        sys.exit(1)  # not uvicorn's STARTUP_FAILURE, which would end all other workers too


def _end_with_parent() -> None:
    """Let this worker stop, as after SIGTERM, when its parent process is gone.

    Otherwise, a worker whose parent was killed would keep the port and the secrets of its start,
    and no other server could listen there.
    """
    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        logger.error("The parent process of this worker is gone; stopping.")
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, name="hookrow-parent", daemon=True).start()


class _Worker(Process):
    """A worker process."""

    @cached_property
    def server(self) -> uvicorn.Server:
        """The server that runs in the process."""
        return DrainingServer(self.config)


class _Workers(Multiprocess):
    """uvicorn's worker processes, supervised without waiting for any of them.

    uvicorn itself would wait up to 5 seconds for a worker that hangs or is still starting, and
    meanwhile would not handle signals or replace other workers. On SIGHUP, it would replace all of
    them and drop connections. `ended` is called with the id of each process that was replaced.
    """

    ended: Callable[[int], object] | None = None

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        self._pinged: WeakKeyDictionary[Process, float] = WeakKeyDictionary()

    def init_processes(self) -> None:
        """Start the workers."""
        self.processes = [self._start() for _ in range(self.config.workers)]

    def terminate_all(self) -> None:
        """Stop the workers; the last of them accepts the connections in the kernel's queue."""
        for each in self.sockets:
            each.close()
        super().terminate_all()

    def handle_signals(self) -> None:
        """Handle the signals that have arrived, including a pending SIGHUP."""
        if signal.SIGHUP in signal.sigpending():
            signal.sigwait({signal.SIGHUP})
            self.handle_hup()
        super().handle_signals()

    def handle_hup(self) -> None:
        """Make each worker reload its secrets, or do so when it has started."""
        for process in self.processes:
            if process.pid is not None and process.exitcode is None:
                os.kill(process.pid, signal.SIGHUP)

    def keep_subprocess_alive(self) -> None:
        """Replace each worker that has ended or hangs; uvicorn calls this every half second."""
        for index, process in enumerate(self.processes):
            if not self.should_exit.is_set() and not self._is_healthy(process):
                self._replace(index, process)

    def join_all(self) -> None:
        """Wait until the workers have ended; kill those that take too long.

        Another SIGTERM or SIGINT kills them at once.
        """
        until = time.monotonic() + STOP_TIMEOUT
        running = self.processes
        while running and time.monotonic() < until and not _STOP_SIGNALS & {*self.signal_queue}:
            running[0].process.join(0.2)
            running = [each for each in self.processes if each.process.is_alive()]
        for process in running:
            logger.warning(f"Worker {process.pid} did not stop in time; killed.")
            process.kill()
        super().join_all()

    def _is_healthy(self, process: Process) -> bool:
        """Return whether a worker is running and answers pings in time."""
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

    def _replace(self, index: int, process: Process) -> None:
        process.kill()  # it may hang
        process.join()
        if process.exitcode == STARTUP_FAILURE:  # any other worker would fail too
            logger.error("A worker failed to start; stopping the server.")
            self.should_exit.set()
            return
        logger.warning(f"Worker {process.pid} exited with status {process.exitcode}; replaced.")
        self.processes[index] = self._start()
        if self.ended is not None and process.pid is not None:
            self.ended(process.pid)

    def _start(self) -> Process:
        process = _Worker(self.config, self.sockets)
        process.start()
        return process
