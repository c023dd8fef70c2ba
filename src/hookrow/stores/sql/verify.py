"""Whether a database has what the schema names, of types that can work, and lets it be changed.

How fast rows are found is for `indexes` to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.schema import (
    NULLED,
    OTHERWISE,
    REFERENCES,
    TIMES,
    WRITTEN,
    Given,
    Schema,
    nearest,
)
from hookrow.stores import SchemaChanged
from hookrow.stores.errors import store_error
from hookrow.stores.sql.columns import Column, columns, regclass, tables
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import Dialect
from hookrow.stores.sql.queries import LOG_COLUMNS, Queries

Columns: TypeAlias = Mapping[str, Column]
"""Of one table, by the table's own names."""

_KEYS = {"id", "subscriber_id", "list_id", "message_id"}
_TEXT = {"email", "provider_message_id"}
_UPDATE = 4
"""Of what `pg_relation_is_updatable` says, the bit for UPDATE."""


def verify(database: Database, schema: Schema) -> Queries:
    """Look for every table and column; return the SQL for them.

    Raises `SchemaMismatch` for what cannot work, `ConfigurationError` for a version that is too
    old, and `Unavailable`.
    """
    dialect = database.dialect
    with database.reading() as connection:
        _check_version(connection, dialect)
        found = {name: _columns(connection, dialect, schema, name) for name in schema.roles}
        changed = _changed(schema)
        for table, names in changed:
            _check_updatable(connection, dialect, table, names)
        if schema.log:
            _check_log(connection, dialect, schema.log)
        apart = dialect.single_statement_write and _are_apart(connection, dialect, changed)
    _check_types(schema, found, strict=dialect.name == "postgresql")
    return Queries(schema, found, dialect, single_statement=apart)


def _check_version(connection: Connection, dialect: Dialect) -> None:
    ((shown,),) = connection.fetch(_VERSION[dialect.name])
    version = shown.split()[0]  # Debian's continues with its own
    if tuple(int(part) for part in version.split(".") if part.isdigit()) < dialect.oldest:
        oldest = ".".join(map(str, dialect.oldest))
        raise ConfigurationError(
            f"hookrow needs {dialect.title} {oldest} or later; this is {version}."
        )


_VERSION = {"postgresql": "SHOW server_version", "sqlite": "SELECT sqlite_version()"}


def _columns(connection: Connection, dialect: Dialect, schema: Schema, name: str) -> Columns:
    """Return the columns of a role's table, which has all that it needs."""
    role, named = schema.roles[name], schema.columns(name)
    found = _existing(connection, dialect, name, role.table)
    for column in (*named.values(), *role.where):
        if column not in found:
            raise SchemaMismatch(
                f"The table {role.table!r} has no column {column!r}.{nearest(column, found)}"
            )
    for ours, theirs in named.items():
        if ours in WRITTEN and found[theirs].generated:
            raise SchemaMismatch(
                f"The column {theirs!r} of {role.table!r} is generated, and cannot be written: "
                "name another."
            )
        if ours in NULLED and not found[theirs].nullable:
            raise SchemaMismatch(
                f"The column {theirs!r} of {role.table!r} is NOT NULL, but a reactivation sets it "
                f"to null: drop NOT NULL{_OR_NONE.get(ours, '')}."
            )
    _check_privileges(connection, dialect, role.table, schema, name, found)
    return found


_OR_NONE = {"suppression_reason": ", or map suppression_reason to None to keep no reason"}
"""What else there is to do for a column that every role may leave out."""


def _check_privileges(
    connection: Connection,
    dialect: Dialect,
    table: str,
    schema: Schema,
    name: str,
    found: Columns,
) -> None:
    """Raise `SchemaMismatch`, with the GRANT to run, if the user may not do what is needed."""
    named = schema.columns(name)
    written = {theirs for ours, theirs in named.items() if ours in WRITTEN}
    needed = {*named.values(), *schema.roles[name].where}
    lacking = {
        privilege
        for theirs in needed
        for privilege in found[theirs].denied
        if privilege == "SELECT" or theirs in written
    }
    if lacking:
        raise _denied(connection, dialect, table, lacking)


def _denied(
    connection: Connection, dialect: Dialect, table: str, lacking: Collection[str]
) -> SchemaMismatch:
    ((user,),) = connection.fetch("SELECT quote_ident(current_user)")
    grant = f"GRANT {', '.join(sorted(lacking))} ON {regclass(dialect, table)} TO {user}"
    return SchemaMismatch(f"permission denied for table {table}: {grant}")


def _changed(schema: Schema) -> Sequence[tuple[str, Sequence[str]]]:
    """Return the tables of roles in which notifications set anything, with the columns set."""
    return [
        (role.table, written)
        for name, role in schema.roles.items()
        if (written := [each for ours, each in schema.columns(name).items() if ours in WRITTEN])
    ]


def _check_updatable(
    connection: Connection, dialect: Dialect, table: str, names: Sequence[str]
) -> None:
    """Raise `SchemaMismatch` if the database knows no way to change what is written."""
    if dialect.name == "postgresql":
        sql = "SELECT pg_relation_is_updatable(to_regclass(%s), true) & %s"  # rules count
        updatable = bool(connection.fetch(sql, [regclass(dialect, table), _UPDATE])[0][0])
    else:
        updatable = not is_view(connection, dialect, table) or _compiles(
            connection, dialect, table, names
        )
    if not updatable:
        raise SchemaMismatch(
            f"No row can be changed through the view {table!r}: name the table behind it."
        )


def _compiles(connection: Connection, dialect: Dialect, table: str, names: Sequence[str]) -> bool:
    """Ask SQLite, which knows when it compiles a statement; it is not run."""
    nulls = ", ".join(f"{dialect.quote(name)} = NULL" for name in names)
    try:
        connection.fetch(f"EXPLAIN UPDATE {dialect.table(table)} SET {nulls}")
    except Exception as error:
        if not isinstance(store_error(error), SchemaChanged):
            raise
        return False
    return True


def is_view(connection: Connection, dialect: Dialect, table: str) -> bool:
    """Return whether SQLite has a view of that name."""
    namespace, _, bare = table.rpartition(".")
    master = f"{dialect.quote(namespace)}.sqlite_master" if namespace else "sqlite_master"
    sql = f"SELECT 1 FROM {master} WHERE type = 'view' AND name = %s COLLATE NOCASE"
    return bool(connection.fetch(sql, [bare]))


def _are_apart(
    connection: Connection, dialect: Dialect, changed: Collection[tuple[str, Sequence[str]]]
) -> bool:
    """Return whether no row of one table is also a row of another, as one of a view may be."""
    names = dialect.encode(regclass(dialect, table) for table, _ in changed)
    sql = (
        "SELECT count(DISTINCT c.oid), bool_and(relkind <> 'v') "
        "FROM unnest(%s::text[]) AS name JOIN pg_class AS c ON c.oid = to_regclass(name)"
    )
    ((count, tables_only),) = connection.fetch(sql, [names])
    return bool(count == len(changed) and tables_only)


def _check_log(connection: Connection, dialect: Dialect, name: str) -> None:
    """Raise `SchemaMismatch` if the log lacks anything, and say how to make it."""
    if name == Schema().log:
        hint = "Run: hookrow db upgrade."
    else:
        hint = f"Make it as `hookrow db sql` prints {Schema().log}."
    try:
        found = _existing(connection, dialect, "log", name)
    except SchemaMismatch as error:
        raise SchemaMismatch(
            f"{error} {hint} Without a log: Schema(log=None), or `log = false`."
        ) from None
    missing = [each for each in LOG_COLUMNS if each not in found]
    if missing:
        raise SchemaMismatch(f"The log {name!r} lacks {', '.join(missing)}. {hint}")
    if dialect.name == "postgresql":
        sql = "SELECT has_table_privilege(to_regclass(%s), %s)"
        wanted = ("SELECT", "INSERT", "UPDATE")
        table = regclass(dialect, name)
        if lacking := [each for each in wanted if not connection.fetch(sql, [table, each])[0][0]]:
            raise _denied(connection, dialect, name, lacking)


def _existing(connection: Connection, dialect: Dialect, name: str, table: str) -> Columns:
    found = columns(connection, dialect, table)
    if found:
        return found
    bare = table.rpartition(".")[2]
    others = [each for each in tables(connection, dialect) if each != table]
    elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
    hint = f" Did you mean {elsewhere[0]!r}?" if elsewhere else nearest(table, others)
    raise SchemaMismatch(f"The database has no table {table!r} for the {name}.{hint}")


def _check_types(schema: Schema, found: Mapping[str, Columns], *, strict: bool) -> None:
    """Raise `SchemaMismatch` for the first column of a wrong type.

    What is `strict` compares only text with text: PostgreSQL. SQLite keeps what it is given,
    and only what a column was plainly not meant for is refused.
    """
    check = _Types(schema, found, strict=strict)
    for message in check:
        raise SchemaMismatch(message)


class _Types:
    """What is wrong with the types of columns, each in a sentence."""

    def __init__(self, schema: Schema, found: Mapping[str, Columns], *, strict: bool) -> None:
        self._schema, self._found, self._strict = schema, found, strict
        self._columns = {
            (name, ours): (role.table, found[name][theirs])
            for name, role in schema.roles.items()
            for ours, theirs in schema.columns(name).items()
        }

    def __iter__(self) -> Iterator[str]:
        for (_, ours), (table, column) in self._columns.items():
            for said in self._wrong(ours, column):
                yield f"{_described(table, column)}{said}"
        for name, role in self._schema.roles.items():
            for theirs, value in role.where.items():
                column = self._found[name][theirs]
                if not self._takes(column, value):
                    near = nearest(str(value), column.words)
                    yield f"{_described(role.table, column)}, which never equals {value!r}.{near}"
        if self._strict:
            yield from self._references()

    def _wrong(self, ours: str, column: Column) -> Iterator[str]:
        if ours in _TEXT and self._strict and column.kind != "text":
            yield ", and has to be text: what comes is compared with it as it came."
        elif ours == "email" and self._strict and column.type != "citext":
            if self._schema.subscribers.fold == "citext":
                yield ", not CITEXT: write another fold, lower for example."
        elif ours in _KEYS and column.type == "citext":
            yield "; a key is compared to the letter: make it TEXT."
        elif ours in TIMES and not self._holds_times(column):
            yield (
                ", which holds no date-time: a host that keeps a flag or a status instead writes "
                "it in the hooks on_recorded and on_refused."
            )
        elif ours == "suppression_reason":
            yield from self._reasons(column)

    def _holds_times(self, column: Column) -> bool:
        if self._strict:
            return column.kind == "datetime"
        return column.kind not in {"boolean", "integer", "date", "time"}

    def _reasons(self, column: Column) -> Iterator[str]:
        reasons = self._schema.reasons
        if column.kind == "enum" and OTHERWISE not in (reasons or {}):
            yield (
                ": give `reasons`, with one of its words for each of the provider's and, as '*', "
                "for all others."
            )
        if reasons is None and not self._takes(column, ""):
            yield ", which holds no words: give `reasons` that it can hold."
        for kept in (reasons or {}).values():
            if not self._takes(column, kept):
                near = nearest(str(kept), column.words)
                yield f", which cannot hold the reason {kept!r}.{near}"

    def _references(self) -> Iterator[str]:
        for one, other in REFERENCES:
            if one in self._columns and other in self._columns:
                (table, column), (others, key) = self._columns[one], self._columns[other]
                if column.kind != key.kind:
                    yield (
                        f"{_described(table, column)}, and {key.name!r} of {others!r} is "
                        f"{key.shown}: they cannot be compared, and have to be of one type."
                    )

    def _takes(self, column: Column, value: Given) -> bool:
        """Return whether a column can hold the value."""
        if value is None or value is False:
            return True
        if column.kind == "enum":
            return value in column.words
        if not self._strict and value is not True:
            return column.kind not in _NEVER[type(value)]
        fits = column.length is None or len(str(value)) <= column.length
        return column.kind == _ALWAYS[type(value)] and fits


_ALWAYS = {bool: "boolean", int: "number", str: "text"}
_NEVER = {int: {"text"}, str: {"boolean", "integer"}}
"""By the type of a value: the kind of column that holds it, and those that SQLite will not."""


def _described(table: str, column: Column) -> str:
    return f"The column {column.name!r} of {table!r} is of the type {column.shown}"
