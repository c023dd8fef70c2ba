"""SIGHUP: reloads the secrets, and must not terminate a process that is still starting.

By default, SIGHUP terminates a process. Ignoring it during the start would lose a reload: the
secret file may have been read just before the signal arrived. A blocked signal stays pending
instead, and reaches the handler as soon as it is unblocked. Child processes inherit the blocked
signal, also across exec, and so are protected before their first instruction.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

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


def handle(call: Callable[[], object]) -> None:
    """Install a handler, and unblock SIGHUP. Exceptions that `call` raises are logged.

    A thread makes the calls, because a handler that interrupts a log line cannot log.
    """
    # Every process imports this module first, to block SIGHUP, so the import must be fast.
    import logging  # noqa: PLC0415
    from queue import SimpleQueue  # noqa: PLC0415
    from threading import Thread  # noqa: PLC0415

    hangups = SimpleQueue[None]()

    def run() -> None:
        while True:
            hangups.get()
            try:
                call()
            except Exception:
                logging.getLogger("hookrow").exception("The secrets were not reloaded.")

    Thread(target=run, name="hookrow-reload", daemon=True).start()
    signal.signal(signal.SIGHUP, lambda *_: hangups.put(None))  # `put` is reentrant
    release()
