"""The ASGI application of `hookrow serve`: the receiver, health checks, metrics and the dashboard.

Processes, signals and uvicorn are in `run` and `workers`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock, current_thread, main_thread
from typing import TYPE_CHECKING

from hookrow._concurrency import PeriodicTask
from hookrow._core.notification import Arrival, Outcome, Refusal
from hookrow._describe import describe_by_entry, pluralize
from hookrow._diagnostics.readiness import ReadinessHandler
from hookrow._diagnostics.status import StatusSource, sweep_of, webhook_states
from hookrow._diagnostics.status_reader import StatusReader
from hookrow._http import RequestHead, endpoint_path
from hookrow._observability.logging import outcome_name, rate_limit
from hookrow._observability.observer import GroupEnd, Observer
from hookrow._receiver.receiver import Receiver
from hookrow._server import RECEIVER, release_sighup
from hookrow._server.health import Liveness
from hookrow._server.preflight import require_password, warn_of_secret
from hookrow._server.settings import OwnEntrySettings, Settings, check_tenants, providers_of
from hookrow.asgi import ASGI, Receive, Scope, Send
from hookrow.errors import ConfigurationError
from hookrow.providers import Provider
from hookrow.providers._built_in import BuiltIn
from hookrow.stores._log_operations import DoubtfulClock, Retention
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._log import SQLLog

if TYPE_CHECKING:
    from hookrow._observability.metrics import Metrics
    from hookrow._postmark_api.status import ProviderWatch
    from hookrow.dashboard import Dashboard

logger = logging.getLogger("hookrow")

MINUTE_SECONDS = 60.0
HOUR_SECONDS = 60 * MINUTE_SECONDS
DAY_SECONDS = 24 * HOUR_SECONDS

DASHBOARD_USER = "hookrow"
"""The name of the user of the dashboard."""

DRAIN_TIMEOUT = 11
"""Seconds that a stopping server waits for requests in progress: 5 for the rest of a body,
5 for the response to it, and 1 until the sweep closes the other connections."""

RECORD_TIMEOUT = 7.0
"""Seconds that a stopping server records queued notifications before it spools the rest.
The group in progress is spooled, too, because the database has probably stopped responding."""

TASK_TIMEOUT = 0.5
"""Seconds that a stopping server waits for a task that the next start can continue."""


class Server:
    """The application, with its `receiver`, which the server's protocol calls directly.

    Raises a `HookrowError` if the settings are not valid, or if a package is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        check_tenants(settings.entries, settings.schema)
        self._providers: list[Provider] = [each.build() for each in settings.entries]
        self._store = store = SQLStore(settings.database_url, settings.schema)
        self._pages = {"/healthz": ASGI(Liveness())}
        summary = MinuteSummary()
        metrics = self._metrics() if settings.metrics else None
        self.receiver = Receiver(
            providers_of(settings.entries, self._providers),
            store,
            mount_path=settings.mount_path,
            sweep=settings.sweeps,
            acknowledge_tests=settings.acknowledge_tests,
            acknowledge_parked=settings.acknowledge_parked,
            acknowledge_spooled=settings.acknowledge_spooled,
            spool=settings.spool,
            keep_bodies=settings.bodies,
            observer=summary if metrics is None else [summary, metrics],
        )
        watches = self._watch()
        self._status = StatusReader(
            StatusSource(
                store=store,
                receiver=lambda: self.receiver,
                parsers=self.receiver.entries,
                sweep=lambda: sweep_of(self.receiver),
                webhooks=lambda: webhook_states(
                    {name: each.state for name, each in watches.items()}
                ),
            )
        )
        if metrics is not None:
            metrics.watch(self._status)
        self._pages["/readyz"] = ASGI(
            ReadinessHandler(self._status, can_spool=self.receiver.can_spool)
        )
        self._tasks = [
            PeriodicTask(self._log_secret_use, seconds=HOUR_SECONDS, name="count of secrets"),
            PeriodicTask(summary.log_counts, seconds=MINUTE_SECONDS, name="summary", later=True),
        ]
        if store.log is not None:
            prune = partial(self._prune, store.log)
            self._tasks.append(PeriodicTask(prune, seconds=DAY_SECONDS, name="pruning of the log"))
        self._tasks += watches.values()
        self._webhook = ASGI(self.receiver)
        self._dashboard = (
            _dashboard(settings, self.receiver, self._status, watches)
            if settings.dashboard
            else None
        )
        self._dashboard_app = ASGI(self._dashboard) if self._dashboard else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request by its path; start and stop with the server."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        else:
            mount = self._settings.dashboard_path
            if self._dashboard_app and f"{scope['path']}/".startswith(f"{mount}/"):
                await self._dashboard_app({**scope, "root_path": mount}, receive, send)
            elif page := self._pages.get(scope["path"]):
                # These admit every request, which is no reason to keep its connection.
                await page({**scope, "extensions": {}}, receive, send)
            else:
                await self._webhook(scope, receive, send)

    def reload(self) -> None:
        """Accept the credentials that are now in the secret files; those of a faulty file stay."""
        rate_limit.reset()  # so that each warning is logged again
        self._log_secret_use()
        failed = False
        for entry, provider in zip(self._settings.entries, self._providers, strict=True):
            if isinstance(entry, OwnEntrySettings) or not isinstance(provider, BuiltIn):
                continue  # hookrow does not know from where it reads its secrets
            try:
                provider.accept(*entry.read())
            except ConfigurationError as error:
                failed = True
                logger.error(f"The secrets were not reloaded. {error}")
            else:
                warn_of_secret(entry)
        if not failed:
            logger.info("The secrets were reloaded.")

    def close(self) -> None:
        """Record the queued notifications, then close the connections to the database."""
        for task in self._tasks:
            task.close(TASK_TIMEOUT)
        if self._dashboard is not None:
            self._dashboard.close(TASK_TIMEOUT)
        self.receiver.close(RECORD_TIMEOUT)
        self._status.close()
        self._log_secret_use()
        self._store.close()

    def _watch(self) -> Mapping[str | None, ProviderWatch]:
        """Return a task for each token that polls Postmark for the status of the webhooks."""
        settings = self._settings
        if not settings.provider_tokens:
            return {}
        from hookrow._postmark_api.status import watch_provider  # noqa: PLC0415 - seldom needed

        return watch_provider(
            settings.provider_tokens, settings.provider_api, self._store, self.receiver.entries
        )

    def _metrics(self) -> Metrics:
        """Return an observer that counts, and add the page with its counts."""
        from hookrow._observability import metrics  # noqa: PLC0415 - an extra

        registry = metrics.create_registry()
        self._pages["/metrics"] = ASGI(metrics.MetricsEndpoint(registry))
        return metrics.Metrics(registry)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        # Otherwise, the garbage collector would keep traversing the modules that are loaded by
        # now, and delay one notification in a hundred by 30 ms or more.
        gc.collect()
        gc.freeze()
        self.receiver.start()
        for task in self._tasks:
            task.start()
        scope.get("state", {})[RECEIVER] = self.receiver
        with _on_hangup(self.reload):
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await asyncio.to_thread(self.close)
        await send({"type": "lifespan.shutdown.complete"})

    def _log_secret_use(self) -> None:
        """Log how often each secret was used, if an old one is still accepted."""
        for entry, provider in zip(self._settings.entries, self._providers, strict=True):
            used = provider.matched
            if len(used) > 1:
                of_entry = "" if entry.name is None else f" of {entry.name}"
                counts = ", ".join(map(str, used.values()))
                logger.info(
                    "How often each secret%s was used, the newest first: %s.", of_entry, counts
                )

    def _prune(self, log: SQLLog) -> None:
        settings = self._settings
        retention = Retention(
            self._store, log, keep=settings.keep, keep_bodies=settings.keep_bodies
        )
        try:
            count = sum(retention.prune())
        except DoubtfulClock as error:
            logger.warning("%s", error)
            return
        if count:
            logger.info("Pruned from the log: %d.", count)


class MinuteSummary(Observer):
    """Counts outcomes by group, and requests without a valid secret, until `log_counts`."""

    def __init__(self) -> None:
        self._lock = Lock()  # for the writer's thread, the event loop and that of the task
        self._outcomes: Counter[str] = Counter()
        self._unauthentic: Counter[str] = Counter()

    def refused(self, head: RequestHead, refusal: Refusal, entry: str | None) -> None:
        """Count a request without a valid secret."""
        del head
        if refusal is Refusal.UNAUTHENTIC:
            with self._lock:
                self._unauthentic[entry or ""] += 1

    def begin_group(
        self, arrivals: Sequence[Arrival], contexts: Sequence[object | None]
    ) -> GroupEnd:
        """Return the function that counts the outcomes of the group."""
        del arrivals, contexts
        return self._count

    def log_counts(self) -> None:
        """Log the counts since the last call, one minute ago, unless there are none."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, Counter()
            unauthentic, self._unauthentic = self._unauthentic, Counter()
        if not outcomes and not unauthentic:
            return
        text = f"Received {pluralize(outcomes.total(), 'notification')} in the last minute"
        if outcomes:
            text += ": " + ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
        if unauthentic:
            text += f"; {pluralize(unauthentic.total(), 'request')} without a valid secret"
            text += describe_by_entry(unauthentic)
        logger.info("%s.", text)

    def _count(self, outcomes: Sequence[Outcome | None]) -> None:
        with self._lock:
            self._outcomes.update(outcome_name(each) for each in outcomes if each is not None)


@contextmanager
def _on_hangup(reload: Callable[[], object]) -> Iterator[None]:
    """Call a function on each SIGHUP during the block; ignore the signal afterwards.

    The event loop makes the calls, because a signal handler that interrupts a log line cannot log.
    """
    if current_thread() is not main_thread():  # only the main thread can handle signals
        yield
        return
    loop = asyncio.get_running_loop()
    # After `loop.remove_signal_handler`, a signal would terminate the process before it is ignored.
    signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(reload))
    release_sighup()
    yield
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _last_lines(watches: Mapping[str | None, ProviderWatch]) -> str | None:
    """Return the last lines about the webhooks, after the names of their entries if several."""
    lines = {name: watch.line for name, watch in watches.items() if watch.line is not None}
    named = (line if len(watches) == 1 else f"{name}: {line}" for name, line in lines.items())
    return " ".join(named) or None


def _dashboard(
    settings: Settings,
    receiver: Receiver,
    status: StatusReader,
    watches: Mapping[str | None, ProviderWatch],
) -> Dashboard:
    """Build the dashboard. Raises `ConfigurationError` if it would be open to all."""
    from hookrow.dashboard import Dashboard, basic  # noqa: PLC0415 - an extra

    password = settings.dashboard_password
    require_password(password, host=settings.host)
    return Dashboard(
        receiver.store,
        authorize=basic(DASHBOARD_USER, password or settings.generated_password),
        providers=receiver.entries,
        endpoint=endpoint_path(settings.mount_path),
        provider_status=partial(_last_lines, watches) if watches else None,
        status=status,
        keep_bodies=settings.bodies,
    )
