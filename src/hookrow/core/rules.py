"""The rule book: what a notification does to the rows that were found for it.

Every rule about mail lives here and nowhere else. The law: a group ends exactly
as its members would have, one by one in order of arrival. It holds because no
decision reads a column that a decision writes (`Rows` holds identities only):
what depends on a column's present value is a change's guard, and `merge` folds
guards so that the order within a group does not matter to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeGuard, assert_never

from msgspec.structs import replace

from hookrow.core.notification import (
    Arrival,
    Change,
    Delivered,
    Dispatch,
    EventTime,
    Key,
    LookupKeys,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Subscriber,
    Suppressed,
    Suppressible,
)

LONGEST_EMAIL = 320
"""In characters: 64 before the @ and 255 after it (RFC 3696, section 3)."""

LONGEST_MESSAGE_ID = 255
"""In characters: the width of our own column."""

CLOCK_SKEW = timedelta(hours=24)
"""How far after its arrival a change may say it happened and still be believed."""

PROBE = "check@hookrow.invalid"
"""The recipient of what `hookrow check URL` posts. No mail reaches .invalid (RFC 2606)."""


def fold(email: str) -> str:
    """Return the email as it is compared: ASCII letters lowered, all else as it is.

    `str.lower` folds far beyond ASCII, where two addresses are two mailboxes.
    """
    if email.isascii():
        return email.lower()
    return email.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def is_email(text: str | None) -> TypeGuard[str]:
    """Tell whether a subscriber can have such an email."""
    return _storable(text, LONGEST_EMAIL)


def is_message_id(text: str | None) -> TypeGuard[str]:
    """Tell whether a dispatch can have such a message id."""
    return _storable(text, LONGEST_MESSAGE_ID)


def is_probe(arrival: Arrival) -> bool:
    """Tell whether `hookrow check URL` posted it.

    It is answered and logged like any other notification. If it is refused, as it has to be, it
    is not tried again, and no hook is called.
    """
    recipient = (arrival.notification or arrival.unsupported).recipient
    return recipient is not None and fold(recipient) == PROBE


def lookup_keys(arrivals: Iterable[Arrival]) -> LookupKeys:
    """Collect what a store has to look for before `decide` can be asked.

    An email or message id that no row can hold is left out, so that it never
    reaches a database.
    """
    emails: set[str] = set()
    message_ids: set[str] = set()
    changed: set[tuple[str, str]] = set()
    recipients: set[str] = set()
    for arrival in arrivals:
        notification = arrival.notification
        if notification is None or not is_email(notification.recipient):
            continue
        email = fold(notification.recipient)
        emails.add(email)
        recipients.add(notification.recipient)
        if is_message_id(notification.message_id):
            message_ids.add(notification.message_id)
            if isinstance(notification, Suppressed | Reactivated):
                changed.add((notification.message_id, email))
    return LookupKeys(emails, message_ids, changed, recipients)


def pairs(
    group: LookupKeys,
    subscribers: Mapping[str, Sequence[Subscriber]],
    dispatches: Mapping[str, Sequence[Dispatch]],
) -> Collection[tuple[Key, Key]]:
    """Collect the (list, subscriber) pairs whose subscriptions a store has to look for.

    That is once it has found the others, by ASCII-lowered email and by message id.
    """
    return {
        (dispatch.list, subscriber.id)
        for message_id, email in group.changed
        for dispatch in dispatches.get(message_id, ())
        for subscriber in subscribers.get(email, ())
        if dispatch.list is not None
    }


def decide(arrival: Arrival, rows: Rows) -> Outcome:
    """Judge one arrival by the rows that were found for it."""
    notification = arrival.notification
    if notification is None:
        return Refusal.UNSUPPORTED.refused()
    subscriber = _subscriber(notification.recipient, rows)
    if subscriber is None:
        return Refusal.SUBSCRIBER_NOT_FOUND.refused()
    dispatch = _dispatch(notification.message_id, subscriber, rows)
    match notification:
        case Delivered():
            return _time(EventTime.DELIVERED, notification, dispatch, subscriber, live=arrival.live)
        case Opened():
            return _time(EventTime.OPENED, notification, dispatch, subscriber, live=arrival.live)
        case Suppressed() | Reactivated():
            return Recorded(_suppression(notification, dispatch, subscriber, arrival, rows))
        case _:
            assert_never(notification)


def believable(at: datetime | None, received_at: datetime) -> datetime:
    """Return when a change of suppression happened: on arrival if its own time cannot be right."""
    return received_at if at is None or at > received_at + CLOCK_SKEW else at


def merge(outcomes: Iterable[Outcome]) -> Sequence[Change]:
    """Fold a group's changes, in order of arrival, to at most one a row and column."""
    merged: dict[tuple[RowId, EventTime | None], Change] = {}
    for change in _changes(outcomes):
        place = (change.row, change.column if isinstance(change, SetTime) else None)
        earlier = merged.get(place)
        merged[place] = change if earlier is None else _in_one(earlier, change)
    return list(merged.values())


def affected_rows(outcomes: Iterable[Outcome]) -> Collection[RowId]:
    """List every row that the outcomes want to change, each once."""
    return {change.row for change in _changes(outcomes)}


def fail_locked(outcomes: Iterable[Outcome], held: Collection[RowId]) -> list[Outcome]:
    """Fail those outcomes that want a row which is held; one is never half done."""
    return [
        Refusal.FAILED.refused()
        if isinstance(outcome, Recorded) and any(change.row in held for change in outcome.changes)
        else outcome
        for outcome in outcomes
    ]


def fail(arrivals: Iterable[Arrival], refusal: Refusal = Refusal.FAILED) -> list[Outcome]:
    """Refuse arrivals that could not be worked on; the unsupported need no work."""
    return [
        (refusal if arrival.notification else Refusal.UNSUPPORTED).refused() for arrival in arrivals
    ]


def _storable(text: str | None, longest: int) -> TypeGuard[str]:
    """Tell whether a row can hold the text: PostgreSQL takes no NUL, UTF-8 no surrogate."""
    return (
        text is not None
        and 0 < len(text) <= longest
        and "\0" not in text
        and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))
    )


def _subscriber(recipient: str | None, rows: Rows) -> Subscriber | None:
    if recipient is None:
        return None
    lowered = fold(recipient)
    found = rows.subscribers.get(lowered, ())
    return min(
        (row for row in found if not rows.exact or row.email in {recipient, lowered}),
        key=lambda row: (row.email != recipient, row.id),
        default=None,
    )


def _dispatch(message_id: str | None, subscriber: Subscriber, rows: Rows) -> Dispatch | None:
    if message_id is None:
        return None
    return min(
        rows.dispatches.get(message_id, ()),
        key=lambda row: (row.owner != subscriber.id, row.id),
        default=None,
    )


def _time(
    column: EventTime,
    notification: Delivered | Opened,
    dispatch: Dispatch | None,
    subscriber: Subscriber,
    *,
    live: bool,
) -> Outcome:
    if dispatch is None:
        return Refusal.DISPATCH_NOT_FOUND.refused()
    if dispatch.owner != subscriber.id:
        return Refusal.RECIPIENT_MISMATCH.refused(
            owner=dispatch.owner_email, recipient=notification.recipient or ""
        )
    return Recorded((SetTime(dispatch.id, column, notification.at, guarded=not live),))


def _suppression(
    notification: Suppressed | Reactivated,
    dispatch: Dispatch | None,
    subscriber: Subscriber,
    arrival: Arrival,
    rows: Rows,
) -> Sequence[Change]:
    at = believable(notification.at, arrival.received_at)
    reason = notification.reason if isinstance(notification, Suppressed) else None
    return [
        # If its last change is dated nowhere, a row takes every change, also a late one.
        SetSuppression(kind, key, at, reason, guarded=kind not in rows.undated)
        for kind, key in _suppressible(dispatch, subscriber, rows)
    ]


def _suppressible(dispatch: Dispatch | None, subscriber: Subscriber, rows: Rows) -> Iterator[RowId]:
    """Yield the rows that a change of subscription is about, those that exist."""
    yield Suppressible.SUBSCRIBER, subscriber.id
    if dispatch is None:
        return
    yield Suppressible.DISPATCH, dispatch.id
    if dispatch.list is not None and (dispatch.list, subscriber.id) in rows.subscriptions:
        yield Suppressible.SUBSCRIPTION, (dispatch.list, subscriber.id)


def _changes(outcomes: Iterable[Outcome]) -> Iterator[Change]:
    for outcome in outcomes:
        if isinstance(outcome, Recorded):
            yield from outcome.changes


def _in_one(earlier: Change, later: Change) -> Change:
    """Return the one change that ends as the two do, one after the other.

    What has no guard takes effect whatever was before it. What has one takes effect
    where it is not the older of the two (equal ones: the later to arrive), and after
    a change without a guard the two together have none.
    """
    if not later.guarded:
        return later
    winner = later if later.at >= earlier.at else earlier
    return replace(winner, guarded=earlier.guarded)
