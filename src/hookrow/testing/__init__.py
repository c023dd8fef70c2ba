"""For the tests of hosts: sample payloads, `post`, and the contract of a mapping."""

from __future__ import annotations

from hookrow.testing.applications import NotPosted
from hookrow.testing.contract import StoreContract
from hookrow.testing.memory import memory_receiver
from hookrow.testing.payloads import (
    Payload,
    bounce,
    click,
    complaint,
    delivery,
    inbound,
    opening,
    reactivation,
    suppression,
)
from hookrow.testing.posting import SECRET, Target, post

__all__ = [
    "SECRET",
    "NotPosted",
    "Payload",
    "StoreContract",
    "Target",
    "bounce",
    "click",
    "complaint",
    "delivery",
    "inbound",
    "memory_receiver",
    "opening",
    "post",
    "reactivation",
    "suppression",
]
