"""Finds the notifications that set the times in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from hookrow.core.log_entry import RECORD_TYPES, StoredEntry
from hookrow.core.notification import DispatchEvent, EventTime, Opened, Suppressed
from hookrow.core.result import Result
from hookrow.providers import BodyParser
from hookrow.receiver.replay import parse_entry
from hookrow.stores import State
from hookrow.stores.log import LogReader, Query
from hookrow.stores.log_operations import with_bodies

ARRIVAL_RANGE = 5000
"""In ids; the range after a time that is searched for an entry that arrived at that time."""

MAX_CAUSES = 50
"""The maximum number of entries that are compared with one of a row's times."""

_TYPES = {
    **{kind.column.value: RECORD_TYPES[kind] for kind in DispatchEvent.__subclasses__()},
    EventTime.FIRST_OPENED.value: RECORD_TYPES[Opened],
    **dict.fromkeys(("suppressed_at", "suppression_changed_at"), RECORD_TYPES[Suppressed]),
}
"""Postmark's type of the notifications that set a column."""


def find_causes(
    log: LogReader, parser: BodyParser, query: Query, state: State
) -> Mapping[str, int | None]:
    """Return the id of the notification that set each time in a row, or None if there is none.

    The query selects the notifications of the row. A time is omitted if this is unknown, because a
    body was pruned or is another provider's.
    """
    times = {
        column: (type_, time)
        for column, type_ in _TYPES.items()
        if isinstance(time := state.get(column), datetime)
    }
    causes = {each: _find_cause(log, parser, query, *each) for each in set(times.values())}
    return {column: id_ for column, each in times.items() for id_ in causes[each]}


def _find_cause(
    log: LogReader, parser: BodyParser, query: Query, type_: str, time: datetime
) -> Sequence[int | None]:
    """Find the entry of this type; return its id, None if there is none, or nothing if unknown."""
    unknown = False
    for entry in _recorded_at(log, query, time):
        found = _type_of(log, parser, entry)
        if found == type_:
            return [entry.id]
        unknown |= found is None
    return [] if unknown else [None]


def _recorded_at(log: LogReader, query: Query, time: datetime) -> Iterator[StoredEntry]:
    """Yield the entries with this event time, then those with this arrival time."""
    query = replace(query, outcome=Result.RECORDED)
    for entry in log.events_at(time, query, limit=MAX_CAUSES):
        if entry.occurred_at == time:
            yield entry
    first = log.first_id_since(time)
    arrived = replace(query, ids=range(first, first + ARRIVAL_RANGE))
    for entry in log.oldest(arrived, limit=MAX_CAUSES, bodies=False):
        if time in {entry.received_at, entry.last_received_at}:
            yield entry


def _type_of(log: LogReader, parser: BodyParser, entry: StoredEntry) -> str | None:
    """Return Postmark's type for an entry of any provider, or None if its body cannot be read."""
    if entry.record_type in RECORD_TYPES.values():
        return entry.record_type
    whole = next(with_bodies(log, [entry]), None)
    part = whole and parse_entry(whole, parser)
    return RECORD_TYPES.get(type(part.notification)) if part else None
