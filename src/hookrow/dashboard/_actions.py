"""The actions of users, which `record()` records like any notification."""

from __future__ import annotations

from typing import NamedTuple

from hookrow._core.log_entry import StoredEntry
from hookrow._core.notification import Recorded
from hookrow._observability.logging import outcome_name
from hookrow._receiver import manual
from hookrow._receiver.clock import measured_clock
from hookrow._receiver.replay import replay_entries
from hookrow.dashboard._forms import BadRequest, Fields, link, parse
from hookrow.dashboard._queries import Context, find_entry
from hookrow.dashboard._templating import Redirect, View
from hookrow.stores._errors import Rejected, WrongMapping

FORM_FIELDS = ("action", "reason", "email", "after", "last", "recorded", "refused")
"""The fields of all forms."""

RESULTS = {
    "recorded": "Replayed and recorded.",
    "subscriber_not_found": "Not recorded: no subscriber was found.",
    "dispatch_not_found": "Not recorded: no dispatch was found.",
    "unmapped": "Not recorded: the mapping has no dispatches.",
    "recipient_mismatch": "Not recorded: the dispatch belongs to another subscriber.",
    "unsupported": "Not recorded: the notification is not supported.",
    "test": "Not recorded: this is a test by the provider, which changes nothing.",
    "failed": "Not recorded: a row is locked, or the database returned an error.",
    "unavailable": "Not recorded: the database cannot be reached.",
    "wrong_mapping": "Not replayed: the log was written for other tables, or with another `where`. "
    "`hookrow check` names them.",
    "no_body": "Not recorded: the log does not contain the original body.",
    "suppressed": "Suppressed.",
    "lifted": "Suppression lifted.",
}
"""The messages after an action. The query contains only their names, so that links cannot forge
messages."""


_SUCCESSES = {"recorded", "suppressed", "lifted"}


class ActionResult(NamedTuple):
    """The message after an action, and whether the action succeeded."""

    message: str
    succeeded: bool


def action_result(fields: Fields) -> ActionResult | None:
    """Return the result that the query names in the field `done`, if it names one."""
    name = fields.get("done", "")
    return ActionResult(RESULTS[name], name in _SUCCESSES) if name in RESULTS else None


class Done(NamedTuple):
    """A completed action: a summary for the log, without addresses, and the page to show next.

    A view is the response itself, so that it can state what a link must not be able to forge.
    """

    summary: str
    page: Redirect | View


def replay(context: Context, fields: Fields, form: Fields, _: str) -> Done:
    """Record a notification again. Raises `BadRequest`."""
    if form.get("action") != "replay":
        raise BadRequest("The action must be replay.")
    entry = find_entry(context, fields)
    result = _replay(context, entry)
    query = link({}, id=entry.id, done=result)
    return Done(f"replayed notification {entry.id}: {result}", Redirect(f"notification?{query}"))


def _replay(context: Context, entry: StoredEntry) -> str:
    """Record an entry again; return the name of the result."""
    try:
        outcomes = replay_entries(context.store, context.log, [entry], context.parsers)
    except WrongMapping:
        return "wrong_mapping"
    return outcome_name(outcomes[0]) if outcomes else "no_body"


def change_suppression(context: Context, fields: Fields, form: Fields, user: str) -> Done:
    """Suppress a subscriber, or lift the suppression. Raises `BadRequest`.

    On a dispatch's page, this includes the dispatch and the subscription, as in a notification.
    """
    action = form.get("action", "")
    reason = form.get("reason", "").strip()
    if action not in {"suppress", "lift"}:
        raise BadRequest("The action must be suppress or lift.")
    if not reason or len(reason) > manual.MAX_ENTERED_REASON:
        raise BadRequest(f"Enter a reason of at most {manual.MAX_ENTERED_REASON} characters.")
    message_id = fields.get("message_id")
    email = fields.get("email") or form.get("email", "")
    entry = parse(fields, "entry")
    if entry is None and context.parsers.have_tenants:
        raise BadRequest("Choose the entry of the receiver whose subscriber is changed.")
    tenant = context.tenant_of(entry)
    try:
        outcome = manual.change_suppression(
            context.store,
            email,
            message_id=message_id,
            reason=reason if action == "suppress" else None,
            by=user,
            at=measured_clock(context.store)(),
            note=reason,
            bodies=context.keep_bodies,
            entry=entry,
            tenant=tenant,
        )
    except Rejected as error:
        raise BadRequest(f"{error}.") from error
    result = outcome_name(outcome)
    if isinstance(outcome, Recorded):
        result = "suppressed" if action == "suppress" else "lifted"
    page, row = "subscriber", {"email": email}
    if message_id is not None:
        page, row = "dispatch", {"message_id": message_id}
    location = f"{page}?{link(row | ({} if entry is None else {'entry': entry}), done=result)}"
    return Done(f"requested a manual change ({action}): {result}", Redirect(location))
