"""Recording: find, decide and write, all of a group in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hookrow.decide import decide, fail, mentioned, merge, refuse_held, wanted
from hookrow.entry import Entry, entries
from hookrow.notification import Arrival, Outcome
from hookrow.stores import Store, StoreError


def record(
    store: Store, arrivals: Sequence[Arrival], *, skip_locked: bool = False, bodies: bool = True
) -> list[Outcome]:
    """Find what the arrivals mention, decide on each, merge and save: one transaction.

    With `skip_locked` those whose rows are held by others fail instead of waiting.
    The log, where there is one, keeps them, with their `bodies` or without. Raises a
    `StoreError`; then nothing is changed.
    """
    with store.transaction(skip_locked=skip_locked) as transaction:
        rows = transaction.find(mentioned(arrivals))
        outcomes = [decide(arrival, rows) for arrival in arrivals]
        if skip_locked:
            outcomes = refuse_held(outcomes, transaction.lock(wanted(outcomes)))
        transaction.write(merge(outcomes), _kept(store, arrivals, outcomes, bodies=bodies))
    return outcomes


def keep_failed(store: Store, arrivals: Sequence[Arrival], *, bodies: bool = True) -> None:
    """Keep in the log, where there is one, that the work on the arrivals failed.

    It is evidence, and what is tried again. Raises a `StoreError`.
    """
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
) -> Sequence[Entry]:
    if store.log is None:
        return ()
    return entries(arrivals, outcomes, datetime.now(UTC), bodies=bodies)
