"""Finds weaknesses in tables that work, such as missing indexes and emails in several rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from hookrow._core.keys import effect, keys
from hookrow._core.notification import Key
from hookrow._core.schema import OTHERWISE
from hookrow._describe import describe_unauthentic, format_duration, format_time, pluralize
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.indexes import missing_indexes
from hookrow._diagnostics.stored_values import wrong_emails
from hookrow._observability.logging import mask_email
from hookrow._receiver.clock import clock_difference, describe_difference
from hookrow._receiver.entries import Parsers, listed, why_unread
from hookrow._statistics import read_unauthentic
from hookrow.stores._driver_errors import message
from hookrow.stores._errors import SchemaChanged, StoreError, Unavailable
from hookrow.stores._log import Origin, Waiting
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._connections import Database, server_time
from hookrow.stores.sql._hours import HourlyCounts
from hookrow.stores.sql._keys import described_key, undeclarable_keys
from hookrow.stores.sql._log import SQLLog
from hookrow.stores.sql._mapping_record import REMEDY, MappingRecord
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._statements.base import Statements

_Weaknesses: TypeAlias = Mapping[str, Callable[[Database, RoleTables], Iterable[str]]]

OVERDUE = timedelta(hours=1)
"""How long a retry may be due before `hookrow check` reports it. A sweep runs every minute."""

TOLERATED_DIFFERENCE = timedelta(minutes=1)
"""The greatest difference between two clocks that `hookrow check` does not report."""


def check_weaknesses(
    database: Database,
    tables: RoleTables,
    subjects: Collection[str],
    tenants: Collection[Key] = (),
) -> Iterator[CheckResult]:
    """Yield a warning for each weakness of these subjects, and for each failed check.

    `tenants` are those of the receiver's entries, whose addresses are checked.
    """
    of_tenants: _Weaknesses = {"addresses": partial(wrong_emails, tenants=tenants)}
    weaknesses = {**WEAKNESSES, **of_tenants}
    for subject in subjects:
        try:
            with limited_to(STATEMENT_TIMEOUT):
                texts = list(weaknesses[subject](database, tables))
        except StoreError as error:
            # A lookup that cannot be planned, or a damaged file, would fail for notifications, too.
            fails = isinstance(error, Unavailable) and not isinstance(error, SchemaChanged)
            level = Level.ERROR if fails or subject == "indexes" else Level.WARNING
            yield CheckResult(level, subject, f"It cannot be checked: {message(error)}")
        else:
            yield from (CheckResult(Level.WARNING, subject, text) for text in texts)


def check_waiting(
    database: Database, statements: Statements, parsers: Parsers | None
) -> Iterator[CheckResult]:
    """Check that retries keep up, and count the log entries that will not be retried any more.

    Those that none of the `parsers` reads are counted separately, in a warning for each origin,
    because no retry records them. Without `parsers`, which are then not known, all are retried.
    """
    log = SQLLog(database, statements.tables.schema, lambda: statements)
    now = datetime.now(UTC)
    try:
        with limited_to(STATEMENT_TIMEOUT):
            waiting = log.waiting(now)
    except StoreError as error:
        text = f"They cannot be checked: {message(error)}"
        yield CheckResult(Level.WARNING, "retries", text)
        return
    read = waiting.keys() if parsers is None else waiting.keys() & parsers.origins
    yield _check_retries([waiting[each] for each in read], now)
    if parsers is not None:
        for origin in sorted(waiting.keys() - read, key=str):
            yield _check_origin(origin, waiting[origin], parsers)


def _check_retries(waiting: Collection[Waiting], now: datetime) -> CheckResult:
    """Check the entries that the receiver reads."""
    expired = sum(each.expired for each in waiting)
    to_unknown_addresses = sum(each.to_unknown for each in waiting)
    overdue = now - min((each.oldest_due for each in waiting if each.oldest_due), default=now)
    parked = sum(each.parked for each in waiting)
    texts = [f"{pluralize(parked, 'notification')} in the log will be retried"]
    if overdue:
        texts[0] += f"; the oldest retry has been due for {format_duration(overdue)}"
    if overdue > OVERDUE:
        texts.append("No sweep is running, or it cannot keep up: run `hookrow replay --parked`")
    if expired:
        texts.append(
            f"{pluralize(expired, 'notification')}, of which {to_unknown_addresses:,} for unknown "
            "addresses, could not be recorded in time: see `hookrow log --expired`. Once their "
            "rows exist, `hookrow replay --expired` records them"
        )
    is_fault = overdue > OVERDUE or expired > to_unknown_addresses
    level = Level.WARNING if is_fault else Level.OK
    return CheckResult(level, "retries", "".join(f"{text}. " for text in texts).rstrip())


def _check_origin(origin: Origin, waiting: Waiting, parsers: Parsers) -> CheckResult:
    """Return the warning about the entries of an origin, which the receiver does not read."""
    count = waiting.parked + waiting.expired
    text, remedy = why_unread(origin, parsers)
    return CheckResult(
        Level.WARNING,
        "entries",
        f"This receiver cannot record {pluralize(count, 'parked or expired notification')}: "
        f"{text}.",
        remedy=f"{remedy}, or replay them with a receiver that has it: `hookrow --app`.",
    )


def check_unauthentic(database: Database, statements: Statements) -> Iterator[CheckResult]:
    """Yield a warning if requests of the last day had no valid secret."""
    log = SQLLog(database, statements.tables.schema, lambda: statements)
    try:
        with limited_to(STATEMENT_TIMEOUT):
            requests = read_unauthentic(log, datetime.now(UTC))
    except StoreError as error:
        text = f"They cannot be checked: {message(error)}"
        yield CheckResult(Level.WARNING, "requests", text)
        return
    if requests:
        first = min(each.first for each in requests.values())
        last = max(each.last for each in requests.values())
        yield CheckResult(
            Level.WARNING,
            "requests",
            f"{describe_unauthentic(requests)}, the first in the hour from {format_time(first)}, "
            f"the last in that from {format_time(last)}.",
            "If the provider sent them, their notifications are not recorded.",
            "The status above says how many had no secret, how many had a wrong one, and whether "
            "`hookrow provider status` or `hookrow check` with the URL of the webhook finds the "
            "cause.",
        )


def check_tenants(
    database: Database, tables: RoleTables, tenants: Mapping[str, Key]
) -> Iterator[CheckResult]:
    """Yield a warning for the tenants of entries, by name, of which no subscriber is a row."""
    try:
        with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
            missing = [
                name
                for name, tenant in tenants.items()
                if not connection.fetch(*_subscriber_of(tables, tenant))
            ]
    except StoreError as error:
        text = f"They cannot be checked: {message(error)}"
        yield CheckResult(Level.WARNING, "tenants", text)
        return
    if missing:
        role = tables.schema.subscribers
        text = (
            f"No row of {role.table!r} has the tenant of these entries in {role.tenant!r}: "
            f"{listed(missing)}. Their notifications find no subscriber: if the tenants have "
            "subscribers, correct the values of the entries."
        )
        yield CheckResult(Level.WARNING, "tenants", text)


def _subscriber_of(tables: RoleTables, tenant: Key) -> tuple[str, Sequence[Any]]:
    """Return the statement that finds any subscriber of a tenant, and its parameters."""
    condition, values = tables.of_tenant("subscribers", tenant)
    visible = tables.visible("subscribers")
    sql = f"SELECT 1 FROM {tables.table('subscribers')} WHERE {condition}{visible} LIMIT 1"
    return sql, values


def repeated_emails(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning if several subscribers have the same email. Reads a whole table.

    Subscribers of different tenants may have the same. Emails whose rows differ by case, and
    others, have separate warnings.
    """
    email = tables.column("subscribers", "email")
    spelling = f"{tables.text('subscribers', 'email')} COLLATE {tables.dialect.binary}"
    # The collation of the column may regard further emails as equal.
    folded = tables.dialect.fold("ascii", spelling)
    rows = (
        f"FROM {tables.table('subscribers')} WHERE {email} IS NOT NULL"
        f"{tables.visible('subscribers')}"
    )
    of_tenant = f", {tables.tenant('subscribers')}" if tables.tenants else ""
    large = f"GROUP BY 1{of_tenant} HAVING count(*) > 1"
    selected = tables.dialect.preselected(folded, f"SELECT {folded} {rows} {large}")
    repeated = (
        f"{tables.dialect.select_many_groups} {folded} AS email, "
        f"count(*) > count(DISTINCT {spelling}) AS equal {rows}{selected} {large}"
    )
    sql = (
        f"SELECT equal, count(*), min(email) FROM ({repeated}) AS repeated "
        "GROUP BY equal ORDER BY equal"
    )
    with database.reading() as connection:
        found = connection.fetch(sql)
    for equal, count, example in found:
        emails = pluralize(count, "email is", "emails are")
        differ = "with the same spelling" if equal else "that differ only by case"
        yield f"{emails} in several rows {differ}, such as {mask_email(example)}: {_CHOICE}"


_CHOICE = (
    "hookrow uses the row that owns a dispatch with the notification's MessageID, or else the row "
    "with the Recipient's spelling, or else the lowest id. Manual suppressions and reactivations "
    "at the provider have no MessageID, so they may change the wrong person's row. Make emails "
    "unique regardless of case or, if the rows belong to several tenants, name the column with the "
    "tenant of a row in the mapping: `tenant`."
)


def _unprotected_keys(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning for each key that no index can keep unique."""
    with database.reading() as connection:
        roles = list(undeclarable_keys(catalogue_of(connection, tables.dialect), tables))
    for role in roles:
        key = described_key(tables, role, keys(tables.schema)[role])
        then = "" if role == "messages" else ", and would get a 503 instead"
        yield (
            f"No index keeps the {key} unique, because this is a view, a foreign table, or a table "
            "with partitions or children. Make sure that no two rows have the same key: otherwise, "
            f"{effect(role)}{then}."
        )


def _policies(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning for each table in which row-level security may exclude rows."""
    changed = {kind.value for kind in tables.written}
    for role, each in tables.schema.roles.items():
        commands = ["SELECT", "UPDATE"] if role in changed else ["SELECT"]
        with database.reading() as connection:
            catalogue = catalogue_of(connection, tables.dialect)
            user = catalogue.restricting_user(each.table, commands)
            table = catalogue.statement_name(each.table)
        if user is None:
            continue
        policies = "; ".join(
            f"CREATE POLICY hookrow_{command.lower()} ON {table} FOR {command} TO {user} "
            "USING (true)"
            for command in commands
        )
        refused = ""
        if role in changed:
            refused = ", and notifications get a 503 if a policy forbids the update"
        yield (
            f"Row-level security is active for {each.table!r} and the user {user}: rows that "
            f"its policies hide are not found{refused}. Connect as a role with BYPASSRLS, or "
            f"run: {policies}"
        )


def _lossy_times(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning for each column that cannot hold every time, or not all of it."""
    with database.reading() as connection:
        catalogue = catalogue_of(connection, tables.dialect)
        for name, role in tables.schema.roles.items():
            for column in tables.columns(name).values():
                if text := catalogue.time_advice(role.table, column):
                    yield text


def _lossy_texts(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning for each column that cannot hold every text of the provider's."""
    are_mapped = OTHERWISE in (tables.schema.reasons or {})  # then, all reasons are the host's
    names = ("bounce_type",) if are_mapped else ("bounce_type", "suppression_reason")
    with database.reading() as connection:
        catalogue = catalogue_of(connection, tables.dialect)
        for role, columns in ((each, tables.columns(each)) for each in tables.schema.roles):
            for column in (columns[name] for name in names if name in columns):
                if text := catalogue.text_advice(tables.schema.roles[role].table, column):
                    yield text


def _wrong_clock(database: Database, _: RoleTables) -> Iterator[str]:
    """Yield a warning if this machine's clock differs from the server's. SQLite has no server."""
    difference = clock_difference(partial(server_time, database), lambda: datetime.now(UTC))
    if difference is not None and abs(difference) > TOLERATED_DIFFERENCE:
        yield (
            f"The clock of this machine is {describe_difference(difference)}, compared with the "
            "database's: set it, for example with NTP. Receivers correct a difference of more than "
            "an hour, but not a smaller one."
        )


def _other_mapping(database: Database, tables: RoleTables) -> Iterator[str]:
    if tables.schema.log is None:
        return
    if difference := MappingRecord(database, tables).difference():
        yield f"{difference} {REMEDY}"


def _cached_ids(database: Database, tables: RoleTables) -> Iterator[str]:
    """Yield a warning if sessions reserve ids: some would be lower than ids already counted."""
    log = tables.schema.log
    if log is None:
        return
    with database.reading() as connection:
        sequence = catalogue_of(connection, tables.dialect).caching_sequence(log)
    if sequence is not None:
        run = f"Run: ALTER SEQUENCE {sequence} CACHE 1"
        yield f"The log's sequence caches ids, so hourly counts may miss entries. {run}"


def _uncounted(database: Database, tables: RoleTables) -> Iterator[str]:
    log = tables.schema.log
    if log is None:
        return
    hours = HourlyCounts(tables.dialect, tables.schema)
    with database.reading() as connection:
        usable = hours.are_usable(connection)
    if not usable:
        yield f"Notifications are not counted by hour. {hours.missing}"


WEAKNESSES: _Weaknesses = {
    "times": _lossy_times,
    "texts": _lossy_texts,
    "clock": _wrong_clock,
    "mapping": _other_mapping,
    "log": _cached_ids,
    "counts": _uncounted,
    "keys": _unprotected_keys,
    "policies": _policies,
    "emails": repeated_emails,
    "addresses": wrong_emails,
    "indexes": missing_indexes,
}
"""The functions that yield warnings, by subject. Each may raise a `StoreError`."""
