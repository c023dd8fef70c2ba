"""The page of suppressed subscribers, and the same list as CSV."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from itertools import chain
from time import monotonic, sleep
from typing import NamedTuple, TypeVar
from unicodedata import normalize

from hookrow._core.notification import Key
from hookrow._http import Response
from hookrow._statistics import ResultCount
from hookrow._statistics.overview import OTHERS
from hookrow.dashboard._forms import BadRequest, Fields, parse
from hookrow.dashboard._queries import PAGE_SIZE, Context
from hookrow.dashboard._templating import View, format_text
from hookrow.stores._errors import Rejected, StoreError
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._row_counts import MAX_COUNTED_REASON
from hookrow.stores.sql._suppressions import (
    Filter,
    LoggedChange,
    SQLSuppressions,
    Suppression,
    SuppressionCursor,
    SuppressionRange,
    find_causes,
)

SUPPRESSION_FILTERS = ("reason", "list", "entry", "since")
"""The fields of the query that select suppressions."""

NO_REASON = "(none)"
"""The value of the field `reason` for subscribers without a reason."""

SUPPRESSION_PERIODS = {"Day": 1, "Week": 7, "Month": 30}
"""The links to periods, and their lengths in days."""

MAX_LISTS_TO_CHOOSE = 500
"""The largest number of lists to choose from."""

LIST_TIMEOUT = 0.2
"""Seconds after which the lists to choose from are omitted."""

MAX_COUNT = 10_000
"""The number up to which results are counted."""

SEARCH_TIMEOUT = 0.08
"""Seconds for which parts of the table are searched for a page."""

COUNT_TIMEOUT = 0.04
"""Seconds for which parts of the table are searched to count the results."""

QUICK = COUNT_TIMEOUT / 4
"""A part that was read in fewer seconds than this makes the next one twice as wide."""

MIN_PART_ROWS = 5000
"""The minimum number of rows in a part."""

MAX_PART_ROWS = 100_000
"""The maximum number of rows in a part."""

FIRST_COUNT_TIMEOUT = 0.05
"""Seconds for which a page waits for the first count of the reasons."""

T = TypeVar("T")

logger = logging.getLogger("hookrow")

DOWNLOAD_BATCH = 100
"""The number of rows that a download reads at once.

A larger batch would delay the notifications that the same process records: in Python, only one
thread runs at a time, and it runs for up to 5 ms.
"""

DOWNLOAD_PAUSE_FACTOR = 2.0
"""The pause of a download after each query, as a multiple of the query's duration.

It keeps downloads from delaying notifications."""

CSV_COLUMNS = ("email", "reason", "suppressed_at", "notification", "message_id")
"""The header of the CSV."""

_FORMULA = ("=", "+", "-", "@")
"""Spreadsheets evaluate cells that begin with these.

https://owasp.org/www-community/attacks/CSV_Injection
"""


class SuppressionRow(NamedTuple):
    """A suppressed subscriber, and the notification that suppressed it if the log has it."""

    suppression: Suppression
    cause: LoggedChange | None

    @property
    def since(self) -> datetime | None:
        """When the suppression began: if the table has a flag, the time of its cause."""
        cause = self.cause.changed_at if self.cause else None
        return self.suppression.suppressed_at or cause


@dataclass(frozen=True, slots=True)
class SuppressionPage:
    """A page of rows, newest first, and the positions after and before which others may follow.

    A page that is not `full` although others follow ends where the search ran out of time.
    """

    rows: Sequence[SuppressionRow]
    newer: SuppressionCursor | None
    older: SuppressionCursor | None

    @property
    def full(self) -> bool:
        """Whether the page has as many rows as fit."""
        return len(self.rows) == PAGE_SIZE

    @property
    def count(self) -> ResultCount:
        """The number of results, if this is the first page."""
        return ResultCount(len(self.rows), exact=self.older is None)


def suppressions(context: Context, fields: Fields) -> View:
    """List suppressed subscribers, newest first."""
    reader = context.store.suppressions
    lists = find_lists(reader)
    selected = parse_filter(context, lists, fields)
    now = datetime.now(UTC)
    days = {name: now - timedelta(days=days) for name, days in SUPPRESSION_PERIODS.items()}
    listing = _list(reader, selected, fields)
    newest = not {"before", "after"} & fields.keys()
    values = {
        "title": "Suppressions",
        "listing": listing,
        "count": listing.count if newest and not listing.full else _count(reader, selected),
        "filters": {name: value for name, value in fields.items() if name in SUPPRESSION_FILTERS},
        "fields": {name: fields.get(name, "") for name in SUPPRESSION_FILTERS},
        "reasons": _reasons(context),
        "entry_names": context.entry_choices(now),
        "lists": {str(key): name for key, name in lists.items()},
        "ranges": {name: f"{since:%Y-%m-%dT%H:%M}" for name, since in days.items()},
        "newest": newest,
        "dated": context.store.role_tables.suppressed_since is not None,
    }
    return View("suppressions.html", values)


def parse_filter(context: Context, lists: Mapping[Key, str], fields: Fields) -> Filter:
    """Return the filter of the fields. Raises `BadRequest`.

    The entry of a tenant stands for the tenant's subscribers, and another one for those whom it
    suppressed.
    """
    reason, list_ = fields.get("reason"), fields.get("list")
    keys = {str(key): key for key in lists}
    if list_ is not None and list_ not in keys:
        keys |= _counted_lists(context)
    if list_ is not None and list_ not in keys:
        raise BadRequest(f"There is no list {list_[:50]!r} with subscriptions.")
    entry = parse(fields, "entry")
    tenant = None if entry is None else context.store.tenants.get(entry)
    selected = Filter(
        reason="" if reason == NO_REASON else reason,
        list=keys[list_] if list_ else None,
        since=parse(fields, "since"),
        tenant=tenant,
        entry=entry if tenant is None else None,
    )
    return context.store.suppressions.plan(selected)


def find_lists(reader: SQLSuppressions) -> Mapping[Key, str]:
    """Return the lists to choose from; none if the table has no index by which to find them."""
    with suppress(StoreError), limited_to(LIST_TIMEOUT):
        return reader.lists(limit=MAX_LISTS_TO_CHOOSE)
    return {}


def _counted_lists(context: Context) -> Mapping[str, Key]:
    """Return the keys of the lists with subscriptions that the last count found, by their text.

    They may be more than can be chosen from, because the page of totals links to all of them.
    """
    with suppress(StoreError):
        if counts := context.statistics.table_counts(FIRST_COUNT_TIMEOUT):
            return {
                str(each.list): each.list
                for each in counts.lists
                if each.list is not None and each.subscribed
            }
    return {}


def _reasons(context: Context) -> Mapping[str, str]:
    """Return the reasons that the last count of the tables found, with name and number."""
    try:
        counts = context.statistics.table_counts(FIRST_COUNT_TIMEOUT)
    except StoreError:
        counts = None
    name = context.store.suppressions.reason_name
    return {
        reason or NO_REASON: f"{format_text(name(reason), 64) if reason else 'no reason'} ({n:,})"
        for reason, n in (counts.suppressed.items() if counts else ())
        if reason != OTHERS and len(reason or "") < MAX_COUNTED_REASON
    }


def _list(reader: SQLSuppressions, selected: Filter, fields: Fields) -> SuppressionPage:
    """Return the newest page, or the one next to the position `before` or `after`."""
    before, after = (_position(fields, name) for name in ("before", "after"))
    start = (
        SuppressionRange(before, oldest=False)
        if after is None
        else SuppressionRange(after, oldest=True)
    )
    try:
        found, more = _search(reader, start, selected)
    except Rejected as error:
        if start.after is None:
            raise
        raise BadRequest("before and after must be the position of a row.") from error
    if start.oldest:
        found = found[::-1]
    rows = with_causes(reader, found)
    back = start.after
    if start.oldest:
        return SuppressionPage(rows, more, found[-1].cursor if found else back)
    return SuppressionPage(rows, found[0].cursor if found and back else back, more)


def _position(fields: Fields, name: str) -> SuppressionCursor | None:
    try:
        return SuppressionCursor.parse(fields[name]) if name in fields else None
    except ValueError as error:
        raise BadRequest(f"{name} must be the position of a row.") from error


def _search(
    reader: SQLSuppressions, start: SuppressionRange, selected: Filter
) -> tuple[Sequence[Suppression], SuppressionCursor | None]:
    """Return the first rows of a range, and the position after which more may follow."""
    until = monotonic() + SEARCH_TIMEOUT
    found: list[Suppression] = []
    for part in divide(reader, start, selected):
        found += reader.read(part, selected, limit=PAGE_SIZE + 1 - len(found))
        if len(found) > PAGE_SIZE:
            return found[:PAGE_SIZE], found[PAGE_SIZE - 1].cursor
        if monotonic() >= until:
            return found, part.end
    return found, None


def _count(reader: SQLSuppressions, selected: Filter) -> ResultCount:
    """Count the results up to `MAX_COUNT`, or as far as the time allows."""
    until = monotonic() + COUNT_TIMEOUT
    number = 0
    for part in divide(reader, SuppressionRange(), selected):
        number += reader.count(part, selected, limit=MAX_COUNT + 1 - number)
        if number > MAX_COUNT:
            return ResultCount(MAX_COUNT, exact=False)
        if monotonic() >= until:
            return ResultCount(number, exact=part.end is None)
    return ResultCount(number, exact=True)


def divide(
    reader: SQLSuppressions, start: SuppressionRange, selected: Filter
) -> Iterator[SuppressionRange]:
    """Divide a range into parts, each of which the database searches in a short time."""
    if selected.direct:
        yield start
        return
    width = MIN_PART_ROWS
    rest = start
    while True:
        begin = monotonic()
        end = reader.step(rest, width, selected.since)
        yield rest._replace(end=end)
        if end is None:
            return
        rest = rest._replace(after=end)
        if monotonic() - begin < QUICK:
            width = min(2 * width, MAX_PART_ROWS)


def with_causes(reader: SQLSuppressions, found: Sequence[Suppression]) -> Sequence[SuppressionRow]:
    """Return suppressions with the notifications that the log has."""
    causes = find_causes(reader, found)
    return [SuppressionRow(each, causes.get(each.cursor)) for each in found]


def download(context: Context, fields: Fields) -> Response:
    """Return the suppressed subscribers as CSV, oldest first.

    A subscriber who is suppressed again during the download moves to the end. The file therefore
    contains every subscriber who stays suppressed during the download. Raises `BadRequest` if the
    query is not valid, and `StoreError` if the first rows cannot be read.
    """
    reader = context.store.suppressions
    chunks = _chunks(reader, parse_filter(context, find_lists(reader), fields))
    first = next(chunks)
    headers = {
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": 'attachment; filename="suppressions.csv"',
    }
    return Response(200, b"", headers, stream=chain([first], chunks))


def _chunks(reader: SQLSuppressions, selected: Filter) -> Iterator[bytes]:
    """Yield the CSV in chunks, some of them empty, between which no connection is in use."""
    header = _csv([CSV_COLUMNS])
    try:
        for rows in _batches(reader, selected):
            yield header + _csv(map(_cells, rows))
            header = b""
    except StoreError as error:
        logger.warning("A download of suppressions failed: %s", error)
        raise error.with_traceback(None) from None  # its cause may quote a row


def _batches(reader: SQLSuppressions, selected: Filter) -> Iterator[Sequence[SuppressionRow]]:
    parts = divide(reader, SuppressionRange(oldest=True), selected)
    while (part := _in_time(lambda: next(parts, None))) is not None:
        rest: SuppressionRange | None = part
        while rest is not None:
            rows = _in_time(partial(_read, reader, rest, selected))
            yield rows
            more = len(rows) == DOWNLOAD_BATCH
            rest = rest._replace(after=rows[-1].suppression.cursor) if more else None


def _in_time(query: Callable[[], T]) -> T:
    """Run a query with the time limit of a statement, and pause."""
    begin = monotonic()
    with limited_to(STATEMENT_TIMEOUT):
        result = query()
    sleep(DOWNLOAD_PAUSE_FACTOR * (monotonic() - begin))
    return result


def _read(
    reader: SQLSuppressions, part: SuppressionRange, selected: Filter
) -> Sequence[SuppressionRow]:
    return with_causes(reader, reader.read(part, selected, limit=DOWNLOAD_BATCH))


def _cells(row: SuppressionRow) -> Sequence[str]:
    (email, reason, *_), cause, at = *row, row.since
    time = at.isoformat(timespec="microseconds").replace("+00:00", "Z") if at else ""
    notification = (str(cause.id), cause.message_id or "") if cause else ("", "")
    return [
        f"'{each}" if _may_be_formula(each) else each
        for each in (email, reason, time, *notification)
    ]


def _may_be_formula(cell: str) -> bool:
    """Return whether a spreadsheet may evaluate a cell.

    Some evaluate it after spaces or invisible characters, or if the sign is full-width (U+FF1D).
    """
    first = cell[:1]
    hidden = first.isspace() or not first.isprintable()
    return hidden or normalize("NFKC", first) in _FORMULA


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Encode rows as RFC 4180 describes."""
    text = StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")
