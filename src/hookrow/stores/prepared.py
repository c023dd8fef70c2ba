"""Statements whose text is made once, and not looked up in a cache for every group.

Their parameters go to the driver as they are: the types of SQLAlchemy convert nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ClauseElement, Connection, CursorResult, Dialect

Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""The parameters of a statement: by name, or for each of many rows."""

Step: TypeAlias = "tuple[Prepared, Values]"


class Prepared:
    """A statement as the `text` that a dialect makes of it; all that varies is a parameter.

    The dialect's parameters go by their places.
    """

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        self.statement, self.dialect = statement, dialect
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        # Only what compiles DDL has no places.
        self._order: Sequence[str] = compiled.positiontup or ()  # type: ignore[attr-defined]

    def __call__(self, connection: Connection, values: Values) -> CursorResult[Any]:
        """Run it with the values, or for each row of them."""
        if isinstance(values, Mapping):
            return connection.exec_driver_sql(self.text, self.placed(values))
        return connection.exec_driver_sql(self.text, [self.placed(row) for row in values])

    def placed(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values in their places."""
        return tuple([values[name] for name in self._order])
