"""The catalogue of MariaDB and MySQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hookrow.stores.sql._catalogues.base import Catalogue, Lock, Relation, Uniqueness, Writers
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.mariadb import WRITER_LOCKS
from hookrow.stores.sql._role_tables import RoleTables


class MariaDBCatalogue(Catalogue):
    """The tables of `information_schema`, which MariaDB and MySQL share, but for a few columns.

    A schema is a database of the server. The server decides whether the case of a table's name
    counts (`lower_case_table_names`).
    """

    def title(self, version: str) -> str:
        """Recognize MySQL, and others that are compatible with it, by the missing name."""
        return "MariaDB" if "MariaDB" in version else "MySQL"

    def tables(self) -> Collection[str]:
        """Return the names, with the database of those that are in another one."""
        rows = self._fetch(_MARIADB_TABLES)
        return [f"{database}.{name}" if database else name for database, name in rows]

    def own_name(self, table: str) -> str | None:
        """Return the name with its database, both in the server's own spelling."""
        rows = self._fetch(_MARIADB_NAME, self.named(table))
        return rows[0][0] if rows else None

    def relation(self, table: str) -> Relation:
        """Look for a view of that name. An index of a partitioned table is created like others."""
        sql = f"SELECT 1 FROM information_schema.views WHERE {_IS_TABLE}"
        is_view = self.connection.fetch(sql, self.named(table))
        return Relation.VIEW if is_view else Relation.TABLE

    def columns(self, table: str) -> Mapping[str, Column]:
        """Return the columns with their types, and the privileges that the user lacks."""
        rows = self._fetch(_MARIADB_COLUMNS, self.named(table) * 2)
        columns = {row[0]: _mariadb_column(row) for row in rows}
        for row in rows:
            name, folds_ascii = _folded(row[-2])
            if name in columns:
                folded = columns[row[0]]
                columns[name] = replace(columns[name], folded=folded, folds_ascii=folds_ascii)
        return columns

    def is_unique(self, table: str, *names: str) -> bool:
        """Return whether ON DUPLICATE KEY finds a row by the columns. That of a view is unknown."""
        indexes = self._unique_indexes(table).values()
        return self.relation(table) is Relation.VIEW or any(
            {*indexed} == {*names} for indexed in indexes
        )

    def primary_key(self, table: str) -> Sequence[str]:
        """Return the columns in the order of the key."""
        return self._unique_indexes(table).get("PRIMARY", ())

    def examine_key(
        self,
        tables: RoleTables,
        role: str,
        key: Sequence[str],  # noqa: ARG002 - by the table's names
        names: Sequence[str],
    ) -> tuple[Uniqueness, str | None]:
        """Look for a unique index: there are no partial ones.

        A collation that regards different texts as equal makes an index stricter than necessary.
        """
        table = tables.schema.roles[role].table
        if self.relation(table) is Relation.VIEW:
            return Uniqueness.UNDECLARABLE, None
        if any({*indexed} <= {*names} for indexed in self._unique_indexes(table).values()):
            return Uniqueness.DECLARED, None
        return Uniqueness.MISSING, None

    def are_disjoint(self, tables: Sequence[str]) -> bool:  # noqa: ARG002 - one statement per table
        """Return False: no statement changes several tables."""
        return False

    def is_updatable(self, table: str, names: Collection[str]) -> bool:  # noqa: ARG002 - of rows, not columns
        """Consider views with rows that are not those of a table."""
        sql = f"SELECT 1 FROM information_schema.views WHERE {_IS_TABLE} AND is_updatable = 'NO'"
        return not self.connection.fetch(sql, self.named(table))

    def try_lock(self, lock: Lock, record: str) -> bool:
        """Lock a row: a cluster does not replicate the locks of the function GET_LOCK."""
        name = f"lock_{lock.name.lower()}"
        self._create_locks(record, [name])
        return bool(self._lock_free(record, [name]))

    def open_writers(self, table: str, record: str) -> Writers:  # noqa: ARG002 - they lock a row of hookrow_meta
        """Return those of the `WRITER_LOCKS` that transactions hold.

        Until the end of this transaction, writers that need one of the others wait.
        """
        self._create_locks(record, WRITER_LOCKS)
        free = self._lock_free(record, WRITER_LOCKS)
        return Writers("-", [name for name in WRITER_LOCKS if name not in free])

    def last_id(self, table: str) -> int | None:
        """Return the last value of AUTO_INCREMENT, which MySQL may know from a day ago."""
        sql = f"SELECT auto_increment - 1 FROM information_schema.tables WHERE {_IS_TABLE}"
        ((last,),) = self.connection.fetch(sql, self.named(table))
        return None if last is None else int(last)

    def _create_locks(self, record: str, names: Sequence[str]) -> None:
        """Add the rows that are locked, if the host has created the table without them."""
        table, is_any = self.dialect.table(record), ", ".join(["%s"] * len(names))
        sql = f"SELECT name FROM {table} WHERE name IN ({is_any})"
        present = {name for (name,) in self.connection.fetch(sql, names)}
        insert = self.dialect.insert(table, ["name", "value"], "VALUES (%s, '')", ["name"], {})
        for name in names:
            if name not in present:
                self.connection.execute(insert, [name])

    def _lock_free(self, record: str, names: Sequence[str]) -> Collection[str]:
        """Lock the rows that no other transaction has locked; return their names."""
        table, is_any = self.dialect.table(record), ", ".join(["%s"] * len(names))
        sql = f"SELECT name FROM {table} WHERE name IN ({is_any}) {self.dialect.skip_locked}"
        return {name for (name,) in self.connection.fetch(sql, names)}

    def named(self, table: str) -> list[str]:
        """Return the bare name, and that of the database, which is empty for the session's."""
        database, _, bare = table.rpartition(".")
        return [bare, database]

    def _unique_indexes(self, table: str) -> Mapping[str, Sequence[str]]:
        """Return the columns of each unique index, in order, by the index's name.

        An index on the beginning of a text or on an expression is left out. One that is invisible
        or ignored counts, because only the planner ignores it.
        """
        found: dict[str, list[str]] = {}
        partial: set[str] = set()
        for index, column, length in self._fetch(_MARIADB_UNIQUE, self.named(table)):
            found.setdefault(index, []).append(column)
            if column is None or length is not None:
                partial.add(index)
        return {index: columns for index, columns in found.items() if index not in partial}

    def _fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        """Return rows of `information_schema`, some of whose texts MySQL returns as bytes."""
        rows = self.connection.fetch(sql, parameters)
        return [[_decoded(value) for value in row] for row in rows]


def _decoded(value: Any) -> Any:  # noqa: ANN401 - of any column
    return value.decode() if isinstance(value, bytes) else value


_SYSTEM = "'information_schema', 'mysql', 'performance_schema', 'sys'"

_MARIADB_TABLES = f"""
SELECT CASE WHEN table_schema <> coalesce(database(), '') THEN table_schema END, table_name
FROM information_schema.tables WHERE table_schema NOT IN ({_SYSTEM})
"""

_IS_TABLE = "table_name = %s AND table_schema = coalesce(nullif(%s, ''), database())"
"""The condition for the parameters that `named` returns.

Both values are constants, so that MariaDB opens no other table.
"""

_MARIADB_NAME = f"""
SELECT concat(table_schema, '.', table_name) FROM information_schema.tables WHERE {_IS_TABLE}
"""

_MARIADB_COLUMNS = f"""
SELECT column_name, data_type, column_type, is_nullable = 'YES', extra,
    column_default IS NOT NULL AND column_default <> 'NULL',
    character_maximum_length, character_octet_length, character_set_name, collation_name,
    datetime_precision, privileges, generation_expression,
    EXISTS (SELECT 1 FROM information_schema.views WHERE {_IS_TABLE})
FROM information_schema.columns WHERE {_IS_TABLE} ORDER BY ordinal_position
"""

_MARIADB_UNIQUE = f"""
SELECT index_name, column_name, sub_part FROM information_schema.statistics
WHERE {_IS_TABLE} AND non_unique = 0 ORDER BY index_name, seq_in_index
"""

_FOLDED = re.compile(r"(?:lower|lcase)\(`((?:[^`]|``)+)`\)")
"""An expression that folds a column, as MySQL and MariaDB spell it."""

_MARIADB_KINDS = {
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), "text"),
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), "number"),
    **dict.fromkeys(("decimal", "float", "double"), "number"),
    **dict.fromkeys(("datetime", "timestamp"), "datetime"),
    **dict.fromkeys(("binary", "varbinary"), "binary"),
}
"""The kind of a column, by its type; that of other types is their name."""

_LONGEST_VARCHAR = 16_383
"""Bytes of the longest text that is a VARCHAR as a value: those of one row have 65,535 together."""

_HEXADECIMAL = "CHARACTER SET ascii COLLATE ascii_bin"
"""The character set of digits; that of a host's tables may be one that takes more bytes."""

_TYPES_OF_VALUES = {
    "boolean": "tinyint",
    "datetime": "datetime(6)",
    "uuid": f"varchar(37) {_HEXADECIMAL}",
}
"""The types of values that differ from those of their columns, by the kind of column.

A text is converted to a UUID, by whose index it is found; JSON_TABLE has no such type.
"""

_BOOLEAN = "tinyint(1)"
"""The type to which BOOLEAN is an alias."""


def _folded(expression: str | None) -> tuple[str, bool]:
    """Return the column that a generated column holds in lower case, and whether only in ASCII.

    The name is empty if there is none.
    """
    found = _FOLDED.fullmatch(expression or "")
    return (found[1].replace("``", "`"), False) if found else ("", False)


def _mariadb_column(row: Sequence[Any]) -> Column:
    name, data_type, declared, nullable, extra, default, length, size, *rest = row
    charset, collation, fraction, privileges, _, is_view = rest
    kind = "boolean" if declared == _BOOLEAN else _MARIADB_KINDS.get(data_type, data_type)
    labels = _labels(declared) if data_type in {"enum", "set"} else ()
    declared = declared.replace("%", "%%")
    collated = f" CHARACTER SET {charset} COLLATE {collation}" if charset else ""
    return Column(
        name,
        _type_of_value(kind, declared, length, size) + collated,
        data_type.upper() if labels else declared.upper(),
        kind,
        nullable=bool(nullable),
        generated=" GENERATED" in extra,
        default=bool(default or is_view) or "auto_increment" in extra,
        holds_uuids=data_type == "uuid" or declared == "char(32)",
        ignores_case=collation is not None and not collation.endswith(("_bin", "_cs")),
        length=length if data_type in {"char", "varchar"} else None,
        labels=labels,
        denied=[each for each in ("SELECT", "UPDATE") if each.lower() not in privileges.split(",")],
        sized=declared + collated,
        declared=declared + collated,
        charset=charset or "",
        collation=collation or "",
        is_timestamp=data_type == "timestamp",
        fraction=fraction,
    )


def _type_of_value(kind: str, declared: str, length: int, size: int) -> str:
    """Return the type of a value to compare with a column, without the character set of a text.

    JSON_TABLE truncates a text without an error, so the type has room for one more character: a
    value that is too long must not become equal. `length` is in characters, `size` in bytes.
    """
    if kind == "text" and size > _LONGEST_VARCHAR:
        return "longtext"
    if kind in {"text", "enum", "set"}:
        return f"varchar({length + 1})"
    if kind == "binary":
        return f"varchar({2 * length + 1}) {_HEXADECIMAL}"
    return _TYPES_OF_VALUES.get(kind, declared)


def _labels(declared: str) -> Sequence[str]:
    """Return the values of an ENUM or a SET, given its declaration."""
    quoted = re.findall(r"'((?:[^']|'')*)'", declared)
    return [each.replace("''", "'").replace("\\\\", "\\") for each in quoted]
