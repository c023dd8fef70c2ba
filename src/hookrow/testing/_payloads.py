"""Sample payloads in the provider's format. The types that hookrow never records get a 422.

The format is documented at https://postmarkapp.com/developer/webhooks/webhooks-overview.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, TypeAlias

from hookrow._arguments import reject
from hookrow.errors import ConfigurationError

Payload: TypeAlias = dict[str, Any]
"""A JSON object."""


def delivery(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a delivery at `at`."""
    return _event("Delivery", recipient, message_id) | {
        "ServerID": 23,
        "DeliveredAt": _time(at),
        "Details": "smtp;250 2.0.0 OK",
    }


def opening(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of an open at `at`."""
    opened = {"ServerID": 23, "FirstOpen": True, "ReadSeconds": 5}
    return _event("Open", recipient, message_id) | opened | _visit(at)


def suppression(
    recipient: str, message_id: str | None, *, at: datetime, reason: str = "HardBounce"
) -> Payload:
    """Return the payload of a subscription change at `at` that suppresses the recipient."""
    return _event("SubscriptionChange", recipient, message_id) | {
        "ServerID": 23,
        "Tag": None,
        "ChangedAt": _time(at),
        "Origin": "Recipient",
        "SuppressSending": True,
        "SuppressionReason": reason,
    }


def reactivation(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a subscription change at `at` that lifts the suppression."""
    return suppression(recipient, message_id, at=at) | {
        "Origin": "Customer",
        "SuppressSending": False,
        "SuppressionReason": None,
    }


def bounce(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a bounce at `at`, which is recorded only if the schema requests it."""
    return {
        "RecordType": "Bounce",
        "MessageStream": "outbound",
        "ServerID": 23,
        "ID": 4323372036854775807,
        "Type": "HardBounce",
        "TypeCode": 1,
        "Name": "Hard bounce",
        "Details": "smtp;550 5.1.1 The email account that you tried to reach does not exist.",
        "MessageID": message_id,
        "Email": recipient,
        "From": "news@example.com",
        "Subject": "News",
        "Tag": "newsletter",
        "BouncedAt": _time(at),
        "Description": "",
        "Inactive": True,
        "CanActivate": True,
        "DumpAvailable": False,
        "Content": "",
        "Metadata": {},
    }


def complaint(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a spam complaint at `at`.

    It is recorded only if the schema requests it.
    """
    return bounce(recipient, message_id, at=at) | {
        "RecordType": "SpamComplaint",
        "Type": "SpamComplaint",
        "TypeCode": 512,
        "Name": "Spam complaint",
        "Details": "Spam complaint",
        "CanActivate": False,
    }


def click(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a click at `at`, which is recorded only if the schema requests it."""
    clicked = {"ClickLocation": "HTML", "OriginalLink": "https://example.com/news"}
    return _event("Click", recipient, message_id) | clicked | _visit(at)


def inbound(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a reply at `at`, which has no record type and is never recorded."""
    _check_time(at)
    return {
        "MessageStream": "inbound",
        "MessageID": message_id,
        "Date": format_datetime(at),
        "From": recipient,
        "FromName": "",
        "FromFull": {"Email": recipient, "Name": "", "MailboxHash": ""},
        "To": "news@example.com",
        "ToFull": [{"Email": "news@example.com", "Name": "", "MailboxHash": ""}],
        "OriginalRecipient": "news@example.com",
        "Subject": "Re: News",
        "TextBody": "Thank you.",
        "HtmlBody": "",
        "Tag": "",
        "Headers": [],
        "Attachments": [],
    }


def send_test(*, at: datetime) -> Payload:
    """Return the payload that the provider's button "Send test" posts for a delivery, at `at`.

    Its recipient and its message ID do not exist. Captures from 2021 to 2026 agree on all fields
    except the texts in `Details` and `Metadata`.
    """
    _check_time(at)
    return {
        "RecordType": "Delivery",
        "MessageStream": "outbound",
        "ServerID": 23,
        "MessageID": "00000000-0000-0000-0000-000000000000",
        "Recipient": "john@example.com",
        "Tag": "welcome-email",
        "DeliveredAt": _time(at.replace(microsecond=0)).replace(".000000", ""),
        "Details": "Test delivery webhook details",
        "Metadata": {"a_key": "a_value", "b_key": "b_value"},
    }


def _event(record_type: str, recipient: str, message_id: str | None) -> Payload:
    """Return the fields that the payloads about sent messages share."""
    return {
        "RecordType": record_type,
        "MessageStream": "broadcast",
        "MessageID": message_id,
        "Recipient": recipient,
        "Tag": "newsletter",
        "Metadata": {},
    }


def _visit(at: datetime) -> Payload:
    """Return the fields about the recipient's device, which opens and clicks share."""
    return {
        "ReceivedAt": _time(at),
        "Platform": "Desktop",
        "UserAgent": "Mozilla/5.0",
        "Client": {},
        "OS": {},
        "Geo": {},
    }


def _time(at: datetime) -> str:
    _check_time(at)
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _check_time(at: object) -> None:
    if not isinstance(at, datetime):
        reject("at", "a datetime", at, "at=datetime.now(UTC)")
    if at.utcoffset() is None:
        raise ConfigurationError("at must have a time zone: write at=datetime.now(UTC).")
