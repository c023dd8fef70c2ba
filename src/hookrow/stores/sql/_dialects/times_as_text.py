"""Parameters of databases to which times are written as text, in UTC with six digits.

Equal times are then equal texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from hookrow._core.log_entry import LogEntry
from hookrow.stores.sql._dialects.base import Dialect, json_text


def time_as_text(time: datetime) -> str:
    """Return a time in UTC with six digits."""
    at = time if time.tzinfo is UTC else time.astimezone(UTC)
    written = json_text(at).decode()  # in quotes, with T and Z; isoformat() takes twice as long
    fraction = "" if at.microsecond else ".000000"
    return f"{written[1:11]} {written[12:-2]}{fraction}"


class TimesAsText(Dialect):
    """A dialect whose times are written as text."""

    converters: ClassVar[Mapping[type[object], Callable[[Any], str] | None]] = {
        **dict.fromkeys((type(None), str, int, bytes)),
        datetime: time_as_text,
    }
    """The conversion for each type of value; None if its values are written unchanged."""

    def encode_values(self, rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
        """Return the values of each row, without a function call for each value: the hot path."""
        find: Callable[..., Callable[[Any], Any] | None] = self.converters.get
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
                ended_at, ended_at_text = entry.ended_at, time_as_text(entry.ended_at)
            received_at = last_received_at = time_as_text(entry.received_at)
            if entry.last_received_at is not entry.received_at:
                last_received_at = time_as_text(entry.last_received_at)
            outcome = entry.outcome._value_  # `value` is a property written in Python
            row = (
                entry.fingerprint,
                entry.record_type,
                entry.message_id,
                entry.recipient,
                entry.occurred_at and time_as_text(entry.occurred_at),
                outcome,
                entry.status,
                entry.attempts,
                received_at,
                last_received_at,
                ended_at_text,
                entry.retry_at and time_as_text(entry.retry_at),
                entry.body,
                entry.reason,
                entry.provider,
                entry.source._value_,
                entry.trace_id,
                entry.entry,
                entry.change_number,
                outcome,
            )
            rows.append(row)
        return rows

    def write(self, value: Any) -> Any:  # noqa: ANN401 - any type that a driver accepts
        """Return a time as text, and a UUID as hexadecimal digits."""
        if isinstance(value, datetime):
            return time_as_text(value)
        return value.hex if isinstance(value, UUID) else super().write(value)
