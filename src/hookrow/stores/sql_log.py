"""The log in a database: read as `sql_entries` has it, and tended, beside the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial

from sqlalchemy import (
    Connection,
    Delete,
    Update,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    text,
    update,
)

from hookrow.entry import Logged, kept_recipient, quoted, retry_at
from hookrow.stores.log import within_size
from hookrow.stores.sql_entries import SQLEntries, body_size, logged
from hookrow.stores.tables import folded
from hookrow.stores.tending import PRUNE_LOCK, batches, pruned


class SQLLog(SQLEntries):
    """The log's table. `begun` begins a transaction with time limits, and commits it."""

    def __init__(
        self,
        name: str,
        reading: Callable[[], AbstractContextManager[Connection]],
        begun: Callable[[], AbstractContextManager[Connection]],
    ) -> None:
        super().__init__(name, reading)
        self._begun = begun

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, and put off when to try again."""
        table = self._table
        due = (
            select(table.c.id)
            .where(table.c.retry_at <= now)
            .order_by(table.c.retry_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        put_off = (
            update(table)
            .where(table.c.id == bindparam("its_id"))
            .values(retry_at=bindparam("its_retry_at"))
        )
        with self._begun() as connection:
            sizes = due.add_columns(body_size(table.c.body, connection))
            ids = within_size(map(tuple, connection.execute(sizes)))
            if not ids:
                return []
            entries = select(table).where(table.c.id.in_(ids)).order_by(table.c.retry_at)
            found = list(map(logged, connection.execute(entries)))
            # What is too old for another try has this one.
            later = [(each.id, retry_at(each.received_at, now)) for each in found]
            rows = [{"its_id": id_, "its_retry_at": at} for id_, at in later]
            connection.execute(put_off, rows)
        return found

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete what came last before then, or only the bodies, batch by batch."""
        table = self._table
        over = and_(
            table.c.last_received_at < before,
            or_(table.c.retry_at.is_(None), table.c.received_at < parked_before),
        )
        change = (
            update(table).where(over, table.c.body.is_not(None)).values(body=None, retry_at=None)
            if bodies_only
            else delete(table).where(over)
        )
        return pruned(self.bounds(), partial(self._pruned, change), before)

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries."""
        column, address = self._table.c, kept_recipient(email)
        # A body that could not be read has told nobody whose it is.
        said = (folded(column.body).contains(each, autoescape=True) for each in quoted(address))
        theirs = or_(column.recipient == address, and_(column.recipient.is_(None), or_(*said)))
        erase = update(self._table).where(theirs).values(recipient=None, body=None, retry_at=None)
        return sum(batches(self.bounds(), partial(self._changed, erase)))

    def _pruned(
        self, change: Update | Delete, low: int, high: int
    ) -> tuple[int, datetime | None] | None:
        """Prune a batch; return how many, and when the oldest left came. None: another prunes."""
        column = self._table.c
        oldest = select(func.min(column.received_at)).where(column.id.between(low, high))
        with self._begun() as connection:
            if _pruned_elsewhere(connection):
                return None
            count = connection.execute(change.where(column.id.between(low, high))).rowcount
            return count, connection.execute(oldest).scalar()

    def _changed(self, change: Update, low: int, high: int) -> int:
        with self._begun() as connection:
            return connection.execute(change.where(self._table.c.id.between(low, high))).rowcount


def _pruned_elsewhere(connection: Connection) -> bool:
    """Tell whether another process prunes just now; on SQLite the file is held by one."""
    if connection.dialect.name == "sqlite":
        return False
    return not connection.execute(
        text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": PRUNE_LOCK}
    ).scalar()
