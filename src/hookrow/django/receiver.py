"""The receiver and the store of this process, built from the settings at first use."""

from __future__ import annotations

from functools import cache, partial
from os import PathLike
from threading import RLock
from typing import Any

from django.core.signals import setting_changed
from django.db import close_old_connections, connections
from django.db.transaction import on_commit

from hookrow.django.conf import conf
from hookrow.django.signals import heard, send
from hookrow.django.store import DjangoStore
from hookrow.notification import Arrival, Outcome
from hookrow.observing import Observer, Observers
from hookrow.periodic import LAST
from hookrow.postmark import Postmark
from hookrow.receiver import Receiver

_lock = RLock()

_CLOSING = 5.0
"""In seconds; how long what waits may take to be recorded by settings that are gone."""


def receiver() -> Receiver:
    """Return the receiver of this process. Raises `ConfigurationError`."""
    with _lock:
        return _receiver()


def store() -> DjangoStore:
    """Return the store of this process. Raises `ConfigurationError`."""
    with _lock:
        return _store()


class SyncReceiver(Receiver):
    """Records in the request's own thread, and sends the signals there."""

    def __init__(self, provider: Postmark, store: DjangoStore, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(provider, store, **options)
        self._using = store.using

    def ended(self, arrival: Arrival, outcome: Outcome) -> None:
        """Send the signal; inside a transaction of the host's when that is committed."""
        if connections[self._using].in_atomic_block:
            on_commit(partial(send, arrival, outcome), using=self._using)
        else:
            send(arrival, outcome)


class BatchReceiver(SyncReceiver):
    """Records in a thread of its own, and sends the signals in the hooks', where one listens."""

    def ended(self, arrival: Arrival, outcome: Outcome) -> None:
        """Have the signal sent; what a transaction of the host's recorded is not in that thread."""
        if connections[self._using].in_atomic_block:
            super().ended(arrival, outcome)
        elif heard(outcome):
            Receiver.ended(self, arrival, outcome)


@cache
def _store() -> DjangoStore:
    return DjangoStore(conf.tables, conf.database)


@cache
def _receiver() -> Receiver:
    observer = conf.observer
    looking = _Looking(observer) if observer is not None else None
    return built(_store(), spool=conf.spool, observer=looking)


class _Looking(Observers):
    """Looks in a thread whose connections no request opens and closes."""

    def look(self) -> None:
        """Have the observer look."""
        close_old_connections()
        try:
            super().look()
        finally:
            close_old_connections()


def built(
    store: DjangoStore, *, spool: str | PathLike[str] | None, observer: Observer | None = None
) -> Receiver:
    """Build a receiver as the settings say. Raises `ConfigurationError`."""
    conf.refuse_unknown()
    provider, options = Postmark(*conf.secrets), {"observer": observer, **_options()}
    if conf.group_commit:
        return BatchReceiver(provider, store, spool=spool, on_recorded=_send, on_refused=_send, **options)
    return SyncReceiver(provider, store, spool=spool, **options)


def _options() -> dict[str, Any]:
    return {"deadline": conf.deadline, "keep_bodies": conf.keep_bodies, "sweep": conf.sweep}


def _send(arrival: Arrival, outcome: Outcome) -> None:
    """Send the signal in the hook's thread, whose connections no request opens and closes."""
    close_old_connections()
    try:
        send(arrival, outcome)
    finally:
        close_old_connections()


def _forget(*, setting: str, **_: object) -> None:
    """Build anew after a test has overridden a setting."""
    if setting not in {"HOOKROW", "DATABASES", "INSTALLED_APPS"}:
        return
    with _lock:
        if _receiver.cache_info().currsize:
            _receiver().close(_CLOSING)
        _receiver.cache_clear()
        _store.cache_clear()


setting_changed.connect(_forget, dispatch_uid="hookrow.django")

LAST.add(connections.close_all)  # of the thread that ends: no request does it there
