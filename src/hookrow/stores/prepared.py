"""Statements whose text is made once, and not looked up in a cache for every group.

Their parameters go to the driver as they are: the types of SQLAlchemy convert nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    CursorResult,
    Dialect,
    Update,
    func,
    literal_column,
    select,
    table,
)

Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""The parameters of a statement: by name, or for each of many rows."""

Step: TypeAlias = "tuple[Prepared, Values]"

NAME = "hookrow_part_"
"""Of a part of a statement, with its number; no table of a host's should have it."""


class Prepared:
    """A statement as the `text` that a dialect makes of it; all that varies is a parameter.

    The dialect's parameters go by their places. `where` returns the statement with one
    condition more, which an INSERT has to be told.
    """

    def __init__(
        self,
        statement: ClauseElement,
        dialect: Dialect,
        where: Callable[[ColumnElement[bool]], ClauseElement] | None = None,
    ) -> None:
        self.text, self._order = _compiled(statement, dialect)
        self._statement, self._dialect, self._where = statement, dialect, where

    def __call__(self, connection: Connection, values: Values) -> CursorResult[Any]:
        """Run it with the values, or for each row of them."""
        placed = (
            self.placed(values)
            if isinstance(values, Mapping)
            else [self.placed(row) for row in values]
        )
        return connection.exec_driver_sql(self.text, placed)

    def placed(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values in their places."""
        return tuple([values[name] for name in self._order])

    def part(self, number: int) -> str:
        """Return it as a part of a statement, which begins when the part before has ended."""
        ended = select(func.count()).select_from(table(f"{NAME}{number - 1}"))
        before = ended.scalar_subquery() >= literal_column("0")
        statement: Any = self._statement
        if number and self._where is not None:
            statement = self._where(before)
        elif number:
            statement = statement.where(before)
        if isinstance(statement, Update):
            statement = statement.returning(literal_column("1"))
        return _compiled(statement, self._dialect)[0]


def _compiled(statement: ClauseElement, dialect: Dialect) -> tuple[str, Sequence[str]]:
    compiled = statement.compile(dialect=dialect)
    # Only what compiles DDL has no places.
    return str(compiled), compiled.positiontup or ()  # type: ignore[attr-defined]
