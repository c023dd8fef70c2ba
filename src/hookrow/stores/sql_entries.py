"""The entries of a log in a database, found and counted: without time limits or locks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Row,
    Select,
    String,
    func,
    literal_column,
    null,
    select,
    type_coerce,
)

from hookrow.entry import Ending, Logged, fingerprints, kept_message_id
from hookrow.stores.log import (
    LENGTHS,
    Cell,
    Ended,
    Grain,
    Probe,
    Query,
    moment,
    reached,
    span,
    within_size,
)
from hookrow.stores.tables import log_table


class SQLEntries:
    """The reading half of a `LogReader`. `reading` connects without locks or time limits."""

    def __init__(
        self, name: str, reading: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        self._table = log_table(name, MetaData())
        self._reading = reading

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the newest entries, newest first."""
        place = self._place(query)
        within = place.between(*span(query, self.reached, before=before))
        found = self._matching(query).where(within).order_by(place.desc()).limit(limit)
        return self._read(found) if bodies else self._list(found)

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        place = self._place(query)
        within = place.between(*span(query, self.reached, after=after))
        found = self._matching(query).where(within).order_by(place).limit(limit)
        return self._read(found) if bodies else self._list(found)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first."""
        column = self._table.c
        found = self._matching(query).where(column.fingerprint.between(*fingerprints(at)))
        return self._list(found.order_by(column.id).limit(limit))

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first."""
        column = self._table.c
        of_them = column.message_id.in_([kept_message_id(each) for each in message_ids])
        left = (column.retry_at.is_not(None), column.id > after)
        return self._read(select(self._table).where(of_them, *left).order_by(column.id))

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
            bounds = self._bounds(connection)
            return reached(at, bounds, partial(self._probe, connection)) if bounds else 1

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another, in one statement."""
        column = self._table.c
        with self._reading() as connection:
            start = _start(column.received_at, grain, connection.dialect.name)
            cell = (start.label("start"), column.record_type, column.outcome)
            counted = select(*cell, func.count()).where(column.id.between(first, last))
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

    def _probe(self, connection: Connection, id_: int) -> Probe | None:
        column = self._table.c
        found = select(column.id, column.received_at, column.ended_at).where(column.id >= id_)
        row = connection.execute(found.order_by(column.id).limit(1)).one_or_none()
        return row and Probe(*row)

    def _read(self, found: Select[Any]) -> Sequence[Logged]:
        """Return the leading entries whose bodies make one group."""
        column = self._table.c
        with self._reading() as connection:
            sizes = found.with_only_columns(column.id, body_size(column.body, connection))
            # All of them may have been deleted in between, which is not the end of the log.
            while ids := within_size(map(tuple, connection.execute(sizes))):
                rows = connection.execute(found.where(column.id.in_(ids)))
                if entries := list(map(logged, rows)):
                    return entries
        return []

    def _list(self, found: Select[Any]) -> Sequence[Logged]:
        """Return entries without bodies."""
        column = self._table.c
        columns = [null().label("body") if each is column.body else each for each in column]
        with self._reading() as connection:
            return list(map(logged, connection.execute(found.with_only_columns(*columns))))

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


def _among(id_: Column[int], ids: Collection[int]) -> ColumnElement[bool]:
    if isinstance(ids, range) and ids.step == 1:
        return id_.between(ids.start, ids.stop - 1)
    return id_.in_(list(ids))


def _start(at: Column[Any], grain: Grain, dialect: str) -> ColumnElement[Any]:
    """Cut a time, to which SQLite's text has its own way."""
    if dialect == "sqlite":
        return func.substr(type_coerce(at, String), 1, LENGTHS[grain])
    # As a literal, so that what is grouped by is what is selected; in UTC, for a zone may be
    # half an hour off.
    return func.date_trunc(literal_column(f"'{grain}'"), func.timezone(literal_column("'UTC'"), at))


def body_size(body: Column[Any], connection: Connection) -> ColumnElement[int]:
    """Measure a body for `within_size`: in bytes, which PostgreSQL knows without reading it.

    SQLite counts characters, because before 3.43 it has no function for bytes.
    """
    sqlite = connection.dialect.name == "sqlite"
    return func.length(body) if sqlite else func.octet_length(body)


def logged(row: Row[Any]) -> Logged:
    """Return the entry that a row of all columns is."""
    values = {**row._mapping}  # noqa: SLF001 - SQLAlchemy's public name
    for name in ("outcome", "first_outcome"):
        values[name] = Ending(values[name])
    return Logged(**values)
