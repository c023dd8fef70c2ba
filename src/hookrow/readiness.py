"""A handler that a host mounts beside the receiver, for load balancers and orchestrators.

It responds as `hookrow serve` does at /readyz.
"""

from __future__ import annotations

from hookrow._core.status import Status
from hookrow._diagnostics.readiness import ReadinessHandler
from hookrow._diagnostics.status import StatusSource, sweep_of
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._receiver.receiver import Receiver, check_receiver


class Readiness(ReadinessHandler):
    """Responds with 200 and "ready" if the receiver would record a notification, else with 503.

    `ASGI(Readiness(receiver))` and `WSGI(Readiness(receiver))` are applications to mount. They
    respond to every path and method, and authenticate nobody: the text of a 503 names the fault,
    such as a missing column. The tables are probed at most once a second, and the results of the
    last notifications count, too, as at /readyz of `hookrow serve`. While a spool keeps
    notifications, the response is a 200 that begins with "attention". If something else needs
    attention, such as a secret, the first line is "ready", and a second one names it.

    `status` returns the whole status: pass it to `Dashboard(..., status=readiness.status)` and
    `Metrics.watch(readiness.status)`, so that these show what only this process knows.

    Each response is sent within 5 s. `close` ends its threads, but does not close the receiver. It
    is for an application that stops: responses are 503 from then on, and the status is broken.
    Raises `ConfigurationError` if the argument is not a receiver.
    """

    def __init__(self, receiver: Receiver) -> None:
        check_receiver("Readiness", receiver)
        self._reader = StatusReader(
            StatusSource(
                store=receiver.store,
                receiver=lambda: receiver,
                parsers=receiver.entries,
                sweep=lambda: sweep_of(receiver),
            )
        )
        super().__init__(self.status, can_spool=receiver.can_spool)

    def status(self) -> Status:
        """Return the status of the receiver, its database and its log.

        Waits up to 5 s for the database, and raises nothing.
        """
        return self._reader()

    def close(self) -> None:
        """Stop the threads after the checks in progress; the receiver is not ready any more."""
        self._reader.close()
