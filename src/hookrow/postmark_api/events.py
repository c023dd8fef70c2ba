"""Payloads as the provider would have posted them, from what its API returns instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


def suppression(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of a suppression in a stream's list, which names no message."""
    return {
        "RecordType": "SubscriptionChange",
        "MessageStream": row["MessageStream"],
        "MessageID": None,
        "Recipient": row["EmailAddress"],
        "ChangedAt": row["CreatedAt"],
        "Origin": row.get("Origin"),
        "SuppressSending": True,
        "SuppressionReason": row["SuppressionReason"],
    }


def reactivation(email: str, at: datetime) -> Mapping[str, Any]:
    """Return the payload of a reactivation at a time."""
    return {
        "RecordType": "SubscriptionChange",
        "MessageID": None,
        "Recipient": email,
        "ChangedAt": at.isoformat(),
        "Origin": "Customer",
        "SuppressSending": False,
        "SuppressionReason": None,
    }


def opening(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of an open in the list of opens, which has only first ones."""
    return {**row, "RecordType": "Open", "FirstOpen": True}


def deliveries(message_id: str, details: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the payloads of the deliveries in a message's details, one for each recipient."""
    listed = details.get("MessageEvents")
    return [
        {
            "RecordType": "Delivery",
            "MessageStream": details.get("MessageStream"),
            "MessageID": message_id,
            "Recipient": each.get("Recipient"),
            "DeliveredAt": each.get("ReceivedAt"),
            "Tag": details.get("Tag"),
            "Metadata": details.get("Metadata"),
        }
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and each.get("Type") == "Delivered"
    ]
