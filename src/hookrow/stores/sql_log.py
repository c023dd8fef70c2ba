"""The log in a database: what reads and tends it, beside the store that writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Engine,
    MetaData,
    Row,
    Select,
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

from hookrow.entry import Ending, Logged, kept_message_id, kept_recipient, retry_at
from hookrow.stores import Conflict
from hookrow.stores.engines import reading
from hookrow.stores.faults import faults
from hookrow.stores.log import PRUNE_LOCK, TRIES, Query, batches
from hookrow.stores.tables import folded, log_table

T = TypeVar("T")


class SQLLog:
    """The log's table. `begun` begins a transaction with time limits, and commits it."""

    def __init__(
        self, engine: Engine, name: str, begun: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        self._engine = engine
        self._table = log_table(name, MetaData())
        self._begun = begun

    def newest(self, query: Query, *, before: int | None = None, limit: int) -> Sequence[Logged]:
        """Return the newest entries, newest first."""
        found = self._matching(query).order_by(self._table.c.id.desc()).limit(limit)
        return self._read(found if before is None else found.where(self._table.c.id < before))

    def oldest(self, query: Query, *, after: int = 0, limit: int) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        found = self._matching(query).order_by(self._table.c.id).limit(limit)
        return self._read(found.where(self._table.c.id > after))

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, and put off when to try again."""
        table = self._table
        due = (
            select(table)
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
            found = [_logged(row) for row in connection.execute(due)]
            if found:
                # What is too old for another try has this one.
                later = [(each.id, retry_at(each.received_at, now)) for each in found]
                rows = [{"its_id": id_, "its_retry_at": at} for id_, at in later]
                connection.execute(put_off, rows)
        return found

    def parked(self, message_ids: Collection[str]) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first."""
        table = self._table
        of_them = table.c.message_id.in_([kept_message_id(each) for each in message_ids])
        parked = table.c.retry_at.is_not(None)
        found = select(table).where(of_them, parked).order_by(table.c.id)
        with self._begun() as connection:
            return [_logged(row) for row in connection.execute(found)]

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
        oldest = select(func.min(table.c.received_at))
        for batch in self._batches():
            done = self._insist(
                partial(_pruned, change=change.where(batch), oldest=oldest.where(batch))
            )
            if done is None:
                return
            count, first = done
            yield count
            # Entries lie in the order in which they came.
            if first is not None and first >= before:
                return

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries."""
        column, address = self._table.c, kept_recipient(email)
        # A body that could not be read has told nobody whose it is.
        quoted = folded(column.body).contains(f'"{address}"', autoescape=True)
        theirs = or_(column.recipient == address, and_(column.recipient.is_(None), quoted))
        erase = update(self._table).where(theirs).values(recipient=None, body=None, retry_at=None)
        return sum(
            self._insist(partial(_changed, change=erase.where(batch))) for batch in self._batches()
        )

    def counts(self) -> Mapping[Ending, int]:
        """Return how many entries ended in each way."""
        outcome = self._table.c.outcome
        with self._reading() as connection:
            rows = connection.execute(select(outcome, func.count()).group_by(outcome)).all()
        return Counter({Ending(name): count for name, count in rows})

    def _insist(self, work: Callable[[Connection], T]) -> T:
        """Do a batch, up to `TRIES` times."""
        for _ in range(TRIES - 1):
            with suppress(Conflict), self._begun() as connection:
                return work(connection)
        with self._begun() as connection:
            return work(connection)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Connect without time limits, and on SQLite without keeping anyone from writing."""
        with faults(), reading(self._engine) as connection:
            yield connection

    def _read(self, statement: Select[Any]) -> Sequence[Logged]:
        with self._reading() as connection:
            return [_logged(row) for row in connection.execute(statement)]

    def _matching(self, query: Query) -> Select[Any]:
        column = self._table.c
        statement = select(self._table)
        for name, value in query.equal.items():
            stored = value.value if isinstance(value, Ending) else value
            statement = statement.where(column[name] == stored)
        if query.ids is not None:
            statement = statement.where(column.id.in_(list(query.ids)))
        if query.since is not None:
            statement = statement.where(column.received_at >= query.since)
        if query.parked:
            statement = statement.where(column.retry_at.is_not(None))
        return statement

    def _batches(self) -> Iterator[ColumnElement[bool]]:
        """Yield a condition for each range of ids, oldest first."""
        id_ = self._table.c.id
        with self._begun() as connection:
            first, last = connection.execute(select(func.min(id_), func.max(id_))).one()
        for ids in batches(first, last):
            yield id_.between(*ids)


def _logged(row: Row[Any]) -> Logged:
    values = {**row._mapping}  # noqa: SLF001 - SQLAlchemy's public name
    for name in ("outcome", "first_outcome"):
        values[name] = Ending(values[name])
    return Logged(**values)


def _changed(connection: Connection, *, change: Update) -> int:
    return connection.execute(change).rowcount


def _pruned(
    connection: Connection, *, change: Update | Delete, oldest: Select[Any]
) -> tuple[int, datetime | None] | None:
    """Prune a batch; return how many, and when the oldest left came. None: another prunes."""
    if _pruned_elsewhere(connection):
        return None
    return connection.execute(change).rowcount, connection.execute(oldest).scalar()


def _pruned_elsewhere(connection: Connection) -> bool:
    """Tell whether another process prunes just now; on SQLite the file is held by one."""
    if connection.dialect.name == "sqlite":
        return False
    return not connection.execute(
        text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": PRUNE_LOCK}
    ).scalar()
