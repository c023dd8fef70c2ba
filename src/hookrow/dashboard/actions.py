"""What a visitor can do: each goes through `record()`, as every notification does."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from hookrow.core.notification import Outcome, Recorded
from hookrow.dashboard import listing
from hookrow.dashboard.asking import Fields, Mistake, fields, linked
from hookrow.dashboard.site import Site
from hookrow.describe import printable
from hookrow.http import RequestHead
from hookrow.observability.logging import mask_email
from hookrow.receiver.manual import change_suppression
from hookrow.receiver.replay import arrivals_of
from hookrow.receiver.replay import replay as replay_arrivals

log = logging.getLogger("hookrow")

LONGEST_REASON = 200
"""In characters; of what somebody types."""

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


def replay(site: Site, head: RequestHead, form: Fields, user: str) -> str:
    """Record a notification once more; return where to look then."""
    if form.get("action") != "replay":
        raise Mistake(400, "A notification can be replayed, and nothing else.")
    entry = listing.one(site, fields(head.query, ("id", "done")))
    arrivals = arrivals_of([entry], site.parse)
    done = "no_body"
    if arrivals:
        [outcome] = replay_arrivals(site.store, arrivals, bodies=site.keep_bodies)
        done = _ending(outcome)
        _tell(head, f"{_named(user)} replayed notification {entry.id}: {done}")
    return f"./notification?{linked({}, id=entry.id, done=done)}"


def change(site: Site, head: RequestHead, form: Fields, user: str) -> str:
    """Suppress a subscriber for a reason, or lift that for one; return where to look then.

    On the page of a dispatch that, too, and the subscription, as the provider would.
    """
    wanted = fields(head.query, ("email", "message_id", "before", "after", "done"))
    message_id, (action, reason) = wanted.get("message_id"), _meant(form)
    email = wanted.get("email") or form.get("email", "")
    outcome = change_suppression(
        site.store,
        site.parse,
        email,
        message_id=message_id,
        reason=reason if action == "suppress" else None,
        by=user,
        at=datetime.now(UTC),
        note=reason,
        bodies=site.keep_bodies,
    )
    done = _ending(outcome)
    if isinstance(outcome, Recorded):
        done = "suppressed" if action == "suppress" else "lifted"
    _tell(head, f"{_named(user)} asked to {action} by hand: {done}")
    if message_id is None:
        return f"./subscriber?{linked({}, email=email, done=done)}"
    return f"./dispatch?{linked({}, message_id=message_id, done=done)}"


def _meant(form: Fields) -> tuple[str, str]:
    """Return what to do, and why. Raises `Mistake`."""
    action, reason = form.get("action", ""), form.get("reason", "").strip()
    if action not in {"suppress", "lift"}:
        raise Mistake(400, "One can suppress here, or lift that, and nothing else.")
    if not reason or len(reason) > LONGEST_REASON:
        raise Mistake(400, f"Say why, in {LONGEST_REASON} characters at the most.")
    return action, reason


def _ending(outcome: Outcome) -> str:
    return "recorded" if isinstance(outcome, Recorded) else outcome.refusal.name.lower()


def _tell(head: RequestHead, what: str) -> None:
    id_ = head.request_id
    log.info("%s, request %s.", what, id_, extra={"request_id": id_})


def _named(user: str) -> str:
    """Name a user in a log: in one line, and without a full address."""
    return printable(mask_email(user) if "@" in user else user)[:80]
