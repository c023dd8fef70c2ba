"""The statements on MariaDB and MySQL: on the rows of JSON arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from string import Template
from typing import Any

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow.stores.sql._connections import Insert
from hookrow.stores.sql._dialects.mariadb import WRITER_LOCKS, WRITERS_ALTERNATE
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._scripts import META_TABLE
from hookrow.stores.sql._statements.base import (
    ENTRY_FIELDS,
    InsertStatement,
    RowStatement,
    Statement,
    Statements,
)
from hookrow.stores.sql._statements.mariadb_packets import Packets
from hookrow.stores.sql._statements.mariadb_rows import KeyedRows, RowUpdate, date_types, given

_MARIADB_SELECT = Template("""\
SELECT $columns
FROM $given STRAIGHT_JOIN $table
WHERE $is_key$visible""")

_MARIADB_NEW_DATES = Template("""\
SELECT '$role' AS role, given.row_key, given.suppression_changed_at
FROM $given
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)""")

_MARIADB_REGISTER = Template("""\
SELECT name INTO @hookrow_writer FROM $record
WHERE name = CASE (unix_timestamp() DIV $seconds) %% 2 WHEN 0 THEN '$even' ELSE '$odd' END
LOCK IN SHARE MODE""")


class MariaDBStatements(Statements):
    """Statements on the rows of JSON arrays, which are sorted, and joined in their order."""

    selects_one = False

    def __init__(self, tables: RoleTables) -> None:
        super().__init__(tables)
        self.lock = cache(self._lock)
        self.combining = Packets(self)
        if tables.schema.log:
            even, odd = WRITER_LOCKS
            self.register_writer = _MARIADB_REGISTER.substitute(
                record=self.dialect.table(tables.schema.side_table(META_TABLE)),
                seconds=WRITERS_ALTERNATE,
                even=even,
                odd=odd,
            )

    def is_complete(self, statement: Statement, count: int, size: int) -> bool:
        """Return whether an UPDATE has found all rows; an INSERT leaves none out without an error.

        The count of an INSERT is no help: it contains a row that is changed twice. That of an
        UPDATE is too small on a connection that counts only rows whose values differ afterwards.
        """
        return statement.kind is None or count >= size

    def probes(self) -> Iterable[str]:
        # Triggers run for each row, and thus not for these statements.
        for table, name in self._changed_tables().items():
            column = self.dialect.quote(name)
            yield f"UPDATE {table} SET {column} = {column} WHERE 1 = 0"

    def _select(self, kind: Suppressible, *columns: str) -> str:
        rows = KeyedRows(self.tables, kind)
        return _MARIADB_SELECT.substitute(
            columns=", ".join([*rows.selected, *columns]),
            given=given(rows.types),
            table=rows.table,
            is_key=rows.is_key,
            visible=rows.visible,
        )

    def _lock(self, kind: Suppressible, *, skip_locked: bool) -> Statement:
        rows = KeyedRows(self.tables, kind)
        text = rows.lock(", ".join(rows.selected), skip_locked=skip_locked)
        return Statement(text, [*rows.types], kind)

    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        return RowUpdate(self.tables, kind, write, guarded=guarded, dated=dated)

    def _set_date(self, kind: Suppressible) -> Statement:
        rows = KeyedRows(self.tables, kind)
        types = rows.types | date_types(self.tables)
        dates = _MARIADB_NEW_DATES.substitute(
            role=kind.value,
            given=given(types),
            table=rows.table,
            is_key=rows.is_key,
            visible=rows.visible,
        )
        return Statement(self._insert_dates(dates), [*types])

    def _relation(self, types: Mapping[str, str]) -> str:
        return given(types)

    def _related(self, columns: Sequence[Sequence[Any]]) -> Sequence[Any]:
        return self.dialect.encode_rows(zip(*columns, strict=True))

    def _add_entries(self, log: str, *, id_: str = "") -> Statement:
        # From JSON_TABLE, it would take the server twice as long.
        marks = ", ".join([*filter(None, [id_]), *["%s"] * (len(ENTRY_FIELDS) + 1)])
        one = self._insert_entries(log, f"VALUES ({marks})", has_id=bool(id_))
        if id_:
            return RowStatement(one)
        return InsertStatement(Insert(one, self._insert_entries(log, "VALUES %s", has_id=False)))
