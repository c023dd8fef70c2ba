"""The log in a database: read without locks or time limits, and tended in short transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from hookrow.entry import Ending, Logged, fingerprints, kept_message_id, kept_recipient, quoted
from hookrow.entry import retry_at as next_try
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
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import utc
from hookrow.stores.tending import PRUNE_LOCK, batches, pruned

_FIELDS = Logged.__struct_fields__
_TIMES = [place for place, name in enumerate(_FIELDS) if name.endswith("_at")]
_ENDINGS = [_FIELDS.index(name) for name in ("outcome", "first_outcome")]
_FINGERPRINT = _FIELDS.index("fingerprint")
_ALL = ", ".join(_FIELDS)
_WITHOUT_BODY = ", ".join("NULL" if name == "body" else name for name in _FIELDS)

_LIKE = str.maketrans({each: f"\\{each}" for each in "\\%_"})


class SQLLog:
    """A `LogReader` of the table of that name. `verified` raises if the tables do not fit."""

    def __init__(self, database: Database, name: str, verified: Callable[[], object]) -> None:
        self._database, self._dialect = database, database.dialect
        self._table, self._verified = self._dialect.table(name), verified
        # In bytes, which PostgreSQL knows without reading a body. SQLite before 3.43 has no
        # function for that, and counts characters.
        self._size = "octet_length(body)" if self._dialect.locks_rows else "length(body)"

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the newest entries, newest first."""
        within = span(query, self.reached, before=before)
        return self._page(query, within, "DESC", limit, bodies=bodies)

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[Logged]:
        """Return the oldest entries, oldest first."""
        within = span(query, self.reached, after=after)
        return self._page(query, within, "ASC", limit, bodies=bodies)

    def happened(self, at: datetime, query: Query, *, limit: int) -> Sequence[Logged]:
        """Return entries of what happened within that second, oldest first."""
        where, values = self._matching(query)
        within = f"fingerprint BETWEEN %s AND %s{where}"
        return self._list(within, [*fingerprints(at), *values], "id", f"LIMIT {limit}")

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[Logged]:
        """Return the parked entries of these messages, oldest first."""
        if not message_ids:
            return []
        # As a list: for one parameter SQLite would not use the index.
        of_them = f"message_id IN ({', '.join(['%s'] * len(message_ids))})"
        parked = f"{of_them} AND retry_at IS NOT NULL AND id > %s"
        return self._read(parked, [*map(kept_message_id, message_ids), after], "id")

    def ends(self, first: int, last: int) -> Mapping[Ending, Ended]:
        """Count the entries from one id to another by how they ended."""
        found = self._fetch(
            f"SELECT outcome, count(*), max(last_received_at) FROM {self._table} "
            "WHERE id BETWEEN %s AND %s GROUP BY outcome",
            [first, last],
        )
        return {Ending(name): Ended(count, _known(at)) for name, count, at in found}

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id; None of an empty log."""
        # Each by itself: for both in one SQLite would read the whole table.
        ends = ", ".join(f"(SELECT {end}(id) FROM {self._table})" for end in ("min", "max"))
        ((first, last),) = self._fetch(f"SELECT {ends}")
        return None if first is None else (first, last)

    def reached(self, at: datetime) -> int:
        """Return an id that is at most that of whatever came at that time or later."""
        bounds = self.bounds()
        if bounds is None:
            return 1
        with self._database.reading() as connection:
            return reached(at, bounds, partial(self._probe, connection))

    def tally(self, first: int, last: int, grain: Grain) -> Mapping[Cell, int]:
        """Count the entries from one id to another, in one statement."""
        start = (
            f"date_trunc('{grain}', timezone('UTC', received_at))"  # a zone may be half an hour off
        )
        if not self._dialect.locks_rows:
            start = f"substr(received_at, 1, {LENGTHS[grain]})"
        found = self._fetch(
            f"SELECT {start}, record_type, outcome, count(*) FROM {self._table} "
            "WHERE id BETWEEN %s AND %s GROUP BY 1, 2, 3",
            [first, last],
        )
        return {
            Cell(moment(at), record_type, Ending(outcome)): count
            for at, record_type, outcome, count in found
        }

    def delivered(self, first: int, last: int) -> Sequence[tuple[str, datetime]]:
        """Return the message id of each recorded delivery in a range, and when it happened."""
        found = self._fetch(
            f"SELECT message_id, occurred_at FROM {self._table} WHERE id BETWEEN %s AND %s "
            f"AND record_type = 'Delivery' AND outcome = '{Ending.RECORDED.value}' "
            "AND message_id IS NOT NULL AND occurred_at IS NOT NULL ORDER BY id",
            [first, last],
        )
        return [(message_id, _known(at)) for message_id, at in found]

    def count_parked(self) -> int:
        """Return how many entries are tried again."""
        sql = f"SELECT count(*) FROM {self._table} WHERE retry_at IS NOT NULL"
        count: int = self._fetch(sql)[0][0]
        return count

    def due(self, now: datetime, *, limit: int) -> Sequence[Logged]:
        """Take parked entries that are due, and put off when to try again."""
        write = self._dialect.write
        skip = " FOR UPDATE SKIP LOCKED" if self._dialect.locks_rows else ""
        with self._transaction() as connection:
            found = self._read_group(
                connection, "retry_at <= %s", [write(now)], "retry_at", f"LIMIT {limit}{skip}"
            )
            # What is too old for another try has this one.
            later = [(write(next_try(each.received_at, now)), each.id) for each in found]
            if later:
                put_off = f"UPDATE {self._table} SET retry_at = %s WHERE id = %s"
                connection.execute_many(put_off, later)
        return found

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete what came last before then, or only the bodies, batch by batch."""
        over = "WHERE last_received_at < %s AND (retry_at IS NULL OR received_at < %s)"
        sql = f"DELETE FROM {self._table} {over}"
        if bodies_only:
            sql = f"UPDATE {self._table} SET body = NULL, retry_at = NULL {over}"
            sql += " AND body IS NOT NULL"
        values = [self._dialect.write(before), self._dialect.write(parked_before)]
        return pruned(self.bounds(), partial(self._prune_batch, sql, values), before)

    def forget(self, email: str) -> int:
        """Erase the address and the bodies of a person; return in how many entries."""
        address = kept_recipient(email)
        said = sorted(quoted(address))
        body = self._dialect.fold("ascii", "body")
        in_body = " OR ".join([f"{body} LIKE %s ESCAPE '\\'"] * len(said))
        sql = (
            f"UPDATE {self._table} SET recipient = NULL, body = NULL, retry_at = NULL "
            # A body that could not be read has told nobody whose it is.
            f"WHERE (recipient = %s OR (recipient IS NULL AND ({in_body})))"
        )
        values = [address, *(f"%{each.translate(_LIKE)}%" for each in said)]
        return sum(batches(self.bounds(), partial(self._change_batch, sql, values)))

    def _prune_batch(
        self, sql: str, values: Sequence[Any], low: int, high: int
    ) -> tuple[int, datetime | None] | None:
        """Prune a batch; return how many, and when the oldest left came. None: another prunes."""
        oldest = f"SELECT min(received_at) FROM {self._table} WHERE id BETWEEN %s AND %s"
        with self._transaction() as connection:
            if self._dialect.locks_rows:  # on SQLite the file is held by one
                lock = "SELECT pg_try_advisory_xact_lock(%s)"
                if not connection.fetch(lock, [PRUNE_LOCK])[0][0]:
                    return None
            count = connection.execute(f"{sql} AND id BETWEEN %s AND %s", [*values, low, high])
            return count, utc(connection.fetch(oldest, [low, high])[0][0])

    def _change_batch(self, sql: str, values: Sequence[Any], low: int, high: int) -> int:
        with self._transaction() as connection:
            return connection.execute(f"{sql} AND id BETWEEN %s AND %s", [*values, low, high])

    def _page(
        self, query: Query, within: tuple[int, int], order: str, limit: int, *, bodies: bool
    ) -> Sequence[Logged]:
        # The id; of what is parked in a way that leads no planner from that one's index.
        place = "id + 0" if query.parked else "id"
        where, values = self._matching(query)
        within_ids = f"{place} BETWEEN %s AND %s{where}"
        read = self._read if bodies else self._list
        return read(within_ids, [*within, *values], f"{place} {order}", f"LIMIT {limit}")

    def _matching(self, query: Query) -> tuple[str, Sequence[Any]]:
        """Return the conditions of a query, to follow another, and their parameters."""
        conditions, values = [], list[Any]()
        for name, value in query.equal.items():
            conditions.append(f"{name} = %s")
            values.append(value)
        if isinstance(query.ids, range) and query.ids.step == 1:
            conditions.append("id BETWEEN %s AND %s")
            values += [query.ids.start, query.ids.stop - 1]
        elif query.ids is not None:
            conditions.append(self._dialect.any_of("id", "bigint"))
            values.append(self._dialect.encode(query.ids))
        for operator, time in ((">=", query.since), ("<", query.until)):
            if time is not None:
                conditions.append(f"received_at {operator} %s")
                values.append(time)
        if query.parked:
            conditions.append("retry_at IS NOT NULL")
        return "".join(f" AND {each}" for each in conditions), list(
            map(self._dialect.write, values)
        )

    def _probe(self, connection: Connection, id_: int) -> Probe | None:
        columns = "id, received_at, ended_at"
        sql = f"SELECT {columns} FROM {self._table} WHERE id >= %s ORDER BY id LIMIT 1"
        found = connection.fetch(sql, [id_])
        return Probe(found[0][0], *map(_known, found[0][1:])) if found else None

    def _read(
        self, where: str, values: Sequence[Any], order: str, limit: str = ""
    ) -> Sequence[Logged]:
        """Return the leading entries whose bodies make one group."""
        with self._database.reading() as connection:
            return self._read_group(connection, where, values, order, limit)

    def _read_group(
        self, connection: Connection, where: str, values: Sequence[Any], order: str, limit: str
    ) -> Sequence[Logged]:
        table, of_these = self._table, self._dialect.any_of("id", "bigint")
        sizes = f"SELECT id, {self._size} FROM {table} WHERE {where} ORDER BY {order} {limit}"
        rows = f"SELECT {_ALL} FROM {table} WHERE {of_these} ORDER BY {order}"
        # All of them may have been deleted in between, which is not the end of the log.
        while ids := within_size(map(tuple, connection.fetch(sizes, values))):
            if found := connection.fetch(rows, [self._dialect.encode(ids)]):
                return list(map(_logged, found))
        return []

    def _list(
        self, where: str, values: Sequence[Any], order: str, limit: str = ""
    ) -> Sequence[Logged]:
        """Return entries without bodies."""
        sql = f"SELECT {_WITHOUT_BODY} FROM {self._table} WHERE {where} ORDER BY {order} {limit}"
        return list(map(_logged, self._fetch(sql, values)))

    def _fetch(self, sql: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        with self._database.reading() as connection:
            return connection.fetch(sql, values)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self._verified()
        with self._database.transaction() as connection:
            yield connection


def _known(time: datetime | str) -> datetime:
    """Return a time that is never null."""
    at = utc(time)
    assert at is not None  # noqa: S101 - for mypy
    return at


def _logged(row: Sequence[Any]) -> Logged:
    values = list(row)
    for place in _TIMES:
        values[place] = utc(values[place])
    for place in _ENDINGS:
        values[place] = Ending(values[place])
    values[_FINGERPRINT] = bytes(values[_FINGERPRINT])
    return Logged(*values)
