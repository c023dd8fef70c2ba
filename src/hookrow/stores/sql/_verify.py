"""Verifies that a database has the schema's tables, with suitable types, keys and privileges.

`_diagnostics` reports tables that work but are slow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

from hookrow._arguments import collected
from hookrow._core.column_rules import (
    differs,
    fault_of_message_ids,
    faults_of_nulls,
    first_of_each,
)
from hookrow._core.corrections import (
    Table,
    change_model,
    correct,
    correction_of,
    map_role,
)
from hookrow._core.keys import keys
from hookrow._core.known_entries import NO_ENTRIES, KnownEntries
from hookrow._core.notation import Notation
from hookrow._core.notification import EventTime, Suppressible
from hookrow._core.schema import (
    OWN_ROLES,
    TOUCH,
    WRITTEN,
    ModelRole,
    Role,
    Schema,
    nearest_name,
    notation_of,
)
from hookrow._fault import Fault
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores import _change_dates
from hookrow.stores._driver_errors import message, store_error
from hookrow.stores._errors import (
    CREATE_OWN_TABLES,
    UPGRADE,
    Rejected,
    SchemaChanged,
    StoreError,
    create_tables,
)
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to
from hookrow.stores.sql._catalogues import catalogue_of
from hookrow.stores.sql._catalogues.base import Catalogue, Relation
from hookrow.stores.sql._column_rules import (
    can_hold,
    faults_of_columns,
    faults_of_log,
    suits,
)
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Database, savepoint, undone
from hookrow.stores.sql._joined_views import JoinedView, propose_view
from hookrow.stores.sql._keys import faults_of_keys
from hookrow.stores.sql._log_rows import LOG_COLUMNS
from hookrow.stores.sql._needs import (
    Columns,
    Need,
    date_needs,
    log_needs,
    role_needs,
    tenant_needs,
)
from hookrow.stores.sql._rehearsals import REHEARSALS
from hookrow.stores.sql._rehearsals.base import Comparison, comparisons
from hookrow.stores.sql._role_tables import RoleTables
from hookrow.stores.sql._scripts import CHANGE_DATES_TABLE, LOG_TABLE, META_TABLE
from hookrow.stores.sql._statements import STATEMENTS
from hookrow.stores.sql._statements.base import Statements


def verify(database: Database, schema: Schema, entries: KnownEntries = NO_ENTRIES) -> Statements:
    """Verify every table and column; return the statements on them.

    The columns must hold the tenants of the `entries`, and the message ids of their providers.

    Raises `SchemaMismatch` with all faults of the tables and of the mapping: what a table is
    verified for next, it is verified for although another table cannot be used, and although it
    lacks columns, as if the mapping had already been corrected. Also raises `ConfigurationError` if
    the database's version is too old; and `Unavailable`.
    """
    dialect = database.dialect
    models = schema.roles
    schema = _without_declarations(schema)
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        catalogue = catalogue_of(connection, dialect)
        _check_version(catalogue, database)
        catalogue.check_server()
        found = {name: _examine_role(catalogue, schema, name) for name in schema.roles}
        corrected = _corrected(schema, found)
        own_tables = [*_own_tables(catalogue, corrected)]
        faults = [fault for each in found.values() for fault in each.faults]
        faults += [fault for each in own_tables for fault in each.faults]
        columns = {
            name: _with_converters(each.role.table, _completed(corrected, name, each), database)
            for name, each in found.items()
        }
        views = [name for name, each in found.items() if each.is_view]
        statements = STATEMENTS[dialect.name](RoleTables(corrected, columns, dialect, views=views))
        usable = _Usable(statements.tables, found)
        of_columns = _faults_of_columns(catalogue, usable, columns, own_tables, entries)
        faults += _with_models(of_columns, schema, models, columns)
        faults += faults_of_keys(catalogue, statements.tables, usable.roles)
        if not faults and dialect.locks_rows:
            faults += _compile(catalogue, statements)
        if faults:
            absent = [each.name for each in own_tables if not each.columns]
            raise _mismatch(_merged(faults, absent), schema, corrected, found)
        if not catalogue.columns(schema.side_table(META_TABLE)):
            statements.register_writer = None  # nothing is counted without this table
        changed = [schema.roles[kind.value].table for kind in statements.tables.written]
        if not catalogue.can_combine(changed):
            statements.combining = None
    return statements


def own_tables(schema: Schema) -> Collection[str]:
    """Return the names of the own tables of hookrow that migrations create for a schema.

    A role with hookrow's name beside tables of the host is one that the host has not mapped.
    """
    names = {role.table for role in schema.roles.values()} if schema.is_own else set()
    if schema.log is not None:
        names |= {schema.log, schema.side_table(CHANGE_DATES_TABLE)}
    return names


def _merged(faults: Sequence[Fault], absent: Collection[str]) -> Sequence[Fault]:
    """Return the faults with one for all of hookrow's own tables that a single command creates.

    `absent` are the log and the tables next to it, as far as they do not exist.
    """
    merged = [each for each in faults if each.remedy == CREATE_OWN_TABLES]
    if not merged:
        return faults
    merged += [each for each in faults if each.table in absent and each not in merged]
    first, *rest = merged
    if rest:
        *names, last = [repr(each.table) for each in rest]
        listed = f"{', '.join(names)} and {last}" if names else last
        first = replace(first, text=f"{first.text.rstrip('.')}, nor {listed}.")
    return [first, *(each for each in faults if each not in merged)]


def _mismatch(
    faults: Iterable[Fault], schema: Schema, corrected: Schema, found: Mapping[str, _FoundRole]
) -> SchemaMismatch:
    """Return the error for faults, by table, with the lines that correct the mapping."""
    distinct = [*dict.fromkeys(faults)]
    tables = [*dict.fromkeys(each.table for each in distinct)]
    distinct.sort(key=lambda each: tables.index(each.table))
    changed: dict[str, Collection[str]] = {
        name: each.columns
        for name, each in found.items()
        if each.columns and (each.role != schema.roles[name] or _needs_names(each))
    }
    view = found["subscribers"].proposed
    if view is not None:
        role = corrected.subscribers
        columns = {each: column for each, column in role.columns.items() if each != "email"}
        corrected = _with_role(
            corrected, "subscribers", replace(role, table=view.name, columns=columns)
        )
        changed["subscribers"] = {*changed["subscribers"], "email"}
    correction = ""
    if len(distinct) > 1 and changed and schema.notation is not None:
        correction = correction_of(schema.notation, corrected, changed)
    return SchemaMismatch(*distinct, correction=correction)


def _needs_names(found: _FoundRole) -> bool:
    """Return whether the lines of a role have gaps for names; a model declares all of its own."""
    return not isinstance(found.role, ModelRole) and any(each.column for each in found.faults)


def _without_declarations(schema: Schema) -> Schema:
    """Return the schema without what its models declare about columns.

    Corrections choose other columns of a model, and the database knows whether these are suitable.
    """
    roles: dict[str, Any] = {
        name: replace(role, model=replace(role.model, declared={}))
        for name, role in schema.roles.items()
        if isinstance(role, ModelRole)
    }
    return schema.changed(**roles) if roles else schema


def _corrected(schema: Schema, found: Mapping[str, _FoundRole]) -> Schema:
    """Return the schema with the roles as they should be."""
    roles: dict[str, Any] = {name: each.role for name, each in found.items()}
    return schema if roles == schema.roles else schema.changed(**roles)


def _completed(schema: Schema, name: str, found: _FoundRole) -> Columns:
    """Return the columns of a role's table, with a substitute for each that does not exist."""
    role = schema.roles[name]
    used = [*schema.columns(name).values(), *role.where]
    if role.tenant is not None:
        used.append(role.tenant)
    absent = {
        each: Column(each, "", "", "", nullable=True, generated=False, default=False)
        for each in used
        if each not in found.columns
    }
    return {**found.columns, **absent}


def _with_converters(table: str, columns: Columns, database: Database) -> Columns:
    """Return columns with the conversions that the host's own types make of reasons."""
    return {
        name: replace(column, write=database.converters.get((table, name)))
        for name, column in columns.items()
    }


class _Usable:
    """What of the roles' tables can be verified further, because it exists and can be read."""

    def __init__(self, tables: RoleTables, found: Mapping[str, _FoundRole]) -> None:
        self.tables = tables
        self._existing = {each.role.table: each.columns for each in found.values()}
        self._readable = {
            tables.table(name): each.columns for name, each in found.items() if each.is_readable
        }
        self.roles = [
            name
            for name, key in keys(tables.schema).items()
            if found[name].is_readable
            and all(tables.columns(name)[each].name in found[name].columns for each in key)
        ]
        """The roles whose keys can be verified."""

    def has(self, table: str, column: str) -> bool:
        """Return whether a column exists; those of hookrow's own tables do."""
        return column in self._existing.get(table, [column])

    def can_compare(self, comparison: Comparison) -> bool:
        """Return whether the database can compare the columns of a comparison."""
        if not self.has(comparison.fault.table, comparison.fault.column):
            return False
        if any(each not in self._readable for each in comparison.tables):
            return False
        # Only a comparison of two columns names them.
        both = zip(comparison.tables, comparison.columns, strict=False)
        return all(column.name in self._readable[table] for table, column in both)


def _faults_of_columns(
    catalogue: Catalogue,
    usable: _Usable,
    columns_of_roles: Mapping[str, Columns],
    own_tables: Sequence[_FoundTable],
    entries: KnownEntries,
) -> Iterator[Fault]:
    """Yield the unsuitable columns of the roles' tables and of hookrow's own.

    These are the ones that the catalogue shows, and those that the database itself rejects.
    """
    tables = usable.tables
    schema, dialect = tables.schema, tables.dialect
    forms = {name: notation_of(role, schema.form) for name, role in schema.roles.items()}
    columns = {role.table: columns_of_roles[name] for name, role in schema.roles.items()}
    for fault in faults_of_nulls(schema, columns_of_roles, forms):
        if usable.has(fault.table, fault.column):
            column = columns[fault.table][fault.column]
            yield replace(fault, remedy=catalogue.null_advice(fault.table, column))
    found = [*faults_of_columns(schema, columns_of_roles)]
    found += _faults_of_message_ids(schema, columns_of_roles, entries)
    needs = [*role_needs(schema, columns_of_roles)]
    for name, column in tables.tenants.items():
        needs += tenant_needs(schema.roles[name].table, column, entries.tenants)
    needs = [each for each in needs if usable.has(each.table, each.column.name)]
    for each in own_tables:
        found += each.unsuitable
        needs += each.needs
        columns[each.name] = each.columns
    rehearsal = REHEARSALS[dialect.name]
    found += rehearsal.rejected(catalogue.connection, dialect, columns, needs)
    unsuitable = {(each.table, each.column) for each in found}
    compared = [
        each
        for each in comparisons(tables)
        if usable.can_compare(each) and (each.fault.table, each.fault.column) not in unsuitable
    ]
    found += rehearsal.incomparable(catalogue.connection, compared)
    hints = {each.name: each.hint for each in own_tables}
    for fault in first_of_each(found):
        if usable.has(fault.table, fault.column):
            yield replace(fault, remedy=hints.get(fault.table, ""))


def _with_models(
    faults: Iterable[Fault],
    schema: Schema,
    models: Mapping[str, Role],
    columns: Mapping[str, Columns],
) -> Iterator[Fault]:
    """Yield faults of columns with the remedy for those that models declare."""
    unlike = {
        (role.table, column.name)
        for name, role in models.items()
        for column in columns[name].values()
        if differs(role, column)
    }
    for fault in faults:
        is_unlike = (fault.table, fault.column) in unlike
        remedy = change_model(schema, fault, differs=is_unlike)
        yield replace(fault, remedy=remedy or fault.remedy)


def _faults_of_message_ids(
    schema: Schema, columns: Mapping[str, Columns], entries: KnownEntries
) -> Iterator[Fault]:
    """Yield the fault of a text that is too short for the message ids of the entries."""
    if schema.dispatches is None:
        return
    column = columns["dispatches"][schema.columns("dispatches")["provider_message_id"]]
    if not column.holds_uuids:
        fault = fault_of_message_ids(
            schema.dispatches.table,
            column,
            entries.message_id_lengths,
            "change its type to VARCHAR({length}), or to a longer one",
        )
        yield from filter(None, [fault])


def _compile(catalogue: Catalogue, statements: Statements) -> Iterator[Fault]:
    """Let the server plan every statement, but run none. Yield a fault if it cannot."""
    tables = statements.tables
    roles = ", ".join(repr(role.table) for role in tables.schema.roles.values())
    with savepoint(catalogue.connection):
        purpose = Fault(f"The rows of {roles} cannot be found")
        faults = (
            fault
            for sql in _lookups(statements)
            for fault in _compile_lookup(catalogue, sql, purpose)
        )
        yield from islice(faults, 1)
        for kind in tables.written:
            table = tables.schema.roles[kind.value].table
            purpose = Fault(f"The rows of {table!r} cannot be locked and changed", table)
            faults = (
                fault
                for sql in _writes(statements, kind)
                for fault in _compile_one(catalogue, sql, purpose, SchemaChanged, Rejected)
            )
            yield from islice(faults, 1)


def _compile_lookup(catalogue: Catalogue, sql: str, purpose: Fault) -> Iterator[Fault]:
    # Any other error, such as one of a foreign table's server, may be temporary.
    with suppress(Rejected):
        yield from _compile_one(catalogue, sql, purpose, SchemaChanged)


def _compile_one(
    catalogue: Catalogue, sql: str, purpose: Fault, *expected: type[StoreError]
) -> Iterator[Fault]:
    """Yield the purpose of a statement, with the error, if it is one of those expected."""
    try:
        with undone(catalogue.connection):
            catalogue.compile(sql)
    except Exception as error:
        cause = store_error(error)
        if not isinstance(cause, expected):
            raise cause from error
        yield replace(purpose, text=f"{purpose.text}: {message(cause)}")


def _lookups(statements: Statements) -> Iterator[str]:
    """Yield the statements that find rows."""
    if statements.tables.has("dispatches"):
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
    unsuitable: Callable[[str, Columns], Iterable[Fault]]
    needs: Callable[[str, Columns], Iterable[Need]]
    advice: str
    """The end of the error for a missing table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundTable:
    """A table of hookrow's own in the database; `hint` is the remedy for unsuitable columns.

    `unsuitable` and `needs` are empty if it lacks columns.
    """

    name: str
    faults: Sequence[Fault] = ()
    columns: Columns = field(default_factory=dict)
    unsuitable: Iterable[Fault] = ()
    needs: Iterable[Need] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundRole:
    """The table of a role in the database.

    `role` has the corrections of the mapping. `columns` are those that exist: none if the table
    does not.
    """

    role: Role
    faults: Sequence[Fault]
    columns: Columns = field(default_factory=dict)
    is_readable: bool = False
    is_view: bool = False
    proposed: JoinedView | None = None
    """A view to map instead of the table."""


_LOG = _OwnTable(
    LOG_TABLE,
    "log",
    LOG_COLUMNS,
    ["fingerprint"],
    faults_of_log,
    log_needs,
    "To use no log, {no_log}.",
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


def _examine_role(catalogue: Catalogue, schema: Schema, name: str) -> _FoundRole:
    """Look for the table of a role and its columns, with the privileges that they need."""
    role, faults = schema.roles[name], list[Fault]()
    with collected(faults):
        catalogue.check_namespace(role.table)
    if faults:
        return _FoundRole(role=role, faults=faults)
    columns = catalogue.columns(role.table)
    if not columns:
        fault, near = _missing_table(catalogue, schema, name, role.table)
        if isinstance(role, ModelRole):
            remedy = f"{role.model.name} declares it: run your migrations, or correct the model."
            if role.model.bind is not None:
                remedy = (
                    f"{role.model.name} is bound to {role.model.bind!r}: pass the engine of that "
                    f'database, db.engines["{role.model.bind}"], or run its migrations.'
                )
            fault, near = replace(fault, text=f"{fault.text} {remedy}"), None
        faults.append(fault)
        if near is None or schema.notation is None:
            return _FoundRole(role=role, faults=faults)
        role, columns = replace(role, table=near), catalogue.columns(near)
        schema = _with_role(schema, name, role)
    with collected(faults):
        catalogue.check_storage(role.table)
    key = catalogue.primary_key(role.table)
    table = Table(
        role.table,
        columns,
        sorted(columns, key=lambda name: columns[name].kind == "boolean"),  # rather a time
        lambda field, column: suits(field, columns[column]),
        lambda field, column: can_hold(field, columns[column]),
        key[0] if len(key) == 1 else None,
    )
    corrected, missing = correct(schema, name, table, schema.notation)
    view = None
    named = _with_role(schema, name, corrected)
    if name == "subscribers" and schema.notation and corrected.column("email") not in columns:
        view = propose_view(catalogue, named, columns)
    if view is not None:
        email = schema.columns(name)["email"]
        text = f"The table {role.table!r} has no column {email!r}. {view.advice}"
        missing = [replace(each, text=text) if each.column == email else each for each in missing]
    faults += missing
    denied = [*_denied(catalogue, named, name, columns)]
    return _FoundRole(
        role=corrected,
        faults=[*faults, *denied],
        columns=columns,
        is_readable=not denied,
        is_view=catalogue.relation(role.table) is Relation.VIEW,
        proposed=view,
    )


def _with_role(schema: Schema, name: str, role: Role) -> Schema:
    return schema.changed(**{name: role})


def _denied(catalogue: Catalogue, schema: Schema, name: str, columns: Columns) -> Iterator[Fault]:
    """Yield what the user may not do with the existing columns of a role's table."""
    role, named = schema.roles[name], schema.columns(name)
    used = {*named.values(), *role.where, *filter(None, [role.tenant])} & columns.keys()
    set_by_writes = {column for field, column in named.items() if field in {*WRITTEN, TOUCH}}
    written = set_by_writes & columns.keys()
    needed = {("SELECT", each) for each in used} | {("UPDATE", each) for each in written}
    if lacking := {right for right, each in needed if right in columns[each].denied}:
        yield from catalogue.denied_error(role.table, lacking).faults
        return
    found = list[Fault]()
    with collected(found):
        if written and not catalogue.is_updatable(role.table, written):
            text = (
                f"No row of {role.table!r} can be changed, because of a view or a rule: name the "
                "table behind it."
            )
            found.append(Fault(text, role.table))
    yield from found


def _missing_table(
    catalogue: Catalogue, schema: Schema, name: str, table: str
) -> tuple[Fault, str | None]:
    """Return the fault for a table that does not exist, and another one that may be meant."""
    text = f"The database has no table {table!r} for the {name}."
    bare = table.rpartition(".")[2]
    used = {role.table for role in schema.roles.values()}
    others = [each for each in catalogue.tables() if each not in used]
    elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
    own = {role.table for role in OWN_ROLES.values()}
    if not elsewhere and table in own:
        if used <= own:
            return Fault(text, table, remedy=CREATE_OWN_TABLES), None
        return Fault(text, table, remedy=map_role(schema, name)), None
    if not elsewhere and table == _LOG.name:
        return Fault(text, table), None  # no other table of hookrow's is meant
    near = elsewhere[0] if elsewhere else nearest_name(table, others)
    if near is None:
        return Fault(text, table), None
    text += f" Did you mean {near!r}?"
    role = schema.roles.get(name)
    if role is not None and not isinstance(role, ModelRole) and schema.notation is not None:
        text += f" Write {schema.notation.option('table', near)}."
    return Fault(text, table), near


def _own_tables(catalogue: Catalogue, schema: Schema) -> Iterator[_FoundTable]:
    """Examine the log, and the dates of changes if a role needs them, except their columns."""
    if schema.log is not None:
        dialect = catalogue.dialect
        searched = (dialect.parked_message_id, dialect.changed_recipient, dialect.is_expired)
        generated = [each for each in searched if each and each not in _LOG.columns]
        columns = [*_LOG.columns, *generated]
        log = _own_table(catalogue, schema, schema.log, _LOG._replace(columns=columns))
        faults = [*log.faults]
        record = schema.side_table(META_TABLE)
        if catalogue.columns(record):  # a host's may lack it
            with collected(faults):
                catalogue.check_privileges(record, _WRITING)
        if log.columns:
            with collected(faults):
                catalogue.check_sequence(schema.log)
        yield replace(log, faults=faults)
    if schema.dated_in_side_table:
        table = schema.side_table(_CHANGE_DATES.name)
        yield _own_table(catalogue, schema, table, _CHANGE_DATES)


_NO_LOG = {
    Notation.PYTHON: "set Schema(log=None)",
    Notation.TOML: "set `log = false` in [tables] in hookrow.toml",
    Notation.DJANGO: "set HOOKROW['LOG'] to False",
}
"""How to disable the log, in the middle of a sentence."""


def _own_table(catalogue: Catalogue, schema: Schema, table: str, own: _OwnTable) -> _FoundTable:
    hint = f"Create it like {own.name} in the output of `hookrow db sql`."
    if schema.log == _LOG.name:
        by_the_host = f"Run {UPGRADE}. If your own migrations create it, run those."
        hint = create_tables(schema) if schema.declares_log else by_the_host
    kinds = [kind.value for kind in Suppressible if kind in schema.dated_in_side_table]
    advice = own.advice.format(unguarded=", ".join(kinds), no_log=_NO_LOG[schema.form])
    hint = f"{hint} {advice}"
    faults = list[Fault]()
    with collected(faults):
        catalogue.check_namespace(table)
    columns = {} if faults else catalogue.columns(table)
    if not columns:
        if not faults:
            faults.append(_missing_table(catalogue, schema, own.purpose, table)[0])
        return _FoundTable(name=table, faults=[replace(each, remedy=hint) for each in faults])
    with collected(faults):
        catalogue.check_storage(table)
    if missing := [each for each in own.columns if each not in columns]:
        text = f"The table {table!r} lacks {', '.join(missing)}."
        faults.append(Fault(text, table, remedy=hint))
    if not catalogue.is_unique(table, *own.key):
        key = " and ".join(map(repr, own.key))
        text = f"The table {table!r} has no unique index on exactly {key}."
        faults.append(Fault(text, table, remedy=hint))
    with collected(faults):
        catalogue.check_privileges(table, _WRITING)
    if missing:
        return _FoundTable(name=table, faults=faults, columns=columns)
    return _FoundTable(
        name=table,
        faults=faults,
        columns=columns,
        unsuitable=own.unsuitable(table, columns),
        needs=own.needs(table, columns),
        hint=hint,
    )


_WRITING = ("SELECT", "INSERT", "UPDATE")
"""The privileges that hookrow needs on its own tables."""
