"""Makes and upgrades our own tables, apart from any migrations of the host's.

Alembic keeps its place in a version table of its own, so that a host's Alembic,
Django or hand-written SQL is untouched.
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from hookrow.errors import ConfigurationError
from hookrow.schema import Schema
from hookrow.stores import Unavailable
from hookrow.stores.engines import absent, begin, supported
from hookrow.stores.faults import fault
from hookrow.stores.tables import metadata

VERSION_TABLE = "hookrow_version"

UNKNOWN = (
    "Our tables are at {}, which this version of hookrow does not know: "
    "install the one that made them, or a newer one."
)

_UPGRADE_LOCK = 0x686F6F6B726F77
"""Of PostgreSQL's advisory locks, the one that one upgrade at a time holds: "hookrow"."""


def head() -> str:
    """Return the revision that this version of hookrow needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None  # noqa: S101 - there is a first migration
    return revision


def known(revision: str) -> bool:
    """Tell whether this version of hookrow has the revision."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return revision in {script.revision for script in scripts}


def current(engine: Engine) -> str | None:
    """Return the revision that the database is at, or None where it has none of ours.

    Raises `Unavailable` where it cannot be reached.
    """
    if absent(engine):
        return None
    try:
        with engine.connect() as connection:
            return _current(connection)
    except SQLAlchemyError as error:
        raise Unavailable(f"The database cannot be reached: {fault(error)}") from error


def upgrade(engine: Engine, schema: Schema) -> None:
    """Bring our tables up to date, in one transaction, one process at a time.

    Raises `ConfigurationError` where the schema names tables of the host's, where a
    table with one of our names was not made by hookrow, or where a newer hookrow made
    ours; and `Unavailable` where the database cannot be reached or refuses.
    """
    if schema != Schema():
        raise ConfigurationError(
            "The schema names tables of your own: your own migrations make and change them."
        )
    try:
        with engine.connect() as connection:
            _upgrade(connection)
            connection.commit()
    except SQLAlchemyError as error:
        raise Unavailable(f"The database cannot be upgraded: {fault(error)}") from error


def sql(backend: str) -> str:
    """Return the statements that make our tables on "postgresql" or "sqlite"."""
    supported(backend)
    output = StringIO()
    config = _config(backend=backend)
    config.output_buffer = output
    command.upgrade(config, "head", sql=True)
    return output.getvalue()


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
    else:
        begin(connection)
    revision = _current(connection)
    if revision is None:
        _refuse_strangers(connection)
    try:
        command.upgrade(_config(connection=connection), "head")
    except CommandError as error:
        raise ConfigurationError(UNKNOWN.format(revision)) from error


def _current(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return ", ".join(context.get_current_heads()) or None


def _config(**attributes: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes.update(attributes)
    return config


def _refuse_strangers(connection: Connection) -> None:
    strangers = sorted(set(inspect(connection).get_table_names()) & set(metadata.tables))
    if strangers:
        raise ConfigurationError(
            f"The database already has {', '.join(strangers)}, which hookrow did not make: "
            "rename them, or name them in the schema as tables of your own."
        )
