"""All that a group writes, as one statement: what PostgreSQL is asked by itself takes a round trip.

While a reply is on its way nothing else is done for the group, and a thread that reads it
has to wait for the interpreter each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from hookrow.stores.prepared import NAME, Prepared, Step

REFUSED = {
    "0A000",  # feature_not_supported: a rule makes several statements of a part
    "27000",  # triggered_data_change_violation: a trigger changes what another part does
}
"""By SQLSTATE: what a host's tables may forbid all parts together, and allow each by itself."""


class AtOnce:
    """Statements as parts of one, WITH each other (PostgreSQL's manual, section 7.8.4).

    They see the rows as they were at its beginning, so that no two may change the same row.
    Each waits for the one before: rows are locked in the same order as one by one.
    """

    def __init__(self, statements: Sequence[Prepared]) -> None:
        *parts, last = [each.part(number) for number, each in enumerate(statements)]
        named = [f"{NAME}{number} AS MATERIALIZED ({part})" for number, part in enumerate(parts)]
        self.text = f"WITH {', '.join(named)} {last}" if named else last
        self._statements = statements

    def __call__(self, connection: Connection, values: Sequence[Any]) -> None:
        """Run it, with the values of each."""
        placed = [each.placed(its) for each, its in zip(self._statements, values, strict=True)]
        connection.exec_driver_sql(self.text, tuple(chain.from_iterable(placed))).close()


def one_by_one(connection: Connection, steps: Sequence[Step]) -> None:
    """Run statements one after the other."""
    for statement, values in steps:
        statement(connection, values).close()
