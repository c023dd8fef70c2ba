"""The periodic tasks of a receiver, and its spool; sqlite3 is loaded only if there is a spool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING

from hookrow.arguments import reject
from hookrow.concurrency import PeriodicTask
from hookrow.core.notification import Arrival
from hookrow.errors import ConfigurationError
from hookrow.observability.observer import COLLECT_EVERY, Observer
from hookrow.receiver.clock import Clock
from hookrow.receiver.hourly import HourlyCount
from hookrow.receiver.replay import OutcomesCallback
from hookrow.receiver.retry import SWEEP_EVERY, ParkedRetry

if TYPE_CHECKING:
    from hookrow.receiver.spool import Spool
    from hookrow.stores.sql import SQLStore


def open_spool(path: str | PathLike[str] | None, store: SQLStore) -> Spool | None:
    """Return the spool of a store at the path, if there is one. Raises `ConfigurationError`."""
    if path is None:
        return None
    given: object = path
    line = 'spool="/var/lib/hookrow/spool.db"'
    if not isinstance(given, str | PathLike) or not given:
        reject("spool", "the path of a file", given, line)
    if str(given) == ":memory:" or "://" in str(given):
        raise ConfigurationError(
            f"The spool keeps notifications in a file, not in memory or at a URL: write {line}."
        )
    from hookrow.receiver.spool import Spool  # noqa: PLC0415 - see the module's docstring

    return Spool(path, store.mapping_key)


def drain_task(
    spool: Spool,
    store: SQLStore,
    parse: Callable[[bytes, datetime], Arrival],
    on_outcomes: OutcomesCallback,
    clock: Clock,
    *,
    bodies: bool,
    swept: bool,
) -> PeriodicTask:
    """Return the task that drains the spool; the arguments are those of `Drain`."""
    from hookrow.receiver.drain import DRAIN_EVERY, Drain  # noqa: PLC0415 - as above
    from hookrow.receiver.spool import SPOOL_ERRORS  # noqa: PLC0415 - as above

    drain = Drain(spool, store, parse, on_outcomes, clock, bodies=bodies, swept=swept)
    name = "draining of the spool"
    return PeriodicTask(drain, seconds=DRAIN_EVERY, name=name, expected=SPOOL_ERRORS)


def other_tasks(
    hourly: HourlyCount | None, swept: ParkedRetry | None, observer: Observer | None
) -> Iterator[PeriodicTask]:
    """Yield the tasks that count the log, retry its parked notifications, and collect gauges."""
    if hourly is not None:
        yield hourly
    if swept is not None:
        yield PeriodicTask(swept.retry_due, seconds=SWEEP_EVERY, name="sweep")
    if observer is not None:
        yield PeriodicTask(observer.collect, seconds=COLLECT_EVERY, name="observer")
