"""For tests of hosts: payloads, functions that post them, tables, and the contract of a mapping."""

from __future__ import annotations

from hookrow.testing.client import SECRET, NoResponse, headers, open_receiver, post
from hookrow.testing.contract import StoreContract
from hookrow.testing.payloads import (
    Payload,
    bounce,
    click,
    complaint,
    delivery,
    inbound,
    opening,
    reactivation,
    send_test,
    suppression,
)
from hookrow.testing.tables import DispatchRow, SubscriberRow, SubscriptionRow, Tables

__all__ = [
    "SECRET",
    "DispatchRow",
    "NoResponse",
    "Payload",
    "StoreContract",
    "SubscriberRow",
    "SubscriptionRow",
    "Tables",
    "bounce",
    "click",
    "complaint",
    "delivery",
    "headers",
    "inbound",
    "open_receiver",
    "opening",
    "post",
    "reactivation",
    "send_test",
    "suppression",
]
