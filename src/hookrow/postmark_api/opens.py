"""Reads the list of first opens in Postmark's API (https://postmarkapp.com/developer/api/messages-api).

The list returns the newest rows first, and at most 10,000 for one window of time; a window with
more is split. Its limits are local times in the US Eastern zone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Window:
    """A window between two local times, which are included."""

    first: datetime
    last: datetime

    @classmethod
    def around(cls, since: datetime, until: datetime) -> Window:
        """Return a window that includes all rows between two times in UTC, and others."""
        first = max(since, EARLIEST) - MARGIN
        return cls(*(each.replace(tzinfo=None, microsecond=0) for each in (first, until + MARGIN)))

    def halves(self) -> Sequence[Window]:
        """Return the older and the newer half."""
        middle = self.first + (self.last - self.first) / 2
        middle = middle.replace(microsecond=0)
        return Window(self.first, middle), Window(middle, self.last)


@dataclass(slots=True)
class OpensReader:
    """Reads the first opens of a message stream.

    `incomplete` becomes True if the API did not return all rows.
    """

    api: PostmarkAPI
    stream: str
    incomplete: bool = field(default=False, init=False)

    def read(self, window: Window) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Yield the rows of a window in portions, the oldest portion first. Raises `APIError`.

        Some rows may be outside of the window, and some may occur twice.
        """
        yield from self._read(window, *self._page(window, 0))

    def _read(
        self, window: Window, total: int, rows: Sequence[Mapping[str, Any]]
    ) -> Iterator[Sequence[Mapping[str, Any]]]:
        """Yield the rows of a window, whose first page was read."""
        if total > LAST_ROW and window.last - window.first > SHORTEST:
            halves = [(half, *self._page(half, 0)) for half in window.halves()]
            # Copies of the API's documentation differ in whether all lists have windows.
            if sum(count for _, count, _ in halves) < 2 * total:
                for half in halves:
                    yield from self._read(*half)
                return
        pages = [rows]
        read = len(rows)
        while rows and read < min(total, LAST_ROW):
            count, rows = self._page(window, read)
            # Each new row shifts the older ones, so that as many rows are read twice.
            total = max(total, count)
            pages.append(rows)
            read += len(rows)
        self.incomplete |= total > LAST_ROW
        for page in reversed(pages):
            yield page[::-1]

    def _page(self, window: Window, offset: int) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """Return the number of rows in a window, and the rows after an offset."""
        found = self.api.get(
            PATH,
            count=min(MOST_ROWS, LAST_ROW - offset),
            offset=offset,
            messagestream=self.stream,
            fromdate=window.first.isoformat(),
            todate=window.last.isoformat(),
        )
        total, rows = found.get("TotalCount"), found.get("Opens")
        if not isinstance(total, int) or not isinstance(rows, list):
            raise APIError(unexpected(PATH))
        return total, [each for each in rows if isinstance(each, dict)]
