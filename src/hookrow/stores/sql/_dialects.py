"""What differs between databases in SQL text and parameters: names, expressions, sets of values.

SQL text has `%s` for each parameter and `%%` for a percent sign. Whole statements that differ are
in `_statements`; what a database says about its tables is in `_catalogues`.
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

from hookrow._core.log_entry import LogEntry
from hookrow._core.schema import Fold, Scalar
from hookrow._core.times import as_utc

_PLACEHOLDER = re.compile("%(.)")

_json = msgspec.json.Encoder(uuid_format="hex").encode
_json_of_entries = msgspec.json.Encoder().encode


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


class Dialect(ABC):
    """The SQL of a database, and the form of its parameters."""

    name: ClassVar[str]
    title: ClassVar[str]
    oldest: ClassVar[tuple[int, ...]]
    """The oldest supported version."""
    version: ClassVar[str]
    """The statement that returns the version."""
    for_update: ClassVar[str]
    """The clause by which a SELECT of hookrow's own rows locks them; empty if a transaction locks
    the whole database."""
    stay_idle: ClassVar[str]
    """The statement that lets a transaction stay idle for as long as it takes."""
    wait_briefly: ClassVar[str]
    """The statement after which a transaction waits for a table for a second at most; empty if the
    connection limits the wait."""
    stop_at_errors: ClassVar[str]
    """The command that lets the database's shell stop at the first error."""
    is_server: ClassVar[bool]
    """Whether a server runs the database; otherwise it is a file of the process."""
    clock: ClassVar[str | None]
    """The expression for the time of the server's clock; None if it is the process's."""
    binary: ClassVar[str]
    """The collation that distinguishes all texts."""
    begin: ClassVar[str]
    """The statement that begins a transaction on hookrow's own connections."""
    locks_rows: ClassVar[bool]
    """Whether a transaction locks single rows; otherwise it locks the whole database."""
    size: ClassVar[str]
    """The function that returns the size of a text."""
    skip_locked: ClassVar[str]
    """The clause by which a SELECT locks its rows and skips those that are locked already."""
    plan_for_values: ClassVar[str | None]
    """The statement after which the plans of the transaction suit the values of parameters; None if
    the database has no such plans."""
    create_index: ClassVar[str]
    """The words that begin the creation of an index on a table without blocking writers."""
    explain: ClassVar[str]
    """The prefix of a statement that returns its plan instead of running it."""

    def quote(self, name: str) -> str:
        """Return a name as an identifier in SQL text."""
        return '"' + name.replace('"', '""').replace("%", "%%") + '"'

    def table(self, name: str) -> str:
        """Return the name of a table, in which a dot follows the name of its schema."""
        return ".".join(map(self.quote, filter(None, name.rpartition(".")[::2])))

    def literal(self, value: Scalar) -> str:
        """Return a value as SQL text. A planner uses a partial index only for a constant."""
        if isinstance(value, str):
            return "'" + value.replace("'", "''").replace("%", "%%") + "'"
        return "NULL" if value is None else str(value).lower()

    @abstractmethod
    def cast(self, expression: str, type_: str) -> str:
        """Return an expression as a value of a column's type."""

    @abstractmethod
    def instant(self, type_: str) -> str:
        """Return a parameter for a time, to compare with a column of a type."""

    @abstractmethod
    def as_text(self, expression: str) -> str:
        """Return an expression of any type as text."""

    @abstractmethod
    def as_integer(self, expression: str) -> str:
        """Return a number or a text of digits as a 64-bit integer."""

    def characters(self, text: str) -> str:
        """Return the number of characters of a text."""
        return f"length({text})"

    def quotient(self, dividend: str, divisor: int) -> str:
        """Divide integers, and drop the remainder."""
        return f"{dividend} / {divisor}"

    def compare(self, columns: Sequence[str], operator: str, values: Sequence[str]) -> str:
        """Return the condition that compares columns with values, the first ones first.

        An index in the order of the columns serves it.
        """
        return f"({', '.join(columns)}) {operator} ({', '.join(values)})"

    def old(self, table: str, column: str) -> str:  # noqa: ARG002 - for databases without the alias
        """Return the value of a row that exists, in the assignments of `insert`."""
        return f"kept.{column}"

    def new(self, column: str) -> str:
        """Return the value of a row to insert, in the assignments of `insert`."""
        return f"excluded.{column}"

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: str,
        key: Sequence[str],
        assignments: Mapping[str, str],
    ) -> str:
        """Return the statement that inserts rows, and changes those whose key exists.

        `rows` is a VALUES or a SELECT. Without `assignments`, existing rows stay as they are. A
        column that others depend on is assigned last, because some databases assign from left to
        right.
        """
        sets = ", ".join(f"{name} = {value}" for name, value in assignments.items())
        action = f"UPDATE SET {sets}" if sets else "NOTHING"
        return (
            f"INSERT INTO {table} AS kept ({', '.join(columns)}) {rows} "
            f"ON CONFLICT ({', '.join(key)}) DO {action}"
        )

    @abstractmethod
    def fold(self, kind: Fold, email: str) -> str:
        """Return the expression by which emails are compared, and which an index must contain."""

    @abstractmethod
    def is_not_ascii(self, text: str) -> str:
        """Return the condition that a text has a character that is not ASCII."""

    def email_is_any(self, kind: Fold, email: str, type_: str) -> str:
        """Compare folded emails with the values of one parameter. `type_` is the column's."""
        is_text = kind in {"ascii", "lower"}
        return self.any_of(self.fold(kind, email), "text" if is_text else type_)

    @abstractmethod
    def is_email(self, kind: Fold, email: str, address: str, type_: str) -> str:
        """Compare a column of emails with an address of the log by the column's index.

        `type_` is the column's. An address in the log is in lower case.
        """

    @abstractmethod
    def is_message_id(self, column: str, message_id: str, type_: str, *, uuids: bool) -> str:
        """Compare a column with a message id of the log by the column's index.

        `type_` is the column's. Without a GUID, no row of a column of UUIDs is equal.
        """

    @abstractmethod
    def as_key(self, reference: str, type_: str, key_type: str) -> str:
        """Return a reference as a value that can be compared with the key, by the key's index.

        `type_` is the reference's.
        """

    @abstractmethod
    def any_of(self, expression: str, type_: str) -> str:
        """Compare with the values of one parameter, which `encode` returns."""

    @abstractmethod
    def selected_by(self, expression: str, select: str) -> str:
        """Compare with the values of a SELECT, which is run first."""

    @abstractmethod
    def epoch(self, time: str) -> str:
        """Return the whole seconds from 1970 to a time, as an integer."""

    @abstractmethod
    def hour(self, time: str) -> str:
        """Return an expression that is equal for times in the same hour of UTC."""

    @abstractmethod
    def hour_as_time(self, hour: str) -> str:
        """Return the start of an hour, given by `hour`, as a time."""

    @abstractmethod
    def select(self, expression: str, type_: str) -> str:
        """Return the expression that selects a key. `type_` is the column's."""

    @abstractmethod
    def text(self, expression: str, type_: str) -> str:
        """Return the expression that selects a text or a UUID as text. `type_` is the column's."""

    @abstractmethod
    def encode(self, values: Iterable[Any]) -> str:
        """Return one parameter that holds many values, for `any_of`."""

    @abstractmethod
    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return the parameters of a statement for all rows together, or a list for each row."""

    @abstractmethod
    def encode_entries(self, entries: Sequence[LogEntry]) -> Sequence[Any]:
        """Return the parameters of `Statements.add_entries`: for all together, or for each."""

    def write(self, value: Any) -> Any:  # noqa: ANN401 - any type that a driver accepts
        """Return a value as a single parameter."""
        return value.value if isinstance(value, Enum) else value


class PostgreSQL(Dialect):
    """PostgreSQL, with arrays as parameters, which have types.

    An array is encoded as text here because drivers would take longer.
    """

    name = "postgresql"
    title = "PostgreSQL"
    oldest = (13,)
    version = "SHOW server_version"
    binary = '"C"'
    size = "octet_length"  # in bytes: known without reading the text
    for_update = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    plan_for_values = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
    stay_idle = "SET LOCAL idle_in_transaction_session_timeout = 0"
    wait_briefly = "SET LOCAL lock_timeout = '1s'"
    stop_at_errors = r"\set ON_ERROR_STOP on"
    is_server = True
    create_index = "CREATE INDEX CONCURRENTLY"
    explain = "EXPLAIN"
    clock = "clock_timestamp()"  # now() is the time at which the transaction began
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    locks_rows = True

    def cast(self, expression: str, type_: str) -> str:
        """Cast a parameter, too, so that the column's index is used."""
        return f"{expression}::{type_}"

    def instant(self, type_: str) -> str:
        """Convert the time to UTC for a column without time zone, which would ignore its offset."""
        if type_ == NAIVE:
            return f"%s::{AWARE} AT TIME ZONE 'UTC'"
        return self.cast("%s", type_)

    def as_text(self, expression: str) -> str:
        """Cast the expression."""
        return f"CAST({expression} AS text)"

    def as_integer(self, expression: str) -> str:
        """Cast the expression."""
        return f"CAST({expression} AS bigint)"

    def fold(self, kind: Fold, email: str) -> str:
        """Fold only ASCII letters for `ascii`: plain lower() follows the database's locale."""
        match kind:
            case "ascii":
                return f'lower({email} COLLATE "C")'
            case "lower":
                return f"lower({email})"
            case _:
                return email

    def is_not_ascii(self, text: str) -> str:
        """Use a regular expression, which works in every encoding of the database."""
        return rf"{text} ~ '[^\x01-\x7F]'"

    def email_is_any(self, kind: Fold, email: str, type_: str) -> str:
        """Leave lower-casing to the database, whose locale may fold more than Python does."""
        if kind == "lower":
            return f"{self.fold(kind, email)} = ANY(ARRAY(SELECT lower(unnest(%s::text[]))))"
        return super().email_is_any(kind, email, type_)

    def is_email(self, kind: Fold, email: str, address: str, type_: str) -> str:
        """Convert the address to the column's type, or fold it as the database does."""
        match kind:
            case "ascii":
                return f"{self.fold(kind, email)} = {address}"
            case "lower":
                return f"{self.fold(kind, email)} = lower({address})"
            case _:
                return f"{email} = {address}::{type_}"

    def is_message_id(self, column: str, message_id: str, type_: str, *, uuids: bool) -> str:
        """Convert the id to the column's type; the conversion of another text would fail."""
        if uuids:
            message_id = f"CASE WHEN {message_id} ~* '{GUID_PATTERN}' THEN {message_id} END"
        return f"{column} = ({message_id})::{type_}"

    def as_key(self, reference: str, type_: str, key_type: str) -> str:
        """Cast between CHAR, whose blanks at the end do not count, and the other types of text."""
        types = {type_, key_type}
        return f"{reference}::{key_type}" if "bpchar" in types <= _TEXT_TYPES else reference

    def any_of(self, expression: str, type_: str) -> str:
        """Compare with the elements of an array."""
        return f"{expression} = ANY(%s::{type_}[])"

    def selected_by(self, expression: str, select: str) -> str:
        """Compare with the elements of an array: the planner could reverse a join."""
        return f"{expression} = ANY(ARRAY({select}))"

    def epoch(self, time: str) -> str:
        """Round down: a cast alone would round to the nearest second."""
        return f"CAST(floor(date_part('epoch', {time})) AS bigint)"

    def hour(self, time: str) -> str:
        """Truncate the time in UTC, whatever the session's zone."""
        return f"date_trunc('hour', timezone('UTC', {time}))"

    def hour_as_time(self, hour: str) -> str:
        """Add the zone."""
        return f"timezone('UTC', {hour})"

    def select(self, expression: str, type_: str) -> str:
        """Return a number, a text or a UUID; the cast removes the blanks that pad a CHAR."""
        return expression if type_ in _KEY_TYPES else f"{expression}::text"

    def text(self, expression: str, type_: str) -> str:
        """Return text, also of a UUID."""
        return f"{expression}::text" if type_ == "uuid" else self.select(expression, type_)

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


class SQLite(Dialect):
    """SQLite, with JSON arrays as parameters. Columns have no fixed types there.

    Times are text, in UTC with six digits, so that equal times are equal texts.
    """

    name = "sqlite"
    title = "SQLite"
    oldest = (3, 35)
    version = "SELECT sqlite_version()"
    binary = "BINARY"
    size = "length"  # in characters: SQLite before 3.43 has no function for bytes
    for_update = skip_locked = ""
    plan_for_values = None
    stay_idle = wait_briefly = ""
    stop_at_errors = ".bail on"
    is_server = False
    create_index = "CREATE INDEX"
    explain = "EXPLAIN QUERY PLAN"
    clock = None
    begin = "BEGIN IMMEDIATE"
    locks_rows = False

    def cast(self, expression: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        """Return the expression as it is."""
        return expression

    def instant(self, type_: str) -> str:  # noqa: ARG002 - columns have no types
        """Return the parameter without a cast: a time is text."""
        return "%s"

    def as_text(self, expression: str) -> str:
        """Cast the expression."""
        return f"CAST({expression} AS text)"

    def as_integer(self, expression: str) -> str:
        """Cast the expression."""
        return f"CAST({expression} AS bigint)"

    def fold(self, kind: Fold, email: str) -> str:
        """Fold ASCII letters; SQLite folds no others."""
        match kind:
            case "ascii" | "lower":
                return f"lower({email})"
            case "citext":
                return f"{email} COLLATE NOCASE"
            case _:
                return email

    def is_not_ascii(self, text: str) -> str:
        """Use the only pattern with ranges that SQLite has built in."""
        return f"{text} GLOB '*[^' || char(1) || '-' || char(127) || ']*'"

    def is_email(self, kind: Fold, email: str, address: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        """Drop the affinity of the address with `+`: with it, the index of lower() is not used.

        SQLite's documentation, "Datatypes In SQLite", section 4.2, has the rules.
        """
        return f"{self.fold(kind, email)} = +{address}"

    def is_message_id(
        self,
        column: str,
        message_id: str,
        type_: str,  # noqa: ARG002 - columns have no types
        *,
        uuids: bool,
    ) -> str:
        """Compare with a GUID in both of the forms in which it may be stored."""
        if not uuids:
            return f"{column} = +{message_id}"
        return f"{column} IN (+{message_id}, replace(lower({message_id}), '-', ''))"

    def as_key(self, reference: str, type_: str, key_type: str) -> str:  # noqa: ARG002 - columns have no types
        """Return the reference as it is."""
        return reference

    def any_of(self, expression: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        """Compare with the elements of a JSON array."""
        return f"{expression} IN (SELECT value FROM json_each(%s))"

    def selected_by(self, expression: str, select: str) -> str:
        """Compare with the rows."""
        return f"{expression} IN ({select})"

    def epoch(self, time: str) -> str:
        """Remove the fraction: strftime would round it to milliseconds."""
        return f"CAST(strftime('%%s', substr({time}, 1, 19)) AS integer)"

    def hour(self, time: str) -> str:
        """Truncate the text."""
        return f"substr({time}, 1, 13)"

    def hour_as_time(self, hour: str) -> str:
        """Complete the text."""
        return f"{hour} || ':00:00.000000'"

    def select(self, expression: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        """Return the value as it is stored."""
        return expression

    def text(self, expression: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        """Return text, even if the column's declared type made the value a number."""
        return f"CAST({expression} AS TEXT)"

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

    def write(self, value: Any) -> Any:  # noqa: ANN401 - any type that a driver accepts
        """Return a time as text, and a UUID as hexadecimal digits."""
        if isinstance(value, datetime):
            return _time_as_text(value)
        return value.hex if isinstance(value, UUID) else super().write(value)


AWARE = "timestamp with time zone"
NAIVE = "timestamp without time zone"
"""PostgreSQL's two types of times: the latter ignores the offset of a time."""

GUID_PATTERN = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""The canonical form of a UUID."""

_TEXT_TYPES = {"bpchar", "character varying", "citext", "text"}
"""PostgreSQL's types of text."""

_KEY_TYPES = {
    "smallint",
    "integer",
    "bigint",
    "numeric",
    "text",
    "character varying",
    "uuid",
}
"""PostgreSQL's types whose values are a `Key`."""


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

POSTGRESQL, SQLITE = PostgreSQL(), SQLite()

DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (POSTGRESQL, SQLITE)}

UNSUPPORTED_DATABASE = (
    f"hookrow works on {' and '.join(each.title for each in DIALECTS.values())}, not on {{}}."
)
"""The error for unsupported databases."""


def utc(time: datetime | str | None) -> datetime | None:
    """Return a time from a driver in UTC, or None for null."""
    return None if time is None else read_time(time)


def read_time(time: datetime | str) -> datetime:
    """Return a time from a driver, which is never null, in UTC."""
    return as_utc(datetime.fromisoformat(time) if isinstance(time, str) else time)
