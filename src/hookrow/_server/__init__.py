"""`hookrow serve`: the standalone server. This module contains what must be imported first.

SIGHUP reloads the secrets. By default, it would terminate a process that is still starting, and
ignoring it would lose a reload: the secret file may have been read just before the signal arrived.
Instead, the signal is blocked and stays pending; child processes inherit the mask.
"""

from __future__ import annotations

import signal
import sys

RECEIVER = "hookrow.receiver"
"""The key of the receiver in ASGI's lifespan state, set by the application for the protocol."""


def hold_sighup() -> None:
    """Block SIGHUP in this thread, and in the threads and processes that it starts from now on.

    Windows has no SIGHUP, and no `hookrow serve`.
    """
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def release_sighup() -> None:
    """Unblock SIGHUP; if it has arrived in the meantime, it now takes effect."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
