"""Retention: which entries and bodies are deleted from the log, and which never are."""

from datetime import UTC, datetime, timedelta

import pytest
from receiving import people

from hookrow import Arrival, Opened, Recorded, Refusal
from hookrow.core.log_entry import entries
from hookrow.stores.log_operations import prune_old
from times import DAY

AGES = (0, 1, 10, 100)
"""In days; how long ago entries arrived, one recorded and one parked of each age."""


@pytest.mark.parametrize(
    ("keep", "keep_bodies", "left", "with_body"),
    [
        (None, None, 8, 8),
        (5 * DAY, None, 4, 4),
        (timedelta(hours=1), None, 3, 3),
        (90 * DAY, 5 * DAY, 6, 4),
        (None, timedelta(0), 8, 2),
        (5 * DAY, 90 * DAY, 4, 4),
    ],
)
def test_old_entries_or_bodies_are_deleted_unless_parked(
    keep: timedelta | None, keep_bodies: timedelta | None, left: int, with_body: int
) -> None:
    database, now = people(), datetime.now(UTC)
    for outcome in (Recorded(()), Refusal.SUBSCRIBER_NOT_FOUND.refused()):
        for days in AGES:
            notification = Opened("ada@example.com", "m-1", now)
            arrival = Arrival(notification, f"{outcome} {days}".encode(), now - days * DAY)
            with database.transaction() as transaction:
                transaction.write((), entries([arrival], [outcome], arrival.received_at))
    assert database.log is not None
    counts = list(prune_old(database.log, keep=keep, keep_bodies=keep_bodies))
    kept = database.logged()
    assert len(kept) == left
    assert sum(entry.body is not None for entry in kept) == with_body
    assert sum(counts) == (8 - left) + (left - with_body)
