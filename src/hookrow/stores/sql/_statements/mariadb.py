"""The statements on MariaDB and MySQL: on the rows of JSON arrays, several for a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from string import Template
from typing import Any

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.mariadb import WRITER_LOCKS, WRITERS_ALTERNATE, Rows, given_value
from hookrow.stores.sql._role_tables import ALIASES, RoleTables
from hookrow.stores.sql._scripts import META_TABLE
from hookrow.stores.sql._statements.base import (
    ENTRY_FIELDS,
    Combined,
    Statement,
    Statements,
    Step,
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
SELECT name INTO @hookrow_writer FROM $record
WHERE name = CASE (unix_timestamp() DIV $seconds) %% 2 WHEN 0 THEN '$even' ELSE '$odd' END
LOCK IN SHARE MODE""")


_MARIADB_COUNT_LOCKED = Template("""\
SELECT count(*) INTO $count
FROM (SELECT * FROM $given) AS given STRAIGHT_JOIN $table
WHERE $is_key$visible
$lock""")

# The second branch fails: it returns more than one row. The server then runs nothing that follows.
_MARIADB_CHECK = Template("SET @hookrow_check = IF($checks, 1, (SELECT 1 UNION ALL SELECT 2))")

_TIME = "datetime(6)"


class MariaDBStatements(Statements):
    """Statements on the rows of JSON arrays, which are sorted, and joined in their order."""

    selects_one = False
    combines_packets = True

    def __init__(self, tables: RoleTables) -> None:
        super().__init__(tables)
        self.lock = cache(self._lock)
        self.combined = cache(self._combined)
        if tables.schema.log:
            even, odd = WRITER_LOCKS
            self.register_writer = _MARIADB_REGISTER.substitute(
                record=self.dialect.table(tables.schema.side_table(META_TABLE)),
                seconds=WRITERS_ALTERNATE,
                even=even,
                odd=odd,
            )

    def combined_parameters(
        self, locks: Sequence[tuple[Sequence[Any], int]], steps: Sequence[Step]
    ) -> Sequence[Any]:
        """Return the keys, their numbers, and the parameters of the statements."""
        keys = (each for parameters, _ in locks for each in parameters)
        given = (
            each
            for step in steps
            for each in ([Rows(step.parameters)] if step.statement.many else step.parameters)
        )
        return [*keys, *(size for _, size in locks), *given]

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
        locking = self._locking(kind, skip_locked=skip_locked)
        text = _MARIADB_LOCK.substitute(locking, columns=", ".join(self._selected_keys(kind)))
        return Statement(text, [*key_parameters(kind)], kind)

    def _locking(self, kind: Suppressible, *, skip_locked: bool) -> Mapping[str, str]:
        return {
            "given": _given(self._key_columns(kind)),
            "table": self.tables.table(kind.value),
            "is_key": self._is_key(kind),
            "visible": self.tables.visible(kind.value),
            "lock": self.dialect.skip_locked if skip_locked else self.dialect.for_update,
        }

    def _combined(
        self, statements: tuple[Statement, ...], *, skip_locked: bool, commits: bool
    ) -> Combined:
        """Return statements for one packet, which lock rows, count them, and write.

        An UPDATE finds the rows that were locked by the same condition, because no policy or
        trigger can exclude a row here, so that only the locks are counted. If one is missing, the
        server does not reach the COMMIT.
        """
        changed = {each.kind for each in statements}
        kinds = [kind for kind in Suppressible if kind in changed]
        counts = {kind: f"@hookrow_{kind.value}" for kind in kinds}
        parts = [
            _MARIADB_COUNT_LOCKED.substitute(
                self._locking(kind, skip_locked=skip_locked), count=count
            )
            for kind, count in counts.items()
        ]
        if counts:
            checks = " AND ".join(f"{count} = %s" for count in counts.values())
            parts.append(_MARIADB_CHECK.substitute(checks=checks))
        for each in statements:
            if each is self.add_entries and self.register_writer:
                parts.append(self.register_writer)
            parts.append(self._add_all_entries() if each.many else each.text)
        if commits:
            parts = [self.dialect.begin, *parts, "COMMIT"]
        return Combined(kinds, ";\n".join(parts))

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

    def _add_all_entries(self) -> str:
        """Return the INSERT of all rows, which are one parameter."""
        log = self.dialect.table(self.tables.schema.log or "")
        return self._insert_entries(log, "VALUES %s")

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
