"""How the SQL store writes to the log: one INSERT, which adds to what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    Insert,
    LargeBinary,
    MetaData,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    select,
)
from sqlalchemy import column as column_
from sqlalchemy.dialects import postgresql, sqlite

from hookrow.entry import Ending, Entry
from hookrow.stores.tables import log_table

_NEWEST = ("outcome", "status", "retry_at")
"""The columns in which an entry that came again takes the place of the earlier one."""

_ERASED = ("recipient", "body")
"""The columns that `forget` and `prune` empty: a new arrival fills them, a replay does not."""


class Keeping:
    """The INSERT into the log of that name: called with entries, it and its parameters.

    PostgreSQL takes them `as_json`, all in one parameter: to write bodies as elements
    of its arrays takes the driver longer than all else that is done for a notification.
    """

    def __init__(self, name: str, *, as_json: bool) -> None:
        self._as_json = as_json
        self._table = log_table(name, MetaData())
        self._columns = [column for column in self._table.c if not column.primary_key]
        self._insert = self._adding(self._from_json() if as_json else self._from_rows())

    def __call__(self, entries: Sequence[Entry]) -> tuple[Insert, Any]:
        """Return what to execute, for new entries in the order of their fingerprints."""
        rows = [_row(entry) for entry in entries]
        if self._as_json:
            for row in rows:
                row["fingerprint"] = row["fingerprint"].hex()
            return self._insert, {"rows": msgspec.json.encode(rows).decode()}
        return self._insert, rows

    def _from_rows(self) -> sqlite.Insert:
        given = {each.name: bindparam(each.name, type_=each.type) for each in self._columns}
        return sqlite.insert(self._table).values(given)

    def _from_json(self) -> postgresql.Insert:
        given = [
            column_(each.name, Text() if isinstance(each.type, LargeBinary) else each.type)
            for each in self._columns
        ]
        rows = (
            func.json_to_recordset(cast(bindparam("rows", type_=Text()), postgresql.JSON))
            .table_valued(*given, name="given")
            .render_derived(with_types=True)
        )
        values = [
            func.decode(rows.c[each.name], "hex")
            if isinstance(each.type, LargeBinary)
            else rows.c[each.name]
            for each in self._columns
        ]
        names = [each.name for each in self._columns]
        return postgresql.insert(self._table).from_select(names, select(*values))

    def _adding(self, insert: Any) -> Insert:  # noqa: ANN401 - of one dialect or the other
        """Complete the INSERT: an entry that is there adds up what came, and ends as newly."""
        new, old = insert.excluded, self._table.c
        first, last = "received_at", "last_received_at"
        recorded = Ending.RECORDED.value
        adding: Insert = insert.on_conflict_do_update(
            index_elements=[old.fingerprint],
            set_={
                **{name: new[name] for name in _NEWEST},
                "ended_at": case(
                    (and_(old.outcome == recorded, new.outcome == recorded), old.ended_at),
                    else_=new.ended_at,
                ),
                **{
                    name: case(
                        (new.attempts > 0, func.coalesce(old[name], new[name])), else_=old[name]
                    )
                    for name in _ERASED
                },
                "attempts": old.attempts + new.attempts,
                first: case((old[first] < new[first], old[first]), else_=new[first]),
                last: case((old[last] > new[last], old[last]), else_=new[last]),
            },
        )
        return adding


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "fingerprint": entry.fingerprint,
        "record_type": entry.record_type,
        "message_id": entry.message_id,
        "recipient": entry.recipient,
        "occurred_at": entry.occurred_at,
        "outcome": entry.outcome.value,
        "first_outcome": entry.outcome.value,
        "status": entry.status,
        "attempts": entry.attempts,
        "received_at": entry.received_at,
        "last_received_at": entry.last_received_at,
        "ended_at": entry.ended_at,
        "retry_at": entry.retry_at,
        "body": entry.body,
    }
