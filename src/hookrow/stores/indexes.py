"""Asks the database whether its indexes serve our lookups, and says which to make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    CompoundSelect,
    Connection,
    Executable,
    Index,
    Select,
    Table,
    Text,
    and_,
    cast,
    null,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import CITEXT
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateIndex
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement, ColumnElement

from hookrow.schema import Fold
from hookrow.stores import folds
from hookrow.stores.arrays import unbounded
from hookrow.stores.relations import Relation, printing, relation
from hookrow.stores.statements import Statements

_LONGEST_NAME = 63
"""In characters, of an index in PostgreSQL."""

_ALONE = (
    ("subscribers", "id"),
    ("dispatches", "provider_message_id"),
    ("dispatches", "id"),
    ("messages", "id"),
)
"""The columns that rows are found or changed by, each by itself; emails and pairs besides."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The CREATE INDEX that a lookup lacks, and on what: in a view it can only be read.

    `fold` is that of emails which has its index already, if any.
    """

    statement: str
    on: Relation
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What rows are searched for, with parameters; what to index; and how a plan names that."""

    role: str
    condition: ColumnElement[bool]
    parameters: Mapping[str, Sequence[object]]
    indexed: Sequence[ColumnElement[Any]]
    sought: Column[Any]
    by: str


def missing(connection: Connection, statements: Statements) -> Iterator[Missing]:
    """Yield each index that a lookup lacks.

    The planner is asked, not the catalogue: only it knows which index it can use.
    """
    if connection.dialect.name == "postgresql":
        # A small table is read whole whatever its indexes; ask what were if it could not be.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
    fold = statements.roles.fold
    if not _is_served(connection, statements, email := _email(statements, fold)):
        others = (each for each in _folds(statements) if each != fold)
        there = (
            each for each in others if _is_served(connection, statements, _email(statements, each))
        )
        yield _lacking(connection, email, next(there, None))
    for lookup in _lookups(statements):
        if not _is_served(connection, statements, lookup):
            yield _lacking(connection, lookup)


def _folds(statements: Statements) -> Iterator[Fold]:
    """Yield the folds that could be, the most lenient first."""
    is_citext = isinstance(statements.roles["subscribers"]["email"].type, CITEXT)
    if is_citext or not statements.arrays:
        yield "citext"
    yield from ("ascii", "lower", "exact")


def _email(statements: Statements, fold: Fold) -> _Lookup:
    """Return the half of `find` that looks for emails, by any fold."""
    email = statements.roles["subscribers"]["email"]
    indexed = folds.indexed(fold, email, arrays=statements.arrays)
    condition = folds.found(fold, email, arrays=statements.arrays)
    by = _named(email) if indexed is email else f"{_named(email)}|<expr>"
    return _Lookup(
        "subscribers", condition, {"emails": statements.roles.texts([""])}, [indexed], email, by
    )


def _lookups(statements: Statements) -> Iterator[_Lookup]:
    """Yield what is looked for besides emails."""
    for name, ours in _ALONE:
        if name in statements.roles:
            column = statements.roles[name][ours]
            by = f"{_named(column)}|rowid"
            yield _Lookup(name, _equal(statements, column), _NULLS, [column], column, by)
    if "subscriptions" in statements.roles:
        role = statements.roles["subscriptions"]
        pair = [role["list_id"], role["subscriber_id"]]
        # There may be few lists, with many subscribers each: these tell the rows apart.
        by = _named(pair[1])
        yield _Lookup("subscriptions", _equal(statements, *pair), _NULLS, pair, pair[1], by)


def _equal(statements: Statements, *columns: Column[Any]) -> ColumnElement[bool]:
    """Compare each column with one value, of which a planner knows no more than its type."""
    if not statements.arrays:
        return statements.among(*columns)
    return and_(
        *(
            column == select(cast(null(), unbounded(column.type))).scalar_subquery()
            for column in columns
        )
    )


_NULLS = {"key_0": [None], "key_1": [None]}
"""The parameters of `among`: SQLite's planner does not look at them."""


def _named(column: Column[Any]) -> str:
    return rf"(?<!\w){re.escape(column.name)}(?!\w)"


def _is_served(connection: Connection, statements: Statements, lookup: _Lookup) -> bool:
    """Tell whether the plan searches an index by what the lookup has to search by.

    PostgreSQL prints the condition; SQLite prints the columns, <expr> for what is none,
    and rowid for a key that is the table's own. An index on just the rows that are not
    hidden serves too; but where all are asked for, one on other columns of theirs does
    not come between.
    """
    pattern = rf"(Index Cond: .*|SEARCH .* (INDEX|KEY) .*\(.*)({lookup.by})"
    for visible in ([], statements.roles.visible[lookup.role]):
        # As text, for a plan is.
        select_ = select(type_coerce(lookup.sought, Text())).where(lookup.condition, *visible)
        plan = connection.execute(Explain(select_), lookup.parameters).all()
        if any(re.search(pattern, str(row[-1]), re.IGNORECASE) for row in plan):
            return True
    return False


def _lacking(connection: Connection, lookup: _Lookup, fold: Fold | None = None) -> Missing:
    """Return the CREATE INDEX, which on PostgreSQL holds up no writer where that can be."""
    table = lookup.sought.table
    assert isinstance(table, Table)  # noqa: S101 - for mypy: a column is of any FROM clause
    on = relation(connection, table)
    name = f"hookrow_{table.name}_{lookup.sought.name}"[:_LONGEST_NAME]
    index = Index(name, *lookup.indexed, postgresql_concurrently=on is Relation.TABLE)
    return Missing(str(CreateIndex(index).compile(dialect=printing(connection.dialect))), on, fold)


class Explain(Executable, ClauseElement):
    """A statement that is not run: its plan is returned, a line a row, as the last column."""

    inherit_cache = False

    def __init__(self, statement: Select[Any] | CompoundSelect[Any]) -> None:
        self.statement = statement


@compiles(Explain)
def _explain(element: Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"EXPLAIN {compiler.process(element.statement, **options)}"


@compiles(Explain, "sqlite")
def _explain_query_plan(element: Explain, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    return f"EXPLAIN QUERY PLAN {compiler.process(element.statement, **options)}"
