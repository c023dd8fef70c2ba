"""Counts the log's entries by hour of arrival in `hookrow_hours`: each id exactly once.

`hookrow_meta` has the watermark, up to which all ids are counted, and the ceiling, the highest id
in the log at some earlier time. A transaction of any age may commit a lower id after a higher one,
so no clock decides when to count: the ceiling is final once every transaction that could write to
the log at that time has ended. An INSERT locks the log before it takes an id, so a transaction that
locks it later gets a higher one. On SQLite, there are no other writers.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from hookrow._core.notification import KNOWN_REASONS
from hookrow._core.result import Result
from hookrow._core.schema import Schema
from hookrow.stores._errors import UPGRADE, Conflict
from hookrow.stores._log import (
    KNOWN_TYPES,
    MOST_COUNTED,
    OTHER,
    RequestHour,
    RequestKind,
    Requests,
)
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Catalogue, Lock
from hookrow.stores.sql._connections import Connection, Row
from hookrow.stores.sql._dialects.base import Dialect, read_time
from hookrow.stores.sql._scripts import HOURS_TABLE, META_TABLE

logger = logging.getLogger("hookrow")

IDS_PER_TRANSACTION = 5000
"""Ids that one transaction counts. On SQLite, the transaction locks the whole file."""

ROWS_PER_INSERT = 100
"""Rows of requests that one statement adds.

The texts of statements are cached, so their number is limited, too.
"""

ONE_HOUR = timedelta(hours=1)

HOUR_LENGTH = ONE_HOUR // timedelta(seconds=1)
"""Seconds of an hour."""

WATERMARK, CEILING, FIRST_FINGERPRINT = "hours_watermark", "hours_ceiling", "hours_first"
"""Names in `hookrow_meta`: the watermark, the ceiling, and the fingerprint of the entry with id 1.

After the ceiling, the value contains the server's start and the transactions that can still write.
"""

RECOUNTS = "hours_recounts"
"""The name in `hookrow_meta` of the number of recounts that have added entries."""

HAS_RECOVERED = (
    f"first_outcome <> '{Result.RECORDED.value}' AND outcome = '{Result.RECORDED.value}'"
)
"""The condition of entries that were refused at first, and are recorded now."""

RECOVERED = f"{HAS_RECOVERED} AND recovery_counted IS NULL"
"""The condition of those of them that are not yet counted as recovered."""

MOST_RECOVERED = 10_000
"""The largest number of recovered entries not in the hourly counts that are read.

If PostgreSQL expected many more, it would compile the statement, which would take longer than
running it.
"""

_COUNTED_COLUMNS = "received_at, ended_at, record_type, reason, outcome, first_outcome, entry"

_REQUESTS = ", ".join(f"'{kind.value}'" for kind in RequestKind)

HOURLY_COLUMNS = ("hour", "record_type", "reason", "first_outcome", "entry")
"""The key of a row of counts. `entry` is empty if a receiver has a single provider."""


def _missing(differences: Iterable[Row]) -> Iterator[Row]:
    """Yield entries that the counts lack, in the form of `MissingEntries.rows`.

    `differences` have the same form: how many more entries the log has in an hour than the counts;
    negative if it has fewer.
    """
    sums: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    found: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    by_hour = sorted(differences, key=itemgetter(0), reverse=True)
    for hour, of_hour in groupby(by_hour, itemgetter(0)):
        rows = [*of_hour]
        for _, type_, _, outcome, entry, number in rows:
            sums[type_, outcome, entry] += number
        for _, type_, reason, outcome, entry, number in rows:
            kind = type_, outcome, entry
            added = min(number, sums[kind] - found[kind])
            if added > 0:
                found[kind] += added
                yield hour, type_, reason, outcome, entry, added


def _is_any(column: str, words: Collection[str]) -> str:
    """Return a branch of CASE for the words that are counted under their own name."""
    listed = ", ".join(f"'{word}'" for word in sorted(words))
    return f"WHEN {column} IN ({listed}) THEN {column}"


HOURLY_KEYS = (
    f"CASE {_is_any('record_type', KNOWN_TYPES)} ELSE '{OTHER}' END",
    f"CASE WHEN reason IS NULL THEN '' {_is_any('reason', KNOWN_REASONS)} ELSE '{OTHER}' END",
    "first_outcome",
    "coalesce(entry, '')",
)
"""The keys of the counts apart from the time; each has a bounded set of values."""

_GROUPS = ", ".join(str(number + 1) for number in range(len(HOURLY_COLUMNS)))
"""The positions of the time and the keys in a SELECT that begins with them."""


class MissingEntries(NamedTuple):
    """Entries that the counts lack."""

    recounts: int
    """How often such entries had been added before."""
    rows: Sequence[Row]
    """The hour, as a number since 1970, the other `HOURLY_COLUMNS`, and the number of entries."""

    @property
    def number(self) -> int:
        """The number of entries."""
        return sum(entries for *_, entries in self.rows)


class HourlyCounts:
    """The hourly counts of a schema's log, as SQL that runs on a connection in a transaction."""

    def __init__(self, dialect: Dialect, schema: Schema) -> None:
        self._dialect, self._log = dialect, schema.log or ""
        self._record = schema.side_table(META_TABLE)
        self._tables = [schema.side_table(HOURS_TABLE), self._record]
        self._table, self._meta = map(dialect.table, self._tables)
        self._columns = {
            self._tables[0]: {*HOURLY_COLUMNS, "entries", "recovered"},
            self._tables[1]: {"name", "value"},
            self._log: {"recovery_counted"},
        }
        self._log_table = dialect.table(self._log)
        self._obstacle: str | None = None
        self.missing = (
            f"One of {', '.join(self._columns)} is missing, lacks a column, or may not be used: "
            f"run {UPGRADE}, or your own migrations, or grant SELECT, INSERT and UPDATE."
        )
        """The obstacle, and its remedies, if `are_usable` returns False."""

    @property
    def watermark(self) -> str:
        """The highest id that is counted."""
        number = self._dialect.as_integer("value")
        value = f"SELECT {number} FROM {self._meta} WHERE name = '{WATERMARK}'"
        return f"coalesce(({value}), 0)"

    def count(self, connection: Connection) -> bool:
        """Count a chunk, or determine which ids are final; return whether there is more to do now.

        Does nothing while another process counts, or if the tables do not allow it.
        """
        obstacle = self.find_obstacle(connection)
        if obstacle not in {None, self._obstacle}:
            logger.warning(f"Notifications are not counted by hour. {obstacle}")
        self._obstacle = obstacle
        catalogue = catalogue_of(connection, self._dialect)
        if obstacle is not None or not catalogue.try_lock(Lock.COUNTING, self._record):
            return False
        more = self._count_new(connection, catalogue)
        return self._count_recovered(connection) or more

    def find_obstacle(self, connection: Connection) -> str | None:
        """Return why a transaction cannot count entries, or None if it can."""
        if not self.are_usable(connection):
            return self.missing
        return catalogue_of(connection, self._dialect).isolation_obstacle()

    def can_be_read(self, connection: Connection) -> bool:
        """Return whether the tables have all columns, and the user may read them."""
        catalogue = catalogue_of(connection, self._dialect)
        for name, required in self._columns.items():
            existing = catalogue.columns(name).values()
            if not required <= {each.name for each in existing if "SELECT" not in each.denied}:
                return False
        return True

    def are_usable(self, connection: Connection) -> bool:
        """Return whether the tables have all columns, and the user may read and write them."""
        catalogue = catalogue_of(connection, self._dialect)
        return self.can_be_read(connection) and not any(
            catalogue.lacking(name, ["INSERT", "UPDATE"]) for name in self._tables
        )

    def select_all(self, length: int) -> str:
        """Return the SELECT of the hourly counts, newer entries, and recoveries not yet counted.

        It counts by buckets of `length` seconds since 1970, and by the keys. One statement reads
        them all, so that each entry counts once while a receiver moves entries from one to the
        other. Each of its three parts has one parameter, the start of the period.
        """
        entries, recoveries = map(self._dialect.as_integer, ("sum(entries)", "sum(recovered)"))
        counted = (
            f"SELECT {self._bucket('hour', length)}, {', '.join(HOURLY_COLUMNS[1:])}, "
            f"{entries}, {recoveries}, NULL "
            f"FROM {self._table} WHERE hour >= %s "
            f"AND first_outcome NOT IN ({_REQUESTS}) GROUP BY {_GROUPS}"
        )
        late = f"{RECOVERED} AND {self._id_of_few} <= {self.watermark}"
        recovered = self._grouped(
            length, "0, count(*), NULL", late, f"{self._id_of_few} DESC LIMIT {MOST_RECOVERED}"
        )
        return " UNION ALL ".join([self.select_newest(length, self.watermark), counted, recovered])

    def select_newest(self, length: int, after: str) -> str:
        """Return the SELECT that counts the newest entries after an id, by the same keys.

        The last column is when the oldest was written.
        """
        written = self._dialect.epoch("min(ended_at)")
        figures = f"count(*), count(CASE WHEN {HAS_RECOVERED} THEN 1 END), {written}"
        return self._grouped(length, figures, f"id > {after}", f"id DESC LIMIT {MOST_COUNTED}")

    @property
    def _id_of_few(self) -> str:
        """The id of entries that an index finds by other columns."""
        return self._dialect.without_index("id")

    def _grouped(self, length: int, figures: str, where: str, first: str) -> str:
        """Return the SELECT that counts the first entries of an order that meet a condition.

        Those that are too old have no bucket.
        """
        number = self._bucket("received_at", length)
        return (
            f"SELECT CASE WHEN received_at >= %s THEN {number} END, {', '.join(HOURLY_KEYS)}, "
            f"{figures} FROM (SELECT {_COUNTED_COLUMNS} FROM {self._log_table} WHERE {where} "
            f"ORDER BY {first}) AS entries GROUP BY {_GROUPS}"
        )

    def _bucket(self, time: str, length: int) -> str:
        """Return the number of a bucket since 1970, whose length is in seconds."""
        return self._dialect.quotient(self._dialect.epoch(time), length)

    def missing_entries(self, connection: Connection) -> MissingEntries:
        """Find the counted ids whose entries the counts lack; see `add_missing`.

        The type, the first outcome and the receiver's entry never change. The reason may, and the
        hour may become an earlier one, so log entries are compared by the others, from the newest
        hour on. What was pruned or has moved may hide others that are missing, but none is found
        twice.
        """
        recounts = self._recounts(connection)
        logged = ", ".join(
            f"{key} AS {name}" for key, name in zip(HOURLY_KEYS, HOURLY_COLUMNS[1:], strict=True)
        )
        columns = ", ".join(HOURLY_COLUMNS)
        # In one statement, so that no entry is counted between the two parts.
        rows = connection.fetch(
            f"SELECT {columns}, {self._dialect.as_integer('sum(number)')} FROM ("
            f"SELECT {self._bucket('received_at', HOUR_LENGTH)} AS hour, {logged}, "
            f"count(*) AS number FROM {self._log_table} WHERE id <= {self.watermark} "
            f"GROUP BY {_GROUPS} UNION ALL "
            f"SELECT {self._bucket('hour', HOUR_LENGTH)}, {', '.join(HOURLY_COLUMNS[1:])}, "
            f"-entries FROM {self._table} WHERE first_outcome NOT IN ({_REQUESTS})"
            f") AS compared GROUP BY {columns} HAVING sum(number) <> 0"
        )
        return MissingEntries(recounts, [*_missing(rows)])

    def add_missing(self, connection: Connection, missing: MissingEntries) -> None:
        """Add entries that `missing_entries` has found, in another transaction.

        Raises `Conflict` if another process has added some in between.
        """
        connection.execute(self._put({}), [RECOUNTS, "0"])
        recounts = self._recounts(connection, self._dialect.for_update)
        if recounts != missing.recounts:
            raise Conflict("Another process has added missing entries to the hourly counts.")
        added = [
            (self._dialect.write(datetime.fromtimestamp(number * HOUR_LENGTH, UTC)), *rest)
            for number, *rest in missing.rows
        ]
        connection.execute_many(self._insert("VALUES (%s, %s, %s, %s, %s, %s, 0)"), added)
        changed = self._put({"value": self._dialect.new("value")})
        connection.execute(changed, [RECOUNTS, str(recounts + 1)])

    def _recounts(self, connection: Connection, lock: str = "") -> int:
        sql = f"SELECT value FROM {self._meta} WHERE name = %s {lock}"
        return sum(int(value) for (value,) in connection.fetch(sql, [RECOUNTS]))

    def add_requests(self, connection: Connection, counts: Mapping[RequestHour, int]) -> None:
        """Add numbers of requests, unless the tables do not allow it."""
        if not self.are_usable(connection):
            return
        # In the order of the key, so that two processes cannot deadlock.
        rows = sorted(
            (self._dialect.write(hour), kind.value, entry, number)
            for (kind, entry, hour), number in counts.items()
        )
        for start in range(0, len(rows), ROWS_PER_INSERT):
            added = rows[start : start + ROWS_PER_INSERT]
            values = ", ".join(["(%s, '', '', %s, %s, %s, 0)"] * len(added))
            connection.execute(self._insert(f"VALUES {values}"), [*chain.from_iterable(added)])

    def requests(
        self, connection: Connection, since: datetime
    ) -> Mapping[RequestKind, Mapping[str, Requests]]:
        """Return the requests since a time; none if the tables cannot be read.

        They are in the form that `SQLLog.requests_by_kind` returns.
        """
        if not self.can_be_read(connection):
            return {}
        total = self._dialect.as_integer("sum(entries)")
        sql = (
            f"SELECT first_outcome, entry, {total} AS number, min(hour), max(hour) "
            f"FROM {self._table} WHERE hour >= %s AND first_outcome IN ({_REQUESTS}) "
            "GROUP BY first_outcome, entry ORDER BY number DESC, entry"
        )
        found: defaultdict[RequestKind, dict[str, Requests]] = defaultdict(dict)
        for kind, entry, number, first, last in connection.fetch(sql, [self._dialect.write(since)]):
            found[RequestKind(kind)][entry] = Requests(number, read_time(first), read_time(last))
        return found

    def active(self, connection: Connection, since: datetime) -> Mapping[str, Sequence[datetime]]:
        """Return the hours with entries since a time; none if the tables cannot be read.

        They are in the form that `SQLLog.active_hours` returns.
        """
        if not self.can_be_read(connection):
            return {}
        sql = (
            f"SELECT DISTINCT entry, hour FROM {self._table} WHERE hour >= %s AND entries > 0 "
            f"AND first_outcome NOT IN ({_REQUESTS}) ORDER BY entry, hour"
        )
        found: defaultdict[str, list[datetime]] = defaultdict(list)
        for entry, hour in connection.fetch(sql, [self._dialect.write(since)]):
            found[entry].append(read_time(hour))
        return found

    def _count_new(self, connection: Connection, catalogue: Catalogue) -> bool:
        values = self._locked(connection)
        save = partial(self._save, connection, values)
        watermark = int(values[WATERMARK])
        kept, start, *writers = values.get(CEILING, "0 -").split()  # no ceiling yet
        ceiling = int(kept)
        # Before the writers are listed: one that began in between would be missing from the list,
        # and could still commit a lower id.
        ((highest,),) = connection.fetch(f"SELECT coalesce(max(id), 0) FROM {self._log_table}")
        seen = max(watermark, ceiling)
        if self._have_restarted(connection, catalogue, values, seen, highest):
            watermark = ceiling = 0
            save(WATERMARK, "0")
        if writers or ceiling <= watermark:
            open_writers = catalogue.open_writers(self._log, self._record)
            if open_writers is None:
                end = self._count_chunk(connection, min(watermark, highest), highest)
                save(WATERMARK, str(end))
                return bool(end < highest)
            server, holders = open_writers
            if ceiling <= watermark or start != server:
                save(CEILING, " ".join([str(highest), server, *holders]))
                return bool(highest > watermark)
            waiting = [each for each in writers if each in holders]
            save(CEILING, " ".join([str(ceiling), server, *waiting]))
            # The next transaction counts: new writers may have to wait until the end of this one.
            return not waiting
        end = self._count_chunk(connection, watermark, ceiling)
        save(WATERMARK, str(end))
        return end < ceiling

    def _count_chunk(self, connection: Connection, watermark: int, ceiling: int) -> int:
        """Count ids after the watermark, at most up to the ceiling; return the last one."""
        within = "id > %s AND id <= %s"
        first = f"SELECT min(id) FROM {self._log_table} WHERE {within}"
        ((low,),) = connection.fetch(first, [watermark, ceiling])  # there may be a wide gap
        end = ceiling if low is None else min(low + IDS_PER_TRANSACTION - 1, ceiling)
        if low is not None:
            connection.execute(self._add("count(*)", "0", within), [watermark, end])
        return end

    def _count_recovered(self, connection: Connection) -> bool:
        """Count entries that have recovered since they were counted; return whether there are more.

        Each is marked, so that it counts once, even if its notification is repeated.
        """
        rows = connection.fetch(
            f"SELECT id FROM {self._log_table} "
            f"WHERE {RECOVERED} AND {self._id_of_few} <= {self.watermark} "
            f"ORDER BY {self._id_of_few} LIMIT {IDS_PER_TRANSACTION} {self._dialect.skip_locked}"
        )
        if rows:
            id_type = self._dialect.id_type
            is_any = self._dialect.any_of("id", id_type)
            ids = [self._dialect.encode([id_ for (id_,) in rows])]
            connection.execute(self._add("0", "count(*)", is_any), ids)
            counted = "recovery_counted = true"
            mark = self._dialect.update_any(self._log_table, counted, "id", id_type)
            connection.execute(mark, ids)
        return len(rows) == IDS_PER_TRANSACTION

    def _add(self, number: str, recovered: str, where: str) -> str:
        """Return the statement that adds the entries which meet a condition to the counts."""
        hour = self._dialect.hour("received_at")
        return self._insert(
            f"SELECT {self._dialect.hour_as_time(hour)}, {', '.join(HOURLY_KEYS)}, "
            f"{number}, {recovered} "
            f"FROM {self._log_table} WHERE {where} GROUP BY {hour}, 2, 3, 4, 5"
        )

    def _insert(self, rows: str) -> str:
        """Return the statement that adds rows of counts to those with the same key."""
        old, new = partial(self._dialect.old, self._table), self._dialect.new
        sums = {name: f"{old(name)} + {new(name)}" for name in ("entries", "recovered")}
        return self._dialect.insert(
            self._table, [*HOURLY_COLUMNS, *sums], rows, HOURLY_COLUMNS, sums
        )

    def _locked(self, connection: Connection) -> dict[str, str]:
        """Return the values by name; the watermark is locked until the end of the transaction."""
        connection.execute(self._put({}), [WATERMARK, "0"])
        sql = f"SELECT name, value FROM {self._meta} WHERE name IN (%s, %s, %s) ORDER BY name DESC"
        names = [WATERMARK, CEILING, FIRST_FINGERPRINT]
        return dict(map(tuple, connection.fetch(f"{sql} {self._dialect.for_update}", names)))

    def _save(self, connection: Connection, values: dict[str, str], name: str, value: str) -> None:
        """Save a value, unless it is that of `values`, which are the present ones."""
        if values.get(name) != value:
            connection.execute(self._put({"value": self._dialect.new("value")}), [name, value])
            values[name] = value

    def _put(self, assignments: Mapping[str, str]) -> str:
        """Return the statement that adds a value; `assignments` change an existing one."""
        rows = "VALUES (%s, %s)"
        return self._dialect.insert(self._meta, ["name", "value"], rows, ["name"], assignments)

    def _have_restarted(
        self,
        connection: Connection,
        catalogue: Catalogue,
        values: dict[str, str],
        seen: int,
        highest: int,
    ) -> bool:
        """Return whether the ids have started again from 1.

        max(id) is not sufficient: the newest entries may have been deleted.
        """
        if not catalogue.reuses_ids:
            last = catalogue.last_id(self._log)
            return last is not None and max(last, highest) < seen
        sql = f"SELECT max(hex(fingerprint)) FROM {self._log_table} WHERE id = 1"
        ((first,),) = connection.fetch(sql)
        if restarted := first not in {None, values.get(FIRST_FINGERPRINT)}:
            self._save(connection, values, FIRST_FINGERPRINT, first)
        return restarted
