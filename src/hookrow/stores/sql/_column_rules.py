"""Rules that reject unsuitable columns by what a database's catalogue says about them. No I/O.

Whether a type can hold hookrow's values is not among them: see `_needs`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from hookrow._core.corrections import OF_IDS, words_of
from hookrow._core.notation import ModelNotation, Notation
from hookrow._core.schema import (
    MAY_BE_FLAGS,
    NULLED,
    OTHERWISE,
    TIMES,
    TOUCH,
    WRITTEN,
    Scalar,
    Schema,
)
from hookrow._fault import Fault
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._keys import changed_keys
from hookrow.stores.sql._log_rows import LOG_COLUMNS
from hookrow.stores.sql._needs import KINDS_OF_TIMES, Columns, never_equals


class _Rule(NamedTuple):
    """A condition that makes a column with one of hookrow's `names` unsuitable, and the error."""

    names: Collection[str]
    is_broken: Callable[[Column, Schema], bool]
    text: str


_REASON = {"suppression_reason"}
_TYPE = "of the type {type_name}"

_RULES = (
    _Rule(
        {*WRITTEN, TOUCH},
        lambda column, _: column.generated,
        "generated, and cannot be written: name another.",
    ),
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
    _Rule(
        _REASON,
        lambda column, schema: column.kind == "enum" and OTHERWISE not in (schema.reasons or {}),
        f"{_TYPE}: set `reasons`, with one of its values for each of the provider's reasons and "
        "for all others ('*').",
    ),
)
_FINDS_NO_ROWS = (
    f"{_TYPE}, which cannot be a key, because a value that a driver returns does not always find "
    "its row: change its type, or name another key."
)
_NOT_NULL = "NOT NULL, but a reactivation sets it to null: drop NOT NULL{or_none}."
_OR_NO_REASON = (
    ", set {empty} in its role to write an empty string instead of null, or map {no_reason} to "
    "keep no reason"
)
_NO_TYPE = "NOT NULL, but not every bounce has a type: drop NOT NULL."


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
                yield _fault(role.table, column, _FINDS_NO_ROWS)
            for rule in _RULES:
                if field in rule.names and rule.is_broken(column, schema):
                    yield _fault(role.table, column, rule.text)
            if is_flag(field, column):
                yield from _faults_of_flag(schema, name, field, column)
        for column_name, value in role.where.items():
            column = existing.get(column_name)
            if column is not None and _is_word(column, value):
                text = never_equals(role.table, column, value, schema.form)
                yield Fault(text, role.table, column.name)


def is_flag(name: str, column: Column) -> bool:
    """Return whether a column is boolean in place of a time, by hookrow's name."""
    return name in MAY_BE_FLAGS and column.kind == "boolean"


def faults_of_nulls(
    schema: Schema,
    tables: Mapping[str, Columns],
    forms: Mapping[str, Notation | ModelNotation],
) -> Iterator[Fault]:
    """Yield the columns that are NOT NULL although hookrow sets them to null.

    They may have another fault, too, because it has another cause. `forms` are those in which the
    roles are written.
    """
    for name, role in schema.roles.items():
        existing, form = tables.get(name, {}), forms[name]
        for field, column_name in schema.columns(name).items():
            column = existing.get(column_name)
            if column is None or column.nullable:
                continue
            if field == "bounce_type":
                yield _fault(role.table, column, _NO_TYPE)
            is_filled = is_flag(field, column) or (field in _REASON and role.empty is not None)
            if field not in NULLED or is_filled:
                continue
            or_none = ""
            if field in _REASON:
                empty, no_reason = form.option("empty", ""), form.entry(field, None)
                or_none = _OR_NO_REASON.format(empty=empty, no_reason=no_reason)
            yield _fault(role.table, column, _NOT_NULL.format(or_none=or_none))


def _faults_of_flag(schema: Schema, name: str, field: str, column: Column) -> Iterator[Fault]:
    """Yield the fault of a flag whose changes nothing dates."""
    table, columns = schema.roles[name].table, schema.columns(name)
    if field == "suppressed_at" and "suppression_changed_at" not in columns and not schema.log:
        line = schema.form.option("log", "hookrow_notifications")
        text = (
            f"{_TYPE}, and without a log nothing stores when it last changed, so an old "
            f"notification that arrives late would override a newer one: write {line}, or map "
            "suppression_changed_at to a column that can hold a date-time."
        )
        yield _fault(table, column, text)
    if field == "bounced_at" and "bounce_type" in columns:
        line = schema.form.entry("bounce_type", None)
        text = (
            f"{_TYPE}, and nothing stores the time of the bounce whose type is in bounce_type: "
            f"name a column that can hold a date-time, or write {line}."
        )
        yield _fault(table, column, text)


def suits(name: str, column: Column) -> bool:
    """Return whether a column may be suggested for one of hookrow's names, given what is known."""
    if name in {*WRITTEN, TOUCH} and column.generated:
        return False
    if name in NULLED and not column.nullable and not is_flag(name, column):
        return False
    if name.endswith("_id") and OF_IDS.isdisjoint(words_of(column.name)):
        return False
    if name in TIMES:
        is_time = column.kind in _MAY_BE_TIMES or (column.kind == "text" and not column.type)
        return is_time or is_flag(name, column)
    if name in {"email", "suppression_reason", "bounce_type"}:
        return column.kind in _KINDS_OF_TEXTS
    return name != "provider_message_id" or column.kind in {"uuid", *_KINDS_OF_TEXTS}


_MAY_BE_TIMES = {*KINDS_OF_TIMES, ""}
_KINDS_OF_TEXTS = ("text", "")


def first_of_each(found: Iterable[Fault]) -> Collection[Fault]:
    """Return the first fault of each column, because the others may have the same cause."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in found:
        first.setdefault((fault.table, fault.column), fault)
    return first.values()


def _fault(table: str, column: Column, text: str) -> Fault:
    text = text.format(type_name=column.type_name)
    return Fault(f"The column {column.name!r} of {table!r} is {text}", table, column.name)


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
            yield _fault(log, column, text)
        if name in _NULLABLE and not column.nullable:
            yield _fault(log, column, "NOT NULL, but not every entry has such a value.")
        if name == "body" and column.length is not None:
            yield _fault(log, column, f"{_TYPE}, which is too short: a body may have any length.")
        if name == "id" and not column.default:
            text = "without a default, but the database must number the entries."
            yield _fault(log, column, text)
        if name != "id" and column.generated:
            yield _fault(log, column, "generated, and cannot be written.")
