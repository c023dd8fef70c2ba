"""Retention: how long the log keeps what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hookrow.stores.log import LogReader


def pruned(
    log: LogReader, *, keep: timedelta | None, keep_bodies: timedelta | None
) -> Iterator[int]:
    """Delete entries and bodies that last came longer ago; yield how many, batch by batch.

    None keeps them for ever. Raises a `StoreError`.
    """
    now = datetime.now(UTC)
    if keep is not None:
        yield from log.prune(before=now - keep, now=now, bodies_only=False)
    if keep_bodies is not None:
        yield from log.prune(before=now - keep_bodies, now=now, bodies_only=True)
