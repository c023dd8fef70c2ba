"""The page about django-anymail: its table is right, and its listener runs."""

import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import django_host  # noqa: F401 - configures Django
from hookrow import Arrival, Receiver, Recorded, testing
from hookrow.django import signals
from hookrow.providers import postmark
from hookrow.testing import post
from session import ROOT, read_files
from times import NOON

PAGE = "docs/how-to/migrate-from-anymail.md"


ADA = ("ada@example.com", "m-1")


def suppressed(reason: str) -> dict[str, Any]:
    return testing.suppression(*ADA, at=NOON, reason=reason)


PAYLOADS = {
    "`Delivery`": testing.delivery(*ADA, at=NOON),
    "`Open`": testing.opening(*ADA, at=NOON),
    "`SubscriptionChange` with `HardBounce`": suppressed("HardBounce"),
    "`SubscriptionChange` with `SpamComplaint`": suppressed("SpamComplaint"),
    "`SubscriptionChange` with `ManualSuppression`": suppressed("ManualSuppression"),
    "`SubscriptionChange` that ends the suppression": testing.reactivation(*ADA, at=NOON),
    "`Bounce`": testing.bounce(*ADA, at=NOON),
    "`SpamComplaint`": testing.complaint(*ADA, at=NOON),
    "`Click`": testing.click(*ADA, at=NOON),
}


def rows() -> dict[str, tuple[str, str]]:
    """Return anymail's event types and hookrow's effect, by notification."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    table = re.findall(r"^\| (`\w+`.*) \| (`[A-Z].*) \| (.*) \|$", text, re.MULTILINE)
    return {notification: (events, effect) for events, notification, effect in table}


def test_hookrow_supports_the_notifications_of_the_table(hookrow_receiver: Receiver) -> None:
    assert rows().keys() == PAYLOADS.keys()
    for notification, (_, effect) in rows().items():
        status, _ = post(hookrow_receiver, PAYLOADS[notification])
        assert (status == 422) == effect.startswith("422"), notification


def test_anymail_converts_them_to_the_events_of_the_table() -> None:
    webhooks = pytest.importorskip("anymail.webhooks.postmark", reason="in the extra bench")
    view = webhooks.PostmarkTrackingWebhookView(webhook_secret="user:password")
    for notification, (events, _) in rows().items():
        event = view.esp_to_anymail_event(PAYLOADS[notification])
        assert f"`{event.event_type}`" in events, notification


def test_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called for complaints, and for nothing else."""
    notified: list[str] = []
    support = SimpleNamespace(notify_support=notified.append)
    monkeypatch.setitem(sys.modules, "crm.support", support)
    names: dict[str, Any] = {}
    exec(read_files(PAGE)["crm/listeners.py"], names)
    try:
        for reason in ("HardBounce", "SpamComplaint"):
            notification = postmark.parse(json.dumps(suppressed(reason)).encode())
            signals.send(Arrival(notification, b"{}", NOON), Recorded([]))
    finally:
        signals.notification_recorded.disconnect(names["handle_complaint"], sender=None)
    assert notified == ["ada@example.com"]
