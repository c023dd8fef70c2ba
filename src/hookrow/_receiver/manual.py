"""Manual suppression: a user of the host suppresses a subscriber, or lifts a suppression.

The change is recorded as a notification: the same rules, log and replay apply.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from hookrow._core.notification import (
    Arrival,
    Key,
    Outcome,
    Reactivated,
    Recorded,
    Refusal,
    RowId,
)
from hookrow._core.rules import decide, lookup_keys
from hookrow._receiver.clock import measured_clock
from hookrow._receiver.recorder import RETRY_CONFLICTS_FOR, Attempts, keep_failed
from hookrow.providers.postmark import Postmark
from hookrow.stores._errors import Rejected

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore
    from hookrow.stores.sql._transaction import SQLReading

ORIGIN = "Host"
"""The origin of a manual change in the log; the provider's are Recipient, Customer and Admin."""


MAX_ENTERED_REASON = 200
"""The maximum length of the reason that a user enters, in characters."""

_REJECTED = (
    "The database rejects the change: {}. If it is the length of the reason, enter a shorter one, "
    "or make the column of `suppression_reason` longer"
)


def change_suppression(  # noqa: PLR0913 - keyword arguments: the change, its author and a note
    store: SQLStore,
    email: str,
    *,
    reason: str | None,
    by: str,
    at: datetime,
    message_id: str | None = None,
    note: str | None = None,
    bodies: bool = True,
    entry: str | None = None,
    tenant: Key | None = None,
) -> Outcome:
    """Suppress a subscriber for a reason, or lift the suppression if the reason is None.

    With a message id, its dispatch and the subscription to the dispatch's list are changed too.
    `at` is the time of the change, and has a time zone. The body in the log contains `by` and
    `note`, unless `bodies` is False. If the receiver has several entries, the change belongs to the
    one with the name `entry`, and concerns only the rows of its `tenant`, if it has one. A blank
    reason is refused as unsupported, without a log entry. Raises a `StoreError` if the change
    cannot be recorded, now or, if the database rejects it, ever.
    """
    body = msgspec.json.encode(
        {
            "RecordType": "SubscriptionChange",
            "Recipient": email,
            "MessageID": message_id,
            "ChangedAt": at.astimezone(UTC).isoformat(timespec="microseconds"),
            "Origin": ORIGIN,
            "ChangedBy": by,
            "Note": note,
            "SuppressSending": reason is not None,
            "SuppressionReason": reason,
        }
    )
    notifications = Postmark.parse(body).notifications
    if not notifications:
        return Refusal.UNSUPPORTED.refused()
    arrival = Arrival(notifications, body, at, entry=entry, tenant=tenant)
    clock = measured_clock(store)
    attempts = Attempts(store, bodies, clock)
    try:
        [outcome] = attempts.wait_for_locks([arrival], until=monotonic() + RETRY_CONFLICTS_FOR)
    except Rejected as error:
        raise Rejected(_REJECTED.format(error)) from error
    if outcome is None:  # a sweep will retry it
        [outcome] = keep_failed(store, [arrival], bodies=bodies, clock=clock)
    return outcome


def find_subscriber(reading: SQLReading, email: str, tenant: Key | None = None) -> RowId | None:
    """Find the subscriber to whom a notification of a tenant for the address would apply."""
    return find_subscribers(reading, email, [tenant]).get(tenant)


def find_subscribers(
    reading: SQLReading, email: str, tenants: Collection[Key | None]
) -> Mapping[Key | None, RowId]:
    """Find the subscriber of each tenant, as `find_subscriber` does; omit tenants without one."""
    now = datetime.now(UTC)
    change = (Reactivated(email, None, None),)
    arrivals = [Arrival(change, b"", now, tenant=tenant) for tenant in tenants]
    rows = reading.find(lookup_keys(arrivals))
    outcomes = {each.tenant: decide(each, rows) for each in arrivals}
    return {
        tenant: outcome.changes[0].row
        for tenant, outcome in outcomes.items()
        if isinstance(outcome, Recorded)
    }
