"""Verifies that a database has the schema's tables, with suitable types, keys and privileges.

`diagnostics` reports tables that work but are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from hookrow.core.notification import EventTime, Suppressible
from hookrow.core.schema import OWN_ROLES, WRITTEN, Schema, nearest
from hookrow.errors import OWN_TABLES, UPGRADE, ConfigurationError, SchemaMismatch
from hookrow.stores import Rejected, SchemaChanged, change_dates
from hookrow.stores.errors import message, store_error
from hookrow.stores.sql.column_rules import Columns, mistakes, mistakes_of_dates, mistakes_of_log
from hookrow.stores.sql.columns import (
    check_privileges,
    columns,
    denied_error,
    is_unique,
    is_view,
    regclass,
    tables,
)
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import Dialect, count_parameters
from hookrow.stores.sql.keys import key_mistakes
from hookrow.stores.sql.log_rows import REQUIRED_COLUMNS
from hookrow.stores.sql.mapping_record import TABLE as MAPPING_RECORD
from hookrow.stores.sql.rehearsal import reason_mistakes
from hookrow.stores.sql.role_tables import RoleTables
from hookrow.stores.sql.statements import STATEMENTS, Statements
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

_VERSION = {"postgresql": "SHOW server_version", "sqlite": "SELECT sqlite_version()"}

_NUMBERS = count()
"""Make texts unique: Python's sqlite3 caches statements, and SQLite does not prepare an EXPLAIN
again after the schema has changed."""

_UPDATE = 4
"""The bit for UPDATE in the result of `pg_relation_is_updatable`."""

_WITHOUT_EFFECT = """
SELECT EXISTS (
        SELECT FROM pg_rewrite
        WHERE ev_class = c.oid AND ev_type = '2'
        AND pg_get_ruledef(oid) LIKE '%% DO INSTEAD NOTHING;'
    ),
    row_security_active(c.oid) AND NOT EXISTS (
        SELECT FROM pg_policy WHERE polrelid = c.oid AND polpermissive AND polcmd IN ('w', '*')
        AND EXISTS (
            SELECT FROM unnest(polroles) AS role WHERE role = 0 OR pg_has_role(role, 'USAGE')
        )
    )
FROM pg_class AS c WHERE oid = to_regclass(%s)
"""
"""Whether a rule ignores every UPDATE, and whether no policy allows one; neither is an error."""


_UNUSABLE_SCHEMA = (
    "SELECT quote_ident(nspname), quote_ident(current_user) FROM pg_namespace "
    "WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')"
)
_UNUSABLE_SEQUENCE = (
    "SELECT sequence, quote_ident(current_user) FROM pg_get_serial_sequence(%s, 'id') AS sequence "
    "WHERE NOT has_sequence_privilege(sequence, 'USAGE')"
)


def verify(database: Database, schema: Schema) -> Statements:
    """Verify every table and column; return the statements on them.

    Raises `SchemaMismatch` for the first table or column that is missing, for all columns that are
    unsuitable, or for the first other reason why the tables cannot work; `ConfigurationError` if
    the database's version is too old; and `Unavailable`.
    """
    dialect = database.dialect
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        _check_version(connection, dialect)
        catalogue = _Catalogue(connection, dialect, schema)
        tables = {
            name: _with_writers(role.table, catalogue.columns(name), database)
            for name, role in schema.roles.items()
        }
        catalogue.check_own_tables()
        found = [*mistakes(schema, tables)] or [
            *reason_mistakes(connection, dialect, schema, tables)
        ]
        if found:
            raise SchemaMismatch(" ".join(found))
        statements = STATEMENTS[dialect.name](RoleTables(schema, tables, dialect))
        if statements.combined is not None and not catalogue.are_disjoint():
            statements.combined = None
        for mistake in key_mistakes(connection, statements.tables):
            raise SchemaMismatch(mistake)
        if dialect.locks_rows:
            _plan(connection, statements)
    return statements


def _with_writers(table: str, columns: Columns, database: Database) -> Columns:
    """Return columns with the conversions that the host's own types make of reasons."""
    return {
        name: replace(column, write=database.writers.get((table, name)))
        for name, column in columns.items()
    }


def _plan(connection: Connection, statements: Statements) -> None:
    """Let PostgreSQL plan every write, but run none. Raises `SchemaMismatch` if it cannot."""
    for kind in statements.tables.written:
        table = statements.tables.schema.roles[kind.value].table
        for sql in _writes(statements, kind):
            nothing = [statements.dialect.encode(())] * count_parameters(sql)
            try:
                connection.fetch(f"EXPLAIN {sql}", nothing)
            except Exception as error:
                if not isinstance(cause := store_error(error), SchemaChanged | Rejected):
                    raise
                cause.__cause__ = error
                raise SchemaMismatch(
                    f"The rows of {table!r} cannot be locked and changed: {message(cause)}"
                ) from error


def _writes(statements: Statements, kind: Suppressible) -> Iterator[str]:
    """Yield the statements that lock and change rows of a kind."""
    lock = statements.lock(kind, skip_locked=False)
    updates = [*statements.set_suppression(kind, guarded=kind not in statements.tables.undated)]
    if kind is Suppressible.DISPATCH:
        for time in EventTime:
            if statements.tables.has("dispatches", time.value):
                updates += statements.set_time(time, guarded=True)
    if lock is not None:
        yield lock.text
    for each in updates:
        yield each.text


def _check_version(connection: Connection, dialect: Dialect) -> None:
    ((text,),) = connection.fetch(_VERSION[dialect.name])
    version = text.split()[0]  # Debian adds the version of its package
    if tuple(int(part) for part in version.split(".") if part.isdigit()) < dialect.oldest:
        oldest = ".".join(map(str, dialect.oldest))
        raise ConfigurationError(
            f"hookrow needs {dialect.title} {oldest} or later, but this is {version}: upgrade it."
        )


class _OwnTable(NamedTuple):
    """One of hookrow's own tables, and its requirements. `name` is the name in the migrations."""

    name: str
    purpose: str
    columns: Sequence[str]
    key: Sequence[str]
    mistakes: Callable[[str, Columns], Iterable[str]]
    advice: str
    """The end of the error for a missing table."""


_LOG = _OwnTable(
    "hookrow_notifications",
    "log",
    REQUIRED_COLUMNS,
    ["fingerprint"],
    mistakes_of_log,
    "To use no log, set Schema(log=None), or `log = false` in hookrow.toml.",
)
_DATES = _OwnTable(
    change_dates.TABLE,
    "dates of changes",
    change_dates.COLUMNS,
    change_dates.COLUMNS[:2],
    mistakes_of_dates,
    "It dates the changes of the {undated}, which have no suppression_changed_at.",
)


class _Catalogue:
    """The tables of the schema in the database. The methods raise `SchemaMismatch`."""

    def __init__(self, connection: Connection, dialect: Dialect, schema: Schema) -> None:
        self._connection, self._dialect, self._schema = connection, dialect, schema
        self._has_users = dialect.name == "postgresql"

    def columns(self, name: str) -> Columns:
        """Verify the table of a role; return its columns."""
        role, named = self._schema.roles[name], self._schema.columns(name)
        columns = self._existing(name, role.table)
        used = {*named.values(), *role.where}
        for column in (*named.values(), *role.where):
            if column not in columns:
                raise SchemaMismatch(
                    f"The table {role.table!r} has no column {column!r}.{nearest(column, columns)}"
                )
        written = {theirs for ours, theirs in named.items() if ours in WRITTEN}
        needed = {("SELECT", each) for each in used} | {("UPDATE", each) for each in written}
        if lacking := {right for right, each in needed if right in columns[each].denied}:
            raise denied_error(self._connection, self._dialect, role.table, lacking)
        if written and not self._is_updatable(role.table, written):
            raise SchemaMismatch(
                f"No row of {role.table!r} can be changed, because of a view or a rule: name the "
                "table behind it."
            )
        return columns

    def check_own_tables(self) -> None:
        """Check the log, and the dates of changes if a role needs them."""
        schema = self._schema
        if schema.log is not None:
            self._check_own_table(schema.log, _LOG)
            record = schema.beside_log(MAPPING_RECORD)
            if columns(self._connection, self._dialect, record):  # a host's may lack it
                needed = ["SELECT", "INSERT", "UPDATE"]
                check_privileges(self._connection, self._dialect, record, needed)
            if self._has_users:
                log = regclass(self._dialect, schema.log)
                self._check_usage("sequence", _UNUSABLE_SEQUENCE, log)
        if schema.dated_beside_log:
            self._check_own_table(schema.beside_log(_DATES.name), _DATES)

    def _check_own_table(self, table: str, own: _OwnTable) -> None:
        hint = f"Create it like {own.name} in the output of `hookrow db sql`."
        if self._schema.log == _LOG.name:
            hint = f"Run {UPGRADE}. If your own migrations create it, run those."
        columns = self._existing_own(table, own, hint)
        if missing := [each for each in own.columns if each not in columns]:
            raise SchemaMismatch(f"The table {table!r} lacks {', '.join(missing)}. {hint}")
        for mistake in own.mistakes(table, columns):
            raise SchemaMismatch(f"{mistake} {hint}")
        if not is_unique(self._connection, self._dialect, table, *own.key):
            key = " and ".join(map(repr, own.key))
            raise SchemaMismatch(
                f"The table {table!r} has no unique index on exactly {key}. {hint}"
            )
        needed = ["SELECT", "INSERT", "UPDATE"]
        check_privileges(self._connection, self._dialect, table, needed)

    def _existing_own(self, table: str, own: _OwnTable, hint: str) -> Columns:
        try:
            return self._existing(own.purpose, table)
        except SchemaMismatch as error:
            kinds = [kind.value for kind in Suppressible if kind in self._schema.dated_beside_log]
            advice = own.advice.format(undated=", ".join(kinds))
            raise SchemaMismatch(f"{error} {hint} {advice}") from None

    def are_disjoint(self) -> bool:
        """Return whether no row of one table is also a row of another, for example of a view."""
        changed = [
            regclass(self._dialect, role.table)
            for name, role in self._schema.roles.items()
            if any(ours in WRITTEN for ours in self._schema.columns(name))
        ]
        sql = (
            "SELECT count(DISTINCT c.oid), bool_and(relkind <> 'v') "
            "FROM unnest(%s::text[]) AS name JOIN pg_class AS c ON c.oid = to_regclass(name)"
        )
        ((count, no_view),) = self._connection.fetch(sql, [self._dialect.encode(changed)])
        return bool(count == len(changed) and no_view)

    def _check_usage(self, kind: str, unusable: str, name: str) -> None:
        """Check the privilege USAGE. The query `unusable` returns the name if it is missing."""
        for object_, user in self._connection.fetch(unusable, [name]):
            raise SchemaMismatch(
                f"permission denied for {kind} {object_}: "
                f"GRANT USAGE ON {kind.upper()} {object_} TO {user}"
            )

    def _existing(self, name: str, table: str) -> Columns:
        namespace = table.rpartition(".")[0]
        if namespace and self._has_users:
            self._check_usage("schema", _UNUSABLE_SCHEMA, namespace)
        if found := columns(self._connection, self._dialect, table):
            return found
        bare = table.rpartition(".")[2]
        others = [each for each in tables(self._connection, self._dialect) if each != table]
        elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
        hint = f" Did you mean {elsewhere[0]!r}?" if elsewhere else nearest(table, others)
        if table in {role.table for role in OWN_ROLES.values()} and not elsewhere:
            hint = f" Run {UPGRADE}. {OWN_TABLES}"
        elif table == _LOG.name and not elsewhere:
            hint = ""  # no other table of hookrow's is meant
        raise SchemaMismatch(f"The database has no table {table!r} for the {name}.{hint}")

    def _is_updatable(self, table: str, names: Collection[str]) -> bool:
        """Return whether the database can change these columns of a row."""
        if self._dialect.name == "postgresql":
            sql = "SELECT pg_relation_is_updatable(to_regclass(%s), true) & %s"  # rules count
            named = regclass(self._dialect, table)
            ((bit,),) = self._connection.fetch(sql, [named, _UPDATE])
            ((ignored, hidden),) = self._connection.fetch(_WITHOUT_EFFECT, [named])
            if hidden:
                raise SchemaMismatch(
                    f"Row-level security does not let the user change any row of {table!r}: "
                    "CREATE POLICY ... FOR UPDATE, or connect as a user that may bypass it."
                )
            return bool(bit) and not ignored
        if not is_view(self._connection, self._dialect, table):
            return True
        nulls = ", ".join(f"{self._dialect.quote(name)} = NULL" for name in names)
        try:  # SQLite reports the error when it compiles the statement, which is not run
            update = f"UPDATE {self._dialect.table(table)} SET {nulls}"
            self._connection.fetch(f"EXPLAIN {update} /* {next(_NUMBERS)} */")
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):
                raise
            return False
        return True
