"""The rows of a host's tables by their keys, on MariaDB and MySQL: how they are locked and updated.

The keys, and the values to write, are one parameter: a JSON array of arrays, of which JSON_TABLE
makes the relation `given`. It is sorted, and joined in its order. An UPDATE has another form for
packets, in which the values are literals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow._core.schema import TOUCH
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._mariadb_literals import Fragment, literal
from hookrow.stores.sql._role_tables import ALIASES, RoleTables
from hookrow.stores.sql._scripts import CHANGE_DATES_TABLE
from hookrow.stores.sql._statements.base import Statement, guard_holds, key_parameters, touched

# MySQL cannot lock the rows of JSON_TABLE, but those of a derived table are not locked.
_LOCK = Template("""\
SELECT $selected
FROM (SELECT * FROM $given) AS given STRAIGHT_JOIN $table
WHERE $is_key$visible
$lock""")

_UPDATE_JOINED = Template("""\
UPDATE $given STRAIGHT_JOIN $table SET $assignments
WHERE $is_key$conditions""")

_UPDATE_BY_CASES = Template("""\
UPDATE $table SET $assignments
WHERE $is_any$conditions""")

_IS_DATED = Template("""
AND EXISTS (SELECT 1 FROM $dates AS dated WHERE dated.role = '$role'
    AND dated.row_key = $row_key AND dated.changed_at $older $changed_at)""")

# For a character that a character set lacks, JSON_TABLE returns a question mark on MariaDB, where
# CONVERT() fails in an UPDATE. On MySQL, JSON_TABLE returns null, and CONVERT() a question mark.
_WITH_QUESTION_MARKS = Template("""\
coalesce((SELECT held FROM JSON_TABLE(json_array($value), '$$[*]' COLUMNS (
    held $type PATH '$$')) AS kept), CONVERT($value USING $charset))""")

_TIME = "datetime(6)"

_ANY_TEXT = "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def given(types: Mapping[str, str], strict: Collection[str] = ()) -> str:
    """Return the relation `given`, whose rows are in one parameter, by the types of its columns.

    For a value that is too long, MySQL has null, or an error if its name is in `strict`.
    """
    columns = ", ".join(
        f"{name} {type_} PATH '$[{place}]'{' ERROR ON ERROR' if name in strict else ''}"
        for place, (name, type_) in enumerate(types.items())
    )
    return f"JSON_TABLE(%s, '$[*]' COLUMNS ({columns})) AS given"


class KeyedRows:
    """The rows of a kind, as the parts of a statement on those whose keys are given."""

    def __init__(self, tables: RoleTables, kind: Suppressible) -> None:
        role, names = kind.value, key_parameters(kind)
        self._dialect = tables.dialect
        self.table, self.visible = tables.table(role), tables.visible(role)
        self.selected = [tables.key(role, name) for name in names.values()]
        """The columns of the key, for SELECT."""
        self.columns = [tables.column(role, name) for name in names.values()]
        """The columns of the key, to compare with literals."""
        self.types = {key: tables.columns(role)[name].type for key, name in names.items()}
        """The types of the key in the relation `given`, by the names of its parameters."""
        self.is_key = " AND ".join(
            f"{tables.column(role, name)} = {tables.dialect.given(key, tables.columns(role)[name])}"
            for key, name in names.items()
        )
        """The condition that the key of a row is the given one."""
        self.may_hide = tables.may_hide(role)
        """Whether an UPDATE may hide one of the rows from a later statement."""

    def lock(self, selected: str, *, skip_locked: bool) -> str:
        """Return the SELECT of expressions that locks the rows, in the order of the keys.

        It locks no other row: given the keys as literals, the server might read a whole index.
        """
        return _LOCK.substitute(
            selected=selected,
            given=given(self.types),
            table=self.table,
            is_key=self.is_key,
            visible=self.visible,
            lock=self._dialect.skip_locked if skip_locked else self._dialect.for_update,
        )


class RowUpdate(Statement):
    """An UPDATE of rows that are joined with those of a JSON array.

    `by_cases` is its form for packets, with parameters that have names, of which `cases` makes SQL
    text. If it `may_refuse` a row, because of a guard, the number of changed rows does not show
    whether one was missing.
    """

    __slots__ = ("by_cases", "cases", "may_refuse", "rows")

    def __init__(
        self, tables: RoleTables, kind: Suppressible, write: Write, *, guarded: bool, dated: bool
    ) -> None:
        self.rows = rows = KeyedRows(tables, kind)
        change = _Change(tables, kind, write, guarded=guarded, dated=dated)
        types = rows.types | change.types
        joined = _UPDATE_JOINED.substitute(
            given=given(types, strict=change.types),
            table=rows.table,
            assignments=change.assignments(_JoinedValues()),
            is_key=rows.is_key,
            conditions=change.conditions(_JoinedValues()),
        )
        super().__init__(joined, [*types], kind)
        self.cases = Cases(rows.columns, [*types])
        self.by_cases = _UPDATE_BY_CASES.substitute(
            table=rows.table,
            assignments=change.assignments(self.cases),
            is_any=self.cases.is_any,
            conditions=change.conditions(self.cases),
        )
        self.may_refuse = guarded or dated


class _Values(ABC):
    """The expressions for the values that a statement writes to a row."""

    @abstractmethod
    def value(self, name: str) -> str:
        """Return the expression for the value with a name."""

    @abstractmethod
    def time(self, name: str) -> str:
        """Return the expression for a time, to compare with another."""


class _JoinedValues(_Values):
    """The values in the relation `given`."""

    def value(self, name: str) -> str:
        return f"given.{name}"

    def time(self, name: str) -> str:
        return self.value(name)


class Cases(_Values):
    """The values as literals in a CASE for each column, which has a branch for each row.

    MariaDB would write the new values of a join to a temporary table first, which is on the disk if
    one of them is a long text.

    `key` are the columns of the key. The `names` are those of a row's values, which begin with it.
    """

    number = "%(number)s"
    """The number of rows."""

    def __init__(self, key: Sequence[str], names: Sequence[str]) -> None:
        self._key = [column.replace("%%", "%") for column in key]  # in a parameter
        self._places = {name: place for place, name in enumerate(names)}
        self._is_single = len(key) == 1
        self._case = f"CASE {key[0]}" if self._is_single else "CASE"
        self.is_any = f"{key[0]} IN (%(keys)s)" if self._is_single else "(%(keys)s)"
        """The condition that the key of a row is one of those that are given."""

    def value(self, name: str) -> str:
        return f"{self._case} %({name})s END"

    def time(self, name: str) -> str:
        return f"CAST({self.value(name)} AS {_TIME})"

    def parameters(self, names: Iterable[str], rows: Sequence[Sequence[Any]]) -> Iterator[Fragment]:
        """Yield the parameters with these names, given the values of each row."""
        literals = [[*map(literal, row)] for row in rows]
        keys = [row[0] if self._is_single else self._equals(row) for row in literals]
        for name in names:
            match name:
                case "number":
                    yield Fragment(len(rows))
                case "keys":
                    yield Fragment((", " if self._is_single else " OR ").join(keys))
                case _:
                    place = self._places[name]
                    cases = zip(keys, literals, strict=True)
                    yield Fragment(" ".join(f"WHEN {key} THEN {row[place]}" for key, row in cases))

    def _equals(self, row: Sequence[str]) -> str:
        pairs = zip(self._key, row, strict=False)
        return " AND ".join(f"{column} = {value}" for column, value in pairs)


@dataclass(frozen=True, slots=True)
class _Change:
    """What an UPDATE does with the rows of a kind, wherever its values are.

    For `guarded` and `dated`, see `Statements._update`.
    """

    tables: RoleTables
    kind: Suppressible
    write: Write
    guarded: bool
    dated: bool

    @property
    def types(self) -> dict[str, str]:
        """The types of the values, except for the key, by name."""
        types = {
            name: _ANY_TEXT if _may_lose(column) else column.type
            for name, column in self._written.items()
        }
        return types | date_types(self.tables) if self.dated else types

    def assignments(self, values: _Values) -> str:
        """Return the assignments to the columns that the table has."""
        role, tables = self.kind.value, self.tables
        assigned = {
            name: _assigned(values.value(name), column) for name, column in self._written.items()
        }
        if TOUCH in assigned:
            stored = {
                name: _compared(values.time(name), column)
                if column.kind == "datetime"
                else assigned[name]
                for name, column in self._written.items()
            }
            # First, because the server assigns from left to right, and reads the new values.
            del assigned[TOUCH]
            assigned = {TOUCH: touched(tables, role, ALIASES[role], stored), **assigned}
        return ", ".join(
            f"{tables.column(role, name)} = {value}" for name, value in assigned.items()
        )

    def conditions(self, values: _Values) -> str:
        """Return the conditions under which a row is changed, to follow that on its key."""
        role, tables = self.kind.value, self.tables
        guard = is_dated = ""
        if self.guarded:
            column = tables.column(role, self.write.guard)
            guard = f" AND {guard_holds(column, self.write, values.time(self.write.guard))}"
        if self.dated:
            is_dated = _IS_DATED.substitute(
                dates=tables.dialect.table(tables.schema.side_table(CHANGE_DATES_TABLE)),
                role=role,
                row_key=values.value("row_key"),
                older=self.write.holds,
                changed_at=values.time("suppression_changed_at"),
            )
        return f"{guard}{tables.visible(role)}{is_dated}"

    @property
    def _written(self) -> Mapping[str, Column]:
        columns = self.tables.columns(self.kind.value)
        named = (*self.write.columns, TOUCH)
        return {name: columns[name] for name in named if name in columns}


def date_types(tables: RoleTables) -> dict[str, str]:
    """Return the types of the values that date a change in the side table, by name."""
    return {"row_key": tables.dialect.text_type, "suppression_changed_at": _TIME}


def _assigned(value: str, column: Column) -> str:
    """Return a value to assign to a column, with question marks for characters that it lacks.

    Without concat(), MariaDB 10.11 stores a text of JSON_TABLE that is too long for a TEXT modulo
    65,536.
    """
    if column.kind != "text":
        return value
    if _may_lose(column):
        value = _WITH_QUESTION_MARKS.substitute(
            value=value, type=column.type, charset=column.charset
        )
    return f"concat({value})"


def _compared(time: str, column: Column) -> str:
    """Return a time with the digits that its column has."""
    if column.fraction in {None, 6}:
        return time
    return f"CAST({time} AS datetime({column.fraction}))"


def _may_lose(column: Column) -> bool:
    """Return whether a column cannot hold every character of a text that is written to it."""
    return column.kind == "text" and column.lacks_characters
