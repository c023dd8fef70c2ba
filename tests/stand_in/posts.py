"""Posts events and tests to webhooks, as the provider does since August 2026.

An event is posted once, and again after 5xx, 408, 429 or no response, up to 9 times in 72 minutes.
After any other response, it is dropped. Redirects are followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urljoin, urlsplit

from hookrow.testing import _payloads
from stand_in.state import Attempt, Event, Post, State, Trigger, Webhook

RETRIES = tuple(timedelta(minutes=each) for each in (1, 5, 15, 1, 5, 10, 10, 10, 15))
"""The waits before the attempts after the first."""

PAUSED_AFTER = 10
"""The number of events of a trigger in a row that fail for good, after which it is paused.

The provider does not publish its number.
"""

TIMEOUT = 30.0
"""In seconds, for each response; the provider does not publish its own."""

MOST_REDIRECTS = 10

_REPEATED = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


def verify(state: State, webhook: Webhook) -> Sequence[Mapping[str, Any]]:
    """Post a test of each enabled trigger; return the results as the API does."""
    results = []
    for trigger in webhook.enabled:
        with state.lock:
            payload, trace_id = _test(trigger, state.now), state.uuid()
        status = post(webhook, payload, trace_id, len(RETRIES))
        ok = status == HTTPStatus.OK
        message = (
            f"Remote server returned an HTTP status code of {status}."
            if status
            else ("Unable to connect to the remote server.")
        )
        results.append(
            {
                "TriggerType": trigger.value,
                "Success": ok,
                "StatusCode": status,
                "Message": "OK" if ok else message,
            }
        )
    return results


def deliver_due(state: State, until: datetime) -> None:
    """Post all events that are due until a time, in order, and set the clock to it."""
    while True:
        with state.lock:
            due = [each for each in state.events if each.due is not None and each.due <= until]
            if not due:
                state.now = max(state.now, until)
                return
            event = min(due, key=lambda each: each.due or until)
            state.now = max(state.now, event.due or until)
            event.due = None
            webhook = state.webhooks.get(event.webhook)
            left = len(RETRIES) - len(event.attempts)
        if webhook is None:
            continue
        status = post(webhook, event.payload, event.trace_id, left)
        with state.lock:
            _finish(state, event, webhook, status)


def post(webhook: Webhook, payload: Mapping[str, Any], trace_id: str, left: int) -> int:
    """Post a payload; return the status, or 0 without a response."""
    headers = {
        **{each["Name"]: each["Value"] for each in webhook.headers},
        "Content-Type": "application/json",
        "User-Agent": "Postmark",
        "X-PM-Webhook-Trace-Id": trace_id,
        "X-PM-Retries-Remaining": str(left),
    }
    url, body = webhook.url, json.dumps(payload).encode()
    for _ in range(MOST_REDIRECTS):
        parts = urlsplit(url)
        connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        try:
            with closing(connect(parts.hostname or "", parts.port, timeout=TIMEOUT)) as connection:
                connection.request(
                    "POST", parts._replace(scheme="", netloc="").geturl(), body, headers
                )
                response = connection.getresponse()
                response.read()
        except (OSError, HTTPException, ValueError):
            return 0
        place = response.getheader("Location")
        if place is None or not 300 <= response.status < 400:
            return response.status
        url = urljoin(url, place)
    return response.status


def _finish(state: State, event: Event, webhook: Webhook, status: int) -> None:
    """Record an attempt, and schedule the next one or end the event."""
    event.attempts.append(Attempt(state.now, status))
    failed = not event.delivered
    repeated = not status or status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _REPEATED
    again = failed and repeated and len(event.attempts) <= len(RETRIES)
    webhook.posts.append(Post(state.now, status, event.trigger, final=not again))
    if again:
        event.due = state.now + RETRIES[len(event.attempts) - 1]
        return
    webhook.failures[event.trigger] = webhook.failures.get(event.trigger, 0) + 1 if failed else 0
    if webhook.failures[event.trigger] >= PAUSED_AFTER:
        webhook.verified.discard(event.trigger)


def _test(trigger: Trigger, at: datetime) -> Mapping[str, Any]:
    """Return the payload of a test: one that the provider's button "Send test" posts."""
    sent = _payloads.send_test(at=at)
    person, message_id = sent["Recipient"], sent["MessageID"]
    match trigger:
        case Trigger.DELIVERY:
            return sent
        case Trigger.OPEN:
            return _payloads.opening(person, message_id, at=at)
        case Trigger.CHANGE:
            return _payloads.suppression(person, message_id, at=at)
        case Trigger.CLICK:
            return _payloads.click(person, message_id, at=at)
        case Trigger.BOUNCE:
            return _payloads.bounce(person, message_id, at=at)
        case Trigger.COMPLAINT:
            return _payloads.complaint(person, message_id, at=at)
