"""SIGHUP: reloads the secrets, and must not terminate a process that is still starting.

By default, SIGHUP terminates a process. Ignoring it during the start would lose a reload: the
secret file may have been read just before the signal arrived. A blocked signal stays pending
instead, and reaches the handler as soon as it is unblocked. Child processes inherit the blocked
signal, also across exec, and so are protected before their first instruction.
"""

from __future__ import annotations

import signal

_SIGNALS = {signal.SIGHUP}


def hold() -> None:
    """Block SIGHUP in this thread, and in the threads and processes that it starts from now on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def release() -> None:
    """Unblock SIGHUP, and deliver one that arrived while it was blocked.

    It has its usual effect: the handler runs, or `nohup` ignores it.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def consume_pending() -> bool:
    """Consume a SIGHUP that arrived while it was blocked; return whether there was one."""
    if signal.SIGHUP not in signal.sigpending():
        return False
    signal.sigwait(_SIGNALS)
    return True
