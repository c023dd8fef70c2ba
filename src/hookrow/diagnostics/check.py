"""Looks at a configuration and its database, and says what it finds and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Protocol, SupportsFloat

from hookrow import migrations
from hookrow.core.schema import Schema
from hookrow.diagnostics.advice import (
    Relation,
    cached_ids,
    missing_indexes,
    naive_times,
    repeated_emails,
)
from hookrow.diagnostics.clock import SECONDS, compare
from hookrow.diagnostics.result import CheckResult, Level, several_rows
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
    """What a check needs of the settings."""

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
    """Look at everything; what cannot be looked at for an error before is left out."""
    yield check_secrets(settings)
    try:
        with closing(open_database(settings.database_url)) as database:
            findings = list(check_database(database, settings.schema))
            yield from findings
            if all(finding.level is Level.OK for finding in findings):
                yield from _check_tables(database, verify(database, settings.schema))
    except ConfigurationError as error:
        yield CheckResult(Level.ERROR, "database", str(error))


def check_secrets(settings: Configuration) -> CheckResult:
    """Look at the secrets, without showing any."""
    try:
        secrets = settings.accepted()
        Postmark(*secrets)
    except ConfigurationError as error:
        return CheckResult(Level.ERROR, "secret", str(error))
    shortest = min(map(len, secrets))
    if shortest < SHORTEST_SECRET:
        return CheckResult(
            Level.WARNING,
            "secret",
            f"It has {shortest} characters and can be guessed: take {SHORTEST_SECRET} or more.",
        )
    if settings.secret_file and Path(settings.secret_file).stat().st_mode & 0o077:
        return CheckResult(
            Level.WARNING,
            "secret",
            f"Others may read the file: chmod 600 {settings.secret_file}",
        )
    return CheckResult(Level.OK, "secret", "It is set.")


def check_database(database: Database, schema: Schema) -> Iterator[CheckResult]:
    """Look whether the database answers, is migrated, and has what the schema names."""
    if file := missing_file(database):
        yield CheckResult(Level.ERROR, "database", f"There is no {file}. Run: hookrow db upgrade")
        return
    try:
        current = migrations.current(database)
    except AccessDenied as error:
        yield CheckResult(Level.ERROR, "access", str(error))
        return
    except Unavailable as error:
        yield CheckResult(
            Level.ERROR, "database", f"{error}. Start it, or set HOOKROW_DATABASE_URL."
        )
        return
    yield CheckResult(Level.OK, "database", f"{database} answers.")
    fit = check_fit(database, schema)
    if wanted := migrations.needed(schema):
        by_the_host = not current and fit.level is Level.OK
        revision = _THEIR_OWN if by_the_host else _check_revision(current, wanted)
        yield revision
        if revision.level is Level.ERROR:
            return
    yield fit


_THEIR_OWN = CheckResult(Level.OK, "migrations", "Your own migrations created hookrow's tables.")


def check_fit(database: Database, schema: Schema) -> CheckResult:
    """Look whether the database has the tables and columns, of types that can work."""
    try:
        verify(database, schema)
    except HookrowError as error:
        return CheckResult(Level.ERROR, "tables", str(error))
    return CheckResult(Level.OK, "tables", "All tables and columns are there.")


def _check_revision(current: Sequence[str], wanted: Sequence[str]) -> CheckResult:
    newest, at = ", ".join(wanted), ", ".join(current)
    for revision in current:
        if not migrations.is_known(revision):
            return CheckResult(Level.ERROR, "migrations", migrations.UNKNOWN.format(revision))
    if set(wanted) <= set(current):
        return CheckResult(Level.OK, "migrations", f"They are up to date (revisions {newest}).")
    found = f"at {at}, not at {newest}" if current else "not created yet"
    return CheckResult(
        Level.ERROR, "migrations", f"hookrow's tables are {found}. Run: hookrow db upgrade"
    )


def _check_tables(database: Database, queries: Queries) -> Iterator[CheckResult]:
    """Look at what works, and could be better."""
    if database.dialect.name == "postgresql":
        yield from compare(partial(_seconds, database))
    with database.reading() as connection:
        naive = list(naive_times(connection, queries))
        cached = cached_ids(connection, queries)
        hours = Hours(database.dialect, queries.schema)
        counted = queries.schema.log is None or hours.are_there(connection)
    for column, statement in naive:
        yield CheckResult(
            Level.WARNING,
            "times",
            f"{column} holds no time zone; it is given UTC. To keep one, run: {statement}",
        )
    yield from check_encoding(database)
    yield from check_mapping(database, queries.schema)
    if cached:
        yield CheckResult(
            Level.WARNING,
            "log",
            f"Its sequence caches ids, so hourly counts may miss entries. Run: {cached}",
        )
    if not counted:
        text = f"Notifications are not counted by hour. {hours.missing}"
        yield CheckResult(Level.WARNING, "counts", text)
    yield from _check_emails(database, queries)
    yield from _check_indexes(database, queries)


def check_encoding(database: Database) -> Iterator[CheckResult]:
    """Look whether the database can store every character. Raises a `StoreError`."""
    with database.reading() as connection:
        fault = encoding_fault(connection, database.dialect)
    if fault:
        yield CheckResult(Level.WARNING, "encoding", fault)


def check_mapping(database: Database, schema: Schema) -> Iterator[CheckResult]:
    """Look whether the log was written for the same tables. Raises nothing."""
    try:
        difference = mapping_difference(database, schema)
    except StoreError as error:
        difference = f"The record of the mapping cannot be read: {message(error)}"
    if difference:
        yield CheckResult(Level.WARNING, "mapping", difference)


def _seconds(database: Database) -> SupportsFloat:
    """Return the database's time, in seconds since 1970. Raises a `StoreError`."""
    with database.reading() as connection:
        seconds: SupportsFloat = connection.fetch(SECONDS)[0][0]
        return seconds


def _check_indexes(database: Database, queries: Queries) -> Iterator[CheckResult]:
    try:
        with database.reading() as connection:
            lacking = list(missing_indexes(connection, queries))
    except StoreError as error:
        yield CheckResult(Level.ERROR, "indexes", f"A lookup fails: {message(error)}")
        return
    for each in lacking:
        other = f' There is an index for fold="{each.fold}": write that, or another.'
        how = f"{other if each.fold else ''} {_HOW[each.on]}: {each.statement}"
        yield CheckResult(Level.WARNING, "indexes", f"A lookup reads a whole table.{how}")
    if not lacking:
        yield CheckResult(Level.OK, "indexes", "Every lookup has an index.")


_HOW = {
    Relation.TABLE: "Run",
    Relation.PARTITIONED: (
        "It is partitioned: make the index ON ONLY it, then CONCURRENTLY one on each partition to "
        "attach to it; or, which holds up every writer, run"
    ),
    Relation.VIEW: "It is behind a view, which has no index: name that table in this, and run",
}
"""How an index is made, by what it is to be made on."""


def _check_emails(database: Database, queries: Queries) -> Iterator[CheckResult]:
    try:
        count, example = repeated_emails(database, queries)
    except StoreError as error:
        yield CheckResult(Level.WARNING, "emails", f"They could not be compared: {message(error)}")
        return
    if count:
        yield several_rows(count, mask_email(example))
