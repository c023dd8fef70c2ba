"""Looks at a configuration and its database, and says what it finds and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from hookrow import migrations
from hookrow.errors import ConfigurationError, HookrowError
from hookrow.finding import Finding, Level
from hookrow.postmark import Postmark
from hookrow.schema import Schema
from hookrow.settings import Settings
from hookrow.stores import Unavailable
from hookrow.stores.engines import absent, opened, shown
from hookrow.stores.faults import fault
from hookrow.stores.indexes import missing
from hookrow.stores.verification import verify

SHORTEST_SECRET = 16
"""In characters; a shorter secret can be guessed, and is warned of."""


def check(settings: Settings) -> Iterator[Finding]:
    """Look at everything; what cannot be looked at for an error before is left out."""
    yield check_secrets(settings)
    try:
        with opened(settings.database_url) as engine:
            findings = list(check_database(engine, settings.schema))
            yield from findings
            if all(finding.level is Level.OK for finding in findings):
                yield from _check_indexes(engine, settings.schema)
    except ConfigurationError as error:
        yield Finding(Level.ERROR, "database", str(error))


def check_secrets(settings: Settings) -> Finding:
    """Look at the secrets, without showing any."""
    try:
        secrets = settings.accepted()
        Postmark(*secrets)
    except ConfigurationError as error:
        return Finding(Level.ERROR, "secret", str(error))
    shortest = min(map(len, secrets))
    if shortest < SHORTEST_SECRET:
        return Finding(
            Level.WARNING,
            "secret",
            f"It has {shortest} characters and can be guessed: take {SHORTEST_SECRET} or more.",
        )
    if settings.secret_file and Path(settings.secret_file).stat().st_mode & 0o077:
        return Finding(
            Level.WARNING,
            "secret",
            f"Others may read the file: chmod 600 {settings.secret_file}",
        )
    return Finding(Level.OK, "secret", "It is set.")


def check_database(engine: Engine, schema: Schema) -> Iterator[Finding]:
    """Look whether the database answers, is migrated, and has what the schema names."""
    if file := absent(engine):
        yield Finding(Level.ERROR, "database", f"There is no {file}. Run: hookrow db upgrade")
        return
    try:
        current = migrations.current(engine)
    except Unavailable as error:
        yield Finding(Level.ERROR, "database", f"{error}. Start it, or set HOOKROW_DATABASE_URL.")
        return
    yield Finding(Level.OK, "database", f"{shown(engine.url)} answers.")
    if wanted := migrations.heads(schema):
        revision = _check_revision(current, wanted)
        yield revision
        if revision.level is Level.ERROR:
            return
    try:
        verify(engine, schema)
        yield Finding(Level.OK, "tables", "All tables and columns are there.")
    except HookrowError as error:
        yield Finding(Level.ERROR, "tables", str(error))


def _check_revision(current: Sequence[str], wanted: Sequence[str]) -> Finding:
    newest, at = " and ".join(wanted), " and ".join(current)
    for revision in current:
        if not migrations.known(revision):
            return Finding(Level.ERROR, "migrations", migrations.UNKNOWN.format(revision))
    if set(wanted) <= set(current):
        return Finding(Level.OK, "migrations", f"Our tables are at {newest}, the newest.")
    found = f"at {at}, not at {newest}" if current else "not made yet"
    return Finding(Level.ERROR, "migrations", f"Our tables are {found}. Run: hookrow db upgrade")


def _check_indexes(engine: Engine, schema: Schema) -> Iterator[Finding]:
    try:
        with engine.connect() as connection:
            statements = list(missing(connection, verify(engine, schema)))
    except SQLAlchemyError as error:
        yield Finding(Level.ERROR, "indexes", f"A lookup fails: {fault(error)}")
        return
    for statement in statements:
        yield Finding(Level.WARNING, "indexes", f"A lookup reads a whole table. Run: {statement}")
    if not statements:
        yield Finding(Level.OK, "indexes", "Every lookup has an index.")
