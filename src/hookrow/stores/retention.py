"""Prunes a log by age."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hookrow.core.result import PARKED_FOR
from hookrow.stores.log import BATCH, LogReader


def prune_old(
    log: LogReader, *, keep: timedelta | None, keep_bodies: timedelta | None
) -> Iterator[int]:
    """Delete entries and bodies by the age of their last arrival; yield the number in each batch.

    `keep` and `keep_bodies` are the maximum ages, or None for no limit. Parked notifications are
    kept until their retries end. Raises a `StoreError`.
    """
    now = datetime.now(UTC)
    for age, bodies_only in ((keep, False), (keep_bodies, True)):
        if age is not None:
            yield from log.prune(
                before=now - age, parked_before=now - PARKED_FOR, bodies_only=bodies_only
            )


def estimate_batches(
    log: LogReader, *, keep: timedelta | None, keep_bodies: timedelta | None
) -> int:
    """Return about how many batches `prune_old` yields, at most: by the ids of old entries.

    The ids are found in the primary key, so the size of the log does not matter. Raises a
    `StoreError`.
    """
    now, (first, _) = datetime.now(UTC), log.bounds() or (1, 0)
    ages = [age for age in (keep, keep_bodies) if age is not None]
    return sum((log.first_id_since(now - age) - first) // BATCH + 1 for age in ages)
