"""Checks the configuration and its database; each result states the remedy for a fault."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from hookrow import _migrations
from hookrow._core.known_entries import NO_ENTRIES, KnownEntries
from hookrow._core.schema import Schema
from hookrow._describe import pluralize
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.advice import (
    WEAKNESSES,
    check_tenants,
    check_unauthentic,
    check_waiting,
    check_weaknesses,
)
from hookrow._diagnostics.stored_values import check_message_ids
from hookrow._receiver.entries import Parsers
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.providers._secrets import DOUBTFUL, MIN_SECRET_LENGTH, doubt_about
from hookrow.stores._errors import (
    UPGRADE,
    AccessDenied,
    Conflict,
    Detached,
    Locked,
    ReadOnly,
    Rejected,
    SchemaChanged,
    StoreError,
    Unavailable,
    create_tables,
)
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import DENIED
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._statements.base import Statements
from hookrow.stores.sql._transaction import SQLTransaction, begun
from hookrow.stores.sql._urls import missing_file
from hookrow.stores.sql._verify import own_tables, verify


def check_rows(
    results: Sequence[CheckResult], database: Database, schema: Schema, parsers: Parsers | None
) -> Iterator[CheckResult]:
    """Yield the results of `check_database` and, if the tables work, check weaknesses and the log.

    `parsers` are the entries of the receiver, or None if they are not known.
    """
    yield from results
    if all(each.level is Level.OK for each in results):
        yield from check_working(database, schema, WEAKNESSES, parsers)


def check_working(
    database: Database,
    schema: Schema,
    subjects: Collection[str],
    parsers: Parsers | None,
) -> Iterator[CheckResult]:
    """Check tables that work for weaknesses of these subjects, their values, and the log.

    `subjects` must include `indexes`, because tables without a warning about them are reported as
    indexed. For `parsers`, see `check_rows`.
    """
    statements = verify(database, schema)
    tenants = {} if parsers is None else parsers.tenants
    found = check_weaknesses(database, statements.tables, subjects, [*tenants.values()])
    weaknesses = list(found)
    yield from weaknesses
    if "indexes" not in {each.subject for each in weaknesses}:
        yield CheckResult(Level.OK, "indexes", "Every lookup has an index.")
    if statements.tables.tenants:
        yield from check_tenants(database, statements.tables, tenants)
    if parsers is not None:
        yield from check_message_ids(database, statements.tables, parsers)
    if schema.log is not None:
        yield from check_waiting(database, statements, parsers)
        yield from check_unauthentic(database, statements)


def check_secrets(
    read: Callable[[], Sequence[str]], file: str | None = None, *, entry: str | None = None
) -> CheckResult:
    """Check that the secrets are valid, plausible, long and readable only by their owner.

    No secret is shown.

    `read` returns those that the provider accepts, or raises `ConfigurationError`; there are none
    only for a provider of the host's own, which states none. `file` is the path of their file, if
    any, and `entry` the name of their entry, if there are several.
    """
    try:
        secrets = read()
    except ConfigurationError as error:
        return CheckResult(Level.ERROR, "secret", str(error))
    if not secrets:
        return CheckResult(Level.OK, "secret", f"The provider of {entry} verifies requests itself.")
    if doubt := _doubt_about(secrets, file):
        text = doubt if entry is None else f"{entry}: {doubt}"
        return CheckResult(Level.WARNING, "secret", text)
    text = "It is set." if entry is None else f"That of {entry} is set."
    return CheckResult(Level.OK, "secret", text)


def _doubt_about(secrets: Sequence[str], file: str | None) -> str | None:
    """Return why secrets are weak, or why others can read them, or None."""
    for secret in secrets:
        if doubt := doubt_about(secret):
            return DOUBTFUL.format(doubt)
    shortest = min(map(len, secrets))
    if shortest < MIN_SECRET_LENGTH:
        length = pluralize(shortest, "character")
        return (
            f"The webhook secret has {length} and can be guessed: use {MIN_SECRET_LENGTH} or more."
        )
    if file and _is_open_to_others(Path(file).stat()):
        return f"Other users can read the secret file. Run: chmod 600 {file}"
    return None


def _is_open_to_others(file: os.stat_result) -> bool:
    """Return whether a file gives other users access.

    Access of the group counts only if this user owns the file, and could take it back. Otherwise,
    the group may be how this user has access, as to a Secret that Kubernetes mounts (`fsGroup`).
    """
    if sys.platform == "win32":  # other users' permissions are not in the mode there
        return False
    return bool(file.st_mode & (0o077 if file.st_uid == os.geteuid() else 0o007))


TURN_ON_SWEEP = (
    "turn on the sweep: `sweep = true` (in Python, sweep=True; in Django, 'SWEEP': True)."
)


def check_sweep(*, log: bool, bodies: bool, sweep: bool) -> Iterator[CheckResult]:
    """Yield a result unless notifications of Postmark's that arrive before their rows are retried.

    It is no fault: an application may commit its rows before it sends their mail, or another
    process may sweep the log. The status shows whether notifications are lost.

    `log`, `bodies` and `sweep` are whether the receiver has a log, the log keeps bodies, and the
    receiver sweeps it. `acknowledge_parked` requires all three.
    """
    if not log:
        then = "Without a log, one that arrives before its rows are committed is never recorded."
        remedy = (
            "If your application commits rows after it sends their mail, turn on the log: remove "
            "`log = false` (in Python, log=None; in Django, 'LOG': False)."
        )
    elif not bodies:
        then = (
            "The log keeps no bodies, so one that arrives before its rows are committed is never "
            "recorded."
        )
        remedy = (
            'Keep the bodies for a few days: `keep_bodies = "7d"` (in Python, keep_bodies=True; '
            "in Django, 'KEEP_BODIES': True)."
        )
    elif not sweep:
        then = (
            "No sweep is on, so one that arrives before its rows are committed waits in the log "
            "for a replay, and expires after three days."
        )
        remedy = f"Unless another process sweeps this log, {TURN_ON_SWEEP}"
    else:
        return
    # The source is in docs/how-to/provider-webhook.md.
    final = "Since August 2026, Postmark does not repeat a notification that got a 404."
    yield CheckResult(Level.OK, "sweep", f"{final} {then}", remedy=remedy)


def check_database(
    database: Database,
    schema: Schema,
    entries: KnownEntries = NO_ENTRIES,
    *,
    rehearse: bool = True,
) -> Iterator[CheckResult]:
    """Check that the database responds, is migrated, and has tables that it lets hookrow change.

    For `rehearse`, see `check_tables`.
    """
    try:
        if missing := missing_file(database, schema):
            yield CheckResult(Level.ERROR, "database", missing, remedy=_RESTORE)
            return
        current = _migrations.current(database)
    except Unavailable as error:
        yield _unavailable(error, database.dialect)
        return
    except SchemaMismatch as error:
        yield _mismatch(error, "migrations")
        return
    yield CheckResult(Level.OK, "database", f"{database} responds.")
    tables, mismatch = _examine_tables(database, schema, entries, rehearse=rehearse)
    if needed := _migrations.needed(schema):
        exist = tables[0].level is Level.OK or (mismatch and _has_own_tables(database, schema))
        by_the_host = exist and not current
        revision = _OWN_MIGRATIONS if by_the_host else _check_revision(schema, current, needed)
        yield revision
        if revision.level is Level.ERROR:
            yield from _check_tables_of_host(schema, mismatch)
            return
    yield from tables


_RESTORE = (
    "If the file existed before, restore it or mount its disk instead: `hookrow db upgrade` "
    "creates an empty one."
)

_OWN_MIGRATIONS = CheckResult(
    Level.OK, "migrations", "Your own migrations created hookrow's tables."
)


def _has_own_tables(database: Database, schema: Schema) -> bool:
    """Return whether all of hookrow's own tables exist. Their columns are not checked."""
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        catalogue = catalogue_of(connection, database.dialect)
        return all(map(catalogue.columns, own_tables(schema)))


def _check_tables_of_host(
    schema: Schema, error: ConfigurationError | None
) -> Iterator[CheckResult]:
    """Yield the faults of the host's tables, although hookrow's own need a migration first."""
    if isinstance(error, SchemaMismatch):
        ours = own_tables(schema)
        if faults := [each for each in error.faults if each.table not in ours]:
            yield _mismatch(SchemaMismatch(*faults, correction=error.correction))


def check_tables(
    database: Database,
    schema: Schema,
    entries: KnownEntries = NO_ENTRIES,
    *,
    rehearse: bool = True,
) -> Sequence[CheckResult]:
    """Check that the tables and columns exist, with suitable types, and can be changed now.

    If `rehearse` is True, an entry is written to the log, which nobody else ever sees: a full disk
    lets changes of no row succeed. Each rehearsal leaves a deleted row to the database's own
    maintenance.
    """
    results, _ = _examine_tables(database, schema, entries, rehearse=rehearse)
    return results


def _examine_tables(
    database: Database, schema: Schema, entries: KnownEntries, *, rehearse: bool
) -> tuple[Sequence[CheckResult], ConfigurationError | None]:
    """Return the results of `check_tables`, and the error with the faults, if there are any."""
    try:
        statements = verify(database, schema, entries)
    except ConfigurationError as error:
        return [_mismatch(error)], error
    except (SchemaChanged, Rejected) as error:
        return [CheckResult(Level.ERROR, "tables", str(error))], None
    except StoreError as error:  # it says nothing about the tables, and may be temporary
        return [_unavailable(error, database.dialect)], None
    exist = CheckResult(Level.OK, "tables", "All tables and columns exist.")
    return [exist, *_check_changes(database, statements, rehearse=rehearse)], None


def _mismatch(error: ConfigurationError, subject: str = "tables") -> CheckResult:
    """Return the result for faults of this subject, or for privileges if only those are missing."""
    if all(each.text.startswith(DENIED) for each in error.faults):
        return CheckResult(Level.ERROR, "access", str(error), remedy=_GRANT)
    return CheckResult(Level.ERROR, subject, str(error))


_GRANT = "Run each GRANT as the owner of its object, or as an administrator of the database."


def _unavailable(error: StoreError, dialect: Dialect) -> CheckResult:
    """Return the result for a database that cannot be reached or read."""
    if isinstance(error, AccessDenied):
        return CheckResult(Level.ERROR, "access", str(error))
    text, remedy = f"{str(error).rstrip('.')}.", ""
    if isinstance(error, Conflict | Locked):
        text = f"Another transaction blocks hookrow's: {text}"
    if dialect.is_server:
        remedy = _remedy(error, dialect) or "Start the database, or correct its URL."
    return CheckResult(Level.ERROR, "database", text, remedy=remedy)


def _check_changes(
    database: Database, statements: Statements, *, rehearse: bool
) -> Iterator[CheckResult]:
    """Yield an error if the database rejects a change that selects no row, or a rehearsal."""
    try:
        with database.recording() as connection, begun(connection, database.dialect):
            transaction = SQLTransaction(connection, statements)
            transaction.probe()
            if rehearse:
                transaction.rehearse()
    except StoreError as error:
        yield CheckResult(
            Level.ERROR,
            "changes",
            f"The database accepts no changes: {str(error).rstrip('.')}.",
            "Until it does, notifications get a 503.",
            _remedy(error, database.dialect),
        )


def _remedy(error: StoreError, dialect: Dialect) -> str:
    """Return the remedy, unless the text of the error includes it, as that of SQLite's errors."""
    if isinstance(error, Conflict | Locked):
        return "Find the transaction that has locked the table or the file, and end it."
    if isinstance(error, SchemaChanged):
        return "Let the user SELECT and UPDATE the tables, and those behind views."
    if isinstance(error, Detached):
        return (
            "Connect the node to its cluster again; if the URL names several nodes, hookrow uses "
            "another one."
        )
    if isinstance(error, ReadOnly):
        return (
            "Connect to the primary server: if the URL names several servers, hookrow chooses it. "
            f"If this is the primary, turn off {dialect.read_only}."
        )
    return ""


def _check_revision(schema: Schema, current: Sequence[str], needed: Sequence[str]) -> CheckResult:
    unknown = [each for each in current if not _migrations.is_known(each)]
    if unknown and set(needed) <= set(current):
        # As after `db upgrade` of a newer version, until all receivers have been replaced.
        text = (
            f"hookrow's tables are at {_migrations.listed(unknown)}, which a newer version "
            "has added. This version uses them as long as its changes succeed: replace it."
        )
        return CheckResult(Level.WARNING, "migrations", text)
    if unknown:
        return CheckResult(Level.ERROR, "migrations", _migrations.UNKNOWN.format(unknown[0]))
    if set(needed) <= set(current):
        text = f"They are up to date ({_migrations.listed(needed)})."
        return CheckResult(Level.OK, "migrations", text)
    state = f"at {', '.join(current)}, not at {', '.join(needed)}" if current else "not created yet"
    remedy = f"Run {UPGRADE}." if current else create_tables(schema)
    return CheckResult(Level.ERROR, "migrations", f"hookrow's tables are {state}. {remedy}")
