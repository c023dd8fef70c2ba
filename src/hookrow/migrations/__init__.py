"""Makes and upgrades our own tables, apart from any migrations of the host's.

Alembic keeps its place in a version table of its own, so that a host's Alembic,
Django or hand-written SQL is untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hookrow.errors import ConfigurationError
from hookrow.schema import Schema
from hookrow.stores import NOT_ON, AccessDenied, StoreError, Unavailable
from hookrow.stores.errors import message
from hookrow.stores.sql.columns import columns, denied_error
from hookrow.stores.sql.connections import Database
from hookrow.stores.sql.dialects import DIALECTS
from hookrow.stores.sql.urls import missing_file, open_database
from hookrow.stores.tables import metadata, notifications

VERSION_TABLE = "hookrow_version"

UNKNOWN = (
    "Our tables are at {}, which this version of hookrow does not know: "
    "install the one that made them, or a newer one."
)

_UPGRADE_LOCK = 0x686F6F6B726F77
"""Of PostgreSQL's advisory locks, the one that one upgrade at a time holds: "hookrow"."""


LOG = notifications.name
"""The table of the log that migrations make; a host may make one of another name."""

_BRANCHES: Mapping[str, Callable[[Schema], bool]] = {
    "tables": lambda schema: schema.ours,
    "log": lambda schema: schema.log == LOG,
}
"""The branches of migrations, and whether a schema uses the tables that they make."""


def heads(schema: Schema) -> Sequence[str]:
    """Return the revisions that this version of hookrow needs: of our four tables, of the log."""
    script = ScriptDirectory.from_config(_config())
    return [script.get_revision(f"{branch}@head").revision for branch in _branches(schema)]


def known(revision: str) -> bool:
    """Tell whether this version of hookrow has the revision."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return revision in {script.revision for script in scripts}


def current(database: str | URL | Engine | Database) -> Sequence[str]:
    """Return the revisions that the database is at; none where it has no table of ours.

    Raises `Unavailable` where it cannot be reached, and `SchemaMismatch` where it may not be read.
    """
    opened = open_database(database)
    if missing_file(opened):
        return ()
    try:
        with opened.reading() as connection:
            table = columns(connection, opened.dialect, VERSION_TABLE)
            if not table:
                return ()
            if "SELECT" in table["version_num"].denied:
                raise denied_error(connection, opened.dialect, VERSION_TABLE, ["SELECT"])
            found = connection.fetch(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - our own name
            return sorted(revision for (revision,) in found)
    except AccessDenied:
        raise
    except StoreError as error:
        raise Unavailable(f"The database cannot be reached: {message(error)}") from error


def upgrade(engine: Engine, schema: Schema) -> None:
    """Bring what the schema has of our tables up to date, in one transaction, one at a time.

    Raises `ConfigurationError` where it names only tables of the host's, where a
    table with one of our names was not made by hookrow, or where a newer hookrow made
    ours; and `Unavailable` where the database cannot be reached or refuses.
    """
    if not _branches(schema):
        raise ConfigurationError(
            "The schema names tables of your own: your own migrations make and change them."
        )
    try:
        with engine.connect() as connection:
            _upgrade(connection, schema)
            connection.commit()
    except SQLAlchemyError as error:
        text = str(error.orig if isinstance(error, DBAPIError) else error)
        raise Unavailable(
            f"The database cannot be upgraded: {text.strip().partition(chr(10))[0]}"
        ) from error


def sql(backend: str, schema: Schema = Schema()) -> str:  # noqa: B008 - frozen
    """Return the statements that make the schema's tables of ours on "postgresql" or "sqlite"."""
    if backend not in DIALECTS:
        raise ConfigurationError(NOT_ON.format(backend))
    output = StringIO()
    config = _config(backend=backend)
    config.output_buffer = output
    branches = _branches(schema)
    if branches:
        target = "heads" if len(branches) == len(_BRANCHES) else f"{branches[0]}@head"
        command.upgrade(config, target, sql=True)
    return output.getvalue()


def _branches(schema: Schema) -> Sequence[str]:
    """Return the branches of migrations whose tables the schema uses."""
    return [branch for branch, uses in _BRANCHES.items() if uses(schema)]


def _upgrade(connection: Connection, schema: Schema) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _UPGRADE_LOCK})
    elif not getattr(connection.connection.dbapi_connection, "in_transaction", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    revisions = _current(connection)
    for revision in revisions:
        if not known(revision):
            raise ConfigurationError(UNKNOWN.format(revision))
    for branch in _branches(schema):
        _refuse_strangers(connection, branch, revisions)
        command.upgrade(_config(connection=connection), f"{branch}@head")


def _current(connection: Connection) -> Sequence[str]:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return sorted(context.get_current_heads())


def _config(**attributes: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes.update(attributes)
    return config


def _refuse_strangers(connection: Connection, branch: str, revisions: Sequence[str]) -> None:
    """Refuse tables with our names that stand where the branch has made none yet."""
    script = ScriptDirectory.from_config(_config())
    if any(branch in script.get_revision(revision).branch_labels for revision in revisions):
        return
    ours = {LOG} if branch == "log" else set(metadata.tables) - {LOG}
    strangers = sorted(set(inspect(connection).get_table_names()) & ours)
    if strangers:
        raise ConfigurationError(
            f"The database already has {', '.join(strangers)}, which hookrow did not make: "
            "rename them, name them in the schema as tables of your own, or have the "
            "migrations that made them bring them up to date."
        )
