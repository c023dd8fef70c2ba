"""What a Django developer writes: anymail reads the notification, the ORM records it.

It sets on the same rows what hookrow sets, in a transaction; it keeps no log, and what
matches no row is passed over, for anymail answers 200 whatever a receiver finds.
"""

from __future__ import annotations

from typing import Any

from anymail.signals import AnymailTrackingEvent, tracking
from django.db import transaction
from django.db.models import Q
from django.dispatch import receiver

from hookrow.django.fields import Folded
from hookrow.django.tables.models import Dispatch, Subscriber, Subscription

TIMES = {"delivered": "delivered_at", "opened": "opened_at"}


@receiver(tracking)
def record(event: AnymailTrackingEvent, **_: Any) -> None:  # noqa: ANN401 - of the signal
    """Set on the rows what the event says."""
    with transaction.atomic():
        subscriber = _subscriber(event)
        if subscriber is None:
            return
        dispatch = Dispatch.objects.filter(provider_message_id=event.message_id).first()
        if event.event_type in TIMES:
            owner = dispatch.subscriber_id if dispatch else None  # type: ignore[attr-defined] # Django adds it
            if dispatch and owner == subscriber.pk:
                setattr(dispatch, TIMES[event.event_type], event.timestamp)
                dispatch.save(update_fields=[TIMES[event.event_type]])
        elif event.esp_event["RecordType"] == "SubscriptionChange":
            _suppress(event, subscriber, dispatch)


def _subscriber(event: AnymailTrackingEvent) -> Subscriber | None:
    found = Subscriber.objects.alias(folded=Folded("email"))  # as it is indexed
    return found.filter(folded=event.recipient.lower()).first()


def _suppress(
    event: AnymailTrackingEvent, subscriber: Subscriber, dispatch: Dispatch | None
) -> None:
    """Suppress, or lift the suppression of, what has not changed since."""
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
        list_id = dispatch.list_id  # type: ignore[attr-defined] # as above
        of_list = Subscription.objects.filter(list_id=list_id, subscriber=subscriber)
        of_list.filter(older).update(**new)
