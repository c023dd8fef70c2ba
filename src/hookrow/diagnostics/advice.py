"""Finds weaknesses in tables that work, such as missing indexes and times without a time zone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from time import time
from typing import NamedTuple

from hookrow.core.schema import Fold
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.observability.logging import mask_email
from hookrow.stores import StoreError
from hookrow.stores.errors import message
from hookrow.stores.sql.columns import is_view, regclass
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.hours import Hours
from hookrow.stores.sql.mapping_record import mapping_difference
from hookrow.stores.sql.queries import Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

TOLERANCE = 60.0
"""In seconds; clocks that differ by no more than this are considered equal."""

_UNITS = {"days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}
"""In seconds."""

_EFFECTS = {
    "behind": "a correct ChangedAt more than 24 hours ahead of it is not trusted",
    "ahead of": "a change without a ChangedAt is dated too late and overrides newer changes",
}
"""The effect of a wrong clock, by its relation to the database's."""

_STEPS = {
    "p": "The table is partitioned: create the index ON ONLY the table, then create one "
    "CONCURRENTLY on each partition and attach it; or, which blocks all writers, run",
    "v": "It is behind a view, which cannot have an index: replace the view's name in this "
    "statement with the table's, and run",
}
"""How to create an index on relations that are not tables, by their `relkind` in PostgreSQL."""

_SINGLE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns by which rows are looked up, except emails and the pairs of subscriptions."""


def check_weaknesses(
    database: Database, queries: Queries, subjects: Collection[str]
) -> Iterator[CheckResult]:
    """Yield a warning for each weakness of these subjects, and for each that cannot be checked."""
    for subject in subjects:
        try:
            with limited_to(STATEMENT_TIMEOUT):
                texts = list(filter(None, WEAKNESSES[subject](database, queries)))
        except StoreError as error:
            # A lookup that cannot be planned would fail for every notification.
            level = Level.ERROR if subject == "indexes" else Level.WARNING
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
        f"If it is wrong, {_EFFECTS[relation]}. Correct the wrong clock and synchronise both with "
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
            "hookrow uses the row that is spelled as the Recipient, or else the lowest id."
        )


def _clock(database: Database, queries: Queries) -> Iterator[str | None]:
    """Compare the clocks. SQLite uses this machine's."""
    if queries.dialect.name == "postgresql":
        before = time()
        with database.reading() as connection:
            ((seconds,),) = connection.fetch("SELECT extract(epoch FROM clock_timestamp())")
        yield compare_clocks(before, float(seconds), time())


def _naive_times(_: Database, queries: Queries) -> Iterator[str]:
    """Yield a warning for each column without a time zone. SQLite's columns have none."""
    for name, role in queries.schema.roles.items():
        for column in queries.columns(name).values():
            if column.type == "timestamp without time zone":
                table, quoted = regclass(queries.dialect, role.table), _quoted(queries, column.name)
                yield (
                    f"{role.table}.{column.name} has no time zone; hookrow stores UTC. To add one, "
                    f"run: ALTER TABLE {table} ALTER {quoted} TYPE timestamptz USING {quoted} "
                    "AT TIME ZONE 'UTC'"
                )


def _cached_ids(database: Database, queries: Queries) -> Iterator[str]:
    """Yield a warning if sessions reserve ids, because some are then lower than counted ones."""
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
        yield f"Its sequence caches ids, so hourly counts may miss entries. {run}"


def _uncounted(database: Database, queries: Queries) -> Iterator[str]:
    if queries.schema.log is not None:
        hours = Hours(queries.dialect, queries.schema)
        with database.reading() as connection:
            if not hours.are_usable(connection):
                yield f"Notifications are not counted by hour. {hours.missing}"


# -- indexes ---------------------------------------------------------------------------


class _Lookup(NamedTuple):
    """A condition on the columns to index, and a pattern that finds the last one in a plan."""

    role: str
    columns: Sequence[str]
    condition: str
    pattern: str
    parameters: Sequence[object] = ()
    fold: Fold | None = None


def missing_indexes(database: Database, queries: Queries) -> Iterator[str]:
    """Yield a warning, which ends with a CREATE INDEX statement, for each lookup without an index.

    The planner decides, not the catalogue: only the planner knows which indexes it can use.
    """
    with database.reading() as connection:
        if queries.dialect.name == "postgresql":
            # It would scan a small table even if an index exists.
            connection.execute("SET LOCAL enable_seqscan = off")
        for lookup in _lookups(queries):
            if not _is_served(connection, queries, lookup):
                yield _missing(connection, queries, lookup)


def _lookups(queries: Queries) -> Iterator[_Lookup]:
    yield _email(queries, queries.schema.subscribers.fold)
    for role, ours in _SINGLE:
        if queries.has(role):
            pattern = rf"{_pattern(queries, role, ours)}|rowid"  # SQLite's name of an integer key
            yield _Lookup(role, [ours], _equals(queries, role, ours), pattern)
    if queries.has("subscriptions"):
        pair = ["list_id", "subscriber_id"]
        condition = " AND ".join(_equals(queries, "subscriptions", ours) for ours in pair)
        # An index on the list alone is not enough: a list may have many subscribers.
        pattern = _pattern(queries, "subscriptions", "subscriber_id")
        yield _Lookup("subscriptions", pair, condition, pattern)


def _email(queries: Queries, fold: Fold) -> _Lookup:
    condition, pattern = queries.email_is_any(fold), _pattern(queries, "subscribers", "email")
    if queries.dialect.fold(fold, "email") != "email":
        pattern += "|<expr>"
    parameters = [queries.dialect.encode([""])]
    return _Lookup("subscribers", ["email"], condition, pattern, parameters, fold)


def _equals(queries: Queries, role: str, ours: str) -> str:
    """Return a condition that compares a column with an unknown value of its type."""
    type_ = queries.columns(role)[ours].type  # empty on SQLite
    return f"{queries.column(role, ours)} = (SELECT NULL{type_ and f'::{type_}'})"


def _pattern(queries: Queries, role: str, ours: str) -> str:
    # PostgreSQL's plans double quotes in a name, SQLite's do not.
    name = re.escape(queries.columns(role)[ours].name).replace('"', '""?')
    return rf"(?<!\w){name}(?!\w)"


def _is_served(connection: Connection, queries: Queries, lookup: _Lookup) -> bool:
    """Return whether the plan searches an index by the column of the lookup.

    PostgreSQL prints the condition, SQLite the columns, or <expr> for an expression. An index on
    only the rows that are not hidden is sufficient. The first query is for all rows, because the
    planner might otherwise prefer an index on the columns that hide rows.
    """
    pattern = rf"(Index Cond: .*|SEARCH .* (INDEX|KEY) .*\(.*)({lookup.pattern})"
    for visible in ("", queries.visible(lookup.role)):
        plan = connection.fetch(
            f"{queries.dialect.explain} SELECT {queries.column(lookup.role, lookup.columns[-1])} "
            f"FROM {queries.table(lookup.role)} WHERE {lookup.condition}{visible}",
            lookup.parameters,
        )
        if any(re.search(pattern, str(row[-1]), re.IGNORECASE) for row in plan):
            return True
    return False


def _missing(connection: Connection, queries: Queries, lookup: _Lookup) -> str:
    """Return the warning. On PostgreSQL, its statement blocks no writers if possible."""
    dialect, table = queries.dialect, queries.schema.roles[lookup.role].table
    names = [queries.columns(lookup.role)[ours].name for ours in lookup.columns]
    columns = [_quoted(queries, name) for name in names]
    if lookup.fold:
        columns = [dialect.fold(lookup.fold, *columns)]
    index = _quoted(queries, f"hookrow_{table.rpartition('.')[2]}_{names[-1]}")
    concurrently = ""
    if dialect.name == "postgresql":
        sql = "SELECT relkind::text FROM pg_class WHERE oid = to_regclass(%s)"
        ((kind,),) = connection.fetch(sql, [regclass(dialect, table)])
        concurrently = "CONCURRENTLY " if kind == "r" else ""
    else:
        kind = "v" if is_view(connection, dialect, table) else "r"
    on = f"{regclass(dialect, table)} ({', '.join(columns)})"
    advice = _STEPS.get(kind, "Run")
    if lookup.fold and (fold := _other_fold(connection, queries, lookup.fold)):
        advice = f'An index for fold="{fold}" exists: set it, or add an index. {advice}'
    statement = f"CREATE INDEX {concurrently}{index} ON {on}"
    return f"A lookup reads a whole table. {advice}: {statement}"


def _other_fold(connection: Connection, queries: Queries, fold: Fold) -> Fold | None:
    """Return the most lenient of the other folds for which the emails have an index."""
    folds: list[Fold] = ["ascii", "lower", "exact"]
    if queries.dialect.name == "sqlite" or queries.columns("subscribers")["email"].type == "citext":
        folds.insert(0, "citext")
    for each in folds:
        if each != fold and _is_served(connection, queries, _email(queries, each)):
            return each
    return None


def _quoted(queries: Queries, name: str) -> str:
    """Return a name as an identifier in a statement that users run: without a driver's escapes."""
    return queries.dialect.quote(name).replace("%%", "%")


WEAKNESSES: Mapping[str, Callable[[Database, Queries], Iterable[str | None]]] = {
    "clock": _clock,
    "times": _naive_times,
    "encoding": lambda _, queries: [queries.warning],
    "mapping": lambda database, queries: [mapping_difference(database, queries.schema)],
    "log": _cached_ids,
    "counts": _uncounted,
    "emails": repeated_emails,
    "indexes": missing_indexes,
}
"""The functions that yield warnings, by subject. Each may raise a `StoreError`."""
