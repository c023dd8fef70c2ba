"""The pages: each reads the store and its log, and returns a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from hookrow._core.log_entry import StoredEntry
from hookrow._core.notification import KNOWN_REASONS
from hookrow._core.result import Result
from hookrow._describe import describe_change, describe_outcome, find_problem
from hookrow._near_misses import near_misses
from hookrow._receiver.replay import parse_entry
from hookrow._statistics import Period, count
from hookrow.dashboard import _queries
from hookrow.dashboard._actions import action_result
from hookrow.dashboard._first_steps import first_steps
from hookrow.dashboard._forms import (
    LOG_FILTERS,
    BadRequest,
    Fields,
    NotFound,
    link,
    parse,
    parse_query,
    required,
)
from hookrow.dashboard._queries import Beginnings, Context
from hookrow.dashboard._suppressions import find_lists
from hookrow.dashboard._templating import Redirect, View, format_text, render_figures, words
from hookrow.providers._base import mask
from hookrow.stores._errors import StoreError
from hookrow.stores._log import KNOWN_TYPES, OTHER, Query
from hookrow.stores._log_operations import with_bodies

LOG_PERIODS = {
    "Hour": timedelta(hours=1),
    "Day": timedelta(days=1),
    "Week": timedelta(days=7),
    "30 days": timedelta(days=30),
}
"""The links to the notifications of a period that ends now, and its length."""


def overview(context: Context, fields: Fields) -> View:
    """Show the state of the webhook, and the figures for a period.

    Until the first notification arrives, show how to set the webhook up instead.
    """
    period, entry = parse(fields, "period") or Period.DAY, parse(fields, "entry")
    statistics = context.statistics
    now = datetime.now(UTC)
    counts = None
    with suppress(StoreError):
        counts = statistics.table_counts(0)
    present = statistics.present(now, entry)
    is_first = present.logged and present.last_received is None and entry is None
    values = {
        "title": "Overview",
        "present": present,
        "first_steps": first_steps(context) if is_first else (),
        "command": context.command,
        "entry_names": context.entry_choices(now),
        "entry": entry or "",
        "period": period,
        "recent": counts.recent if counts and entry is None else None,
        "provider_status": context.provider_status(),
        # Not read before there are any: the empty ones would stay on the page for a while.
        "figures": None
        if is_first
        else partial(render_figures, statistics.overview(period, now, entry)),
    }
    return View("overview.html", values)


def notifications(context: Context, fields: Fields) -> View:
    """List notifications, newest first; if `rows` is an id, only those with a higher id."""
    if context.store.log is None:
        return View("no_log.html", {"title": "Notifications"})
    query = parse_query(fields)
    last = _queries.last_id(context.log)
    after = parse(fields, "rows")
    if after is not None:
        entries = _queries.list_newer(context.log, query, after, last)
        return View("newer.html", {"entries": entries, "last": last})
    listing = _queries.list_entries(context, query, fields)
    now = datetime.now(UTC)
    newest = not {"before", "after"} & fields.keys()
    types = context.statistics.present(now, query.entry).types
    values = {
        "title": "Notifications",
        "listing": listing,
        "entries": listing.entries,
        "last": max([last, *(each.id for each in listing.entries[:1])]),
        "filters": {name: value for name, value in fields.items() if name in LOG_FILTERS},
        "fields": {name: fields.get(name, "") for name in LOG_FILTERS},
        "entry_names": context.entry_choices(now),
        "types": {each: each for each in [*sorted(KNOWN_TYPES.union(types) - {OTHER}), OTHER]},
        "count": count(context.log, query) if newest else None,
        "ranges": {name: f"{now - ago:%Y-%m-%dT%H:%M}" for name, ago in LOG_PERIODS.items()},
        "outcomes": {each.value: words(each) for each in Result},
        "reasons": {each: each for each in sorted(KNOWN_REASONS)},
        "live": newest,
    }
    return View("notifications.html", values)


def notification(context: Context, fields: Fields) -> View:
    """Show a notification: its results, its effects and its body."""
    entry = _queries.find_entry(context, fields)
    newer = _queries.find_superseding(context, entry)
    event = parse_entry(entry, context.parsers)
    recorded = context.store.recorded
    values = {
        "title": f"Notification {entry.id}",
        "entry": entry,
        "outcome": describe_outcome(entry, context.store, context.parsers),
        "near_misses": near_misses(context.store, entry, context.parsers),
        "supported": event is None or bool(mask(event, recorded)[0].notifications),
        "provider": None if context.parsers.have_names else context.parsers.default.provider.name,
        "problem": find_problem(entry, context.parsers, recorded),
        "change": _queries.describe_suppression(entry, context.parsers),
        "superseded": (newer.id, describe_change(newer, context.parsers)) if newer else None,
        "preview": _queries.preview_replay(context.store, entry, context.parsers),
        "result": action_result(fields),
    }
    return View("notification.html", values)


def subscriber(context: Context, fields: Fields) -> View:
    """Show the row of a subscriber, and the notifications for the address."""
    email, entry = required(fields, "email"), parse(fields, "entry")
    found = _queries.find_subscriber(context, email, entry)
    listing = _queries.list_entries(context, Query(recipient=email, entry=entry), fields)
    if not found.names and not found.rows and listing.empty:
        raise NotFound("Neither the subscribers nor the log contain this address.")
    rows = [_queries.with_causes(context, listing, row, found.entry) for row in found.rows]
    row = rows[0] if rows else None
    key: Any = None if row is None else row.id[1]
    values = {
        "title": "Subscriber",
        "email": email,
        "row": row,
        "rows": None if key is None else _queries.rows_of_subscriber(context.store, key),
        "has_messages": "dispatches" in context.store.schema.roles,
        "has_lists": "subscriptions" in context.store.schema.roles,
    }
    return View("subscriber.html", {**values, **_history(context, fields, listing, found)})


def dispatch(context: Context, fields: Fields) -> View:
    """Show the row of a dispatch, and the notifications with its message id."""
    message_id, entry = required(fields, "message_id"), parse(fields, "entry")
    found = _queries.find_dispatches(context, message_id, entry)
    listing = _queries.list_entries(context, Query(message_id=message_id, entry=entry), fields)
    if not found.names and not found.rows and listing.empty:
        raise NotFound("Neither the dispatches nor the log contain this message ID.")
    rows = [_queries.with_causes(context, listing, row, found.entry) for row in found.rows]
    has_list = any(row.dispatch and row.dispatch.list is not None for row in rows)
    lists = find_lists(context.store.suppressions) if has_list else {}
    values = {"title": "Dispatch", "message_id": message_id, "rows": rows, "lists": lists}
    return View("dispatch.html", {**values, **_history(context, fields, listing, found)})


def search(context: Context, fields: Fields) -> View | Redirect:
    """Find a notification by its id, a subscriber by an address, or a dispatch by a message id.

    A number may be an id and a message id, which may also be an address: all matches are listed.
    Unless there is exactly one, those that begin with the text are listed, too.
    """
    text = fields.get("q", "").strip()
    found = {}
    for page, field in (notification, "id"), (dispatch, "message_id"), (subscriber, "email"):
        with suppress(BadRequest):
            view = page(context, {field: text} if text else {})
            found[f"{page.__name__}?{link({}, **{field: text})}"] = view.values["title"]
    if len(found) == 1:
        return Redirect(next(iter(found)))
    values = {
        "title": "Search",
        "q": text,
        "found": found,
        "beginnings": _queries.find_beginnings(context.store, text) if text else Beginnings(),
        "most": _queries.MAX_FOUND,
    }
    return View("search.html", values)


_ROW_FIELDS = ("email", "message_id", "entry")
"""The fields of the query that select a row and its notifications."""


def _history(
    context: Context, fields: Fields, listing: _queries.LogPage, found: _queries.RowsOfTenant
) -> Mapping[str, object]:
    """Return the values that the pages of a subscriber and of a dispatch have in common."""
    tenants = context.parsers.tenants
    return {
        "filters": {name: fields[name] for name in _ROW_FIELDS if name in fields},
        "entry": found.entry if tenants else None,
        "several": found.entry is None and len(found.names) > 1,
        "entry_names": {name: name for name in found.names or tenants},
        "listing": listing,
        "changes": _changes(context, listing.entries) if listing.entries else {},
        "logged": context.store.log is not None,
        "result": action_result(fields),
    }


def _changes(context: Context, entries: Sequence[StoredEntry]) -> Mapping[int, str]:
    """Describe the entries that are changes of suppression; return the descriptions by id."""
    changes = [each for each in entries if each.is_change]
    # Each description is shortened immediately, because it may be as long as the body.
    return {
        entry.id: format_text(text)
        for entry in with_bodies(context.log, changes)
        if (text := _queries.describe_suppression(entry, context.parsers))
    }
