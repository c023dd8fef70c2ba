"""Retention: which entries and bodies are deleted from the log, and which never are."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from receiving import NOON, Database, people

from hookrow import Arrival, Opened, Recorded, Refusal
from hookrow._core.log_entry import log_entries
from hookrow.stores._log_operations import DoubtfulClock, Retention
from times import DAY, HOUR

MOMENT = timedelta(microseconds=1)


class Server(Database):
    """A database with a clock of its own."""

    now: datetime | None = None

    def time(self) -> datetime | None:
        return self.now


def retention(database: Database, **options: Any) -> Retention:  # noqa: ANN401 - of Retention
    assert database.log is not None
    return Retention(database, database.log, **{"keep": None, "keep_bodies": None, **options})


def with_entries(*ages: timedelta) -> Server:
    """Return a database with recorded entries that arrived so long before noon."""
    database = Server()
    for age in ages:
        arrived = Arrival((Opened("ada@example.com", "m-1", NOON),), str(age).encode(), NOON - age)
        with database.transaction() as transaction:
            transaction.write((), log_entries([arrived], [Recorded(())], NOON - age))
    return database


AGES = (0, 1, 10, 100)
"""In days; how long ago entries arrived, one recorded and one parked of each age."""


@pytest.mark.parametrize(
    ("keep", "keep_bodies", "left", "with_body"),
    [
        (None, None, 8, 8),
        (5 * DAY, None, 4, 4),
        (timedelta(hours=1), None, 3, 3),
        (90 * DAY, 5 * DAY, 6, 5),
        (None, timedelta(0), 8, 4),
        (5 * DAY, 90 * DAY, 4, 4),
    ],
)
def test_old_entries_or_bodies_are_deleted_unless_parked(
    keep: timedelta | None, keep_bodies: timedelta | None, left: int, with_body: int
) -> None:
    """An entry that was not recorded keeps its body."""
    database, now = people(), datetime.now(UTC)
    for outcome in (Recorded(()), Refusal.SUBSCRIBER_NOT_FOUND.refused()):
        for days in reversed(AGES):  # the log would keep its last entry at any age
            notification = Opened("ada@example.com", "m-1", now)
            arrival = Arrival((notification,), f"{outcome} {days}".encode(), now - days * DAY)
            with database.transaction() as transaction:
                transaction.write((), log_entries([arrival], [outcome], arrival.received_at))
    counts = list(retention(database, keep=keep, keep_bodies=keep_bodies, sure=True).prune())
    kept = database.logged()
    assert len(kept) == left
    assert sum(entry.body is not None for entry in kept) == with_body
    assert sum(counts) == (8 - left) + (left - with_body)


def at_noon() -> datetime:
    return NOON


@pytest.mark.parametrize(
    ("clock", "sure", "pruned"),
    [
        (None, False, None),
        (None, True, 2),
        # A quiet receiver: the database's clock confirms the time.
        *((NOON, False, 2), (NOON - HOUR, False, 2), (NOON + HOUR, False, 2)),
        # This machine's clock is fast, or the database's is slow: the earlier one counts.
        *((NOON - HOUR - MOMENT, False, None), (NOON - 120 * DAY, False, 0)),
        (NOON + 120 * DAY, False, None),
        (NOON + 120 * DAY, True, 2),
    ],
)
def test_all_entries_are_deleted_only_if_a_clock_or_the_user_confirms_it(
    clock: datetime | None, *, sure: bool, pruned: int | None
) -> None:
    """Except for the last one, which the log always keeps."""
    database = with_entries(110 * DAY, 105 * DAY, 100 * DAY)
    database.now = clock
    work = retention(database, keep=90 * DAY, sure=sure, now=at_noon)
    if pruned is not None:
        assert sum(work.prune()) == pruned
        return
    with pytest.raises(DoubtfulClock) as caught:
        list(work.prune())
    assert len(database.logged()) == 3
    text = str(caught.value)
    assert "no notification arrived between 2025-11-25 12:00 UTC and 2026-03-05 1" in text
    assert "It reads 2026-03-05 12:00 UTC" in text
    assert ("but that of the database" in text) is (clock is not None)
    assert "`hookrow prune --yes`" in text


def test_of_two_clocks_the_earlier_one_counts() -> None:
    """A clock that is fast deletes nothing too early, even if the newest entry is kept."""
    database = with_entries(100 * DAY, 75 * DAY, 0 * DAY)
    work = retention(database, keep=90 * DAY, now=lambda: NOON + 20 * DAY)
    database.now = NOON
    assert sum(work.prune()) == 1
    database.now = NOON + 20 * DAY
    assert sum(work.prune()) == 1
    assert len(database.logged()) == 1


def test_bodies_are_deleted_under_the_same_condition() -> None:
    """An age of zero deletes all of them at any time."""
    database = with_entries(100 * DAY, 110 * DAY)
    with pytest.raises(DoubtfulClock):
        list(retention(database, keep_bodies=90 * DAY, now=at_noon).prune())
    assert all(each.body for each in database.logged())
    assert sum(retention(database, keep_bodies=0 * DAY, now=at_noon).prune()) == 2
    assert not any(each.body for each in database.logged())


def test_an_empty_log_needs_no_confirmation() -> None:
    assert not sum(retention(with_entries(), keep=90 * DAY).prune())


@pytest.mark.parametrize(
    ("ages", "pruned"),
    [
        # The clock jumped 120 days ahead, and a few notifications have arrived since.
        ((0, 1, 120, 121, 150), None),
        ((0, 44, 120), None),
        # Notifications arrive now and then.
        *(((0, 46, 120), 1), ((0, 89, 91, 120), 2), ((0, 46), 0), ((0,), 0)),
    ],
)
def test_a_gap_in_the_log_may_be_a_jump_of_the_clock(
    ages: tuple[int, ...], pruned: int | None
) -> None:
    """A restart, or the next day, does not make a fast clock right."""
    database = with_entries(*(age * DAY for age in reversed(ages)))
    work = retention(database, keep=90 * DAY, now=at_noon)
    if pruned is not None:
        assert sum(work.prune()) == pruned
        return
    with pytest.raises(DoubtfulClock, match="as if the clock of this machine had jumped"):
        list(work.prune())
    assert len(database.logged()) == len(ages)
