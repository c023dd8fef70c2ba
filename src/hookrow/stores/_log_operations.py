"""Operations on the log of a store: totals, bodies of listed entries, and pruning by age."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hookrow._core.log_entry import StoredEntry
from hookrow._core.result import PARKED_FOR
from hookrow.errors import HookrowError
from hookrow.stores._errors import Unavailable
from hookrow.stores._log import IDS_PER_BATCH, Count, Prunable, Query

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._log import SQLLog

PORTION = 64
"""The largest number of bodies that `with_bodies` reads at once."""

AGREEING = timedelta(hours=1)
"""The greatest difference between two clocks that confirm each other."""


def totals(log: SQLLog) -> Sequence[Count]:
    """Count the entries of all times, in one bucket; return no counts if entries are missing.

    Reads all hourly counts, and the entries not included in them. Raises a `StoreError`.
    """
    found = log.counts(datetime.fromtimestamp(0, UTC), timedelta(days=1_000_000))
    return found.counts if found.complete_since is None else ()


def with_bodies(log: SQLLog, listed: Sequence[StoredEntry]) -> Iterator[StoredEntry]:
    """Yield entries that were listed by id, in either order, without bodies, with their bodies.

    Reads the bodies of at most one group at a time. Entries that have been deleted are omitted.
    """
    ids = [each.id for each in listed]
    read = log.oldest if ids == sorted(ids) else log.newest
    while ids:
        entries = read(Query(ids=ids[:PORTION]), limit=PORTION)
        yield from entries
        ids = ids[ids.index(entries[-1].id) + 1 :] if entries else ids[PORTION:]


class DoubtfulClock(HookrowError):
    """Pruning could delete too much, because the clock of this machine may be fast."""


class Retention:
    """Deletes old entries and bodies from the log of a store.

    `keep` and `keep_bodies` are the maximum ages, by the last arrival, or None for no limit. An age
    ends at the process's time or at that of the database's clock, whichever is earlier, so that a
    clock that is fast deletes nothing too early. Without `sure`, nothing is deleted if no
    notification arrived in the older half of an age, and no other clock confirms the time: the
    receiver may have been quiet for so long, or the clock may have jumped. `now` returns the
    process's time.
    """

    def __init__(
        self,
        store: SQLStore,
        log: SQLLog,
        *,
        keep: timedelta | None,
        keep_bodies: timedelta | None,
        sure: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._log = log
        self._ages = [
            (age, bodies_only)
            for age, bodies_only in ((keep, False), (keep_bodies, True))
            if age is not None
        ]
        self._sure = sure
        self._now = now

    def prune(self) -> Iterator[int]:
        """Delete; yield the number of entries or bodies in each batch.

        Parked notifications are kept until their retries end, and the bodies of those that were not
        recorded as long as the notification. Raises `DoubtfulClock`, and a
        `StoreError`.
        """
        for age, bodies_only in self._ages:
            now = self._confirmed_time(age)
            yield from self._log.prune(
                before=now - age, parked_before=now - PARKED_FOR, bodies_only=bodies_only
            )

    def prunable(self) -> Prunable:
        """Return what `prune` would delete, and change nothing. Raises as `prune` does."""
        now, limits = self._now(), dict[bool, datetime]()
        for age, bodies_only in self._ages:
            now = self._confirmed_time(age)
            limits[bodies_only] = now - age
        return self._log.prunable(
            before=limits.get(False),
            bodies_before=limits.get(True),
            parked_before=now - PARKED_FOR,
        )

    def estimate_batches(self) -> int:
        """Return about how many batches `prune` yields, at most: by the ids of old entries.

        The ids are found in the primary key, so the size of the log does not matter. Raises a
        `StoreError`.
        """
        now, (first, _) = self._now(), self._log.bounds() or (1, 0)
        return sum(
            (self._log.first_id_since(now - age) - first) // IDS_PER_BATCH + 1
            for age, _ in self._ages
        )

    def _confirmed_time(self, age: timedelta) -> datetime:
        """Return the time before which an age ends; see `Retention`. Raises `DoubtfulClock`."""
        process, database = self._now(), None
        with suppress(Unavailable):  # in a transaction of a Django project
            database = self._store.time()
        now = process if database is None else min(process, database)
        is_confirmed = database is not None and abs(process - database) <= AGREEING
        if age and not self._sure and not is_confirmed:
            self._check_gap(age, now, process, database)
        return now

    def _check_gap(
        self, age: timedelta, now: datetime, process: datetime, database: datetime | None
    ) -> None:
        """Raise `DoubtfulClock` if entries are too old, and none is in the older half of the age.

        A clock that has jumped ahead leaves such a gap, and so does a quiet receiver.
        """
        end = now - age
        old = self._log.newest(Query(until=end), limit=1, bodies=False)
        kept = self._log.oldest(Query(since=end), limit=1, bodies=False)
        until = kept[0].received_at if kept else now
        if not old or until < end + age / 2:
            return
        other = f", but that of the database reads {_minute(database)}" if database else ""
        raise DoubtfulClock(
            f"Not pruned: no notification arrived between {_minute(old[0].received_at)} and "
            f"{_minute(until)}, as if the clock of this machine had jumped. It reads "
            f"{_minute(process)}{other}. If it is wrong, set it; if it is right, run "
            "`hookrow prune --yes`."
        )


def _minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
