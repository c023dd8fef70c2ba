"""The log of the memory store: a dict, read and tended as a database's is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from operator import attrgetter

from msgspec.structs import asdict, replace

from hookrow.decide import fold
from hookrow.entry import (
    Ending,
    Entry,
    Logged,
    fingerprints,
    followed,
    kept_recipient,
    quoted,
    retry_at,
)
from hookrow.stores.log import Cell, Ended, Grain, Query, within_size


@dataclass(slots=True)
class MemoryLog:
    """The entries by fingerprint, in the order in which they came."""

    entries: dict[bytes, Logged] = field(default_factory=dict)
    _last_id: int = 0

    def keep(self, entries: Iterable[Entry]) -> None:
        """Add entries, each to the one that is there."""
        for entry in entries:
            there = self.entries.get(entry.fingerprint)
            if there is None:
                self._last_id += 1
                new = Logged(**asdict(entry), id=self._last_id, first_outcome=entry.outcome)
                self.entries[entry.fingerprint] = new
            else:
                self._put(followed(there, entry))

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the newest entries, newest first."""
        matching = (each for each in self._matching(query) if before is None or each.id < before)
        return _read(list(islice(matching, limit)), bodies=bodies)

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        matching = [each for each in reversed(self._matching(query)) if each.id > after]
        return _read(matching[:limit], bodies=bodies)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first."""
        first, last = fingerprints(at)
        matching = reversed(self._matching(query))
        found = [each for each in matching if first <= each.fingerprint <= last]
        return _read(found[:limit], bodies=False)

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, and put off when to try again."""
        due = [(each.retry_at, each) for each in self._all() if each.retry_at is not None]
        late = [each for at, each in sorted(due, key=lambda pair: pair[0]) if at <= now]
        taken = _read(late[:limit], bodies=True)
        for each in taken:
            self._put(replace(each, retry_at=retry_at(each.received_at, now)))
        return taken

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first."""
        found = [
            each
            for each in self._all()
            if each.id > after and each.retry_at is not None and each.message_id in message_ids
        ]
        return _read(found, bodies=True)

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete what came last before then, or only the bodies, in one batch."""
        pruned = 0
        for each in self._all():
            parked = each.retry_at is not None and each.received_at >= parked_before
            if parked or each.last_received_at >= before or (bodies_only and each.body is None):
                continue
            if bodies_only:
                self._put(replace(each, body=None, retry_at=None))
            else:
                del self.entries[each.fingerprint]
            pruned += 1
        yield pruned

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries."""
        address = kept_recipient(email)
        texts = quoted(address)
        theirs = [
            each
            for each in self._all()
            if each.recipient == address
            or (each.recipient is None and any(text in fold(each.body or "") for text in texts))
        ]
        for each in theirs:
            self._put(replace(each, recipient=None, body=None, retry_at=None))
        return len(theirs)

    def ends(self, first: int, last: int) -> Mapping[Ending, Ended]:
        """Count the entries from one id to another by how they ended."""
        came: dict[Ending, list[datetime]] = {}
        for each in self._all():
            if first <= each.id <= last:
                came.setdefault(each.outcome, []).append(each.last_received_at)
        return {ending: Ended(len(times), max(times)) for ending, times in came.items()}

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id; None of an empty log."""
        ids = [each.id for each in self._all()]
        return (ids[0], ids[-1]) if ids else None

    def reached(self, at: datetime) -> int:
        """Return the lowest id of what came at that time or later, or one past the last."""
        later = (each.id for each in self._all() if each.received_at >= at)
        return next(later, self._last_id + 1)

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another."""
        return Counter(
            Cell(_start(each.received_at, grain), each.record_type, each.outcome)
            for each in self._all()
            if first <= each.id <= last
        )

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """Return the message id of each recorded delivery in a range, and when it happened."""
        recorded = Query(record_type="Delivery", outcome=Ending.RECORDED)
        return [
            (each.message_id, each.occurred_at)
            for each in self._all()
            if first <= each.id <= last
            and recorded.matches(each)
            and each.message_id is not None
            and each.occurred_at is not None
        ]

    def count_parked(self) -> int:
        """Return how many entries are tried again."""
        return sum(each.retry_at is not None for each in self._all())

    def _all(self) -> list[Logged]:
        return sorted(self.entries.values(), key=attrgetter("id"))

    def _put(self, entry: Logged) -> None:
        self.entries[entry.fingerprint] = entry

    def _matching(self, query: Query) -> list[Logged]:
        return [each for each in reversed(self._all()) if query.matches(each)]


def _read(found: Sequence[Logged], *, bodies: bool) -> Sequence[Logged]:
    if not bodies:
        return [replace(each, body=None) for each in found]
    return found[: len(within_size((each.id, len(each.body or "")) for each in found))]


def _start(at: datetime, grain: Grain) -> datetime:
    start = at.astimezone(UTC).replace(second=0, microsecond=0)
    return start if grain == "minute" else start.replace(minute=0)
