"""Both ways in which a project's own tests post, as `manage.py test` runs them."""

from __future__ import annotations

from datetime import UTC, datetime

from django.test import TestCase, override_settings
from django.urls import reverse

from hookrow.django import receiver
from hookrow.django.tables.models import Dispatch, Subscriber
from hookrow.testing import SECRET, delivery, post

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@override_settings(HOOKROW={"SECRET": SECRET})
class Webhook(TestCase):
    """What a test saved is found, and what is recorded is rolled back with it."""

    def setUp(self) -> None:
        """Save a dispatch."""
        ada = Subscriber.objects.create(email="ada@example.com")
        self.sent = Dispatch.objects.create(provider_message_id="m-1", subscriber=ada)
        self.payload = delivery("ada@example.com", "m-1", at=NOON)

    def tearDown(self) -> None:
        """Look at it once more."""
        self.sent.refresh_from_db()
        assert self.sent.delivered_at == NOON

    def test_by_the_client(self) -> None:
        """Over the whole project."""
        answer = self.client.post(
            reverse("hookrow:webhooks"),
            self.payload,
            content_type="application/json",
            headers={"X-Provider-Secret": SECRET},
        )
        assert answer.status_code == 200

    def test_to_the_receiver(self) -> None:
        """Over hookrow alone."""
        assert post(receiver(), self.payload) == (200, "")


@override_settings(HOOKROW={"SECRET": SECRET, "GROUP_COMMIT": True, "SWEEP": True})
class WebhookInGroups(Webhook):
    """The same where a project starts threads, of which none is started here."""
