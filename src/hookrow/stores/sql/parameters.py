"""The parameters of SQL text: their placeholders, and their values as each database takes them.

SQL text has `%s` for each parameter and `%%` for a percent sign.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from itertools import count
from typing import Any
from uuid import UUID

import msgspec

from hookrow.core.log_entry import LogEntry

_json = msgspec.json.Encoder(uuid_format="hex").encode
_json_of_entries = msgspec.json.Encoder().encode

_PLACEHOLDER = re.compile("%(.)")


@cache
def numbered(sql: str) -> str:
    """Return the text with `$1`, `$2` for parameters, as PostgreSQL itself reads it."""
    numbers = count(1)
    return _PLACEHOLDER.sub(lambda each: f"${next(numbers)}" if each[1] == "s" else each[1], sql)


@cache
def question_marks(sql: str) -> str:
    """Return the text with `?` for parameters, as SQLite reads it."""
    return _PLACEHOLDER.sub(lambda each: "?" if each[1] == "s" else each[1], sql)


def count_parameters(sql: str) -> int:
    """Return the number of parameters of the text."""
    return _PLACEHOLDER.findall(sql).count("s")


class Parameters(ABC):
    """Encodes values as parameters."""

    @abstractmethod
    def encode(self, values: Iterable[Any]) -> str:
        """Return one parameter that holds many values, for `Dialect.any_of`."""

    @abstractmethod
    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return the parameters of a statement for all rows together, or a list for each row."""

    @abstractmethod
    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return the parameters of `log_insert` for all entries together, or a tuple for each."""

    def write(self, value: Any) -> Any:  # noqa: ANN401 - any type that a driver accepts
        """Return a value as a single parameter."""
        return value.value if isinstance(value, Enum) else value


class PostgresParameters(Parameters):
    """Arrays, encoded as text here because drivers would take longer, and JSON for the log."""

    def encode(self, values: Iterable[Any]) -> str:
        """Return an array as PostgreSQL reads it (its manual, section 8.15.6)."""
        listed = list(values)
        written = _json(listed).decode()
        # An array differs from JSON only in its brackets and its escape sequences.
        if "\\" not in written:
            return f"{{{written[1:-1]}}}"
        return f"{{{','.join(map(_array_element, listed))}}}"

    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return an array for each column."""
        return list(map(self.encode, zip(*rows, strict=True)))

    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return one JSON array."""
        return [_json_of_entries(entries).decode()]


class SQLiteParameters(Parameters):
    """JSON arrays. Times are text, in UTC with six digits, so that equal times are equal texts."""

    def encode(self, values: Iterable[Any]) -> str:
        """Return a JSON array."""
        return _json(list(values)).decode()

    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[list[Any]]:
        """Return the values of each row, without a function call for each value: the hot path."""
        find: Callable[..., Callable[[Any], Any] | None] = _SQLITE_CONVERTERS.get
        write = self.write
        encoded = list(map(list, rows))
        for row in encoded:
            for index, value in enumerate(row):
                if convert := find(type(value), write):
                    row[index] = convert(value)
        return encoded

    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return the fields of each entry, followed by its outcome again, as its first outcome."""
        rows, ended_at, ended_at_text = [], None, ""
        for entry in entries:
            if entry.ended_at is not ended_at:  # the entries of a group share it
                ended_at, ended_at_text = entry.ended_at, _time_as_text(entry.ended_at)
            received_at = last_received_at = _time_as_text(entry.received_at)
            if entry.last_received_at is not entry.received_at:
                last_received_at = _time_as_text(entry.last_received_at)
            outcome = entry.outcome._value_  # `value` is a property written in Python
            row = (
                entry.fingerprint,
                entry.record_type,
                entry.message_id,
                entry.recipient,
                entry.occurred_at and _time_as_text(entry.occurred_at),
                outcome,
                entry.status,
                entry.attempts,
                received_at,
                last_received_at,
                ended_at_text,
                entry.retry_at and _time_as_text(entry.retry_at),
                entry.body,
                entry.reason,
                entry.provider,
                entry.source._value_,
                entry.trace_id,
                outcome,
            )
            rows.append(row)
        return rows

    def write(self, value: Any) -> Any:  # noqa: ANN401 - as above
        """Return a time as text, and a UUID as hexadecimal digits."""
        if isinstance(value, datetime):
            return _time_as_text(value)
        return value.hex if isinstance(value, UUID) else super().write(value)


def _array_element(value: object) -> str:
    if not isinstance(value, str):
        return _json(value).decode()
    escaped = value.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _time_as_text(time: datetime) -> str:
    at = time if time.tzinfo is UTC else time.astimezone(UTC)
    return at.isoformat(" ", "microseconds")[: -len("+00:00")]


_SQLITE_CONVERTERS: Mapping[type[object], Callable[[Any], str] | None] = {
    **dict.fromkeys((type(None), str, int, bytes)),
    datetime: _time_as_text,
}
"""The conversion for each type of value; None if its values are written unchanged."""
