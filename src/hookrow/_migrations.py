"""Creates and upgrades hookrow's own tables, independently of the host's migrations.

The scripts of each database are named by a revision and a branch: "tables" (the four tables of
rows) or "log" (also for hosts with their own tables). Each script runs once, in order and in a
separate transaction, and its revision is recorded in `hookrow_migrations`. If the database commits
each statement that changes tables, what has begun is recorded in `hookrow_upgrades`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from hookrow._core.schema import Schema
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores._driver_errors import message
from hookrow.stores._errors import (
    AccessDenied,
    Conflict,
    Detached,
    Locked,
    ReadOnly,
    StoreError,
    Unavailable,
)
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Lock
from hookrow.stores.sql._connections import Connection, Database, Upgradable
from hookrow.stores.sql._dialects import DIALECTS, UNSUPPORTED_DATABASE
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._scripts import (
    META_TABLE,
    MIGRATIONS_TABLE,
    UPGRADES_TABLE,
    Script,
    has_run,
    is_known,
    needed,
    scripts_of,
    table_of_revisions,
    table_of_upgrades,
)
from hookrow.stores.sql._urls import lacks_file, open_database, refuse_memory

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

__all__ = [
    "MIGRATIONS_TABLE",
    "current",
    "is_known",
    "listed",
    "needed",
    "sql",
    "upgrade",
]

logger = logging.getLogger("hookrow")

T = TypeVar("T")

UNKNOWN = (
    "hookrow's tables are at revision {}, which this version of hookrow does not know: install "
    "the version that upgraded them or, if it was never released, create the database anew."
)

LOCK_WAIT = 10.0
"""Seconds for which an upgrade tries to lock a table, for a second at a time.

Writers wait behind each attempt. An upgrade that waits for another one logs a warning after as
long, but does not give up.
"""

UPGRADE_PAUSE = 0.2
"""Seconds between two attempts to begin an upgrade while another one runs."""

TABLE_PAUSE = 0.05
"""Seconds between two attempts to lock a table."""


def listed(revisions: Sequence[str]) -> str:
    """Return revisions as text: "revision 0002", or "revisions 0001, 0002"."""
    noun = "revision" if len(revisions) == 1 else "revisions"
    return f"{noun} {', '.join(revisions)}"


def current(database: str | URL | Engine | Database) -> Sequence[str]:
    """Return the revisions of a database; none if hookrow's tables do not exist.

    Raises `Unavailable` if the database cannot be reached, and `SchemaMismatch` if the revisions
    may not be read.
    """
    opened = open_database(database)
    try:
        if lacks_file(opened):
            return ()
        with opened.reading() as connection:
            return _current(connection, opened.dialect)
    except (AccessDenied, Detached, ReadOnly):
        raise
    except StoreError as error:
        raise Unavailable(f"The database cannot be reached: {message(error)}") from error
    finally:
        if opened is not database:
            opened.close()


def upgrade(
    database: str | URL | Engine | Database,
    schema: Schema,
    *,
    step: Callable[[], object] = lambda: None,
) -> Sequence[str]:
    """Create the hookrow tables that the schema needs, or bring them up to date.

    Returns the revisions that were added; calls `step` after each that the schema needs. After an
    interruption, the next call continues. Concurrent upgrades wait for each other, except through
    two nodes of a Galera cluster, which both succeed. On PostgreSQL, indexes of existing tables are
    built without blocking writers, which may take minutes.

    Raises `ConfigurationError` if all tables of the schema are the host's, if another table has
    the name of one that would be created, if a newer version of hookrow has upgraded the tables, or
    if the database is a Django project's or in memory; `SchemaMismatch` if the user may not create
    tables; and `Unavailable` if the database cannot be reached or refuses a statement.
    """
    opened = open_database(database)
    refuse_memory(opened)
    if not isinstance(opened, Upgradable):
        raise ConfigurationError(
            f"hookrow db upgrade does not work with {opened}: for a Django project, run manage.py "
            "migrate."
        )
    try:
        kind = _Upgrade if opened.dialect.transactional_ddl else _ResumableUpgrade
        return kind(opened, schema).run(step)
    except AccessDenied:
        raise
    except StoreError as error:
        raise Unavailable(f"The database cannot be upgraded: {message(error)}") from error
    finally:
        if opened is not database:
            opened.close()


def sql(backend: str, schema: Schema = Schema()) -> str:  # noqa: B008 - frozen
    """Return the statements that create the schema's tables; `backend` is a dialect's name."""
    if backend not in DIALECTS:
        raise ConfigurationError(UNSUPPORTED_DATABASE.format(backend))
    selected = scripts_of(backend, schema)
    if not selected:
        return ""
    parts = [f"{table_of_revisions(backend)};"]
    for script in selected:
        text = script.text.strip().replace(" CONCURRENTLY", "")  # no other session sees the tables
        parts += [text, f"{_insert(script.revision)};"]
    if DIALECTS[backend].transactional_ddl:
        parts = ["BEGIN;", *parts, "COMMIT;"]
    return "\n\n".join(parts) + "\n"


class _Upgrade:
    """An upgrade of a database's tables for a schema."""

    _lock_table = META_TABLE
    """The table of which a row is locked during an upgrade, if the database locks rows for it."""

    def __init__(self, database: Upgradable, schema: Schema) -> None:
        self._database, self._dialect = database, database.dialect
        self._scripts = scripts_of(self._dialect.name, schema)
        if not self._scripts:
            raise ConfigurationError(
                "All tables of the schema are your own: use your own migrations for them."
            )

    def run(self, step: Callable[[], object]) -> Sequence[str]:
        """Run the missing scripts; return their revisions. Raises a `StoreError`."""
        added = []
        with self._lock():
            _retry_while_locked(self._prepare)
            for script in self._scripts:
                if _retry_while_locked(partial(self._run, script)):
                    added.append(script.revision)
                step()
        return added

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Wait for the end of any other upgrade.

        If a transaction holds the whole database, each step is a transaction that waits.
        """
        if not self._dialect.locks_rows:
            yield
            return
        waiting_since = monotonic()
        while True:
            # In a transaction, because a pooler may run each transaction in another session.
            with self._database.upgrading() as connection:
                if catalogue_of(connection, self._dialect).try_lock(
                    Lock.UPGRADING, self._lock_table
                ):
                    # CREATE INDEX CONCURRENTLY waits for older snapshots. A driver may keep that
                    # of the lock's SELECT until the next statement.
                    connection.execute(self._dialect.stay_idle)
                    yield
                    return
            if monotonic() > waiting_since + LOCK_WAIT:
                logger.warning("Waiting for another upgrade of this database.")
                waiting_since = inf
            sleep(UPGRADE_PAUSE)

    def _prepare(self) -> bool:
        """Check that the tables can be upgraded; return whether they have to be."""
        with self._connection() as connection:
            catalogue = catalogue_of(connection, self._dialect)
            # Before what another upgrade has begun or ended: it records both before others can see
            # a new table.
            present = catalogue.tables()
            begun = self._begun(connection)
            applied = _current(connection, self._dialect)
            for revision in applied:
                if not is_known(revision):
                    raise ConfigurationError(UNKNOWN.format(revision))
            missing = [each for each in self._scripts if each.revision not in applied]
            for script in missing:
                _check_names(script, begun.get(script.revision, 0), present)
            if missing:
                catalogue.check_creation()
        return bool(missing)

    def _connection(self) -> AbstractContextManager[Connection]:
        """Connect to read what the database has."""
        return self._database.upgrading()

    def _begun(self, connection: Connection) -> Mapping[str, int]:  # noqa: ARG002 - a script runs completely or not at all
        """Return how many statements of interrupted scripts have begun, by revision."""
        return {}

    def _run(self, script: Script) -> bool:
        """Run a script and record its revision, unless it is recorded; return whether it ran."""
        index, database = script.index, self._database
        with database.autocommit() if index else database.upgrading() as connection:
            if script.revision in _current(connection, self._dialect):
                return False
            if index:
                index.build(connection)
            else:
                self._execute(connection, script)
            connection.execute(_insert(script.revision))
            return True

    def _execute(self, connection: Connection, script: Script) -> None:
        if self._dialect.wait_briefly:
            connection.execute(self._dialect.wait_briefly)
        # The table may be in any schema of the search path.
        if not catalogue_of(connection, self._dialect).columns(MIGRATIONS_TABLE):
            create = table_of_revisions(self._dialect.name)
            connection.execute(create.replace("%", "%%"))
        for statement in script.statements():
            connection.execute(statement.replace("%", "%%"))


class _ResumableUpgrade(_Upgrade):
    """An upgrade of a database that commits each statement which changes tables.

    The server executes each statement completely or not at all. Before it does, the statement's
    number is recorded. After an interruption, the next upgrade finds out whether the last one that
    was recorded took effect, by what it creates, and continues there. What any other one would
    create must not exist yet, or it is the host's.

    The lock on a row keeps apart upgrades through one server. A Galera cluster does not replicate
    locks: upgrades through two of its nodes run at the same time. Each statement still takes effect
    once, because the nodes execute those that change tables one by one, in the same order. The
    upgrade that is late finds that the statement took effect, and continues with the next one.
    """

    _lock_table = UPGRADES_TABLE

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Wait for the end of any other upgrade, unless there is nothing to do."""
        if not _retry_while_locked(self._prepare):
            yield
            return
        _retry_while_locked(self._create_lock)
        with super()._lock():
            yield

    def _create_lock(self) -> None:
        """Create the table and the row that is locked, unless they exist."""
        with self._database.autocommit() as connection:
            connection.execute(table_of_upgrades(self._dialect.name))
            # This adds the row. The lock itself ends with the statement.
            catalogue_of(connection, self._dialect).try_lock(Lock.UPGRADING, self._lock_table)

    def _connection(self) -> AbstractContextManager[Connection]:
        """Let each query see what others have committed."""
        return self._database.autocommit()

    def _begun(self, connection: Connection) -> Mapping[str, int]:
        columns = catalogue_of(connection, self._dialect).columns(UPGRADES_TABLE)
        if not columns:
            return {}
        rows = connection.fetch(f"SELECT name, value FROM {UPGRADES_TABLE}")  # noqa: S608 - the name is ours
        return {name: int(value) for name, value in rows if is_known(name)}

    def _run(self, script: Script) -> bool:
        """Run the statements that did not run; return whether this upgrade ended the script."""
        with self._database.autocommit() as connection:
            if script.revision in _current(connection, self._dialect):
                return False
            connection.execute(self._dialect.wait_briefly)
            connection.execute(table_of_revisions(self._dialect.name))
            begun = self._begun(connection).get(script.revision, 0)
            for number, statement in enumerate(script.statements(), 1):
                if number == begun and has_run(connection, statement):
                    continue
                if number >= begun:
                    self._begin(connection, script, number)
                    self._execute_once(connection, statement)
        return self._end(script)

    def _begin(self, connection: Connection, script: Script, number: int) -> None:
        """Record the number of the statement that follows."""
        dialect = self._dialect
        values = dialect.old(UPGRADES_TABLE, "value"), dialect.new("value")
        # An upgrade through another node of a cluster may have recorded a later one.
        latest = f"{dialect.greatest}({', '.join(map(dialect.as_integer, values))})"
        names = ["name", "value"]
        sql = dialect.insert(UPGRADES_TABLE, names, "VALUES (%s, %s)", names[:1], {"value": latest})
        connection.execute(sql, [script.revision, str(number)])

    def _execute_once(self, connection: Connection, statement: str) -> None:
        try:
            connection.execute(statement.replace("%", "%%"))
        except Exception:
            # An upgrade through another node of a cluster may have been faster.
            if not has_run(connection, statement):
                raise

    def _end(self, script: Script) -> bool:
        """Record the revision; return False if another upgrade has recorded it."""
        with self._database.upgrading() as connection:
            sql = f"DELETE FROM {UPGRADES_TABLE} WHERE name = %s"  # noqa: S608 - the name is ours
            connection.execute(sql, [script.revision])
            if script.revision in _current(connection, self._dialect):
                return False
            connection.execute(_insert(script.revision))
            return True


def _retry_while_locked(work: Callable[[], T]) -> T:
    """Call `work`, and call it again for `LOCK_WAIT` if a table is locked."""
    until = monotonic() + LOCK_WAIT
    while True:
        try:
            return work()
        except (Conflict, Locked):
            if monotonic() > until:
                raise
            sleep(TABLE_PAUSE)


def _current(connection: Connection, dialect: Dialect) -> Sequence[str]:
    catalogue = catalogue_of(connection, dialect)
    found = catalogue.columns(MIGRATIONS_TABLE)
    if not found:
        catalogue.check_default_namespace()
        return []
    if "revision" not in found:
        raise SchemaMismatch(
            f"The table {MIGRATIONS_TABLE!r} has no column 'revision': it is not hookrow's, or was "
            "changed. Restore it, or rename it."
        )
    if "SELECT" in found["revision"].denied:
        raise catalogue.denied_error(MIGRATIONS_TABLE, ["SELECT"])
    rows = connection.fetch(f"SELECT revision FROM {MIGRATIONS_TABLE}")  # noqa: S608 - the name is ours
    return sorted(str(revision) for (revision,) in rows)


def _insert(revision: str) -> str:
    return f"INSERT INTO {MIGRATIONS_TABLE} (revision) VALUES ('{revision}')"  # noqa: S608 - of a file's name


def _check_names(script: Script, begun: int, present: Collection[str]) -> None:
    """Raise `ConfigurationError` if a table that is to be created already exists.

    `begun` is the number of statements that have begun; what these create is hookrow's.
    """
    if found := sorted({*script.creates_after(begun)}.intersection(present)):
        raise ConfigurationError(
            f"The database already has {', '.join(found)}, which hookrow did not create: "
            "rename them, map them in the schema as your own tables, or let the "
            "migrations that created them bring them up to date."
        )
