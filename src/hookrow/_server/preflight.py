"""Checks that run before the server starts. A wrong setting or table prevents the start."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial

from hookrow import _migrations
from hookrow._describe import pluralize
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.check import check_database, check_secrets, check_sweep
from hookrow._http import is_loopback
from hookrow._server.settings import AnyEntrySettings, Settings
from hookrow.errors import ConfigurationError
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql._connections import Database
from hookrow.stores.sql._urls import lacks_file, location, open_database, refuse_memory

logger = logging.getLogger("hookrow")

MIN_PASSWORD_LENGTH = 12
"""The number of characters below which the server warns about the dashboard's password."""

_NEW_FILE = (
    "The database %s did not exist. It is new and has no subscribers, so notifications get a 404 "
    "until your application adds them. If you meant another file, stop the server, delete this "
    "one, and correct --database-url, HOOKROW_DATABASE_URL or database_url; a relative path begins "
    "in the current directory."
)


def check_and_prepare(settings: Settings) -> None:
    """Log warnings about weak settings, check the database, and upgrade an SQLite file.

    Raises a `HookrowError` if the server could not use the database.
    """
    for entry in settings.entries:
        warn_of_secret(entry)
    if settings.dashboard and settings.dashboard_password:
        _warn_of_password(settings.dashboard_password)
    if settings.schema.log is not None:  # without a log, only `hookrow check` explains this
        for result in check_sweep(log=True, bodies=settings.bodies, sweep=settings.sweep):
            logger.warning(f"{result.text} {result.remedy}")
    with closing(open_database(settings.database_url)) as database:
        refuse_memory(database)
        _prepare_database(database, settings)


def warn_of_secret(entry: AnyEntrySettings) -> None:
    """Log a warning if the secret of an entry is weak, or if other users can read it."""
    result = check_secrets(entry.secrets, entry.file, entry=entry.name)
    if result.level is Level.WARNING:
        logger.warning(result.text)


def require_password(password: str | None, *, host: str) -> None:
    """Raise `ConfigurationError` if there is no password and `host` is not a loopback address.

    A generated password is printed only to a terminal, so users of other machines cannot know it.
    """
    if not password and not is_loopback(host):
        raise ConfigurationError(
            f"The dashboard at {host} needs a password: set HOOKROW_DASHBOARD_PASSWORD, "
            "or listen on 127.0.0.1."
        )


def _warn_of_password(password: str) -> None:
    if len(password) < MIN_PASSWORD_LENGTH:
        logger.warning(
            "The dashboard's password has %s and can be guessed: use %d or more.",
            pluralize(len(password), "character"),
            MIN_PASSWORD_LENGTH,
        )


def _prepare_database(database: Database, settings: Settings) -> None:
    """Create or upgrade hookrow's tables in a file; on a server, only check them.

    A database that cannot be reached, or accepts no changes, causes only a warning, because that
    may be temporary.
    """
    schema = settings.schema
    upgradable = not database.dialect.is_server and schema.is_own
    is_new = lacks_file(database)
    check = partial(check_database, database, schema, settings.known_entries)
    # Tables that the host's own migrations created have no errors, and are left unchanged.
    if upgradable and any(each.subject != "changes" for each in _errors(check())):
        try:
            _migrations.upgrade(database, schema)
        except Unavailable as error:
            if lacks_file(database):
                raise
            logger.warning(str(error))
        else:
            if is_new:
                logger.warning(_NEW_FILE, location(database))
    results = [*check()]
    errors = [*_errors(results)]
    if final := [each.text for each in errors if each.subject not in {"database", "changes"}]:
        raise ConfigurationError("\n".join(final))
    for each in errors:
        why = f"{each.text} {each.remedy}".rstrip()
        logger.warning(f"Nothing can be recorded yet; responses are 503. {why}")
    for each in results:
        if each.level is Level.WARNING:
            logger.warning(each.text)


def _errors(results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    return (each for each in results if each.level is Level.ERROR)
