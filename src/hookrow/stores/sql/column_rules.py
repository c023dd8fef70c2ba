"""Rules that reject unsuitable columns, given the database's catalogue. No I/O.

PostgreSQL compares values only with values of the same type. SQLite stores any value in any column,
so a column is rejected there only if its declared type is plainly meant for other values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from typing import NamedTuple, TypeAlias
from uuid import UUID

from hookrow.core.log_entry import (
    LONGEST_ENTRY_NAME,
    LONGEST_PROVIDER,
    LONGEST_REASON,
    LONGEST_RECORD_TYPE,
    LONGEST_TRACE_ID,
)
from hookrow.core.notification import Source
from hookrow.core.optional import LONGEST_BOUNCE_TYPE
from hookrow.core.result import Result
from hookrow.core.rules import LONGEST_EMAIL, LONGEST_MESSAGE_ID
from hookrow.core.schema import (
    NULLED,
    OTHERWISE,
    TIMES,
    WRITTEN,
    Scalar,
    Schema,
    nearest,
)
from hookrow.stores.sql.columns import Column
from hookrow.stores.sql.log_rows import REQUIRED_COLUMNS

Columns: TypeAlias = Mapping[str, Column]
"""The columns of one table, by the table's own names."""


class _Rule(NamedTuple):
    """A condition that makes a column with one of hookrow's `names` unsuitable, and the error."""

    names: Collection[str]
    is_broken: Callable[[Column, Schema], bool]
    text: str


class Obstacle(NamedTuple):
    """What prevents a column from holding a value: a verb phrase, and how to remove it."""

    text: str
    remedy: str


REFERENCES = (
    (("dispatches", "subscriber_id"), ("subscribers", "id")),
    (("dispatches", "list_id"), ("subscriptions", "list_id")),
    (("dispatches", "message_id"), ("messages", "id")),
    (("messages", "list_id"), ("subscriptions", "list_id")),
    (("subscriptions", "subscriber_id"), ("subscribers", "id")),
)
"""Pairs of columns that hold the same keys."""

_TYPE = "of the type {type_name}"
_REASON = {"suppression_reason"}
_NO_TIMES = {"boolean", "integer", "date", "time"}
_NO_TEXT = _NO_TIMES | {"datetime"}

_RULES = (
    _Rule(
        WRITTEN,
        lambda column, _: column.generated,
        "generated, and cannot be written: name another.",
    ),
    _Rule(
        {"email"},
        lambda column, _: bool(column.type) and column.kind != "text",
        f"{_TYPE}, but must be text, because it is compared with the provider's text: name another "
        "column, or change its type.",
    ),
    _Rule(
        {"provider_message_id"},
        lambda column, _: bool(column.type) and column.kind != "text" and not column.holds_uuids,
        f"{_TYPE}, but must be text or UUID, because it is compared with the provider's ids: name "
        "another column, or change its type.",
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
        TIMES,
        lambda column, _: column.kind != "datetime" if column.type else column.kind in _NO_TIMES,
        f"{_TYPE}, which cannot hold a date-time: name a column that can. If you keep a flag or a "
        "status instead, set it in the hooks on_recorded and on_refused.",
    ),
    _Rule(
        _REASON,
        lambda column, schema: column.kind == "enum" and OTHERWISE not in (schema.reasons or {}),
        f"{_TYPE}: set `reasons`, with one of its values for each of the provider's reasons and "
        "for all others ('*').",
    ),
    _Rule(
        {"bounce_type"},
        lambda column, _: column.kind != "text" if column.type else column.kind in _NO_TEXT,
        f"{_TYPE}, which cannot hold the type of a bounce: name a column of text.",
    ),
    _Rule(
        {"bounce_type"},
        lambda column, _: column.length is not None and column.length < LONGEST_BOUNCE_TYPE,
        f"{_TYPE}, which is too short: types of bounces have up to {LONGEST_BOUNCE_TYPE} "
        "characters.",
    ),
    _Rule(
        {"bounce_type"},
        lambda column, _: not column.nullable,
        "NOT NULL, but not every bounce has a type: drop NOT NULL.",
    ),
    _Rule(
        _REASON,
        lambda column, schema: schema.reasons is None and not _takes(column, ""),
        f"{_TYPE}, which cannot hold text: map the reasons with `reasons`.",
    ),
)
_NOT_NULL = "NOT NULL, but a reactivation sets it to null: drop NOT NULL{or_none}."
_OR_NO_REASON = (
    ", set empty='' in its role to write an empty string instead of null, or map suppression_reason"
    " to None to keep no reason"
)
_NEVER_EQUALS = f"{_TYPE}, which never equals {{value!r}}: correct `where`.{{near}}"
_CANNOT_COMPARE = (
    f"{_TYPE}, and {{key.name!r}} of {{other_table!r}} is {{key.type_name}}: they cannot be "
    "compared, and must have the same type."
)


def mistakes(schema: Schema, tables: Mapping[str, Columns]) -> Iterator[str]:
    """Yield a sentence for each unsuitable column, given the columns of each role's table."""
    named = {
        (name, ours): (role.table, tables[name][theirs])
        for name, role in schema.roles.items()
        for ours, theirs in schema.columns(name).items()
    }
    for (name, ours), (table, column) in named.items():
        found = _check_column(table, column, ours, schema.roles[name].empty, schema)
        yield from islice(found, 1)  # the others may have the same cause
    for name, role in schema.roles.items():
        for theirs, value in role.where.items():
            column = tables[name][theirs]
            if not _is_value(column, value) and not _takes(column, value):
                near = nearest(str(value), column.labels)
                yield _describe(role.table, column, _NEVER_EQUALS, value=value, near=near)
    for one, other in REFERENCES:
        if {one, other} <= named.keys():
            yield from _check_reference(*named[one], *named[other])


def _check_column(
    table: str, column: Column, ours: str, empty: str | None, schema: Schema
) -> Iterator[str]:
    for rule in _RULES:
        if ours in rule.names and rule.is_broken(column, schema):
            yield _describe(table, column, rule.text)
    yield from _check_null(table, column, ours, empty)
    if ours not in _REASON:
        return
    values = reason_values(schema, empty)
    if unsuitable := [value for value in values if not _takes(column, value)]:
        yield reason_mistake(table, column, unsuitable, schema, type_of(column))


def reason_values(schema: Schema, empty: str | None) -> Sequence[Scalar]:
    """Return the values that a column of reasons must hold: the one for no reason is the first."""
    return [*dict.fromkeys([empty, *schema.known_values.values()])]


def reason_mistake(
    table: str, column: Column, values: Sequence[Scalar], schema: Schema, obstacle: Obstacle
) -> str:
    """Return the sentence for an obstacle to some of the `reason_values` of a column."""
    known = schema.known_values.values()
    remedies = [obstacle.remedy]
    if values[0] is None:
        what = "null, to which a reactivation sets it"
    elif values[0] not in known:
        what = "an empty string"
        remedies.insert(0, "omit `empty`")
    else:
        what = f"the reason{'s' * (len(values) > 1)} {', '.join(map(repr, values))}"
        given = {*(schema.reasons or {}).values()}
        pairs = [f"{value!r}: ..." for value in values if value not in given]
        others = f"set another value in `reasons`: {{{', '.join(pairs)}}}"
        remedies.append(others if pairs else "correct `reasons`")
    near = nearest(str(values[0]), column.labels)
    return (
        f"The column {column.name!r} of {table!r} {obstacle.text} {what}: "
        f"{', or '.join(remedies)}.{near}"
    )


def type_of(column: Column) -> Obstacle:
    """Return the obstacle for values that do not suit the type of a column."""
    text = f"is {_TYPE.format(type_name=column.type_name)}, which cannot hold"
    return Obstacle(text, "change its type")


def mistakes_of_dates(table: str, columns: Columns) -> Iterator[str]:
    """Yield a sentence for each unsuitable column of the table of the dates of changes."""
    for name, (types, unsuitable) in _DATE_TYPES.items():
        yield from _check_type(table, columns[name], types, unsuitable)


def _check_type(
    table: str, column: Column, types: Collection[str], unsuitable: Collection[str]
) -> Iterator[str]:
    if column.type not in types if column.type else column.kind in unsuitable:
        yield _describe(table, column, f"{_TYPE}, which cannot hold its values.")


def _check_null(table: str, column: Column, ours: str, empty: str | None) -> Iterator[str]:
    is_reason = ours in _REASON
    if ours in NULLED and not column.nullable and not (is_reason and empty is not None):
        yield _describe(table, column, _NOT_NULL, or_none=_OR_NO_REASON * is_reason)


def _check_reference(table: str, column: Column, other_table: str, key: Column) -> Iterator[str]:
    kinds = {column.kind, key.kind}
    if column.type and "" not in kinds and len(kinds) > 1:
        yield _describe(table, column, _CANNOT_COMPARE, other_table=other_table, key=key)


def _describe(table: str, column: Column, text: str, **names: object) -> str:
    mistake = text.format(type_name=column.type_name, **names)
    return f"The column {column.name!r} of {table!r} is {mistake}"


def _takes(column: Column, value: Scalar) -> bool:
    """Return whether a column can hold the value, judging by its type.

    A conversion may return any other value.
    """
    if value is None or value is False or not column.kind or column.write:
        return True
    if column.kind == "enum":
        return value in column.labels
    if not column.type and value is not True:
        return column.kind not in _NEVER[type(value)]
    fits = column.length is None or len(str(value)) <= column.length
    return column.kind == _ALWAYS[type(value)] and fits


def _is_value(column: Column, value: Scalar) -> bool:
    """Return whether PostgreSQL converts a text to the type of the column."""
    parse = _PARSERS.get(column.kind)
    if not column.type or not parse or not isinstance(value, str):
        return False
    try:
        parse(value)
    except ValueError:
        return False
    return True


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "uuid": UUID,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
}

_ALWAYS = {bool: "boolean", int: "number", str: "text"}
_NEVER = {int: {"text"}, str: {"boolean", "integer"}}
"""The kind of column for each type of value, and the kinds that are rejected on SQLite."""

_NUMBER = {"smallint", "integer", "bigint"}, {"text"}
_TEXT = {"text", "character varying", "citext"}, {"datetime", *_NO_TIMES}
_INSTANT = {"timestamp with time zone"}, _NO_TIMES
_LOG_TYPES = {
    **dict.fromkeys(REQUIRED_COLUMNS, _TEXT),
    **{name: _INSTANT for name in REQUIRED_COLUMNS if name.endswith("_at")},
    **dict.fromkeys(("id", "status", "attempts", "retries"), _NUMBER),
    "fingerprint": ({"bytea"}, set[str]()),
}
"""For each column of the log, its types on PostgreSQL, and the kinds rejected on SQLite."""

_DATE_TYPES = {"role": _TEXT, "row_key": _TEXT, "changed_at": _INSTANT}
"""The types and rejected kinds for each column of the table of the dates of changes."""

_LONGEST = {
    "record_type": LONGEST_RECORD_TYPE,
    "message_id": LONGEST_MESSAGE_ID,
    "recipient": LONGEST_EMAIL,
    "reason": LONGEST_REASON,
    "provider": LONGEST_PROVIDER,
    "entry": LONGEST_ENTRY_NAME,
    "trace_id": LONGEST_TRACE_ID,
    "source": max(len(each.value) for each in Source),
    **dict.fromkeys(("outcome", "first_outcome"), max(len(each.value) for each in Result)),
}
"""In characters; the longest value of each column. The length of a body is not limited."""

_NULLABLE = {
    *("record_type", "message_id", "recipient", "occurred_at", "retry_at", "body"),
    *("reason", "provider", "entry", "trace_id"),
}


def mistakes_of_log(log: str, columns: Columns) -> Iterator[str]:
    """Yield a sentence for each unsuitable column of the log."""
    for name, (types, unsuitable) in _LOG_TYPES.items():
        column = columns[name]
        yield from _check_type(log, column, types, unsuitable)
        if column.length is not None and column.length < _LONGEST.get(name, column.length + 1):
            yield _describe(log, column, f"{_TYPE}, which is too short.")
        if name in _NULLABLE and not column.nullable:
            yield _describe(log, column, "NOT NULL, but not every entry has such a value.")
        if name == "id" and not column.default:
            yield _describe(
                log, column, "without a default, but the database must number the entries."
            )
        if name != "id" and column.generated:
            yield _describe(log, column, "generated, and cannot be written.")
