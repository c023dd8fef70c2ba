"""Checks the configuration and its database; each result states the remedy of a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Protocol

from hookrow import migrations
from hookrow.core.schema import Schema
from hookrow.diagnostics.advice import cached_ids, missing_indexes, naive_times, repeated_emails
from hookrow.diagnostics.clock import check_clock
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.observability.logging import mask_email
from hookrow.providers.postmark import SHORTEST_SECRET, Postmark
from hookrow.stores import AccessDenied, StoreError, Unavailable
from hookrow.stores.errors import message
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.hours import Hours
from hookrow.stores.sql.mapping_record import mapping_difference
from hookrow.stores.sql.queries import Queries
from hookrow.stores.sql.urls import missing_file, open_database
from hookrow.stores.sql.verify import encoding_fault, verify


class Configuration(Protocol):
    """The settings that are checked."""

    @property
    def database_url(self) -> str:
        """The URL of the database."""

    @property
    def schema(self) -> Schema:
        """The mapping of the tables."""

    @property
    def secret_file(self) -> str | None:
        """The file with the secrets, if they are in a file."""

    def accepted(self) -> Sequence[str]:
        """Return the accepted secrets. Raises `ConfigurationError`."""


def check(settings: Configuration) -> Iterator[CheckResult]:
    """Check the secrets, the database and its tables; an error ends the checks."""
    yield check_secrets(settings)
    try:
        with closing(open_database(settings.database_url)) as database:
            results = list(check_database(database, settings.schema))
            yield from results
            if all(each.level is Level.OK for each in results):
                yield from _check_rows(database, verify(database, settings.schema))
    except ConfigurationError as error:
        yield CheckResult(Level.ERROR, "database", str(error))


def check_secrets(settings: Configuration) -> CheckResult:
    """Check that the secrets are valid, long and readable only by their owner; show none."""
    try:
        secrets = settings.accepted()
        Postmark(*secrets)
    except ConfigurationError as error:
        return CheckResult(Level.ERROR, "secret", str(error))
    shortest = min(map(len, secrets))
    if shortest < SHORTEST_SECRET:
        text = f"It has {shortest} characters and can be guessed: use {SHORTEST_SECRET} or more."
        return CheckResult(Level.WARNING, "secret", text)
    if settings.secret_file and Path(settings.secret_file).stat().st_mode & 0o077:
        text = f"Other users can read the file. Run: chmod 600 {settings.secret_file}"
        return CheckResult(Level.WARNING, "secret", text)
    return CheckResult(Level.OK, "secret", "It is set.")


def check_database(database: Database, schema: Schema) -> Iterator[CheckResult]:
    """Check that the database responds, is migrated, and has the schema's tables and columns."""
    if file := missing_file(database):
        text = f"There is no {file}. Run: hookrow db upgrade"
        yield CheckResult(Level.ERROR, "database", text)
        return
    try:
        current = migrations.current(database)
    except AccessDenied as error:
        yield CheckResult(Level.ERROR, "access", str(error))
        return
    except Unavailable as error:
        text = f"{error}. Start it, or set HOOKROW_DATABASE_URL."
        yield CheckResult(Level.ERROR, "database", text)
        return
    yield CheckResult(Level.OK, "database", f"{database} responds.")
    tables = check_tables(database, schema)
    if needed := migrations.needed(schema):
        by_the_host = not current and tables.level is Level.OK
        revision = _OWN_MIGRATIONS if by_the_host else _check_revision(current, needed)
        yield revision
        if revision.level is Level.ERROR:
            return
    yield tables


_OWN_MIGRATIONS = CheckResult(
    Level.OK, "migrations", "Your own migrations created hookrow's tables."
)


def check_tables(database: Database, schema: Schema) -> CheckResult:
    """Check that the database has the tables and columns, with types that can work."""
    try:
        verify(database, schema)
    except HookrowError as error:
        return CheckResult(Level.ERROR, "tables", str(error))
    return CheckResult(Level.OK, "tables", "All tables and columns exist.")


def _check_revision(current: Sequence[str], needed: Sequence[str]) -> CheckResult:
    newest = ", ".join(needed)
    for revision in current:
        if not migrations.is_known(revision):
            return CheckResult(Level.ERROR, "migrations", migrations.UNKNOWN.format(revision))
    if set(needed) <= set(current):
        return CheckResult(Level.OK, "migrations", f"They are up to date (revisions {newest}).")
    state = f"at {', '.join(current)}, not at {newest}" if current else "not created yet"
    text = f"hookrow's tables are {state}. Run: hookrow db upgrade"
    return CheckResult(Level.ERROR, "migrations", text)


def _check_rows(database: Database, queries: Queries) -> Iterator[CheckResult]:
    """Check for weaknesses of tables that work."""
    yield from check_clock(database)
    with database.reading() as connection:
        cached = cached_ids(connection, queries)
        hours = Hours(database.dialect, queries.schema)
        counted = queries.schema.log is None or hours.are_there(connection)
    for column, statement in naive_times(queries):
        text = f"{column} has no time zone; hookrow stores UTC. To add one, run: {statement}"
        yield CheckResult(Level.WARNING, "times", text)
    yield from check_encoding(database)
    yield from check_mapping(database, queries.schema)
    if cached:
        text = f"Its sequence caches ids, so hourly counts may miss entries. Run: {cached}"
        yield CheckResult(Level.WARNING, "log", text)
    if not counted:
        text = f"Notifications are not counted by hour. {hours.missing}"
        yield CheckResult(Level.WARNING, "counts", text)
    yield from check_emails(database, queries)
    yield from _check_indexes(database, queries)


def check_encoding(database: Database) -> Iterator[CheckResult]:
    """Warn if the database cannot store every character. Raises a `StoreError`."""
    with database.reading() as connection:
        fault = encoding_fault(connection, database.dialect)
    if fault:
        yield CheckResult(Level.WARNING, "encoding", fault)


def check_mapping(database: Database, schema: Schema) -> Iterator[CheckResult]:
    """Warn if the log was written for other tables, or if that cannot be read."""
    try:
        difference = mapping_difference(database, schema)
    except StoreError as error:
        difference = f"The record of the mapping cannot be read: {message(error)}"
    if difference:
        yield CheckResult(Level.WARNING, "mapping", difference)


def check_emails(database: Database, queries: Queries) -> Iterator[CheckResult]:
    """Warn of emails that several subscribers have, or if they cannot be compared."""
    try:
        count, example = repeated_emails(database, queries)
    except StoreError as error:
        text = f"They cannot be compared: {message(error)}"
        yield CheckResult(Level.WARNING, "emails", text)
        return
    if count:
        emails = "1 email is" if count == 1 else f"{count} emails are"
        text = (
            f"{emails} in several rows that may differ by case, such as {mask_email(example)}: "
            "hookrow uses the row that is spelled as the Recipient, or else the lowest id."
        )
        yield CheckResult(Level.WARNING, "emails", text)


def _check_indexes(database: Database, queries: Queries) -> Iterator[CheckResult]:
    try:
        with database.reading() as connection:
            missing = list(missing_indexes(connection, queries))
    except StoreError as error:
        yield CheckResult(Level.ERROR, "indexes", f"A lookup fails: {message(error)}")
        return
    for index in missing:
        fold = f' An index for fold="{index.fold}" exists: set that, or add one.'
        steps = f"{fold if index.fold else ''} {index.steps}: {index.statement}"
        yield CheckResult(Level.WARNING, "indexes", f"A lookup reads a whole table.{steps}")
    if not missing:
        yield CheckResult(Level.OK, "indexes", "Every lookup has an index.")
