"""The SQL of PostgreSQL, and arrays as its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from hookrow._core.log_entry import LogEntry
from hookrow._core.schema import Fold
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.base import GUID_PATTERN, Dialect, json_text

_json_of_entries = msgspec.json.Encoder().encode


class PostgreSQL(Dialect):
    """PostgreSQL, with arrays as parameters, which have types.

    An array is encoded as text here because drivers would take longer.
    """

    name = "postgresql"
    oldest: ClassVar[Mapping[str, tuple[int, ...]]] = {"PostgreSQL": (13,)}
    version = "SHOW server_version"
    unused_id = "-1 - floor(random() * 2147483648)::bigint"
    id_type, text_type = "bigint", "text"
    join_in_order = "CROSS JOIN"  # the planner chooses an order, and chooses well
    binary = '"C"'
    greatest = "greatest"
    size = "octet_length"  # in bytes: known without reading the text
    for_update = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    plan_for_values = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
    stay_idle = "SET LOCAL idle_in_transaction_session_timeout = 0"
    wait_briefly = "SET LOCAL lock_timeout = '1s'"
    read_only = "default_transaction_read_only"
    stop_at_errors = r"\set ON_ERROR_STOP on"
    is_server = True
    create_index = "CREATE INDEX CONCURRENTLY"
    explain = "EXPLAIN"
    clock = "clock_timestamp()"  # now() is the time at which the transaction began
    new_id = "lastval()"
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
    transactional_ddl = True
    locks_rows = True

    def cast(self, expression: str, type_: str) -> str:
        return f"{expression}::{type_}"  # a parameter, too, so that the column's index is used

    def instant(self, type_: str) -> str:
        if type_ == NAIVE:  # which would ignore the offset of the time
            return f"%s::{AWARE} AT TIME ZONE 'UTC'"
        return self.cast("%s", type_)

    def as_text(self, expression: str) -> str:
        return f"CAST({expression} AS text)"

    def text_before(self, text: str, separator: str) -> str:
        return f"split_part({text}, '{separator}', 1)"

    def differs(self, expression: str, other: str) -> str:
        return f"{expression} IS DISTINCT FROM {other}"

    def as_integer(self, expression: str) -> str:
        return f"CAST({expression} AS bigint)"

    def fold(self, kind: Fold, email: str) -> str:
        match kind:
            case "ascii":  # lower() alone would follow the database's locale
                return f'lower({email} COLLATE "C")'
            case "lower":
                return f"lower({email})"
            case _:
                return email

    def as_recipient(self, email: str) -> str:
        # An index serves only comparisons in its own collation.
        return f'{super().as_recipient(email)} COLLATE "default"'

    def is_not_ascii(self, text: str) -> str:
        # This works in every encoding of the database.
        return rf"{text} ~ '[^\x01-\x7F]'"

    def email_is_any(self, kind: Fold, alias: str, column: Column) -> str:
        if kind == "lower":  # the database's locale may fold more than Python does
            email = self.fold(kind, f"{alias}.{self.quote(column.name)}")
            return f"{email} = ANY(ARRAY(SELECT lower(unnest(%s::text[]))))"
        return super().email_is_any(kind, alias, column)

    def is_email(self, kind: Fold, alias: str, column: Column, address: str) -> str:
        email = f"{alias}.{self.quote(column.name)}"
        match kind:
            case "ascii":
                return f"{self.fold(kind, email)} = {address}"
            case "lower":
                return f"{self.fold(kind, email)} = lower({address})"
            case _:
                return f"{email} = {address}::{column.type}"

    def is_message_id(self, alias: str, column: Column, message_id: str) -> str:
        if column.holds_uuids:  # the conversion of another text would fail
            message_id = f"CASE WHEN {message_id} ~* '{GUID_PATTERN}' THEN {message_id} END"
        return f"{alias}.{self.quote(column.name)} = ({message_id})::{column.type}"

    def first_uuids(self, column: Column, digits: str) -> Sequence[str]:  # noqa: ARG002 - always of the type
        return [digits.ljust(32, "0")]

    def as_key(self, reference: str, column: Column, key: Column) -> str:
        # Blanks at the end of a CHAR do not count, unlike those of the other types of text.
        types = {column.type, key.type}
        return f"{reference}::{key.type}" if "bpchar" in types <= _TEXT_TYPES else reference

    def any_of(self, expression: str, type_: str) -> str:
        return f"{expression} = ANY(%s::{type_}[])"

    def tenant(self, expression: str, column: Column) -> str:  # noqa: ARG002 - of any column
        return f"{expression}::text"

    def is_same_text(self, expression: str) -> str:
        return f'{expression} COLLATE "C" = %s'

    def selected_by(self, expression: str, select: str) -> str:
        # The planner could reverse a join.
        return f"{expression} = ANY(ARRAY({select}))"

    def epoch(self, time: str) -> str:
        # A cast alone would round to the nearest second.
        return f"CAST(floor(date_part('epoch', {time})) AS bigint)"

    def hour(self, time: str) -> str:
        return f"date_trunc('hour', timezone('UTC', {time}))"

    def hour_as_time(self, hour: str) -> str:
        return f"timezone('UTC', {hour})"

    def select(self, expression: str, column: Column) -> str:
        # The cast removes the blanks that pad a CHAR.
        return expression if column.type in _KEY_TYPES else f"{expression}::text"

    def text(self, expression: str, column: Column) -> str:
        return f"{expression}::text" if column.type == "uuid" else self.select(expression, column)

    def encode(self, values: Iterable[Any]) -> str:
        """Return an array as PostgreSQL reads it (its manual, section 8.15.6)."""
        listed = list(values)
        written = json_text(listed).decode()
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


AWARE = "timestamp with time zone"
NAIVE = "timestamp without time zone"
"""PostgreSQL's two types of times: the latter ignores the offset of a time."""


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
        return json_text(value).decode()
    escaped = value.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


POSTGRESQL = PostgreSQL()
