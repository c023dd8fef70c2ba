"""The log in a Django project: what reads and tends it, beside the store that writes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from django.apps import apps
from django.db import connections
from django.db.models import Count, F, Max, Min, Q, QuerySet

from hookrow.django.fields import Folded, Start
from hookrow.django.mapping import LOG
from hookrow.django.transactions import begun, reading
from hookrow.entry import (
    Ending,
    Logged,
    fingerprints,
    kept_message_id,
    kept_recipient,
    retry_at,
)
from hookrow.stores import Conflict
from hookrow.stores.log import (
    PRUNE_LOCK,
    TRIES,
    Cell,
    Ended,
    Grain,
    Probe,
    Query,
    batches,
    moment,
    reached,
)

if TYPE_CHECKING:
    from hookrow.django.models import Notification

T = TypeVar("T")


class DjangoLog:
    """The entries in the database of that alias."""

    def __init__(self, using: str) -> None:
        self._using = using

    def newest(self, query: Query, *, before: int | None = None, limit: int) -> Sequence[Logged]:
        """Return the newest entries, newest first."""
        found = self._matching(query).order_by("-place")
        if query.begin is not None:
            found = found.filter(place__gte=self.reached(query.begin))
        if before is not None:
            found = found.filter(place__lt=before)
        elif query.end is not None:
            found = found.filter(place__lt=self.reached(query.end))
        return self._read(found, limit)

    def oldest(self, query: Query, *, after: int = 0, limit: int) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        found = self._matching(query).order_by("place").filter(place__gt=after)
        if query.begin is not None and not after:
            found = found.filter(place__gte=self.reached(query.begin))
        if query.end is not None:
            found = found.filter(place__lt=self.reached(query.end))
        return self._read(found, limit)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first."""
        found = self._matching(query).filter(fingerprint__range=fingerprints(at))
        return self._read(found.order_by("id"), limit)

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, and put off when to try again."""
        due = self._all().filter(retry_at__lte=now).order_by("retry_at")
        with begun(self._using) as connection:
            if connection.features.has_select_for_update_skip_locked:
                due = due.select_for_update(skip_locked=True)
            rows = list(due[:limit])
            found = [row.logged() for row in rows]
            for row in rows:
                # What is too old for another try has this one.
                row.retry_at = retry_at(row.logged().received_at, now)
            self._all().bulk_update(rows, ["retry_at"])
        return found

    def parked(self, message_ids: Collection[str]) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first."""
        of_them = [kept_message_id(each) for each in message_ids]
        found = self._all().filter(message_id__in=of_them, retry_at__isnull=False)
        return self._read(found.order_by("id"), None)

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete what came last before then, or only the bodies, batch by batch."""
        given_up = Q(retry_at__isnull=True) | Q(received_at__lt=parked_before)
        over = Q(last_received_at__lt=before) & given_up
        for batch in self._batches():
            done = self._insist(partial(self._pruned, batch, over, bodies_only=bodies_only))
            if done is None:
                return
            count, first = done
            yield count
            # Entries lie in the order in which they came.
            if first is not None and first >= before:
                return

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries."""
        address = kept_recipient(email)
        # A body that could not be read has told nobody whose it is.
        quoted = Q(recipient__isnull=True, folded__contains=f'"{address}"')
        theirs = Q(recipient=address) | quoted
        return sum(self._insist(partial(self._erased, batch, theirs)) for batch in self._batches())

    def ends(self, first: int, last: int) -> Mapping[Ending, Ended]:
        """Count the entries from one id to another by how they ended."""
        found = self._all().filter(id__range=(first, last)).values_list("outcome")
        with reading(self._using):
            counted = found.annotate(Count("id"), Max("last_received_at"))
            return {Ending(name): Ended(*rest) for name, *rest in counted}

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id; None of an empty log."""
        with reading(self._using):
            # Each by itself: for both in one SQLite would read the whole table.
            first = self._all().aggregate(first=Min("id"))["first"]
            last = self._all().aggregate(last=Max("id"))["last"]
        return None if first is None or last is None else (first, last)

    def reached(self, at: datetime) -> int:
        """Return an id that is at most that of whatever came at that time or later."""
        bounds = self.bounds()
        return reached(at, bounds, self._probe) if bounds else 1

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another, in one statement."""
        found = self._all().filter(id__range=(first, last))
        counted = found.values_list(Start("received_at", grain), "record_type", "outcome")
        with reading(self._using):
            return {
                Cell(moment(at), record_type, Ending(outcome)): count
                for at, record_type, outcome, count in counted.annotate(Count("id"))
            }

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """Return the message id of each recorded delivery in a range, and when it happened."""
        found = self._all().filter(
            id__range=(first, last),
            record_type="Delivery",
            outcome=Ending.RECORDED.value,
            message_id__isnull=False,
            occurred_at__isnull=False,
        )
        with reading(self._using):
            return list(found.order_by("id").values_list("message_id", "occurred_at"))

    def count_parked(self) -> int:
        """Return how many entries are tried again."""
        with reading(self._using):
            return self._all().filter(retry_at__isnull=False).count()

    def _probe(self, id_: int) -> Probe | None:
        found = self._all().filter(id__gte=id_).order_by("id")
        with reading(self._using):
            row = found.values_list("id", "received_at", "ended_at").first()
        return row and Probe(*row)

    def _pruned(
        self, batch: Q, over: Q, *, bodies_only: bool
    ) -> tuple[int, datetime | None] | None:
        """Prune a batch; return how many, and when the oldest left came. None: another prunes."""
        if self._pruned_elsewhere():
            return None
        found = self._all().filter(batch)
        if bodies_only:
            count = found.filter(over, body__isnull=False).update(body=None, retry_at=None)
        else:
            count, _ = found.filter(over).delete()
        return count, found.aggregate(first=Min("received_at"))["first"]

    def _erased(self, batch: Q, theirs: Q) -> int:
        found = self._all().alias(folded=Folded("body")).filter(batch, theirs)
        return found.update(recipient=None, body=None, retry_at=None)

    def _pruned_elsewhere(self) -> bool:
        """Tell whether another process prunes just now; on SQLite the file is held by one."""
        connection = connections[self._using]
        if connection.vendor == "sqlite":
            return False
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [PRUNE_LOCK])
            return not cursor.fetchone()[0]

    def _insist(self, work: Callable[[], T]) -> T:
        """Do a batch, up to `TRIES` times."""
        for _ in range(TRIES - 1):
            with suppress(Conflict), begun(self._using):
                return work()
        with begun(self._using):
            return work()

    def _matching(self, query: Query) -> QuerySet[Notification]:
        # The id; of what is parked in a way that leads no planner from that one's index.
        found = self._all().alias(place=F("id") + 0 if query.parked else F("id"))
        for name, value in query.equal.items():
            found = found.filter(**{name: value.value if isinstance(value, Ending) else value})
        if query.ids is not None:
            found = found.filter(_among(query.ids))
        if query.since is not None:
            found = found.filter(received_at__gte=query.since)
        if query.until is not None:
            found = found.filter(received_at__lt=query.until)
        return found.filter(retry_at__isnull=False) if query.parked else found

    def _batches(self) -> Iterator[Q]:
        """Yield a condition for each range of ids, oldest first."""
        for ids in batches(*self.bounds() or (None, None)):
            yield Q(id__range=ids)

    def _read(self, found: QuerySet[Notification], limit: int | None) -> Sequence[Logged]:
        with reading(self._using):
            return [row.logged() for row in found[:limit]]

    def _all(self) -> QuerySet[Notification]:
        model: type[Notification] = apps.get_model(LOG)
        return QuerySet(model, using=self._using)


def _among(ids: Collection[int]) -> Q:
    if isinstance(ids, range) and ids.step == 1:
        return Q(id__range=(ids.start, ids.stop - 1))
    return Q(id__in=ids)
