"""The page about django-anymail: its listener runs."""

import json
import sys
from types import SimpleNamespace

import pytest

import django_host  # noqa: F401 - configures Django
from hookrow import Arrival, Postmark, Recorded, testing
from hookrow.django import signals
from session import execute, read_files
from times import NOON

PAGE = "docs/how-to/migrate-from-anymail.md"


def test_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called for complaints, and for nothing else."""
    notified: list[str] = []
    support = SimpleNamespace(notify_support=notified.append)
    monkeypatch.setitem(sys.modules, "crm.support", support)
    handle_complaint = execute(read_files(PAGE)["crm/listeners.py"])["handle_complaint"]
    try:
        for reason in ("HardBounce", "SpamComplaint"):
            payload = testing.suppression("ada@example.com", None, at=NOON, reason=reason)
            notifications = Postmark.parse(json.dumps(payload).encode()).notifications
            signals.notification_recorded.notify(Arrival(notifications, b"{}", NOON), Recorded([]))
    finally:
        signals.notification_recorded.disconnect(handle_complaint, sender=None)
    assert notified == ["ada@example.com"]
