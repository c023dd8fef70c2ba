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
from hookrow.stores.log import Query

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


def causes(site: Site, query: Query, state: State) -> Mapping[str, int]:
    """Find, of each time in a row, the notification that set it: it happened then."""
    if site.store.log is None:
        return {}
    return {
        column: entry.id
        for column, type_ in _SETTING.items()
        if isinstance(at := state.get(column), datetime)
        for entry in site.store.log.happened(at, replace(query, record_type=type_), limit=PAGE)
        if entry.occurred_at == at and entry.outcome is Ending.RECORDED
    }
