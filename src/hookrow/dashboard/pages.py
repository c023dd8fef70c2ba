"""The pages: each reads the store and its log, and returns a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from operator import attrgetter

from hookrow.core.log_entry import RECORD_TYPES, Result, StoredEntry
from hookrow.core.notification import Suppressed
from hookrow.dashboard import queries
from hookrow.dashboard.actions import RESULTS
from hookrow.dashboard.forms import (
    FILTERS,
    TYPES,
    Fields,
    NotFound,
    parse,
    parse_query,
    required,
)
from hookrow.dashboard.queries import Context
from hookrow.dashboard.templating import View, format_text
from hookrow.describe import describe_change, describe_outcome
from hookrow.statistics import Period
from hookrow.stores.log import Query, with_bodies

LISTS = 500
"""The number of lists on a page: those with the most dispatches."""


def overview(context: Context, fields: Fields) -> View:
    """Show the state of the webhook, and the figures of a period."""
    period = parse(fields, "period") or Period.DAY
    values = {
        "title": "Overview",
        "overview": context.statistics.overview(period, datetime.now(UTC)),
        "periods": list(Period),
    }
    return View("overview.html", values)


def lists(context: Context, _: Fields) -> View:
    """Show the counts of all dispatches, subscriptions and suppressions, by list and reason."""
    counts = context.statistics.table_counts()
    all_lists = counts.lists if counts else ()
    lists = nlargest(LISTS, all_lists, attrgetter("sent")) if all_lists[LISTS:] else all_lists
    values = {
        "title": "Lists",
        "counts": counts,
        "lists": lists,
        "most_sent": max((each.sent for each in all_lists), default=0),
        "most_subscribed": max((each.subscribed or 0 for each in all_lists), default=0),
    }
    return View("lists.html", values)


def notifications(context: Context, fields: Fields) -> View:
    """List notifications, newest first; with `rows`, return only the rows of newer ones."""
    if context.store.log is None:
        return View("no_log.html", {"title": "Notifications"})
    query, last = parse_query(fields), queries.last_id(context.log)
    after = parse(fields, "rows")
    if after is not None:
        entries = queries.list_newer(context.log, query, after, last)
        return View("rows.html", {"entries": entries, "last": last})
    listing = queries.list_entries(context, query, fields)
    values = {
        "title": "Notifications",
        "listing": listing,
        "entries": listing.entries,
        "last": max([last, *(each.id for each in listing.entries[:1])]),
        "filters": {name: value for name, value in fields.items() if name in FILTERS},
        "fields": {name: fields.get(name, "") for name in FILTERS},
        "types": TYPES,
        "outcomes": [each.value for each in Result],
        "live": not {"before", "after"} & fields.keys(),
    }
    return View("notifications.html", values)


def notification(context: Context, fields: Fields) -> View:
    """Show a notification: its results, its effects and its body."""
    entry = queries.find_entry(context, fields)
    newer = queries.find_superseding(context, entry)
    values = {
        "title": f"Notification {entry.id}",
        "entry": entry,
        "outcome": describe_outcome(entry),
        "change": queries.describe_suppression(entry, context.parse),
        "superseded": (newer.id, describe_change(newer, context.parse)) if newer else None,
        "effects": queries.find_effects(context.store, entry, context.parse),
        "result": RESULTS.get(fields.get("done", "")),
    }
    return View("notification.html", values)


def subscriber(context: Context, fields: Fields) -> View:
    """Show the row of a subscriber, and the notifications for the address."""
    email = required(fields, "email")
    row = queries.find_subscriber(context.store, email)
    listing = queries.list_entries(context, Query(recipient=email), fields)
    if row is None and listing.empty:
        raise NotFound("Neither the subscribers nor the log contain this address.")
    values = {"title": "Subscriber", "email": email, "row": row}
    return View("subscriber.html", {**values, **_history(context, fields, listing)})


def dispatch(context: Context, fields: Fields) -> View:
    """Show the row of a dispatch, and the notifications with its message id."""
    message_id = required(fields, "message_id")
    rows = queries.find_dispatches(context.store, message_id)
    listing = queries.list_entries(context, Query(message_id=message_id), fields)
    if not rows and listing.empty:
        raise NotFound("Neither the dispatches nor the log contain this message ID.")
    values = {"title": "Dispatch", "message_id": message_id, "rows": rows}
    return View("dispatch.html", {**values, **_history(context, fields, listing)})


def _history(context: Context, fields: Fields, listing: queries.Listing) -> Mapping[str, object]:
    """Return the values that the pages of a subscriber and of a dispatch have in common."""
    return {
        "listing": listing,
        "changes": _changes(context, listing.entries) if listing.entries else {},
        "logged": context.store.log is not None,
        "result": RESULTS.get(fields.get("done", "")),
    }


def _changes(context: Context, entries: Sequence[StoredEntry]) -> Mapping[int, str]:
    """Return the descriptions of the changes of suppression among the entries, by id."""
    changes = [each for each in entries if each.record_type == RECORD_TYPES[Suppressed]]
    # Each is shortened immediately, because it may be as large as its body.
    return {
        entry.id: format_text(text)
        for entry in with_bodies(context.log, changes)
        if (text := queries.describe_suppression(entry, context.parse))
    }
