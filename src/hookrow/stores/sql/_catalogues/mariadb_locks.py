"""The locks of hookrow's maintenance on MariaDB and MySQL: those of rows of hookrow_meta.

A cluster does not replicate the locks of the function GET_LOCK.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect


class LockRows:
    """The rows of a table hookrow_meta whose locks a transaction may hold; each has a name."""

    def __init__(self, connection: Connection, dialect: Dialect, record: str) -> None:
        self._connection, self._dialect = connection, dialect
        self._table = dialect.table(record)

    def add(self, names: Sequence[str]) -> bool:
        """Add the rows that are missing; return whether there were any."""
        present = {name for (name,) in self._connection.fetch(self._select(len(names)), names)}
        missing = [name for name in names if name not in present]
        insert = self._dialect.insert(
            self._table, ["name", "value"], "VALUES (%s, '')", ["name"], {}
        )
        for name in missing:
            self._connection.execute(insert, [name])
        return bool(missing)

    def lock_free(self, names: Sequence[str]) -> Collection[str]:
        """Lock the rows that no other transaction has locked; return their names."""
        sql = f"{self._select(len(names))} {self._dialect.skip_locked}"
        return {name for (name,) in self._connection.fetch(sql, names)}

    def _select(self, size: int) -> str:
        return f"SELECT name FROM {self._table} WHERE name IN ({', '.join(['%s'] * size)})"
