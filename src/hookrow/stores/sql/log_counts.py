"""Counts the log's entries by time of arrival: the hourly counts, and the entries not in them.

One statement reads both, so that each entry counts once while a receiver moves entries from one to
the other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hookrow.core.log_entry import Result
from hookrow.stores import log
from hookrow.stores.log import Count, Counts
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.dialects import Dialect
from hookrow.stores.sql.hours import HOUR, KEYS, RECOVERED, Hours

MOST_RECOVERED = 10_000
"""The largest number of recovered entries not in the hourly counts that are read.

If PostgreSQL expected many more, it would compile the statement, which takes longer than to run it.
"""

_COLUMNS = "received_at, ended_at, record_type, reason, outcome, first_outcome"

_HAS_RECOVERED = (
    f"first_outcome <> '{Result.RECORDED.value}' AND outcome = '{Result.RECORDED.value}'"
)


def read_counts(
    database: Database,
    hours: Hours,
    since: datetime,
    bucket: timedelta,
    reached: Callable[[datetime], int],
) -> Counts:
    """Return the result of `LogReader.counts`.

    `reached` is `LogReader.reached`; it is called if the hourly counts cannot be used.
    """
    length, start = bucket // timedelta(seconds=1), database.dialect.write(since)
    with database.reading() as connection:
        has_hours = not bucket % HOUR and hours.can_be_read(connection)
    if has_hours:
        sql, values = _of_hours(hours, length), [start] * 3
    else:
        sql, values = _newest(hours, length, "%s"), [reached(since) - 1, start]
    with database.reading() as connection:
        rows = connection.fetch(sql, values)
    counts = [
        Count(datetime.fromtimestamp(number * length, UTC), type_, reason, Result(name), *figures)
        for number, type_, reason, name, *figures, _ in rows
    ]
    oldest = datetime.fromtimestamp(rows[0][-1] or 0, UTC) if rows else since
    return Counts(counts, oldest if oldest > since else None)


def _of_hours(hours: Hours, length: int) -> str:
    """Add up the hourly counts, the entries after the watermark, and recoveries before it."""
    number = _bucket(hours.dialect, "hour", length)
    counted = (
        f"SELECT {number}, record_type, reason, first_outcome, "
        "CAST(sum(entries) AS bigint), CAST(sum(recovered) AS bigint) "
        f"FROM {hours.table} WHERE hour >= %s GROUP BY 1, 2, 3, 4"
    )
    recovered = (
        f"SELECT {_COLUMNS} FROM {hours.log} WHERE {RECOVERED} AND id <= {hours.watermark} "
        f"ORDER BY id DESC LIMIT {MOST_RECOVERED}"
    )
    late = _grouped(hours.dialect, length, "0, count(*)", f"({recovered}) AS recovered")
    return _newest(hours, length, hours.watermark, counted, late)


def _newest(hours: Hours, length: int, after: str, *others: str) -> str:
    """Count the newest entries after an id, and add other counts.

    The last column is the time at which the oldest of them was written, if there may be older ones.
    """
    most = log.MOST_COUNTED
    figures = f"count(*), count(*) FILTER (WHERE {_HAS_RECOVERED})"
    counts = " UNION ALL ".join([_grouped(hours.dialect, length, figures, "newest"), *others])
    return (
        f"WITH newest AS MATERIALIZED (SELECT {_COLUMNS} FROM {hours.log} "
        f"WHERE id > {after} ORDER BY id DESC LIMIT {most}) "
        f"SELECT counts.*, (SELECT CASE WHEN count(*) = {most} "
        f"THEN min({hours.dialect.epoch('ended_at')}) END FROM newest) FROM ({counts}) AS counts"
    )


def _grouped(dialect: Dialect, length: int, figures: str, rows: str) -> str:
    number = _bucket(dialect, "received_at", length)
    return (
        f"SELECT {number}, {', '.join(KEYS)}, {figures} FROM {rows} "
        "WHERE received_at >= %s GROUP BY 1, 2, 3, 4"
    )


def _bucket(dialect: Dialect, time: str, length: int) -> str:
    """Return the number of a bucket since 1970, whose length is in seconds."""
    return f"{dialect.epoch(time)} / {length}"
