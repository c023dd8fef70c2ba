"""A column of a table or a view, as a catalogue or a model describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Convert: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or a view.

    `type` is the type of its parameters; empty on SQLite, which has no fixed types. `type_name` is
    the name for error messages. `kind` is "text", "number", "boolean", "datetime", "enum", on
    SQLite also "integer", the name of any other type, or empty if it is unknown. `default` is
    whether the database can assign a value. `holds_uuids` is whether its values are UUIDs: on
    SQLite, whether it is CHAR(32), in which Django and SQLAlchemy store their digits.
    `ignores_case` is whether it can be compared ignoring case without a function: CITEXT, a
    collation that is not deterministic, and any column of SQLite. `length` is the maximum length of
    a text, in characters; `labels` are the values of an enum. `denied` are the privileges that the
    user lacks: "SELECT", "UPDATE". `sized` and `declared` are SQL text for the type on PostgreSQL:
    `type` with its length, and the type as it is declared, with its length, its domain and its
    collation. `read` converts a value from the driver, and `write` a value for the driver; neither
    is called with None.
    """

    name: str
    type: str
    type_name: str
    kind: str
    nullable: bool
    generated: bool
    default: bool
    holds_uuids: bool = False
    ignores_case: bool = False
    length: int | None = None
    labels: Sequence[str] = ()
    denied: Sequence[str] = ()
    sized: str = ""
    declared: str = ""
    read: Convert | None = None
    write: Convert | None = None
