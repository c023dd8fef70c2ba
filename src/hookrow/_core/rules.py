"""The rules: which changes a notification makes to the rows that were found for it.

Every rule about mail belongs here and nowhere else. The law: a group has exactly the same result
as its members applied one by one, in order of arrival. It holds because no decision reads a column
that a decision writes (`Rows` holds only identities). Conditions on the current value of a column
are guards of a change, and `merge` combines guarded changes so that the result is the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeGuard, TypeVar, assert_never

from msgspec.structs import replace

from hookrow._core.changes import Target, applies
from hookrow._core.notification import (
    Arrival,
    Bounced,
    Change,
    DispatchEvent,
    EventTime,
    FoundDispatch,
    FoundSubscriber,
    Key,
    LookupKeys,
    Notification,
    Opened,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    Refused,
    RowId,
    Rows,
    SetSuppression,
    SetTime,
    Source,
    Suppressed,
    Suppressible,
    first_of,
)
from hookrow._core.optional import LONGEST_BOUNCE_TYPE

_Found = TypeVar("_Found", FoundSubscriber, FoundDispatch)

_RowTarget: TypeAlias = tuple[Target, Key | tuple[Key, Key]]
"""The row and the columns that a change sets."""

LONGEST_EMAIL = 320
"""The maximum length of an address, in characters: 64 before the @ and 255 after it (RFC 3696,
section 3)."""

LONGEST_MESSAGE_ID = 255
"""The maximum length of a message id, in characters: the width of the column in hookrow's table."""

CLOCK_SKEW = timedelta(hours=24)
"""A suppression change dated more than this after its arrival gets the time of arrival instead."""

_UNSTORABLE_CHARACTERS = "\0\ud800-\udfff"
"""Characters that no row can contain: PostgreSQL rejects NUL, and UTF-8 has no lone surrogates."""

UNSTORABLE = re.compile(f"[{_UNSTORABLE_CHARACTERS}]")
"""Matches one of these characters."""

_is_email = re.compile(f"[^{_UNSTORABLE_CHARACTERS}]{{1,{LONGEST_EMAIL}}}").fullmatch
_is_message_id = re.compile(f"[^{_UNSTORABLE_CHARACTERS}]{{1,{LONGEST_MESSAGE_ID}}}").fullmatch

PROBE = "check@hookrow.invalid"
"""The recipient in the requests of `hookrow check URL`; .invalid is reserved (RFC 2606)."""


def fold(email: str) -> str:
    """Return the email for comparison: with ASCII letters, and no others, in lower case.

    `str.lower` also folds other letters, but spellings that differ in those are two mailboxes.
    """
    if email.isascii():
        return email.lower()
    return email.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def is_email(text: str | None) -> TypeGuard[str]:
    """Return whether a subscriber can have this email."""
    return text is not None and _is_email(text) is not None


def is_message_id(text: str | None) -> TypeGuard[str]:
    """Return whether a dispatch can have this message id."""
    return text is not None and _is_message_id(text) is not None


def why_no_email(text: str) -> str | None:
    """Return why no subscriber can have this email, as a predicate, or None if one can."""
    return _why_no_key(text, LONGEST_EMAIL)


def why_no_message_id(text: str) -> str | None:
    """Return why no dispatch can have this message id, as a predicate, or None if one can."""
    return _why_no_key(text, LONGEST_MESSAGE_ID)


def _why_no_key(text: str, longest: int) -> str | None:
    if not text:
        return "is empty"
    if len(text) > longest:
        return f"is longer than {longest} characters"
    return "contains NUL or an unpaired surrogate" if UNSTORABLE.search(text) else None


def is_for_probes(arrival: Arrival) -> bool:
    """Return whether the recipient of an arrival is that of the probes of `hookrow check URL`.

    It finds no subscriber, even if one has the address, so it changes nothing.
    """
    notification = first_of(arrival.notifications)
    recipient = notification.recipient if notification else None
    return recipient is not None and fold(recipient) == PROBE


UNAVAILABLE = Refusal.UNAVAILABLE.refused()
"""The outcome of a notification of which neither the rows nor the log keep anything."""

SPOOLED = Refusal.SPOOLED.refused()
"""The same outcome, if the notification is in the spool, and is acknowledged for that reason."""

UNKEPT = (UNAVAILABLE, SPOOLED)
"""The outcomes of notifications that the database does not keep."""


def lookup_keys(arrivals: Iterable[Arrival]) -> LookupKeys:
    """Collect the keys by which a store finds the rows that `decide` needs.

    Emails and message ids that no row can contain are omitted, so that no database receives them.
    """
    message_ids: set[str] = set()
    addressed: set[tuple[str | None, str, str, Key | None]] = set()
    changed: set[tuple[str, str]] = set()
    tenants: set[Key | None] = set()
    for arrival in arrivals:
        tenants.add(arrival.tenant)
        for notification in arrival.notifications:
            if not is_email(notification.recipient):
                continue
            recipient, message_id = notification.recipient, notification.message_id
            email = fold(recipient)
            if not is_message_id(message_id):
                addressed.add((None, email, recipient, arrival.tenant))
                continue
            message_ids.add(message_id)
            addressed.add((message_id, email, recipient, arrival.tenant))
            if isinstance(notification, Suppressed | Reactivated):
                changed.add((message_id, email))
    return LookupKeys(message_ids, addressed, changed, tenants)


def subscription_keys(
    group: LookupKeys,
    subscribers: Mapping[str, Sequence[FoundSubscriber]],
    dispatches: Mapping[str, Sequence[FoundDispatch]],
) -> Collection[tuple[Key, Key]]:
    """Collect the (list, subscriber) pairs whose subscriptions a store must find.

    `subscribers` by ASCII-lowered email and `dispatches` by message id are the rows found so far.
    """
    return {
        (dispatch.list, subscriber.id)
        for message_id, email in group.changed
        for dispatch in dispatches.get(message_id, ())
        for subscriber in subscribers.get(email, ())
        if dispatch.list is not None and dispatch.tenant == subscriber.tenant
    }


def decide(arrival: Arrival, rows: Rows) -> Outcome:
    """Return the outcome of an arrival, given the rows that were found for its group.

    That of an event with several notifications is the first refusal, if there is one, and has all
    changes. A refusal for which no retry helps comes last, so that the others are retried.
    """
    if len(arrival.notifications) == 1:
        return _decide(arrival.notifications[0], arrival, rows)
    if not arrival.notifications:
        return Refusal.UNSUPPORTED.refused()
    outcomes = [_decide(each, arrival, rows) for each in arrival.notifications]
    changes = tuple(change for outcome in outcomes for change in outcome.changes)
    refusals = [each for each in outcomes if isinstance(each, Refused)]
    if not refusals:
        return Recorded(changes)
    refused = next((each for each in refusals if each.refusal is not Refusal.UNMAPPED), refusals[0])
    recorded = tuple(
        each
        for each, outcome in zip(arrival.notifications, outcomes, strict=True)
        if isinstance(outcome, Recorded)
    )
    return replace(refused, changes=changes, recorded=recorded)


def _decide(notification: Notification, arrival: Arrival, rows: Rows) -> Outcome:
    """Return the outcome of one of the notifications of an arrival."""
    sent = rows.dispatches.get(notification.message_id or "", ())
    if rows.tenants:
        sent = _of_tenant(sent, arrival, rows)
    subscriber = _subscriber(notification, sent, arrival, rows)
    if subscriber is None:
        return _missing(
            Refusal.TEST if arrival.is_test else Refusal.SUBSCRIBER_NOT_FOUND, notification, rows
        )
    dispatch = _dispatch(sent, subscriber)
    match notification:
        case DispatchEvent():
            if dispatch is None:
                return _missing(Refusal.DISPATCH_NOT_FOUND, notification, rows)
            if dispatch.owner != subscriber.id:
                return Refusal.RECIPIENT_MISMATCH.refused(
                    owner=dispatch.owner_email, recipient=notification.recipient or ""
                )
            late = arrival.source is not Source.LIVE or arrival.applied_at is not None
            change = SetTime(dispatch.id, notification.column, notification.at, guarded=late)
            is_plain = type(notification) is not Bounced and not rows.first_opens
            return Recorded(
                (change,) if is_plain else _optional_changes(change, notification, rows)
            )
        case Suppressed() | Reactivated():
            return Recorded(_suppression(notification, dispatch, subscriber, arrival, rows))
        case _:
            assert_never(notification)


def _missing(refusal: Refusal, notification: Notification, rows: Rows) -> Refused:
    """Return the refusal because of a missing row: if no dispatch can exist, no retry helps."""
    is_retried = rows.has_dispatches or not isinstance(notification, DispatchEvent)
    if is_retried or refusal is Refusal.TEST:
        return refusal.refused()
    return Refused(Refusal.UNMAPPED, refusal.text)


def effective_time(at: datetime | None, arrived_at: datetime, now: datetime) -> datetime:
    """Return the time of a suppression change: that of its arrival if its own cannot be right.

    `arrived_at` is the last arrival, because equal bodies are one entry of the log. `now` is the
    time at which the change is applied: no event is later, and an arrival that seems to be later
    was dated by a clock that was wrong.
    """
    if at is None or at > now + CLOCK_SKEW:
        return min(arrived_at, now)
    return at


def merge(outcomes: Iterable[Outcome]) -> Sequence[Change]:
    """Combine a group's changes, in order of arrival, into at most one per row and column."""
    merged: dict[_RowTarget, Change] = {}
    for outcome in outcomes:
        for change in outcome.changes:
            # Written out, because `target(change), change.row` doubles the time of this loop.
            key: _RowTarget
            if isinstance(change, SetTime):
                key = change.column, change.dispatch
            else:
                key = change.kind, change.key
            earlier = merged.get(key)
            merged[key] = change if earlier is None else _combined(earlier, change)
    return list(merged.values())


def affected_rows(outcomes: Iterable[Outcome]) -> Collection[RowId]:
    """Return every row that the outcomes change, each once."""
    return {change.row for outcome in outcomes for change in outcome.changes}


def leave_locked(outcomes: Iterable[Outcome], held: Collection[RowId]) -> list[Outcome | None]:
    """Return None in place of each outcome that changes a locked row, and the other outcomes.

    So that none overtakes another, a notification is left too if it changes a row of an earlier one
    that is left.
    """
    rows = set(held)
    unlocked: list[Outcome | None] = []
    for outcome in outcomes:
        changed = affected_rows([outcome])
        if rows.isdisjoint(changed):
            unlocked.append(outcome)
        else:
            rows |= set(changed)
            unlocked.append(None)
    return unlocked


def fill(outcomes: Iterable[Outcome | None], rest: Iterable[Outcome]) -> list[Outcome]:
    """Return the outcomes, with those that are None replaced by the next of `rest`."""
    others = iter(rest)
    return [next(others) if outcome is None else outcome for outcome in outcomes]


def fail(arrivals: Iterable[Arrival], refusal: Refusal = Refusal.FAILED) -> list[Outcome]:
    """Refuse arrivals that could not be recorded; unsupported ones are refused as such."""
    return [
        (refusal if arrival.notifications else Refusal.UNSUPPORTED).refused()
        for arrival in arrivals
    ]


def _of_tenant(found: Sequence[_Found], arrival: Arrival, rows: Rows) -> Sequence[_Found]:
    """Return the rows of the arrival's tenant, if the mapping has tenants.

    The texts are compared exactly: the database may regard those of two tenants as equal.
    """
    tenant = rows.tenants[arrival.tenant]
    return [row for row in found if row.tenant == tenant]


def _subscriber(
    notification: Notification, sent: Sequence[FoundDispatch], arrival: Arrival, rows: Rows
) -> FoundSubscriber | None:
    """Return the subscriber whom a notification concerns; `sent` are the message's dispatches.

    If several subscribers have the email, those who own a dispatch of the message come first, then
    the exact spelling, then the lowest id.
    """
    recipient = notification.recipient
    if recipient is None:
        return None
    email = fold(recipient)
    if email == PROBE:
        return None
    candidates = rows.subscribers.get(email, ())
    if rows.tenants:
        candidates = _of_tenant(candidates, arrival, rows)
    if rows.exact:
        candidates = [row for row in candidates if row.email in {recipient, email}]
    match candidates:
        case []:
            return None
        case [only]:
            return only
        case _:
            owners = {dispatch.owner for dispatch in sent}
            return min(
                candidates,
                key=lambda row: (row.id not in owners, row.email != recipient, row.id),
            )


def _dispatch(sent: Sequence[FoundDispatch], subscriber: FoundSubscriber) -> FoundDispatch | None:
    """Return the dispatch of a message: the subscriber's own if possible, then the lowest id."""
    match sent:
        case []:
            return None
        case [only]:
            return only
        case _:
            return min(sent, key=lambda row: (row.owner != subscriber.id, row.id))


def _optional_changes(
    change: SetTime, notification: DispatchEvent, rows: Rows
) -> Sequence[SetTime]:
    """Return the changes of an event: a bounce also has a type, and an open may be the first."""
    if isinstance(notification, Bounced):
        type_ = notification.type or ""
        is_storable = type_.isprintable() and 0 < len(type_) <= LONGEST_BOUNCE_TYPE
        return (replace(change, bounce_type=type_ if is_storable else None),)
    if isinstance(notification, Opened) and rows.first_opens:
        return change, replace(change, column=EventTime.FIRST_OPENED, guarded=True)
    return (change,)


def _suppression(
    notification: Suppressed | Reactivated,
    dispatch: FoundDispatch | None,
    subscriber: FoundSubscriber,
    arrival: Arrival,
    rows: Rows,
) -> Sequence[Change]:
    arrived_at = arrival.last_received_at or arrival.received_at
    at = effective_time(notification.at, arrived_at, arrival.applied_at or arrived_at)
    reason = notification.reason if isinstance(notification, Suppressed) else None
    return [
        # Without a stored date of the last change, a row accepts every change, even a late one.
        SetSuppression(kind, key, at, reason, guarded=kind not in rows.unguarded)
        for kind, key in _suppressible(dispatch, subscriber, rows)
        if kind in rows.suppressible
    ]


def _suppressible(
    dispatch: FoundDispatch | None, subscriber: FoundSubscriber, rows: Rows
) -> Iterator[RowId]:
    """Yield the existing rows whose suppression changes."""
    yield Suppressible.SUBSCRIBER, subscriber.id
    if dispatch is None:
        return
    yield Suppressible.DISPATCH, dispatch.id
    if dispatch.list is not None:
        subscription = rows.subscriptions.get((dispatch.list, subscriber.id))
        if subscription is not None and subscription.tenant in {None, subscriber.tenant}:
            yield Suppressible.SUBSCRIPTION, subscription.key


def _combined(earlier: Change, later: Change) -> Change:
    """Return the single change with the same result as two changes in succession.

    A change without a guard always applies. A guarded one applies if it is not older than the
    other: of two with equal times, the later arrival wins. The combined change has a guard if both
    have one. Of two first opens, the earlier one applies.
    """
    if not applies(later, earlier.at):
        return earlier
    return replace(later, guarded=earlier.guarded) if later.guarded else later
