"""The log in a Django project: read as `entries` has it, and tended, beside the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Min, Q

from hookrow.django.entries import DjangoEntries
from hookrow.django.fields import Folded, Size
from hookrow.django.transactions import begun
from hookrow.entry import Logged, kept_recipient, quoted, retry_at
from hookrow.stores.log import within_size
from hookrow.stores.sql.log import PRUNE_LOCK, batches, pruned


class DjangoLog(DjangoEntries):
    """The entries in the database of that alias."""

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, and put off when to try again."""
        due = self._all().filter(retry_at__lte=now).order_by("retry_at")
        with begun(self._using) as connection:
            if connection.features.has_select_for_update_skip_locked:
                due = due.select_for_update(skip_locked=True)
            sizes = due.values_list("id", Size("body"))[:limit]
            rows = list(self._all().filter(id__in=within_size(sizes)).order_by("retry_at"))
            found = [row.logged() for row in rows]
            for row in rows:
                # What is too old for another try has this one.
                row.retry_at = retry_at(row.logged().received_at, now)
            self._all().bulk_update(rows, ["retry_at"])
        return found

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete what came last before then, or only the bodies, batch by batch."""
        given_up = Q(retry_at__isnull=True) | Q(received_at__lt=parked_before)
        over = Q(last_received_at__lt=before) & given_up
        work = partial(self._pruned, over, bodies_only=bodies_only)
        return pruned(self.bounds(), work, before)

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries."""
        address = kept_recipient(email)
        # A body that could not be read has told nobody whose it is.
        theirs = Q(recipient=address)
        for each in quoted(address):
            theirs |= Q(recipient__isnull=True, folded__contains=each)
        return sum(batches(self.bounds(), partial(self._erased, theirs)))

    def _pruned(
        self, over: Q, low: int, high: int, *, bodies_only: bool
    ) -> tuple[int, datetime | None] | None:
        """Prune a batch; return how many, and when the oldest left came. None: another prunes."""
        found = self._all().filter(id__range=(low, high))
        with begun(self._using) as connection:
            if _pruned_elsewhere(connection):
                return None
            if bodies_only:
                count = found.filter(over, body__isnull=False).update(body=None, retry_at=None)
            else:
                count, _ = found.filter(over).delete()
            return count, found.aggregate(first=Min("received_at"))["first"]

    def _erased(self, theirs: Q, low: int, high: int) -> int:
        found = self._all().alias(folded=Folded("body")).filter(theirs, id__range=(low, high))
        with begun(self._using):
            return found.update(recipient=None, body=None, retry_at=None)


def _pruned_elsewhere(connection: BaseDatabaseWrapper) -> bool:
    """Tell whether another process prunes just now; on SQLite the file is held by one."""
    if connection.vendor == "sqlite":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [PRUNE_LOCK])
        return not cursor.fetchone()[0]
