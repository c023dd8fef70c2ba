"""All that a group writes, as one statement: what PostgreSQL is asked by itself takes a round trip.

While a reply is on its way nothing else is done for the group, and a thread that reads it
has to wait for the interpreter each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import chain
from typing import Any

from sqlalchemy import (
    Connection,
    Insert,
    Update,
    func,
    literal_column,
    select,
    table,
)

from hookrow.stores.prepared import Prepared

REFUSED = {
    "0A000",  # feature_not_supported: a rule makes several statements of a part
    "27000",  # triggered_data_change_violation: a trigger changes what another part does
}
"""By SQLSTATE: what a host's tables may forbid all parts together, and allow each by itself."""

_NAME = "hookrow_part_"
"""Of a part, with its number; no table of a host's should have it."""


class AtOnce:
    """Statements as parts of one, WITH each other (PostgreSQL's manual, section 7.8.4).

    They see the rows as they were at its beginning, so that no two may change the same row.
    Each waits for the one before: rows are locked in the same order as one by one.
    """

    def __init__(self, statements: Sequence[Prepared]) -> None:
        self._parts = [_part(each, number) for number, each in enumerate(statements)]
        *others, last = [part.text for part in self._parts]
        named = [f"{_NAME}{number} AS MATERIALIZED ({text})" for number, text in enumerate(others)]
        self.text = f"WITH {', '.join(named)} {last}" if named else last

    def __call__(self, connection: Connection, values: Sequence[Any]) -> None:
        """Run it, with the values of each."""
        placed = [part.placed(its) for part, its in zip(self._parts, values, strict=True)]
        connection.exec_driver_sql(self.text, tuple(chain.from_iterable(placed))).close()


def _part(prepared: Prepared, number: int) -> Prepared:
    """Return it as the part of that number, which begins when the part before has ended."""
    statement: Any = copy(prepared.statement)
    if number:
        ended = select(func.count()).select_from(table(f"{_NAME}{number - 1}"))
        has_ended = ended.scalar_subquery() >= literal_column("0")
        if isinstance(statement, Insert) and statement.select is not None:
            statement.select = statement.select.where(has_ended)
        else:
            statement = statement.where(has_ended)
    if isinstance(statement, Update):
        statement = statement.returning(literal_column("1"))
    return Prepared(statement, prepared.dialect)
