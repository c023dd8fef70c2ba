"""Verifies that a database has the schema's tables, with suitable types and privileges.

`advice` reports what works and is slow.
"""

from __future__ import annotations

from collections.abc import Collection

from hookrow.core.notification import EventTime, Suppressible
from hookrow.core.schema import WRITTEN, Schema, nearest
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores import Rejected, SchemaChanged, dates
from hookrow.stores.errors import message, store_error
from hookrow.stores.sql.column_rules import (
    Columns,
    mistakes,
    mistakes_of_dates,
    mistakes_of_log,
)
from hookrow.stores.sql.columns import (
    columns,
    denied_error,
    is_unique,
    is_view,
    regclass,
    tables,
)
from hookrow.stores.sql.connections import Connection, Database
from hookrow.stores.sql.dialects import Dialect, count_parameters
from hookrow.stores.sql.log_insert import LOG_COLUMNS
from hookrow.stores.sql.queries import Queries
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, limited_to

_VERSION = {"postgresql": "SHOW server_version", "sqlite": "SELECT sqlite_version()"}

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
"""Whether a rule ignores each UPDATE, and whether no policy allows any: both report no error."""


def verify(database: Database, schema: Schema) -> Queries:
    """Look for every table and column; return the SQL for them.

    Raises `SchemaMismatch` for what cannot work, `ConfigurationError` for a version that is too
    old, and `Unavailable`.
    """
    dialect = database.dialect
    with limited_to(STATEMENT_TIMEOUT), database.reading() as connection:
        _check_version(connection, dialect)
        catalogue = _Catalogue(connection, dialect, schema)
        found = {name: catalogue.columns(name) for name in schema.roles}
        if schema.log is not None:
            catalogue.check_log(schema.log)
        if schema.dated_beside_log:
            catalogue.check_dates(schema.beside_log(dates.TABLE))
        for mistake in mistakes(schema, found):
            raise SchemaMismatch(mistake)
        single_statement = dialect.single_statement_write and catalogue.are_apart()
        queries = Queries(schema, found, dialect, single_statement=single_statement)
        queries.warning = encoding_fault(connection, dialect)
        if dialect.takes_rows:
            _plan(connection, queries)
    return queries


def encoding_fault(connection: Connection, dialect: Dialect) -> str | None:
    """Return a sentence on an encoding that lacks characters; None if there is no fault."""
    if dialect.name != "postgresql":
        return None
    ((encoding,),) = connection.fetch("SHOW server_encoding")
    if encoding == "UTF8":
        return None
    return (
        f"The encoding of the database is {encoding}, not UTF8: a notification with a character "
        "that it lacks, such as an emoji in a reason, gets 503."
    )


def _plan(connection: Connection, queries: Queries) -> None:
    """Let PostgreSQL plan every write, for no rows. Raises `SchemaMismatch` if it cannot."""
    for kind in queries.written:
        table = queries.schema.roles[kind.value].table
        guarded = kind not in queries.undated
        changes = [*queries.updates.set_suppression(kind, guarded=guarded, at_once=False)]
        if kind is Suppressible.DISPATCH:
            changes += [queries.updates.set_time(time, guarded=True) for time in EventTime]
        locks = queries.lock(kind, skip_locked=False)
        for statement in [locks, *(change.statement for change in changes)]:
            nothing = [queries.dialect.encode(())] * count_parameters(statement.text)
            try:
                connection.fetch(f"EXPLAIN {statement.text}", nothing)
            except Exception as error:
                if not isinstance(meant := store_error(error), SchemaChanged | Rejected):
                    raise
                meant.__cause__ = error
                raise SchemaMismatch(
                    f"The rows of {table!r} cannot be locked and changed: {message(meant)}"
                ) from error


def _check_version(connection: Connection, dialect: Dialect) -> None:
    ((shown,),) = connection.fetch(_VERSION[dialect.name])
    version = shown.split()[0]  # Debian's continues with its own
    if tuple(int(part) for part in version.split(".") if part.isdigit()) < dialect.oldest:
        oldest = ".".join(map(str, dialect.oldest))
        raise ConfigurationError(
            f"hookrow needs {dialect.title} {oldest} or later; this is {version}."
        )


def _hint(is_ours: bool, table: str) -> str:  # noqa: FBT001 - private
    """Say how to create one of hookrow's tables, depending on where the log is."""
    if is_ours:
        return "Run: hookrow db upgrade. If your own migrations create hookrow's tables: run those."
    return f"Make it as `hookrow db sql` prints {table}."


class _Catalogue:
    """The tables of the schema in the database. Each method raises `SchemaMismatch`."""

    def __init__(self, connection: Connection, dialect: Dialect, schema: Schema) -> None:
        self._connection, self._dialect, self._schema = connection, dialect, schema
        self._has_users = dialect.name == "postgresql"

    def columns(self, name: str) -> Columns:
        """Return the columns of a role's table, which has all that the role needs."""
        role, named = self._schema.roles[name], self._schema.columns(name)
        found = self._existing(name, role.table)
        used = {*named.values(), *role.where}
        for column in (*named.values(), *role.where):
            if column not in found:
                raise SchemaMismatch(
                    f"The table {role.table!r} has no column {column!r}.{nearest(column, found)}"
                )
        written = {theirs for ours, theirs in named.items() if ours in WRITTEN}
        needed = {("SELECT", each) for each in used} | {("UPDATE", each) for each in written}
        if lacking := {right for right, each in needed if right in found[each].denied}:
            raise denied_error(self._connection, self._dialect, role.table, lacking)
        if written and not self._is_updatable(role.table, written):
            raise SchemaMismatch(
                f"No row of {role.table!r} can be changed, because of a view or a rule: name the "
                "table behind it."
            )
        return found

    def check_log(self, log: str) -> None:
        """Check that the log has all columns, and that entries can be added and changed."""
        usual = Schema().log
        hint = _hint(log == usual, str(usual))
        try:
            found = self._existing("log", log)
        except SchemaMismatch as error:
            raise SchemaMismatch(
                f"{error} {hint} Without a log: Schema(log=None), or `log = false`."
            ) from None
        if missing := [each for each in LOG_COLUMNS if each not in found]:
            raise SchemaMismatch(f"The log {log!r} lacks {', '.join(missing)}. {hint}")
        for mistake in mistakes_of_log(log, found):
            raise SchemaMismatch(f"{mistake} {hint}")
        if not is_unique(self._connection, self._dialect, log, "fingerprint"):
            raise SchemaMismatch(
                f"The log {log!r} has no unique index on just the column 'fingerprint', by which "
                f"repeated notifications are found. {hint}"
            )
        if self._has_users:
            self._check_privileges(log)
            self._check_sequence(log)

    def check_dates(self, table: str) -> None:
        """Check that changes can be dated in hookrow's own table."""
        hint = _hint(self._schema.log == Schema().log, dates.TABLE)
        kinds = ", ".join(k.value for k in Suppressible if k in self._schema.dated_beside_log)
        why = f"It dates the changes of the {kinds}, which have no suppression_changed_at."
        try:
            found = self._existing("dates of changes", table)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{error} {why} {hint}") from None
        if missing := [each for each in dates.COLUMNS if each not in found]:
            raise SchemaMismatch(f"The table {table!r} lacks {', '.join(missing)}. {hint}")
        for mistake in mistakes_of_dates(table, found):
            raise SchemaMismatch(f"{mistake} {hint}")
        if not is_unique(self._connection, self._dialect, table, *dates.COLUMNS[:2]):
            raise SchemaMismatch(
                f"The table {table!r} has no unique index on just 'role' and 'row_key'. {hint}"
            )
        if self._has_users:
            self._check_privileges(table)

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

    def _check_privileges(self, table: str) -> None:
        named = regclass(self._dialect, table)
        sql = "SELECT p FROM unnest(%s::text[]) AS p WHERE NOT has_table_privilege(%s, p)"
        wanted = self._dialect.encode(["SELECT", "INSERT", "UPDATE"])
        if lacking := self._connection.fetch(sql, [wanted, named]):
            privileges = {privilege for (privilege,) in lacking}
            raise denied_error(self._connection, self._dialect, table, privileges)

    def _check_sequence(self, log: str) -> None:
        denied = (
            "SELECT sequence, quote_ident(current_user) "
            "FROM pg_get_serial_sequence(%s, 'id') AS sequence "
            "WHERE NOT has_sequence_privilege(sequence, 'USAGE')"
        )
        for sequence, user in self._connection.fetch(denied, [regclass(self._dialect, log)]):
            raise SchemaMismatch(
                f"permission denied for sequence {sequence}: "
                f"GRANT USAGE ON SEQUENCE {sequence} TO {user}"
            )

    def _existing(self, name: str, table: str) -> Columns:
        self._check_usage(table)
        if found := columns(self._connection, self._dialect, table):
            return found
        bare = table.rpartition(".")[2]
        others = [each for each in tables(self._connection, self._dialect) if each != table]
        elsewhere = [each for each in others if each.rpartition(".")[2] == bare]
        hint = f" Did you mean {elsewhere[0]!r}?" if elsewhere else nearest(table, others)
        if not hint and table in {role.table for role in Schema().roles.values()}:
            hint = " Run: hookrow db upgrade."
        raise SchemaMismatch(f"The database has no table {table!r} for the {name}.{hint}")

    def _check_usage(self, table: str) -> None:
        namespace = table.rpartition(".")[0]
        if namespace and self._has_users:
            denied = (
                "SELECT quote_ident(nspname), quote_ident(current_user) FROM pg_namespace "
                "WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')"
            )
            for schema, user in self._connection.fetch(denied, [namespace]):
                grant = f"GRANT USAGE ON SCHEMA {schema} TO {user}"
                raise SchemaMismatch(f"permission denied for schema {schema}: {grant}")

    def _is_updatable(self, table: str, names: Collection[str]) -> bool:
        """Return whether the database has a way to change these columns of a row."""
        if self._dialect.name == "postgresql":
            sql = "SELECT pg_relation_is_updatable(to_regclass(%s), true) & %s"  # rules count
            named = regclass(self._dialect, table)
            ((bit,),) = self._connection.fetch(sql, [named, _UPDATE])
            ((ignored, hidden),) = self._connection.fetch(_WITHOUT_EFFECT, [named])
            if hidden:
                raise SchemaMismatch(
                    f"Row-level security lets the user change no row of {table!r}: "
                    "CREATE POLICY ... FOR UPDATE, or name a user that may bypass it."
                )
            return bool(bit) and not ignored
        if not is_view(self._connection, self._dialect, table):
            return True
        nulls = ", ".join(f"{self._dialect.quote(name)} = NULL" for name in names)
        try:  # SQLite reports it on compilation; this statement is not run
            self._connection.fetch(f"EXPLAIN UPDATE {self._dialect.table(table)} SET {nulls}")
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):
                raise
            return False
        return True
