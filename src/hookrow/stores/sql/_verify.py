"""Verifies that a database has the schema's tables, with suitable types, keys and privileges.

`_diagnostics` reports tables that work but are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from hookrow._core.notification import EventTime, Key, Suppressible
from hookrow._core.schema import OWN_ROLES, WRITTEN, Schema, nearest
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores import _change_dates
from hookrow.stores._driver_errors import message, store_error
from hookrow.stores._errors import OWN_TABLES, UPGRADE, Rejected, SchemaChanged, StoreError
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Catalogue, Relation
from hookrow.stores.sql._column_rules import first_of_each, mistakes, mistakes_of_log
from hookrow.stores.sql._connections import Connection, Database, savepoint, undone
from hookrow.stores.sql._keys import key_mistakes
from hookrow.stores.sql._log_rows import LOG_COLUMNS
from hookrow.stores.sql._needs import (
    Columns,
    Mistake,
    Need,
    date_needs,
    log_needs,
    role_needs,
    tenant_needs,
)
from hookrow.stores.sql._rehearsals import REHEARSALS
from hookrow.stores.sql._rehearsals.base import comparisons
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._scripts import CHANGE_DATES_TABLE, LOG_TABLE, META_TABLE
from hookrow.stores.sql._statements import STATEMENTS
from hookrow.stores.sql._statements.base import Statements


def verify(
    database: Database, schema: Schema, tenants: Mapping[str, Key] = MappingProxyType({})
) -> Statements:
    """Verify every table and column; return the statements on them.

    The columns of tenants must hold the values of the `tenants`, which are named by their entries.

    Raises `SchemaMismatch` for the first table or column that is missing, for all columns that are
    unsuitable, or for the first other reason why the tables cannot work; `ConfigurationError` if
    the database's version is too old; and `Unavailable`.
    """
    dialect = database.dialect
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        catalogue = catalogue_of(connection, dialect)
        _check_version(catalogue, database)
        catalogue.check_server()
        verification = _Verification(catalogue, schema)
        columns = {
            name: _with_converters(role.table, verification.columns(name), database)
            for name, role in schema.roles.items()
        }
        own_tables = [*verification.own_tables()]
        views = [
            name
            for name, role in schema.roles.items()
            if catalogue.relation(role.table) is Relation.VIEW
        ]
        tables = RoleTables(schema, columns, dialect, views=views)
        statements = STATEMENTS[dialect.name](tables)
        if not catalogue.columns(schema.side_table(META_TABLE)):
            statements.register_writer = None  # nothing is counted without this table
        changed = [schema.roles[kind.value].table for kind in statements.tables.written]
        if not catalogue.can_combine(changed):
            statements.combining = None
        _check_columns(connection, statements.tables, columns, own_tables, tenants)
        for mistake in key_mistakes(catalogue, statements.tables):
            raise SchemaMismatch(mistake)
        if dialect.locks_rows:
            _compile(catalogue, statements)
    return statements


def _with_converters(table: str, columns: Columns, database: Database) -> Columns:
    """Return columns with the conversions that the host's own types make of reasons."""
    return {
        name: replace(column, write=database.converters.get((table, name)))
        for name, column in columns.items()
    }


def _check_columns(
    connection: Connection,
    tables: RoleTables,
    columns_of_roles: Mapping[str, Columns],
    own_tables: Sequence[_FoundTable],
    tenants: Mapping[str, Key],
) -> None:
    """Raise `SchemaMismatch` for all unsuitable columns of the roles' tables and of hookrow's own.

    These are the ones that the catalogue shows, and those that the database itself rejects.
    """
    schema, dialect = tables.schema, tables.dialect
    found = [*mistakes(schema, columns_of_roles)]
    needs = [*role_needs(schema, columns_of_roles)]
    for name, column in tables.tenants.items():
        needs += tenant_needs(schema.roles[name].table, column, tenants)
    columns = {role.table: columns_of_roles[name] for name, role in schema.roles.items()}
    for each in own_tables:
        found += each.mistakes
        needs += each.needs
        columns[each.name] = each.columns
    rehearsal = REHEARSALS[dialect.name]
    found += rehearsal.rejected(connection, dialect, columns, needs)
    unsuitable = {(each.table, each.column) for each in found}
    compared = [each for each in comparisons(tables) if each.mistake[:2] not in unsuitable]
    found += rehearsal.incomparable(connection, compared)
    hints = {each.name: each.hint for each in own_tables}
    texts: dict[str, list[str]] = {}
    for mistake in first_of_each(found):
        texts.setdefault(mistake.table, []).append(mistake.text)
    if texts:
        sentences = (
            " ".join([*of_table, *([hints[table]] if table in hints else [])])
            for table, of_table in texts.items()
        )
        raise SchemaMismatch(" ".join(sentences))


def _compile(catalogue: Catalogue, statements: Statements) -> None:
    """Let the server plan every statement, but run none. Raises `SchemaMismatch` if it cannot."""
    tables = statements.tables
    roles = ", ".join(repr(role.table) for role in tables.schema.roles.values())
    with savepoint(catalogue.connection):
        for sql in _lookups(statements):
            # Any other error, such as one of a foreign table's server, may be temporary.
            with suppress(Rejected), undone(catalogue.connection):
                _compile_one(catalogue, sql, f"The rows of {roles} cannot be found", SchemaChanged)
    for kind in tables.written:
        purpose = (
            f"The rows of {tables.schema.roles[kind.value].table!r} cannot be locked and changed"
        )
        for sql in _writes(statements, kind):
            _compile_one(catalogue, sql, purpose, SchemaChanged, Rejected)


def _compile_one(catalogue: Catalogue, sql: str, purpose: str, *mistakes: type[StoreError]) -> None:
    try:
        catalogue.compile(sql)
    except Exception as error:
        cause = store_error(error)
        if isinstance(cause, mistakes):
            cause.__cause__ = error
            raise SchemaMismatch(f"{purpose}: {message(cause)}") from error
        raise cause from error


def _lookups(statements: Statements) -> Iterator[str]:
    """Yield the statements that find rows."""
    yield statements.find(subscribers=False, subscriptions=False)
    yield statements.find(subscribers=True, subscriptions=statements.finds_subscriptions)
    if statements.tables.schema.log:
        log = statements.dialect.table(statements.tables.schema.log)
        yield f"SELECT 1 FROM {log} AS n{statements.of_entries} WHERE {statements.hopeful}"


def _writes(statements: Statements, kind: Suppressible) -> Iterator[str]:
    """Yield the statements that read, lock and change rows of a kind."""
    tables = statements.tables
    yield statements.state(kind)
    yield statements.lock(kind, skip_locked=False).text
    updates = [*statements.set_suppression(kind, guarded=kind not in tables.unguarded)]
    if kind is Suppressible.DISPATCH:
        for time in EventTime:
            if tables.has("dispatches", time.value):
                updates += statements.set_time(time, guarded=True)
    for each in updates:
        yield each.text


def _check_version(catalogue: Catalogue, database: Database) -> None:
    title, text, version = catalogue.version()
    oldest = database.dialect.oldest[title]
    if version < oldest:
        required = ".".join(map(str, oldest))
        raise ConfigurationError(
            f"hookrow needs {title} {required} or later, but this is {text}: upgrade it."
        )


class _OwnTable(NamedTuple):
    """One of hookrow's own tables, and its requirements. `name` is the name in the migrations."""

    name: str
    purpose: str
    columns: Sequence[str]
    key: Sequence[str]
    mistakes: Callable[[str, Columns], Iterable[Mistake]]
    needs: Callable[[str, Columns], Iterable[Need]]
    advice: str
    """The end of the error for a missing table."""


class _FoundTable(NamedTuple):
    """A table of hookrow's own in the database; `hint` is the remedy for unsuitable columns."""

    name: str
    columns: Columns
    mistakes: Iterable[Mistake]
    needs: Iterable[Need]
    hint: str


_LOG = _OwnTable(
    LOG_TABLE,
    "log",
    LOG_COLUMNS,
    ["fingerprint"],
    mistakes_of_log,
    log_needs,
    "To use no log, set Schema(log=None), or `log = false` in hookrow.toml.",
)
_CHANGE_DATES = _OwnTable(
    CHANGE_DATES_TABLE,
    "dates of changes",
    _change_dates.CHANGE_DATE_COLUMNS,
    _change_dates.CHANGE_DATE_COLUMNS[:2],
    lambda *_: (),
    date_needs,
    "It dates the changes of the {unguarded}, which have no suppression_changed_at.",
)


class _Verification:
    """The tables of the schema in the database. The methods raise `SchemaMismatch`."""

    def __init__(self, catalogue: Catalogue, schema: Schema) -> None:
        self._catalogue, self._schema = catalogue, schema

    def columns(self, name: str) -> Columns:
        """Verify the table of a role; return its columns."""
        role, named = self._schema.roles[name], self._schema.columns(name)
        columns = self._existing(name, role.table)
        used = [*named.values(), *role.where]
        if role.tenant is not None:
            used.append(role.tenant)
        for column in used:
            if column not in columns:
                raise SchemaMismatch(
                    f"The table {role.table!r} has no column {column!r}.{nearest(column, columns)}"
                )
        written = {column_name for field, column_name in named.items() if field in WRITTEN}
        needed = {("SELECT", each) for each in used} | {("UPDATE", each) for each in written}
        if lacking := {right for right, each in needed if right in columns[each].denied}:
            raise self._catalogue.denied_error(role.table, lacking)
        if written and not self._catalogue.is_updatable(role.table, written):
            raise SchemaMismatch(
                f"No row of {role.table!r} can be changed, because of a view or a rule: name the "
                "table behind it."
            )
        return columns

    def own_tables(self) -> Iterator[_FoundTable]:
        """Check the log, and the dates of changes if a role needs them, except their columns."""
        schema = self._schema
        if schema.log is not None:
            dialect = self._catalogue.dialect
            searched = (dialect.parked_message_id, dialect.changed_recipient, dialect.is_expired)
            generated = [each for each in searched if each and each not in _LOG.columns]
            columns = [*_LOG.columns, *generated]
            yield self._own_table(schema.log, _LOG._replace(columns=columns))
            record = schema.side_table(META_TABLE)
            if self._catalogue.columns(record):  # a host's may lack it
                self._catalogue.check_privileges(record, _WRITING)
            self._catalogue.check_sequence(schema.log)
        if schema.dated_in_side_table:
            yield self._own_table(schema.side_table(_CHANGE_DATES.name), _CHANGE_DATES)

    def _own_table(self, table: str, own: _OwnTable) -> _FoundTable:
        hint = f"Create it like {own.name} in the output of `hookrow db sql`."
        if self._schema.log == _LOG.name:
            hint = f"Run {UPGRADE}. If your own migrations create it, run those."
        columns = self._existing_own(table, own, hint)
        if missing := [each for each in own.columns if each not in columns]:
            raise SchemaMismatch(f"The table {table!r} lacks {', '.join(missing)}. {hint}")
        if not self._catalogue.is_unique(table, *own.key):
            key = " and ".join(map(repr, own.key))
            raise SchemaMismatch(
                f"The table {table!r} has no unique index on exactly {key}. {hint}"
            )
        self._catalogue.check_privileges(table, _WRITING)
        return _FoundTable(
            table, columns, own.mistakes(table, columns), own.needs(table, columns), hint
        )

    def _existing_own(self, table: str, own: _OwnTable, hint: str) -> Columns:
        try:
            return self._existing(own.purpose, table)
        except SchemaMismatch as error:
            kinds = [
                kind.value for kind in Suppressible if kind in self._schema.dated_in_side_table
            ]
            advice = own.advice.format(unguarded=", ".join(kinds))
            raise SchemaMismatch(f"{error} {hint} {advice}") from None

    def _existing(self, name: str, table: str) -> Columns:
        self._catalogue.check_namespace(table)
        if columns := self._catalogue.columns(table):
            self._catalogue.check_storage(table)
            return columns
        bare = table.rpartition(".")[2]
        others = [each for each in self._catalogue.tables() if each != table]
        elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
        hint = f" Did you mean {elsewhere[0]!r}?" if elsewhere else nearest(table, others)
        if table in {role.table for role in OWN_ROLES.values()} and not elsewhere:
            hint = f" Run {UPGRADE}. {OWN_TABLES}"
        elif table == _LOG.name and not elsewhere:
            hint = ""  # no other table of hookrow's is meant
        raise SchemaMismatch(f"The database has no table {table!r} for the {name}.{hint}")


_WRITING = ("SELECT", "INSERT", "UPDATE")
"""The privileges that hookrow needs on its own tables."""
