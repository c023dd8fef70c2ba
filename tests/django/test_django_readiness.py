"""Readiness in a Django project."""

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings
from django.urls import include, reverse
from django.urls import path as url

import django_host
from engines import run
from hookrow.django import receiver
from hookrow.django.readiness import _status
from wire import TEXT

URLS = (url("readyz", include("hookrow.django.readiness")),)


@pytest.fixture
def client(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr("hookrow._diagnostics.status_reader.VALID_FOR", 0.0)
    with django_host.project(database_url, SWEEP=True), override_settings(ROOT_URLCONF=URLS):
        yield Client(enforce_csrf_checks=True)
        _status(receiver()).close()


def test_a_database_that_lacks_a_table(client: Client, database_url: str) -> None:
    path = reverse("hookrow-readiness:readiness")
    ready = client.get(path)
    assert (path, ready.status_code, ready.content) == ("/readyz", 200, b"ready\n")
    assert ready["Content-Type"] == TEXT
    run(database_url, "DROP TABLE hookrow_subscriptions")
    response = client.get(path)
    assert response.status_code == 503
    assert response.content.startswith(b"not ready: ")
    assert b"hookrow_subscriptions" in response.content


def test_invalid_settings(client: Client) -> None:
    with override_settings(HOOKROW={"SECRET": ""}):
        assert client.get("/readyz").status_code == 503
