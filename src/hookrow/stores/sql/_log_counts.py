"""Counts the log's entries by time of arrival, the newest ones by outcome, and requests by hour.

One statement reads the hourly counts and the entries not in them, so that each entry counts once
while a receiver moves entries from one to the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from hookrow._core.log_entry import RECORD_TYPES
from hookrow._core.notification import Delivered
from hookrow._core.result import Result
from hookrow.stores._log import MOST_COUNTED, Count, Counts, Recent, RequestKind, Requests
from hookrow.stores.sql._connections import Connection, Database
from hookrow.stores.sql._dialects import Dialect, read_time, utc
from hookrow.stores.sql._hours import HAS_RECOVERED, HOURLY_KEYS, ONE_HOUR, RECOVERED, HourlyCounts

MOST_RECOVERED = 10_000
"""The largest number of recovered entries not in the hourly counts that are read.

If PostgreSQL expected many more, it would compile the statement, which would take longer than
running it.
"""

_COUNTED_COLUMNS = "received_at, ended_at, record_type, reason, outcome, first_outcome"

_REQUESTS = ", ".join(f"'{kind.value}'" for kind in RequestKind)


def read_counts(
    database: Database,
    hours: HourlyCounts,
    since: datetime,
    bucket: timedelta,
    first_id_since: Callable[[datetime], int],
) -> Counts:
    """Return the result of `SQLLog.counts`.

    `first_id_since` is the method of `SQLLog`, called if the hourly counts cannot be used.
    """
    length, start = bucket // timedelta(seconds=1), database.dialect.write(since)
    with database.reading() as connection:
        has_hours = not bucket % ONE_HOUR and hours.can_be_read(connection)
    if has_hours:
        sql, values = _of_hours(hours, length), [start] * 3
    else:
        sql, values = _newest(hours, length, "%s"), [start, first_id_since(since) - 1]
    with database.reading() as connection:
        rows = connection.fetch(sql, values)
    counts = [
        Count(datetime.fromtimestamp(number * length, UTC), type_, reason, Result(name), *figures)
        for number, type_, reason, name, *figures, _ in rows
        if number is not None
    ]
    newest = [(entries, written) for *_, entries, _, written in rows if written is not None]
    if sum(entries for entries, _ in newest) < MOST_COUNTED:
        return Counts(counts, None)
    oldest = datetime.fromtimestamp(min(written for _, written in newest), UTC)
    return Counts(counts, oldest if oldest > since else None)


def read_recent(database: Database, table: str, limit: int) -> Recent:
    """Return the result of `SQLLog.recent`. `table` is the log's name in SQL."""
    columns = "outcome, record_type"
    newest = f"SELECT {columns}, last_received_at FROM {table} ORDER BY id DESC LIMIT {limit}"
    sql = (
        f"SELECT {columns}, count(*), max(last_received_at) FROM ({newest}) AS newest GROUP BY 1, 2"
    )
    with database.reading() as connection:
        rows = connection.fetch(sql)
    last = max((read_time(received) for *_, received in rows), default=None)
    outcomes: Counter[Result] = Counter()
    for outcome, _, number, _ in rows:
        outcomes[Result(outcome)] += number
    return Recent(last, outcomes, {type_ for _, type_, *_ in rows if type_})


def read_deliveries(
    database: Database, table: str, since: datetime, limit: int
) -> Mapping[str, datetime]:
    """Return the result of `SQLLog.deliveries`. `table` is the log's name in SQL."""
    sql = (
        f"SELECT message_id, occurred_at FROM {table} "
        f"WHERE id > (SELECT max(id) FROM {table}) - {MOST_COUNTED} "
        f"AND record_type = '{RECORD_TYPES[Delivered]}' AND outcome = '{Result.RECORDED.value}' "
        "AND message_id IS NOT NULL AND occurred_at IS NOT NULL AND received_at >= %s "
        f"ORDER BY id DESC LIMIT {limit}"
    )
    with database.reading() as connection:
        rows = connection.fetch(sql, [database.dialect.write(since)])
    return {message_id: read_time(occurred_at) for message_id, occurred_at in rows}


def add_requests(
    connection: Connection, hours: HourlyCounts, counts: Mapping[tuple[RequestKind, datetime], int]
) -> None:
    """Add requests by kind and hour, unless the tables do not allow it."""
    if not hours.are_usable(connection):
        return
    sql = hours.insert("VALUES (%s, '', '', %s, %s, 0)")
    # In the order of the hours, so that two processes cannot deadlock.
    rows = sorted((hour, kind.value, number) for (kind, hour), number in counts.items())
    connection.execute_many(sql, [(hours.dialect.write(hour), *rest) for hour, *rest in rows])


def read_requests(
    database: Database, hours: HourlyCounts, kind: RequestKind, since: datetime
) -> Requests:
    """Return the result of `SQLLog.requests`."""
    total = hours.dialect.as_integer("coalesce(sum(entries), 0)")
    sql = (
        f"SELECT {total}, min(hour), max(hour) "
        f"FROM {hours.table} WHERE hour >= %s AND first_outcome = '{kind.value}'"
    )
    with database.reading() as connection:
        if not hours.can_be_read(connection):
            return Requests(0, None, None)
        ((number, first, last),) = connection.fetch(sql, [hours.dialect.write(since)])
    return Requests(number, utc(first), utc(last))


def _of_hours(hours: HourlyCounts, length: int) -> str:
    """Return the SELECT of the hourly counts, newer entries, and recoveries not yet counted."""
    entries, recoveries = map(hours.dialect.as_integer, ("sum(entries)", "sum(recovered)"))
    counted = (
        f"SELECT {_bucket(hours.dialect, 'hour', length)}, record_type, reason, first_outcome, "
        f"{entries}, {recoveries}, NULL "
        f"FROM {hours.table} WHERE hour >= %s "
        f"AND first_outcome NOT IN ({_REQUESTS}) GROUP BY 1, 2, 3, 4"
    )
    late = f"{RECOVERED} AND id <= {hours.watermark}"
    recovered = _grouped(hours, length, "0, count(*), NULL", late, MOST_RECOVERED)
    return " UNION ALL ".join([_newest(hours, length, hours.watermark), counted, recovered])


def _newest(hours: HourlyCounts, length: int, after: str) -> str:
    """Return the SELECT that counts the newest entries after an id.

    The last column is when the oldest was written.
    """
    written = hours.dialect.epoch("min(ended_at)")
    figures = f"count(*), count(CASE WHEN {HAS_RECOVERED} THEN 1 END), {written}"
    return _grouped(hours, length, figures, f"id > {after}", MOST_COUNTED)


def _grouped(hours: HourlyCounts, length: int, figures: str, where: str, most: int) -> str:
    """Return the SELECT that counts the newest entries that meet a condition.

    Those that are too old have no bucket.
    """
    number = _bucket(hours.dialect, "received_at", length)
    return (
        f"SELECT CASE WHEN received_at >= %s THEN {number} END, {', '.join(HOURLY_KEYS)}, "
        f"{figures} FROM (SELECT {_COUNTED_COLUMNS} FROM {hours.log} WHERE {where} "
        f"ORDER BY id DESC LIMIT {most}) AS entries GROUP BY 1, 2, 3, 4"
    )


def _bucket(dialect: Dialect, time: str, length: int) -> str:
    """Return the number of a bucket since 1970, whose length is in seconds."""
    return dialect.quotient(dialect.epoch(time), length)
