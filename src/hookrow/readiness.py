"""A handler that a host mounts beside the receiver, for load balancers and orchestrators.

It responds as `hookrow serve` does at /readyz.
"""

from __future__ import annotations

from hookrow._arguments import reject
from hookrow._diagnostics.check import check_database
from hookrow._diagnostics.readiness import ReadinessHandler
from hookrow._receiver.receiver import Receiver


class Readiness(ReadinessHandler):
    """Responds with 200 and "ready" if the receiver would record a notification, else with 503.

    `ASGI(Readiness(receiver))` and `WSGI(Readiness(receiver))` are applications to mount. They
    respond to every path and method, and authenticate nobody: the text of a 503 names the fault,
    such as a missing column. The tables are probed at most once a second, and the results of the
    last notifications count, too, as at /readyz of `hookrow serve`. While a spool keeps
    notifications, the response is a 200 that begins with "attention".

    Each response is sent within 5 s. `close` ends its thread; it does not close the receiver.
    Raises `ConfigurationError` if the argument is not a receiver.
    """

    def __init__(self, receiver: Receiver) -> None:
        if not isinstance(receiver, Receiver):
            reject("The argument of Readiness()", "a receiver", receiver, "Readiness(receiver)")
        store = receiver.store
        super().__init__(
            lambda: check_database(store.database, store.schema, store.tenants),
            receiver.results,
            can_spool=receiver.can_spool,
        )
