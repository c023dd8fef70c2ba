"""Asks the database whether its indexes serve our lookups, and says which to make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Column,
    CompoundSelect,
    Connection,
    Executable,
    Index,
    Integer,
    Select,
    Uuid,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from hookrow.stores.statements import Statements
from hookrow.stores.tables import folded


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A statement and parameters for it, what it has to search by, and what to index for that."""

    statement: Select[Any] | CompoundSelect[Any]
    parameters: Mapping[str, Sequence[object]]
    sought: Column[Any]
    indexed: Sequence[ColumnElement[Any]]


def missing(connection: Connection, statements: Statements) -> Iterator[str]:
    """Yield the CREATE INDEX of each index that a lookup lacks.

    The planner is asked, not the catalogue: only it knows which index it can use.
    """
    if connection.dialect.name == "postgresql":
        # A small table is read whole whatever its indexes; ask what were if it could not be.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
    for lookup in _lookups(statements):
        plan = connection.execute(_Explain(lookup.statement), lookup.parameters)
        if not any(_searches(str(row[-1]), lookup) for row in plan):
            name = f"hookrow_{lookup.sought.table.name}_{lookup.sought.name}"
            index = Index(name[:_LONGEST_NAME], *lookup.indexed)
            yield str(CreateIndex(index).compile(dialect=connection.dialect))


_LONGEST_NAME = 63
"""In characters, of an index in PostgreSQL."""


def _lookups(statements: Statements) -> Iterator[_Lookup]:
    email = statements.roles["subscribers"]["email"]
    message_id = statements.roles["dispatches"]["provider_message_id"]
    both = {"emails": [""], "message_ids": [""]}
    yield _Lookup(statements.find, both, email, [folded(email)])
    yield _Lookup(statements.find, both, message_id, [message_id])
    if statements.subscriptions is not None:
        role = statements.roles["subscriptions"]
        pair = [role["list_id"], role["subscriber_id"]]
        parameters = statements.by([tuple(_sample(column) for column in pair)])
        # There may be few lists, with many subscribers each: these tell the rows apart.
        yield _Lookup(statements.subscriptions, parameters, role["subscriber_id"], pair)


def _searches(line: str, lookup: _Lookup) -> bool:
    """Tell whether a plan's line searches an index by what the lookup has to search by.

    PostgreSQL prints the condition; SQLite prints the columns, and <expr> for what is none.
    """
    sought = rf"\b{re.escape(lookup.sought.name)}\b"
    if not any(each is lookup.sought for each in lookup.indexed):
        sought += "|<expr>"
    pattern = rf"(Index Cond: .*|SEARCH .* INDEX .*\(.*)({sought})"
    return re.search(pattern, line, re.IGNORECASE) is not None


def _sample(column: Column[Any]) -> object:
    """Return a value that the column could hold."""
    match column.type:
        case Integer():
            return 0
        case Uuid():
            return UUID(int=0)
        case _:
            return ""


class _Explain(Executable, ClauseElement):
    inherit_cache = False

    def __init__(self, statement: Select[Any] | CompoundSelect[Any]) -> None:
        self.statement = statement


@compiles(_Explain)
def _explain(element: _Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"EXPLAIN {compiler.process(element.statement, **options)}"


@compiles(_Explain, "sqlite")
def _explain_query_plan(element: _Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"EXPLAIN QUERY PLAN {compiler.process(element.statement, **options)}"
