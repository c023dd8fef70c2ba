"""Preparing to serve: what would make every notification fail is found before the first comes."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator
from contextlib import closing

from hookrow import migrations
from hookrow.check import check_database, check_secrets
from hookrow.core.schema import Schema
from hookrow.errors import ConfigurationError
from hookrow.finding import Finding, Level
from hookrow.receiver.spool import Spool
from hookrow.server.app import warn_of
from hookrow.server.settings import Settings
from hookrow.stores import Unavailable
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.urls import missing_file, open_database

log = logging.getLogger("hookrow")


def prepare(settings: Settings) -> None:
    """Look at the secrets, the extras, the spool and the database; warn of what is wanting.

    Raises a `HookrowError` where the server could not work.
    """
    secret = check_secrets(settings)
    if secret.level is Level.ERROR:
        raise ConfigurationError(secret.text)
    warn_of(secret)
    _prepare_extras(settings)
    if settings.spool is not None:
        Spool(settings.spool)  # or it would be reported by each worker
    if not settings.bodies:
        log.warning("No body is kept: what cannot be recorded is not tried again.")
    with closing(open_database(settings.database_url)) as database:
        _prepare_database(database, settings)


def _prepare_extras(settings: Settings) -> None:
    """Import what is an extra of its own: it says what to install."""
    if settings.metrics:
        importlib.import_module("hookrow.observability.metrics")
    if settings.dashboard:
        from hookrow.dashboard import visitor  # noqa: PLC0415 - as said above

        password = settings.dashboard_password
        visitor.require_password(password, host=settings.host)
        if password and len(password) < visitor.SHORTEST_PASSWORD:
            log.warning(
                "The dashboard's password has %d characters and can be guessed: take %d or more.",
                len(password),
                visitor.SHORTEST_PASSWORD,
            )


def _prepare_database(database: Database, settings: Settings) -> None:
    """Make or upgrade tables of ours in an SQLite file; one that is away may come back."""
    schema = settings.schema
    ours = database.dialect.name == "sqlite" and schema.ours
    # Nothing is wrong with tables that migrations of the host's made.
    if ours and any(_errors(database, schema)):
        try:
            migrations.upgrade(database, schema)
        except Unavailable as error:
            if missing_file(database):
                raise
            log.warning(str(error))
    for finding in _errors(database, schema):
        if finding.about != "database":
            raise ConfigurationError(finding.text)
        log.warning(f"The database cannot be reached yet; responses are 503. {finding.text}")


def _errors(database: Database, schema: Schema) -> Iterator[Finding]:
    return (each for each in check_database(database, schema) if each.level is Level.ERROR)
