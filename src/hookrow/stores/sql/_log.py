"""The log in a database: read without locks or time limits, changed in short transactions.

The store's transactions, not these methods, add entries to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from random import uniform
from time import sleep
from types import MappingProxyType
from typing import Any, TypeVar

from hookrow._concurrency import TASK_PAUSE
from hookrow._core.erasure import ESCAPING, Occurrence, address_finder, is_searchable
from hookrow._core.log_entry import (
    RECORD_TYPES,
    StoredEntry,
    stored_message_id,
    stored_recipient,
)
from hookrow._core.notification import Delivered, Key
from hookrow._core.result import IMPLAUSIBLE, MISSING, PARKED, Result, ended_before
from hookrow._core.result import retry_at as next_retry
from hookrow._core.schema import Schema
from hookrow.errors import SchemaMismatch
from hookrow.stores._errors import UPGRADE, Conflict, MissingChanges, SchemaChanged
from hookrow.stores._log import (
    IDS_PER_BATCH,
    MOST_COUNTED,
    MOST_EXPIRED,
    Backlog,
    Count,
    Counts,
    DueKind,
    Forgotten,
    Origin,
    Prunable,
    Query,
    Recent,
    RecordedChange,
    RequestHour,
    RequestKind,
    Requests,
    RetryCursor,
    Slice,
    Waiting,
    id_range,
    within_size,
)
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Lock
from hookrow.stores.sql._change_numbers import ChangeNumbers
from hookrow.stores.sql._connections import Connection, Database
from hookrow.stores.sql._dialects.base import Dialect, read_time, utc
from hookrow.stores.sql._hours import ONE_HOUR, RECOVERED, HourlyCounts
from hookrow.stores.sql._log_rows import (
    ALL_COLUMNS,
    BODILESS,
    ID_IS_WITHIN,
    IS_CHANGE,
    conditions,
    has_outcome,
    stored_entry,
)
from hookrow.stores.sql._scripts import META_TABLE
from hookrow.stores.sql._statements.base import Statements

CONFLICT_PAUSES = (0.01, 0.03, 0.1, 0.3)
"""Seconds to wait before each retry of a transaction that conflicts with another one: of a writer,
which locks in another order, or of a process that does the same on another node of a cluster."""

_OVER = "last_received_at < %s AND (retry_at IS NULL OR received_at < %s)"
"""The condition of the entries that can be pruned, whose retries have ended."""

_HAS_SPARE_BODY = f"last_received_at < %s AND body IS NOT NULL AND NOT {has_outcome('', PARKED)}"
"""The condition of the entries whose body can be pruned. Without it, one that was not recorded
could never be."""

_ERASED = ", ".join(f"{each} = NULL" for each in ("recipient", "body", "reason", "retry_at"))
"""The assignments that erase a person from an entry."""

_LIKE = str.maketrans({each: f"!{each}" for each in "!%_"})
"""Escapes the special characters of a pattern; a backslash would need escaping in some texts."""


_INDEXED: Mapping[str, Callable[[Dialect], str]] = {
    "recipient": lambda dialect: dialect.changed_recipient,
    "message_id": lambda dialect: dialect.parked_message_id,
}
"""The columns whose index has some of the values of another one."""

T = TypeVar("T")


class SQLLog:
    """The log of a store. Each call runs in separate transactions, and may raise a `StoreError`.

    Bodies may be large, so methods that return bodies return fewer entries than `limit` if the
    bodies would exceed a group (`within_size`); only an empty result means that there are no
    more. Without `bodies`, each `body` is None, and only `limit` counts.

    `verified` returns the SQL for the tables, and raises if they do not fit.
    """

    def __init__(
        self, database: Database, schema: Schema, verified: Callable[[], Statements]
    ) -> None:
        self._database, self._dialect = database, database.dialect
        self._name, self._verified = schema.log or "", verified
        self._table = self._dialect.table(self._name)
        self._record = schema.side_table(META_TABLE)
        self._hours = HourlyCounts(self._dialect, schema)
        self._numbers = ChangeNumbers(self._dialect, schema)

    def newest(
        self, query: Query, *, before: int | None = None, limit: int, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        """Return the newest entries, newest first; for the next page, those before an id."""
        ids = id_range(query, self.first_id_since, before=before)
        return self._page(query, ids, f"DESC LIMIT {limit}", bodies=bodies)

    def beginnings(
        self, name: str, text: str, ids: range | None = None, *, limit: int
    ) -> Collection[str]:
        """Return recipients or message ids that begin with a text, as the log stores them.

        `name` is that of the column. They are those of a range of ids; without `ids`, those that an
        index has: the recipients of changes of a suppression, and the message ids of parked
        entries. There may be more than these if `limit` are found.
        """
        # An index has the order of the collation, which may have a few other texts in between.
        dialect = self._dialect
        column = _INDEXED[name](dialect) if ids is None else name
        where, values = f"{column} >= %s ORDER BY {column}", list[Any]([text])
        if ids is not None:
            where = f"{ID_IS_WITHIN} AND substr({name}, 1, {len(text)}) = %s"
            values = [ids.start, ids.stop - 1, text]
        elif name == "recipient":
            where = f"{IS_CHANGE} AND {where}"
        else:
            where = f"retry_at IS NOT NULL AND {where}"
        sql = f"SELECT DISTINCT {column} FROM {self._table} WHERE {where} LIMIT {limit}"
        with self._database.reading() as connection:
            found = {each for (each,) in connection.fetch(sql, values)}
        return {each for each in found if each.startswith(text)}

    def oldest(
        self, query: Query, *, after: int = 0, limit: int, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        """Return the oldest entries, oldest first; for the next page, those after an id."""
        ids = id_range(query, self.first_id_since, after=after)
        return self._page(query, ids, f"LIMIT {limit}", bodies=bodies)

    def changes(self, after: int, *, limit: int) -> Sequence[RecordedChange]:
        """Return the next changes after a cursor, and number new ones if there is none.

        See `SQLStore.changes`.
        """
        self._verified()
        try:
            while not (page := self._changes_after(after, limit)):
                if not _retried(self._assign_numbers):
                    return ()
        except SchemaChanged as error:
            raise SchemaMismatch(
                f"Changes cannot be read, because {self._record!r} is missing or not as hookrow "
                f"creates it: run {UPGRADE}, or your own migrations."
            ) from error
        return page

    def count(self, query: Query, *, limit: int) -> int:
        """Return the number of entries, or `limit` if there are more."""
        where, values = conditions(self._dialect, "true", (), query)
        found = f"(SELECT 1 FROM {self._table} WHERE {where} LIMIT {limit}) AS found"
        with self._database.reading() as connection:
            return int(connection.fetch(f"SELECT count(*) FROM {found}", values)[0][0])

    def parked(self, message_ids: Collection[str], *, after: int = 0) -> Sequence[StoredEntry]:
        """Return the parked entries of these messages after an id, oldest first."""
        if not message_ids:
            return []
        # A parameter for each id: SQLite would not use the index for a parameter that holds all.
        marks = ", ".join(["%s"] * len(message_ids))
        where = (
            f"{self._dialect.parked_message_id} IN ({marks}) AND retry_at IS NOT NULL "
            "AND id > %s ORDER BY id"
        )
        return self._read(where, [*map(stored_message_id, message_ids), after])

    def hopeful(
        self,
        now: datetime,
        *,
        origins: Collection[Origin],
        after: RetryCursor,
        limit: int,
        tenants: Mapping[str, Key] = MappingProxyType({}),
    ) -> Slice:
        """Find due entries that could be recorded now, among the next `limit` after a place.

        A suppression needs its subscriber, and every other notification the dispatch of the
        subscriber. Entries on which the database failed are omitted, because their rows prove
        nothing. The result is a good guess: some entries may be missing, and some may be refused.
        `due` describes `origins`, and which entries are due. `tenants` are those of the receiver's
        entries, by name. If the mapping has tenants, other entries of the log are omitted.
        """
        statements, write = self._verified(), self._dialect.write
        due, values = self._due(now, origins)
        compare = partial(self._dialect.compare, ["n.retry_at", "n.id"], marks=["%s", "%s"])
        condition, start = compare(">", values=[write(after.retry_at), after.id])
        follows = f"n.retry_at IS NOT NULL AND {condition}"
        # Of all parked entries: an index has them in this order, also those of other providers.
        last = (
            f"SELECT n.retry_at, n.id FROM {self._table} AS n WHERE {follows} "
            f"ORDER BY n.retry_at, n.id LIMIT 1 OFFSET {limit - 1}"
        )
        with self._database.reading() as connection:
            if self._dialect.plan_for_values is not None:  # a range of any size looks large
                connection.fetch(self._dialect.plan_for_values)
            rows = connection.fetch(last, start)
            end = RetryCursor(read_time(rows[0][0]), rows[0][1]) if rows else None
            within: tuple[str, Sequence[Any]] = ("true", [])
            if end is not None:
                within = compare("<=", values=[write(end[0]), end[1]])
            found = connection.fetch(
                f"SELECT n.id FROM {self._table} AS n{statements.of_entries} WHERE {due} "
                f"AND {follows} AND {within[0]} AND {statements.hopeful} ORDER BY n.id",
                [*statements.given_tenants(tenants), *values, *start, *within[1]],
            )
        return Slice([id_ for (id_,) in found], end)

    def due(
        self, now: datetime, kind: DueKind, *, origins: Collection[Origin], limit: int
    ) -> Sequence[int]:
        """Return the ids of due entries of a kind, in its order.

        `origins` are the stored names of the receiver's entries and providers that can read them. A
        retry that is planned implausibly far ahead is due, too; see `_core.result.is_due`.
        """
        due, values = self._due(now, origins)
        order = "n.received_at DESC"
        if kind is DueKind.FAILING:  # the pause grows with each retry
            epoch = self._dialect.epoch
            order = f"{epoch('n.retry_at')} - {epoch('n.received_at')}"
        sql = (
            f"SELECT n.id FROM {self._table} AS n WHERE {due} AND {has_outcome('n', kind.value)} "
            f"ORDER BY {order}, n.id LIMIT {limit}"
        )
        with self._database.reading() as connection:
            return [id_ for (id_,) in connection.fetch(sql, values)]

    def take(self, ids: Collection[int], now: datetime) -> Sequence[StoredEntry]:
        """Take those of the entries that are due, count a retry, and postpone the next one.

        Entries that are too old for another retry after this one are no longer parked. Returns
        fewer if their bodies are large: the others are still due. Entries that another process is
        taking are skipped; none is returned if it has taken some in between, on another node of a
        cluster.
        """
        write, is_any = self._dialect.write, self._dialect.any_of("id", self._dialect.id_type)
        where = (
            f"{is_any} AND (retry_at <= %s OR retry_at > %s) "
            f"ORDER BY id {self._dialect.skip_locked}"
        )
        values = [self._dialect.encode(ids), write(now), write(now + IMPLAUSIBLE)]
        put_off = f"UPDATE {self._table} SET retry_at = %s, retries = retries + 1 WHERE id = %s"
        with suppress(Conflict), self._transaction() as connection:
            entries = self._group(connection, where, values)
            later = [(write(next_retry(each.received_at, now)), each.id) for each in entries]
            if later:
                connection.execute_many(put_off, later)
            return entries
        return []

    def count_retries(self, ids: Collection[int]) -> None:
        """Count a retry of each entry that is recorded again without being taken."""
        change = self._update_any("retries = retries + 1")

        def count() -> None:
            with self._transaction() as connection:
                connection.execute(change, [self._dialect.encode(ids)])

        _retried(count)

    def expire(self, now: datetime, *, origins: Collection[Origin]) -> int:
        """End the retries of up to `IDS_PER_BATCH` due entries without a row; return their number.

        They are too old even for the last retry; see `ended_before`.
        """
        due, values = self._due(now, origins)
        ended = (
            f"SELECT n.id FROM {self._table} AS n WHERE {due} AND n.received_at < %s "
            f"AND {has_outcome('n', MISSING)} LIMIT {IDS_PER_BATCH} {self._dialect.skip_locked}"
        )
        change = self._dialect.update_selected(self._table, "retry_at = NULL", "id", ended)

        def end() -> int:
            with self._transaction() as connection:
                return connection.execute(change, [*values, self._dialect.write(ended_before(now))])

        return _retried(end)

    def backlog(self, now: datetime, entry: str | None = None) -> Backlog:
        """Return the state of the parked entries, or of those of a receiver's entry."""
        of_entry, values = ("", []) if entry is None else (" AND entry = %s", [entry])
        sql = (
            f"SELECT count(*), min(CASE WHEN retry_at <= %s THEN retry_at END) "
            f"FROM {self._table} WHERE retry_at IS NOT NULL{of_entry}"
        )
        with self._database.reading() as connection:
            ((parked, oldest),) = connection.fetch(sql, [self._dialect.write(now), *values])
        expired = self.count(Query(expired=True, entry=entry), limit=MOST_EXPIRED)
        return Backlog(parked, utc(oldest), expired)

    def waiting(self, now: datetime) -> Mapping[Origin, Waiting]:
        """Return the state of the parked and expired entries, by the names of their origin.

        At most `MOST_EXPIRED` expired entries are counted, and none without a recipient: nothing
        was late, because the row that it would need cannot exist.
        """
        where, values = conditions(self._dialect, "true", (), Query(expired=True))
        is_unknown = has_outcome("", {Result.SUBSCRIBER_NOT_FOUND})
        columns = f"SELECT entry, provider, retry_at, outcome FROM {self._table}"
        expired = (
            f"{columns} WHERE {where} "
            f"AND NOT ({is_unknown} AND (recipient IS NULL OR recipient = '')) LIMIT {MOST_EXPIRED}"
        )
        sql = (
            "SELECT entry, provider, count(retry_at), "
            "min(CASE WHEN retry_at <= %s THEN retry_at END), "
            "count(CASE WHEN retry_at IS NULL THEN 1 END), "
            f"count(CASE WHEN retry_at IS NULL AND {is_unknown} THEN 1 END) "
            f"FROM ({columns} WHERE retry_at IS NOT NULL "
            f"UNION ALL SELECT * FROM ({expired}) AS expired) AS waiting GROUP BY entry, provider"
        )
        with self._database.reading() as connection:
            rows = connection.fetch(sql, [self._dialect.write(now), *values])
        return {
            Origin(entry, provider): Waiting(parked, utc(due), expired, to_unknown)
            for entry, provider, parked, due, expired, to_unknown in rows
        }

    def _due(self, now: datetime, origins: Collection[Origin]) -> tuple[str, list[Any]]:
        """Return the condition on the due entries of `n` (`result.is_due`), and its parameters."""
        dialect = self._dialect
        # No name of an entry contains a space.
        names = dialect.concat("coalesce(n.entry, '')", "' '", "coalesce(n.provider, '')")
        is_known = dialect.any_of(names, dialect.text_type)
        known = [f"{entry or ''} {provider or ''}" for entry, provider in origins]
        condition = (
            f"n.retry_at IS NOT NULL AND (n.retry_at <= %s OR n.retry_at > %s) AND {is_known}"
        )
        return condition, [
            dialect.write(now),
            dialect.write(now + IMPLAUSIBLE),
            dialect.encode(known),
        ]

    def prune(
        self, *, before: datetime, parked_before: datetime, bodies_only: bool
    ) -> Iterator[int]:
        """Delete entries, or only their bodies, that last arrived before a time, in batches.

        Yields the number in each batch. Parked entries that first arrived at `parked_before` or
        later are kept, because they may still be retried. Bodies of entries that were not recorded
        are only deleted with the entry, because they can be replayed. If entries are counted by
        hour, those that are not counted yet are kept, too, and the newest one, because SQLite would
        reuse its id. A consumer that has not read a deleted change learns of it. Ends early if
        another process is pruning.
        """
        self._verified()
        with self._database.reading() as connection:
            catalogue_of(connection, self._dialect).check_privileges(self._name, ["DELETE"])
        values = [self._dialect.write(before)]
        if bodies_only:
            prune, where = self._delete_bodies, _HAS_SPARE_BODY
        else:
            prune, where = self._delete, _OVER
            values.append(self._dialect.write(parked_before))
            if self._count_all_hours():
                where += f" AND id <= %s AND NOT ({RECOVERED})"
                values.append(self._last_deletable())
        prune_within = partial(prune, where=f"{where} AND {ID_IS_WITHIN}")
        for low, high in self._ranges():
            pruned = _retried(partial(self._prune_batch, prune_within, values, low, high))
            if pruned is None:
                return
            count, oldest = pruned
            yield count
            # The ids are in the order of arrival.
            if oldest is not None and oldest >= before:
                return

    def prunable(
        self, *, before: datetime | None, bodies_before: datetime | None, parked_before: datetime
    ) -> Prunable:
        """Return what `prune` would delete now, and change nothing. None stands for no limit.

        `bodies_before` is the time of a second call, which deletes only bodies. The numbers are as
        if all entries were counted by hour, because `prune` counts them first.
        """
        self._verified()
        write, never = self._dialect.write, datetime.min.replace(tzinfo=UTC)
        with self._database.reading() as connection:
            keeps_last = self._hours.find_obstacle(connection) is None
            is_not_last = f"id < (SELECT max(id) FROM {self._table})"
            entry = f"{_OVER} AND {is_not_last}" if keeps_last else _OVER
            of_entry = [write(before or never), write(parked_before)]
            ((entries, bodies),) = connection.fetch(
                f"SELECT count(CASE WHEN {entry} THEN 1 END), count(CASE WHEN {_HAS_SPARE_BODY} "
                f"AND NOT ({entry}) THEN 1 END) FROM {self._table}",
                [*of_entry, write(bodies_before or never), *of_entry],
            )
        return Prunable(entries, bodies)

    def forget(self, email: str, *, entries: Collection[str] | None = None) -> Forgotten:
        """Erase the address and the bodies of a person, and other bodies that contain the address.

        An entry whose recipient is not known is the person's if its body contains the address. The
        body of another person's entry is erased unless a retry needs it. A body in which the
        address may be a part of another one stays. See `_core.erasure.address_finder`.

        `entries` are the names of entries of the receiver: what the log has of other ones, or
        without the name of one, is neither searched nor changed. With None, the whole log is.

        Erases in batches, each in a separate transaction.
        """
        self._verified()
        address = stored_recipient(email)
        if not address:
            return Forgotten()
        find, erased, bodies = address_finder(address), 0, 0
        of_entries, names = self._of_entries(entries)
        change = f"UPDATE {self._table} SET {_ERASED} WHERE recipient = %s{of_entries}"
        waiting: list[int] = []
        unread: list[int] = []
        doubtful: list[int] = []
        for low, high in self._ranges():
            own = partial(self._change_batch, change, [address, *names, low, high])
            erased += _retried(own)
            for group in self._candidates(address, entries, low, high):
                by_id = {each.id: each.body or "" for each in group}
                found = {id_: find(body) for id_, body in by_id.items()}
                certain = [id_ for id_, each in found.items() if each is Occurrence.CERTAIN]
                doubtful += [id_ for id_, each in found.items() if each is Occurrence.DOUBTFUL]
                others = [id_ for id_, each in found.items() if each is Occurrence.NONE]
                unread += [id_ for id_ in others if not is_searchable(by_id[id_])]
                if certain:
                    own_bodies, of_others, left = _retried(partial(self._erase_bodies, certain))
                    erased, bodies = erased + own_bodies, bodies + of_others
                    waiting += left
        return Forgotten(erased, bodies, tuple(waiting), tuple(unread), tuple(doubtful))

    def _candidates(
        self, address: str, entries: Collection[str] | None, low: int, high: int
    ) -> Iterator[Sequence[StoredEntry]]:
        """Yield the entries, in groups, whose bodies may contain an address in any form.

        They are only those of some of the receiver's `entries`, or all with None.
        """
        texts = [self._dialect.fold("ascii", "body"), *["body"] * len(ESCAPING)]
        contain = " OR ".join(f"{text} LIKE %s ESCAPE '!'" for text in texts)
        patterns = [f"%{each.translate(_LIKE)}%" for each in (address, *ESCAPING)]
        patterns[0] = patterns[0].replace("@", "_")  # `_` matches any character
        of_entries, names = self._of_entries(entries)
        where = (
            f"({contain} OR {self._dialect.is_not_ascii('body')}){of_entries} "
            f"AND {ID_IS_WITHIN} ORDER BY id"
        )
        while group := self._read(where, [*patterns, *names, low, high]):
            yield group
            low = group[-1].id + 1

    def _of_entries(self, names: Collection[str] | None) -> tuple[str, Sequence[Any]]:
        """Return the condition on the names of the receiver's entries, and its parameters."""
        if names is None:
            return "", []
        is_any = self._dialect.any_of("entry", self._dialect.text_type)
        return f" AND {is_any}", [self._dialect.encode([*names])]

    def _erase_bodies(self, ids: Sequence[int]) -> tuple[int, int, Sequence[int]]:
        """Erase entries without a recipient, and the bodies of others that no retry needs.

        Return their numbers, and the ids of the entries that still have a body.
        """
        are_any = self._dialect.any_of("id", self._dialect.id_type)
        values = [self._dialect.encode(ids)]
        erase = self._update_any(_ERASED, "recipient IS NULL AND body IS NOT NULL")
        erase_body = self._update_any("body = NULL", "body IS NOT NULL AND retry_at IS NULL")
        with self._database.transaction() as connection:
            entries = connection.execute(erase, values)
            bodies = connection.execute(erase_body, values)
            left = f"SELECT id FROM {self._table} WHERE {are_any} AND body IS NOT NULL ORDER BY id"
            return entries, bodies, [id_ for (id_,) in connection.fetch(left, values)]

    def bounds(self) -> tuple[int, int] | None:
        """Return the first and the last id, or None if the log is empty."""
        # Two queries, because SQLite would read the whole table for both in one.
        ends = ", ".join(f"(SELECT {end}(id) FROM {self._table})" for end in ("min", "max"))
        with self._database.reading() as connection:
            ((first, last),) = connection.fetch(f"SELECT {ends}")
        return None if first is None else (first, last)

    def first_id_since(self, at: datetime) -> int:
        """Return an id that is not higher than that of any entry that arrived at `at` or later.

        If entries were written as they arrived, it is the lowest id of such an entry, or one past
        the last id. Searches the primary key in about two dozen steps.
        """
        # Entries are in the order in which they were written: at their arrival or later, but no
        # later than `ended_at`. Entries that were written late or retried lead to a lower id.
        first, last = self.bounds() or (1, 0)
        sql = f"SELECT received_at, ended_at FROM {self._table} WHERE id >= %s ORDER BY id LIMIT 1"

        def written_by(id_: int) -> datetime:
            rows = connection.fetch(sql, [id_])
            return max(map(read_time, rows[0])) if rows else datetime.max.replace(tzinfo=UTC)

        with self._database.reading() as connection:
            return first + bisect_left(range(first, last + 1), at, key=written_by)

    def counts(self, since: datetime, bucket: timedelta) -> Counts:
        """Count the entries that arrived since the start of a bucket; buckets begin in 1970.

        Buckets of whole hours are added up from the hourly counts, which outlive pruning, and the
        entries not included in them; shorter buckets only from entries. At most the newest
        `MOST_COUNTED` entries are read. All counts refer to the same moment.
        """
        length, start = bucket // timedelta(seconds=1), self._dialect.write(since)
        with self._database.reading() as connection:
            has_hours = not bucket % ONE_HOUR and self._hours.can_be_read(connection)
        if has_hours:
            sql, values = self._hours.select_all(length), [start] * 3
        else:
            sql = self._hours.select_newest(length, "%s")
            values = [start, self.first_id_since(since) - 1]
        with self._database.reading() as connection:
            rows = connection.fetch(sql, values)
        counts = [
            Count(
                datetime.fromtimestamp(number * length, UTC), type_, reason, Result(name), *figures
            )
            for number, type_, reason, name, *figures, _ in rows
            if number is not None
        ]
        newest = [(entries, written) for *_, entries, _, written in rows if written is not None]
        if sum(entries for entries, _ in newest) < MOST_COUNTED:
            return Counts(counts, None)
        oldest = datetime.fromtimestamp(min(written for _, written in newest), UTC)
        return Counts(counts, oldest if oldest > since else None)

    def recent(self, limit: int, entry: str | None = None) -> Recent:
        """Return a summary of the newest entries.

        If `entry` is given, they are those of that entry of the receiver, among the newest
        `MOST_COUNTED` ones.
        """
        columns = "outcome, record_type, entry"
        where = "" if entry is None else f"WHERE {self._is_recent} AND entry = %s "
        newest = (
            f"SELECT {columns}, last_received_at FROM {self._table} {where}"
            f"ORDER BY id DESC LIMIT {limit}"
        )
        sql = (
            f"SELECT {columns}, count(*), max(last_received_at) FROM ({newest}) AS newest "
            "GROUP BY 1, 2, 3"
        )
        with self._database.reading() as connection:
            rows = connection.fetch(sql, [] if entry is None else [entry])
        last = max((read_time(received) for *_, received in rows), default=None)
        outcomes: Counter[Result] = Counter()
        for outcome, _, _, number, _ in rows:
            outcomes[Result(outcome)] += number
        types, entries = ({row[column] for row in rows} - {None} for column in (1, 2))
        return Recent(last, outcomes, types, entries)

    def deliveries(
        self, since: datetime, entry: str | None = None, *, limit: int
    ) -> Mapping[str, datetime]:
        """Return the times at which messages were delivered, by message id.

        These are from the newest recorded deliveries that arrived since then, among the newest
        `MOST_COUNTED` entries; if `entry` is given, from those of that entry of the receiver.
        """
        of_entry = "" if entry is None else "AND entry = %s "
        sql = (
            f"SELECT message_id, occurred_at FROM {self._table} "
            f"WHERE {self._is_recent} AND record_type = '{RECORD_TYPES[Delivered]}' "
            f"AND outcome = '{Result.RECORDED.value}' "
            "AND message_id IS NOT NULL AND occurred_at IS NOT NULL AND received_at >= %s "
            f"{of_entry}ORDER BY id DESC LIMIT {limit}"
        )
        values = [self._dialect.write(since), *([] if entry is None else [entry])]
        with self._database.reading() as connection:
            rows = connection.fetch(sql, values)
        return {message_id: read_time(occurred_at) for message_id, occurred_at in rows}

    @property
    def _is_recent(self) -> str:
        """The condition of the newest `MOST_COUNTED` entries."""
        return f"id > (SELECT max(id) FROM {self._table}) - {MOST_COUNTED}"

    def count_hours(self) -> bool:
        """Add a chunk of entries to the hourly counts, if the log has any.

        Return whether the next chunk can be counted now. Each entry is counted once, some time
        after it was written.
        """
        self._verified()
        with self._database.transaction() as connection:
            return self._hours.count(connection)

    def recount_hours(self) -> int:
        """Add entries that the hourly counts lack although their ids were counted; return how many.

        Reads the whole log. Raises `SchemaMismatch` if the hourly counts cannot be used.
        """
        self._verified()
        return _retried(self._recount_hours)

    def _recount_hours(self) -> int:
        with self._database.reading() as connection:
            if obstacle := self._hours.find_obstacle(connection):
                raise SchemaMismatch(obstacle)
            missing = self._hours.missing_entries(connection)
        if missing.rows:
            with self._database.transaction() as connection:
                self._hours.add_missing(connection, missing)
        return missing.number

    def add_requests(self, counts: Mapping[RequestHour, int]) -> None:
        """Add numbers of requests.

        They are stored beside the hourly counts and discarded if the log has none.
        """
        with self._transaction() as connection:
            self._hours.add_requests(connection, counts)

    def requests(self, kind: RequestKind, since: datetime) -> Mapping[str, Requests]:
        """Return the requests of a kind in the hours that began since a time, by receiver's entry.

        Entries without any are left out, and those with most come first. The name is empty if the
        receiver had a single provider.
        """
        return self.requests_by_kind(since).get(kind, {})

    def requests_by_kind(self, since: datetime) -> Mapping[RequestKind, Mapping[str, Requests]]:
        """Return the requests of all kinds, as `requests` returns those of one."""
        with self._database.reading() as connection:
            return self._hours.requests(connection, since)

    def active_hours(self, since: datetime) -> Mapping[str, Sequence[datetime]]:
        """Return the hours in which notifications arrived since a time, in order, by entry.

        The name of the receiver's entry is empty as in `requests`. Entries of the log that are not
        counted yet are left out.
        """
        with self._database.reading() as connection:
            return self._hours.active(connection, since)

    def counting_obstacle(self) -> str | None:
        """Return why the hourly counts are incomplete, with the remedy, or None if they are not."""
        with self._database.reading() as connection:
            return self._hours.find_obstacle(connection)

    def _count_all_hours(self) -> bool:
        """Count all entries that are final; return whether the tables of the counts are usable."""
        while _retried(self.count_hours):
            sleep(TASK_PAUSE)
        with self._database.transaction() as connection:
            return self._hours.find_obstacle(connection) is None

    def _last_deletable(self) -> int:
        """Return the highest id that is counted and not the last one.

        It is read beforehand: a DELETE of MariaDB would lock what its subqueries read, and wait for
        a transaction that has just added an entry.
        """
        last = f"SELECT coalesce(max(id), 0) FROM {self._table}"
        with self._database.reading() as connection:
            ((counted, newest),) = connection.fetch(f"SELECT {self._hours.watermark}, ({last})")
        return int(min(counted, newest - 1))

    def _changes_after(self, after: int, limit: int) -> Sequence[RecordedChange]:
        """Return the next changes that have a number. Raises `MissingChanges`."""
        numbered = (
            f"SELECT id, change_number FROM {self._table} WHERE change_number > %s "
            f"ORDER BY change_number LIMIT {limit}"
        )
        is_any = self._dialect.any_of("id", self._dialect.id_type)
        page: Sequence[RecordedChange] = ()
        with self._database.reading() as connection:
            while not page and (numbers := dict(map(tuple, connection.fetch(numbered, [after])))):
                ids = [self._dialect.encode(numbers)]
                entries = self._group(connection, f"{is_any} ORDER BY change_number", ids)
                # One that has been recorded again meanwhile comes later, with another number.
                page = [
                    RecordedChange(numbers[each.id], each)
                    for each in entries
                    if each.change_number == numbers[each.id]
                ]
            # Read last, so that it shows every deletion of an entry that the page lacks.
            last, pruned = self._numbers.bounds(connection)
        continued = f"compare all rows once, and continue after the cursor {pruned}"
        if after < pruned:
            since = f"after the cursor {after}" if after else "from before the first cursor"
            raise MissingChanges(
                f"Changes {since} have been deleted from the log: {continued}.", pruned
            )
        if after > last:
            raise MissingChanges(
                f"The cursor {after} is later than the last change, {last}: if the server lags, "
                "try again; if the log is another one, or was restored from a backup, "
                f"{continued}.",
                pruned,
            )
        return page

    def _assign_numbers(self) -> int:
        """Assign numbers to some of the changes without one; return how many."""
        with self._transaction() as connection:
            return self._numbers.assign(connection)

    def _delete_bodies(self, connection: Connection, values: Sequence[Any], *, where: str) -> int:
        """Delete the bodies of the entries that meet a condition; return their number."""
        return connection.execute(f"UPDATE {self._table} SET body = NULL WHERE {where}", values)

    def _delete(self, connection: Connection, values: Sequence[Any], *, where: str) -> int:
        """Delete the entries that meet a condition; return their number."""
        where = self._numbers.note_deletion(connection, where, values)
        return connection.execute(f"DELETE FROM {self._table} WHERE {where}", values)

    def _prune_batch(
        self, prune: Callable[..., int], values: Sequence[Any], low: int, high: int
    ) -> tuple[int, datetime | None] | None:
        """Return the number of changed entries, and when the oldest remaining one was received.

        `prune` deletes those of the range, or their bodies. Returns None if another process is
        pruning.
        """
        oldest = f"SELECT min(received_at) FROM {self._table} WHERE {ID_IS_WITHIN}"
        with self._database.transaction() as connection:
            catalogue = catalogue_of(connection, self._dialect)
            if not catalogue.try_lock(Lock.PRUNING, self._record):
                return None
            count = prune(connection, [*values, low, high])
            return count, utc(connection.fetch(oldest, [low, high])[0][0])

    def _update_any(self, assignments: str, condition: str = "") -> str:
        """Return the UPDATE of the entries whose ids are in one parameter."""
        id_type = self._dialect.id_type
        return self._dialect.update_any(self._table, assignments, "id", id_type, condition)

    def _change_batch(self, change: str, values: Sequence[Any]) -> int:
        with self._database.transaction() as connection:
            return connection.execute(f"{change} AND {ID_IS_WITHIN}", values)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of ids for one transaction each, oldest first."""
        first, last = self.bounds() or (1, 0)
        for low in range(first, last + 1, IDS_PER_BATCH):
            yield low, low + IDS_PER_BATCH - 1

    def _page(
        self, query: Query, ids: tuple[int, int], rest: str, *, bodies: bool
    ) -> Sequence[StoredEntry]:
        # As an expression, so that the index of the parked entries is used, not the primary key.
        id_ = "id + 0" if query.parked else "id"
        within = f"{id_} BETWEEN %s AND %s"
        where, values = conditions(self._dialect, within, ids, query, ordered=True)
        return self._read(f"{where} ORDER BY {id_} {rest}", values, bodies=bodies)

    def _read(
        self, where: str, values: Sequence[Any], *, bodies: bool = True
    ) -> Sequence[StoredEntry]:
        if not bodies:
            return list(map(stored_entry, self._select(BODILESS, where, values)))
        with self._database.reading() as connection:
            return self._group(connection, where, values)

    def _group(
        self, connection: Connection, where: str, values: Sequence[Any]
    ) -> Sequence[StoredEntry]:
        """Return the leading entries whose bodies make one group."""
        is_any = self._dialect.any_of("id", self._dialect.id_type)
        sizes = f"SELECT id, {self._dialect.size}(body) FROM {self._table} WHERE {where}"
        rows = f"SELECT {ALL_COLUMNS} FROM {self._table} WHERE {is_any}"
        # If all of them have been deleted since, this is not the end of the log.
        while ids := within_size(map(tuple, connection.fetch(sizes, values))):
            entries = map(stored_entry, connection.fetch(rows, [self._dialect.encode(ids)]))
            if by_id := {each.id: each for each in entries}:
                return [by_id[id_] for id_ in ids if id_ in by_id]
        return []

    def _select(self, columns: str, where: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        with self._database.reading() as connection:
            return connection.fetch(f"SELECT {columns} FROM {self._table} WHERE {where}", values)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self._verified()
        with self._database.transaction() as connection:
            yield connection


def _retried(work: Callable[[], T]) -> T:
    """Call `work`, and call it again, after a pause, if it conflicts with another transaction."""
    for pause in CONFLICT_PAUSES:
        with suppress(Conflict):
            return work()
        # Without jitter, two processes that conflicted would conflict again.
        sleep(pause * uniform(0.5, 1.5))  # noqa: S311 - not cryptographic
    return work()
