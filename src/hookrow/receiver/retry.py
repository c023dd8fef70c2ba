"""Retry: records parked notifications when their rows exist or the database works again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from math import inf
from time import sleep
from typing import TypeAlias

from hookrow.core.log_entry import StoredEntry
from hookrow.core.notification import Recorded
from hookrow.core.rules import is_message_id
from hookrow.errors import ConfigurationError
from hookrow.providers import BodyParser
from hookrow.providers.postmark import Postmark
from hookrow.receiver.batch import BatchWriter, QueueFull
from hookrow.receiver.clock import Clock
from hookrow.receiver.replay import GROUP, PAUSE, OutcomesCallback, arrivals_of, replay_ready
from hookrow.stores import Store
from hookrow.stores.log import LogReader

SWEEP_EVERY = 60.0
"""In seconds; the interval between two sweeps."""

MOST = 1000
"""The largest number of notifications in a sweep; the others wait for the next sweep."""

_Call: TypeAlias = tuple[Future[int], Sequence[str]]
"""A call of `retry_now`: its result and the message ids."""


class ParkedRetry:
    """Retries the parked notifications of a log.

    `parser` is the receiver's provider. `on_outcomes` receives the arrivals whose rows exist, and
    their outcomes; `clock` returns the time.
    """

    def __init__(
        self,
        store: Store,
        log: LogReader,
        parser: BodyParser,
        on_outcomes: OutcomesCallback,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._log = log
        self._parser = parser
        self._providers = [Postmark.name, parser.name]
        self._on_outcomes = on_outcomes
        self._clock = clock or Clock(store)
        self._calls: BatchWriter[_Call, None] = BatchWriter(
            self._run, fallback=lambda _: None, deadline=inf, group=1, name="retry"
        )

    def retry_due(self) -> int:
        """Retry the notifications that are due; return the number of recorded ones.

        Raises a `StoreError`; the notifications taken before the error become due again later.
        """
        self._clock.measure()  # a wrong time would end the retries of entries that seem too old
        self._store.check_mapping()  # before an entry is taken and its next retry postponed
        recorded = taken = 0
        while taken < MOST:
            due = self._log.due(
                self._clock(), providers=self._providers, limit=min(GROUP, MOST - taken)
            )
            if not due:
                break
            recorded += self._record(due)
            taken += len(due)
            sleep(PAUSE)
        return recorded

    def retry_now(self, message_ids: Sequence[str]) -> Future[int]:
        """Retry the parked notifications of these messages in a thread, one call at a time.

        The future's `result()` returns the number of recorded notifications, or raises a
        `StoreError`. The number is 0 after `close`, if the queue of calls is full, or if no thread
        can be started.
        """
        future: Future[int] = Future()
        try:
            self._calls.put((future, [*filter(is_message_id, message_ids)]))
        except QueueFull:
            future.set_result(0)
        return future

    def close(self, timeout: float | None = None) -> None:
        """Accept no more calls of `retry_now`; wait up to `timeout` seconds for earlier ones."""
        self._calls.close(timeout)

    def _run(self, calls: Sequence[_Call]) -> Sequence[None]:
        [(future, message_ids)] = calls
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(self._retry(message_ids))
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                future.set_exception(error)
        return [None]

    def _retry(self, message_ids: Sequence[str]) -> int:
        self._clock.measure()
        self._store.check_mapping()
        return sum(
            self._record(entries)
            for start in range(0, len(message_ids), GROUP)
            for entries in self._find(message_ids[start : start + GROUP])
        )

    def _find(self, message_ids: Sequence[str]) -> Iterator[Sequence[StoredEntry]]:
        """Yield the parked entries of these messages in groups, oldest first."""
        last = 0
        while entries := self._log.parked(message_ids, after=last):
            yield entries
            last = entries[-1].id

    def _record(self, found: Sequence[StoredEntry]) -> int:
        arrivals = arrivals_of(self._store, found, self._parser, self._clock())
        if not arrivals:
            return 0
        ready, outcomes = replay_ready(self._store, arrivals, self._clock)
        self._on_outcomes(ready, outcomes)
        return sum(isinstance(outcome, Recorded) for outcome in outcomes)


def check_retries(store: Store, *, bodies: bool, sweep: bool, acknowledge_parked: bool) -> None:
    """Raise `ConfigurationError` if an option needs another one that is missing."""
    if sweep and store.log is None:
        raise ConfigurationError("The sweep needs a log: add a log, or omit `sweep`.")
    if sweep and not bodies:
        raise ConfigurationError("The sweep needs bodies: keep them, or omit `sweep`.")
    if acknowledge_parked and not sweep:
        raise ConfigurationError(
            "`acknowledge_parked` needs the sweep, because the provider does not send an "
            "acknowledged notification again: add `sweep`, or omit `acknowledge_parked`."
        )
