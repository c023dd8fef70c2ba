"""Whether the types of a host's columns can hold what is written there, and be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Date, DateTime, Enum, Integer, Numeric, String, Time, Uuid
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.types import TypeEngine

from hookrow.errors import SchemaMismatch
from hookrow.schema import OTHERWISE, REFERENCES, TIMES, Given, Schema, nearest
from hookrow.stores.roles import Types

_KEYS = {"id", "subscriber_id", "list_id", "message_id"}
_TEXT = {"email", "provider_message_id"}

_ALWAYS = {bool: Boolean, int: Integer | Numeric, str: String}
_NEVER = {int: String, str: Boolean | Integer}
"""By the type of a value: the types of columns that hold it, and those that SQLite will not."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, of SQLite's loose types or not; printed as a message begins."""

    table: str
    name: str
    type: TypeEngine[Any]
    strict: bool

    def __str__(self) -> str:
        kind = f"enum {self.type.name}" if isinstance(self.type, Enum) else str(self.type)
        return f"The column {self.name!r} of {self.table!r} is of the type {kind}"


def check_types(schema: Schema, types: Mapping[str, Types], *, strict: bool) -> None:
    """Raise `SchemaMismatch` for the first column of a wrong type.

    What is `strict` compares only text with text: PostgreSQL. SQLite keeps what it is
    given, and only what a column was plainly not meant for is refused.
    """
    columns = {
        (name, ours): _Column(role.table, theirs, types[name][theirs], strict)
        for name, role in schema.roles.items()
        for ours, theirs in schema.columns(name).items()
    }
    for (_, ours), column in columns.items():
        _check(ours, column, schema)
    for name, role in schema.roles.items():
        for theirs, value in role.where.items():
            _check_where(_Column(role.table, theirs, types[name][theirs], strict), value)
    if strict:
        _check_citext(columns["subscribers", "email"], schema)
        for one, other in REFERENCES:
            if one in columns and other in columns:
                _check_reference(columns[one], columns[other])


def _check(ours: str, column: _Column, schema: Schema) -> None:
    if ours in _TEXT and column.strict:
        _check_text(column)
    elif ours in _KEYS and isinstance(column.type, CITEXT):
        raise SchemaMismatch(f"{column}; a key is compared to the letter: make it TEXT.")
    elif ours in TIMES:
        _check_time(column)
    elif ours == "suppression_reason":
        _check_reasons(column, schema.reasons)


def _check_text(column: _Column) -> None:
    if not isinstance(column.type, String):
        raise SchemaMismatch(
            f"{column}, and has to be text: what comes is compared with it as it came."
        )


def _check_citext(email: _Column, schema: Schema) -> None:
    if schema.subscribers.fold == "citext" and not isinstance(email.type, CITEXT):
        raise SchemaMismatch(f"{email}, not CITEXT: write another fold, lower for example.")


def _check_time(column: _Column) -> None:
    fits = (
        isinstance(column.type, DateTime)
        if column.strict
        else not isinstance(column.type, Boolean | Integer | Date | Time)
    )
    if not fits:
        raise SchemaMismatch(
            f"{column}, which holds no date-time: a host that keeps a flag or a status instead "
            "writes it in the hooks on_recorded and on_refused."
        )


def _check_reasons(column: _Column, reasons: Mapping[str, str | int] | None) -> None:
    if isinstance(column.type, Enum) and OTHERWISE not in (reasons or {}):
        raise SchemaMismatch(
            f"{column}: give `reasons`, with one of its words for each of the provider's and, as "
            "'*', for all others."
        )
    if reasons is None and not _takes(column, ""):
        raise SchemaMismatch(f"{column}, which holds no words: give `reasons` that it can hold.")
    for kept in (reasons or {}).values():
        if not _takes(column, kept):
            raise SchemaMismatch(
                f"{column}, which cannot hold the reason {kept!r}.{_nearest(column, kept)}"
            )


def _check_where(column: _Column, value: Given) -> None:
    if not _takes(column, value):
        raise SchemaMismatch(f"{column}, which never equals {value!r}.{_nearest(column, value)}")


def _check_reference(column: _Column, other: _Column) -> None:
    if _family(column.type) != _family(other.type):
        raise SchemaMismatch(
            f"{column}, and {other.name!r} of {other.table!r} is {other.type}: they cannot be "
            "compared, and have to be of one type."
        )


def _takes(column: _Column, value: Given) -> bool:
    """Tell whether a column can hold the value."""
    type_ = column.type
    if value is None or value is False:
        return True
    if isinstance(type_, Enum):
        return value in type_.enums
    if not column.strict and value is not True:
        return not isinstance(type_, _NEVER[type(value)])
    length = getattr(type_, "length", None)
    return isinstance(type_, _ALWAYS[type(value)]) and (length is None or len(str(value)) <= length)


def _nearest(column: _Column, value: Given) -> str:
    return nearest(str(value), column.type.enums) if isinstance(column.type, Enum) else ""


def _family(type_: TypeEngine[Any]) -> str:
    """Return what the database may compare with each other."""
    match type_:
        case Integer() | Numeric():
            return "number"
        case String():
            return "text"
        case Uuid():
            return "uuid"
        case _:
            return str(type_)
