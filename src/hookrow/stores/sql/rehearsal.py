"""Asks a database which values the columns of reasons can hold, without writing to its tables.

What the database does not plainly reject passes, because to reject a table that works would be
worse than to accept one that does not.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from operator import itemgetter
from typing import Any, TypeAlias

from hookrow.core.schema import Scalar, Schema
from hookrow.stores import Rejected, SchemaChanged
from hookrow.stores.errors import UNWRITABLE, store_error
from hookrow.stores.sql.column_rules import (
    Columns,
    Obstacle,
    reason_mistake,
    reason_values,
    type_of,
)
from hookrow.stores.sql.columns import Column, lookup_name
from hookrow.stores.sql.connections import Connection
from hookrow.stores.sql.dialects import SQLITE, Dialect, question_marks

_Values: TypeAlias = Mapping[Scalar, Any]
"""Values of `reasons`, or for no reason, each with its form in the column."""

_FindObstacles: TypeAlias = Callable[
    [Connection, Dialect, str, Columns, Column, _Values],
    Iterable[tuple[Obstacle, Sequence[Scalar]]],
]


def reason_mistakes(
    connection: Connection, dialect: Dialect, schema: Schema, tables: Mapping[str, Columns]
) -> Iterator[str]:
    """Yield a sentence for each column of reasons that rejects a value which hookrow may write.

    `tables` contains the columns of each role's table. On PostgreSQL, the connection must be in a
    transaction. Raises the driver's errors.
    """
    obstacles = _OBSTACLES[dialect.name]
    for name, role in schema.roles.items():
        theirs = schema.columns(name).get("suppression_reason")
        if theirs is None:
            continue
        column = tables[name][theirs]
        values, unwritable = _stored(column, reason_values(schema, role.empty))
        found = (
            [(type_of(column), unwritable)]
            if unwritable
            else obstacles(connection, dialect, role.table, tables[name], column, values)
        )
        for obstacle, refused in islice(filter(itemgetter(1), found), 1):
            yield reason_mistake(role.table, column, refused, schema, obstacle)


def _stored(column: Column, values: Sequence[Scalar]) -> tuple[_Values, Sequence[Scalar]]:
    """Return the values as the column stores them, and those that its conversion refuses."""
    stored: dict[Scalar, Any] = {}
    refused: list[Scalar] = []
    for value in values:
        try:
            stored[value] = column.write(value) if column.write and value is not None else value
        except Exception:  # noqa: BLE001 - a field of the host may raise any error
            refused.append(value)
    return stored, refused


_CONSTRAINTS = """
SELECT contype = 'f', CASE contype WHEN 'f' THEN confrelid::regclass::text ELSE conname END,
    CASE contype WHEN 'f' THEN format(
        'given.%%1$I IS NULL OR EXISTS (SELECT FROM %%2$s AS o WHERE o.%%3$I = given.%%1$I)',
        a.attname, confrelid::regclass, o.attname
    ) ELSE pg_get_expr(conbin, conrelid) END
FROM pg_constraint AS con JOIN pg_class AS c ON c.oid = conrelid
JOIN pg_attribute AS a ON a.attrelid = conrelid AND conkey = ARRAY[a.attnum]
LEFT JOIN pg_attribute AS o ON o.attrelid = confrelid AND o.attnum = confkey[1]
WHERE conrelid = to_regclass(%s) AND a.attname = %s AND contype IN ('c', 'f')
    AND relkind IN ('r', 'p') AND NOT relhasrules
    AND coalesce((to_jsonb(con) ->> 'conenforced')::boolean, true)
    AND NOT (CASE contype WHEN 'f' THEN row_security_active(confrelid) ELSE false END)
    AND NOT EXISTS (
        SELECT FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 <> 0
        AND (contype = 'f' OR tgtype & 3 = 3)
        AND tgrelid IN (SELECT conrelid UNION SELECT relid FROM pg_partition_tree(conrelid))
    )
    AND (contype = 'c' OR (
        SELECT bool_and(tgenabled IN ('A', CASE current_setting('session_replication_role')
            WHEN 'replica' THEN 'R' ELSE 'O' END))
        FROM pg_trigger WHERE tgisinternal AND tgconstrrelid = confrelid AND tgtype & 16 <> 0
        AND tgrelid IN (SELECT conrelid UNION SELECT relid FROM pg_partition_tree(conrelid))
    ))
ORDER BY conname
"""
"""The constraints on a column alone: whether each is a foreign key, its name or the other table,
and its condition.

A trigger for updates (the bit 16) that runs for each row before the change (the bits 1 and 2) may
replace a value before its constraint is checked, and any trigger may add a row that a foreign key
needs. `conenforced` exists from version 18 on.

A foreign key is checked by internal triggers, which may be disabled, on each partition. One to a
partitioned table has further rows for the partitions of that table, which have no such triggers.

Constraints of single partitions are left out: the mapping may hide the rows of a partition, and a
row moves to another one when a change of its time or reason requires it.
"""


def _on_postgres(
    connection: Connection,
    dialect: Dialect,
    table: str,
    columns: Columns,  # noqa: ARG001 - for SQLite
    column: Column,
    values: _Values,
) -> Sequence[tuple[Obstacle, Sequence[Scalar]]]:
    """Let the server convert the values to the declared type, and evaluate the constraints.

    The conversion is one from JSON, because a cast to a type with a length truncates.
    """
    named = [*lookup_name(dialect, table), column.name]
    obstacles = [(type_of(column), "true")]
    for is_reference, text, condition in connection.fetch(_CONSTRAINTS, named):
        obstacle = _reference(text) if is_reference else _check(text)
        obstacles.append((obstacle, condition.replace("%", "%%")))
    name = dialect.quote(column.name)
    given = f"jsonb_to_recordset(%s::jsonb) AS given({name} {column.declared})"

    def holds(condition: str, some: Collection[Any]) -> bool:
        # Without the count, the server would not convert values that no condition needs.
        sql = f"SELECT count({name}), bool_and(coalesce({condition}, true)) FROM {given}"
        rows = json.dumps([{column.name: value} for value in some], default=str)
        try:
            with _undone(connection):
                ((_, result),) = connection.fetch(sql, [rows])
        except Exception as error:
            cause = store_error(error)
            if not isinstance(cause, Rejected | SchemaChanged):
                raise
            # If the user may not evaluate it, for example, nothing is known.
            return isinstance(cause, SchemaChanged)
        return bool(result)

    found = []
    for obstacle, condition in obstacles:
        if holds(condition, values.values()):
            continue
        found.append((obstacle, [each for each in values if not holds(condition, [values[each]])]))
    return found


@contextmanager
def _undone(connection: Connection) -> Iterator[None]:
    """Roll back what the block did: a constraint may call a function that writes.

    The transaction stays writable, because such a function may treat an error as a refusal.
    """
    connection.execute(_SAVEPOINT)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the connection may be broken: the first error says why
            _return_to_savepoint(connection)
        raise
    _return_to_savepoint(connection)


def _return_to_savepoint(connection: Connection) -> None:
    connection.execute(f"ROLLBACK TO {_SAVEPOINT}")
    connection.execute(f"RELEASE {_SAVEPOINT}")


_SAVEPOINT = "SAVEPOINT hookrow_rehearsal"


def _reference(table: str) -> Obstacle:
    return Obstacle(f"refers to {table}, which lacks", "complete that table")


def _check(text: str) -> Obstacle:
    one_line = " ".join(text.split())  # SQLite names a constraint by its expression
    return Obstacle(f"has the constraint {one_line}, which rejects", "change the constraint")


def _on_sqlite(
    connection: Connection,
    dialect: Dialect,
    table: str,
    columns: Columns,
    column: Column,
    values: _Values,
) -> Iterator[tuple[Obstacle, Sequence[Scalar]]]:
    """Write the values to a table like this one in memory, and look up those of foreign keys."""
    bare, namespace = lookup_name(dialect, table)
    written = {value: dialect.write(stored) for value, stored in values.items()}
    objects = (
        f"SELECT sql FROM {dialect.quote(namespace)}.sqlite_master "
        "WHERE type = %s AND tbl_name = %s COLLATE NOCASE"
    )
    for (definition,) in connection.fetch(objects, ["table", bare]):
        errors = _errors_in_memory(definition, bare, columns, column, written)
        for error in dict.fromkeys(errors.values()):
            _, is_check, text = error.partition("CHECK constraint failed: ")
            obstacle = _check(text) if is_check else type_of(column)
            yield obstacle, [value for value, each in errors.items() if each == error]
    ((are_checked,),) = connection.fetch("PRAGMA foreign_keys")
    if not are_checked or connection.fetch(objects, ["trigger", bare]):
        return
    for other, key in connection.fetch(_REFERENCES, [bare, namespace, namespace, column.name]):
        sql = (
            f"SELECT 1 FROM {dialect.quote(namespace)}.{dialect.quote(other)} "
            f"WHERE {dialect.quote(key)} = %s"
        )
        missing = [
            value
            for value, stored in written.items()
            if stored is not None and not connection.fetch(sql, [stored])
        ]
        if missing:
            yield _reference(other), missing


_REFERENCES = """
SELECT "table", other.name FROM pragma_foreign_key_list(%s, %s) AS reference
JOIN pragma_table_info(reference."table", %s) AS other
    ON CASE WHEN "to" IS NULL THEN other.pk = 1 ELSE "to" = other.name COLLATE NOCASE END
GROUP BY reference.id HAVING count(*) = 1 AND max("from") = %s COLLATE NOCASE
"""
"""The foreign keys of a column alone: the other table and its column."""


def _errors_in_memory(
    definition: str, table: str, columns: Columns, column: Column, values: _Values
) -> Mapping[Scalar, str]:
    """Return SQLite's errors for values of a column, given the definition of its table.

    A constraint on several columns cannot be evaluated, because their values are unknown. Neither
    can one on a generated column or the row id, or with a function or a collation of the host's.
    """
    name = column.name.lower()
    others = {*map(str.lower, columns), *_ROW_IDS} - {name}
    checks = [names for names in _names_in_checks(definition) if name in names]
    if any(names & others for names in checks):
        return {}
    given = [each for each in columns.values() if not each.generated]
    of_generated = tuple(f".{each.name}" for each in columns.values() if each.generated)
    errors: dict[Scalar, str] = {}
    quoted, target = (question_marks(SQLITE.quote(each)) for each in (table, column.name))
    filled = ", ".join(question_marks(SQLITE.quote(each.name)) for each in given)
    fillers = ", ".join("x''" if each.type_name == "BLOB" else "0" for each in given)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        try:
            memory.execute("PRAGMA foreign_keys = OFF")
            memory.execute(definition)
            memory.execute("PRAGMA ignore_check_constraints = ON")
            memory.execute(f"INSERT INTO {quoted} ({filled}) VALUES ({fillers})")
            memory.execute("PRAGMA ignore_check_constraints = OFF")
            for value, stored in values.items():
                try:
                    memory.execute(f"UPDATE {quoted} SET {target} = ?", [stored])
                except sqlite3.IntegrityError as error:
                    if not str(error).endswith(of_generated):  # it depends on other columns, too
                        errors[value] = str(error)
        except (sqlite3.Error, *UNWRITABLE):
            return {}
    return errors


_ROW_IDS = ("rowid", "_rowid_", "oid")
"""The names by which SQLite's tables have a key, unless a column has the name."""

_PART = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'[^']*'|("[^"]*"|`[^`]*`|\[[^\]]*\]|[\w$]+|[()])""", re.DOTALL
)
"""A comment, a string or, in the group, a name, a keyword or a parenthesis."""


def _names_in_checks(definition: str) -> Sequence[set[str]]:
    """Return the names, in lower case, in each CHECK of a table's definition."""
    found: list[set[str]] = []
    depth, outer = 0, None
    for part in filter(None, _PART.findall(definition)):
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


_OBSTACLES: Mapping[str, _FindObstacles] = {"postgresql": _on_postgres, "sqlite": _on_sqlite}
"""How each dialect finds what rejects some values of a column, and which values."""
