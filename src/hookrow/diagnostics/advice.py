"""Finds weaknesses in tables that work, such as missing indexes and times without a time zone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from time import time

from hookrow.describe import format_duration
from hookrow.diagnostics.indexes import missing_indexes, quoted
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.observability.logging import mask_email
from hookrow.stores import SchemaChanged, StoreError, Unavailable
from hookrow.stores.errors import message
from hookrow.stores.sql.columns import regclass
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.hours import WRITERS, Hours
from hookrow.stores.sql.mapping_record import REMEDY, mapping_difference
from hookrow.stores.sql.queries import Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

TOLERANCE = 60.0
"""In seconds; clocks that differ by no more than this are considered equal."""

FORGOTTEN_AFTER = timedelta(minutes=10)
"""The age from which an open transaction that delays the hourly counts is reported."""

_UNITS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
"""In seconds."""

_EFFECTS = {
    "behind": "a correct ChangedAt more than 24 hours ahead of it is not trusted",
    "ahead of": "a change without a ChangedAt is dated too late and overrides newer changes",
}
"""The effect of a wrong clock, by its relation to the database's clock."""

_OPEN_TRANSACTIONS = f"""
{WRITERS}, transactions AS (
    SELECT xact_start AS since, concat_ws(', ', format('The transaction of session %%s', pid),
        nullif(application_name, ''), state) AS name,
        format('SELECT pg_terminate_backend(%%s)', pid) AS command
    FROM writers JOIN pg_stat_activity USING (pid)
    UNION ALL
    SELECT prepared, format('The prepared transaction %%L of %%s', gid, owner),
        format('ROLLBACK PREPARED %%L', gid)
    FROM writers JOIN pg_locks USING (virtualtransaction)
    JOIN pg_prepared_xacts ON transaction = transactionid
    WHERE writers.pid IS NULL
)
SELECT name, CAST(extract(epoch FROM now() - since) AS double precision), command
FROM transactions WHERE now() - since >= %s ORDER BY since
"""
"""PostgreSQL shows when the transactions of other users began only to `pg_read_all_stats`."""


def check_weaknesses(
    database: Database, queries: Queries, subjects: Collection[str]
) -> Iterator[CheckResult]:
    """Yield a warning for each weakness of these subjects, and for each failed check."""
    for subject in subjects:
        try:
            with limited_to(STATEMENT_TIMEOUT):
                texts = list(filter(None, WEAKNESSES[subject](database, queries)))
        except StoreError as error:
            # A lookup that cannot be planned, or a damaged file, would fail for notifications, too.
            fails = isinstance(error, Unavailable) and not isinstance(error, SchemaChanged)
            level = Level.ERROR if fails or subject == "indexes" else Level.WARNING
            yield CheckResult(level, subject, f"It cannot be checked: {message(error)}")
        else:
            yield from (CheckResult(Level.WARNING, subject, text) for text in texts)


# -- clocks, times, the log and emails -------------------------------------------------


def compare_clocks(before: float, database: float, after: float) -> str | None:
    """Return a warning if the database's time is more than a minute from this machine's.

    The arguments are in seconds since 1970: this machine's time before and after the query, and
    the database's time.
    """
    # Exclude the duration of the query.
    behind = max(database - after, 0.0) - max(before - database, 0.0)
    if abs(behind) <= TOLERANCE:
        return None
    unit, length = next(each for each in _UNITS.items() if abs(behind) >= 2 * each[1])
    relation = "behind" if behind > 0 else "ahead of"
    return (
        f"This machine's clock is {abs(behind) / length:,.0f} {unit} {relation} the database's. "
        f"If it is wrong, {_EFFECTS[relation]}. Correct the wrong clock and synchronize both with "
        "NTP."
    )


def repeated_emails(database: Database, queries: Queries) -> Iterator[str]:
    """Yield a warning if several subscribers have the same email. Reads a whole table."""
    email = queries.column("subscribers", "email")
    sql = (
        f"SELECT count(*), min(email) FROM (SELECT {queries.dialect.fold('ascii', email)} AS email "
        f"FROM {queries.table('subscribers')} WHERE {email} IS NOT NULL"
        f"{queries.visible('subscribers')} GROUP BY 1 HAVING count(*) > 1) AS repeated"
    )
    with database.reading() as connection:
        ((count, example),) = connection.fetch(sql)
    if count:
        emails = "1 email is" if count == 1 else f"{count} emails are"
        yield (
            f"{emails} in several rows that may differ by case, such as {mask_email(example)}: "
            "hookrow uses the row with the same spelling as the Recipient, or else the lowest id."
        )


def _clock(database: Database, queries: Queries) -> Iterator[str | None]:
    """Compare the clocks. SQLite uses the clock of this machine."""
    if queries.dialect.name == "postgresql":
        before = time()
        with database.reading() as connection:
            ((seconds,),) = connection.fetch("SELECT extract(epoch FROM clock_timestamp())")
        yield compare_clocks(before, float(seconds), time())


def _naive_times(_: Database, queries: Queries) -> Iterator[str]:
    """Yield a warning for each column without a time zone. SQLite's columns have none."""
    for role_name, role in queries.schema.roles.items():
        for column in queries.columns(role_name).values():
            if column.type == "timestamp without time zone":
                table, name = regclass(queries.dialect, role.table), quoted(queries, column.name)
                yield (
                    f"{role.table}.{column.name} has no time zone; hookrow stores UTC. To add one, "
                    f"run: ALTER TABLE {table} ALTER {name} TYPE timestamptz USING {name} "
                    "AT TIME ZONE 'UTC'"
                )


def _other_mapping(database: Database, queries: Queries) -> Iterator[str]:
    if difference := mapping_difference(database, queries.schema):
        yield f"{difference} {REMEDY}"


def _cached_ids(database: Database, queries: Queries) -> Iterator[str]:
    """Yield a warning if sessions reserve ids: some would be lower than ids already counted."""
    log = queries.schema.log
    if log is None or queries.dialect.name != "postgresql":
        return
    sql = (
        "SELECT seqrelid::regclass::text FROM pg_sequence "
        "WHERE seqrelid = pg_get_serial_sequence(%s, 'id')::regclass AND seqcache > 1"
    )
    with database.reading() as connection:
        found = connection.fetch(sql, [regclass(queries.dialect, log)])
    for (sequence,) in found:
        run = f"Run: ALTER SEQUENCE {sequence} CACHE 1"
        yield f"The log's sequence caches ids, so hourly counts may miss entries. {run}"


def _uncounted(database: Database, queries: Queries) -> Iterator[str]:
    log = queries.schema.log
    if log is None:
        return
    hours = Hours(queries.dialect, queries.schema)
    with database.reading() as connection:
        usable = hours.are_usable(connection)
    if not usable:
        yield f"Notifications are not counted by hour. {hours.missing}"
    elif queries.dialect.name == "postgresql":  # on SQLite, all other writers would wait for it
        yield from _open_transactions(database, log)


def _open_transactions(database: Database, log: str) -> Iterator[str]:
    """Yield a warning for each old transaction that may have written to the log."""
    parameters = [regclass(database.dialect, log), f"{FORGOTTEN_AFTER.total_seconds()} s"]
    with database.reading() as connection:
        found = connection.fetch(_OPEN_TRANSACTIONS, parameters)
    for name, seconds, command in found:
        age = format_duration(timedelta(seconds=seconds))
        yield (
            f"{name} has been open for {age}, and has locked the log to write. Until it ends, "
            "neither the hourly counts nor pruning advance. End it where it began or, if that is "
            f"impossible, run: {command}"
        )


WEAKNESSES: Mapping[str, Callable[[Database, Queries], Iterable[str | None]]] = {
    "clock": _clock,
    "times": _naive_times,
    "encoding": lambda _, queries: [queries.warning],
    "mapping": _other_mapping,
    "log": _cached_ids,
    "counts": _uncounted,
    "emails": repeated_emails,
    "indexes": missing_indexes,
}
"""The functions that yield warnings, by subject. Each may raise a `StoreError`."""
