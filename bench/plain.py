"""The view to compare with: what a Django developer writes who needs no more than this.

It says of a notification what hookrow says, by the ORM, on the same tables; it keeps no log.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.utils.dateparse import parse_datetime
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from data import SECRET
from hookrow.django.fields import Folded
from hookrow.django.tables.models import Dispatch, Subscriber, Subscription

SUPPRESSION = ("suppressed_at", "suppression_reason", "suppression_changed_at")


@csrf_exempt
@require_POST
def webhooks(request: HttpRequest) -> HttpResponse:
    """Set on the rows what the notification says."""
    if not constant_time_compare(request.headers.get("X-Provider-Secret", ""), SECRET):
        return _answer(401, "Cannot verify webhook")
    try:
        payload = json.loads(request.body)
    except ValueError:
        return _answer(422, "Webhook payload not supported")
    match payload:
        case {"RecordType": "Delivery", "DeliveredAt": str(at)}:
            return _set_time(payload, "delivered_at", at)
        case {"RecordType": "Open", "ReceivedAt": str(at)}:
            return _set_time(payload, "opened_at", at)
        case {"RecordType": "SubscriptionChange", "SuppressSending": bool()}:
            return _suppress(payload)
        case _:
            return _answer(422, "Webhook payload not supported")


def _set_time(payload: dict[str, Any], field: str, at: str) -> HttpResponse:
    subscriber = _subscriber(payload)
    if subscriber is None:
        return _answer(404, "Engine::Subscriber not found")
    dispatch = _dispatch(payload)
    if dispatch is None:
        return _answer(404, "Engine::Dispatch not found")
    if dispatch.subscriber != subscriber:
        return _answer(
            400,
            f"Dispatch subscriber {dispatch.subscriber.email} "
            f"does not match payload recipient {payload['Recipient']}",
        )
    with transaction.atomic():
        setattr(dispatch, field, parse_datetime(at))
        dispatch.save(update_fields=[field])
    return _answer(200, "")


def _suppress(payload: dict[str, Any]) -> HttpResponse:
    subscriber, dispatch = _subscriber(payload), _dispatch(payload)
    if subscriber is None:
        return _answer(404, "Engine::Subscriber not found")
    rows: list[Any] = [subscriber]
    if dispatch is not None:
        list_id = dispatch.list_id  # type: ignore[attr-defined] # Django adds it
        of_list = Subscription.objects.filter(list_id=list_id, subscriber=subscriber)
        rows += [dispatch, *of_list]
    at = parse_datetime(payload["ChangedAt"])
    suppress = payload["SuppressSending"]
    with transaction.atomic():
        for row in rows:
            if row.suppression_changed_at is None or row.suppression_changed_at <= at:
                row.suppressed_at = at if suppress else None
                row.suppression_reason = payload["SuppressionReason"] if suppress else None
                row.suppression_changed_at = at
                row.save(update_fields=SUPPRESSION)
    return _answer(200, "")


def _subscriber(payload: dict[str, Any]) -> Subscriber | None:
    found = Subscriber.objects.alias(folded=Folded("email"))  # as it is indexed
    return found.filter(folded=payload["Recipient"].lower()).first()


def _dispatch(payload: dict[str, Any]) -> Dispatch | None:
    found = Dispatch.objects.select_related("subscriber")
    return found.filter(provider_message_id=payload["MessageID"]).first()


def _answer(status: int, text: str) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
