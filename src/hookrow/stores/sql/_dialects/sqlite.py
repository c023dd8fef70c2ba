"""The SQL of SQLite, and JSON arrays as its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from hookrow._core.schema import Fold
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._dialects.base import json_text
from hookrow.stores.sql._dialects.times_as_text import TimesAsText


class SQLite(TimesAsText):
    """SQLite, with JSON arrays as parameters. Columns have no fixed types there.

    Times are text, in UTC with six digits, so that equal times are equal texts.
    """

    name = "sqlite"
    oldest: ClassVar[Mapping[str, tuple[int, ...]]] = {"SQLite": (3, 35)}
    version = "SELECT sqlite_version()"
    unused_id = "-1 - (random() & 2147483647)"
    id_type = text_type = ""
    join_in_order = "CROSS JOIN"
    binary = "BINARY"
    greatest = "max"
    size = "length"  # in characters: SQLite before 3.43 has no function for bytes
    for_update = skip_locked = ""
    plan_for_values = None
    stay_idle = wait_briefly = ""
    read_only = ""
    stop_at_errors = ".bail on"
    is_server = False
    create_index = "CREATE INDEX"
    explain = "EXPLAIN QUERY PLAN"
    clock = None
    new_id = "last_insert_rowid()"
    begin = "BEGIN IMMEDIATE"
    transactional_ddl = True
    locks_rows = False

    def cast(self, expression: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        return expression

    def instant(self, type_: str) -> str:  # noqa: ARG002 - columns have no types
        return "%s"

    def differs(self, expression: str, other: str) -> str:
        return f"{expression} IS NOT {other}"

    def as_text(self, expression: str) -> str:
        return f"CAST({expression} AS text)"

    def as_integer(self, expression: str) -> str:
        return f"CAST({expression} AS bigint)"

    def text_before(self, text: str, separator: str) -> str:
        return f"substr({text}, 1, instr({text}, '{separator}') - 1)"

    def fold(self, kind: Fold, email: str) -> str:
        """Return the expression, which folds only ASCII letters."""
        match kind:
            case "ascii" | "lower":
                return f"lower({email})"
            case "citext":
                return f"{email} COLLATE NOCASE"
            case _:
                return email

    def is_not_ascii(self, text: str) -> str:
        # GLOB is the only pattern with ranges that SQLite has built in.
        return f"{text} GLOB '*[^' || char(1) || '-' || char(127) || ']*'"

    def is_email(self, kind: Fold, alias: str, column: Column, address: str) -> str:
        # With the affinity of the address, which `+` drops, the index of lower() would not be used
        # (SQLite's documentation, "Datatypes In SQLite", section 4.2).
        return f"{self.fold(kind, f'{alias}.{self.quote(column.name)}')} = +{address}"

    def is_message_id(self, alias: str, column: Column, message_id: str) -> str:
        """Compare a column of UUIDs with both forms of a GUID, with hyphens and without."""
        name = f"{alias}.{self.quote(column.name)}"
        if not column.holds_uuids:
            return f"{name} = +{message_id}"
        return f"{name} IN (+{message_id}, replace(lower({message_id}), '-', ''))"

    def as_key(self, reference: str, column: Column, key: Column) -> str:  # noqa: ARG002 - columns have no types
        return reference

    def any_of(self, expression: str, type_: str) -> str:  # noqa: ARG002 - columns have no types
        return f"{expression} IN (SELECT value FROM json_each(%s))"

    def is_same_text(self, expression: str) -> str:
        return f"{expression} COLLATE BINARY = %s"

    def selected_by(self, expression: str, select: str) -> str:
        return f"{expression} IN ({select})"

    def epoch(self, time: str) -> str:
        # Without the fraction, which strftime would round to milliseconds.
        return f"CAST(strftime('%%s', substr({time}, 1, 19)) AS integer)"

    def hour(self, time: str) -> str:
        return f"substr({time}, 1, 13)"

    def hour_as_time(self, hour: str) -> str:
        return f"{hour} || ':00:00.000000'"

    def select(self, expression: str, column: Column) -> str:  # noqa: ARG002 - columns have no types
        return expression

    def text(self, expression: str, column: Column) -> str:  # noqa: ARG002 - columns have no types
        # The column's declared type may have made the value a number.
        return f"CAST({expression} AS TEXT)"

    def encode(self, values: Iterable[Any]) -> str:
        """Return a JSON array."""
        return json_text(list(values)).decode()

    def encode_rows(self, rows: Iterable[Sequence[Any]]) -> Sequence[Any]:
        """Return the values of each row."""
        return self.encode_values(rows)


SQLITE = SQLite()
