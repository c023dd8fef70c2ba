"""The events of messages and addresses: they change the state, and are posted to webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hookrow.testing import payloads
from hookrow.testing.postmark_api.routes import (
    Call,
    addresses,
    changed_suppression,
    stream_of,
    suppression,
)
from hookrow.testing.postmark_api.state import Event, Message, State, Trigger

_STEP = timedelta(milliseconds=1)
"""By this much, the clock advances with each event, so that no two have the same time."""


def send(state: State, recipient: str, stream: str, message_id: str | None) -> str:
    """Send a message; return its id."""
    with state.lock:
        stream_of(state, stream)
        state.now += _STEP
        message = Message(message_id or state.uuid(), stream, recipient, state.now)
        state.messages[message.id] = message
        return message.id


def deliver(state: State, message_id: str) -> None:
    """Deliver a message."""
    with state.lock:
        message = _happen(state, message_id, "Delivered", DeliveryMessage="smtp;250 2.0.0 OK")
        payload = payloads.delivery(message.recipient, message.id, at=state.now)
        _emit(state, message.stream, Trigger.DELIVERY, payload)


def open_message(state: State, message_id: str) -> None:
    """Open a message, for the first time or again; some webhooks receive only the first."""
    with state.lock:
        first = all(name != "Opened" for name, *_ in state.messages[message_id].events)
        message = _happen(state, message_id, "Opened", Summary="Email opened with Gmail")
        payload = payloads.opening(message.recipient, message.id, at=state.now)
        _emit(state, message.stream, Trigger.OPEN, {**payload, "FirstOpen": first})


def click(state: State, message_id: str) -> None:
    """Click a link in a message."""
    with state.lock:
        message = _happen(state, message_id, "LinkClicked", Link="https://example.com/")
        payload = payloads.click(message.recipient, message.id, at=state.now)
        _emit(state, message.stream, Trigger.CLICK, payload)


def bounce(state: State, message_id: str, *, complaint: bool) -> None:
    """Reject a message, or complain about it; the address is suppressed."""
    with state.lock:
        trigger = Trigger.COMPLAINT if complaint else Trigger.BOUNCE
        message = _happen(state, message_id, "Bounced", BounceID=str(state.number()))
        create = payloads.complaint if complaint else payloads.bounce
        payload = {
            **create(message.recipient, message.id, at=state.now),
            "MessageStream": message.stream,
            "ServerID": state.server,
        }
        state.bounces.append(payload)
        if state.streams[message.stream].has(trigger):
            _emit(state, message.stream, trigger, payload)
        reason = "SpamComplaint" if complaint else "HardBounce"
        suppress(state, message.stream, message.recipient, reason, "Recipient", message.id)


def suppress(
    state: State, stream: str, email: str, reason: str, origin: str, message_id: str | None = None
) -> None:
    """Suppress an address on a stream. Nothing happens if it is suppressed already."""
    with state.lock:
        stream_of(state, stream)
        if (stream, email) in state.suppressions:
            return
        state.now += _STEP
        state.suppressions[stream, email] = suppression(email, reason, origin, state.now)
        payload = payloads.suppression(email, message_id, at=state.now, reason=reason)
        _emit(state, stream, Trigger.CHANGE, {**payload, "Origin": origin})


def reactivate(state: State, stream: str, email: str) -> bool:
    """Lift a suppression, except of a complaint; return whether it is lifted."""
    with state.lock:
        found = state.suppressions.get((stream_of(state, stream).id, email))
        if found is not None and found.reason == "SpamComplaint":
            return False
        if found is not None:
            del state.suppressions[stream, email]
            state.now += _STEP
            payload = payloads.reactivation(email, None, at=state.now)
            _emit(state, stream, Trigger.CHANGE, payload)
        return True


def create_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Suppress addresses, as the API's endpoint does."""
    results = []
    for email in addresses(call):
        if "@" in email and " " not in email:
            suppress(state, call.parts[0], email, "ManualSuppression", "Customer")
            results.append(changed_suppression(email, "Suppressed"))
        else:
            message = "An invalid email address was provided."
            results.append(changed_suppression(email, "Failed", message))
    return {"Suppressions": results}


def delete_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Reactivate addresses, as the API's endpoint does."""
    results = []
    for email in addresses(call):
        if reactivate(state, call.parts[0], email):
            results.append(changed_suppression(email, "Deleted"))
        else:
            message = "You do not have the required authority to change this suppression."
            results.append(changed_suppression(email, "Failed", message))
    return {"Suppressions": results}


def _happen(state: State, message_id: str, name: str, **details: str) -> Message:
    state.now += _STEP
    message = state.messages[message_id]
    message.events.append((name, state.now, details))
    return message


def _emit(state: State, stream: str, trigger: Trigger, payload: Mapping[str, Any]) -> None:
    """Create an event for each webhook that receives it; it is due now."""
    for webhook in state.receivers(stream, trigger):
        only_first = webhook.triggers[trigger].get("PostFirstOpenOnly") is True
        if trigger is Trigger.OPEN and only_first and not payload["FirstOpen"]:
            continue
        fields = {**payload, "MessageStream": stream, "ServerID": state.server}
        state.events.append(Event(webhook.id, trigger, fields, state.uuid(), state.now))
