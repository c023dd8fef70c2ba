"""The suppressed subscribers as CSV, read in small batches while the client receives them."""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import StringIO
from itertools import chain
from time import monotonic, sleep
from typing import TypeVar
from unicodedata import normalize

from hookrow.dashboard.forms import Fields
from hookrow.dashboard.queries import Context
from hookrow.dashboard.suppressions import Row, divide, find_lists, parse_filter, with_causes
from hookrow.http import Response
from hookrow.stores import StoreError
from hookrow.stores.sql.suppressions import SQLSuppressions
from hookrow.stores.suppressions import Filter, Span
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

T = TypeVar("T")

logger = logging.getLogger("hookrow")

BATCH = 100
"""In rows; how many are read at once for a download.

A larger batch would delay the notifications that the same process records: in Python, only one
thread runs at a time, and it runs for up to 5 ms.
"""

PAUSE = 2.0
"""How long a download pauses after each query, as a multiple of the query's duration, so that
notifications are not delayed."""

COLUMNS = ("email", "reason", "suppressed_at", "notification", "message_id")
"""The header of the CSV."""

_FORMULA = ("=", "+", "-", "@")
"""Spreadsheets evaluate cells that begin with these.

https://owasp.org/www-community/attacks/CSV_Injection
"""


def download(context: Context, fields: Fields) -> Response:
    """Return the suppressed subscribers as CSV, oldest first.

    A subscriber who is suppressed again during the download moves to the end. The file therefore
    contains every subscriber who stays suppressed during the download. Raises `BadRequest` if the
    query is not valid, and `StoreError` if the first rows cannot be read.
    """
    reader = context.store.suppressions
    chunks = _chunks(reader, parse_filter(reader, find_lists(reader), fields))
    first = next(chunks)
    headers = {
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": 'attachment; filename="suppressions.csv"',
    }
    return Response(200, b"", headers, stream=chain([first], chunks))


def _chunks(reader: SQLSuppressions, selected: Filter) -> Iterator[bytes]:
    """Yield the CSV in chunks, some of them empty, between which no connection is in use."""
    header = _csv([COLUMNS])
    try:
        for rows in _batches(reader, selected):
            yield header + _csv(map(_cells, rows))
            header = b""
    except StoreError as error:
        logger.warning("A download of suppressions failed: %s", error)
        raise error.with_traceback(None) from None  # its cause may quote a row


def _batches(reader: SQLSuppressions, selected: Filter) -> Iterator[Sequence[Row]]:
    parts = divide(reader, Span(oldest=True), selected)
    while (part := _in_time(lambda: next(parts, None))) is not None:
        rest: Span | None = part
        while rest is not None:
            rows = _in_time(partial(_read, reader, rest, selected))
            yield rows
            more = len(rows) == BATCH
            rest = rest._replace(after=rows[-1].suppression.position) if more else None


def _in_time(query: Callable[[], T]) -> T:
    """Run a query with the time limit of a statement, and pause."""
    begin = monotonic()
    with limited_to(STATEMENT_TIMEOUT):
        result = query()
    sleep(PAUSE * (monotonic() - begin))
    return result


def _read(reader: SQLSuppressions, span: Span, selected: Filter) -> Sequence[Row]:
    return with_causes(reader, reader.read(span, selected, limit=BATCH))


def _cells(row: Row) -> Sequence[str]:
    (email, reason, at, _), cause = row
    time = at.isoformat(timespec="microseconds").replace("+00:00", "Z")
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
