"""Checks before the server starts: mistakes that would make every notification fail stop it."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import closing

from hookrow import migrations
from hookrow.core.schema import Schema
from hookrow.diagnostics.check import check_database, check_secrets
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.errors import ConfigurationError
from hookrow.receiver.spool import Spool
from hookrow.server.app import warn_of_secret
from hookrow.server.settings import Settings
from hookrow.stores import Unavailable
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.urls import missing_file, open_database

log = logging.getLogger("hookrow")


def check_and_prepare(settings: Settings) -> None:
    """Check the secrets, the extras, the spool and the database; upgrade an SQLite file.

    Logs warnings about weak settings. Raises a `HookrowError` if the server could not work.
    """
    secrets = check_secrets(settings)
    if secrets.level is Level.ERROR:
        raise ConfigurationError(secrets.text)
    warn_of_secret(secrets)
    _check_extras(settings)
    if settings.spool is not None:
        Spool(settings.spool)  # raises here once, instead of in each worker
    if not settings.bodies:
        log.warning("No body is kept: notifications that cannot be recorded are not retried.")
    with closing(open_database(settings.database_url)) as database:
        _prepare_database(database, settings)


def _check_extras(settings: Settings) -> None:
    """Import the modules that need an extra: without it, the error says what to install."""
    if settings.metrics:
        importlib.import_module("hookrow.observability.metrics")
    if settings.dashboard:
        from hookrow.dashboard import auth  # noqa: PLC0415 - an extra

        password = settings.dashboard_password
        auth.require_password(password, host=settings.host)
        if password and len(password) < auth.SHORTEST_PASSWORD:
            log.warning(
                "The dashboard's password has %d characters and can be guessed: use %d or more.",
                len(password),
                auth.SHORTEST_PASSWORD,
            )


def _prepare_database(database: Database, settings: Settings) -> None:
    """Create or upgrade hookrow's tables in an SQLite file; check those of other databases.

    A database that cannot be reached is only a warning, because it may start later.
    """
    schema = settings.schema
    upgradable = database.dialect.name == "sqlite" and schema.ours
    # Tables that the host's own migrations created have no errors, and are left alone.
    if upgradable and any(_errors(database, schema)):
        try:
            migrations.upgrade(database, schema)
        except Unavailable as error:
            if missing_file(database):
                raise
            log.warning(str(error))
    for finding in _errors(database, schema):
        if finding.subject != "database":
            raise ConfigurationError(finding.text)
        log.warning(f"The database cannot be reached yet; responses are 503. {finding.text}")


def _errors(database: Database, schema: Schema) -> Iterator[CheckResult]:
    return (each for each in check_database(database, schema) if each.level is Level.ERROR)
