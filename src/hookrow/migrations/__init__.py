"""Creates and upgrades hookrow's own tables, apart from any migrations of the host's.

The scripts of each database are named by a revision and a branch: "tables" (the four tables) or
"log" (also used by hosts with their own tables). Each is run once, in order, and its revision is
recorded in `hookrow_migrations`. The first edition recorded two, in `hookrow_version`; these count,
and if that table exists, they are still recorded there, so that the first edition runs on the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from time import monotonic, sleep
from typing import TYPE_CHECKING

from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.schema import Schema
from hookrow.stores import NOT_ON, AccessDenied, Conflict, Locked, StoreError, Unavailable
from hookrow.stores.errors import message
from hookrow.stores.sql.columns import columns, denied_error, tables
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import DIALECTS, Dialect
from hookrow.stores.sql.urls import missing_file, open_database

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

TABLE = "hookrow_migrations"
FIRST_EDITION = "hookrow_version"

LOG = "hookrow_notifications"
"""The log's table that the scripts create; a host may create one of another name."""

_OF_FIRST_EDITION = {"0001", "0002"}

UNKNOWN = (
    "hookrow's tables are at revision {}, which this version of hookrow does not know: "
    "install the version that upgraded them, or a newer one."
)

LOCK = 0x686F6F6B726F77
"""PostgreSQL's advisory lock that an upgrade holds: "hookrow" in ASCII."""

LOCK_WAIT = 10.0
"""In seconds; how long an upgrade waits for locks, of the tables or of another upgrade."""

_BRANCHES: Mapping[str, Callable[[Schema], bool]] = {
    "tables": lambda schema: schema.ours,
    "log": lambda schema: schema.log == LOG,
}
"""Whether a schema uses the tables of a branch."""

_OF_BRANCHES = {
    "tables": {
        "hookrow_subscribers",
        "hookrow_lists",
        "hookrow_subscriptions",
        "hookrow_dispatches",
    },
    "log": {LOG},
}

_CREATE = {
    "postgresql": (
        f"CREATE TABLE IF NOT EXISTS {TABLE} (revision VARCHAR(32) PRIMARY KEY, "
        "applied_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL)"
    ),
    "sqlite": (
        f"CREATE TABLE IF NOT EXISTS {TABLE} (revision VARCHAR(32) NOT NULL PRIMARY KEY, "
        "applied_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')) NOT NULL)"
    ),
}


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and the revision that its tables have after it."""

    revision: str
    branch: str
    text: str

    def statements(self) -> Iterator[str]:
        """Yield the statements, without comments. Each ends a line with a semicolon."""
        lines = (line for line in self.text.splitlines() if not line.startswith("--"))
        for statement in "\n".join(lines).split(";\n"):
            if stripped := statement.strip().removesuffix(";"):
                yield stripped


@cache
def scripts(backend: str) -> Sequence[Script]:
    """Return all scripts for "postgresql" or "sqlite", in order."""
    found = []
    for file in files(__package__).joinpath(backend).iterdir():
        revision, _, branch = file.name.removesuffix(".sql").partition("_")
        found.append(Script(revision, branch, file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda script: script.revision)


def needed(schema: Schema) -> Sequence[str]:
    """Return the revisions that this version of hookrow needs for a schema."""
    return [each.revision for each in _scripts("sqlite", schema)]


def is_known(revision: str) -> bool:
    """Return whether this version of hookrow has the revision."""
    return any(each.revision == revision for each in scripts("sqlite"))


def current(database: str | URL | Engine | Database) -> Sequence[str]:
    """Return the revisions that a database is at; none if it has no table of hookrow's.

    Raises `Unavailable` if it cannot be reached, and `SchemaMismatch` if they may not be read.
    """
    opened = open_database(database)
    if missing_file(opened):
        return ()
    try:
        with opened.reading() as connection:
            return _current(connection, opened.dialect)
    except AccessDenied:
        raise
    except StoreError as error:
        raise Unavailable(f"The database cannot be reached: {message(error)}") from error


def upgrade(database: str | URL | Engine | Database, schema: Schema) -> Sequence[str]:
    """Create the schema's tables of hookrow's own, or bring them up to date, in one transaction.

    Return the revisions that it added. Upgrades at the same time wait for each other.

    Raises `ConfigurationError` if the schema names only tables of the host's, if a table with a
    name of hookrow's was not created by it, or if a newer hookrow has upgraded them;
    `SchemaMismatch` if the user may not create tables; and `Unavailable` if the database cannot
    be reached or refuses.
    """
    opened = open_database(database)
    if not _scripts(opened.dialect.name, schema):
        raise ConfigurationError(
            "The schema names tables of your own: your own migrations create and change them."
        )
    until = monotonic() + LOCK_WAIT
    try:
        while True:
            try:
                with opened.transaction() as connection:
                    return _upgrade(connection, opened.dialect, schema)
            except (Conflict, Locked):
                if monotonic() > until:
                    raise
                sleep(0.05)
    except StoreError as error:
        raise Unavailable(f"The database cannot be upgraded: {message(error)}") from error
    finally:
        if opened is not database:
            opened.close()


def sql(backend: str, schema: Schema = Schema()) -> str:  # noqa: B008 - frozen
    """Return the statements that create the schema's tables on "postgresql" or "sqlite"."""
    if backend not in DIALECTS:
        raise ConfigurationError(NOT_ON.format(backend))
    wanted = _scripts(backend, schema)
    if not wanted:
        return ""
    parts = ["BEGIN;", f"{_CREATE[backend]};"]
    for script in wanted:
        parts += [script.text.strip(), f"{_insert(script.revision)};"]
    return "\n\n".join([*parts, "COMMIT;\n"])


def _scripts(backend: str, schema: Schema) -> Sequence[Script]:
    return [each for each in scripts(backend) if _BRANCHES[each.branch](schema)]


def _current(connection: Connection, dialect: Dialect) -> Sequence[str]:
    revisions: set[str] = set()
    for table, column in ((TABLE, "revision"), (FIRST_EDITION, "version_num")):
        if found := columns(connection, dialect, table):
            if column not in found:
                raise SchemaMismatch(
                    f"The table {table!r} has no column {column!r}: it is not hookrow's, or was "
                    "changed. Restore it, or rename it."
                )
            if "SELECT" in found[column].denied:
                raise denied_error(connection, dialect, table, ["SELECT"])
            rows = connection.fetch(f"SELECT {column} FROM {table}")  # noqa: S608 - names are ours
            revisions.update(str(revision) for (revision,) in rows)
    return sorted(revisions)


def _upgrade(connection: Connection, dialect: Dialect, schema: Schema) -> Sequence[str]:
    if dialect.name == "postgresql":
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.fetch("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    applied = _current(connection, dialect)
    for revision in applied:
        if not is_known(revision):
            raise ConfigurationError(UNKNOWN.format(revision))
    missing = [each for each in _scripts(dialect.name, schema) if each.revision not in applied]
    known = {each.branch for each in scripts(dialect.name) if each.revision in applied}
    _refuse_foreign_tables(connection, dialect, {each.branch for each in missing} - known)
    if missing:
        _check_privilege(connection, dialect)
        if not columns(connection, dialect, TABLE):  # in any schema of the search path
            connection.execute(_CREATE[dialect.name].replace("%", "%%"))
    of_first_edition = bool(columns(connection, dialect, FIRST_EDITION))
    for script in missing:
        for statement in script.statements():
            connection.execute(statement.replace("%", "%%"))
        connection.execute(_insert(script.revision))
        if of_first_edition and script.revision in _OF_FIRST_EDITION:
            insert = f"INSERT INTO {FIRST_EDITION} (version_num) VALUES ('{script.revision}')"  # noqa: S608 - of a file's name
            connection.execute(insert)
    return [each.revision for each in missing]


def _check_privilege(connection: Connection, dialect: Dialect) -> None:
    """Raise `SchemaMismatch` if the user may not create tables."""
    if dialect.name == "postgresql":
        ((schema, user, may),) = connection.fetch(
            "SELECT quote_ident(current_schema()), quote_ident(current_user), "
            "has_schema_privilege(current_schema(), 'CREATE')"
        )
        if schema is None:
            raise SchemaMismatch(
                "The search_path names no schema that exists and that the user may use, so no "
                "table can be created: set it, or GRANT USAGE."
            )
        if not may:
            raise SchemaMismatch(
                f"permission denied for schema {schema}: GRANT CREATE ON SCHEMA {schema} TO {user}"
            )


def _insert(revision: str) -> str:
    return f"INSERT INTO {TABLE} (revision) VALUES ('{revision}')"  # noqa: S608 - of a file's name


def _refuse_foreign_tables(connection: Connection, dialect: Dialect, branches: set[str]) -> None:
    """Refuse tables with hookrow's names in branches of which no script has been run."""
    ours = {table for branch in branches for table in _OF_BRANCHES[branch]}
    if strangers := sorted(ours.intersection(tables(connection, dialect))):
        raise ConfigurationError(
            f"The database already has {', '.join(strangers)}, which hookrow did not create: "
            "rename them, name them in the schema as tables of your own, or let the "
            "migrations that created them bring them up to date."
        )
