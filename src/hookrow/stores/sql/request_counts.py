"""The SQL of requests that are counted by hour beside the log's entries.

No sum of entries includes them, because no entry can have their first outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from hookrow.stores.log import Unauthentic
from hookrow.stores.sql.connections import Connection
from hookrow.stores.sql.dialects import utc
from hookrow.stores.sql.hours import COLUMNS, Hours

UNAUTHENTIC = "unauthentic"
"""Requests without a valid secret."""

OLD_SECRET = "old secret"  # noqa: S105 - a name
"""Requests with a valid secret that is not the newest."""


def add_requests(
    hours: Hours, connection: Connection, outcome: str, counts: Mapping[datetime, int]
) -> None:
    """Add requests by hour, unless the tables do not allow it."""
    if not hours.are_usable(connection):
        return
    sql = (
        f"INSERT INTO {hours.table} AS counts ({', '.join(COLUMNS)}, entries, recovered) "
        f"VALUES (%s, '', '', '{outcome}', %s, 0) ON CONFLICT ({', '.join(COLUMNS)}) "
        "DO UPDATE SET entries = counts.entries + excluded.entries"
    )
    # In the order of the hours, so that two processes cannot deadlock.
    rows = [(hours.dialect.write(hour), number) for hour, number in sorted(counts.items())]
    connection.execute_many(sql, rows)


def read_unauthentic(hours: Hours, connection: Connection, since: datetime) -> Unauthentic:
    """Return the requests without a valid secret since an hour."""
    if not hours.can_be_read(connection):
        return Unauthentic(0, None)
    sql = (
        f"SELECT CAST(coalesce(sum(entries), 0) AS bigint), min(hour) FROM {hours.table} "
        f"WHERE hour >= %s AND first_outcome = '{UNAUTHENTIC}'"
    )
    ((requests, first),) = connection.fetch(sql, [hours.dialect.write(since)])
    return Unauthentic(requests, utc(first))


def last_old_secret(hours: Hours, connection: Connection) -> datetime | None:
    """Return the last hour in which an old secret was used."""
    if not hours.can_be_read(connection):
        return None
    sql = f"SELECT max(hour) FROM {hours.table} WHERE first_outcome = '{OLD_SECRET}'"
    return utc(connection.fetch(sql)[0][0])
