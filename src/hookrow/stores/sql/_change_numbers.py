"""Numbers the entries that changed rows, so that a consumer can read them after a cursor.

A transaction that changes rows gives its entries the number 0, because no number that it could
choose would be in the order of the commits: ids are assigned before the commit, and by each node of
a cluster by itself. An entry that was recorded later, or again, also keeps its id. So a reader
numbers the entries that it finds committed. All numbering transactions lock one row of
`hookrow_meta`, and each continues after the last number of the one before: a number is committed
after all lower ones, whatever transactions are open meanwhile. On a cluster, of two transactions
that number on different nodes, the certification lets only one commit, because both change the row.

Nothing is numbered until the first consumer reads. If changes without a number are deleted before
that, they take one number together, so that the consumer learns of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hookrow._core.log_entry import UNNUMBERED
from hookrow._core.schema import Schema
from hookrow.stores._log import IDS_PER_BATCH
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._scripts import META_TABLE

_LAST, _PRUNED = "changes_last", "changes_pruned"
"""Names in `hookrow_meta`: the last number, and the highest number of a deleted entry."""

_HAS_NUMBER = f"(change_number IS NULL OR change_number > {UNNUMBERED})"
"""The condition of the entries that have no change without a number."""


class NumberBounds(NamedTuple):
    """The last number that was given to a change, and the highest one whose entry was deleted."""

    last: int = 0
    pruned: int = 0


class ChangeNumbers:
    """The numbers of the changes in a schema's log, as SQL that runs on a connection."""

    def __init__(self, dialect: Dialect, schema: Schema) -> None:
        self._dialect = dialect
        self._log = dialect.table(schema.log or "")
        self._record = schema.side_table(META_TABLE)
        self._meta = dialect.table(self._record)

    def bounds(self, connection: Connection, lock: str = "") -> NumberBounds:
        """Return the bounds; `lock` is the clause that locks their rows."""
        sql = f"SELECT name, value FROM {self._meta} WHERE name IN (%s, %s) ORDER BY name {lock}"
        values = {name: int(value) for name, value in connection.fetch(sql, [_LAST, _PRUNED])}
        return NumberBounds(values.get(_LAST, 0), values.get(_PRUNED, 0))

    def assign(self, connection: Connection) -> int:
        """Assign numbers to committed changes that have none, in a transaction; return how many.

        Those of one call are in the order of their ids. Returns 0 if there is none; others may be
        left. An entry that another transaction is changing is left for the next call.
        """
        # A range in the order of the index, so that the planner reads neither the primary key nor,
        # if it expects many changes without a number, the whole table.
        pending = (
            f"SELECT id FROM {self._log} WHERE change_number < {UNNUMBERED + 1} "
            "ORDER BY change_number, id LIMIT"
        )
        if not connection.fetch(f"{pending} 1"):
            return 0
        last = self._lock(connection).last
        rows = connection.fetch(f"{pending} {IDS_PER_BATCH} {self._dialect.skip_locked}")
        if not rows:
            return 0
        ids = sorted(id_ for (id_,) in rows)
        # One statement numbers all of them, in the order of their ids. There may be gaps.
        offset = max(last + 1 - ids[0], 0)
        change = self._dialect.update_any(
            self._log, f"change_number = id + {offset}", "id", self._dialect.id_type
        )
        connection.execute(change, [self._dialect.encode(ids)])
        self._save(connection, _LAST, ids[-1] + offset)
        return len(ids)

    def note_deletion(self, connection: Connection, where: str, values: Sequence[Any]) -> str:
        """Record that a transaction deletes the entries that meet a condition.

        Returns the condition to use, which excludes a change that is made meanwhile. No entry is
        numbered until the end of the transaction. Nothing is recorded without the table of the
        bounds, which a host's log may lack: no consumer can read its changes.
        """
        if catalogue_of(connection, self._dialect).own_name(self._record) is None:
            return where
        last, pruned = self._lock(connection)
        sql = f"SELECT min(change_number), max(change_number) FROM {self._log} WHERE {where}"
        ((lowest, highest),) = connection.fetch(sql, values)
        if lowest == UNNUMBERED:
            # All of them together take the next number, so that every cursor is before it.
            self._save(connection, _LAST, last + 1)
            self._save(connection, _PRUNED, last + 1)
            return where
        if highest is not None and highest > pruned:
            self._save(connection, _PRUNED, highest)
        return f"{where} AND {_HAS_NUMBER}"

    def _lock(self, connection: Connection) -> NumberBounds:
        """Return the bounds, whose rows are locked until the end of the transaction."""
        for name in (_LAST, _PRUNED):
            connection.execute(self._insert({}), [name, "0"])
        return self.bounds(connection, self._dialect.for_update)

    def _save(self, connection: Connection, name: str, number: int) -> None:
        change = self._insert({"value": self._dialect.new("value")})
        connection.execute(change, [name, str(number)])

    def _insert(self, assignments: Mapping[str, str]) -> str:
        """Return the statement that adds a value; `assignments` change an existing one."""
        columns, rows = ["name", "value"], "VALUES (%s, %s)"
        return self._dialect.insert(self._meta, columns, rows, ["name"], assignments)
