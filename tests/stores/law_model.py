"""A model for the law: rows in dicts, as the core's rules decide.

It has no SQL and no transactions, and finds no rows by their keys: the rules get all of them.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from homes import COLUMNS, KEYS, Row, Rows, as_rows, columns_of

from hookrow import Arrival, Outcome, Schema
from hookrow._core.log_entry import LogEntry, log_entries, merge_entries
from hookrow._core.notification import (
    Change,
    EventTime,
    FoundDispatch,
    FoundSubscriber,
    FoundSubscription,
    Key,
    RowId,
    SetTime,
)
from hookrow._core.notification import Rows as Found
from hookrow._core.rules import decide, fold, merge


class Model:
    """The rows of a schema's roles, by hookrow's names for the columns, and the log."""

    def __init__(self, schema: Schema, world: Mapping[str, Sequence[Row]]) -> None:
        self._schema = schema
        self._tables: dict[str, dict[Any, dict[str, Any]]] = {
            name: {
                itemgetter(*KEYS[name])(row): {
                    column: row.get(column) for column in columns_of(schema, name)
                }
                for row in world.get(name, ())
            }
            for name in COLUMNS
            if name in schema.roles
        }
        self._dates: dict[RowId, datetime] = {}
        self._log: dict[bytes, tuple[LogEntry, LogEntry]] = {}

    def record(self, group: Sequence[Arrival]) -> list[Outcome]:
        """Decide on a group, change its rows, and log it, if there is a log."""
        found = self._found({each.tenant for each in group})
        outcomes = [decide(each, found) for each in group]
        for change in merge(outcomes):
            self._apply(change)
        if self._schema.log is not None:
            for entry in log_entries(group, outcomes, group[0].received_at):
                first, earlier = self._log.get(entry.fingerprint, (entry, None))
                merged = entry if earlier is None else merge_entries(earlier, entry)
                self._log[entry.fingerprint] = first, merged
        return outcomes

    def rows(self) -> Rows:
        """Return the rows of each role, in the order of their keys."""
        return {
            name: [row for _, row in sorted(each.items())] for name, each in self._tables.items()
        }

    def logged(self) -> list[dict[str, Any]]:
        """Return the rows of the log without ids, in the order of their fingerprints."""
        return [
            {**row, "first_outcome": first.outcome.value, "retries": 0}
            for _, (first, last) in sorted(self._log.items())
            for row in as_rows([last])
        ]

    def _found(self, tenants: Collection[Key | None]) -> Found:
        """Find all rows, which the rules compare with a notification of one of the tenants."""
        people, sent = self._tables["subscribers"], self._tables.get("dispatches", {})
        subscribers, dispatches = defaultdict(list), defaultdict(list)
        for id_, row in people.items():
            found = FoundSubscriber(id_, row["email"], _text(row.get("tenant")))
            subscribers[fold(row["email"])].append(found)
        for id_, row in sent.items():
            owner = people[row["subscriber_id"]]
            tenant = row.get("tenant", owner.get("tenant"))
            named = (owner["id"], owner["email"])
            if tenant != owner.get("tenant"):
                named = (None, "")
            dispatches[row["provider_message_id"]].append(
                FoundDispatch(id_, *named, row.get("list_id"), _text(tenant))
            )
        return Found(
            subscribers,
            dispatches,
            {
                pair: FoundSubscription(pair, _text(row.get("tenant")))
                for pair, row in self._tables.get("subscriptions", {}).items()
                if row.get("tenant", "the subscriber's") is not None
            },
            self._schema.unguarded,
            first_opens="first_opened_at" in self._schema.columns("dispatches"),
            has_dispatches=self._schema.dispatches is not None,
            tenants={each: str(each) for each in tenants if each is not None},
            suppressible=self._schema.suppressible,
        )

    def _apply(self, change: Change) -> None:
        """Change a row as the contract says, which `_core.changes` states for the stores."""
        kind, key = change.row
        row = self._tables[kind.value][key]
        if isinstance(change, SetTime):
            guard = change.column.value
            new: dict[str, Any] = {guard: change.at}
            if change.column is EventTime.BOUNCED:
                new["bounce_type"] = change.bounce_type
        else:
            guard = "suppression_changed_at"
            at = None if change.reason is None else change.at
            new = {"suppressed_at": at, "suppression_reason": change.reason, guard: change.at}
        last = row.get(guard, self._dates.get(change.row))
        is_newer = last is None or (
            last > change.at if guard == "first_opened_at" else last <= change.at
        )
        if is_newer or not change.guarded:
            row |= {column: new[column] for column in new if column in row}
            if guard not in row:
                self._dates[change.row] = change.at


def _text(tenant: Key | None) -> str | None:
    return None if tenant is None else str(tenant)
