"""Statements whose text is made once, and not looked up in a cache for every group.

Their parameters go to the driver as they are: the types of SQLAlchemy convert nothing.
"""

from __future__ import annotations

import re
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

_PARAMETER = re.compile(r"%%|%\((\w+)\)s")


class Prepared:
    """A statement as the `text` that a dialect makes of it; all that varies is a parameter.

    `where` returns it with one condition more, which an INSERT has to be told.
    """

    def __init__(
        self,
        statement: ClauseElement,
        dialect: Dialect,
        where: Callable[[ColumnElement[bool]], ClauseElement] | None = None,
    ) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        # Only what compiles DDL has none.
        self._order: Sequence[str] | None = compiled.positiontup  # type: ignore[attr-defined]
        self._statement, self._dialect, self._where = statement, dialect, where

    def __call__(self, connection: Connection, values: Values) -> CursorResult[Any]:
        """Run it with the values, or for each row of them."""
        return connection.exec_driver_sql(self.text, self._arranged(values))

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
        text = str(statement.compile(dialect=self._dialect))
        return _PARAMETER.sub(lambda found: _numbered(found, number), text)

    def _arranged(self, values: Values) -> Any:  # noqa: ANN401 - as the driver wants it
        order = self._order
        if order is None:
            return values
        if isinstance(values, Mapping):
            return tuple(values[name] for name in order)
        return [tuple(row[name] for name in order) for row in values]


def _numbered(found: re.Match[str], number: int) -> str:
    return f"%({NAME}{number}_{found[1]})s" if found[1] else found[0]
