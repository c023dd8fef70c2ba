"""A statement whose text is made once, and not looked up in a cache for every group.

Its parameters go to the driver as they are: the types of SQLAlchemy convert nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection, CursorResult, Dialect


class Prepared:
    """A statement as the `text` that a dialect makes of it; all that varies is a parameter."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._order: Sequence[str] | None = compiled.positiontup  # type: ignore[attr-defined]

    def __call__(
        self, connection: Connection, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> CursorResult[Any]:
        """Run it with the values, or for each row of them."""
        return connection.exec_driver_sql(self.text, self._arranged(values))

    def _arranged(self, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - as the driver wants it
        order = self._order
        if order is None:
            return values
        if isinstance(values, Mapping):
            return tuple(values[name] for name in order)
        return [tuple(row[name] for name in order) for row in values]
