"""SQLite's catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import count, groupby
from operator import itemgetter

from hookrow.stores._driver_errors import store_error
from hookrow.stores._errors import SchemaChanged
from hookrow.stores.sql._catalogues.base import (
    FLAGS,
    Catalogue,
    Listing,
    Lookup,
    OwnName,
    Relation,
    Uniqueness,
    flag_conditions,
)
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._conversions import uuid_of_digits
from hookrow.stores.sql._role_tables import ALIASES, RoleTables


class SQLiteCatalogue(Catalogue):
    """SQLite's schema tables and pragmas. There are no users, and a transaction holds the file."""

    reuses_ids = True

    def tables(self) -> Collection[str]:
        """Return the names in the main database."""
        rows = self.connection.fetch(_SQLITE_TABLES)
        return [name for (name,) in rows]

    def own_name(self, table: str) -> OwnName | None:
        """Return the name as it was declared. The schema is "main", or an attached database."""
        bare, namespace = self.named(table)
        sql = (
            f"SELECT name FROM {self._master(namespace)} "
            "WHERE type IN ('table', 'view') AND name = %s COLLATE NOCASE"
        )
        rows = self.connection.fetch(sql, [bare])
        return OwnName(namespace, *rows[0]) if rows else None

    def relation(self, table: str) -> Relation:
        """Look for a view of that name."""
        bare, namespace = self.named(table)
        sql = (
            f"SELECT 1 FROM {self._master(namespace)} "
            "WHERE type = 'view' AND name = %s COLLATE NOCASE"
        )
        return Relation.VIEW if self.connection.fetch(sql, [bare]) else Relation.TABLE

    def columns(self, table: str) -> Mapping[str, Column]:
        """Return the columns with the kinds that their declared types suggest."""
        named = self.named(table)
        databases = self.connection.fetch("SELECT name FROM pragma_database_list")
        if "." in table and named[1] not in {name.lower() for (name,) in databases}:
            return {}
        rows = self.connection.fetch(_SQLITE_COLUMNS, named * 2)
        return {row[0]: _sqlite_column(*row) for row in rows}

    def updatable_view(
        self, view: str, select: str, table: str, key: str, names: Sequence[str]
    ) -> Sequence[str]:
        """Add a trigger."""
        name = self.statement_name(view)
        return [
            *super().updatable_view(view, select, table, key, names),
            (
                f"CREATE TRIGGER {self.identifier(f'hookrow_{view}')} INSTEAD OF UPDATE ON {name} "
                f"BEGIN {self._update_of_view(table, key, names)}; END"
            ),
        ]

    def is_unique(self, table: str, *names: str) -> bool:
        """Return whether ON CONFLICT can name the columns."""
        named = self.named(table)
        indexes = self.connection.fetch(_SQLITE_UNIQUE, named)
        indexed_columns = (
            self.connection.fetch("SELECT name FROM pragma_index_info(%s, %s)", [name, named[1]])
            for (name,) in indexes
        )
        return any({name for (name,) in indexed} == {*names} for indexed in indexed_columns)

    def primary_key(self, table: str) -> Sequence[str]:
        """Return the columns in the order of the key."""
        sql = "SELECT name FROM pragma_table_xinfo(%s, %s) WHERE pk > 0 ORDER BY pk"
        return [name for (name,) in self.connection.fetch(sql, self.named(table))]

    def examine_key(
        self,
        tables: RoleTables,
        role: str,
        key: Sequence[str],  # noqa: ARG002 - by the table's names
        names: Sequence[str],
    ) -> tuple[Uniqueness, str | None]:
        """Let the planner decide whether an index finds all visible rows."""
        table = self.named(tables.schema.roles[role].table)
        relation = _SQLITE_RELATION.format(self.dialect.quote(table[1]))
        if self.connection.fetch(relation, table[:1]):
            return Uniqueness.UNDECLARABLE, None
        rowids = self.connection.fetch(_SQLITE_ROWID, table * 2)
        if any(name in names for (name,) in rowids):
            return Uniqueness.DECLARED, None
        partial = None
        rows = self.connection.fetch(_SQLITE_INDEXES, [*table, table[1]])
        for (index, is_partial), columns in groupby(rows, itemgetter(0, 1)):
            collations = [(name, collation) for _, _, name, collation in columns]
            if any(name not in names for name, _ in collations):
                continue
            if self._is_searched(tables, role, index, collations):
                return Uniqueness.DECLARED, None
            if is_partial:
                partial = partial or index
        return Uniqueness.MISSING, partial

    def _is_searched(
        self, tables: RoleTables, role: str, index: str, collations: Sequence[tuple[str, str]]
    ) -> bool:
        """Return whether the planner can find visible rows by all columns of an index.

        It cannot if the index is partial and its predicate does not follow from the conditions, or
        if a column's collation regards different texts as equal and that of the index, BINARY, does
        not. An index with another collation is at least as strict; it is searched with its own.
        """
        alias, quote = ALIASES[role], self.dialect.quote
        equal = []
        for name, collation in collations:
            own = "" if collation.upper() == "BINARY" else f" COLLATE {quote(collation)}"
            equal.append(f"{alias}.{quote(name)}{own} = (SELECT NULL)")
        sql = (
            f"SELECT 1 FROM {tables.table(role)} "
            f"INDEXED BY {quote(index)} WHERE {' AND '.join(equal)}{tables.visible(role)}"
            f"{flag_conditions(tables, role, _SQLITE_FLAGS)} /* {next(_NUMBERS)} */"
        )
        try:
            plan = self.plan(sql)
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):  # "no query solution"
                raise
            return False
        # If one column cannot be searched, the plan has only the columns before it.
        searched = f"({' AND '.join(f'{name}=?' for name, _ in collations)})"
        return any("SEARCH" in line and line.endswith(searched) for line in plan)

    def searches(self, tables: RoleTables, lookup: Lookup) -> bool:
        """Look for the last column in a search. An integer key is the rowid."""
        name = tables.columns(lookup.role)[lookup.columns[-1]].name
        searched = [rf"(?<!\w){re.escape(name)}(?!\w)", "rowid"]
        if lookup.fold and self.dialect.fold(lookup.fold, "email") != "email":
            searched.append("<expr>")
        pattern = re.compile(rf"SEARCH .* (INDEX|KEY) .*\(.*({'|'.join(searched)})", re.IGNORECASE)
        return any(map(pattern.search, self.plan_lookup(tables, lookup)))

    def sorts(self, tables: RoleTables, listing: Listing) -> bool:  # noqa: ARG002 - the planner knows them
        """Look for the B-tree in which rows are sorted."""
        lines = self.plan(listing.sql, listing.parameters)
        return any("TEMP B-TREE FOR ORDER BY" in line for line in lines)

    def can_combine(self, tables: Sequence[str]) -> bool:  # noqa: ARG002 - of any tables
        """Return False: no statement changes several tables."""
        return False

    def is_updatable(self, table: str, names: Collection[str]) -> bool:
        """Compile the UPDATE of a view, which fails without a trigger, but do not run it."""
        if self.relation(table) is not Relation.VIEW:
            return True
        nulls = ", ".join(f"{self.dialect.quote(name)} = NULL" for name in names)
        update = f"UPDATE {self.dialect.table(table)} SET {nulls}"
        try:
            self.connection.fetch(f"EXPLAIN {update} /* {next(_NUMBERS)} */")
        except Exception as error:
            if not isinstance(store_error(error), SchemaChanged):
                raise
            return False
        return True

    def named(self, table: str) -> list[str]:
        """Return the bare name, and that of the database, as pragmas need them."""
        namespace, _, bare = table.rpartition(".")
        return [bare, namespace.lower() or "main"]

    def _master(self, namespace: str) -> str:
        return f"{self.dialect.quote(namespace)}.sqlite_master"


_NUMBERS = count()
"""Make texts unique: Python's sqlite3 caches statements, and SQLite does not prepare an EXPLAIN
again after the schema has changed."""

_SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"

_SQLITE_COLUMNS = """
SELECT name, type, NOT "notnull", hidden IN (2, 3), dflt_value IS NOT NULL OR (pk > 0
    AND NOT EXISTS (SELECT 1 FROM pragma_index_list(%s, %s) WHERE origin = 'pk'))
FROM pragma_table_xinfo(%s, %s)
"""
"""SQLite assigns a value to a primary key without a separate index, because it is the rowid."""

_SQLITE_UNIQUE = """
SELECT name FROM pragma_index_list(%s, %s) WHERE "unique" AND NOT partial
"""

_SQLITE_RELATION = """
SELECT 1 FROM {}.sqlite_master
WHERE type IN ('table', 'view') AND name = %s COLLATE NOCASE AND coalesce(rootpage, 0) = 0
"""
"""Selects a view or a virtual table: neither is stored, and neither has indexes."""

_SQLITE_ROWID = """
SELECT name FROM pragma_table_xinfo(%s, %s)
WHERE pk > 0 AND NOT EXISTS (SELECT 1 FROM pragma_index_list(%s, %s) WHERE origin = 'pk')
"""
"""Selects the INTEGER PRIMARY KEY: it is the rowid, and the only primary key without an index."""

_SQLITE_INDEXES = """
SELECT i.name, i.partial, c.name, c.coll
FROM pragma_index_list(%s, %s) AS i, pragma_index_xinfo(i.name, %s) AS c WHERE i."unique" AND c.key
ORDER BY i.partial, i.name, c.seqno
"""
"""Selects the columns of the unique indexes, and their collations. An expression has no name."""

_SQLITE_KINDS = {
    **dict.fromkeys(("BOOL", "BOOLEAN"), "boolean"),
    "DATE": "date",
    "TIME": "time",
    **dict.fromkeys(("DATETIME", "TIMESTAMP"), "datetime"),
}
"""The kind of a column, by its declared type."""


def _sqlite_column(name: str, declared: str, nullable: int, generated: int, default: int) -> Column:
    type_name = declared.upper()
    word = re.split(r"\W", type_name)[0]
    kind = _SQLITE_KINDS.get(word, "")
    if not kind and "INT" in type_name:
        kind = "integer"
    elif not kind and any(each in type_name for each in ("CHAR", "CLOB", "TEXT")):
        kind = "text"
    return Column(
        name,
        "",
        type_name,
        kind or word.lower(),
        nullable=bool(nullable),
        generated=bool(generated),
        default=bool(default),
        holds_uuids=type_name == "CHAR(32)",
        # SQLAlchemy declares a column of its type UUID so, and one of its type Uuid as CHAR(32).
        read_key=uuid_of_digits if type_name in {"CHAR(32)", "UUID"} else None,
        ignores_case=True,
    )


_SQLITE_FLAGS = {True: f"{FLAGS[True]} AND {{0}} = 1", False: f"{FLAGS[False]} AND {{0}} = 0"}
