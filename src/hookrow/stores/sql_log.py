"""The log in a database: what reads and tends it, beside the store that writes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    Engine,
    MetaData,
    Row,
    Select,
    String,
    Update,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    text,
    type_coerce,
    update,
)

from hookrow.entry import (
    Ending,
    Logged,
    fingerprints,
    kept_message_id,
    kept_recipient,
    retry_at,
)
from hookrow.stores import Conflict
from hookrow.stores.engines import reading
from hookrow.stores.faults import faults
from hookrow.stores.log import (
    LENGTHS,
    PRUNE_LOCK,
    TRIES,
    Cell,
    Ended,
    Grain,
    Probe,
    Query,
    batches,
    moment,
    reached,
)
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
        id_ = self._place(query)
        found = self._matching(query).order_by(id_.desc()).limit(limit)
        with self._reading() as connection:
            if query.begin is not None:
                found = found.where(id_ >= self._reached(connection, query.begin))
            if before is not None:
                found = found.where(id_ < before)
            elif query.end is not None:
                found = found.where(id_ < self._reached(connection, query.end))
            return _read(connection, found)

    def oldest(self, query: Query, *, after: int = 0, limit: int) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        id_ = self._place(query)
        found = self._matching(query).order_by(id_).limit(limit).where(id_ > after)
        with self._reading() as connection:
            if query.begin is not None and not after:
                found = found.where(id_ >= self._reached(connection, query.begin))
            if query.end is not None:
                found = found.where(id_ < self._reached(connection, query.end))
            return _read(connection, found)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first."""
        column = self._table.c
        found = self._matching(query).where(column.fingerprint.between(*fingerprints(at)))
        with self._reading() as connection:
            return _read(connection, found.order_by(column.id).limit(limit))

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
            found = _read(connection, due)
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
        with self._reading() as connection:
            return _read(connection, found)

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

    def ends(self, first: int, last: int) -> Mapping[Ending, Ended]:
        """Count the entries from one id to another by how they ended."""
        column = self._table.c
        counted = (
            select(column.outcome, func.count(), func.max(column.last_received_at))
            .where(column.id.between(first, last))
            .group_by(column.outcome)
        )
        with self._reading() as connection:
            return {Ending(name): Ended(*rest) for name, *rest in connection.execute(counted)}

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id; None of an empty log."""
        with self._reading() as connection:
            return self._bounds(connection)

    def reached(self, at: datetime) -> int:
        """Return an id that is at most that of whatever came at that time or later."""
        with self._reading() as connection:
            return self._reached(connection, at)

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another, in one statement."""
        column = self._table.c
        start = _start(column.received_at, grain, on_sqlite=self._engine.dialect.name == "sqlite")
        cell = (start.label("start"), column.record_type, column.outcome)
        counted = select(*cell, func.count()).where(column.id.between(first, last))
        with self._reading() as connection:
            rows = connection.execute(counted.group_by(*cell)).all()
        return {
            Cell(moment(at), record_type, Ending(outcome)): count
            for at, record_type, outcome, count in rows
        }

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """Return the message id of each recorded delivery in a range, and when it happened."""
        column = self._table.c
        found = select(column.message_id, column.occurred_at).where(
            column.id.between(first, last),
            column.record_type == "Delivery",
            column.outcome == Ending.RECORDED.value,
            column.message_id.is_not(None),
            column.occurred_at.is_not(None),
        )
        with self._reading() as connection:
            return [(id_, at) for id_, at in connection.execute(found.order_by(column.id))]

    def count_parked(self) -> int:
        """Return how many entries are tried again."""
        parked = select(func.count()).where(self._table.c.retry_at.is_not(None))
        with self._reading() as connection:
            return connection.execute(parked).scalar_one()

    def _bounds(self, connection: Connection) -> tuple[int, int] | None:
        """Ask for each by itself: for both in one SQLite would read the whole table."""
        id_ = self._table.c.id
        ends = (select(end(id_)).scalar_subquery() for end in (func.min, func.max))
        first, last = connection.execute(select(*ends)).one()
        return None if first is None else (first, last)

    def _reached(self, connection: Connection, at: datetime) -> int:
        bounds = self._bounds(connection)
        return reached(at, bounds, partial(self._probe, connection)) if bounds else 1

    def _probe(self, connection: Connection, id_: int) -> Probe | None:
        column = self._table.c
        found = select(column.id, column.received_at, column.ended_at).where(column.id >= id_)
        row = connection.execute(found.order_by(column.id).limit(1)).one_or_none()
        return row and Probe(*row)

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

    def _place(self, query: Query) -> ColumnElement[int]:
        """Return the id; of what is parked in a way that leads no planner from that one's index."""
        return self._table.c.id + 0 if query.parked else self._table.c.id

    def _matching(self, query: Query) -> Select[Any]:
        column = self._table.c
        statement = select(self._table)
        for name, value in query.equal.items():
            stored = value.value if isinstance(value, Ending) else value
            statement = statement.where(column[name] == stored)
        if query.ids is not None:
            statement = statement.where(_among(column.id, query.ids))
        if query.since is not None:
            statement = statement.where(column.received_at >= query.since)
        if query.until is not None:
            statement = statement.where(column.received_at < query.until)
        if query.parked:
            statement = statement.where(column.retry_at.is_not(None))
        return statement

    def _batches(self) -> Iterator[ColumnElement[bool]]:
        """Yield a condition for each range of ids, oldest first."""
        for ids in batches(*self.bounds() or (None, None)):
            yield self._table.c.id.between(*ids)


def _among(id_: Column[int], ids: Collection[int]) -> ColumnElement[bool]:
    if isinstance(ids, range) and ids.step == 1:
        return id_.between(ids.start, ids.stop - 1)
    return id_.in_(list(ids))


def _read(connection: Connection, statement: Select[Any]) -> Sequence[Logged]:
    return [_logged(row) for row in connection.execute(statement)]


def _start(at: Column[Any], grain: Grain, *, on_sqlite: bool) -> ColumnElement[Any]:
    """Cut a time, to which SQLite's text has its own way."""
    if on_sqlite:
        return func.substr(type_coerce(at, String), 1, LENGTHS[grain])
    # As a literal, so that what is grouped by is what is selected; in UTC, for a zone may be
    # half an hour off.
    return func.date_trunc(literal_column(f"'{grain}'"), func.timezone(literal_column("'UTC'"), at))


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
