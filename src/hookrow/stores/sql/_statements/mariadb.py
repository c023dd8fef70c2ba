"""The statements on MariaDB and MySQL: on the rows of JSON arrays, several for a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from string import Template
from typing import Any

from hookrow._core.changes import Write
from hookrow._core.notification import Suppressible
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Insert
from hookrow.stores.sql._dialects.mariadb import (
    CHECK,
    SMALLEST_PACKET,
    WRITER_LOCKS,
    WRITERS_ALTERNATE,
    given_value,
)
from hookrow.stores.sql._mariadb_literals import Fragment, literal, row_literal
from hookrow.stores.sql._role_tables import ALIASES, RoleTables
from hookrow.stores.sql._scripts import META_TABLE
from hookrow.stores.sql._statements.base import (
    ENTRY_FIELDS,
    Combined,
    InsertStatement,
    Statement,
    Statements,
    Step,
    guard_holds,
    key_parameters,
    positional,
)

_MARIADB_SELECT = Template("""\
SELECT $columns
FROM $given STRAIGHT_JOIN $table
WHERE $is_key$visible""")

# MySQL cannot lock the rows of JSON_TABLE, but those of a derived table are not locked.
_MARIADB_LOCK = Template("""\
SELECT $columns
FROM (SELECT * FROM $given) AS given STRAIGHT_JOIN $table
WHERE $is_key$visible
$lock""")

_MARIADB_UPDATE = Template("""\
UPDATE $given STRAIGHT_JOIN $table SET $assignments
WHERE $is_key$guard$visible$dated""")

_MARIADB_UPDATE_CASES = Template("""\
UPDATE $table SET $assignments
WHERE $is_any$guard$visible$dated""")

_MARIADB_NEW_DATES = Template("""\
SELECT '$role' AS role, given.row_key, given.suppression_changed_at
FROM $given
WHERE EXISTS (SELECT 1 FROM $table WHERE $is_key$visible)""")

_MARIADB_IS_DATED = Template("""
AND EXISTS (SELECT 1 FROM $dates AS dated WHERE dated.role = '$role'
    AND dated.row_key = $row_key AND dated.changed_at $older $changed_at)""")

_MARIADB_REGISTER = Template("""\
SELECT name INTO @hookrow_writer FROM $record
WHERE name = CASE (unix_timestamp() DIV $seconds) %% 2 WHEN 0 THEN '$even' ELSE '$odd' END
LOCK IN SHARE MODE""")


_MARIADB_COUNT_LOCKED = Template("""\
SELECT count(*) INTO $count
FROM (SELECT * FROM $given) AS given STRAIGHT_JOIN $table
WHERE $is_key$visible
$lock""")

_TIME = "datetime(6)"

_FOR_STATEMENTS = 64 * 1024
"""Bytes of a packet that are left for its statements."""

_IS_ANY, _ROWS = "is_any", "rows"
"""The names of the parameters of an UPDATE in a packet with the keys, and the number of rows."""

_COUNTED = f"@hookrow_counted = %({_ROWS})s"

_MARIADB_RECOUNT = Template("""\
SELECT count(*) INTO @hookrow_counted FROM $table WHERE $is_any$visible;
$check;
""")


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
    ) -> Sequence[Any] | None:
        """Return the keys, their numbers, and the fragments and parameters of the statements."""
        keys = (each for parameters, _ in locks for each in parameters)
        given: list[Any] = []
        updated = False
        for step in steps:
            if isinstance(step.statement, _Update):
                given += step.statement.fragments(step.rows, is_first=not updated)
                updated = True
            elif isinstance(step.statement, InsertStatement):
                rows = map(row_literal, self.parameters(step))
                given.append(Fragment(", ".join(rows)))
            else:
                given += self.parameters(step)
        parameters = [*keys, *(size for _, size in locks), *given]
        size = sum(map(_largest_size, parameters))
        return parameters if size < SMALLEST_PACKET - _FOR_STATEMENTS else None

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

        If a row is missing, the server does not reach the COMMIT.
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
            parts.append(CHECK.format(checks))
        updated = False
        for each in statements:
            if each is self.add_entries and self.register_writer:
                parts.append(self.register_writer)
            if isinstance(each, _Update):
                parts.append(each.in_packet(is_first=not updated))
                updated = True
            else:
                parts.append(self._in_packet(each))
        if commits:
            parts = [self.dialect.begin, *parts, "COMMIT"]
        return Combined(kinds, ";\n".join(parts))

    def _update(
        self, kind: Suppressible, write: Write, *, guarded: bool, dated: bool = False
    ) -> Statement:
        role, tables = kind.value, self.tables
        columns, alias = tables.columns(role), ALIASES[role]
        keys = self._key_columns(kind)
        written = {name: columns[name] for name in write.columns if name in columns}
        types = {name: column.type for name, column in (keys | written).items()}
        if dated:
            types |= self._date_types()
        cases = _Cases([f"{alias}.{self.dialect.quote(column.name)}" for column in keys.values()])

        def parts(value: Callable[[str], str], time: Callable[[str], str]) -> dict[str, str]:
            """Return the parts of the UPDATE that contain values, given how to write these."""
            assignments = [
                f"{alias}.{self.dialect.quote(column.name)} = "
                + (_whole(value(name)) if column.kind == "text" else value(name))
                for name, column in written.items()
            ]
            guard = is_dated = ""
            if guarded:
                column = tables.column(role, write.guard)
                guard = f" AND {guard_holds(column, write, time(write.guard))}"
            if dated:
                is_dated = _MARIADB_IS_DATED.substitute(
                    dates=self._dates,
                    role=role,
                    row_key=value("row_key"),
                    older=write.holds,
                    changed_at=time("suppression_changed_at"),
                )
            return {"assignments": ", ".join(assignments), "guard": guard, "dated": is_dated}

        common = {"table": tables.table(role), "visible": tables.not_hidden(role, alias)}
        text = _MARIADB_UPDATE.substitute(
            common,
            given=_given_types(types),
            is_key=self._is_key(kind),
            **parts(_of_given, _of_given),
        )
        common["is_any"] = cases.is_any
        packet = _MARIADB_UPDATE_CASES.substitute(common, **parts(cases.value, cases.time))
        before = ""
        if guarded or dated:  # the count would not show whether the guard has refused a row
            before = _MARIADB_RECOUNT.substitute(common, check=CHECK.format(_COUNTED))
        else:
            packet += f";\n{CHECK.format(f'ROW_COUNT() = %({_ROWS})s')}"
        return _Update(text, [*types], kind, packet=packet, recount=before, cases=cases)

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
        """Return an INSERT of values: from JSON_TABLE, it would take the server twice as long."""
        marks = ", ".join(["%s"] * (len(ENTRY_FIELDS) + 1))
        one, many = (
            self._insert_entries(log, f"VALUES {values}") for values in (f"({marks})", "%s")
        )
        return InsertStatement(Insert(one, many))

    def _in_packet(self, statement: Statement) -> str:
        """Return the text of a statement in a packet that is no UPDATE."""
        return statement.insert.many if isinstance(statement, InsertStatement) else statement.text

    def _date_types(self) -> dict[str, str]:
        """Return the types of the values that date a change in the side table."""
        return {"row_key": self.dialect.text_type, "suppression_changed_at": _TIME}

    def _key_columns(self, kind: Suppressible) -> dict[str, Column]:
        """Return the columns of a key, by the names of their parameters."""
        columns = self.tables.columns(kind.value)
        return {key: columns[name] for key, name in key_parameters(kind).items()}

    def _selected_keys(self, kind: Suppressible) -> Sequence[str]:
        """Return the columns of a key, for SELECT; texts as given, although the case may differ."""
        columns = self.tables.columns(kind.value)
        return [
            f"given.{key}" if columns[name].collation else self.tables.key(kind.value, name)
            for key, name in key_parameters(kind).items()
        ]

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


def _largest_size(parameter: object) -> int:
    """Return the largest size of a parameter in a text, in bytes."""
    if isinstance(parameter, Fragment):
        return len(parameter) if parameter.isascii() else len(parameter.encode())
    # Hexadecimal digits of UTF-8.
    return 2 * len(parameter.encode()) if isinstance(parameter, str) else _LONGEST_NUMBER


_LONGEST_NUMBER = 20
"""Bytes of the longest number."""


def _of_given(name: str) -> str:
    return f"given.{name}"


def _whole(text: str) -> str:
    """Return a text as a value to assign.

    Without concat(), MariaDB 10.11 stores a text of JSON_TABLE that is too long for a TEXT modulo
    65,536.
    """
    return f"concat({text})"


class _Cases:
    """The expressions for values of the rows in a packet, given the columns of the key."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = key
        self._is_single = len(key) == 1
        self.is_any = f"{key[0]} IN (%({_IS_ANY})s)" if self._is_single else f"(%({_IS_ANY})s)"
        """The condition that the key is one of those of the rows."""

    def value(self, name: str) -> str:
        """Return the expression for a value of the row, by its name."""
        key = f" {self._key[0]}" if self._is_single else ""
        return f"CASE{key} %({name})s END"

    def time(self, name: str) -> str:
        """Return the expression for a time of the row, to compare with others."""
        return f"CAST({self.value(name)} AS {_TIME})"

    def fragments(
        self, names: Sequence[str], rows: Sequence[Mapping[str, str]]
    ) -> Iterator[Fragment]:
        """Yield the parameters of these names, given the literals of each row by name."""
        keys = [[row[f"key_{place}"] for place in range(len(self._key))] for row in rows]
        conditions = [key[0] if self._is_single else self._equals(key) for key in keys]
        for name in names:
            if name == _IS_ANY:
                yield Fragment((", " if self._is_single else " OR ").join(conditions))
            elif name == _ROWS:
                yield Fragment(len(rows))
            else:
                branches = zip(conditions, rows, strict=True)
                yield Fragment(" ".join(f"WHEN {key} THEN {row[name]}" for key, row in branches))

    def _equals(self, key: Sequence[str]) -> str:
        names = (column.replace("%%", "%") for column in self._key)  # in a parameter
        pairs = zip(names, key, strict=True)
        return " AND ".join(f"{name} = {value}" for name, value in pairs)


class _Update(Statement):
    """An UPDATE on the rows of a JSON array, which is another one in a packet.

    There, each column has a CASE with a branch for each row. MariaDB would write the new values of
    a join to a temporary table first, which is on the disk if one of them is a long text.

    If it is not the first UPDATE, an earlier one may have hidden a row that was locked, through a
    view or a trigger. Therefore, the rows are counted again before an UPDATE with a guard; others
    count the rows that they find.
    """

    __slots__ = ("_cases", "_first", "_names", "_other")

    def __init__(
        self,
        text: str,
        names: Sequence[str],
        kind: Suppressible,
        *,
        packet: str,
        recount: str,
        cases: _Cases,
    ) -> None:
        super().__init__(text, names, kind)
        self._names, self._cases = names, cases
        self._first, self._other = positional(packet), positional(recount + packet)

    def in_packet(self, *, is_first: bool) -> str:
        """Return the text in a packet."""
        return (self._first if is_first else self._other)[0]

    def fragments(self, rows: Sequence[Sequence[Any]], *, is_first: bool) -> Iterator[Fragment]:
        """Return the parameters of the text in a packet."""
        literals = [dict(zip(self._names, map(literal, row), strict=True)) for row in rows]
        names = (self._first if is_first else self._other)[1]
        return self._cases.fragments(names, literals)
