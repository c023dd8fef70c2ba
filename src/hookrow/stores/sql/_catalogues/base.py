"""Reads what a database knows: tables, keys, privileges, plans, other transactions, locks.

A catalogue answers for one connection. On PostgreSQL, the connection must be in a transaction,
which may be the host's.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple

from hookrow._core.schema import Fold
from hookrow.errors import SchemaMismatch
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect, count_parameters
from hookrow.stores.sql._role_tables import ALIASES, RoleTables

DENIED = "permission denied for "
"""The beginning of each fault that a missing privilege is. The statement that grants it follows."""


class Uniqueness(Enum):
    """What the database knows about a key."""

    DECLARED = "a primary key, a unique constraint or a unique index keeps it unique"
    MISSING = "there is none, but there can be"
    UNDECLARABLE = "the database can keep it unique only in parts of this relation, or not at all"


class Relation(Enum):
    """What a name stands for, as far as indexes are concerned."""

    TABLE = "a table"
    PARTITIONED = "a table whose rows are in its partitions"
    VIEW = "a view, or another relation that cannot have an index"


class Lock(Enum):
    """What only one transaction at a time does. The value is a number that no other program uses.

    They are "hookh", "hookp" and "hookrow" in ASCII.
    """

    COUNTING = 0x686F6F6B68
    """A process counts a chunk of entries by hour."""
    PRUNING = 0x686F6F6B70
    """A process prunes a batch of the log."""
    UPGRADING = 0x686F6F6B726F77
    """A process upgrades hookrow's tables."""


class Lookup(NamedTuple):
    """A search for rows of a role by columns, by hookrow's names, and its condition as SQL.

    The last of the columns is the one that an index must find. `fold` is that of an email. If
    `by_tenant`, the rows are also searched by their tenant, if the role has it, so the index may
    have it, too.
    """

    role: str
    columns: Sequence[str]
    condition: str
    fold: Fold | None = None
    by_tenant: bool = False


class OwnName(NamedTuple):
    """The database's own name for a table, and for the schema or database that contains it."""

    schema: str
    table: str


class Listing(NamedTuple):
    """A statement that returns rows of a role in the order of columns, by hookrow's names."""

    role: str
    columns: Sequence[str]
    sql: str
    parameters: Sequence[object]


class Version(NamedTuple):
    """The version of a database: the title of the product, and the version as text and numbers."""

    title: str
    text: str
    numbers: tuple[int, ...]


class Writers(NamedTuple):
    """The other transactions that may have written to a table: their names, unique to a server.

    `server` identifies the run of the server: after a restart, it assigns the same names again.
    """

    server: str
    names: Sequence[str]


class Catalogue(ABC):
    """The answers of a database about its tables, whose names are those of a `Role`."""

    reuses_ids: ClassVar[bool] = False
    """Whether a new row may get the id of one that was deleted."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self.connection, self.dialect = connection, dialect

    def version(self) -> Version:
        """Return the version, without a suffix such as that of a beta or of Debian's package."""
        ((text,),) = self.connection.fetch(self.dialect.version)
        version = text.split()[0]
        numbers = re.match(r"\d+(?:\.\d+)*", version)
        return Version(
            self.title(text), version, tuple(map(int, numbers[0].split("."))) if numbers else ()
        )

    def title(self, version: str) -> str:  # noqa: ARG002 - most dialects are those of one product
        """Return the title of the product, given its version as text; see `Dialect.oldest`."""
        (title,) = self.dialect.oldest
        return title

    @abstractmethod
    def tables(self) -> Collection[str]:
        """Return the names of all tables and views."""

    @abstractmethod
    def own_name(self, table: str) -> OwnName | None:
        """Return the database's own name for a table; None if the table does not exist."""

    @abstractmethod
    def relation(self, table: str) -> Relation:
        """Return what a name stands for."""

    @abstractmethod
    def columns(self, table: str) -> Mapping[str, Column]:
        """Return the columns of a table or a view by name, in order; none if it does not exist."""

    @abstractmethod
    def is_unique(self, table: str, *names: str) -> bool:
        """Return whether there is a unique index on exactly these columns, for an upsert."""

    @abstractmethod
    def primary_key(self, table: str) -> Sequence[str]:
        """Return the columns of the primary key; none if there is no such key."""

    @abstractmethod
    def examine_key(
        self, tables: RoleTables, role: str, key: Sequence[str], names: Sequence[str]
    ) -> tuple[Uniqueness, str | None]:
        """Return what the database knows about the uniqueness of a role's key.

        `key` are its columns by hookrow's names, and `names` the table's own names of columns that
        an index may have. If nothing keeps the key unique, also return the name of a unique index
        that does not cover all rows, if there is one.
        """

    @abstractmethod
    def can_combine(self, tables: Sequence[str]) -> bool:
        """Return whether a text of `Statements.combining` can write to these tables."""

    @abstractmethod
    def is_updatable(self, table: str, names: Collection[str]) -> bool:
        """Return whether the database can change these columns of a row.

        Raises `SchemaMismatch` if only the user may not.
        """

    def lacking(self, table: str, privileges: Collection[str]) -> Sequence[str]:  # noqa: ARG002 - some databases have no users
        """Return those of the privileges on a table that the user lacks."""
        return ()

    def check_privileges(self, table: str, needed: Collection[str]) -> None:
        """Raise `SchemaMismatch` if the user lacks a privilege on a table."""
        if lacking := self.lacking(table, needed):
            raise self.denied_error(table, lacking)

    def denied_error(self, table: str, privileges: Collection[str]) -> SchemaMismatch:
        """Return the error for privileges on a table that the user lacks."""
        granted = ", ".join(sorted(privileges))
        return SchemaMismatch(
            f"{DENIED}table {table}: GRANT {granted} "
            f"ON {self.statement_name(table)} TO {self._user()}"
        )

    def check_server(self) -> None:  # noqa: B027 - not every database has any
        """Raise `ConfigurationError` if the server or the connection has an unsuitable setting."""

    def check_storage(self, table: str) -> None:  # noqa: B027 - most databases store all alike
        """Raise `SchemaMismatch` if transactions do not apply to the rows of a table."""

    def check_namespace(self, table: str) -> None:  # noqa: B027 - not every database has any
        """Raise `SchemaMismatch` if the user may not use the database schema of a table."""

    def check_default_namespace(self) -> None:  # noqa: B027 - not every database has any
        """Raise `SchemaMismatch` if tables without a schema in their names are invisible."""

    def check_sequence(self, table: str) -> None:  # noqa: B027 - not every database has any
        """Raise `SchemaMismatch` if the user may not use the sequence of the ids of a table."""

    def check_creation(self) -> None:  # noqa: B027 - not every database has any
        """Raise `SchemaMismatch` if the user may not create tables."""

    def restricting_user(self, table: str, commands: Collection[str]) -> str | None:  # noqa: ARG002 - most have no policies
        """Return the user if row-level security may exclude rows from one of the commands."""
        return None

    @abstractmethod
    def named(self, table: str) -> list[str]:
        """Return the parameters that name a table in a query of the catalogue."""

    def statement_name(self, table: str) -> str:
        """Return the name of a table for a statement that users run: without driver's escapes."""
        return self.dialect.table(table).replace("%%", "%")

    def identifier(self, name: str) -> str:
        """Return a name for a statement that users run: without a driver's escapes."""
        return self.dialect.quote(name).replace("%%", "%")

    def plan(self, sql: str, parameters: Sequence[object] = ()) -> Sequence[str]:
        """Return the lines of the plan of a statement."""
        rows = self.connection.fetch(f"{self.dialect.explain} {sql}", parameters)
        return [str(row[-1]) for row in rows]

    def compile(self, sql: str) -> None:
        """Let the server plan a statement without running it. Raises the driver's error."""
        self.plan(sql, [self.dialect.encode(())] * count_parameters(sql))

    @abstractmethod
    def searches(self, tables: RoleTables, lookup: Lookup) -> bool:
        """Return whether an index finds the rows of a lookup; it may lack hidden ones."""

    @abstractmethod
    def sorts(self, tables: RoleTables, listing: Listing) -> bool:
        """Return whether the rows of a listing are sorted, for lack of an index in their order."""

    def plan_lookup(self, tables: RoleTables, lookup: Lookup) -> Iterator[str]:
        """Yield the lines of the plans of a lookup: of all rows, the visible ones, one tenant's.

        An index that excludes hidden rows is sufficient, one that begins with the tenant, and one
        that does both. The first query is for all rows, because the planner might otherwise prefer
        an index on the columns that hide rows, or on the tenant alone.
        """
        variants = ["", tables.visible(lookup.role)]
        if lookup.by_tenant and lookup.role in tables.tenants:
            of_tenant = tables.of_unknown_tenant(lookup.role)
            variants += [f"{of_tenant}{condition}" for condition in variants]
        for condition in dict.fromkeys(variants):
            sql = (
                f"SELECT {tables.column(lookup.role, lookup.columns[-1])} "
                f"FROM {tables.table(lookup.role)} WHERE {lookup.condition}{condition}"
            )
            yield from self.plan(sql)

    def index_advice(
        self,
        tables: RoleTables,
        role: str,
        names: Sequence[str],
        *,
        title: str,
        fold: Fold | None = None,
        condition: str = "",
    ) -> str:
        """Return how to create an index on columns; the text ends with the statement.

        `names` are hookrow's, `title` is the one in the name of the index, and `fold` that of an
        email. If the database has partial indexes, the index has only the rows of the `condition`.
        """
        columns = [self.identifier(tables.columns(role)[name].name) for name in names]
        if fold:
            columns = [self.dialect.fold(fold, *columns)]
        table = tables.schema.roles[role].table
        relation = self.relation(table)
        create = self.dialect.create_index if relation is Relation.TABLE else "CREATE INDEX"
        index = self.index_name(tables, role, [title])
        where = f" WHERE {condition}" if condition else ""
        return (
            f"{self.steps_to_create(relation)}: {create} {index} "
            f"ON {self.statement_name(table)} ({', '.join(columns)}){where}"
        )

    def updatable_view(
        self,
        view: str,
        select: str,
        table: str,  # noqa: ARG002 - most need no trigger
        key: str,  # noqa: ARG002
        names: Sequence[str],  # noqa: ARG002
    ) -> Sequence[str]:
        """Return statements that create a view of several tables whose columns can be changed.

        These are columns of one of the tables, which has the `key`.
        """
        return [f"CREATE VIEW {self.statement_name(view)} AS {select}"]

    def _update_of_view(self, table: str, key: str, names: Sequence[str]) -> str:
        """Return the statement of a trigger that passes a change on to a table."""
        changes = ", ".join(
            f"{self.identifier(each)} = NEW.{self.identifier(each)}" for each in names
        )
        column = self.identifier(key)
        return f"UPDATE {self.statement_name(table)} SET {changes} WHERE {column} = OLD.{column}"

    def steps_to_create(self, relation: Relation) -> str:
        """Return the words before a statement that creates an index."""
        return _BEHIND_A_VIEW if relation is Relation.VIEW else "Run"

    def index_name(self, tables: RoleTables, role: str, names: Sequence[str]) -> str:
        """Return the name of an index that users create, after columns by hookrow's names."""
        table = tables.schema.roles[role].table.rpartition(".")[2]
        columns = (tables.columns(role)[name].name for name in names)
        return self.identifier("_".join(["hookrow", table, *columns])[:_LONGEST_INDEX_NAME])

    def unique_advice(self, tables: RoleTables, role: str, key: Sequence[str]) -> str:
        """Return the statement that creates a unique index of the rows that are not hidden."""
        columns = [self.identifier(tables.columns(role)[name].name) for name in key]
        visible = self.visible_condition(tables, role)
        where = f" WHERE {visible}" if visible else ""
        return (
            f"CREATE UNIQUE INDEX {self.index_name(tables, role, key)} "
            f"ON {self.statement_name(tables.schema.roles[role].table)} "
            f"({', '.join(columns)}){where}"
        )

    def visible_condition(self, tables: RoleTables, role: str) -> str:
        """Return the condition of the rows that are not hidden, for a statement that users run."""
        conditions = (
            f"{self.dialect.quote(column.name)} {tables.equals(column, value)}"
            for column, value in tables.hiding[role]
        )
        return " AND ".join(conditions).replace("%%", "%")

    def null_advice(self, table: str, column: Column) -> str:  # noqa: ARG002 - SQLite has no statement
        """Return a sentence with the statement that lets a column be null, or nothing."""
        return ""

    def time_advice(self, table: str, column: Column) -> str | None:  # noqa: ARG002 - SQLite's columns lose nothing
        """Return a sentence about a column of times that loses something; None if it does not."""
        return None

    def text_advice(self, table: str, column: Column) -> str | None:  # noqa: ARG002 - most databases have one character set
        """Return a sentence about a column of texts that loses characters; None if it does not."""
        return None

    def prefer_indexes(self) -> None:  # noqa: B027 - not every database has any
        """Let the transaction's plans use an index even if a scan of a small table is faster."""

    def isolation_obstacle(self) -> str | None:
        """Return why the transaction does not see what others commit; None if it does."""
        return None

    def try_lock(self, lock: Lock, record: str) -> bool:  # noqa: ARG002 - a transaction may hold everything
        """Take a lock until the end of the transaction; return False if another one holds it.

        `record` is the table hookrow_meta, of which some databases lock a row.
        """
        return True

    def open_writers(self, table: str, record: str) -> Writers | None:  # noqa: ARG002 - a transaction may hold everything
        """Return the other transactions that may have written to the log, whose table is given.

        None if there are none, because a transaction holds the whole database. `record` is the
        table hookrow_meta beside the log.
        """
        return None

    def last_id(self, table: str) -> int | None:  # noqa: ARG002 - not every database knows it
        """Return the last id that was assigned to a row; None if the database does not know it."""
        return None

    def caching_sequence(self, table: str) -> str | None:  # noqa: ARG002 - most have no sequences
        """Return the name of the sequence of the ids if its sessions reserve ids."""
        return None

    def _user(self) -> str:
        """Return the user's name for a statement."""
        return ""


TOO_ISOLATED = (
    "Counting needs the isolation level READ COMMITTED, but the connection has {}: change it."
)
"""Why a transaction does not see what others commit, given its isolation level."""

_LONGEST_INDEX_NAME = 63
"""Characters of the longest name of an index that every database accepts."""

_BEHIND_A_VIEW = (
    "It is behind a view, which cannot have an index: replace the view's name in this statement "
    "with the table's, and run"
)

FLAGS = {
    True: "{0} AND {0} IS TRUE AND {0} IS NOT FALSE",
    False: "NOT {0} AND {0} IS FALSE AND {0} IS NOT TRUE",
}
"""The forms of a condition on a boolean column that an index may have."""


def flag_conditions(tables: RoleTables, role: str, forms: Mapping[bool, str]) -> str:
    """Return the conditions on boolean columns in other forms, to follow another condition.

    SQLite compares the texts of conditions: to it, `active = true` does not imply `active`.
    PostgreSQL does not prove that `active = true` implies `active IS TRUE`.
    """
    alias, quote = ALIASES[role], tables.dialect.quote
    return "".join(
        f" AND {forms[value].format(f'{alias}.{quote(column.name)}')}"
        for column, value in tables.hiding[role]
        if isinstance(value, bool) and column.kind == "boolean"
    )
