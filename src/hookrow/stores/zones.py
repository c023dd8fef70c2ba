"""Finds columns that hold a time without saying of which zone, and says how to change them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Dialect

from hookrow.stores.relations import printing
from hookrow.stores.statements import Statements
from hookrow.stores.tables import UTCDateTime


def naive(dialect: Dialect, statements: Statements) -> Iterator[tuple[str, str]]:
    """Yield each such column, and the ALTER TABLE that reads what is in it as UTC.

    SQLite's columns say nothing of it.
    """
    if dialect.name != "postgresql":
        return
    quoted = printing(dialect).identifier_preparer
    for role in statements.roles.values():
        for column in role.values():
            if isinstance(column.type, UTCDateTime) and not column.type.timezone:
                table, name = quoted.format_table(column.table), quoted.format_column(column)
                alter = f"ALTER TABLE {table} ALTER {name} TYPE timestamptz"
                yield f"{table}.{name}", f"{alter} USING {name} AT TIME ZONE 'UTC'"
