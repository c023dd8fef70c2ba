"""Reads the list of first opens in Postmark's API (https://postmarkapp.com/developer/api/messages-api).

The list returns the newest rows first, and at most 10,000 for one window of time; a window with
more is split. Its limits are local times in the US Eastern zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from hookrow.postmark_api.client import PostmarkAPI
from hookrow.postmark_api.errors import APIError, unexpected

PATH = "/messages/outbound/opens"

MOST_ROWS = 500
"""The largest page."""

LAST_ROW = 10_000
"""The last row of a window that the API returns."""

SHORTEST = timedelta(seconds=2)
"""A shorter window is not split."""

MARGIN = timedelta(days=1)
"""More than the offset of any time zone: it replaces the conversion to Eastern time."""

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Before any message at the provider; near the year 1, a margin cannot be subtracted."""


Rows: TypeAlias = Sequence[Mapping[str, Any]]


def read_opens(
    api: PostmarkAPI,
    stream: str,
    since: datetime,
    until: datetime,
    on_incomplete: Callable[[], object],
) -> Iterator[Rows]:
    """Yield the first opens of a stream between two times, in portions, the oldest first.

    Some rows may be outside this period, and some may occur twice. `on_incomplete` is called if
    the API did not return all rows. Raises `APIError`.
    """

    def read_page(first: datetime, last: datetime, offset: int) -> tuple[int, Rows]:
        """Return the number of rows in a window, and the rows after an offset."""
        found = api.get(
            PATH,
            count=min(MOST_ROWS, LAST_ROW - offset),
            offset=offset,
            messagestream=stream,
            fromdate=first.isoformat(),
            todate=last.isoformat(),
        )
        total, rows = found.get("TotalCount"), found.get("Opens")
        if not isinstance(total, int) or not isinstance(rows, list):
            raise APIError(unexpected(PATH))
        return total, [each for each in rows if isinstance(each, dict)]

    def read(first: datetime, last: datetime, total: int, rows: Rows) -> Iterator[Rows]:
        """Yield the rows of a window whose first page was read."""
        if total > LAST_ROW and last - first > SHORTEST:
            middle = (first + (last - first) / 2).replace(microsecond=0)
            older, newer = read_page(first, middle, 0), read_page(middle, last, 0)
            # Copies of the API's documentation differ in whether all lists have windows.
            if older[0] + newer[0] < 2 * total:
                yield from read(first, middle, *older)
                yield from read(middle, last, *newer)
                return
        pages = [rows]
        done = len(rows)
        while rows and done < min(total, LAST_ROW):
            count, rows = read_page(first, last, done)
            # Each new row shifts the older ones, so that as many rows are read twice.
            total = max(total, count)
            pages.append(rows)
            done += len(rows)
        if total > LAST_ROW:
            on_incomplete()
        for page in reversed(pages):
            yield page[::-1]

    first = (max(since, EARLIEST) - MARGIN).replace(tzinfo=None, microsecond=0)
    last = (until + MARGIN).replace(tzinfo=None, microsecond=0)
    yield from read(first, last, *read_page(first, last, 0))
