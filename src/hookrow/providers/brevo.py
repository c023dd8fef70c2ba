"""Brevo: authenticates the requests of its transactional webhooks, and reads the events.

The events are those of https://developers.brevo.com/docs/transactional-webhooks. A request has one,
or up to 500 if the webhook is batched (https://developers.brevo.com/docs/batch-webhooks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
)
from hookrow.providers._base import text_of
from hookrow.providers._credentials import CredentialProvider
from hookrow.providers._events import (
    CLIENT_ADDRESS,
    COMPLAINT,
    HARD_BOUNCE,
    LINK,
    MANUAL,
    UNKNOWN_USER,
    Effect,
    Fields,
    KindOfEvent,
    Reading,
    identity_of,
    kind_of_event,
    notifications_of,
    seconds_of,
    time_of_seconds,
)
from hookrow.providers._json import encode
from hookrow.providers._message_ids import in_brackets

_EFFECTS: Mapping[str, Sequence[Effect]] = {
    "delivered": (Delivered,),
    "opened": (Opened,),
    "unique_opened": (Opened,),
    "proxy_open": (Opened,),
    "unique_proxy_open": (Opened,),
    "click": (Clicked,),
    "soft_bounce": (Bounced,),
    "hard_bounce": (Bounced, HARD_BOUNCE),
    "invalid_email": (Bounced, HARD_BOUNCE),
    "spam": (Complained, COMPLAINT),
    "complaint": (Complained, COMPLAINT),
    "unsubscribe": (MANUAL,),
    "unsubscribed": (MANUAL,),
}
"""The effects of events by their type. For complaints and unsubscribes, Brevo's pages have two."""

_HARD_BOUNCE_EVENT: Fields = {"event": "hard_bounce", "reason": f"550 {UNKNOWN_USER}"}
_FULL: Fields = {"event": "soft_bounce", "reason": "452 4.2.2 The mailbox is full."}
_INVALID: Fields = {"event": "invalid_email", "reason": "The address is not valid."}
_SPAM: Fields = {"event": "spam"}

_COMPOSED: Mapping[KindOfEvent, Fields] = {
    Delivered: {"event": "delivered"},
    Opened: {"event": "opened"},
    Clicked: {"event": "click", "link": LINK},
    (Bounced, "hard_bounce"): _HARD_BOUNCE_EVENT,
    (Bounced, "soft_bounce"): _FULL,
    (Bounced, "invalid_email"): _INVALID,
    Complained: _SPAM,
    HARD_BOUNCE: _HARD_BOUNCE_EVENT,
    COMPLAINT: _SPAM,
    MANUAL: {"event": "unsubscribed"},
}
"""The fields of the event for each kind of notification, besides those of all events."""


class Brevo(CredentialProvider):
    """Admits requests with credentials, and reads the events of Brevo's transactional webhooks.

    Credentials are `user:password`, as in the URL of the webhook at Brevo, or `Bearer TOKEN`, with
    the token that is set as its `auth` (https://developers.brevo.com/docs/secured-webhooks); Brevo
    signs nothing. Several are accepted, the newest first, so that they can be rotated.

    The message id is the `messageId` in the response of the API, with angle brackets. The time is
    `ts_epoch`, because the others depend on the time zone of the account. Events of marketing
    webhooks have neither, and are not supported.

    Hard bounces, invalid addresses, spam reports and unsubscribes suppress the subscriber, because
    Brevo then blocks the address; after an unsubscribe, by default only for the same sender
    (https://help.brevo.com/hc/en-us/articles/209458705). Soft bounces do not, and neither do
    `blocked` events, which do not state why the address is blocked. `request`, `deferred` and
    `error` have no effect. Brevo sends no event when it unblocks an address. Events may arrive in
    any order.

    Brevo repeats a request that gets no response, after 10 minutes, 1, 2 and 8 hours, but discards
    it after a 5xx or a 4xx, except 429 (https://developers.brevo.com/docs/retry-mechanism). While
    the database is unavailable, events are therefore lost unless the receiver has a spool and
    `acknowledge_spooled=True`, which is recommended. To rotate credentials, let the receiver accept
    the new ones before the webhook has them, because a 401 also discards its event.

    Raises `ConfigurationError` if credentials are missing or not valid.
    """

    name = "brevo"
    hard_bounce = "hard_bounce"
    message_id_source = "`messageId` of the response of its API, with the angle brackets"
    accepts_tokens = True
    max_body = 4 * 1024 * 1024  # 500 events, with the custom header of each email

    def compose(self, notification: Notification) -> bytes | None:
        """Return the body of an event that is not batched; see `BuiltIn`."""
        fields, at = _COMPOSED.get(kind_of_event(notification)), notification.at
        if fields is None or at is None:
            return None
        event: dict[str, object] = {
            "id": 26224,
            "email": notification.recipient,
            "date": f"{at:%Y-%m-%d %H:%M:%S}",
            "ts": seconds_of(at),
            "ts_event": seconds_of(at),
            "ts_epoch": seconds_of(at) * 1000 + at.microsecond // 1000,
            "subject": "News",
            "tags": ["newsletter"],
            "sending_ip": CLIENT_ADDRESS,
        }
        if notification.message_id is not None:
            event["message-id"] = notification.message_id
        return encode({**fields, **event})

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored id with angle brackets; see `BodyParser`."""
        return in_brackets(stored)

    def read_event(self, fields: Fields) -> Reading:
        """Return what an event says.

        Its `id` is that of the webhook, so its identity is its content: two webhooks may send it.
        """
        type_, recipient = text_of(fields.get("event")), text_of(fields.get("email"))
        message_id = text_of(fields.get("message-id"))
        at = time_of_seconds(fields.get("ts_epoch"), per_second=1000)
        notifications = notifications_of(
            _EFFECTS.get(type_ or "", ()), recipient, message_id, at, bounce_type=type_
        )
        identity = identity_of(type_, recipient, message_id, at, fields.get("link"))
        return Reading(type_, recipient, message_id, notifications, identity)

    def field_names(self, notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event."""
        del notification
        return "email", "message-id"
