"""Sample payloads in the provider's format: supported ones, and some that get a 422.

The format is that of https://postmarkapp.com/developer/webhooks/webhooks-overview.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, TypeAlias

Payload: TypeAlias = dict[str, Any]
"""A JSON object, which any client can post."""


def delivery(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a delivery at `at`."""
    return {
        "RecordType": "Delivery",
        "MessageStream": "broadcast",
        "ServerID": 23,
        "MessageID": message_id,
        "Recipient": recipient,
        "Tag": "newsletter",
        "DeliveredAt": _time(at),
        "Details": "smtp;250 2.0.0 OK",
        "Metadata": {},
    }


def opening(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of an open at `at`."""
    return {
        "RecordType": "Open",
        "MessageStream": "broadcast",
        "ServerID": 23,
        "FirstOpen": True,
        "MessageID": message_id,
        "Recipient": recipient,
        "Tag": "newsletter",
        "ReceivedAt": _time(at),
        "Platform": "Desktop",
        "ReadSeconds": 5,
        "UserAgent": "Mozilla/5.0",
        "Client": {},
        "OS": {},
        "Geo": {},
        "Metadata": {},
    }


def suppression(
    recipient: str, message_id: str | None, *, at: datetime, reason: str = "HardBounce"
) -> Payload:
    """Return the payload of a subscription change at `at` that suppresses the recipient."""
    return {
        **_subscription_change(recipient, message_id, at),
        "Origin": "Recipient",
        "SuppressSending": True,
        "SuppressionReason": reason,
    }


def reactivation(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a subscription change at `at` that lifts the suppression."""
    return {
        **_subscription_change(recipient, message_id, at),
        "Origin": "Customer",
        "SuppressSending": False,
        "SuppressionReason": None,
    }


def bounce(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a bounce at `at`, which is not supported."""
    return {
        **_bounced("Bounce", recipient, message_id, at),
        "Type": "HardBounce",
        "TypeCode": 1,
        "Name": "Hard bounce",
        "Details": "smtp;550 5.1.1 The email account that you tried to reach does not exist.",
        "CanActivate": True,
    }


def complaint(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a spam complaint at `at`, which is not supported."""
    return {
        **_bounced("SpamComplaint", recipient, message_id, at),
        "Type": "SpamComplaint",
        "TypeCode": 512,
        "Name": "Spam complaint",
        "Details": "Spam complaint",
        "CanActivate": False,
    }


def click(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a click at `at`, which is not supported."""
    return {
        "RecordType": "Click",
        "MessageStream": "broadcast",
        "MessageID": message_id,
        "Recipient": recipient,
        "Tag": "newsletter",
        "ReceivedAt": _time(at),
        "Platform": "Desktop",
        "ClickLocation": "HTML",
        "OriginalLink": "https://example.com/news",
        "UserAgent": "Mozilla/5.0",
        "Client": {},
        "OS": {},
        "Geo": {},
        "Metadata": {},
    }


def inbound(recipient: str, message_id: str | None, *, at: datetime) -> Payload:
    """Return the payload of a reply at `at`, which has no record type and is not supported."""
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


def _subscription_change(recipient: str, message_id: str | None, at: datetime) -> Payload:
    return {
        "RecordType": "SubscriptionChange",
        "MessageID": message_id,
        "ServerID": 23,
        "MessageStream": "broadcast",
        "ChangedAt": _time(at),
        "Recipient": recipient,
        "Tag": None,
        "Metadata": {},
    }


def _bounced(record_type: str, recipient: str, message_id: str | None, at: datetime) -> Payload:
    return {
        "RecordType": record_type,
        "MessageStream": "outbound",
        "ServerID": 23,
        "ID": 4323372036854775807,
        "MessageID": message_id,
        "Email": recipient,
        "From": "news@example.com",
        "Subject": "News",
        "Tag": "newsletter",
        "BouncedAt": _time(at),
        "Description": "",
        "Inactive": True,
        "DumpAvailable": False,
        "Content": "",
        "Metadata": {},
    }


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
