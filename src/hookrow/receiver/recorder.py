"""Records groups: finds, decides and writes in one transaction, and handles its failure.

A failed transaction changes nothing. Each response is therefore either the outcome of a commit,
or 503, after which the provider sends the notification again. Until then, hookrow keeps it: in
the log if the database failed on it, or in the spool if the database was unavailable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from random import uniform
from threading import Lock
from time import monotonic, sleep
from typing import Protocol

from hookrow.concurrency import reset_after_fork
from hookrow.core.log_entry import LogEntry
from hookrow.core.log_entry import entries as log_entries
from hookrow.core.notification import Arrival, Outcome, Refusal
from hookrow.core.rules import affected_rows, decide, fail, fail_locked, lookup_keys, merge
from hookrow.core.sizes import LARGEST_GROUP, TEXT_PER_BYTE
from hookrow.observability.logging import describe_arrival, describe_bug, request_ids
from hookrow.observability.observer import Observer
from hookrow.receiver.clock import utc_now
from hookrow.stores import UNCHANGED_HINT, Conflict, Locked, Rejected, Store, StoreError, Unchanged
from hookrow.stores.timeouts import LOCK_TIMEOUT, STORE_DEADLINE, left

PAUSES = (0.01, 0.03, 0.1, 0.3)
"""In seconds; the pauses before the retries of a group that conflicted with another one."""

RETRY_CONFLICTS_FOR = 5.0
"""In seconds; how long replays and manual operations retry on conflict."""

CHECKED_ATTEMPTS = 2
"""How often a group is tried again if a row that was found was not locked or changed: the row may
have been deleted, and another one may be deleted before the next attempt."""

PAUSE_AFTER_OUTAGE = 1.0
"""In seconds; after an outage, groups are refused for this long without an attempt."""

OUTAGE = 3
"""After this many unavailable outcomes in a row, the rest of the group is not attempted."""

_UNAVAILABLE = Refusal.UNAVAILABLE.refused()

log = logging.getLogger("hookrow")


def record(
    store: Store,
    arrivals: Sequence[Arrival],
    *,
    skip_locked: bool = False,
    checked: bool = False,
    bodies: bool = True,
    clock: Callable[[], datetime] = utc_now,
) -> list[Outcome]:
    """Record a group in one transaction: find its rows, decide on each arrival, write the changes.

    With `skip_locked`, arrivals whose rows are locked fail instead of waiting; `checked` is as in
    `Store.transaction`. All arrivals are
    added to the log, if there is one, with or without their `bodies`, and with the time of the
    `clock`. Raises a `StoreError` if the transaction fails and changes nothing.
    """
    store.claim_log()
    begin = store.transaction(skip_locked=skip_locked, checked=checked)
    with _one_large(arrivals), begin as transaction:
        rows = transaction.find(lookup_keys(arrivals))
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        if skip_locked:
            outcomes = fail_locked(outcomes, transaction.lock(affected_rows(outcomes)))
        entries = _log_entries(store, arrivals, outcomes, bodies=bodies, clock=clock)
        transaction.write(merge(outcomes), entries)
    return outcomes


def keep_failed(
    store: Store,
    arrivals: Sequence[Arrival],
    *,
    bodies: bool = True,
    clock: Callable[[], datetime] = utc_now,
) -> list[Outcome]:
    """Add arrivals to the log as failed, if there is a log; return their outcomes.

    Raises a `StoreError`.
    """
    outcomes = fail(arrivals)
    with _one_large(arrivals):
        failed = _log_entries(store, arrivals, outcomes, bodies=bodies, clock=clock)
        if failed:
            store.claim_log()
            with store.transaction() as transaction:
                transaction.write((), failed)
    return outcomes


def is_reachable(store: Store) -> bool:
    """Return whether the store accepts changes now."""
    try:
        store.probe()
    except StoreError:
        return False
    return True


class Attempt(Protocol):
    """Records a group in one transaction, or raises a `StoreError`."""

    def __call__(
        self, arrivals: Sequence[Arrival], *, skip_locked: bool = False, checked: bool = False
    ) -> list[Outcome]:
        """Record all arrivals; with `skip_locked`, fail those whose rows are locked."""


def retry_on_conflict(
    attempt: Attempt, arrivals: Sequence[Arrival], *, until: float, skip_locked: bool = False
) -> list[Outcome]:
    """Attempt to record a group until it succeeds, or until a time on the clock of `monotonic`.

    A conflict, such as a deadlock or a busy SQLite file, is retried at most four times. After a
    lock timeout, locked rows are skipped. After a row was left unchanged, the next attempt is
    checked, for which a row that has been deleted meanwhile does not exist; if the row is found and
    left unchanged again, the error is `Rejected`. Raises the last attempt's `StoreError`.
    """
    pauses = iter(PAUSES)
    unchanged = 0
    while True:
        try:
            return attempt(arrivals, skip_locked=skip_locked, checked=unchanged > 0)
        except Unchanged as error:
            unchanged += 1
            if unchanged > CHECKED_ATTEMPTS:
                raise Rejected(f"{error} {UNCHANGED_HINT}") from error
            if monotonic() > until:
                raise
        except Conflict:
            pause = next(pauses, None)
            if pause is None or monotonic() > until:
                raise
            # Without jitter, two groups that conflicted would conflict again.
            sleep(pause * uniform(0.5, 1.5))  # noqa: S311 - not cryptographic
        except Locked:
            if skip_locked or monotonic() > until:
                raise
            skip_locked = True


class GroupRecorder:
    """Records groups; after a failure, retries, splits or refuses them.

    No attempt begins later than `seconds` after the first one. Arrivals on which the store fails
    are logged as failed, with or without their `bodies`; the log's times are those of the `clock`.
    `spool` receives those that cannot be
    recorded because the store is unavailable. If the store can be reached, but fails on a group as
    if it were unavailable, at least one of the arrivals must be the cause, so they are recorded one
    by one.
    """

    def __init__(
        self,
        store: Store,
        *,
        bodies: bool,
        seconds: float,
        spool: Callable[[Sequence[Arrival]], object],
        clock: Callable[[], datetime] = utc_now,
        observer: Observer | None = None,
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._clock = clock
        self._seconds = seconds
        self._spool = spool
        self._observer = observer
        self._paused_until = 0.0
        self._down_since: float | None = None

    def __call__(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Return an outcome for each arrival. Never raises."""
        return self._record(arrivals, until=min(monotonic() + self._seconds, STORE_DEADLINE.get()))

    @property
    def is_paused(self) -> bool:
        """Whether groups are refused without an attempt, because of an outage a moment ago."""
        return monotonic() < self._paused_until

    def _record(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        now = monotonic()
        if now < self._paused_until or now > until:
            return self._unavailable(arrivals)
        try:
            outcomes = retry_on_conflict(self._attempt, arrivals, until=until)
        except (Conflict, Locked, Unchanged) as error:
            self._log_failure(logging.WARNING, arrivals, str(error))
        except Rejected as error:
            if len(arrivals) > 1:
                return self._record_singly(arrivals, until)
            _log_rejected(arrivals[0], error)
        except StoreError as error:
            return self._after_outage(arrivals, until, error)
        except Exception as error:  # noqa: BLE001 - the notification is kept, and sent again after 503
            self._pause(arrivals, describe_bug(error))
        else:
            if self._down_since is not None:
                log.warning(
                    "Notifications are recorded again, after %.0f s.", now - self._down_since
                )
                self._down_since = None
            return outcomes
        return self._failed(arrivals, until)

    def _attempt(
        self, arrivals: Sequence[Arrival], *, skip_locked: bool = False, checked: bool = False
    ) -> list[Outcome]:
        """Record a group, and report the attempt to the observer."""
        try:
            outcomes = record(
                self._store,
                arrivals,
                skip_locked=skip_locked,
                checked=checked,
                bodies=self._bodies,
                clock=self._clock,
            )
        except Exception as error:
            if self._observer is not None:
                self._observer.attempted(arrivals, error)
            raise
        if self._observer is not None:
            self._observer.attempted(arrivals, None)
        return outcomes

    def _after_outage(
        self, arrivals: Sequence[Arrival], until: float, error: StoreError
    ) -> list[Outcome]:
        if monotonic() > until or not is_reachable(self._store):
            self._pause(arrivals, str(error))
        elif len(arrivals) > 1:
            return self._record_singly(arrivals, until)
        else:
            _log_rejected(arrivals[0], error)
        return self._unavailable(arrivals)

    def _record_singly(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        """Record arrivals one by one, until the store is unavailable to several in a row."""
        outcomes: list[Outcome] = []
        for number, arrival in enumerate(arrivals):
            if outcomes[-OUTAGE:] == [_UNAVAILABLE] * OUTAGE:
                return outcomes + self._unavailable(arrivals[number:])
            outcomes += self._record([arrival], until)
        return outcomes

    def _failed(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        if monotonic() > until:
            return self._unavailable(arrivals)
        try:
            return keep_failed(self._store, arrivals, bodies=self._bodies, clock=self._clock)
        except Exception as error:  # noqa: BLE001 - the spool can still keep them
            log.error("The log cannot be written: %s: %s", type(error).__name__, error)
            self._spool(arrivals)
            return fail(arrivals)

    def _unavailable(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        self._spool(arrivals)
        return fail(arrivals, Refusal.UNAVAILABLE)

    def _pause(self, arrivals: Sequence[Arrival], why: str) -> None:
        now = monotonic()
        self._paused_until = now + PAUSE_AFTER_OUTAGE
        if self._down_since is None:
            self._down_since = now
        self._log_failure(logging.ERROR, arrivals, why)

    def _log_failure(self, level: int, arrivals: Sequence[Arrival], why: str) -> None:
        requests = request_ids(arrivals)
        named = f" (requests {', '.join(requests)})" if requests else ""
        log.log(
            level,
            "Returned 503 to %s%s: %s",
            "1 notification" if len(arrivals) == 1 else f"{len(arrivals)} notifications",
            named,
            why,
            extra={"request_ids": requests},
        )


def _log_rejected(arrival: Arrival, error: StoreError) -> None:
    # Without a traceback, which may quote the row.
    log.error(
        "The database rejected %s: %s",
        describe_arrival(arrival),
        error,
        extra={"request_id": arrival.request_id},
    )


def _log_entries(
    store: Store,
    arrivals: Sequence[Arrival],
    outcomes: Sequence[Outcome],
    *,
    bodies: bool,
    clock: Callable[[], datetime],
) -> Sequence[LogEntry]:
    if store.log is None:
        return ()
    return log_entries(arrivals, outcomes, clock(), bodies=bodies)


class _LargeArrivals:
    """Lets one thread at a time write an arrival whose text may be larger than `LARGEST_GROUP`.

    Such text may take about 50 MiB of memory on its way to the database.
    """

    _lock: Lock

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no thread writes a large arrival. Raises `Locked` after the lock timeout."""
        lock = self._lock  # `reset` replaces it in a child process
        if not lock.acquire(timeout=max(min(left(), LOCK_TIMEOUT), 0)):
            raise Locked("Another large notification is being written.")
        try:
            yield
        finally:
            lock.release()

    def reset(self) -> None:
        """Replace the lock, because a fork may have copied it while it was locked."""
        self._lock = Lock()


_large_arrivals = _LargeArrivals()
_no_lock = nullcontext()


def _one_large(arrivals: Sequence[Arrival]) -> AbstractContextManager[None]:
    """Return the lock for large arrivals if the group is a single large one, otherwise no lock."""
    if len(arrivals) == 1 and len(arrivals[0].body) * TEXT_PER_BYTE > LARGEST_GROUP:
        return _large_arrivals.locked()
    return _no_lock
