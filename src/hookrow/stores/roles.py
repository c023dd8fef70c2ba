"""The tables of a schema's roles, and how their columns are selected and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    CHAR,
    Boolean,
    Column,
    ColumnElement,
    MetaData,
    Select,
    String,
    Table,
    Text,
    and_,
    cast,
    false,
    literal_column,
    true,
)
from sqlalchemy.types import NullType, TypeEngine

from hookrow.notification import Suppressible
from hookrow.schema import KEYS, TIMES, Given, Schema
from hookrow.stores.arrays import among_texts, texts, unbounded
from hookrow.stores.tables import UTCDateTime

Types: TypeAlias = Mapping[str, TypeEngine[Any]]
"""Of one table: the type of each column, by the table's own name for it."""

Columns: TypeAlias = Mapping[str, Column[Any]]
"""Of one role: the columns that its table has, by our name for them."""


class Roles(dict[str, Columns]):
    """The columns of each role, by its name.

    `types` are those of each role's table, by the role's name; whatever the
    schema names is in them. `arrays` are what PostgreSQL has.
    """

    def __init__(self, schema: Schema, types: Mapping[str, Types], *, arrays: bool) -> None:
        self.arrays = arrays
        self.fold = schema.subscribers.fold
        self.visible: dict[str, Sequence[ColumnElement[bool]]] = {}
        """Of each role: what is true of the rows that it has."""
        for name, role in schema.roles.items():
            table = _table(schema, name, types[name], strict=arrays)
            self[name] = {ours: table.c[each] for ours, each in schema.columns(name).items()}
            self.visible[name] = [_equals(table.c[each], is_) for each, is_ in role.where.items()]

    @property
    def list_id(self) -> Column[Any] | None:
        """The column of a dispatch's list: its own or, `with_messages`, its message's."""
        return self["dispatches"].get("list_id", self.get("messages", {}).get("list_id"))

    def key(self, kind: Suppressible) -> Sequence[Column[Any]]:
        """Return the columns that identify a row of the kind."""
        return [self[kind.value][name] for name in KEYS[kind]]

    def among_texts(self, column: Column[Any], name: str) -> ColumnElement[bool]:
        """Compare with the texts of a parameter, which `texts` makes, by the column's index."""
        return among_texts(column, name, arrays=self.arrays)

    def texts(self, values: Iterable[str]) -> str:
        """Return the parameter of `among_texts`."""
        return texts(values, arrays=self.arrays)

    def with_messages(self, dispatches: Select[Any]) -> Select[Any]:
        """Join the messages of dispatches, where this host has any."""
        role, message = self["dispatches"], self.get("messages")
        if message is None:
            return dispatches
        sent = and_(is_that(role["message_id"], message["id"]), *self.visible["messages"])
        return dispatches.outerjoin(message["id"].table, sent)


def unpadded(column: Column[Any]) -> ColumnElement[Any]:
    """Select a key without the blanks that PostgreSQL pads CHAR with, and compares without."""
    return cast(column, Text()) if isinstance(column.type, CHAR) else column


def as_text(column: Column[Any]) -> ColumnElement[Any]:
    """Select text, also of a column in which SQLite keeps as a number what looks like one."""
    return unpadded(column) if isinstance(column.type, String) else cast(column, Text())


def is_that(reference: Column[Any], key: Column[Any]) -> ColumnElement[bool]:
    """Compare by the key's index, which the two kinds of text would not use for each other."""
    is_mixed = isinstance(reference.type, CHAR) is not isinstance(key.type, CHAR)
    return key == (cast(reference, unbounded(key.type)) if is_mixed else reference)


def _table(schema: Schema, name: str, types: Types, *, strict: bool) -> Table:
    """Return the table of a role, with the columns that the schema names."""
    role, columns = schema.roles[name], schema.columns(name)
    named = {theirs: _type(ours, types[theirs], strict=strict) for ours, theirs in columns.items()}
    hiding = {theirs: types[theirs] for theirs in role.where}
    namespace, _, bare = role.table.rpartition(".")
    given = [Column(theirs, type_) for theirs, type_ in (hiding | named).items()]
    return Table(bare, MetaData(), *given, schema=namespace or None)


def _type(ours: str, type_: TypeEngine[Any], *, strict: bool) -> TypeEngine[Any]:
    """Return the type by which a column's values are passed."""
    if ours in TIMES:
        # SQLite's types say nothing of time zones; PostgreSQL's do.
        return UTCDateTime(timezone=getattr(type_, "timezone", True))
    # Nor do they say what is kept: a column of UUID or STRING counts as one of numbers.
    return type_ if strict else NullType()


def _equals(column: Column[Any], value: Given) -> ColumnElement[bool]:
    if value is None or (value is False and not isinstance(column.type, Boolean)):
        return column.is_(None)
    if isinstance(value, bool):
        return column == (true() if value else false())
    literal = str(value) if isinstance(value, int) else "'{}'".format(value.replace("'", "''"))
    # Not as a parameter, with which no index on just these rows would be used.
    return column == literal_column(literal)
