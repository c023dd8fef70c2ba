"""The pages: each is read from the store and its log at the moment it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from heapq import nlargest
from operator import attrgetter

from hookrow.core.log_entry import Result, StoredEntry
from hookrow.dashboard import found, listing
from hookrow.dashboard.actions import DONE
from hookrow.dashboard.asking import FILTERS, TYPES, Fields, Mistake, fields, number, query
from hookrow.dashboard.drawing import Drawn, shown
from hookrow.dashboard.said import CHANGES, said
from hookrow.dashboard.site import Site
from hookrow.describe import describe_change, describe_outcome, other_changes, superseding
from hookrow.statistics import Period, search
from hookrow.stores.log import Query, with_bodies

LISTS = 500
"""How many lists a page has: those to which the most was sent."""


def overview(site: Site, asked: str) -> Drawn:
    """Show the figures of a period, and how it goes in a sentence.

    Raises a `StoreError` where there are none, for the database cannot be asked.
    """
    wanted = fields(asked, ("period",))
    try:
        period = Period(wanted.get("period", Period.DAY.value))
    except ValueError as error:
        known = ", ".join(each.value for each in Period)
        raise Mistake(400, f"There is no such period: take one of {known}.") from error
    figures = site.figures.overview(period, datetime.now(UTC))
    values = {
        "title": "Overview",
        "overview": figures,
        "counts": site.figures.table_counts(),
        "periods": list(Period),
        "no_log": site.no_log,
    }
    return Drawn("overview.html", values)


def lists(site: Site, asked: str) -> Drawn:
    """Show what became of each list's mail, as it was counted last; raises as `overview` does."""
    fields(asked, ())
    counts = site.figures.table_counts()
    of_lists = counts.lists if counts else ()
    values = {
        "title": "Lists",
        "counts": counts,
        "lists": nlargest(LISTS, of_lists, attrgetter("sent")) if of_lists[LISTS:] else of_lists,
        "most": max((each.sent for each in of_lists), default=0),
        "most_subscribed": max((each.subscribed or 0 for each in of_lists), default=0),
    }
    return Drawn("lists.html", values)


def notifications(site: Site, asked: str) -> Drawn:
    """List what came, newest first; with `rows` only what is newer than that, as rows."""
    wanted = fields(asked, (*FILTERS, "before", "after", "rows"))
    title = {"title": "Notifications"}
    if site.no_log:
        return Drawn("no_log.html", {**title, "sentence": site.no_log})
    meant, seen = query(wanted), listing.last_id(site.log)
    if "rows" in wanted:
        entries = listing.newer(site.log, meant, number("rows", wanted) or 0, seen)
        return Drawn("rows.html", {"entries": entries, "seen": seen})
    listed = listing.listed(site, meant, wanted)
    values = {
        **title,
        "listed": listed,
        "entries": listed.entries,
        "seen": max(seen, listed.entries[0].id) if listed.entries else seen,
        "filters": {name: value for name, value in wanted.items() if name in FILTERS},
        "typed": {name: wanted.get(name, "") for name in FILTERS},
        "types": TYPES,
        "outcomes": [each.value for each in Result],
        "live": not {"before", "after"} & wanted.keys(),
    }
    return Drawn("notifications.html", values)


def notification(site: Site, asked: str) -> Drawn:
    """Tell everything about one notification."""
    wanted = fields(asked, ("id", "done"))
    entry = listing.one(site, wanted)
    newer = _superseding(site, entry)
    values = {
        "title": f"Notification {entry.id}",
        "entry": entry,
        "story": describe_outcome(entry),
        "said": said(entry, site.parse),
        "superseded": (newer.id, describe_change(newer, site.parse)) if newer else None,
        "effects": found.effects(site.store, entry, site.parse),
        "done": DONE.get(wanted.get("done", "")),
    }
    return Drawn("notification.html", values)


def subscriber(site: Site, asked: str) -> Drawn:
    """Tell what is known of an address: its row, and what came for it."""
    wanted = fields(asked, ("email", "before", "after", "done"))
    email = _required(wanted, "email", "Say which subscriber: by the address.")
    row = found.subscriber(site.store, email)
    listed = listing.listed(site, Query(recipient=email), wanted)
    if row is None and listed.empty:
        raise Mistake(404, "Neither the subscribers nor the log have this address.")
    values = {
        "title": "Subscriber",
        "email": email,
        "row": row,
        "listed": listed,
        "said": _said(site, listed.entries),
        "done": DONE.get(wanted.get("done", "")),
        "no_log": site.no_log,
    }
    return Drawn("subscriber.html", values)


def dispatch(site: Site, asked: str) -> Drawn:
    """Tell what is known of a message: its row, and what came for it."""
    wanted = fields(asked, ("message_id", "before", "after", "done"))
    message_id = _required(wanted, "message_id", "Say which dispatch: by its message id.")
    rows = found.dispatches(site.store, message_id)
    listed = listing.listed(site, Query(message_id=message_id), wanted)
    if not rows and listed.empty:
        raise Mistake(404, "Neither the dispatches nor the log have this message id.")
    values = {
        "title": "Dispatch",
        "message_id": message_id,
        "done": DONE.get(wanted.get("done", "")),
        "rows": rows,
        "listed": listed,
        "said": _said(site, listed.entries),
        "no_log": site.no_log,
    }
    return Drawn("dispatch.html", values)


def _superseding(site: Site, entry: StoredEntry) -> StoredEntry | None:
    """Find the newer change of the same subscriber, as far as the log can be searched by now."""
    query = other_changes(entry)
    if query is None:
        return None
    newer = superseding(entry, search(site.log, query, limit=listing.PAGE).entries)
    return next(with_bodies(site.log, [newer]), None) if newer else None


def _said(site: Site, listed: Sequence[StoredEntry]) -> Mapping[int, str]:
    """Return what each change of subscription among listed entries says, by its id."""
    changes = [each for each in listed if each.record_type in CHANGES]
    entries = with_bodies(site.log, changes) if changes else ()
    # Shortened as they are read, because each may be as large as its body.
    return {entry.id: shown(text) for entry in entries if (text := said(entry, site.parse))}


def _required(wanted: Fields, name: str, sentence: str) -> str:
    """Return a field. Raises `Mistake`, with the sentence, where there is none."""
    if name not in wanted:
        raise Mistake(400, sentence)
    return wanted[name]
