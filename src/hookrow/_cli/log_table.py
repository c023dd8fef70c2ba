"""The table in which `log` and `replay --dry-run` print notifications.

In a pipe, every value is complete. On a terminal, a notification is one line of its width: values
that do not fit are cut.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from enum import IntEnum
from unicodedata import bidirectional, category, east_asian_width

from hookrow._core.log_entry import StoredEntry
from hookrow._describe import count_tries, format_time, visible


class LogColumn(IntEnum):
    """The columns, in order."""

    ID = 0
    RECEIVED = 1
    TYPE = 2
    RECIPIENT = 3
    MESSAGE_ID = 4
    OUTCOME = 5


_COLUMN_TITLES = ("ID", "Received", "Type", "Recipient", "Message ID", "Outcome")

_WIDTHS = (8, 20, 18, 28, 36, 51)
"""The widths of the columns if the notifications are not known in advance."""

_NARROWED = (
    (LogColumn.MESSAGE_ID, 10),
    (LogColumn.RECIPIENT, 28),
    (LogColumn.OUTCOME, 20),  # the rest is the number of posts, the next retry and the entry
    (LogColumn.RECEIVED, 15),  # without the year
    (LogColumn.TYPE, 13),
    (LogColumn.RECIPIENT, 16),
    (LogColumn.OUTCOME, 12),  # outcomes still differ
    (LogColumn.RECIPIENT, 9),
)
"""The columns that become narrower until a line fits, in this order, and their least widths."""

_GAP = "  "

_ELLIPSIS = "…"

_ISOLATE = "\u2068{}\u2069"
"""Keeps text from right to left from changing the order of the columns.

Terminals that display such text from right to left would otherwise move the digits and spaces
beside it, as the bidirectional algorithm requires (UAX #9)."""

_RIGHT_TO_LEFT = {"R", "AL", "AN"}


def terminal_width() -> int | None:
    """Return the columns of the terminal to which the command prints, or COLUMNS if it is set.

    It is None if standard output is not a terminal, or if its encoding may lack the ellipsis.
    """
    output = sys.stdout
    if output is None or not output.isatty() or output.encoding.lower() != "utf-8":
        return None
    return shutil.get_terminal_size().columns


class LogTable:
    """The header and the lines of a table of notifications.

    Its lines have at most `width` columns, as far as this is possible; they are complete if it is
    None. Without `entries`, the table has the same columns for any notifications.

    The lines contain no character that controls the terminal or hides others, except for those
    that isolate text from right to left. Therefore, print them with `click.echo`: `echo` would
    escape these.
    """

    def __init__(self, width: int | None, entries: Sequence[StoredEntry] | None = None) -> None:
        self._is_cut = width is not None
        if width is None:
            self._widths: Sequence[int] = _WIDTHS
        else:
            self._widths = _narrowed(_WIDTHS if entries is None else _fitting(entries), width)

    @property
    def header(self) -> str:
        """The titles of the columns."""
        return self._line(_COLUMN_TITLES)

    def line(self, entry: StoredEntry) -> str:
        """Return the line for an entry."""
        cells = _cells(entry)
        if self._is_cut:
            cells[LogColumn.RECEIVED] = self._received(entry)
        return self._line(cells)

    def _received(self, entry: StoredEntry) -> str:
        time = format_time(entry.received_at)
        if len(time) <= self._widths[LogColumn.RECEIVED]:
            return time
        return f"{entry.received_at.astimezone(UTC):%m-%d %H:%M:%SZ}"

    def _line(self, cells: Sequence[str]) -> str:
        return _GAP.join(self._padded_cells(cells)).rstrip()

    def _padded_cells(self, cells: Sequence[str]) -> Iterator[str]:
        for column, text, width in zip(LogColumn, cells, self._widths, strict=True):
            shown = self._cut(text, column, width) if self._is_cut else text
            padding = " " * (width - display_width(shown))
            if self._is_cut and any(bidirectional(each) in _RIGHT_TO_LEFT for each in shown):
                shown = _ISOLATE.format(shown)
            yield padding + shown if column is LogColumn.ID else shown + padding

    def _cut(self, text: str, column: LogColumn, width: int) -> str:
        match column:
            case LogColumn.ID:  # it is never cut, because other commands need it
                return text
            case LogColumn.RECIPIENT | LogColumn.MESSAGE_ID:
                return cut_middle(text, width)
            case LogColumn.RECEIVED | LogColumn.TYPE | LogColumn.OUTCOME:
                return cut_end(text, width)


def _cells(entry: StoredEntry) -> list[str]:
    tries = f", {count_tries(entry)}" if entry.attempts > 1 or entry.retries else ""
    retry = f", next retry {format_time(entry.retry_at)}" if entry.retry_at else ""
    of_entry = f", entry {entry.entry}" if entry.entry else ""
    return [
        str(entry.id),
        format_time(entry.received_at),
        visible(entry.record_type or "-"),
        visible(entry.recipient or "-"),
        visible(entry.message_id or "-"),
        visible(f"{entry.outcome.value}{tries}{retry}{of_entry}"),
    ]


def _fitting(entries: Iterable[StoredEntry]) -> Sequence[int]:
    """Return the width of the longest value in each column."""
    rows = [_COLUMN_TITLES, *map(_cells, entries)]
    return [max(map(display_width, values)) for values in zip(*rows, strict=True)]


def _narrowed(widths: Sequence[int], width: int) -> Sequence[int]:
    """Return the widths of columns whose lines fit a terminal, if possible."""
    result = list(widths)
    excess = sum(result) + len(_GAP) * (len(result) - 1) - width
    for column, least in _NARROWED:
        removed = min(max(excess, 0), max(result[column] - least, 0))
        result[column] -= removed
        excess -= removed
    result[LogColumn.OUTCOME] += max(-excess, 0)
    return result


def cut_middle(text: str, width: int) -> str:
    """Return text of at most `width` columns, with an ellipsis in place of its middle."""
    if display_width(text) <= width:
        return text
    end = (width - 1) // 2
    characters = _characters(text)
    last = _prefix(reversed(characters), end)[::-1]
    return "".join([*_prefix(characters, width - 1 - end), _ELLIPSIS, *last])


def cut_end(text: str, width: int) -> str:
    """Return text of at most `width` columns, with an ellipsis in place of its end."""
    if display_width(text) <= width:
        return text
    return "".join([*_prefix(_characters(text), width - 1), _ELLIPSIS])


def display_width(text: str) -> int:
    """Return the number of a terminal's columns that printable text occupies."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if category(character) in {"Mn", "Me"}:
        return 0  # combined with the character before it
    return 2 if east_asian_width(character) in {"W", "F"} else 1


def _characters(text: str) -> Sequence[str]:
    """Return the characters of a text, each with the combining characters after it."""
    found: list[str] = []
    for each in text:
        if found and _width(each) == 0:
            found[-1] += each
        else:
            found.append(each)
    return found


def _prefix(characters: Iterable[str], width: int) -> list[str]:
    """Return the first characters, as many as fit."""
    found: list[str] = []
    for each in characters:
        width -= display_width(each)
        if width < 0:
            break
        found.append(each)
    return found
