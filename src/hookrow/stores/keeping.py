"""How the SQL store writes to the log: one INSERT, which adds to what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Dialect,
    Insert,
    LargeBinary,
    MetaData,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    select,
)
from sqlalchemy import column as column_
from sqlalchemy.dialects import postgresql, sqlite

from hookrow.entry import Ending, Entry
from hookrow.stores.prepared import Prepared, Step
from hookrow.stores.tables import log_table, written

_NEWEST = ("outcome", "status", "retry_at")
"""The columns in which an entry that came again takes the place of the earlier one."""

_ERASED = ("recipient", "body")
"""The columns that `forget` and `prune` empty: a new arrival fills them, a replay does not."""

_SAME = {"first_outcome": "outcome"}
"""The columns that begin as another."""

_FIELDS = Entry.__struct_fields__


class Keeping:
    """The INSERT into the log of that name: called with entries, it and its parameters.

    PostgreSQL takes them all in one parameter, as JSON: to write bodies as elements
    of its arrays takes the driver longer than all else that is done for a notification.
    """

    def __init__(self, name: str, dialect: Dialect) -> None:
        self._as_json = dialect.name == "postgresql"
        self._table = log_table(name, MetaData())
        self._columns = [column for column in self._table.c if not column.primary_key]
        insert = self._from_json() if self._as_json else self._from_rows()
        self._insert = Prepared(self._adding(insert), dialect)

    def __call__(self, entries: Sequence[Entry]) -> Step:
        """Return what adds new entries, which are in the order of their fingerprints."""
        if self._as_json:
            return self._insert, {"rows": msgspec.json.encode(entries).decode()}
        return self._insert, [_row(entry) for entry in entries]

    def _from_rows(self) -> sqlite.Insert:
        given: dict[str, Any] = {
            each.name: bindparam(_SAME.get(each.name, each.name)) for each in self._columns
        }
        return sqlite.insert(self._table).values(given)

    def _from_json(self) -> postgresql.Insert:
        given = [
            column_(each.name, Text() if isinstance(each.type, LargeBinary) else each.type)
            for each in self._columns
            if each.name not in _SAME
        ]
        rows = (
            func.json_to_recordset(cast(bindparam("rows", type_=Text()), postgresql.JSON))
            .table_valued(*given, name="given")
            .render_derived(with_types=True)
        )
        values = {
            each.name: func.decode(rows.c[each.name], literal_column("'base64'"))
            if isinstance(each.type, LargeBinary)
            else rows.c[_SAME.get(each.name, each.name)]
            for each in self._columns
        }
        return postgresql.insert(self._table).from_select([*values], select(*values.values()))

    def _adding(self, insert: Any) -> Insert:  # noqa: ANN401 - of one dialect or the other
        """Complete the INSERT: an entry that is there adds up what came, and ends as newly."""
        new, old = insert.excluded, self._table.c
        first, last = "received_at", "last_received_at"
        recorded = literal_column(f"'{Ending.RECORDED.value}'", Text())
        is_again = and_(old.outcome == recorded, new.outcome == recorded)
        is_arrival = new.attempts > literal_column("0", BigInteger())
        adding: Insert = insert.on_conflict_do_update(
            index_elements=[old.fingerprint],
            set_={
                **{name: new[name] for name in _NEWEST},
                "ended_at": case((is_again, old.ended_at), else_=new.ended_at),
                **{
                    name: case((is_arrival, func.coalesce(old[name], new[name])), else_=old[name])
                    for name in _ERASED
                },
                "attempts": old.attempts + new.attempts,
                first: case((old[first] < new[first], old[first]), else_=new[first]),
                last: case((old[last] > new[last], old[last]), else_=new[last]),
            },
        )
        return adding


def _row(entry: Entry) -> dict[str, Any]:
    row = {name: written(getattr(entry, name)) for name in _FIELDS}
    return row | {"outcome": entry.outcome.value}
