"""The pages: each is read from the store and its log at the moment it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import nlargest
from operator import attrgetter

from hookrow.dashboard import found
from hookrow.dashboard.asking import FILTERS, TYPES, Fields, Mistake, fields, number, query
from hookrow.dashboard.drawing import Drawn
from hookrow.entry import Ending, Logged
from hookrow.figures import Figures, Period
from hookrow.notification import EventTime
from hookrow.stores import State, Store
from hookrow.stores.log import WIDEST, LogReader, Query
from hookrow.story import story

PAGE = 50
"""How many entries a page lists."""

LISTS = 500
"""How many lists a page has: those to which the most was sent."""

NO_LOG = "This store keeps no log: there are no notifications to show, and none to replay."


@dataclass(frozen=True, slots=True)
class Site:
    """What the pages are about."""

    store: Store
    figures: Figures
    keep_bodies: bool = True

    @property
    def log(self) -> LogReader:
        """What reads the log. Raises `Mistake` where there is none."""
        if self.store.log is None:
            raise Mistake(404, NO_LOG)
        return self.store.log


@dataclass(frozen=True, slots=True)
class Listed:
    """Entries of the log, newest first, and from which id on there may be others.

    A long log is not looked through at once: there may be fewer than a page, and yet others.
    """

    entries: Sequence[Logged]
    newer: int | None = None
    older: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the page is full, or nothing is left to look through."""
        return len(self.entries) == PAGE or self.older is None

    @property
    def empty(self) -> bool:
        """Whether the whole log was looked through, and has none."""
        return not self.entries and self.newer is None and self.older is None


def overview(site: Site, asked: str) -> Drawn:
    """Show the figures of a period, and how it goes in a sentence."""
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
        "periods": list(Period),
        "no_log": NO_LOG if site.store.log is None else None,
    }
    return Drawn("overview.html", values)


def lists(site: Site, asked: str) -> Drawn:
    """Show what became of each list's mail, as it was counted last."""
    fields(asked, ())
    counts = site.figures.counts()
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
    if site.store.log is None:
        return Drawn("no_log.html", {**title, "sentence": NO_LOG})
    meant, seen = query(wanted), _last(site.log)
    if "rows" in wanted:
        entries = _newer(site.log, meant, number("rows", wanted) or 0, seen)
        return Drawn("rows.html", {"entries": entries, "seen": seen})
    listed = _listed(site, meant, wanted)
    values = {
        **title,
        "listed": listed,
        "entries": listed.entries,
        "seen": max(seen, listed.entries[0].id) if listed.entries else seen,
        "filters": {name: value for name, value in wanted.items() if name in FILTERS},
        "typed": {name: wanted.get(name, "") for name in FILTERS},
        "types": TYPES,
        "outcomes": [each.value for each in Ending],
        "live": not {"before", "after"} & wanted.keys(),
    }
    return Drawn("notifications.html", values)


def notification(site: Site, asked: str) -> Drawn:
    """Tell everything about one notification."""
    wanted = fields(asked, ("id", "done"))
    entry = entry_of(site, wanted)
    values = {
        "title": f"Notification {entry.id}",
        "entry": entry,
        "story": story(entry),
        "effects": found.effects(site.store, entry),
        "done": DONE.get(wanted.get("done", "")),
    }
    return Drawn("notification.html", values)


def subscriber(site: Site, asked: str) -> Drawn:
    """Tell what is known of an address: its row, and what came for it."""
    wanted = fields(asked, ("email", "before", "after", "done"))
    email = wanted.get("email", "")
    row = found.subscriber(site.store, email)
    listed = _history(site, Query(recipient=email or " "), wanted)
    if row is None and (listed is None or listed.empty):
        raise Mistake(404, "Neither the subscribers nor the log have this address.")
    values = {
        "title": "Subscriber",
        "email": email,
        "row": row,
        "causes": _causes(site, Query(recipient=email), row.state) if row else {},
        "listed": listed,
        "done": DONE.get(wanted.get("done", "")),
        "no_log": NO_LOG,
    }
    return Drawn("subscriber.html", values)


def dispatch(site: Site, asked: str) -> Drawn:
    """Tell what is known of a message: its row, and what came for it."""
    wanted = fields(asked, ("message_id", "before", "after", "done"))
    message_id = wanted.get("message_id", "")
    rows = found.dispatches(site.store, message_id)
    listed = _history(site, Query(message_id=message_id or " "), wanted)
    if not rows and (listed is None or listed.empty):
        raise Mistake(404, "Neither the dispatches nor the log have this message id.")
    values = {
        "title": "Dispatch",
        "message_id": message_id,
        "done": DONE.get(wanted.get("done", "")),
        "rows": [(row, _causes(site, Query(message_id=message_id), row.state)) for row in rows],
        "listed": listed,
        "no_log": NO_LOG,
    }
    return Drawn("dispatch.html", values)


DONE = {
    "recorded": "Recorded once more.",
    "subscriber_not_found": "Not recorded: there is no such subscriber.",
    "dispatch_not_found": "Not recorded: there is no such dispatch.",
    "recipient_mismatch": "Not recorded: the dispatch is another subscriber's.",
    "unsupported": "Not recorded: it is not supported.",
    "failed": "Not recorded: one of its rows is held just now, or the database failed at it.",
    "unavailable": "Not recorded: the database cannot be reached.",
    "no_body": "Not recorded: its body is not kept as it came.",
    "suppressed": "Suppressed.",
    "lifted": "The suppression is lifted.",
}
"""What a page says after an action. Whoever makes up a link has only these to choose from."""


def entry_of(site: Site, wanted: Fields) -> Logged:
    """Return the entry that is asked for. Raises `Mistake`."""
    id_ = number("id", wanted)
    if id_ is None:
        raise Mistake(400, "Say which notification: by its id.")
    entries = site.log.newest(Query(ids=[id_]), limit=1)
    if not entries:
        raise Mistake(404, f"The log has no notification {id_}.")
    return entries[0]


def _history(site: Site, query: Query, wanted: Fields) -> Listed | None:
    """List what came for one row, or None where there is no log."""
    return None if site.store.log is None else _listed(site, query, wanted)


def _listed(site: Site, query: Query, wanted: Fields) -> Listed:
    """List a page of entries: the newest, those before an id, or the next after one."""
    before, after = number("before", wanted), number("after", wanted)
    if after is None:
        found = site.figures.search(query, before=before, limit=PAGE)
        return Listed(found.entries, None if before is None else before - 1, found.before)
    last = _last(site.log)
    end = min(last, after + WIDEST)
    entries = site.log.oldest(replace(query, ids=range(after + 1, end + 1)), limit=PAGE)
    looked = entries[-1].id if len(entries) == PAGE else end
    return Listed(entries[::-1], looked if looked < last else None, after + 1)


def _newer(log: LogReader, query: Query, seen: int, last: int) -> Sequence[Logged]:
    """Return the newest of what came since the last look; a look long ago does not count."""
    ids = range(max(seen, last - WIDEST) + 1, last + 1)
    return log.newest(replace(query, ids=ids), limit=PAGE) if ids else []


def _last(log: LogReader) -> int:
    bounds = log.bounds()
    return bounds[1] if bounds else 0


_SETTING = {
    EventTime.DELIVERED.value: "Delivery",
    EventTime.OPENED.value: "Open",
    "suppressed_at": "SubscriptionChange",
    "suppression_changed_at": "SubscriptionChange",
}
"""Which type of notification sets a column."""


def _causes(site: Site, query: Query, state: State) -> dict[str, int]:
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
