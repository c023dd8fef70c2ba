"""Retention: deletes entries and bodies of the log after a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hookrow.core.log_entry import PARKED_FOR
from hookrow.stores.log import LogReader


def pruned(
    log: LogReader, *, keep: timedelta | None, keep_bodies: timedelta | None
) -> Iterator[int]:
    """Delete entries and bodies by the age of their last arrival; yield the number in each batch.

    None keeps them forever. Parked notifications are kept until their retries end. Raises a
    `StoreError`.
    """
    now = datetime.now(UTC)
    for age, bodies_only in ((keep, False), (keep_bodies, True)):
        if age is not None:
            yield from log.prune(
                before=now - age, parked_before=now - PARKED_FOR, bodies_only=bodies_only
            )
