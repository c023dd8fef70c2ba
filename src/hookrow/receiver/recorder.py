"""Recording: find, decide and write, all of a group in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from random import uniform
from threading import Lock
from time import monotonic, perf_counter, sleep
from traceback import format_tb
from typing import Protocol, TypeAlias

from hookrow.concurrency import reset_after_fork
from hookrow.core.log_entry import LogEntry, entries, written_size
from hookrow.core.notification import Arrival, Outcome, Refusal
from hookrow.core.rules import affected_rows, decide, fail, fail_locked, lookup_keys, merge
from hookrow.observability.logging import describe_arrival, log_group, request_ids
from hookrow.observability.observer import Observer
from hookrow.receiver.sizes import LARGEST_GROUP
from hookrow.stores import Conflict, Locked, Rejected, Store, StoreError
from hookrow.stores.timeouts import LOCK_TIMEOUT, left

log = logging.getLogger("hookrow")

Work: TypeAlias = Callable[[Sequence[Arrival]], list[Outcome]]


class _OneLarge:
    """Lets one notification at a time be written that is larger than a group may be.

    Its text takes some 50 MiB on its way to the database, in each thread that writes one.
    """

    _lock: Lock

    def __init__(self) -> None:
        self.reset()
        reset_after_fork(self)

    @contextmanager
    def __call__(self, arrivals: Sequence[Arrival]) -> Iterator[None]:
        """Wait until no other is written. Raises `Locked` if that takes too long."""
        if len(arrivals) != 1 or written_size(arrivals[0]) <= LARGEST_GROUP:
            yield
            return
        lock = self._lock  # a child process has another
        if not lock.acquire(timeout=max(min(left(), LOCK_TIMEOUT), 0)):
            raise Locked("Another large notification is being written.")
        try:
            yield
        finally:
            lock.release()

    def reset(self) -> None:
        """Begin anew: nothing is being written."""
        self._lock = Lock()


_one_large = _OneLarge()


def record(
    store: Store, arrivals: Sequence[Arrival], *, skip_locked: bool = False, bodies: bool = True
) -> list[Outcome]:
    """Find what the arrivals mention, decide on each, merge and save: one transaction.

    With `skip_locked` those whose rows are held by others fail instead of waiting.
    The log, where there is one, keeps them, with their `bodies` or without. Raises a
    `StoreError`; then nothing is changed.
    """
    with _one_large(arrivals), store.transaction(skip_locked=skip_locked) as transaction:
        rows = transaction.find(lookup_keys(arrivals))
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        if skip_locked:
            outcomes = fail_locked(outcomes, transaction.lock(affected_rows(outcomes)))
        transaction.write(merge(outcomes), _kept(store, arrivals, outcomes, bodies=bodies))
    return outcomes


def keep_failed(store: Store, arrivals: Sequence[Arrival], *, bodies: bool = True) -> None:
    """Keep in the log, where there is one, that the work on the arrivals failed.

    It is evidence, and what is tried again. Raises a `StoreError`.
    """
    with _one_large(arrivals):
        kept = _kept(store, arrivals, fail(arrivals), bodies=bodies)
        if kept:
            with store.transaction() as transaction:
                transaction.write((), kept)


def is_reachable(store: Store) -> bool:
    """Tell whether the store can begin a transaction and commit it."""
    try:
        with store.transaction() as transaction:
            transaction.lock(())  # or PostgreSQL would be asked nothing
    except StoreError:
        return False
    return True


def _kept(
    store: Store, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome], *, bodies: bool
) -> Sequence[LogEntry]:
    if store.log is None:
        return ()
    return entries(arrivals, outcomes, datetime.now(UTC), bodies=bodies)


PAUSES = (0.01, 0.03, 0.1, 0.3)
"""In seconds; how long a group that met another waits before it tries again."""

PATIENCE = 5.0
"""In seconds; how long what is done by a command or by hand, and meets others, is tried again."""

REST = 1.0
"""In seconds; how long a store that could not be reached is left alone."""

OUTAGE = 3
"""In notifications; if the store is unavailable to so many in succession, it is to all."""

_UNAVAILABLE = Refusal.UNAVAILABLE.refused()

_ANSWERING = "Answering %d notifications 503%s: %s"


class Attempt(Protocol):
    """Records a group in one transaction, or raises a `StoreError`."""

    def __call__(self, arrivals: Sequence[Arrival], *, skip_locked: bool = False) -> list[Outcome]:
        """Record them all; with `skip_locked` refuse those whose rows are held."""


class Retry:
    """Makes attempts at a group until it is recorded, refused, or out of time.

    A group begins no further attempt once `seconds` have passed. Arrivals whose work
    failed are handed to `fail`, which may raise a `StoreError`; those for which there
    is no database just now, to `spool`. If the store is unavailable to a group but
    `reachable`, some of the arrivals must be the cause: they are recorded one by one.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        fail: Callable[[Sequence[Arrival]], object],
        reachable: Callable[[], bool],
        spool: Callable[[Sequence[Arrival]], object],
        seconds: float,
    ) -> None:
        self._attempt = attempt
        self._fail = fail
        self._reachable = reachable
        self._spool = spool
        self._seconds = seconds
        self._resting_until = 0.0

    def __call__(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Return an outcome for each arrival. Never raises."""
        return self._record(arrivals, until=monotonic() + min(self._seconds, left()))

    def _record(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        now = monotonic()
        if now < self._resting_until or now > until:
            return self._unavailable(arrivals)
        try:
            return retry_on_conflict(self._attempt, arrivals, until=until)
        except (Conflict, Locked) as error:
            log.warning(
                _ANSWERING, *_told(arrivals), error, extra={"request_ids": request_ids(arrivals)}
            )
        except Rejected as error:
            if len(arrivals) > 1:
                return self._record_singly(arrivals, until)
            self._refused(arrivals[0], error)
        except StoreError as error:
            if monotonic() > until or not self._reachable():
                self._rest(arrivals, str(error))
            elif len(arrivals) > 1:
                return self._record_singly(arrivals, until)
            else:
                self._refused(arrivals[0], error)
            return self._unavailable(arrivals)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is lost by a 503
            place = "".join(format_tb(error.__traceback__))
            self._rest(arrivals, f"{type(error).__name__}, a fault to be reported, at\n{place}")
        return self._failed(arrivals, until)

    def _record_singly(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        """Record one by one, unless the store is unavailable to several in succession."""
        outcomes: list[Outcome] = []
        for number, arrival in enumerate(arrivals):
            if outcomes[-OUTAGE:] == [_UNAVAILABLE] * OUTAGE:
                return outcomes + self._unavailable(arrivals[number:])
            outcomes += self._record([arrival], until)
        return outcomes

    def _refused(self, arrival: Arrival, error: StoreError) -> None:
        # No traceback: it may quote the row.
        log.error(
            "The database refuses %s: %s",
            describe_arrival(arrival),
            error,
            extra={"request_id": arrival.request_id},
        )

    def _failed(self, arrivals: Sequence[Arrival], until: float) -> list[Outcome]:
        if monotonic() > until:
            return self._unavailable(arrivals)
        try:
            self._fail(arrivals)
        except Exception as error:  # noqa: BLE001 - there is still the spool
            log.error("The log cannot be written: %s: %s", type(error).__name__, error)
            self._spool(arrivals)
        return fail(arrivals)

    def _unavailable(self, arrivals: Sequence[Arrival]) -> list[Outcome]:
        self._spool(arrivals)
        return fail(arrivals, Refusal.UNAVAILABLE)

    def _rest(self, arrivals: Sequence[Arrival], why: str) -> None:
        self._resting_until = monotonic() + REST
        log.error(_ANSWERING, *_told(arrivals), why, extra={"request_ids": request_ids(arrivals)})


def retry_on_conflict(
    attempt: Attempt, arrivals: Sequence[Arrival], *, until: float, skip_locked: bool = False
) -> list[Outcome]:
    """Attempt until it is done or `until` has come (of `monotonic`). Raises a `StoreError`."""
    pauses = iter(PAUSES)
    while True:
        try:
            return attempt(arrivals, skip_locked=skip_locked)
        except Conflict:
            pause = next(pauses, None)
            if pause is None or monotonic() > until:
                raise
            # Without jitter two groups that met would meet again.
            sleep(pause * uniform(0.5, 1.5))  # noqa: S311 - no secret hangs on it
        except Locked:
            if skip_locked or monotonic() > until:
                raise
            skip_locked = True


def _told(arrivals: Sequence[Arrival]) -> tuple[int, str]:
    """Return how many there are, and which."""
    named = ", ".join(request_ids(arrivals))
    return len(arrivals), f", requests {named}" if named else ""


def observed(work: Work, observer: Observer) -> Work:
    """Return the work on a group such that the observer, and the log at debug level, hear of it."""

    def observed_work(arrivals: Sequence[Arrival]) -> list[Outcome]:
        ended = observer.begin_group(arrivals, [each.context for each in arrivals])
        began = perf_counter()
        outcomes = work(arrivals)
        if ended is not None:
            ended(outcomes)
        log_group(arrivals, outcomes, perf_counter() - began)
        return outcomes

    return observed_work


def attempted(attempt: Attempt, observer: Observer) -> Attempt:
    """Return the attempt such that the observer hears of each."""

    def observed_attempt(
        arrivals: Sequence[Arrival], *, skip_locked: bool = False
    ) -> list[Outcome]:
        try:
            outcomes = attempt(arrivals, skip_locked=skip_locked)
        except Exception as error:
            observer.attempted(arrivals, error)
            raise
        observer.attempted(arrivals, None)
        return outcomes

    return observed_attempt
