"""`hookrow serve`: the standalone server. This module has what must be imported first.

SIGHUP reloads the secrets. By default, it would terminate a process that is still starting, and
ignoring it would lose a reload: the secret file may have been read just before the signal arrived.
A blocked signal stays pending instead, and child processes inherit it as blocked.
"""

from __future__ import annotations

import signal

RECEIVER = "hookrow.receiver"
"""The key of the receiver in ASGI's lifespan state: the application sets it for the protocol."""


def hold_sighup() -> None:
    """Block SIGHUP in this thread, and in the threads and processes that it starts from now on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})


def release_sighup() -> None:
    """Unblock SIGHUP, which has its usual effect if it arrived meanwhile."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
