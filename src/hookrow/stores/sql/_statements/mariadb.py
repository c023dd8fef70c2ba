"""The statements on MariaDB and MySQL: on the rows of JSON arrays, several for a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from string import Template

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.mariadb import WRITER_LOCKS, WRITERS_ALTERNATE, given_value
from hookrow.stores.sql._role_tables import ALIASES, RoleTables
from hookrow.stores.sql._scripts import META_TABLE
from hookrow.stores.sql._statements.base import (
    ENTRY_FIELDS,
    Statement,
    Statements,
    guard_holds,
    key_parameters,
)

_MARIADB_SELECT = Template("""\
SELECT $columns
FROM $given STRAIGHT_JOIN $table
WHERE $is_key$visible""")

# MySQL would lock the rows of a function, which it cannot, but not those of a derived table.
_MARIADB_LOCK = Template("""\
SELECT $columns
FROM (SELECT * FROM $given) AS given STRAIGHT_JOIN $table
WHERE $is_key$visible
$lock""")

_MARIADB_UPDATE = Template("""\
UPDATE $given STRAIGHT_JOIN $table SET $assignments
WHERE $is_key$guard$visible$dated""")

_MARIADB_NEW_DATES = Template("""\
SELECT '$role' AS role, given.row_key, given.suppression_changed_at
FROM $given
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)""")

_MARIADB_IS_DATED = Template("""
AND EXISTS (SELECT 1 FROM $dates AS dated WHERE dated.role = '$role'
    AND dated.row_key = given.row_key AND dated.changed_at $older given.suppression_changed_at)""")

_MARIADB_REGISTER = Template("""\
SELECT name FROM $record
WHERE name = CASE (unix_timestamp() DIV $seconds) %% 2 WHEN 0 THEN '$even' ELSE '$odd' END
LOCK IN SHARE MODE""")


_TIME = "datetime(6)"


class MariaDBStatements(Statements):
    """Statements on the rows of JSON arrays, which are sorted, and joined in their order."""

    selects_one = False

    def __init__(self, tables: RoleTables) -> None:
        super().__init__(tables)
        self.lock = cache(self._lock)
        if tables.schema.log:
            even, odd = WRITER_LOCKS
            self.register_writer = _MARIADB_REGISTER.substitute(
                record=self.dialect.table(tables.schema.side_table(META_TABLE)),
                seconds=WRITERS_ALTERNATE,
                even=even,
                odd=odd,
            )

    def is_complete(self, statement: Statement, count: int, size: int) -> bool:
        """Compare the count of an UPDATE. No entry or date is left out without an error.

        An INSERT counts a row that it changes twice. On a connection that does not count the rows
        that an UPDATE leaves as they were, the count is too small, and the rows are read.
        """
        return statement.kind is None or count >= size

    def probes(self) -> Iterable[str]:
        """Update no row: triggers run for each row only."""
        for table, name in self._changed_tables().items():
            column = self.dialect.quote(name)
            yield f"UPDATE {table} SET {column} = {column} WHERE 1 = 0"

    def _select(self, kind: Suppressible, *columns: str) -> str:
        """Join the given keys."""
        return _MARIADB_SELECT.substitute(
            columns=", ".join([*self._selected_keys(kind), *columns]),
            given=_given(self._key_columns(kind)),
            table=self.tables.table(kind.value),
            is_key=self._is_key(kind),
            visible=self.tables.visible(kind.value),
        )

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Statement:
        """Lock rows by keys, in the order of the keys, as every process does."""
        text = _MARIADB_LOCK.substitute(
            columns=", ".join(self._selected_keys(kind)),
            given=_given(self._key_columns(kind)),
            table=self.tables.table(kind.value),
            is_key=self._is_key(kind),
            visible=self.tables.visible(kind.value),
            lock=self.dialect.skip_locked if skip_locked else self.dialect.for_update,
        )
        return Statement(text, [*key_parameters(kind)], kind)

    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        role, tables = kind.value, self.tables
        columns, alias = tables.columns(role), ALIASES[role]
        written = {name: columns[name] for name in write.columns if name in columns}
        given = self._key_columns(kind) | written
        types = {name: column.type for name, column in given.items()}
        guard = is_dated = ""
        if guarded:
            column = tables.column(role, write.guard)
            guard = f" AND {guard_holds(column, write, f'given.{write.guard}')}"
        if dated:
            types |= self._date_types()
            is_dated = _MARIADB_IS_DATED.substitute(dates=self._dates, role=role, older=write.holds)
        text = _MARIADB_UPDATE.substitute(
            given=_given_types(types),
            table=tables.table(role),
            assignments=", ".join(
                f"{alias}.{self.dialect.quote(column.name)} = {_assigned(name, column)}"
                for name, column in written.items()
            ),
            is_key=self._is_key(kind),
            guard=guard,
            visible=tables.not_hidden(role, alias),
            dated=is_dated,
        )
        return Statement(text, [*types], kind)

    def _set_date(self, kind: Suppressible) -> Statement:
        types = {name: column.type for name, column in self._key_columns(kind).items()}
        types |= self._date_types()
        rows = _MARIADB_NEW_DATES.substitute(
            role=kind.value,
            given=_given_types(types),
            table=self.tables.table(kind.value),
            is_key=self._is_key(kind),
            visible=self.tables.visible(kind.value),
        )
        return Statement(self._insert_dates(rows), [*types])

    def _add_entries(self, log: str) -> Statement:
        """Return an INSERT of one row, which the driver repeats for the others.

        From JSON_TABLE, it would take the server twice as long.
        """
        marks = ", ".join(["%s"] * (len(ENTRY_FIELDS) + 1))
        return Statement(self._insert_entries(log, f"VALUES ({marks})"), many=True)

    def _date_types(self) -> dict[str, str]:
        """Return the types of the values that date a change in the side table."""
        return {"row_key": self.dialect.text_type, "suppression_changed_at": _TIME}

    def _key_columns(self, kind: Suppressible) -> dict[str, Column]:
        """Return the columns of a key, by the names of their parameters."""
        columns = self.tables.columns(kind.value)
        return {key: columns[name] for key, name in key_parameters(kind).items()}

    def _selected_keys(self, kind: Suppressible) -> Sequence[str]:
        return [self.tables.key(kind.value, name) for name in key_parameters(kind).values()]

    def _is_key(self, kind: Suppressible) -> str:
        """Compare the key of a row with the given one."""
        alias = ALIASES[kind.value]
        return " AND ".join(
            f"{alias}.{self.dialect.quote(column.name)} = {given_value(key, column)}"
            for key, column in self._key_columns(kind).items()
        )


def _given(columns: Mapping[str, Column]) -> str:
    """Return the relation `given`, which has the values of columns by name."""
    return _given_types({name: column.type for name, column in columns.items()})


def _given_types(types: Mapping[str, str]) -> str:
    """Return the relation `given`, whose rows are in one parameter, by the types of its columns."""
    columns = ", ".join(
        f"{name} {type_} PATH '$[{place}]'" for place, (name, type_) in enumerate(types.items())
    )
    return f"JSON_TABLE(%s, '$[*]' COLUMNS ({columns})) AS given"


def _assigned(name: str, column: Column) -> str:
    """Return a given value, to assign it to a column.

    Without concat(), MariaDB 10.11 stores a text that is too long for a TEXT modulo 65,536.
    """
    return f"concat(given.{name})" if column.kind == "text" else f"given.{name}"
