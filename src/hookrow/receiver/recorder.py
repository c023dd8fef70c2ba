"""Recording: find, decide and write, all of a group in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock

from hookrow.concurrency import reset_after_fork
from hookrow.core.log_entry import LogEntry, entries, written_size
from hookrow.core.notification import Arrival, Outcome
from hookrow.core.rules import affected_rows, decide, fail, fail_locked, lookup_keys, merge
from hookrow.receiver.sizes import LARGEST_GROUP
from hookrow.stores import Locked, Store, StoreError
from hookrow.stores.timeouts import LOCK_TIMEOUT, left


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
