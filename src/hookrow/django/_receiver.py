"""The receiver and the store of this process, built from the settings on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from os import PathLike
from threading import RLock
from typing import Any

from django.core.signals import setting_changed
from django.db import close_old_connections, connections
from django.db.transaction import on_commit

from hookrow._arguments import spelled
from hookrow._core.notification import Arrival, Outcome, Recorded
from hookrow._observability.observer import Observer, Observers
from hookrow._receiver.entries import Parsers, Providers, introduce
from hookrow._receiver.receiver import Receiver
from hookrow.django._conf import conf, option_names
from hookrow.django._store import DjangoStore
from hookrow.django.signals import NotificationSignal, notification_recorded, notification_refused
from hookrow.stores._log import RequestKind

_lock = RLock()

_CLOSE_TIMEOUT = 5.0
"""Seconds to wait until a replaced receiver has recorded its queue."""


def receiver() -> Receiver:
    """Return the receiver of this process, for example for `retry_now` after a commit.

    Raises `ConfigurationError` if a setting is invalid.
    """
    with _lock:
        return _receiver()


def built_receiver() -> Receiver | None:
    """Return the receiver of this process, or None if nothing has used it yet."""
    with _lock:
        return _receiver() if _receiver.cache_info().currsize else None


def store() -> DjangoStore:
    """Return the store of this process, an `SQLStore`, for example for `StoreContract`.

    Raises `ConfigurationError` if a setting is invalid.
    """
    with _lock:
        _parsers()  # whose entries the store knows from now on
        return _store()


def parsers() -> Parsers:
    """Return the entries that read the log, which the store knows from now on.

    Raises `ConfigurationError` if a setting is invalid.
    """
    with _lock:
        return _parsers()


class SyncReceiver(Receiver):
    """Records in the thread of the request, and sends signals there."""

    def __init__(self, providers: Providers, store: DjangoStore, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(providers, store, **options)
        self._using = store.using

    def on_outcome(self, arrival: Arrival, outcome: Outcome) -> None:
        """Send the signal; inside a transaction of the project, send it after the commit."""
        if connections[self._using].in_atomic_block:
            on_commit(partial(_notify, arrival, outcome), using=self._using)
        else:
            _notify(arrival, outcome)

    def _count_requests(self, kind: RequestKind, entry: str | None, number: int = 1, /) -> None:
        """Count requests, except in a transaction such as a `TestCase`'s.

        There, the thread that counts would use the test's connection, or outlive its database.
        """
        if not connections[self._using].in_atomic_block:
            super()._count_requests(kind, entry, number)


class BatchReceiver(SyncReceiver):
    """Records in a separate thread, and sends signals in the hook thread."""

    def on_outcome(self, arrival: Arrival, outcome: Outcome) -> None:
        """Queue the signal if it has listeners.

        Inside a transaction of the project, the transaction's thread sends it after the commit.
        """
        if connections[self._using].in_atomic_block:
            super().on_outcome(arrival, outcome)
        elif _signal(outcome).has_listeners(Receiver):
            Receiver.on_outcome(self, arrival, outcome)


def build_receiver(
    store: DjangoStore,
    *,
    spool: str | PathLike[str] | None,
    acknowledge_spooled: bool,
    observer: Observer | None = None,
) -> Receiver:
    """Build a receiver from the other settings. Raises `ConfigurationError`."""
    conf.check_names()
    options: dict[str, Any] = {
        "spool": spool,
        "observer": observer,
        "deadline": conf.deadline,
        "keep_bodies": conf.keep_bodies,
        "sweep": conf.sweep,
        "acknowledge_tests": conf.acknowledge_tests,
        "acknowledge_parked": conf.acknowledge_parked,
        "acknowledge_spooled": acknowledge_spooled,
    }
    providers = conf.build_providers()
    kind = SyncReceiver
    if conf.group_commit:
        kind = BatchReceiver
        options |= {"on_recorded": _notify_in_thread, "on_refused": _notify_in_thread}
    with spelled(option_names()):
        return kind(providers, store, **options)


@cache
def _store() -> DjangoStore:
    return DjangoStore(conf.tables, conf.database)


@cache
def _parsers() -> Parsers:
    found = conf.parsers()
    with spelled(option_names()):
        introduce(found, _store())
    return found


@cache
def _receiver() -> Receiver:
    observer = _Observers(*conf.observer) if conf.observer else None
    return build_receiver(
        _store(),
        spool=conf.spool,
        acknowledge_spooled=conf.acknowledge_spooled,
        observer=observer,
    )


class _Observers(Observers):
    """Closes old connections of the thread that collects the gauges."""

    def collect(self) -> None:
        """Collect the gauges of each observer."""
        with own_connections():
            super().collect()


def _notify(arrival: Arrival, outcome: Outcome) -> None:
    _signal(outcome).notify(arrival, outcome)


def _notify_in_thread(arrival: Arrival, outcome: Outcome) -> None:
    """Send the signal in the hook thread."""
    with own_connections():
        _notify(arrival, outcome)


def _signal(outcome: Outcome) -> NotificationSignal:
    return notification_recorded if isinstance(outcome, Recorded) else notification_refused


@contextmanager
def own_connections() -> Iterator[None]:
    """Close old connections of the thread, as Django does before and after a request."""
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def _rebuild(*, setting: str, **_: object) -> None:
    """Discard the receiver and the store after a test has overridden a setting."""
    if setting not in {"HOOKROW", "DATABASES", "INSTALLED_APPS"}:
        return
    with _lock:
        if _receiver.cache_info().currsize:
            _receiver().close(_CLOSE_TIMEOUT)
        _receiver.cache_clear()
        _parsers.cache_clear()
        _store.cache_clear()


setting_changed.connect(_rebuild, dispatch_uid="hookrow.django")
