"""hookrow in Django's own test cases: pytest runs them as `manage.py test` would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from django.test import TestCase, TransactionTestCase, override_settings
from django.urls import reverse
from sqlalchemy import make_url

import django_host
from hookrow.django import receiver
from hookrow.django.tables.models import Dispatch, Subscriber
from hookrow.testing import SECRET, delivery, post
from postgres import Databases

pytest_plugins = ["django_project.databases"]

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def _project(new_project: Callable[[str], str], postgres: Databases) -> Iterator[None]:
    """Use a database for the module; no connection may be left that keeps it from being dropped."""
    url = new_project("postgres")
    with django_host.default(url):
        yield
    postgres.execute(f"DROP DATABASE {make_url(url).database}")


@override_settings(HOOKROW={"SECRET": SECRET})
class TestInTransactionTestCase(TransactionTestCase):
    """Notifications are recorded on what the test saved."""

    def test_both_clients(self) -> None:
        """Django's client posts through the whole project, `hookrow.testing.post` to a receiver."""
        ada = Subscriber.objects.create(email="ada@example.com")
        for number in (1, 2):
            sent = Dispatch.objects.create(provider_message_id=f"m-{number}", subscriber=ada)
            payload = delivery("ada@example.com", f"m-{number}", at=NOON)
            if number == 1:
                headers = {"X-Provider-Secret": SECRET}
                url, kind = reverse("hookrow:webhooks"), "application/json"
                response = self.client.post(url, payload, content_type=kind, headers=headers)
                assert response.status_code == 200
            else:
                assert post(receiver(), payload) == (200, "")
            sent.refresh_from_db()
            assert sent.delivered_at == NOON


class TestInTestCase(TestInTransactionTestCase, TestCase):
    """Everything is recorded in the test's own transaction."""


@override_settings(HOOKROW={"SECRET": SECRET, "GROUP_COMMIT": True, "SWEEP": True})
class TestInTestCaseWithThreads(TestInTestCase):
    """Settings that start threads start none in a transaction of the test."""
