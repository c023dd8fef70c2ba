"""How the SQL of PostgreSQL and SQLite differs: names, sets of values, rows of values, times.

SQL text has `%s` for each parameter and `%%` for a percent sign; `numbered` and `question_marks`
convert it for drivers that want something else.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from itertools import count
from typing import Any, ClassVar
from uuid import UUID

import msgspec

from hookrow.core.log_entry import LogEntry
from hookrow.core.schema import Fold, Given

_json = msgspec.json.Encoder(uuid_format="hex").encode
_json_of_entries = msgspec.json.Encoder().encode


class Dialect(ABC):
    """The SQL that both databases understand. `oldest` is the first version that is supported."""

    name: ClassVar[str]
    title: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    begin: ClassVar[str]
    """The statement that begins a transaction on hookrow's own connections."""
    locks_rows: ClassVar[bool]
    """Whether a transaction locks single rows; otherwise it locks the whole database."""
    single_statement_write: ClassVar[bool]
    """Whether one statement can change rows of several tables."""
    size: ClassVar[str]
    """The function that returns the size of a text."""
    skip_locked: ClassVar[str]
    """The clause by which a SELECT locks its rows, except those that are locked already."""
    explain: ClassVar[str]
    """The prefix of a statement whose plan is wanted, not its result."""
    takes_rows: ClassVar[bool]
    """Whether a statement takes many rows of values as parameters; otherwise it takes one."""

    def quote(self, name: str) -> str:
        """Return a name as an identifier in SQL text."""
        return '"' + name.replace('"', '""').replace("%", "%%") + '"'

    def table(self, name: str) -> str:
        """Return the name of a table, in which a dot follows the name of its schema."""
        return ".".join(map(self.quote, filter(None, name.rpartition(".")[::2])))

    def literal(self, value: Given) -> str:
        """Return a value as SQL text. A planner uses a partial index only for a constant."""
        if isinstance(value, str):
            return "'" + value.replace("'", "''").replace("%", "%%") + "'"
        return "NULL" if value is None else str(value).lower()

    @abstractmethod
    def fold(self, kind: Fold, email: str) -> str:
        """Return the expression by which emails are compared, which an index has to be on."""

    def email_is_any(self, kind: Fold, email: str, type_: str) -> str:
        """Compare folded emails with any of the values of one parameter."""
        is_text = kind in {"ascii", "lower"}
        return self.any_of(self.fold(kind, email), "text" if is_text else type_)

    @abstractmethod
    def any_of(self, expression: str, type_: str) -> str:
        """Compare with any of the values of one parameter, which `encode` makes."""

    @abstractmethod
    def encode(self, values: Iterable[Any]) -> str:
        """Return the parameter of `any_of`."""

    @abstractmethod
    def epoch(self, time: str) -> str:
        """Return the whole seconds from 1970 to a time, as an integer."""

    def rows(self, types: Mapping[str, str]) -> str:
        """Return rows of values as the relation `given`, for writing in a single statement."""
        raise NotImplementedError

    @abstractmethod
    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return the parameters of `rows`; without them, the parameters of each row."""

    @abstractmethod
    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return the parameters of `log_insert`; if it takes one row, those of each row."""

    def write(self, value: Any) -> Any:  # noqa: ANN401 - what a driver takes
        """Return a value as a single parameter."""
        return value.value if isinstance(value, Enum) else value

    def select(self, expression: str, type_: str) -> str:  # noqa: ARG002 - for PostgreSQL
        """Return a key as it is selected. `type_` is its column's."""
        return expression

    def text(self, expression: str, type_: str) -> str:
        """Return a column of text as it is selected. `type_` is its column's."""
        return self.select(expression, type_)


class PostgreSQL(Dialect):
    """Arrays as parameters, which are written here as text: a driver takes longer."""

    name = "postgresql"
    title = "PostgreSQL"
    oldest = (13,)
    size = "octet_length"  # in bytes: known without reading the text
    skip_locked = "FOR UPDATE SKIP LOCKED"
    explain = "EXPLAIN"
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    locks_rows = single_statement_write = takes_rows = True

    def fold(self, kind: Fold, email: str) -> str:
        """Fold ASCII letters only for `ascii`: plain lower() follows the database's locale."""
        match kind:
            case "ascii":
                return f'lower({email} COLLATE "C")'
            case "lower":
                return f"lower({email})"
            case _:
                return email

    def email_is_any(self, kind: Fold, email: str, type_: str) -> str:
        """Leave lower case to the database, whose locale may fold more than Python does."""
        if kind == "lower":
            return f"{self.fold(kind, email)} = ANY(ARRAY(SELECT lower(unnest(%s::text[]))))"
        return super().email_is_any(kind, email, type_)

    def any_of(self, expression: str, type_: str) -> str:
        """Compare with the elements of an array."""
        return f"{expression} = ANY(%s::{type_}[])"

    def encode(self, values: Iterable[Any]) -> str:
        """Return an array as PostgreSQL reads it (its manual, section 8.15.6)."""
        listed = list(values)
        written = _json(listed).decode()
        # An array differs from JSON only in its brackets and in what a backslash escapes.
        if "\\" not in written:
            return f"{{{written[1:-1]}}}"
        return f"{{{','.join(map(_element, listed))}}}"

    def epoch(self, time: str) -> str:
        """Round down: a cast alone would round to the nearest second."""
        return f"CAST(floor(date_part('epoch', {time})) AS bigint)"

    def rows(self, types: Mapping[str, str]) -> str:
        """Return the rows of parallel arrays, a parameter each."""
        arrays = ", ".join(f"%s::{type_}[]" for type_ in types.values())
        return f"unnest({arrays}) AS given({', '.join(types)})"

    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return an array for each column."""
        return list(map(self.encode, zip(*rows, strict=True)))

    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return one JSON array."""
        return [_json_of_entries(entries).decode()]

    def select(self, expression: str, type_: str) -> str:
        """Return a number, a text or a UUID; CHAR comes without the blanks that pad it."""
        return expression if type_ in _KEY_TYPES else f"{expression}::text"

    def text(self, expression: str, type_: str) -> str:
        """Return text, also of a UUID."""
        return f"{expression}::text" if type_ == "uuid" else self.select(expression, type_)


class SQLite(Dialect):
    """JSON as parameters. Times are text, in UTC with six digits, so that equal ones are equal."""

    name = "sqlite"
    title = "SQLite"
    oldest = (3, 35)
    size = "length"  # in characters: SQLite before 3.43 has no function for bytes
    skip_locked = ""
    explain = "EXPLAIN QUERY PLAN"
    begin = "BEGIN IMMEDIATE"
    locks_rows = single_statement_write = takes_rows = False

    def fold(self, kind: Fold, email: str) -> str:
        """Fold ASCII letters, which is all that SQLite folds."""
        match kind:
            case "ascii" | "lower":
                return f"lower({email})"
            case "citext":
                return f"{email} COLLATE NOCASE"
            case _:
                return email

    def any_of(self, expression: str, type_: str) -> str:  # noqa: ARG002 - as above
        """Compare with the elements of a JSON array."""
        return f"{expression} IN (SELECT value FROM json_each(%s))"

    def encode(self, values: Iterable[Any]) -> str:
        """Return a JSON array."""
        return _json(list(values)).decode()

    def epoch(self, time: str) -> str:
        """Cut the fraction off: strftime would round it to milliseconds."""
        return f"CAST(strftime('%%s', substr({time}, 1, 19)) AS integer)"

    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[list[Any]]:
        """Return the values of each row, without a function call for each value: the hot path."""
        find: Callable[..., Callable[[Any], Any] | None] = _CONVERTERS.get
        write = self.write
        encoded = list(map(list, rows))
        for row in encoded:
            for place, value in enumerate(row):
                if convert := find(type(value), write):
                    row[place] = convert(value)
        return encoded

    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return the fields of each entry, and its outcome once more: the first outcome."""
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
                entry.source and entry.source._value_,
                outcome,
            )
            rows.append(row)
        return rows

    def write(self, value: Any) -> Any:  # noqa: ANN401 - as above
        """Return a time as text, and a UUID as hexadecimal digits."""
        if isinstance(value, datetime):
            return _time_as_text(value)
        return value.hex if isinstance(value, UUID) else super().write(value)

    def text(self, expression: str, type_: str) -> str:  # noqa: ARG002 - as above
        """Return text, also where a column's type made a number of it."""
        return f"CAST({expression} AS TEXT)"


_KEY_TYPES = {
    *("smallint", "integer", "bigint", "numeric"),
    *("text", "character varying", "uuid"),
}
"""PostgreSQL's types whose values are a `Key`."""

POSTGRESQL, SQLITE = PostgreSQL(), SQLite()

DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (POSTGRESQL, SQLITE)}


@cache
def numbered(sql: str) -> str:
    """Return the text with `$1`, `$2` for parameters, as PostgreSQL itself reads it."""
    numbers = count(1)
    return _MARK.sub(lambda mark: f"${next(numbers)}" if mark[1] == "s" else mark[1], sql)


@cache
def question_marks(sql: str) -> str:
    """Return the text with `?` for parameters."""
    return _MARK.sub(lambda mark: "?" if mark[1] == "s" else mark[1], sql)


def count_parameters(sql: str) -> int:
    """Return how many parameters the text has."""
    return _MARK.findall(sql).count("s")


_MARK = re.compile("%(.)")


def _time_as_text(time: datetime) -> str:
    """Return a time for SQLite."""
    at = time if time.tzinfo is UTC else time.astimezone(UTC)
    return at.isoformat(" ", "microseconds")[: -len("+00:00")]


_CONVERTERS: Mapping[type[object], Callable[[Any], str] | None] = {
    **dict.fromkeys((type(None), str, int, bytes)),
    datetime: _time_as_text,
}
"""By the type of a value for SQLite; None if it is written as it is."""


def utc(time: datetime | str | None) -> datetime | None:
    """Return a time from a driver in UTC; a time without a zone is in UTC already."""
    if time is None:
        return None
    at = datetime.fromisoformat(time) if isinstance(time, str) else time
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _element(value: object) -> str:
    if not isinstance(value, str):
        return _json(value).decode()
    escaped = value.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
