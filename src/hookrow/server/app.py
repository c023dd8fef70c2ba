"""The server: the receiver at its mount path, the health checks, and what is asked for besides.

It is an ASGI application; `processes` runs it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from functools import partial
from typing import TYPE_CHECKING

from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.check import check_secrets
from hookrow.concurrency import PeriodicTask
from hookrow.errors import ConfigurationError
from hookrow.finding import Finding, Level
from hookrow.observability.logging import rate_limit
from hookrow.observability.observer import Observer
from hookrow.providers.postmark import Postmark
from hookrow.receiver.receiver import Receiver
from hookrow.retention import pruned
from hookrow.server.health import DatabaseProbe, Liveness, Readiness
from hookrow.server.settings import Settings, dashboard_path
from hookrow.stores.log import LogReader
from hookrow.stores.sql import SQLStore

if TYPE_CHECKING:
    from hookrow.dashboard import Dashboard

log = logging.getLogger("hookrow")

HOUR = 3600.0
DAY = 24 * HOUR

DRAIN = 20
"""In seconds; how long a server that stops waits for what is in flight: a body, and its answer."""


class Server:
    """The ASGI application, with the `receiver` that answers at its mount path by `webhook`.

    Raises `ConfigurationError` where the settings cannot work.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._provider = Postmark(*settings.accepted())
        self._store = store = SQLStore(settings.database_url, settings.schema)
        readiness = Readiness(DatabaseProbe(store.database, settings.schema))
        self._pages = {"/healthz": ASGI(Liveness()), "/readyz": ASGI(readiness)}
        self.receiver = Receiver(
            self._provider,
            store,
            mount_path=settings.mount_path,
            sweep=settings.sweep and settings.bodies and store.log is not None,
            spool=settings.spool,
            keep_bodies=settings.bodies,
            observer=self._metrics() if settings.metrics else None,
        )
        self._tasks = [PeriodicTask(self._count_secrets, seconds=HOUR, name="count of secrets")]
        if store.log is not None:
            prune = partial(self._prune, store.log)
            self._tasks.append(PeriodicTask(prune, seconds=DAY, name="pruning of the log"))
        self.webhook = ASGI(self.receiver)
        self._dashboard = _dashboard(settings, store) if settings.dashboard else None
        self._drawn = ASGI(self._dashboard) if self._dashboard else self.webhook
        self._drawn_at = f"{dashboard_path(settings.mount_path)}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by its path; end when the server does."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            is_drawn = f"{scope['path']}/".startswith(self._drawn_at)
            other = self._drawn if is_drawn else self.webhook
            await self._pages.get(scope["path"], other)(scope, receive, send)

    def reload(self) -> None:
        """Accept from now on what the secret file says; where it is wrong, what it said before."""
        rate_limit.reset()  # whoever reloads wants to see each warning again
        self._count_secrets()
        try:
            self._provider.accept(*self._settings.accepted())
        except ConfigurationError as error:
            log.error(f"The secrets stay as they were. {error}")
        else:
            log.info("The secrets were read anew.")
            warn_of(check_secrets(self._settings))

    def close(self) -> None:
        """Record what waits, then leave the database."""
        for task in self._tasks:
            task.close(1.0)  # a batch of the log at most is left to the next start
        if self._dashboard is not None:
            self._dashboard.close(1.0)
        self.receiver.close(DRAIN)
        self._count_secrets()
        self._store.close()

    def _metrics(self) -> Observer:
        """Return what counts, and show the counts."""
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra of its own

        from hookrow.observability.endpoint import MetricsEndpoint  # noqa: PLC0415 - as above
        from hookrow.observability.metrics import Metrics  # noqa: PLC0415 - as above

        registry = CollectorRegistry()
        self._pages["/metrics"] = ASGI(MetricsEndpoint(registry))
        return Metrics(registry)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        # What is loaded by now stays: without this the garbage collector goes through it
        # again and again, and one notification in a hundred waits for 30 ms and more.
        gc.collect()
        gc.freeze()
        self.receiver.start()
        for task in self._tasks:
            task.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.to_thread(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    def _count_secrets(self) -> None:
        """Say how often each secret was used, where there is one to be given up."""
        used = self._provider.matched
        if len(used) > 1:
            told = ", ".join(map(str, used.values()))
            log.info("How often each secret was used, the newest first: %s.", told)

    def _prune(self, entries: LogReader) -> None:
        settings = self._settings
        count = sum(pruned(entries, keep=settings.keep, keep_bodies=settings.keep_bodies))
        if count:
            log.info("Pruned from the log, entries and bodies: %d.", count)


def _dashboard(settings: Settings, store: SQLStore) -> Dashboard:
    """Make the dashboard. Raises `ConfigurationError` where it would be open to everybody."""
    from hookrow.dashboard import served  # noqa: PLC0415 - an extra of its own

    return served(
        store,
        host=settings.host,
        password=settings.dashboard_password,
        access=settings.dashboard_access,
        path=dashboard_path(settings.mount_path),
        keep_bodies=settings.bodies,
    )


def warn_of(secret: Finding) -> None:
    """Log what the check of the secrets finds wanting."""
    if secret.level is Level.WARNING:
        log.warning(f"The webhook secret: {secret.text}")
