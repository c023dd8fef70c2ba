"""The statements of the SQL store, built once from a schema and its real column types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import (
    CHAR,
    Boolean,
    ClauseElement,
    Column,
    ColumnElement,
    Dialect,
    MetaData,
    Select,
    String,
    Table,
    Text,
    Update,
    and_,
    any_,
    bindparam,
    cast,
    false,
    literal_column,
    null,
    or_,
    select,
    true,
    type_coerce,
    union_all,
    update,
)
from sqlalchemy.types import NullType, TypeEngine

from hookrow.notification import EventTime, Mentioned, Suppressible
from hookrow.schema import KEYS, TIMES, WRITTEN, Given, Schema
from hookrow.stores import folds
from hookrow.stores.arrays import (
    Parameters,
    among_texts,
    array,
    elements,
    texts,
    unbounded,
    unnested,
)
from hookrow.stores.at_once import AtOnce
from hookrow.stores.keeping import Keeping
from hookrow.stores.prepared import Prepared
from hookrow.stores.tables import UTCDateTime, written

Types: TypeAlias = Mapping[str, TypeEngine[Any]]
"""Of one table: the type of each column, by the table's own name for it."""

Columns: TypeAlias = Mapping[str, Column[Any]]
"""Of one role: the columns that its table has, by our name for them."""


class Statements:
    """Selects by a set of keys, updates by one key a row; its columns are `key_0`, `key_1`.

    With `arrays`, which PostgreSQL has, a statement takes each parameter of all rows
    as one array: its text is the same for any number of rows, so that it is prepared
    once and an UPDATE is one statement. `by` and `of` shape the parameters.

    `types` are those of each role's table, by the role's name; whatever the
    schema names is in them. `apart` are the tables that are changed where no row of one is
    also a row of another. Every statement passes over the rows that a role's
    `where` hides, but for the owner of a dispatch, whom an answer may have to name.
    """

    def __init__(
        self, schema: Schema, types: Mapping[str, Types], dialect: Dialect, *, apart: bool
    ) -> None:
        self.arrays = dialect.name == "postgresql"
        # PostgreSQL's drivers take parameters by their places, too: no name makes a text longer.
        by_places: Any = type(dialect)
        self._dialect: Dialect = by_places(paramstyle="format") if self.arrays else dialect
        self.fold = schema.subscribers.fold
        self.undated = schema.undated
        tables = {
            name: _table(schema, name, types[name], strict=self.arrays) for name in schema.roles
        }
        self.roles: Mapping[str, Columns] = {
            name: {ours: table.c[theirs] for ours, theirs in schema.columns(name).items()}
            for name, table in tables.items()
        }
        self.visible = {
            name: [_equals(tables[name].c[column], value) for column, value in role.where.items()]
            for name, role in schema.roles.items()
        }
        """Of each role: what is true of the rows that it has."""
        self.written = {
            kind for kind in Suppressible if kind.value in self.roles and self.names(kind)
        }
        """The kinds of row in which anything is set."""
        # One statement for all: each other is a round trip more.
        found = [self._subscribers(), self._dispatches()]
        list_id = self.list_id
        self.finds_subscriptions = False
        if self.arrays and schema.subscriptions and list_id is not None:
            self.finds_subscriptions = True
            found.append(self._subscriptions_of_owners(list_id))
        self.find = self._prepared(union_all(*found))
        self.subscriptions = self._keys(Suppressible.SUBSCRIPTION) if schema.subscriptions else None
        self.keep = Keeping(schema.log, self._dialect) if schema.log else None
        self.at_once = cache(AtOnce) if self.arrays and apart else None
        self.lock = cache(self._lock)
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)

    def mentioning(self, mentioned: Mentioned) -> dict[str, Any]:
        """Return the parameters of `find`."""
        emails = folds.given(self.fold, mentioned)
        texts = {"emails": self.texts(emails), "message_ids": self.texts(mentioned.message_ids)}
        if self.finds_subscriptions:
            texts["changed"] = self.texts({message_id for message_id, _ in mentioned.changed})
        return texts

    def texts(self, values: Iterable[str]) -> str:
        """Return the parameter of `among_texts`."""
        return texts(values, arrays=self.arrays)

    def by(self, keys: Collection[Any]) -> dict[str, Any]:
        """Return the parameters of a select."""
        columns = zip(*(key if isinstance(key, tuple) else (key,) for key in keys), strict=True)
        shape = array if self.arrays else list
        return {f"key_{n}": shape(set(column)) for n, column in enumerate(columns)}

    def key(self, kind: Suppressible) -> Sequence[Column[Any]]:
        """Return the columns that identify a row of the kind."""
        return [self.roles[kind.value][name] for name in KEYS[kind]]

    def names(self, kind: Suppressible) -> Sequence[str]:
        """Return what notifications set in a row of the kind, by our names."""
        return [name for name in WRITTEN if name in self.roles[kind.value]]

    def state(self, kind: Suppressible) -> Select[Any]:
        """By keys of a kind of row: each key, and then what notifications set."""
        columns = [self.roles[kind.value][name] for name in self.names(kind)]
        return self._keys(kind).add_columns(*columns)

    def of(self, rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]] | dict[str, Any]:
        """Return the parameters of an update of the rows."""
        if self.arrays:
            return {name: array(row[name] for row in rows) for name in rows[0]}
        return [{name: written(value) for name, value in row.items()} for row in rows]

    def among(self, *columns: ColumnElement[Any]) -> ColumnElement[bool]:
        """Compare each column with its own set: for pairs these are more than were asked for.

        Of pairs as such SQLite would make a search through the whole table.
        """
        return and_(*(self.one_of(column, f"key_{n}") for n, column in enumerate(columns)))

    def one_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """Compare with the values of a parameter."""
        if self.arrays:
            return column == any_(elements(name, column.type))
        return column.in_(bindparam(name, expanding=True))

    @property
    def list_id(self) -> Column[Any] | None:
        """The column of a dispatch's list: its own or, `with_messages`, its message's."""
        message = self.roles.get("messages", {})
        return self.roles["dispatches"].get("list_id", message.get("list_id"))

    def with_messages(self, dispatches: Select[Any]) -> Select[Any]:
        """Join the messages of dispatches, where this host has any."""
        role, message = self.roles["dispatches"], self.roles.get("messages")
        if message is None:
            return dispatches
        sent = and_(_is_that(role["message_id"], message["id"]), *self.visible["messages"])
        return dispatches.outerjoin(message["id"].table, sent)

    def _subscribers(self) -> Select[Any]:
        """By `emails`: id and email, and nothing where `_dispatches` has its columns."""
        role = self.roles["subscribers"]
        others = list(self._dispatches().selected_columns)[2:]
        nothing = [type_coerce(null(), column.type) for column in others]
        return select(key(role["id"]), _text(role["email"]), *nothing).where(
            folds.found(self.fold, role["email"], arrays=self.arrays), *self.visible["subscribers"]
        )

    def _dispatches(self) -> Select[Any]:
        """By `message_ids`: its owner's id and email, message id, the dispatch's id, its list."""
        role, owner = self.roles["dispatches"], self.roles["subscribers"]
        found = select(
            key(role["subscriber_id"]),
            _text(owner["email"]),
            _text(role["provider_message_id"]),
            key(role["id"]),
            (null() if self.list_id is None else key(self.list_id)).label("list_id"),
        ).outerjoin_from(
            role["id"].table, owner["id"].table, _is_that(role["subscriber_id"], owner["id"])
        )
        return self.with_messages(found).where(
            among_texts(role["provider_message_id"], "message_ids", arrays=self.arrays),
            *self.visible["dispatches"],
        )

    def _subscriptions_of_owners(self, list_id: Column[Any]) -> Select[Any]:
        """By `changed`, message ids: the subscriptions of dispatches' owners to their lists."""
        dispatch, kind = self.roles["dispatches"], Suppressible.SUBSCRIPTION
        its_list, its_subscriber = self.key(kind)
        columns = list(self._dispatches().selected_columns)[1:4]
        nothing = [type_coerce(null(), column.type) for column in columns]
        is_owners = and_(
            _is_that(list_id, its_list), _is_that(dispatch["subscriber_id"], its_subscriber)
        )
        dispatches = select(key(its_subscriber), *nothing, key(its_list)).select_from(
            dispatch["id"].table
        )
        return (
            self.with_messages(dispatches)
            .join(its_list.table, is_owners)
            .where(
                among_texts(dispatch["provider_message_id"], "changed", arrays=self.arrays),
                *self.visible["dispatches"],
                *self.visible[kind.value],
            )
        )

    def _keys(self, kind: Suppressible) -> Select[Any]:
        """By keys of a kind of row: those that exist, and for pairs perhaps more."""
        columns = self.key(kind)
        return select(*map(key, columns)).where(self.among(*columns), *self.visible[kind.value])

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Prepared:
        """Lock rows in the order of their keys: the order in which every process does it.

        A sorted UPDATE alone would deadlock, for the planner may reorder it.
        """
        keys = self._keys(kind).order_by(*self.key(kind))
        return self._prepared(keys.with_for_update(key_share=True, skip_locked=skip_locked))

    def _set_time(self, time: EventTime, *, guarded: bool) -> Prepared:
        """Set the column to `new_at`."""
        present = self.roles["dispatches"][time.value]
        given = self._given(Suppressible.DISPATCH, {"new_at": present})
        new = given["new_at"]
        statement = self._update(Suppressible.DISPATCH, given).values({present: new})
        if guarded:
            statement = statement.where(or_(present.is_(None), present < new))
        return self._prepared(statement)

    def _set_suppression(self, kind: Suppressible, *, guarded: bool) -> Prepared | None:
        """Set those of the suppression columns that there are; None where there are none."""
        role = self.roles[kind.value]
        columns = {f"new_{n}": column for n, column in role.items() if n.startswith("suppress")}
        if not columns:
            return None
        given = self._given(kind, columns)
        new = {column: given[name] for name, column in columns.items()}
        statement = self._update(kind, given).values(new)
        if guarded:
            changed_at = role["suppression_changed_at"]
            statement = statement.where(or_(changed_at.is_(None), changed_at <= new[changed_at]))
        return self._prepared(statement)

    def _prepared(self, statement: ClauseElement) -> Prepared:
        return Prepared(statement, self._dialect)

    def _update(self, kind: Suppressible, given: Parameters) -> Update:
        columns = self.key(kind)
        matches = [column == given[f"key_{n}"] for n, column in enumerate(columns)]
        return update(columns[0].table).where(*matches, *self.visible[kind.value])

    def _given(self, kind: Suppressible, new: Columns) -> Parameters:
        """Return the parameters of an update: the key's and those of the `new` columns."""
        keys = {f"key_{n}": column for n, column in enumerate(self.key(kind))}
        types = {name: column.type for name, column in (keys | dict(new)).items()}
        if self.arrays:
            return unnested(types)
        return {name: bindparam(name, type_=type_) for name, type_ in types.items()}


def _table(schema: Schema, name: str, types: Types, *, strict: bool) -> Table:
    """Return the table of a role, with the columns that the schema names."""
    role, columns = schema.roles[name], schema.columns(name)
    named = {theirs: _type(ours, types[theirs], strict=strict) for ours, theirs in columns.items()}
    namespace, _, bare = role.table.rpartition(".")
    return Table(
        bare,
        MetaData(),
        *(
            Column(theirs, type_)
            for theirs, type_ in ({each: types[each] for each in role.where} | named).items()
        ),
        schema=namespace or None,
    )


def _equals(column: Column[Any], value: Given) -> ColumnElement[bool]:
    if value is None or (value is False and not isinstance(column.type, Boolean)):
        return column.is_(None)
    if isinstance(value, bool):
        return column == (true() if value else false())
    # Not as a parameter, with which no index on just these rows would be used.
    return column == literal_column(str(value) if isinstance(value, int) else _quoted(value))


def _quoted(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


def _type(ours: str, type_: TypeEngine[Any], *, strict: bool) -> TypeEngine[Any]:
    """Return the type by which a column's values are passed."""
    if ours in TIMES:
        # SQLite's types say nothing of time zones; PostgreSQL's do.
        return UTCDateTime(timezone=getattr(type_, "timezone", True))
    # Nor do they say what is kept: a column of UUID or STRING counts as one of numbers.
    return type_ if strict else NullType()


def key(column: Column[Any]) -> ColumnElement[Any]:
    """Select a key without the blanks that PostgreSQL pads CHAR with, and compares without."""
    return cast(column, Text()) if isinstance(column.type, CHAR) else column


def _text(column: Column[Any]) -> ColumnElement[Any]:
    """Select text, also of a column in which SQLite keeps as a number what looks like one."""
    return key(column) if isinstance(column.type, String) else cast(column, Text())


def _is_that(reference: Column[Any], key: Column[Any]) -> ColumnElement[bool]:
    """Compare by the key's index, which the two kinds of text would not use for each other."""
    is_mixed = isinstance(reference.type, CHAR) is not isinstance(key.type, CHAR)
    return key == (cast(reference, unbounded(key.type)) if is_mixed else reference)
