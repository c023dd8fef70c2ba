"""For tests of hosts: sample payloads, functions that post them, and the contract of a mapping."""

from __future__ import annotations

from hookrow.testing.client import SECRET, NoResponse, headers, memory_receiver, post
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

__all__ = [
    "SECRET",
    "NoResponse",
    "Payload",
    "StoreContract",
    "bounce",
    "click",
    "complaint",
    "delivery",
    "headers",
    "inbound",
    "memory_receiver",
    "opening",
    "post",
    "reactivation",
    "send_test",
    "suppression",
]
