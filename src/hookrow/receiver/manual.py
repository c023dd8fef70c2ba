"""A suppression that somebody sets or lifts by hand.

It is a notification like any other: the same rules, the same log, the same replay.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from time import monotonic

import msgspec

from hookrow.core.notification import Arrival, Outcome, Refusal
from hookrow.providers.postmark import parse
from hookrow.receiver.recorder import PATIENCE, record, retry_on_conflict
from hookrow.stores import Store

ORIGIN = "Host"
"""Of a change in the log; the provider's own are of Recipient, Customer and Admin."""


def change_by_hand(  # noqa: PLR0913 - keywords: what is changed, who did it and why
    store: Store,
    email: str,
    *,
    reason: str | None,
    by: str,
    at: datetime,
    message_id: str | None = None,
    note: str | None = None,
    bodies: bool = True,
) -> Outcome:
    """Suppress a subscriber for a reason, or lift the suppression where that is None.

    With a message's id its dispatch, and the subscription to that one's list, change too.
    The log's body says who did it and what they noted, unless no `bodies` are kept. A
    reason without a word in it is refused as unsupported, and nothing is kept. Raises a
    `StoreError` where it cannot be recorded just now.
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
    notification = parse(body)
    if notification is None:
        return Refusal.UNSUPPORTED.refused()
    arrival = Arrival(notification, body, at)
    [outcome] = retry_on_conflict(
        partial(record, store, bodies=bodies), [arrival], until=monotonic() + PATIENCE
    )
    return outcome
