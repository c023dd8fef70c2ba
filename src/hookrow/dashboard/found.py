"""What the store has of a subscriber, a dispatch or a notification, as it is now.

It looks and changes nothing: no row is locked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from hookrow.core.log_entry import Result, StoredEntry
from hookrow.core.notification import (
    Arrival,
    Change,
    Dispatch,
    EventTime,
    LookupKeys,
    Reactivated,
    Recorded,
    RowId,
    SetTime,
    Suppressible,
)
from hookrow.core.rules import decide, is_message_id, lookup_keys
from hookrow.providers import Parse
from hookrow.receiver.replay import arrivals_of
from hookrow.stores import State, Store
from hookrow.stores.log import LogReader, Query

NEAR = 5000
"""In ids; how far behind the first that came at a time others are looked for that did."""

_SETTING = {
    EventTime.DELIVERED.value: "Delivery",
    EventTime.OPENED.value: "Open",
    "suppressed_at": "SubscriptionChange",
    "suppression_changed_at": "SubscriptionChange",
}
"""Which type of notification sets a column."""

TRIED = 50
"""How many entries of one second, or near it, are compared."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row, and what notifications have set in it; a dispatch's `about` tells the rest.

    `causes` has, for each time in the state, the id of the notification that set it, or None
    where the log has none such. Without a log it is empty.
    """

    id: RowId
    state: State
    causes: Mapping[str, int | None]
    about: Dispatch | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """A value that a notification sets in a row, and the one that the row has now.

    They differ where something newer was set, and where a host has reasons of its own.
    """

    row: RowId
    column: str
    value: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Effects:
    """What a notification sets, or the sentence of why it would be refused now."""

    refusal: str | None
    effects: Sequence[Effect] = ()


def subscriber(store: Store, email: str) -> Row | None:
    """Find the subscriber whom a notification for the address would find."""
    asked = Arrival(Reactivated(email, None, None), b"", datetime.now(UTC))
    with store.reading() as reading:
        outcome = decide(asked, reading.find(lookup_keys([asked])))
        if not isinstance(outcome, Recorded):
            return None
        row = (Suppressible.SUBSCRIBER, outcome.changes[0].row[1])
        state = reading.read([row]).get(row, {})
    return _row(store, row, state, Query(recipient=email))


def dispatches(store: Store, message_id: str) -> Sequence[Row]:
    """Find every dispatch of that id; a host's own table may have it twice."""
    if not is_message_id(message_id):
        return []
    asked = LookupKeys(emails=(), message_ids={message_id}, changed=())
    with store.reading() as reading:
        found = reading.find(asked).dispatches.get(message_id, ())
        rows = {(Suppressible.DISPATCH, each.id): each for each in found}
        states = reading.read(list(rows))
    came = Query(message_id=message_id)
    return [_row(store, row, states.get(row, {}), came, each) for row, each in rows.items()]


def effects(store: Store, entry: StoredEntry, parse: Parse) -> Effects | None:
    """Return what a notification sets; None where its body is not kept as it came."""
    arrivals = arrivals_of([entry], parse)
    if not arrivals:
        return None
    with store.reading() as reading:
        outcome = decide(arrivals[0], reading.find(lookup_keys(arrivals)))
        if not isinstance(outcome, Recorded):
            return Effects(outcome.text)
        states = reading.read({change.row for change in outcome.changes})
        return Effects(
            None,
            [
                Effect(change.row, column, value, states[change.row][column])
                for change in outcome.changes
                for column, value in _values(change)
                if column in states.get(change.row, {})
            ],
        )


def _values(change: Change) -> Sequence[tuple[str, Any]]:
    if isinstance(change, SetTime):
        return [(change.column.value, change.at)]
    return [
        ("suppressed_at", None if change.reason is None else change.at),
        ("suppression_reason", change.reason),
        ("suppression_changed_at", change.at),
    ]


def _row(store: Store, row: RowId, state: State, came: Query, about: Dispatch | None = None) -> Row:
    return Row(row, state, _causes(store.log, came, state) if store.log else {}, about)


def _causes(log: LogReader, query: Query, state: State) -> Mapping[str, int | None]:
    """Find, of each time in a row, the notification that set it; None where the log has none."""
    times = {
        column: (type_, at)
        for column, type_ in _SETTING.items()
        if isinstance(at := state.get(column), datetime)
    }
    found = {each: _cause(log, query, *each) for each in set(times.values())}
    return {column: found[each] for column, each in times.items()}


def _cause(log: LogReader, query: Query, type_: str, at: datetime) -> int | None:
    """Find what happened then or, of what does not say when, what came then."""
    query = replace(query, record_type=type_, outcome=Result.RECORDED)
    for entry in log.happened(at, query, limit=TRIED):
        if entry.occurred_at == at:
            return entry.id
    first = log.reached(at)
    query = replace(query, ids=range(first, first + NEAR))
    for entry in log.oldest(query, limit=TRIED, bodies=False):
        if at in {entry.received_at, entry.last_received_at}:
            return entry.id
    return None
