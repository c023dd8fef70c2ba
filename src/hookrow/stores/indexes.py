"""Asks the database whether its indexes serve our lookups, and says which to make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import Column, Connection, Executable, Index, Select, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from hookrow.stores.statements import Statements
from hookrow.stores.tables import folded


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A statement that selects by `keys`, the columns it looks in, and what to index there."""

    statement: Select[Any]
    columns: tuple[Column[Any], ...]
    indexed: tuple[ColumnElement[Any], ...]


def missing(connection: Connection, statements: Statements) -> Iterator[str]:
    """Yield the CREATE INDEX of each index that a lookup lacks.

    The planner is asked, not the catalogue: only it knows which index it can use.
    """
    if connection.dialect.name == "postgresql":
        # A small table is read whole whatever its indexes; ask what were if it could not be.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
    for lookup in _lookups(statements):
        key = tuple(_sample(column) for column in lookup.columns)
        parameters = statements.by([key if len(key) > 1 else key[0]])
        if not _is_indexed(connection, lookup, parameters):
            table = lookup.columns[0].table
            name = "_".join((table.name, *(column.name for column in lookup.columns)))
            index = Index(name, *lookup.indexed)
            yield str(CreateIndex(index).compile(dialect=connection.dialect))


def _lookups(statements: Statements) -> Iterator[_Lookup]:
    email = statements.roles["subscribers"]["email"]
    yield _Lookup(statements.subscribers, (email,), (folded(email),))
    message_id = statements.roles["dispatches"]["provider_message_id"]
    yield _Lookup(statements.dispatches, (message_id,), (message_id,))
    if statements.subscriptions is not None:
        role = statements.roles["subscriptions"]
        pair = (role["list_id"], role["subscriber_id"])
        yield _Lookup(statements.subscriptions, pair, pair)


def _is_indexed(connection: Connection, lookup: _Lookup, parameters: dict[str, Any]) -> bool:
    plan = connection.execute(_Explain(lookup.statement), parameters)
    names = "|".join(re.escape(column.name) for column in lookup.columns)
    # PostgreSQL prints the condition by which an index is searched, SQLite its columns.
    searched = re.compile(
        rf"Index Cond: .*\b(?:{names})\b|SEARCH .* INDEX .*\((?:(?:{names})\b|<expr>)",
        re.IGNORECASE,
    )
    return any(searched.search(str(row[-1])) for row in plan)


def _sample(column: Column[Any]) -> object:
    kind = column.type.python_type
    return UUID(int=0) if kind is UUID else kind()


class _Explain(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, statement: Select[Any]) -> None:
        self.statement = statement


@compiles(_Explain)
def _explain(element: _Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"EXPLAIN {compiler.process(element.statement, **options)}"


@compiles(_Explain, "sqlite")
def _explain_query_plan(element: _Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"EXPLAIN QUERY PLAN {compiler.process(element.statement, **options)}"
