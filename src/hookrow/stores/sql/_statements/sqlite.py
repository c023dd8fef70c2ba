"""The statements on SQLite: on one row each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import Template
from typing import Any

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow._core.schema import TOUCH
from hookrow.stores.sql._role_tables import ALIASES
from hookrow.stores.sql._statements.base import (
    ENTRY_FIELDS,
    RowStatement,
    Statement,
    Statements,
    guard_holds,
    key_parameters,
    positional,
    touched,
)

_SQLITE_SELECT = Template("""\
SELECT $columns
FROM (SELECT $given) AS given CROSS JOIN $table
WHERE $is_key$visible""")

_SQLITE_UPDATE = Template("""\
UPDATE $table SET $assignments
WHERE $is_key$guard$visible$dated""")

_SQLITE_NEW_DATE = Template("""\
SELECT '$role' AS role, %(row_key)s, %(suppression_changed_at)s
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)""")

_SQLITE_IS_DATED = Template("""
AND EXISTS (SELECT 1 FROM $dates AS dated WHERE dated.role = '$role'
    AND dated.row_key = %(row_key)s AND dated.changed_at $older %(suppression_changed_at)s)""")


class SQLiteStatements(Statements):
    """Statements on one row each: the driver's `executemany` is faster than rows from JSON.

    A transaction holds the whole database from its beginning, so no rows are locked.
    """

    selects_one = True

    def _select(self, kind: Suppressible, *columns: str) -> str:
        # One key, because JSON cannot hold bytes.
        keys, tables = key_parameters(kind), self.tables
        return _SQLITE_SELECT.substitute(
            columns=", ".join(
                [*(tables.key(kind.value, name) for name in keys.values()), *columns]
            ),
            given=", ".join(f"%s AS {key}" for key in keys),
            table=tables.table(kind.value),
            is_key=" AND ".join(
                f"{tables.column(kind.value, name)} = given.{key}" for key, name in keys.items()
            ),
            visible=tables.visible(kind.value),
        )

    def probes(self) -> Iterable[str]:
        # Triggers run for each row, and thus not for these statements.
        for table, name in self._changed_tables().items():
            column = self.dialect.quote(name)
            yield f"UPDATE {table} SET {column} = {column} WHERE 1 = 0"

    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        role, tables = kind.value, self.tables
        columns, table = tables.columns(role), tables.name(role)
        alias = table.rpartition(".")[2]  # an UPDATE of a view can have no other alias
        guard = is_dated = ""
        if guarded:
            column = tables.column(role, write.guard, alias)
            guard = f" AND {guard_holds(column, write, f'%({write.guard})s')}"
        if dated:
            is_dated = _SQLITE_IS_DATED.substitute(dates=self._dates, role=role, older=write.holds)
        values = {name: f"%({name})s" for name in (*write.columns, TOUCH) if name in columns}
        if TOUCH in values:
            values[TOUCH] = touched(tables, role, alias, values)
        template = _SQLITE_UPDATE.substitute(
            table=table,
            assignments=", ".join(
                f"{self.dialect.quote(columns[name].name)} = {value}"
                for name, value in values.items()
            ),
            is_key=self._is_key(kind, alias),
            guard=guard,
            visible=tables.not_hidden(role, alias),
            dated=is_dated,
        )
        return RowStatement(*positional(template), kind)

    def _set_date(self, kind: Suppressible) -> Statement:
        rows = _SQLITE_NEW_DATE.substitute(
            role=kind.value,
            table=self.tables.table(kind.value),
            is_key=self._is_key(kind, ALIASES[kind.value]),
            visible=self.tables.visible(kind.value),
        )
        return RowStatement(*positional(self._insert_dates(rows)))

    def _add_entries(self, log: str, *, id_: str = "") -> Statement:
        values = ", ".join([*filter(None, [id_]), *["%s"] * (len(ENTRY_FIELDS) + 1)])
        return RowStatement(self._insert_entries(log, f"VALUES ({values})", has_id=bool(id_)))

    def _relation(self, types: Mapping[str, str]) -> str:
        columns = ", ".join(
            f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(types)
        )
        return f"(SELECT {columns} FROM json_each(%s)) AS given"

    def _related(self, columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
        return [self.dialect.encode(zip(*columns, strict=True))]

    def _is_key(self, kind: Suppressible, alias: str) -> str:
        """Return the condition that the key of a row is the given one."""
        return " AND ".join(
            f"{self.tables.column(kind.value, name, alias)} = %({key})s"
            for key, name in key_parameters(kind).items()
        )
