"""Whether a database has what the schema names, of types that can work, and lets it be changed.

How fast rows are found is for `advice` to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.schema import NULLED, OTHERWISE, REFERENCES, TIMES, WRITTEN, Given, Schema, nearest
from hookrow.stores import SchemaChanged
from hookrow.stores.errors import store_error
from hookrow.stores.sql.columns import Column, columns, denied_error, is_view, regclass, tables
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import Dialect
from hookrow.stores.sql.queries import LOG_COLUMNS, Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

Columns: TypeAlias = Mapping[str, Column]
"""Of one table, by the table's own names."""

_VERSION = {"postgresql": "SHOW server_version", "sqlite": "SELECT sqlite_version()"}

_UPDATE = 4
"""Of what `pg_relation_is_updatable` says, the bit for UPDATE."""

_KEYS = {"id", "subscriber_id", "list_id", "message_id"}
_TEXT = {"email", "provider_message_id"}


def verify(database: Database, schema: Schema) -> Queries:
    """Look for every table and column; return the SQL for them.

    Raises `SchemaMismatch` for what cannot work, `ConfigurationError` for a version that is too
    old, and `Unavailable`.
    """
    dialect = database.dialect
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        _check_version(connection, dialect)
        tables = _Tables(connection, dialect, schema)
        found = {name: tables.columns(name) for name in schema.roles}
        tables.check_log()
        single_statement = dialect.single_statement_write and tables.are_apart()
    for wrong in _Types(schema, found, strict=dialect.name == "postgresql"):
        raise SchemaMismatch(wrong)
    return Queries(schema, found, dialect, single_statement=single_statement)


def _check_version(connection: Connection, dialect: Dialect) -> None:
    ((shown,),) = connection.fetch(_VERSION[dialect.name])
    version = shown.split()[0]  # Debian's continues with its own
    if tuple(int(part) for part in version.split(".") if part.isdigit()) < dialect.oldest:
        oldest = ".".join(map(str, dialect.oldest))
        raise ConfigurationError(
            f"hookrow needs {dialect.title} {oldest} or later; this is {version}."
        )


class _Tables:
    """What the database has of the schema. Each method raises `SchemaMismatch`."""

    def __init__(self, connection: Connection, dialect: Dialect, schema: Schema) -> None:
        self._connection, self._dialect, self._schema = connection, dialect, schema

    def columns(self, name: str) -> Columns:
        """Return the columns of a role's table, which has all that the role needs."""
        role, named = self._schema.roles[name], self._schema.columns(name)
        found = self._existing(name, role.table)
        for column in (*named.values(), *role.where):
            if column not in found:
                raise SchemaMismatch(
                    f"The table {role.table!r} has no column {column!r}.{nearest(column, found)}"
                )
        for ours in WRITTEN:
            if ours in named:
                _check_written(role.table, ours, found[named[ours]])
        written = {theirs for ours, theirs in named.items() if ours in WRITTEN}
        denied = {(each, privilege) for each in found for privilege in found[each].denied}
        lacking = {
            privilege
            for each, privilege in denied
            if each in (written if privilege == "UPDATE" else {*named.values(), *role.where})
        }
        if lacking:
            raise denied_error(self._connection, self._dialect, role.table, lacking)
        if written and not self._is_updatable(role.table, written):
            raise SchemaMismatch(
                f"No row can be changed through the view {role.table!r}: name the table behind it."
            )
        return found

    def check_log(self) -> None:
        """Look whether the log, if there is one, has all columns and may be written."""
        name = self._schema.log
        if name is None:
            return
        usual = Schema().log
        hint = f"Make it as `hookrow db sql` prints {usual}."
        if name == usual:
            hint = "Run: hookrow db upgrade."
        try:
            found = self._existing("log", name)
        except SchemaMismatch as error:
            raise SchemaMismatch(
                f"{error} {hint} Without a log: Schema(log=None), or `log = false`."
            ) from None
        missing = [each for each in LOG_COLUMNS if each not in found]
        if missing:
            raise SchemaMismatch(f"The log {name!r} lacks {', '.join(missing)}. {hint}")
        if self._dialect.name == "postgresql":
            sql = "SELECT p FROM unnest(%s::text[]) AS p WHERE NOT has_table_privilege(%s, p)"
            wanted = self._dialect.encode(["SELECT", "INSERT", "UPDATE"])
            lacking = self._connection.fetch(sql, [wanted, regclass(self._dialect, name)])
            if lacking:
                privileges = {privilege for (privilege,) in lacking}
                raise denied_error(self._connection, self._dialect, name, privileges)
            denied = (
                "SELECT sequence, quote_ident(current_user) "
                "FROM pg_get_serial_sequence(%s, 'id') AS sequence "
                "WHERE NOT has_sequence_privilege(sequence, 'USAGE')"
            )
            for sequence, user in self._connection.fetch(denied, [regclass(self._dialect, name)]):
                raise SchemaMismatch(
                    f"permission denied for sequence {sequence}: "
                    f"GRANT USAGE ON SEQUENCE {sequence} TO {user}"
                )

    def are_apart(self) -> bool:
        """Return whether no row of one table is also a row of another, as one of a view may be."""
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

    def _existing(self, name: str, table: str) -> Columns:
        self._check_usage(table)
        if found := columns(self._connection, self._dialect, table):
            return found
        bare = table.rpartition(".")[2]
        others = [each for each in tables(self._connection, self._dialect) if each != table]
        elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
        hint = f" Did you mean {elsewhere[0]!r}?" if elsewhere else nearest(table, others)
        raise SchemaMismatch(f"The database has no table {table!r} for the {name}.{hint}")

    def _check_usage(self, table: str) -> None:
        namespace = table.rpartition(".")[0]
        if namespace and self._dialect.name == "postgresql":
            denied = (
                "SELECT quote_ident(nspname), quote_ident(current_user) FROM pg_namespace "
                "WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')"
            )
            for schema, user in self._connection.fetch(denied, [namespace]):
                grant = f"GRANT USAGE ON SCHEMA {schema} TO {user}"
                raise SchemaMismatch(f"permission denied for schema {schema}: {grant}")

    def _is_updatable(self, table: str, names: set[str]) -> bool:
        """Return whether the database knows a way to change these columns of a row."""
        if self._dialect.name == "postgresql":
            sql = "SELECT pg_relation_is_updatable(to_regclass(%s), true) & %s"  # rules count
            return bool(
                self._connection.fetch(sql, [regclass(self._dialect, table), _UPDATE])[0][0]
            )
        if not is_view(self._connection, self._dialect, table):
            return True
        nulls = ", ".join(f"{self._dialect.quote(name)} = NULL" for name in names)
        try:  # SQLite knows when it compiles a statement; this one is not run
            self._connection.fetch(f"EXPLAIN UPDATE {self._dialect.table(table)} SET {nulls}")
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):
                raise
            return False
        return True


def _check_written(table: str, ours: str, column: Column) -> None:
    if column.generated:
        raise SchemaMismatch(
            f"The column {column.name!r} of {table!r} is generated, and cannot be written: name "
            "another."
        )
    if ours in NULLED and not column.nullable:
        # Every role may leave out the reason.
        other = ", or map suppression_reason to None to keep no reason"
        raise SchemaMismatch(
            f"The column {column.name!r} of {table!r} is NOT NULL, but a reactivation sets it to "
            f"null: drop NOT NULL{other if ours == 'suppression_reason' else ''}."
        )


class _Types:
    """What is wrong with the types of columns, each in a sentence.

    What is `strict` compares only text with text: PostgreSQL. SQLite keeps what it is given, and
    only what a column was plainly not meant for is refused.
    """

    def __init__(self, schema: Schema, found: Mapping[str, Columns], *, strict: bool) -> None:
        self._schema, self._found, self._strict = schema, found, strict
        self._columns = {
            (name, ours): (role.table, found[name][theirs])
            for name, role in schema.roles.items()
            for ours, theirs in schema.columns(name).items()
        }

    def __iter__(self) -> Iterator[str]:
        for (_, ours), (table, column) in self._columns.items():
            for wrong in self._wrong(ours, column):
                yield f"{_described(table, column)}{wrong}"
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
