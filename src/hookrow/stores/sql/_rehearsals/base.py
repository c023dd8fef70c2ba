"""Asks a database which values its columns can hold and compare, without writing to its tables.

What the database does not plainly reject passes, because to reject a table that works would be
worse than to accept one that does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hookrow._core.column_rules import Obstacle, never_equals, unsuitable
from hookrow._fault import Fault
from hookrow.stores.sql._columns import Column
from hookrow.stores.sql._connections import Connection
from hookrow.stores.sql._dialects.base import Dialect
from hookrow.stores.sql._needs import (
    REFERENCES,
    Columns,
    Need,
    cannot_compare,
)
from hookrow.stores.sql._role_tables import ALIASES, RoleTables


class Comparison(NamedTuple):
    """A condition of hookrow's statements, its tables as SQL text, and the fault if it fails.

    `columns` are the two that it compares with each other, if it does.
    """

    tables: Sequence[str]
    condition: str
    fault: Fault
    columns: Sequence[Column] = ()


def comparisons(tables: RoleTables) -> Iterator[Comparison]:
    """Yield the conditions that compare columns with parameters, constants and other columns."""
    roles = tables.schema.roles
    fold = tables.schema.subscribers.fold
    compared = {
        ("subscribers", "email"): tables.email_is_any(fold),
    }
    if tables.has("dispatches"):
        message_id = "dispatches", "provider_message_id"
        compared[message_id] = tables.any_of(*message_id)
    for (name, field), condition in compared.items():
        table, column = roles[name].table, tables.columns(name)[field]
        fault = Fault(unsuitable(table, column, field), table, column.name)
        yield Comparison([tables.table(name)], condition, fault)
    for name, role in roles.items():
        for column, value in tables.hiding[name]:
            text = never_equals(role.table, column, value, tables.schema.form)
            compared_column = f"{ALIASES[name]}.{tables.dialect.quote(column.name)}"
            condition = f"{compared_column} {tables.equals(column, value)}"
            yield Comparison([tables.table(name)], condition, Fault(text, role.table, column.name))
    for (name, field), (other, key) in REFERENCES:
        if tables.has(name, field) and tables.has(other, key):
            columns = tables.columns(name)[field], tables.columns(other)[key]
            fault = cannot_compare(roles[name].table, columns[0], roles[other].table, columns[1])
            condition = tables.refers(name, field, other, key)
            both = [tables.table(name), tables.table(other)]
            yield Comparison(both, condition, fault, columns)


class Rehearsal(ABC):
    """The questions to one kind of database. On PostgreSQL, they need a transaction.

    The methods raise the driver's errors.
    """

    @abstractmethod
    def rejected(
        self,
        connection: Connection,
        dialect: Dialect,
        tables: Mapping[str, Columns],
        needs: Sequence[Need],
    ) -> Iterator[Fault]:
        """Yield the columns that do not hold a value, or do not return it unchanged.

        `tables` are the columns of each table of the needs, by its name.
        """

    @abstractmethod
    def incomparable(
        self, connection: Connection, compared: Sequence[Comparison]
    ) -> Iterator[Fault]:
        """Yield the faults of the comparisons for which the database has no operator."""


def missing_reference(table: str) -> Obstacle:
    return Obstacle(f"refers to {table}, which lacks", "complete that table")


def broken_check(text: str) -> Obstacle:
    one_line = " ".join(text.split())  # SQLite names a constraint by its expression
    return Obstacle(f"has the constraint {one_line}, which rejects", "change the constraint")
