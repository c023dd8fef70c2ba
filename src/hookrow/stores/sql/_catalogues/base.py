"""What a database says about itself: tables, keys, privileges, plans, other transactions, locks.

A catalogue answers for one connection. On PostgreSQL, the connection must be in a transaction,
which may be the host's.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple

from hookrow.errors import SchemaMismatch
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._role_tables import ALIASES, RoleTables


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
    def own_name(self, table: str) -> str | None:
        """Return the database's own name for a table, with its schema; None if there is none."""

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
    def are_disjoint(self, tables: Sequence[str]) -> bool:
        """Return whether no row of one table is also a row of another, for example of a view."""

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
            f"permission denied for table {table}: GRANT {granted} "
            f"ON {self.statement_name(table)} TO {self._user()}"
        )

    def check_namespace(self, table: str) -> None:  # noqa: B027 - not every database has any
        """Raise `SchemaMismatch` if the user may not use the database schema of a table."""

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

    def plan(self, sql: str, parameters: Sequence[object] = ()) -> Sequence[str]:
        """Return the lines of the plan of a statement."""
        rows = self.connection.fetch(f"{self.dialect.explain} {sql}", parameters)
        return [str(row[-1]) for row in rows]

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
