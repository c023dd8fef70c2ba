"""Postmark's payloads: parses them, describes them, and explains why one is not supported.

They are those of https://postmarkapp.com/developer/webhooks.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from hookrow._core.log_entry import RECORD_TYPES
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
from hookrow._core.rules import fold
from hookrow.providers._base import LONGEST_TEXT, text_of, utc
from hookrow.providers._json import decode, is_too_deep, replace_surrogates
from hookrow.providers._unreadable import explain_unreadable

_Time = Annotated[datetime, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""A time of an event. Its schema is that of RFC 3339, although the parser accepts a little more."""


class _Payload(msgspec.Struct, rename="pascal", gc=False):
    """The relevant fields of a payload; a field that is missing or has another type is None."""

    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = msgspec.field(name="MessageID", default=None)
    delivered_at: _Time | None = None
    received_at: _Time | None = None
    suppress_sending: bool | None = None
    suppression_reason: str | None = None
    changed_at: _Time | None = None
    bounced_at: _Time | None = None
    email: str | None = None
    type: str | None = None


_FIELDS = msgspec.structs.fields(_Payload)

_Untyped: Any = msgspec.defstruct(
    "_Untyped",
    [(each.name, object, None) for each in _FIELDS],
    rename={each.name: each.encode_name for each in _FIELDS},
    gc=False,
)
"""The same fields with values of any type."""


_decode = msgspec.json.Decoder(_Payload).decode
_untyped_decoder = msgspec.json.Decoder(_Untyped)

TEST_MESSAGE_ID = "00000000-0000-0000-0000-000000000000"
TEST_RECIPIENT = "john@example.com"
"""The message id and the recipient of the notifications with which Postmark tests a webhook."""


def is_test(notification: Notification) -> bool:
    """Return whether Postmark sent the notification to test a webhook, before it saves it."""
    if notification.message_id != TEST_MESSAGE_ID:
        return False
    return fold(notification.recipient or "") == TEST_RECIPIENT


def parse(body: bytes) -> Notification | None:
    """Return the notification in a body, or None if it is not supported. Never raises."""
    if is_too_deep(body):
        return None
    try:
        body.decode()  # msgspec does not check strings that it skips
        try:
            payload = _decode(body)
        except ValueError:  # a field of another type, or JSON that msgspec rejects
            payload = _decode_leniently(body)
    except (ValueError, RecursionError):
        return None
    recipient, message_id = payload.recipient, payload.message_id
    if recipient and len(recipient) > LONGEST_TEXT:
        recipient = recipient[:LONGEST_TEXT]
    if message_id and len(message_id) > LONGEST_TEXT:
        message_id = message_id[:LONGEST_TEXT]
    match payload.record_type:
        case "Delivery":
            at = payload.delivered_at
            delivered = at if at and at.tzinfo is UTC else utc(at)  # a call less for each event
            return Delivered(recipient, message_id, delivered) if delivered else None
        case "Open":
            at = payload.received_at
            opened = at if at and at.tzinfo is UTC else utc(at)
            return Opened(recipient, message_id, opened) if opened else None
        case "SubscriptionChange":
            return _subscription_change(payload, recipient, message_id)
        case _:
            return _optional(payload, recipient, message_id)


def compose(notification: Notification) -> bytes:
    """Return the body that `parse` reads as a notification, with no other fields."""
    record_type = RECORD_TYPES[type(notification)]
    fields: dict[str, object] = {
        "RecordType": record_type,
        "MessageID": notification.message_id,
    }
    if isinstance(notification, Suppressed | Reactivated):
        reason = notification.reason if isinstance(notification, Suppressed) else None
        fields |= {"Recipient": notification.recipient, "ChangedAt": notification.at}
        fields |= {"SuppressSending": reason is not None, "SuppressionReason": reason}
        return msgspec.json.encode(fields)
    *others, time = _REQUIRED_FIELDS[record_type]
    fields |= {"Email" if "Email" in others else "Recipient": notification.recipient}
    fields |= {time: notification.at, "Type": getattr(notification, "type", None)}
    return msgspec.json.encode(fields)


def _optional(
    payload: _Payload, recipient: str | None, message_id: str | None
) -> Notification | None:
    """Return a click, a bounce or a complaint; some bounces lack their address and time."""
    clicked, bounced = utc(payload.received_at), utc(payload.bounced_at)
    email = text_of(payload.email)
    match payload.record_type:
        case "Click" if clicked:
            return Clicked(recipient, message_id, clicked)
        case "Bounce" if bounced and email:
            return Bounced(email, message_id, bounced, payload.type)
        case "SpamComplaint" if bounced and email:
            return Complained(email, message_id, bounced)
        case _:
            return None


_TIME_FORM = "an RFC 3339 time that fits the years 1 to 9999 in UTC"

_TEXT_FORM = "a string with visible characters and without NUL"

_BOUNCED = {"Email": "a string with characters", "BouncedAt": _TIME_FORM}
_REQUIRED_FIELDS = {
    "Delivery": {"DeliveredAt": _TIME_FORM},
    "Open": {"ReceivedAt": _TIME_FORM},
    "Click": {"ReceivedAt": _TIME_FORM},
    "Bounce": _BOUNCED,
    "SpamComplaint": _BOUNCED,
}
"""The required fields and their values, by record type; the last one is a time."""

_SUPPRESS = {"SuppressSending": "a boolean"}
"""The required field of a subscription change."""


def body_schema() -> dict[str, Any]:
    """Return the JSON Schema of the payloads that are parsed, those of optional records included.

    The fields and their types are the parser's. It reads a field of another type as null.
    """
    _, components = msgspec.json.schema_components([_Payload])
    properties = components[_Payload.__name__]["properties"]
    for each in properties.values():
        del each["default"]
    required = {**_REQUIRED_FIELDS, "SubscriptionChange": _SUPPRESS}
    return {
        "type": "object",
        "required": ["RecordType"],
        "properties": {**properties, "RecordType": {"enum": sorted(required)}},
        "oneOf": [
            {
                "properties": {"RecordType": {"const": type_}},
                "required": [*fields] if "Email" in fields else ["Recipient", *fields],
            }
            for type_, fields in sorted(required.items())
        ],
    }


def explain(body: bytes) -> str | None:
    """Return why a body is not supported, in a sentence, or None if it is. Never raises."""
    if parse(body) is not None:
        return None
    try:
        body.decode()
        untyped = decode(body, _untyped_decoder)
    except (ValueError, RecursionError):
        return explain_unreadable(body) or "The body is not a JSON object in UTF-8."
    fields = {each.encode_name: getattr(untyped, each.name) for each in _FIELDS}
    match fields["RecordType"]:
        case str(type_) if type_ in _REQUIRED_FIELDS:
            required = _REQUIRED_FIELDS[type_]
        case "SubscriptionChange" if fields["SuppressSending"] is True:
            required = {"SuppressionReason": _TEXT_FORM}
        case "SubscriptionChange":
            required = _SUPPRESS
        case str(type_) if type_.strip():
            return f"RecordType {replace_surrogates(type_)} is not supported."
        case _:
            required = {"RecordType": "a string with visible characters"}
    *others, last = required
    invalid = [each for each in others if not isinstance(fields[each], str) or not fields[each]]
    name = invalid[0] if invalid else last
    expected = required[name]
    problem = "missing or null" if fields[name] is None else f"not {expected}"
    return f"{name} is {problem}."


def _decode_leniently(body: bytes) -> _Payload:
    """Decode a body, without the fields that have another type.

    Unpaired surrogates are replaced in the texts that are stored. They are kept in the recipient
    and the message id, which therefore match no row.
    """
    untyped, payload = decode(body, _untyped_decoder), _Payload()
    for each in _FIELDS:
        with suppress(ValueError):  # a surrogate in a time raises UnicodeEncodeError
            value = msgspec.convert(getattr(untyped, each.name), each.type)
            setattr(payload, each.name, value)
    if payload.suppression_reason:
        payload.suppression_reason = replace_surrogates(payload.suppression_reason)
    if payload.type:
        payload.type = replace_surrogates(payload.type)
    return payload


def _subscription_change(
    payload: _Payload, recipient: str | None, message_id: str | None
) -> Notification | None:
    changed_at, reason = utc(payload.changed_at), payload.suppression_reason
    if payload.suppress_sending is False:
        return Reactivated(recipient, message_id, changed_at)
    if not payload.suppress_sending or reason is None or not reason.strip() or "\0" in reason:
        return None
    return Suppressed(recipient, message_id, changed_at, reason)


def summarize(body: bytes) -> Unsupported:
    """Return the readable fields of an unsupported body. Never raises."""
    try:
        untyped = decode(body, _untyped_decoder)
    except (ValueError, RecursionError):
        return Unsupported()
    recipient = text_of(untyped.recipient) or text_of(untyped.email)
    return Unsupported(text_of(untyped.record_type), recipient, text_of(untyped.message_id))
