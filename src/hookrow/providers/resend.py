"""Resend: verifies its signatures and reads its events.

The events are those of https://resend.com/docs/webhooks/event-types. Each request has one event; an
email may have several recipients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
    Unsupported,
)
from hookrow._core.spellings import MESSAGE_ID_LENGTHS
from hookrow._http import Request
from hookrow.providers._base import Event, text_of
from hookrow.providers._events import COMPLAINT, HARD_BOUNCE, MANUAL, address_of, time_of
from hookrow.providers._json import decode, encode, replace_surrogates
from hookrow.providers._message_ids import as_uuid
from hookrow.providers._standard_webhooks import StandardWebhooks
from hookrow.providers._unreadable import explain_unreadable

_REASONS = {"bounce": HARD_BOUNCE, "complaint": COMPLAINT, "manual": MANUAL}
"""The reasons of suppressions by their origin. Any other origin is stored unchanged."""

_ORIGINS = {reason: origin for origin, reason in _REASONS.items()}

_MOST_RECIPIENTS = 50
"""Resend's limit for an email (https://resend.com/docs/api-reference/emails/send-email)."""


class _Data(msgspec.Struct, gc=False):
    email_id: object = None
    to: object = None
    email: object = None
    origin: object = None
    bounce: object = None


class _Envelope(msgspec.Struct, gc=False):
    """The relevant fields of an event."""

    type: object = None
    created_at: object = None
    data: _Data | None = None


_decoder = msgspec.json.Decoder(_Envelope)
_fields_decoder = msgspec.json.Decoder(dict[str, Any])


class Resend(StandardWebhooks):
    """Authenticates requests by their signature, and reads Resend's events.

    `email.delivered` and `email.opened` set the two times of a dispatch, whose message id is the
    email's id; `email.clicked`, `email.bounced` and `email.complained` set optional ones.
    `suppression.added` and `suppression.removed` suppress and reactivate a subscriber: Resend posts
    them after each hard bounce and each complaint. All events that the log has get a 200, because
    Resend would repeat them for a day after any other response, and disable a webhook that keeps
    refusing (https://resend.com/docs/webhooks/retries-and-replays).
    """

    name = "resend"
    message_id_source = "`id` of the response of its API"
    message_id_length: ClassVar[int | None] = MESSAGE_ID_LENGTHS["resend"]

    def read(self, request: Request) -> Sequence[Event]:
        """Return the event, once for each recipient of an email. Raises `Unauthentic`."""
        id_ = self.verify(request)
        events = self.read_body(request.body)
        one = len(events) == 1
        return [
            msgspec.structs.replace(event, event_id=id_ if one else f"{id_} {number}", trace_id=id_)
            for number, event in enumerate(events)
        ]

    def read_body(self, body: bytes) -> Sequence[Event]:
        """Return the event in a body, once for each recipient of an email. Never raises."""
        return [self.parse(each) for each in _split(body)]

    @staticmethod
    def parse(body: bytes) -> Event:
        """Return the event in a body with at most one recipient. Never raises."""
        event = _read(body)
        if event is None:
            return Event((), body)
        if notification := _notification(event):
            return Event((notification,), body)
        data = event.data or _Data()
        fields = Unsupported(text_of(event.type), _recipient(data), text_of(data.email_id))
        return Event((), body, fields)

    @staticmethod
    def compose(notification: Notification) -> bytes:
        """Return the body of an event for one recipient; see `BuiltIn`."""
        at = notification.at
        event: dict[str, object] = {"created_at": at} if at else {}
        data: dict[str, object] = {"email_id": notification.message_id}
        match notification:
            case Suppressed(recipient=recipient, reason=reason):
                type_ = "suppression.added"
                data = {"email": recipient, "origin": _ORIGINS.get(reason, reason)}
            case Reactivated(recipient=recipient):
                type_, data = "suppression.removed", {"email": recipient}
            case Bounced(recipient=recipient, type=bounce_type):
                type_ = "email.bounced"
                data |= {"to": [recipient], "bounce": {"type": bounce_type}}
            case _:
                [type_] = [
                    name for name, kind in _TIMED_EVENTS.items() if kind is type(notification)
                ]
                data |= {"to": [notification.recipient]}
        return msgspec.json.encode({"type": type_, **event, "data": data})

    @staticmethod
    def explain(body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises."""
        event = _read(body)
        if event is None:
            return explain_unreadable(body) or "data is not an object."
        if _notification(event) is not None:
            return None
        if not event.type:
            return "type is missing."
        if not isinstance(event.type, str):
            return "type is not a string."
        if event.type not in _EVENT_TYPES:
            return f"The type {replace_surrogates(event.type)} is not supported."
        return "created_at is not an RFC 3339 time, data.origin is missing, or data.to is too long."

    @staticmethod
    def field_names(notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in an event."""
        has_email = isinstance(notification, Suppressed | Reactivated)
        return "data.email" if has_email else "data.to", "data.email_id"

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored UUID in lower case with hyphens; see `BodyParser`."""
        return as_uuid(stored)


def _read(body: bytes) -> _Envelope | None:
    try:
        body.decode()  # msgspec does not check strings that it skips
        return decode(body, _decoder)
    except (ValueError, RecursionError):
        return None


def _notification(event: _Envelope) -> Notification | None:
    """Return the notification of an event, which has at most one recipient."""
    data, at = event.data or _Data(), time_of(event.created_at)
    recipient, message_id = _recipient(data), text_of(data.email_id)
    match event.type:
        case _ if isinstance(data.to, list) and len(data.to) > 1:
            return None
        case str() as type_ if at and type_ in _TIMED_EVENTS:
            return _TIMED_EVENTS[type_](recipient, message_id, at)
        case "email.bounced" if at:
            bounce = data.bounce if isinstance(data.bounce, dict) else {}
            bounce_type = text_of(bounce.get("type"))
            stored_type = bounce_type and replace_surrogates(bounce_type)
            return Bounced(recipient, message_id, at, stored_type)
        case "suppression.added" if reason := _reason(data):
            return Suppressed(recipient, None, at, reason)
        case "suppression.removed":
            return Reactivated(recipient, None, at)
        case _:
            return None


def _reason(data: _Data) -> str | None:
    origin = data.origin
    if not isinstance(origin, str) or not origin.strip() or "\0" in origin:
        return None
    return _REASONS.get(origin) or replace_surrogates(origin)


_TIMED_EVENTS = {
    "email.delivered": Delivered,
    "email.opened": Opened,
    "email.clicked": Clicked,
    "email.complained": Complained,
}
_EVENT_TYPES = {*_TIMED_EVENTS, "email.bounced", "suppression.added", "suppression.removed"}


def _recipient(data: _Data) -> str | None:
    """Return the address of the first recipient, without a name, or of the subscriber."""
    return address_of(data.to[0] if isinstance(data.to, list) and data.to else data.email)


def _split(body: bytes) -> Sequence[bytes]:
    """Return the body with each recipient alone, or unchanged if it has at most one."""
    event = _read(body)
    to = event.data.to if event is not None and event.data is not None else None
    if not isinstance(to, list) or not 1 < len(to) <= _MOST_RECIPIENTS:
        return [body]
    try:
        fields = decode(body, _fields_decoder)
    except (ValueError, RecursionError):
        return [body]
    return [encode(fields | {"data": fields["data"] | {"to": [each]}}) for each in to]
