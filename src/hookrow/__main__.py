"""`hookrow` and `python -m hookrow`: the command, if its extra is installed."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from threading import Event, Thread

from hookrow._server import hold_sighup
from hookrow.errors import MissingExtra

THREADS_TIMEOUT = 3.0
"""Seconds that a finished command waits for the threads of an application."""


def main() -> None:
    """Run the command; without its extra, print how to install it and exit with status 1."""
    # This precedes the imports, which take most of the start time. `serve` releases the signal
    # once its handler is installed; every other command releases it immediately.
    hold_sighup()
    # During the imports, Ctrl-C ends the process without a traceback, unless the signal is ignored.
    # Python may translate a KeyboardInterrupt there into another exception.
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from hookrow._cli import hookrow  # noqa: PLC0415 - click may not be installed
        from hookrow._cli.app import HostApp  # noqa: PLC0415 - click may not be installed
    except MissingExtra as error:
        sys.exit(f"Error: {error}")
    signal.signal(signal.SIGINT, handler)
    try:
        hookrow()
    except SystemExit as error:
        if HostApp.is_imported:
            _limit_exit(_status_of(error))
        raise
    except BaseException:
        if HostApp.is_imported:
            _limit_exit(1)
        raise


def _status_of(error: SystemExit) -> int:
    """Return the exit status of the process: 0 without a code, and 1 for a text."""
    if isinstance(error.code, int):
        return error.code
    return 0 if error.code is None else 1


def _limit_exit(status: int) -> None:
    """End the process if its threads do not end in time: the interpreter would wait forever.

    The interpreter calls `atexit` functions after the threads have ended.
    """
    threads_ended = Event()
    atexit.register(threads_ended.set)

    def wait() -> None:
        if not threads_ended.wait(THREADS_TIMEOUT):
            try:
                sys.stdout.flush()  # which fails if it is closed
            finally:
                os._exit(status)

    Thread(target=wait, name="hookrow-exit", daemon=True).start()


if __name__ == "__main__":
    main()
