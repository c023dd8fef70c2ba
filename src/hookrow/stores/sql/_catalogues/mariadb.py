"""The catalogue of MariaDB and MySQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from hookrow._core.rules import LONGEST_EMAIL
from hookrow._core.schema import Fold
from hookrow.errors import ConfigurationError, SchemaMismatch
from hookrow.stores._driver_errors import failed_check, store_error
from hookrow.stores._errors import Rejected, SchemaChanged
from hookrow.stores.sql._catalogues.base import (
    DENIED,
    TOO_ISOLATED,
    Catalogue,
    Listing,
    Lock,
    Lookup,
    OwnName,
    Relation,
    Uniqueness,
    Writers,
)
from hookrow.stores.sql._catalogues.mariadb_columns import (
    COLUMN_FIELDS,
    COMPLETE_CHARSET,
    UNICODE_BINARY,
    Collation,
    ColumnRow,
    collation_query,
    column_of,
)
from hookrow.stores.sql._catalogues.mariadb_indexes import (
    MARIADB_INDEX_FIELDS,
    MYSQL_INDEX_FIELDS,
    IndexRow,
    TableIndex,
    indexes_of,
)
from hookrow.stores.sql._catalogues.mariadb_locks import LockRows
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect, question_marks
from hookrow.stores.sql._dialects.mariadb import CHECK, MARIADB, SMALLEST_PACKET, WRITER_LOCKS
from hookrow.stores.sql._role_tables import ALIASES, RoleTables


class MariaDBCatalogue(Catalogue):
    """The tables of `information_schema`, which MariaDB and MySQL share, but for a few columns.

    A schema is a database of the server. The server decides whether the case of a table's name
    counts (`lower_case_table_names`).
    """

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        super().__init__(connection, dialect)
        self._collations = {dialect.binary: UNICODE_BINARY}  # the collation of hookrow's tables

    def title(self, version: str) -> str:
        """Return "MySQL" for all versions without the name MariaDB: those of compatible servers."""
        return "MariaDB" if "MariaDB" in version else "MySQL"

    def tables(self) -> Collection[str]:
        """Return the names in the session's database: others may be those of other hosts."""
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = database()"
        return [name for (name,) in self._fetch(sql)]

    def own_name(self, table: str) -> OwnName | None:
        """Return the name in the server's spelling."""
        rows = self._fetch(_MARIADB_NAME, self.named(table))
        return OwnName(*rows[0]) if rows else None

    def relation(self, table: str) -> Relation:
        """Look for a view of that name. Partitioned tables get their indexes like others."""
        sql = f"SELECT 1 FROM information_schema.views WHERE {_IS_TABLE}"
        is_view = self.connection.fetch(sql, self.named(table))
        return Relation.VIEW if is_view else Relation.TABLE

    def columns(self, table: str) -> Mapping[str, Column]:
        """Return the columns with their types, and the privileges that the user lacks.

        The server includes privileges on the table, the database and the server, and those of the
        user's roles.
        """
        rows = [ColumnRow(*row) for row in self._fetch(_MARIADB_COLUMNS, self.named(table))]
        collations = self._collations_of(rows)
        columns = {row.name: column_of(row, collations.get(row.collation or "")) for row in rows}
        generated = {row.name: self._unescaped(row.expression) for row in rows if row.expression}
        folds = [
            (columns[name], *found)
            for name, expression in generated.items()
            if (found := self._folded(columns, columns[name], expression))
        ]
        if folds:
            indexed = {index.parts[0] for index in self._indexes(table) if index.is_usable}
            # The last one counts.
            folds.sort(key=lambda each: self.dialect.quote(each[0].name) in indexed)
        for folded, name, folds_ascii in folds:
            columns[name] = replace(columns[name], folded=folded, folds_ascii=folds_ascii)
        return columns

    def _collations_of(self, rows: Sequence[ColumnRow]) -> Mapping[str, Collation]:
        """Return the properties of the collations of columns, and of others that are known."""
        asked = {
            row.collation: row.charset
            for row in rows
            if row.collation and row.charset and row.collation not in self._collations
        }
        if asked:
            for name, *properties in self._fetch(*collation_query(asked.items())):
                self._collations[name] = Collation(*map(bool, properties))
        return self._collations

    def _folded(
        self, columns: Mapping[str, Column], generated: Column, expression: str
    ) -> tuple[str, bool] | None:
        """Return the text that a generated column folds, and whether it folds only ASCII letters.

        The expression converts the whole text, and nothing else. What it does to letters depends on
        character sets and collations, so the server evaluates it for a sample.
        """
        name = _converted_name(expression)
        text = columns.get(name)
        if text is None or not text.charset or not _holds_all_of(generated, text, expression):
            return None
        quoted = self.dialect.quote(name)
        sample = f"CONVERT(%s USING {text.charset}) COLLATE {text.collation}"
        escaped = expression.replace("%", "%%")
        sql = (
            f"SELECT {quoted}, CONVERT({escaped} USING {generated.charset}) "
            f"FROM (SELECT {sample} AS {quoted}) AS given"
        )
        try:
            ((mixed, folded),) = self._fetch(sql, [_MIXED_CASE])
        except Exception as error:
            if not isinstance(store_error(error), Rejected | SchemaChanged):
                raise
            return None  # a function rejects the sample
        in_ascii = mixed.translate(_TO_LOWER)
        return (name, folded == in_ascii) if folded in {in_ascii, mixed.lower()} else None

    def is_unique(self, table: str, *names: str) -> bool:
        """Return whether ON DUPLICATE KEY finds a row by exactly these columns.

        The indexes behind a view are unknown; they are assumed to exist.
        """
        if self.relation(table) is Relation.VIEW:
            return True
        quoted = {*map(self.dialect.quote, names)}
        return any(
            {*index.parts} == quoted
            for index in self._indexes(table)
            if index.is_unique and index.is_whole
        )

    def primary_key(self, table: str) -> Sequence[str]:
        """Return the columns in the order of the key."""
        sql = (
            f"SELECT column_name FROM information_schema.statistics "
            f"WHERE {_IS_TABLE} AND index_name = 'PRIMARY' ORDER BY seq_in_index"
        )
        return [name for (name,) in self._fetch(sql, self.named(table))]

    def examine_key(
        self,
        tables: RoleTables,
        role: str,
        key: Sequence[str],  # noqa: ARG002 - by the table's names
        names: Sequence[str],
    ) -> tuple[Uniqueness, str | None]:
        """Look for a unique index.

        There are no partial indexes, but one on a generated column that is null in hidden rows has
        the same effect. If an index has only the beginnings of texts, or its collation regards
        different texts as equal, it is only stricter than necessary.
        """
        table = tables.schema.roles[role].table
        partitions = self._fetch(_PARTITION_EXPRESSIONS, self.named(table))
        parted = {name for row in partitions for each in row for name in _names_in(each or "")}
        if self.relation(table) is Relation.VIEW or not parted <= {*names}:
            return Uniqueness.UNDECLARABLE, None
        fixed = {*map(self.dialect.quote, names)}
        generated = self._fetch(_GENERATED, self.named(table))
        expressions = {self.dialect.quote(name): text for name, text in generated}
        for index in self._indexes(table):
            others = {*index.parts} - fixed
            if index.is_unique and all(
                self._is_fixed(tables, role, expressions.get(each, each)) for each in others
            ):
                return Uniqueness.DECLARED, None
        return Uniqueness.MISSING, None

    def _is_fixed(self, tables: RoleTables, role: str, expression: str) -> bool:
        """Return whether an expression has the same value, which is not null, in visible rows."""
        expression = self._unescaped(expression)
        selecting = tables.selecting(role)
        if not selecting or not _names_in(expression) <= selecting.keys():
            return False
        values = ", ".join(
            f"{self.dialect.literal(value)} AS {self.dialect.quote(name)}"
            for name, value in selecting.items()
        )
        escaped = expression.replace("%", "%%")
        sql = f"SELECT ({escaped}) IS NOT NULL FROM (SELECT {values}) AS given"
        return bool(self.connection.fetch(sql)[0][0])

    def unique_advice(self, tables: RoleTables, role: str, key: Sequence[str]) -> str:
        """Add a column that is null in hidden rows: to a unique index, all nulls are different."""
        visible = self.visible_condition(tables, role)
        if not visible:
            return super().unique_advice(tables, role, key)
        names = [self.identifier(tables.columns(role)[name].name) for name in key]
        return (
            f"ALTER TABLE {self.statement_name(tables.schema.roles[role].table)} "
            f"ADD hookrow_visible TINYINT AS (if({visible}, 1, NULL)) VIRTUAL, "
            f"ADD UNIQUE INDEX {self.index_name(tables, role, key)} "
            f"({', '.join(names)}, hookrow_visible)"
        )

    def searches(self, tables: RoleTables, lookup: Lookup) -> bool:
        """Look for an index whose first columns include the last one of the lookup.

        The planner cannot be asked: it scans a small table. The indexes behind a view are unknown.
        """
        role = tables.schema.roles[lookup.role]
        if self.relation(role.table) is Relation.VIEW:
            return True
        columns = [tables.columns(lookup.role)[name] for name in lookup.columns]
        searched = [self.dialect.quote(column.name) for column in columns]
        if lookup.fold:
            searched = [self._searched(lookup.fold, *columns)]
        fixed = {*searched, *map(self.dialect.quote, role.where)}
        if lookup.by_tenant and role.tenant is not None:
            fixed.add(self.dialect.quote(role.tenant))
        return any(index.finds(searched[-1], fixed) for index in self._indexes(role.table))

    def sorts(self, tables: RoleTables, listing: Listing) -> bool:
        """Look for an index in the order of the columns. Those behind a view are unknown."""
        role = tables.schema.roles[listing.role]
        if self.relation(role.table) is Relation.VIEW:
            return False
        quote = self.dialect.quote
        fixed = {*map(quote, role.where)}
        order = [quote(tables.columns(listing.role)[name].name) for name in listing.columns]
        primary = [*map(quote, self.primary_key(role.table))]
        return not any(index.sorts(order, fixed, primary) for index in self._indexes(role.table))

    def index_advice(
        self,
        tables: RoleTables,
        role: str,
        names: Sequence[str],
        *,
        title: str,
        fold: Fold | None = None,
        condition: str = "",  # noqa: ARG002 - there are no partial indexes
    ) -> str:
        """Add a generated column if the index must contain folded emails."""
        table = tables.schema.roles[role].table
        on, columns = self.statement_name(table), [tables.columns(role)[name] for name in names]
        parts = [self.identifier(column.name) for column in columns]
        statements = []
        if fold:
            [column], [email] = columns, parts
            parts = [self._searched(fold, column).replace("%%", "%")]
            if parts != [email] and column.folded is None:
                folded = self.identifier(f"{column.name}_folded")
                statements.append(
                    f"ALTER TABLE {on} ADD {folded} {column.declared} AS ({parts[0]}) VIRTUAL"
                )
                parts = [folded]
        sized = (
            f"{part}({_INDEXED_CHARACTERS})" if _is_long(column) else part
            for part, column in zip(parts, columns, strict=True)
        )
        statements.append(
            f"CREATE INDEX {self.index_name(tables, role, [title])} ON {on} ({', '.join(sized)}) "
            "ALGORITHM=INPLACE LOCK=NONE"
        )
        return f"{self.steps_to_create(self.relation(table))}: {'; '.join(statements)}"

    def _searched(self, fold: Fold, column: Column) -> str:
        """Return the column or the expression by whose index an email is found."""
        alias = ALIASES["subscribers"]
        searched, _ = MARIADB.searched(fold, alias, column)
        return searched.replace(f"{alias}.", "", 1)

    def time_advice(self, table: str, column: Column) -> str | None:
        """Report a missing fraction of a second, and the limited range of a TIMESTAMP."""
        if column.kind != "datetime":
            return None
        name = f"{table}.{column.name}"
        if column.is_timestamp:
            # A change of the type converts times to the session's zone.
            text = (
                f"{name} is a TIMESTAMP, which holds no time before 1970 or after 2038 (after 2106 "
                "on MariaDB 11.5 and later), so a notification with such a time fails. To hold any "
                "time, run: "
                "SET time_zone = '+00:00'; "
            )
        elif column.fraction != _MICROSECONDS:
            text = (
                f"{name} has no microseconds: MariaDB truncates them, and MySQL rounds them, so "
                "two events in the same second may be applied in the wrong order. To add them, "
                "run: "
            )
        else:
            return None
        return f"{text}{self._modification(table, column, 'DATETIME(6)')}"

    def text_advice(self, table: str, column: Column) -> str | None:
        """Report a character set that lacks characters."""
        if not column.lacks_characters or column.kind != "text":
            return None
        type_ = f"{column.type_name} CHARACTER SET {COMPLETE_CHARSET}"
        return (
            f"{table}.{column.name} has the character set {column.charset}, so hookrow writes a "
            "question mark for each character of the provider's text that it lacks. To keep them, "
            f"run: {self._modification(table, column, type_)}"
        )

    def null_advice(self, table: str, column: Column) -> str:
        """Return the statement, which repeats the type."""
        nullable = replace(column, nullable=True)
        return f"Run: {self._modification(table, nullable, column.declared)}"

    def _modification(self, table: str, column: Column, type_: str) -> str:
        """Return the statement that changes the type of a column, and its limits."""
        null = "NULL" if column.nullable else "NOT NULL"
        return (
            f"ALTER TABLE {self.statement_name(table)} MODIFY "
            f"{self.identifier(column.name)} {type_} {null}. Repeat the column's DEFAULT and "
            "COMMENT in the statement, if it has any."
        )

    def can_combine(self, tables: Sequence[str]) -> bool:  # noqa: ARG002 - of any tables
        """Return whether a packet runs up to its first error, and is never repeated in part.

        After a conflict with another node, a node of a Galera cluster repeats the last statement of
        a packet by itself (`wsrep_retry_autocommit`): the COMMIT, without what precedes it.
        """
        if not self.connection.autocommits:  # a host's connection does not take packets
            return False
        if any(value == "ON" for _, value in self._fetch("SHOW VARIABLES LIKE 'wsrep_on'")):
            return False
        try:
            self.connection.execute(_ENDING_PACKET)
        except Exception as error:
            if not failed_check(error):
                raise
        ((is_beyond,),) = self.connection.fetch("SELECT @hookrow_beyond")
        return not is_beyond

    def is_updatable(self, table: str, names: Collection[str]) -> bool:
        """Compile an UPDATE of the view, which fails if a column is an expression, for example."""
        if self.relation(table) is not Relation.VIEW:
            return True
        nulls = ", ".join(f"{self.dialect.quote(name)} = NULL" for name in names)
        try:
            self.compile(f"UPDATE {self.dialect.table(table)} SET {nulls}")
        except Exception as error:
            if not isinstance(store_error(error), Rejected | SchemaChanged):
                raise
            return False
        return True

    def lacking(self, table: str, privileges: Collection[str]) -> Sequence[str]:
        """Return those that the user lacks on any column; all of them if there is no such table."""
        sql = f"SELECT privileges FROM information_schema.columns WHERE {_IS_TABLE}"
        columns = [{*each.upper().split(",")} for (each,) in self._fetch(sql, self.named(table))]
        granted = set.intersection(*columns) if columns else set()
        if columns and "DELETE" in privileges and self._may_delete(table):  # not by column
            granted.add("DELETE")
        return [each for each in privileges if each not in granted]

    def _may_delete(self, table: str) -> bool:
        """Let the server plan a DELETE, for which it needs the privilege."""
        try:
            self.plan(f"DELETE FROM {self.dialect.table(table)} WHERE 1 = 0")
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):
                raise
            return False
        return True

    def checks(self, table: str, column: str) -> Iterator[tuple[str, str, str]]:
        """Yield the CHECK constraints that concern only this column.

        Each is a name, the alias of the table in the condition, and the condition. There are none
        if a trigger may replace the value before they are evaluated; only a user with the privilege
        TRIGGER sees whether there is one.
        """
        bare, _ = self.named(table)
        if self._fetch(_TRIGGERS, self.named(table)):
            return
        sql = _MYSQL_CHECKS if self._is_mysql else _MARIADB_CHECKS
        for name, condition in self._fetch(sql, self.named(table)):
            text = self._unescaped(condition)
            if column in (names := _names_in(text)) and names <= {column, bare}:
                yield name, self.dialect.quote(bare), text.replace("%", "%%")

    def references(self, table: str, column: str) -> Iterator[tuple[str, str]]:
        """Yield the foreign keys that consist of this column: the other table, and its column.

        There are none if the connection does not enforce them.
        """
        for database, other, key in self._fetch(_FOREIGN_KEYS, [*self.named(table), column]):
            yield f"{database}.{other}" if database else other, key

    def check_server(self) -> None:
        """Check that the connection has a database, and can send text of any size and language."""
        ((database, charset, packet),) = self._fetch(_SERVER_SETTINGS)
        if database is None:
            raise ConfigurationError("The connection has no database: name one in its URL.")
        if charset != "utf8mb4":
            raise ConfigurationError(
                f"The connection has the character set {charset}, which cannot represent every "
                "character: connect with charset=utf8mb4."
            )
        if packet < SMALLEST_PACKET:
            raise ConfigurationError(
                f"The server's max_allowed_packet is {packet} bytes, but must be at least "
                f"{SMALLEST_PACKET}: run SET GLOBAL max_allowed_packet = {SMALLEST_PACKET}, set it "
                "in the server's configuration, too, and connect again."
            )

    def check_storage(self, table: str) -> None:
        """Check that the engine of the table, or of one behind a view, has transactions.

        It is unknown which of several tables behind a view has the columns that hookrow changes.
        """
        engines = dict(self._engines(*self.named(table)))
        lacking = [
            (name, engine)
            for name, engine in engines.items()
            if not self._fetch(_HAS_TRANSACTIONS, [engine])
        ]
        if lacking and len(lacking) == len(engines):
            name, engine = lacking[0]
            raise SchemaMismatch(
                f"The table {name!r} uses the engine {engine}, which has no transactions: "
                f"run ALTER TABLE {self.statement_name(name)} ENGINE=InnoDB"
            )

    def _engines(self, table: str, database: str) -> Iterator[tuple[str, str]]:
        """Yield the name of a table and its engine, or those of the tables behind a view."""
        for (engine,) in self._fetch(_ENGINE, [table, database]):
            if engine:
                yield ".".join(filter(None, [database, table])), engine
            else:
                for source in self._sources(table, database):
                    yield from self._engines(*source)

    def _sources(self, view: str, database: str) -> Iterator[tuple[str, str]]:
        """Yield the tables that a view selects from, and their databases.

        There are none if the user may not see its definition.
        """
        for (definition,) in self._fetch(_VIEW_DEFINITION, [view, database]):
            for source, table in _SOURCE.findall(definition):
                yield table.replace("``", "`"), source.replace("``", "`")

    def check_creation(self) -> None:
        """Prepare a CREATE TABLE, which checks the privilege."""
        try:
            self.compile(f"CREATE TABLE {self.dialect.quote(_ABSENT)} (id bigint)")
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):
                raise
            ((database,),) = self._fetch("SELECT database()")
            named = self.identifier(database.replace("_", r"\_"))  # otherwise, it is a wildcard
            raise SchemaMismatch(
                f"{DENIED}database {database}: GRANT {_OWNER_PRIVILEGES} "
                f"ON {named}.* TO {self._user()}"
            ) from error

    def compile(self, sql: str) -> None:
        """Prepare the statement: EXPLAIN would need further privileges on the tables of a view."""
        text = self.dialect.literal(question_marks(sql))
        self.connection.execute(f"PREPARE hookrow_compiled FROM {text}")
        self.connection.execute("DEALLOCATE PREPARE hookrow_compiled")

    def isolation_obstacle(self) -> str | None:
        """Require READ COMMITTED: at other levels, a snapshot may be older than the locks."""
        (_, level), *_ = self._fetch(_ISOLATION)
        return None if level == "READ-COMMITTED" else TOO_ISOLATED.format(level.replace("-", " "))

    def try_lock(self, lock: Lock, record: str) -> bool:
        """Lock a row of hookrow_meta."""
        if self.own_name(record) is None:  # a host's log may lack it
            return True
        rows = LockRows(self.connection, self.dialect, record)
        name = f"lock_{lock.name.lower()}"
        rows.add([name])
        return bool(rows.lock_free([name]))

    def open_writers(self, table: str, record: str) -> Writers:  # noqa: ARG002 - they lock a row of hookrow_meta
        """Return those of the `WRITER_LOCKS` that transactions hold.

        Until the end of this transaction, writers that need one of the others wait.
        """
        rows = LockRows(self.connection, self.dialect, record)
        # If a row was missing, a transaction may have added entries without a lock.
        free = () if rows.add(WRITER_LOCKS) else rows.lock_free(WRITER_LOCKS)
        return Writers("-", [name for name in WRITER_LOCKS if name not in free])

    def last_id(self, table: str) -> int | None:
        """Return the last value of AUTO_INCREMENT."""
        sql = f"SELECT auto_increment - 1 FROM information_schema.tables WHERE {_IS_TABLE}"
        ((last,),) = self.connection.fetch(sql, self.named(table))
        return None if last is None else int(last)

    def named(self, table: str) -> list[str]:
        """Return the name without its database, and the database, empty for the session's."""
        database, _, bare = table.rpartition(".")
        return [bare, database]

    def _indexes(self, table: str) -> Sequence[TableIndex]:
        fields = MYSQL_INDEX_FIELDS if self._is_mysql else MARIADB_INDEX_FIELDS
        rows = self._fetch(_SELECT_INDEX_ROWS.format(fields), self.named(table))
        return indexes_of((IndexRow(*row) for row in rows), self._part)

    def _part(self, row: IndexRow) -> str:
        """Return the column or the expression of a part of an index, as SQL text."""
        return self.dialect.quote(row.column) if row.column else self._unescaped(row.expression)

    @cached_property
    def _is_mysql(self) -> bool:
        return self.version().title == "MySQL"

    def _unescaped(self, expression: str) -> str:
        """Return an expression of the catalogue as SQL text: MySQL escapes its quotes."""
        return _ESCAPED.sub(r"\1", expression) if self._is_mysql else expression

    def _user(self) -> str:
        ((user,),) = self._fetch("SELECT current_user()")
        return "@".join(map(self.identifier, user.rpartition("@")[::2]))

    def _fetch(self, sql: str, parameters: Sequence[Any] = ()) -> Sequence[Sequence[Any]]:
        """Return rows of the catalogue, some of whose texts MySQL returns as bytes."""
        rows = self.connection.fetch(sql, parameters)
        return [[_decoded(value) for value in row] for row in rows]


def _decoded(value: Any) -> Any:  # noqa: ANN401 - of any column
    return value.decode() if isinstance(value, bytes) else value


_IS_TABLE = "table_name = %s AND table_schema = coalesce(nullif(%s, ''), database())"
"""The condition for the parameters that `named` returns.

Both values are constants, so that MariaDB opens no other table.
"""

_MARIADB_NAME = f"""
SELECT table_schema, table_name FROM information_schema.tables WHERE {_IS_TABLE}
"""

_MARIADB_COLUMNS = f"""
SELECT {COLUMN_FIELDS}
FROM information_schema.columns WHERE {_IS_TABLE} ORDER BY ordinal_position
"""

_SELECT_INDEX_ROWS = f"""
SELECT {{}}
FROM information_schema.statistics WHERE {_IS_TABLE} ORDER BY index_name, seq_in_index
"""

_GENERATED = f"""
SELECT column_name, generation_expression FROM information_schema.columns
WHERE {_IS_TABLE} AND generation_expression <> ''
"""

_PARTITION_EXPRESSIONS = f"""
SELECT DISTINCT partition_expression, subpartition_expression FROM information_schema.partitions
WHERE {_IS_TABLE}
"""
"""Selects nulls for a table without partitions. Each unique index needs the columns of both."""

_ENDING_PACKET = f"SET @hookrow_beyond = 0; {CHECK.format('1 = 0')}; SET @hookrow_beyond = 1"
"""A packet whose last statement must not run, because the one before it fails."""

_ENGINE = f"SELECT engine FROM information_schema.tables WHERE {_IS_TABLE}"

_VIEW_DEFINITION = f"SELECT view_definition FROM information_schema.views WHERE {_IS_TABLE}"

_HAS_TRANSACTIONS = """
SELECT 1 FROM information_schema.engines WHERE engine = %s AND transactions = 'YES'
"""

_TRIGGERS = """
SELECT 1 FROM information_schema.triggers
WHERE event_object_table = %s AND event_object_schema = coalesce(nullif(%s, ''), database())
AND event_manipulation = 'UPDATE' AND action_timing = 'BEFORE'
"""

_MARIADB_CHECKS = f"""
SELECT constraint_name, check_clause FROM information_schema.check_constraints
WHERE {_IS_TABLE.replace("table_schema", "constraint_schema")}
"""

_MYSQL_CHECKS = f"""
SELECT constraint_name, check_clause FROM information_schema.check_constraints AS c
JOIN information_schema.table_constraints AS t USING (constraint_schema, constraint_name)
WHERE {_IS_TABLE} AND constraint_type = 'CHECK' AND enforced = 'YES'
"""

_FOREIGN_KEYS = f"""
SELECT nullif(referenced_table_schema, database()), referenced_table_name,
    max(referenced_column_name)
FROM information_schema.key_column_usage
WHERE {_IS_TABLE} AND referenced_table_name IS NOT NULL AND @@foreign_key_checks = 1
GROUP BY constraint_name, referenced_table_schema, referenced_table_name
HAVING count(*) = 1 AND max(column_name) = %s
"""

_SERVER_SETTINGS = "SELECT database(), @@character_set_client, @@max_allowed_packet"

_ISOLATION = "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')"
"""MySQL has the latter, MariaDB the former, and from version 11.1 on both, with the same value."""

_OWNER_PRIVILEGES = "CREATE, REFERENCES, SELECT, INSERT, UPDATE, DELETE"
"""The privileges that an upgrade needs: CREATE does not include those on rows."""

_ABSENT = "hookrow_absent"
"""The name of a table that is never created."""

_QUOTED_NAME = re.compile(r"`((?:[^`]|``)+)`")

_SOURCE = re.compile(r"(?:from|join) \(*`((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
"""A table or a view, with its database, in the catalogue's definition of a view."""

_ESCAPED = re.compile(r"\\(.)")

_FOLDS = re.compile(
    r"(?:[()]|(?:lower|lcase|convert|cast)(?=\()| as char(?:\(\d+\))?"
    r"| (?:charset|using|collate) \w+)*"
)
"""What surrounds the name of a column in an expression that changes at most the case of its text.

The catalogue has lower() as lcase() on MariaDB, and BINARY as `char charset binary`.
"""

_CAST_LENGTH = re.compile(r" as char\((\d+)\)")
"""The number of characters that a cast keeps."""

_MIXED_CASE = f"{ascii_uppercase}\N{LATIN CAPITAL LETTER E WITH ACUTE}\N{GRINNING FACE}"
"""A sample of an email. With some collations, lower() does not fold all of these letters.

The last character shows whether a conversion loses those that a smaller character set lacks.
"""

_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

_MICROSECONDS = 6
"""The number of digits of the fraction of a second."""

_INDEXED_CHARACTERS = 255
"""Characters of a long text that an index contains. Most emails and ids are shorter."""

_LONGEST_INDEXED = 768
"""Characters of the longest text that an index can have, which is limited to 3,072 bytes."""


def _is_long(column: Column) -> bool:
    return column.kind == "text" and (column.length or inf) > _LONGEST_INDEXED


def _names_in(expression: str) -> set[str]:
    """Return the names of columns in an expression; the catalogue quotes all of them."""
    return {name.replace("``", "`") for name in _QUOTED_NAME.findall(expression)}


def _converted_name(expression: str) -> str:
    """Return the only column of an expression that consists of `_FOLDS`; "" for others."""
    names = _names_in(expression)
    is_conversion = _FOLDS.fullmatch(_QUOTED_NAME.sub("", expression))
    return names.pop() if is_conversion and len(names) == 1 else ""


def _holds_all_of(generated: Column, text: Column, expression: str) -> bool:
    """Return whether a generated column is a text with room for each email of another column."""
    lengths = [generated.length or inf, *map(int, _CAST_LENGTH.findall(expression))]
    return generated.kind == "text" and min(lengths) >= min(text.length or inf, LONGEST_EMAIL)
