"""SQLite's answers, from declared types and copies of the tables in memory."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from hookrow._core.column_rules import UNEXPECTED
from hookrow._fault import Fault
from hookrow.stores._driver_errors import UNWRITABLE
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import Connection, Row
from hookrow.stores.sql._dialects.base import Dialect, question_marks
from hookrow.stores.sql._dialects.sqlite import SQLITE
from hookrow.stores.sql._needs import (
    Columns,
    Need,
    Use,
)
from hookrow.stores.sql._rehearsals.base import (
    Comparison,
    Rehearsal,
    broken_check,
    missing_reference,
)


class SQLiteRehearsal(Rehearsal):
    """Reads the declared types, and writes to copies of the tables in memory.

    Any column holds values of any kind, except in a STRICT table, so there is no type to ask. A
    word such as BOOLEAN is the only evidence that the host, or its library, expects other values.
    """

    def rejected(
        self,
        connection: Connection,
        dialect: Dialect,
        tables: Mapping[str, Columns],
        needs: Sequence[Need],
    ) -> Iterator[Fault]:
        written: list[Need] = []
        for need in needs:
            refused = need.unwritable or [
                each for each in need.values if _is_unexpected(need, each)
            ]
            if refused:
                yield need.refusal(refused)
            elif need.use in {Use.REASON, Use.WRITTEN, Use.OWN}:
                written.append(need)
        for table, of_table in groupby(written, attrgetter("table")):
            yield from _rejected_in_memory(connection, dialect, tables[table], [*of_table])
        for need in written:
            if need.use is Use.REASON:
                yield from _missing(connection, dialect, need)

    def incomparable(
        self,
        connection: Connection,  # noqa: ARG002 - for PostgreSQL
        compared: Sequence[Comparison],  # noqa: ARG002 - for PostgreSQL
    ) -> Iterator[Fault]:
        return iter(())  # it compares any values


def _is_unexpected(need: Need, value: object) -> bool:
    column = need.column
    if need.use is Use.TENANT:
        return column.kind in _NEVER_TEXT or (
            column.kind in _INTEGER_KINDS and _IS_INTEGER.fullmatch(str(value)) is None
        )
    if need.use is Use.COMPARED or column.write:
        return False
    if value is True and column.kind in _NEVER_TRUE:
        return True
    if need.use is Use.CONDITION and column.kind in _TIME_TYPES:
        return False  # its texts are dates
    return isinstance(value, UNEXPECTED.get(column.kind, ()))


_TIME_TYPES = {"date", "time", "datetime"}
_NEVER_TRUE = {*_TIME_TYPES, "blob", "json", "jsonb"}
"""Kinds of which no value equals the number 1, as which SQLite stores True."""


_NEVER_TEXT = {"blob", "real", "double", "float", *_TIME_TYPES}
"""Kinds whose values are not the text of a tenant: a float returns the number 1 as 1.0."""

_INTEGER_KINDS = {"integer", "boolean"}

_IS_INTEGER = re.compile("0|-?[1-9][0-9]*")
"""Matches an integer as the database returns it."""


def _objects(connection: Connection, dialect: Dialect, table: str, type_: str) -> Sequence[Row]:
    """Return the definition of a table, or of its triggers."""
    bare, namespace = catalogue_of(connection, dialect).named(table)
    sql = (
        f"SELECT sql FROM {dialect.quote(namespace)}.sqlite_master "
        "WHERE type = %s AND tbl_name = %s COLLATE NOCASE"
    )
    return connection.fetch(sql, [type_, bare])


def _missing(connection: Connection, dialect: Dialect, need: Need) -> Iterator[Fault]:
    """Yield the fault of reasons that are missing in a table to which the column refers."""
    bare, namespace = catalogue_of(connection, dialect).named(need.table)
    ((are_checked,),) = connection.fetch("PRAGMA foreign_keys")
    if not are_checked or _objects(connection, dialect, need.table, "trigger"):
        return
    named = [bare, namespace, namespace, need.column.name]
    for other, key in connection.fetch(_SELECT_REFERENCES, named):
        sql = (
            f"SELECT 1 FROM {dialect.quote(namespace)}.{dialect.quote(other)} "
            f"WHERE {dialect.quote(key)} = %s"
        )
        missing = [
            value
            for value, stored in need.values.items()
            if stored is not None and not connection.fetch(sql, [dialect.write(stored)])
        ]
        if missing:
            yield need.refusal(missing, missing_reference(other))


_SELECT_REFERENCES = """
SELECT "table", other.name FROM pragma_foreign_key_list(%s, %s) AS reference
JOIN pragma_table_info(reference."table", %s) AS other
    ON CASE WHEN "to" IS NULL THEN other.pk = 1 ELSE "to" = other.name COLLATE NOCASE END
GROUP BY reference.id HAVING count(*) = 1 AND max("from") = %s COLLATE NOCASE
"""
"""The foreign keys of a column alone: the other table and its column."""


def _rejected_in_memory(
    connection: Connection, dialect: Dialect, columns: Columns, needs: Sequence[Need]
) -> Iterator[Fault]:
    """Yield the faults of values that a table in memory, of the same definition, rejects.

    Of its constraints, only those on reasons are evaluated: the other values are examples. One on
    several columns cannot be evaluated, because their values are unknown. Neither can one on a
    generated column or the row id, or with a function or a collation of the host's.
    """
    bare, _ = catalogue_of(connection, dialect).named(needs[0].table)
    for (definition,) in _objects(connection, dialect, needs[0].table, "table"):
        given = [each for each in columns.values() if not each.generated]
        quoted = question_marks(SQLITE.quote(bare))
        filled = ", ".join(question_marks(SQLITE.quote(each.name)) for each in given)
        fillers = ", ".join("x''" if each.type_name == "BLOB" else "0" for each in given)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
            try:
                memory.execute("PRAGMA foreign_keys = OFF")
                memory.execute(definition)
                memory.execute("PRAGMA ignore_check_constraints = ON")
                memory.execute(f"INSERT INTO {quoted} ({filled}) VALUES ({fillers})")
            except sqlite3.Error:
                return
            for need in needs:
                is_evaluated = need.use is Use.REASON and _is_alone(need, definition, columns)
                memory.execute(f"PRAGMA ignore_check_constraints = {not is_evaluated:d}")
                errors = _errors(memory, quoted, dialect, need, columns)
                for error in islice(dict.fromkeys(errors.values()), 1):
                    _, is_check, text = error.partition("CHECK constraint failed: ")
                    refused = [value for value, each in errors.items() if each == error]
                    yield need.refusal(refused, broken_check(text) if is_check else None)


def _is_alone(need: Need, definition: str, columns: Columns) -> bool:
    """Return whether each constraint on a column concerns no other column."""
    name = need.column.name.lower()
    others = {*map(str.lower, columns), *_ROW_IDS} - {name}
    return not any(names & others for names in _names_in_checks(definition) if name in names)


def _errors(
    memory: sqlite3.Connection, table: str, dialect: Dialect, need: Need, columns: Columns
) -> Mapping[Any, str]:
    """Return the errors with which SQLite rejects values of a need, by value."""
    target = question_marks(SQLITE.quote(need.column.name))
    of_generated = tuple(f".{each.name}" for each in columns.values() if each.generated)
    errors: dict[Any, str] = {}
    for value, stored in need.values.items():
        try:
            memory.execute(f"UPDATE {table} SET {target} = ?", [dialect.write(stored)])
        except sqlite3.IntegrityError as error:
            if not str(error).endswith(of_generated):  # it depends on other columns, too
                errors[value] = str(error)
        except (sqlite3.Error, *UNWRITABLE):
            return {}
    return errors


_ROW_IDS = ("rowid", "_rowid_", "oid")
"""The names by which SQLite's tables have a key, unless a column has the name."""

_SQL_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'[^']*'|("[^"]*"|`[^`]*`|\[[^\]]*\]|[\w$]+|[()])""", re.DOTALL
)
"""A comment, a string or, in the group, a name, a keyword or a parenthesis."""


def _names_in_checks(definition: str) -> Sequence[set[str]]:
    """Return the names, in lower case, in each CHECK of a table's definition."""
    found: list[set[str]] = []
    depth, outer = 0, None
    for part in filter(None, _SQL_TOKEN.findall(definition)):
        if part == "(":
            depth += 1
        elif part == ")":
            depth -= 1
            outer = None if depth == outer else outer
        elif outer is not None:
            found[-1].add(part.strip('"`[]').lower())
        elif part.upper() == "CHECK":
            found.append(set())
            outer = depth
    return found
