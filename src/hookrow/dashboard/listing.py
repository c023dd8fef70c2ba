"""Entries of the log, a page at a time; paged by their id, for new ones come all the while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hookrow.core.log_entry import StoredEntry
from hookrow.dashboard.asking import Fields, Mistake, number
from hookrow.dashboard.site import Site
from hookrow.statistics import Found, search
from hookrow.stores.log import LogReader, Query

WIDEST = 50_000
"""In ids; the widest range that one statement looks through."""

PAGE = 50
"""How many entries a page lists."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Entries of the log without bodies, newest first, and from which id on there may be others.

    A long log is not looked through at once: there may be fewer than a page, and yet others.
    """

    entries: Sequence[StoredEntry]
    newer: int | None = None
    older: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the page is full, or nothing is left to look through."""
        return len(self.entries) == PAGE or self.older is None

    @property
    def empty(self) -> bool:
        """Whether the whole log was looked through, and has none."""
        return not self.entries and self.newer is None and self.older is None


def listed(site: Site, query: Query, wanted: Fields) -> Listed:
    """List the newest entries, those `before` an id, or the next `after` one.

    Of a store without a log there are none. Raises `Mistake`.
    """
    before, after = number("before", wanted), number("after", wanted)
    if after is None:
        log = site.store.log
        found = search(log, query, before=before, limit=PAGE) if log else Found([], None)
        return Listed(found.entries, None if before is None else before - 1, found.before)
    last = last_id(site.log)
    end = min(last, after + WIDEST)
    query = replace(query, ids=range(after + 1, end + 1))
    entries = site.log.oldest(query, limit=PAGE, bodies=False)
    looked = entries[-1].id if len(entries) == PAGE else end
    return Listed(entries[::-1], looked if looked < last else None, after + 1)


def newer(log: LogReader, query: Query, seen: int, last: int) -> Sequence[StoredEntry]:
    """Return the newest of what came since the last look; a look long ago does not count."""
    ids = range(max(seen, last - WIDEST) + 1, last + 1)
    return log.newest(replace(query, ids=ids), limit=PAGE, bodies=False) if ids else []


def last_id(log: LogReader) -> int:
    """Return the id of the newest entry, 0 of an empty log."""
    bounds = log.bounds()
    return bounds[1] if bounds else 0


def one(site: Site, wanted: Fields) -> StoredEntry:
    """Return the entry whose `id` is asked for. Raises `Mistake`."""
    id_ = number("id", wanted)
    if id_ is None:
        raise Mistake(400, "Say which notification: by its id.")
    entries = site.log.newest(Query(ids=[id_]), limit=1)
    if not entries:
        raise Mistake(404, f"The log has no notification {id_}.")
    return entries[0]
