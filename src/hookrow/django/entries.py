"""The entries of the log in a Django project, found and counted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from django.apps import apps
from django.db.models import Count, F, Max, Min, Q, QuerySet

from hookrow.django.fields import Size, Start
from hookrow.django.mapping import LOG
from hookrow.django.transactions import reading
from hookrow.entry import Ending, Logged, fingerprints, kept_message_id
from hookrow.stores.log import (
    Cell,
    Ended,
    Grain,
    Probe,
    Query,
    moment,
    reached,
    span,
    within_size,
)

if TYPE_CHECKING:
    from hookrow.django.models import Notification


class DjangoEntries:
    """The reading half of a `LogReader`, in the database of that alias."""

    def __init__(self, using: str) -> None:
        self._using = using

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the newest entries, newest first."""
        within = span(query, self.reached, before=before)
        found = self._matching(query).filter(place__range=within)
        return self._read(found.order_by("-place"), limit, bodies=bodies)

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        within = span(query, self.reached, after=after)
        found = self._matching(query).filter(place__range=within)
        return self._read(found.order_by("place"), limit, bodies=bodies)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first."""
        found = self._matching(query).filter(fingerprint__range=fingerprints(at))
        return self._read(found.order_by("id"), limit, bodies=False)

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first."""
        of_them = [kept_message_id(each) for each in message_ids]
        left = self._all().filter(retry_at__isnull=False, id__gt=after)
        found = left.filter(message_id__in=of_them)
        return self._read(found.order_by("id"), None, bodies=True)

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

    def _read(
        self, found: QuerySet[Notification], limit: int | None, *, bodies: bool
    ) -> Sequence[Logged]:
        """Return entries without bodies, or the leading ones whose bodies make one group."""
        with reading(self._using):
            if not bodies:
                return [row.logged() for row in found.defer("body")[:limit]]
            sizes = found.values_list("id", Size("body"))[:limit]
            # All of them may have been deleted in between, which is not the end of the log.
            while ids := within_size(sizes.all()):
                if entries := [row.logged() for row in found.filter(id__in=ids)]:
                    return entries
        return []

    def _all(self) -> QuerySet[Notification]:
        model: type[Notification] = apps.get_model(LOG)
        return QuerySet(model, using=self._using)


def _among(ids: Collection[int]) -> Q:
    if isinstance(ids, range) and ids.step == 1:
        return Q(id__range=(ids.start, ids.stop - 1))
    return Q(id__in=ids)
