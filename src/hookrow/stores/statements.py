"""The statements of the SQL store, built once from a schema and its real column types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Dialect,
    Select,
    Update,
    and_,
    any_,
    bindparam,
    or_,
    select,
    update,
)

from hookrow.notification import EventTime, Suppressible
from hookrow.schema import WRITTEN, Schema
from hookrow.stores.arrays import Parameters, array, elements, unnested
from hookrow.stores.at_once import AtOnce
from hookrow.stores.find import Find
from hookrow.stores.keeping import Keeping
from hookrow.stores.prepared import Prepared
from hookrow.stores.roles import Columns, Roles, Types, unpadded
from hookrow.stores.tables import written


class Statements:
    """Selects by a set of keys, updates by one key a row; its columns are `key_0`, `key_1`.

    With `arrays`, which PostgreSQL has, a statement takes each parameter of all rows
    as one array: its text is the same for any number of rows, so that it is prepared
    once and an UPDATE is one statement. `by` and `of` shape the parameters.

    `types` are those of `Roles`. `apart` are the tables that are changed where no row of one
    is also a row of another. Every statement passes over the rows that a role's `where`
    hides, but for the owner of a dispatch, whom an answer may have to name.
    """

    def __init__(
        self, schema: Schema, types: Mapping[str, Types], dialect: Dialect, *, apart: bool
    ) -> None:
        self.arrays = dialect.name == "postgresql"
        self.undated = schema.undated
        # PostgreSQL's drivers take parameters by their places, too: no name makes a text longer.
        by_places: Any = type(dialect)
        self._dialect: Dialect = by_places(paramstyle="format") if self.arrays else dialect
        self.roles = Roles(schema, types, arrays=self.arrays)
        self.written = {
            kind for kind in Suppressible if kind.value in self.roles and self.names(kind)
        }
        """The kinds of row in which anything is set."""
        self.find = Find(self.roles, self._dialect)
        self.subscriptions = self._subscriptions() if schema.subscriptions else None
        self.keep = Keeping(schema.log, self._dialect) if schema.log else None
        self.at_once = cache(AtOnce) if self.arrays and apart else None
        self.lock = cache(self._lock)
        self.set_time = cache(self._set_time)
        self.set_suppression = cache(self._set_suppression)

    def by(self, keys: Collection[Any]) -> dict[str, Any]:
        """Return the parameters of a select."""
        columns = zip(*(key if isinstance(key, tuple) else (key,) for key in keys), strict=True)
        shape = array if self.arrays else list
        return {f"key_{n}": shape(set(column)) for n, column in enumerate(columns)}

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
        return and_(*(self._one_of(column, f"key_{n}") for n, column in enumerate(columns)))

    def _one_of(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        if self.arrays:
            return column == any_(elements(name, column.type))
        return column.in_(bindparam(name, expanding=True))

    def _keys(self, kind: Suppressible) -> Select[Any]:
        """By keys of a kind of row: those that exist, and for pairs perhaps more."""
        columns = self.roles.key(kind)
        return select(*map(unpadded, columns)).where(
            self.among(*columns), *self.roles.visible[kind.value]
        )

    def _subscriptions(self) -> Prepared | Select[Any]:
        keys = self._keys(Suppressible.SUBSCRIPTION)
        return Prepared(keys, self._dialect) if self.arrays else keys

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Prepared:
        """Lock rows in the order of their keys: the order in which every process does it.

        A sorted UPDATE alone would deadlock, for the planner may reorder it.
        """
        keys = self._keys(kind).order_by(*self.roles.key(kind))
        return Prepared(
            keys.with_for_update(key_share=True, skip_locked=skip_locked), self._dialect
        )

    def _set_time(self, time: EventTime, *, guarded: bool) -> Prepared:
        """Set the column to `new_at`."""
        present = self.roles["dispatches"][time.value]
        statement, given = self._update(Suppressible.DISPATCH, {"new_at": present})
        if guarded:
            statement = statement.where(or_(present.is_(None), present < given["new_at"]))
        return Prepared(statement, self._dialect)

    def _set_suppression(self, kind: Suppressible, *, guarded: bool) -> Prepared | None:
        """Set those of the suppression columns that there are; None where there are none."""
        role = self.roles[kind.value]
        columns = {f"new_{n}": column for n, column in role.items() if n.startswith("suppress")}
        if not columns:
            return None
        statement, given = self._update(kind, columns)
        if guarded:
            present, new = role["suppression_changed_at"], given["new_suppression_changed_at"]
            statement = statement.where(or_(present.is_(None), present <= new))
        return Prepared(statement, self._dialect)

    def _update(self, kind: Suppressible, new: Columns) -> tuple[Update, Parameters]:
        """Set each column to the parameter of its name; return the parameters, too."""
        keys = {f"key_{n}": column for n, column in enumerate(self.roles.key(kind))}
        types = {name: column.type for name, column in (keys | dict(new)).items()}
        given = (
            unnested(types)
            if self.arrays
            else {name: bindparam(name, type_=type_) for name, type_ in types.items()}
        )
        matches = [column == given[name] for name, column in keys.items()]
        values = {column: given[name] for name, column in new.items()}
        table = keys["key_0"].table
        return update(table).where(*matches, *self.roles.visible[kind.value]).values(values), given
