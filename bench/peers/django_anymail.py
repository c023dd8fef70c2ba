"""A Django project in which anymail parses notifications and the ORM records them on PostgreSQL.

Each notification is recorded in a transaction, in the same columns as hookrow's. There is no log,
and a notification that matches no row is ignored, because anymail returns 200 in any case. The
settings are those of `startproject`, with persistent connections.
"""

from __future__ import annotations

import os
from typing import Any

import django
from django.conf import settings

from environment import django_settings

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    ANYMAIL={"WEBHOOK_SECRET": f"postmark:{os.environ['HOOKROW_SECRET']}"},
    DATABASES={
        "default": {**django_settings(os.environ["HOOKROW_DATABASE_URL"]), "CONN_MAX_AGE": None}
    },
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "anymail",
        "hookrow.django.tables",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a-key-for-the-benchmark",
    USE_TZ=True,
)
django.setup()

# ruff: noqa: E402 - the following modules need the settings
from anymail.signals import AnymailTrackingEvent, tracking
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Collate, Lower
from django.dispatch import receiver
from django.urls import include, path

from hookrow.django.tables.models import Dispatch, Subscriber, Subscription

TIMES = {"delivered": "delivered_at", "opened": "opened_at"}

application = get_wsgi_application()
urlpatterns = [path("anymail/", include("anymail.urls"))]


@receiver(tracking)
def record(event: AnymailTrackingEvent, **_: Any) -> None:  # noqa: ANN401 - of the signal
    """Record the event in its rows."""
    with transaction.atomic():
        subscriber = _find_subscriber(event.recipient)
        if subscriber is None:
            return
        dispatch = Dispatch.objects.filter(provider_message_id=event.message_id).first()
        if column := TIMES.get(event.event_type):
            owner = dispatch.subscriber_id if dispatch else None  # type: ignore[attr-defined] # Django adds it
            if dispatch and owner == subscriber.pk:
                setattr(dispatch, column, event.timestamp)
                dispatch.save(update_fields=[column])
        elif event.esp_event["RecordType"] == "SubscriptionChange":
            _suppress(event, subscriber, dispatch)


def _find_subscriber(recipient: str) -> Subscriber | None:
    found = Subscriber.objects.alias(folded=Lower(Collate("email", "C")))  # as in the index
    return found.filter(folded=recipient.lower()).first()


def _suppress(
    event: AnymailTrackingEvent, subscriber: Subscriber, dispatch: Dispatch | None
) -> None:
    """Suppress the rows that have no newer change, or lift their suppression."""
    suppressed = event.esp_event["SuppressSending"]
    new = {
        "suppressed_at": event.timestamp if suppressed else None,
        "suppression_reason": event.esp_event["SuppressionReason"] if suppressed else None,
        "suppression_changed_at": event.timestamp,
    }
    older = Q(suppression_changed_at=None) | Q(suppression_changed_at__lte=event.timestamp)
    Subscriber.objects.filter(older, pk=subscriber.pk).update(**new)
    if dispatch is not None:
        Dispatch.objects.filter(older, pk=dispatch.pk).update(**new)
        list_id = dispatch.list_id  # type: ignore[attr-defined] # Django adds it
        subscription = Subscription.objects.filter(list_id=list_id, subscriber=subscriber)
        subscription.filter(older).update(**new)
