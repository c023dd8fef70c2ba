"""`hookrow log --follow`: reads new entries of the log as they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import sleep
from typing import TYPE_CHECKING

from hookrow.cli.output import echo
from hookrow.core.log_entry import StoredEntry
from hookrow.stores import Conflict, Locked, SchemaChanged, Unavailable
from hookrow.stores.log import Query
from hookrow.stores.log_operations import with_bodies

if TYPE_CHECKING:
    from hookrow.stores.sql.log import SQLLog

POLL_EVERY = 1.0
"""In seconds."""

OVERLAP = 1000
"""In ids; how far below the highest id new entries are expected. PostgreSQL assigns an id before
the commit, so a lower id may be committed later."""

PAGE = 1000
"""The largest number of entries that are read at once, without their bodies."""


def follow(reader: SQLLog, query: Query, *, limit: int, bodies: bool) -> Iterator[StoredEntry]:
    """Yield the newest `limit` entries, and then new ones every second, oldest first.

    An entry is yielded once, even if it changes later. While the database is unavailable, one line
    is printed to standard error; entries committed meanwhile follow afterwards. Raises a
    `StoreError` if the first entries cannot be read, or if the log's table no longer fits.
    """
    highest = _highest_id(reader)
    newest = reader.newest(query, limit=max(limit, OVERLAP), bodies=False)
    first = newest[:limit][::-1]
    yield from with_bodies(reader, first) if bodies else first
    seen = {each.id for each in newest}
    responds = True
    while True:
        sleep(POLL_EVERY)
        try:
            until = _highest_id(reader)
            for page in _pages(reader, query, after=max(highest - OVERLAP, 0)):
                new = [each for each in page if each.id not in seen]
                for entry in with_bodies(reader, new) if bodies else new:
                    yield entry
                    seen.add(entry.id)
        except SchemaChanged:
            raise
        except (Unavailable, Conflict, Locked) as error:
            if responds:
                echo(f"The log cannot be read; retrying every second. {error}", err=True)
            responds = False
        else:
            highest, responds = until, True
            seen = {each for each in seen if each > highest - OVERLAP}


def _pages(reader: SQLLog, query: Query, *, after: int) -> Iterator[Sequence[StoredEntry]]:
    """Yield all entries of the query after an id, oldest first, without their bodies."""
    while page := reader.oldest(query, after=after, limit=PAGE, bodies=False):
        yield page
        after = page[-1].id


def _highest_id(reader: SQLLog) -> int:
    bounds = reader.bounds()
    return bounds[1] if bounds else 0
