"""For tests: payloads and what posts them, tables, contracts of mappings and of providers."""

from __future__ import annotations

from hookrow.providers._built_in import ProviderRequest
from hookrow.testing._client import SECRET, NoResponse, headers, open_receiver, post
from hookrow.testing._contract import StoreContract
from hookrow.testing._payloads import (
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
from hookrow.testing._provider_contract import ProviderContract
from hookrow.testing._tables import DispatchRow, SubscriberRow, SubscriptionRow, Tables
from hookrow.testing._webhook_sender import WebhookSender

__all__ = [
    "SECRET",
    "DispatchRow",
    "NoResponse",
    "Payload",
    "ProviderContract",
    "ProviderRequest",
    "StoreContract",
    "SubscriberRow",
    "SubscriptionRow",
    "Tables",
    "WebhookSender",
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
