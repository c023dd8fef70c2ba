"""Rules that reject unsuitable columns by what a database's catalogue says about them. No I/O.

Whether a type can hold hookrow's values is not among them: see `_needs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from hookrow._core.column_rules import (
    KINDS_OF_TIMES,
    fault_of,
    faults_of_use,
    is_flag,
    may_be,
    never_equals,
)
from hookrow._core.corrections import OF_IDS, words_of
from hookrow._core.keys import changed_keys
from hookrow._core.schema import (
    TIMES,
    WRITTEN,
    Scalar,
    Schema,
)
from hookrow._fault import Fault
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._log_rows import LOG_COLUMNS
from hookrow.stores.sql._needs import Columns


class _Rule(NamedTuple):
    """A condition that makes a column with one of hookrow's `names` unsuitable, and the error."""

    names: Collection[str]
    is_broken: Callable[[Column, Schema], bool]
    text: str


_TYPE = "of the type {type_name}"

_RULES = (
    _Rule(
        WRITTEN,
        lambda column, _: column.changes_itself,
        "set to the current time by each change of its row (ON UPDATE), and would lose the time "
        "of the event: MODIFY it without ON UPDATE.",
    ),
    _Rule(
        {"email"},
        lambda column, schema: schema.subscribers.fold == "citext" and not column.ignores_case,
        f"{_TYPE}, not CITEXT, and case-sensitive: set another `fold`, for example 'lower', or "
        "change its type or its collation.",
    ),
    _Rule(
        {"id", "subscriber_id", "list_id", "message_id"},
        lambda column, _: column.type == "citext",
        f"{_TYPE}; keys are case-sensitive: use TEXT.",
    ),
)
_FINDS_NO_ROWS = (
    f"{_TYPE}, which cannot be a key, because a value that a driver returns does not always find "
    "its row: change its type, or name another key."
)


def faults_of_columns(schema: Schema, tables: Mapping[str, Columns]) -> Iterator[Fault]:
    """Yield the unsuitable columns, given the existing columns of each role's table.

    `faults_of_nulls` has those that are unsuitable because they are NOT NULL.
    """
    changed = changed_keys(schema)
    for name, role in schema.roles.items():
        existing = tables.get(name, {})
        for field, column_name in schema.columns(name).items():
            column = existing.get(column_name)
            if column is None:
                continue
            if field in changed.get(name, ()) and not column.finds_rows:
                yield fault_of(role.table, column, _FINDS_NO_ROWS)
            yield from faults_of_use(schema, name, field, column)
            for rule in _RULES:
                if field in rule.names and rule.is_broken(column, schema):
                    yield fault_of(role.table, column, rule.text)
        for column_name, value in role.where.items():
            column = existing.get(column_name)
            if column is not None and _is_word(column, value):
                text = never_equals(role.table, column, value, schema.form)
                yield Fault(text, role.table, column.name)


def suits(name: str, column: Column) -> bool:
    """Return whether a column may be suggested for one of hookrow's names, given what is known.

    An integer or a text may hold anything, so only one that is named as an id is suggested as one.
    """
    is_named = not name.endswith("_id") or not OF_IDS.isdisjoint(words_of(column.name))
    return is_named and can_hold(name, column)


def can_hold(name: str, column: Column) -> bool:
    """Return whether a column may hold the values for one of hookrow's names, as far as known."""
    if not may_be(name, column):
        return False
    if name in TIMES:
        is_time = column.kind in _MAY_BE_TIMES or (column.kind == "text" and not column.type)
        return is_time or is_flag(name, column)
    if name in {"email", "suppression_reason", "bounce_type"}:
        return column.kind in _KINDS_OF_TEXTS
    if name == "provider_message_id":
        return column.kind in {"uuid", *_KINDS_OF_TEXTS}
    return column.kind not in _KINDS_OF_NO_KEY


_KINDS_OF_NO_KEY = {"boolean", "date", "time", *KINDS_OF_TIMES}
_MAY_BE_TIMES = {*KINDS_OF_TIMES, ""}
_KINDS_OF_TEXTS = ("text", "")


def _is_word(column: Column, value: Scalar) -> bool:
    """Return whether a value is a text that PostgreSQL might read as a relative date.

    These are words such as 'yesterday' (its manual, section 8.5.1.4).
    """
    if column.kind not in {"date", "datetime"} or not column.type or not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return True
    return False


_NULLABLE = {
    "record_type",
    "message_id",
    "recipient",
    "occurred_at",
    "retry_at",
    "body",
    "reason",
    "provider",
    "entry",
    "trace_id",
    "change_number",
}


def faults_of_log(log: str, columns: Columns) -> Iterator[Fault]:
    """Yield the unsuitable columns of the log."""
    for name in LOG_COLUMNS:
        column = columns[name]
        if column.lacks_characters:
            text = (
                f"of the character set {column.charset}, which cannot represent every character: "
                "CONVERT the table TO CHARACTER SET utf8mb4."
            )
            yield fault_of(log, column, text)
        if name in _NULLABLE and not column.nullable:
            yield fault_of(log, column, "NOT NULL, but not every entry has such a value.")
        if name == "body" and column.length is not None:
            yield fault_of(log, column, f"{_TYPE}, which is too short: a body may have any length.")
        if name == "id" and not column.default:
            text = "without a default, but the database must number the entries."
            yield fault_of(log, column, text)
        if name != "id" and column.generated:
            yield fault_of(log, column, "generated, and cannot be written.")
