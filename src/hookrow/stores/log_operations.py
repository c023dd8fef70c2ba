"""Operations on the log of any store: totals, bodies of listed entries, and pruning by age."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from hookrow.core.log_entry import StoredEntry
from hookrow.core.result import PARKED_FOR
from hookrow.stores.log import BATCH, Count, LogReader, Query

PORTION = 64
"""The largest number of bodies that `with_bodies` reads at once."""


def totals(log: LogReader) -> Sequence[Count]:
    """Count the entries of all times, in one bucket; return no counts if entries are missing.

    Reads all hourly counts, and the entries not included in them. Raises a `StoreError`.
    """
    found = log.counts(datetime.fromtimestamp(0, UTC), timedelta(days=1_000_000))
    return found.counts if found.complete_since is None else ()


def with_bodies(log: LogReader, listed: Sequence[StoredEntry]) -> Iterator[StoredEntry]:
    """Yield entries that were listed by id, in either order, without bodies, with their bodies.

    Reads the bodies of at most one group at a time. Entries that have been deleted are omitted.
    """
    ids = [each.id for each in listed]
    read = log.oldest if ids == sorted(ids) else log.newest
    while ids:
        entries = read(Query(ids=ids[:PORTION]), limit=PORTION)
        yield from entries
        ids = ids[ids.index(entries[-1].id) + 1 :] if entries else ids[PORTION:]


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
