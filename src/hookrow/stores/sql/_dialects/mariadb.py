"""The SQL of MariaDB and MySQL. Parameters are JSON arrays, which JSON_TABLE converts to rows.

A value from JSON_TABLE has the type, the character set and the collation of the column with which
it is compared: otherwise, the column's index would not be used, or the server would refuse to
compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from hookrow._core.schema import Fold, Scalar
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.base import json_text
from hookrow.stores.sql._dialects.times_as_text import TimesAsText

WRITER_LOCKS = ("lock_writers_0", "lock_writers_1")
"""The rows of hookrow_meta for writers: a transaction that adds entries to the log takes a shared
lock on one of them.

It is the other one every `WRITERS_ALTERNATE` seconds, so that each of them is free from time to
time, however many transactions there are.
"""

WRITERS_ALTERNATE = 40
"""Seconds after which writers use the other row.

Entries are counted every 30 seconds, so two of three successive counts find different rows free."""


CHECK = "SET @hookrow_check = IF({}, 1, (SELECT 1 UNION ALL SELECT 2))"
"""Ends a packet with an error unless a condition holds: the second branch returns two rows."""

SMALLEST_PACKET = 4 * 1024 * 1024
"""Bytes of the smallest `max_allowed_packet` with which a notification of any size can be recorded.
"""


class MariaDB(TimesAsText):
    """MariaDB, and MySQL, which understands the same SQL."""

    name = "mariadb"
    oldest: ClassVar[Mapping[str, tuple[int, ...]]] = {"MariaDB": (10, 6), "MySQL": (8, 0, 19)}
    version = "SELECT version()"
    unused_id = "-1 - floor(rand() * 2147483648)"
    id_type = "bigint"
    text_type = "varchar(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    compares_exactly = False  # most collations ignore case, or blanks at the end
    # Generated columns, which are null in all other entries: there are no partial indexes.
    parked_message_id = "parked_message_id"
    changed_recipient = "changed_recipient"
    is_expired = "is_expired"
    join_in_order = "STRAIGHT_JOIN"
    binary = "utf8mb4_bin"
    greatest = "greatest"
    size = "octet_length"
    for_update = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    plan_for_values = None
    stay_idle = "SET wait_timeout = 31536000 /*M! , idle_transaction_timeout = 0 */"
    wait_briefly = "SET lock_wait_timeout = 1"
    read_only = "read_only"
    stop_at_errors = ""
    is_server = True
    # Sorts the rows. Otherwise, the server would search each group in a temporary table on disk.
    select_many_groups = "SELECT SQL_BIG_RESULT"
    create_index = "CREATE INDEX"
    explain = "EXPLAIN"
    clock = "utc_timestamp(6)"
    new_id = "last_insert_id()"
    begin = "BEGIN"
    transactional_ddl = False
    locks_rows = True
    converters: ClassVar[Mapping[type[object], Callable[[Any], str] | None]] = {
        **TimesAsText.converters,
        bytes: bytes.hex,  # JSON has no bytes; see `given`
    }

    def quote(self, name: str) -> str:
        """Quote with backticks, whatever the session's mode is."""
        return "`" + name.replace("`", "``").replace("%", "%%") + "`"

    def literal(self, value: Scalar) -> str:
        """Double the backslashes, which escape the next character."""
        if isinstance(value, str):
            return super().literal(value.replace("\\", "\\\\"))
        return super().literal(value)

    def cast(self, expression: str, type_: str) -> str:  # noqa: ARG002 - the server converts values
        return expression

    def instant(self, type_: str) -> str:  # noqa: ARG002 - the server converts texts
        return "%s"

    def differs(self, expression: str, other: str) -> str:
        return f"NOT ({expression} <=> {other})"

    def as_text(self, expression: str) -> str:
        return f"CAST({expression} AS CHAR)"

    def text_before(self, text: str, separator: str) -> str:
        return f"substring_index({text}, '{separator}', 1)"

    def as_integer(self, expression: str) -> str:
        return f"CAST({expression} AS SIGNED)"

    def concat(self, *texts: str) -> str:
        return f"concat({', '.join(texts)})"  # || is OR, unless the session's mode is another one

    def characters(self, text: str) -> str:
        return f"char_length({text})"  # length() would return the bytes

    def grouped(self, text: str, characters: int) -> str:
        return f"left({text}, {characters})"  # groups by texts of any length are kept on disk

    def quotient(self, dividend: str, divisor: int) -> str:
        return f"{dividend} DIV {divisor}"  # the operator / returns a fraction

    def compare(
        self, columns: Sequence[str], operator: str, marks: Sequence[str], values: Sequence[Any]
    ) -> tuple[str, Sequence[Any]]:
        if len(columns) == 1:
            return super().compare(columns, operator, marks, values)
        # No index serves a comparison of rows.
        (first, second), (mark, other_mark), (value, other) = columns, marks, values
        strict = operator[0]
        condition = (
            f"({first} {strict} {mark} OR {first} = {mark} AND {second} {operator} {other_mark})"
        )
        return condition, [value, value, other]

    def without_index(self, column: str) -> str:
        # With an index of the column, the server would read a whole table in its order, to sort or
        # group the rows, although another index finds the few rows that are selected, or a scan
        # takes a quarter of the time.
        return f"coalesce({column})"

    def by_index(self, name: str) -> str:
        # Otherwise, the server would read all rows that have the value of its first column, and not
        # start at the position in the next columns: it estimates that both take the same time.
        return f" FORCE INDEX ({self.quote(name)})"

    def old(self, table: str, column: str) -> str:
        return f"{table}.{column}"

    def new(self, column: str) -> str:
        return f"VALUES({column})"  # only MySQL has an alias for the new row

    def insert(
        self,
        table: str,
        columns: Sequence[str],
        rows: str,
        key: Sequence[str],
        assignments: Mapping[str, str],
    ) -> str:
        """Return the statement, which changes a row that has any unique key of the new one."""
        # INSERT IGNORE would ignore errors, too.
        unchanged = {key[0]: self.old(table, key[0])}
        sets = ",\n".join(f"{name} = {value}" for name, value in (assignments or unchanged).items())
        return (
            f"INSERT INTO {table} ({', '.join(columns)})\n{rows}\nON DUPLICATE KEY UPDATE\n{sets}"
        )

    def fold(self, kind: Fold, email: str) -> str:
        """Return the expression, which folds letters that are not ASCII, too; see `searched`."""
        return f"lower({email})" if kind in {"ascii", "lower"} else email

    def as_recipient(self, email: str) -> str:
        # Letters that are not ASCII are folded, too, unlike in the log: such an address with
        # capital letters is not found.
        return _lowered_in_unicode(email)

    def is_not_ascii(self, text: str) -> str:
        # In UTF-8, only ASCII characters have one byte.
        return f"octet_length({text}) <> char_length({text})"

    def email_is_any(self, kind: Fold, alias: str, column: Column) -> str:
        """Compare with the generated column of folded emails instead, if there is one."""
        searched, fold = self.searched(kind, alias, column)
        values = self._values(_found_by(kind, column).type)
        return f"{searched} IN (SELECT {fold('value')} FROM {values})"

    def email_order(self, kind: Fold, alias: str, column: Column) -> tuple[str, str]:
        searched, fold = self.searched(kind, alias, column)
        return searched, fold("%s")

    def is_email(self, kind: Fold, alias: str, column: Column, address: str) -> str:
        # Columns with different collations cannot be compared.
        searched, fold = self.searched(kind, alias, column)
        return f"{searched} = {fold(_collated(address, _found_by(kind, column)))}"

    def searched(self, kind: Fold, alias: str, column: Column) -> tuple[str, Callable[[str], str]]:
        """Return the expression by whose index an email is found, and the fold of its values.

        The values are folded already as far as ASCII goes. A collation that ignores case folds
        both sides.
        """
        found_by = _found_by(kind, column)
        expression = f"{alias}.{self.quote(found_by.name)}"
        if found_by is column.folded:
            return expression, _unchanged if column.folds_ascii else partial(_lowered_for, found_by)
        if kind in {"ascii", "lower"} and not column.ignores_case:
            lowered = _lowered if column.lowers_ascii else _lowered_in_unicode
            return lowered(expression), lowered
        return expression, _unchanged

    def is_message_id(self, alias: str, column: Column, message_id: str) -> str:
        """Compare a column of UUIDs with both forms of a GUID, with hyphens and without."""
        name, given = f"{alias}.{self.quote(column.name)}", _collated(message_id, column)
        if not column.holds_uuids:
            return f"{name} = {given}"
        digits = _collated(f"replace(lower({message_id}), '-', '')", column)
        return f"{name} IN ({given}, {digits})"

    def first_uuids(self, column: Column, digits: str) -> Sequence[str]:
        # The type UUID stores the digits in the order of the time in it.
        return [] if column.kind == "uuid" else super().first_uuids(column, digits)

    def as_key(self, reference: str, column: Column, key: Column) -> str:
        # Columns with different collations cannot be compared.
        if column.collation and key.collation and column.collation != key.collation:
            return _collated(reference, key)
        return reference

    def any_of(self, expression: str, type_: str) -> str:
        return f"{expression} IN (SELECT value FROM {self._values(type_)})"

    def tenant(self, expression: str, column: Column) -> str:
        if column.kind == "binary":
            return f"lower(hex({expression}))"
        return self.as_text(expression)

    def tenant_is_any(self, expression: str, column: Column) -> str:
        if column.kind == "binary":  # JSON has no bytes
            return f"{expression} IN (SELECT unhex(value) FROM {self._values(column.type)})"
        return super().tenant_is_any(expression, column)

    def tenant_parameter(self, column: Column) -> str:
        return "unhex(%s)" if column.kind == "binary" else "%s"

    def is_same_text(self, expression: str) -> str:
        # As bytes: to most collations, blanks at the end of a text make no difference.
        return f"CAST({expression} AS binary) = CAST(%s AS binary)"

    def _values(self, type_: str) -> str:
        return f"JSON_TABLE(%s, '$[*]' COLUMNS (value {type_} PATH '$')) AS given"

    def preselected(self, expression: str, select: str) -> str:  # noqa: ARG002 - for others
        return ""  # the server would sort all rows twice

    def selected_by(self, expression: str, select: str) -> str:
        # A subquery may have no LIMIT, and may not read the table that is changed.
        return f"{expression} IN (SELECT * FROM ({select}) AS selected)"

    def update_any(
        self, table: str, assignments: str, column: str, type_: str, condition: str = ""
    ) -> str:
        # For a subquery, MariaDB before 11.1 reads and locks the whole table, and all versions do
        # so for a join with a table of a few rows, unless they are told the index.
        also = f" AND {condition}" if condition else ""
        return (
            f"UPDATE {self._values(type_)} STRAIGHT_JOIN {table}{self.by_index('PRIMARY')} "
            f"SET {assignments} "
            f"WHERE {table}.{column} = given.value{also}"
        )

    def update_selected(self, table: str, assignments: str, column: str, select: str) -> str:
        # For a subquery, MariaDB before 11.1 reads and locks the whole table.
        return (
            f"UPDATE ({select}) AS selected STRAIGHT_JOIN {table} SET {assignments} "
            f"WHERE {table}.{column} = selected.{column}"
        )

    def epoch(self, time: str) -> str:
        # Unlike unix_timestamp(), it does not depend on the session's zone.
        return f"TIMESTAMPDIFF(SECOND, '1970-01-01', {time})"

    def hour(self, time: str) -> str:
        return f"date_format({time}, '%%Y-%%m-%%d %%H:00:00')"

    def hour_as_time(self, hour: str) -> str:
        return hour  # the server converts the text

    def select(self, expression: str, column: Column) -> str:
        # A UNION needs one collation for all its texts: the cast returns the connection's.
        return self.as_text(expression) if column.kind in {"text", "uuid"} else expression

    def given(self, name: str, column: Column, *, folds: bool = True) -> str:
        value = super().given(name, column)
        if column.kind == "binary":
            return f"unhex({value})"
        if (
            folds and column.kind == "text" and column.holds_uuids
        ):  # a key that refers to it has dashes
            return f"if(char_length({value}) = 36, replace({value}, '-', ''), {value})"
        return value

    def text(self, expression: str, column: Column) -> str:  # noqa: ARG002 - of any column
        return self.as_text(expression)

    def encode(self, values: Iterable[Any]) -> str:
        """Return a JSON array."""
        (encoded,) = self.encode_values([[*values]])
        return json_text(encoded).decode()

    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return one JSON array of arrays, sorted by their beginning, which is the key.

        Rows are locked in their order: so that all processes lock them in the same one.
        """
        return [json_text(sorted(self.encode_values(rows), key=_key)).decode()]


def _found_by(kind: Fold, column: Column) -> Column:
    """Return the column by which an email is found: the generated one, if there is one."""
    return column.folded if column.folded and kind in {"ascii", "lower"} else column


def _collated(text: str, column: Column) -> str:
    """Return a text in the character set and the collation of a column, if that has any."""
    if not column.collation:
        return text
    return f"CONVERT({text} USING {column.charset}) COLLATE {column.collation}"


def _unchanged(value: str) -> str:
    return value


def _lowered(text: str) -> str:
    return f"lower({text})"


def _lowered_in_unicode(text: str) -> str:
    """Return a text in lower case, whatever the rules of its character set and language are."""
    return f"lower(CONVERT({text} USING utf8mb4) COLLATE utf8mb4_bin)"


def _lowered_for(column: Column, text: str) -> str:
    """Return a text in lower case that the index of a generated column finds."""
    if column.lowers_ascii:
        return _lowered(text)
    return _collated(_lowered_in_unicode(text), column)


def _key(row: list[Any]) -> list[Any]:
    return row[:2]  # no key has more columns


MARIADB = MariaDB()
