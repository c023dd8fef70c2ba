"""What came for one row: the notifications, and which of them set what the row has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from hookrow.dashboard.asking import Fields
from hookrow.dashboard.listing import PAGE, Listed, listed
from hookrow.dashboard.site import Site
from hookrow.entry import Ending
from hookrow.notification import EventTime
from hookrow.stores import State
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


def history(site: Site, query: Query, wanted: Fields) -> Listed | None:
    """List what came for a row, or None where there is no log."""
    return None if site.store.log is None else listed(site, query, wanted)


def causes(site: Site, query: Query, state: State) -> Mapping[str, int | None]:
    """Find, of each time in a row, the notification that set it; None where the log has none."""
    log = site.store.log
    if log is None:
        return {}
    return {
        column: _cause(log, replace(query, record_type=type_, outcome=Ending.RECORDED), at)
        for column, type_ in _SETTING.items()
        if isinstance(at := state.get(column), datetime)
    }


def _cause(log: LogReader, query: Query, at: datetime) -> int | None:
    """Find what happened then or, of what does not say when, what came then."""
    for entry in log.happened(at, query, limit=PAGE):
        if entry.occurred_at == at:
            return entry.id
    first = log.reached(at)
    for entry in log.oldest(replace(query, ids=range(first, first + NEAR)), limit=PAGE):
        if at in {entry.received_at, entry.last_received_at}:
            return entry.id
    return None
