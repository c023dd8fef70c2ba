"""The events of messages and addresses: they change the state, and are posted to webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from hookrow.testing import payloads
from hookrow.testing.postmark_api.routes import Call, addresses, changed_suppression, stream_of
from hookrow.testing.postmark_api.state import Event, Message, State, Suppression, Trigger

_STEP = timedelta(milliseconds=1)
"""By this much, the clock advances with each event, so that no two have the same time."""


class Events:
    """Makes events happen at the provider: each method changes the `state`."""

    def __init__(self, state: State) -> None:
        self.state = state

    def send(
        self, recipient: str, *, stream: str = "outbound", message_id: str | None = None
    ) -> str:
        """Send a message; return its id."""
        with self.state.lock:
            stream_of(self.state, stream)
            self.state.now += _STEP
            id_ = message_id or self.state.uuid()
            self.state.messages[id_] = Message(id_, stream, recipient, self.state.now)
            return id_

    def deliver(self, message_id: str) -> None:
        """Deliver a message."""
        with self.state.lock:
            message = self._happen(message_id, "Delivered", DeliveryMessage="smtp;250 2.0.0 OK")
            payload = payloads.delivery(message.recipient, message.id, at=self.state.now)
            self._emit(message.stream, Trigger.DELIVERY, payload)

    def open(self, message_id: str) -> None:
        """Open a message, for the first time or again; some webhooks receive only the first."""
        with self.state.lock:
            first = all(name != "Opened" for name, *_ in self.state.messages[message_id].events)
            message = self._happen(message_id, "Opened", Summary="Email opened with Gmail")
            payload = payloads.opening(message.recipient, message.id, at=self.state.now)
            self._emit(message.stream, Trigger.OPEN, {**payload, "FirstOpen": first})

    def click(self, message_id: str) -> None:
        """Click a link in a message."""
        with self.state.lock:
            message = self._happen(message_id, "LinkClicked", Link="https://example.com/")
            payload = payloads.click(message.recipient, message.id, at=self.state.now)
            self._emit(message.stream, Trigger.CLICK, payload)

    def bounce(self, message_id: str) -> None:
        """Let a message bounce, which suppresses its recipient on its stream."""
        self._reject(message_id, Trigger.BOUNCE, "HardBounce")

    def complain(self, message_id: str) -> None:
        """Complain about a message, which suppresses its recipient on its stream."""
        self._reject(message_id, Trigger.COMPLAINT, "SpamComplaint")

    def suppress(
        self,
        email: str,
        *,
        stream: str = "outbound",
        message_id: str | None = None,
        reason: str = "ManualSuppression",
        origin: str = "Recipient",
    ) -> None:
        """Suppress an address on a stream. Nothing happens if it is suppressed already."""
        state = self.state
        with state.lock:
            stream_of(state, stream)
            if (stream, email) in state.suppressions:
                return
            state.now += _STEP
            # Its time has no fraction in the API.
            suppression = Suppression(email, reason, origin, state.now.replace(microsecond=0))
            state.suppressions[stream, email] = suppression
            payload = payloads.suppression(email, message_id, at=state.now, reason=reason)
            self._emit(stream, Trigger.CHANGE, {**payload, "Origin": origin})

    def reactivate(self, email: str, *, stream: str = "outbound") -> bool:
        """Lift a suppression, except of a complaint; return whether it is lifted."""
        state = self.state
        with state.lock:
            found = state.suppressions.get((stream_of(state, stream).id, email))
            if found is not None and found.reason == "SpamComplaint":
                return False
            if found is not None:
                del state.suppressions[stream, email]
                state.now += _STEP
                payload = payloads.reactivation(email, None, at=state.now)
                self._emit(stream, Trigger.CHANGE, payload)
            return True

    def _reject(self, message_id: str, trigger: Trigger, reason: str) -> None:
        state = self.state
        with state.lock:
            message = self._happen(message_id, "Bounced", BounceID=str(state.number()))
            create = payloads.bounce if trigger is Trigger.BOUNCE else payloads.complaint
            if state.streams[message.stream].has(trigger):
                payload = create(message.recipient, message.id, at=state.now)
                self._emit(message.stream, trigger, payload)
            self.suppress(
                message.recipient, stream=message.stream, message_id=message.id, reason=reason
            )

    def _happen(self, message_id: str, name: str, **details: str) -> Message:
        self.state.now += _STEP
        message = self.state.messages[message_id]
        message.events.append((name, self.state.now, details))
        return message

    def _emit(self, stream: str, trigger: Trigger, payload: Mapping[str, Any]) -> None:
        """Create an event for each webhook that receives it; it is due now."""
        state = self.state
        for webhook in state.receivers(stream, trigger):
            only_first = webhook.triggers[trigger].get("PostFirstOpenOnly") is True
            if trigger is Trigger.OPEN and only_first and not payload["FirstOpen"]:
                continue
            fields = {**payload, "MessageStream": stream, "ServerID": state.server}
            state.events.append(Event(webhook.id, trigger, fields, state.uuid(), state.now))


def create_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Suppress addresses, as the API's endpoint does."""
    results = []
    for email in addresses(call):
        if "@" in email and " " not in email:
            Events(state).suppress(email, stream=call.parts[0], origin="Customer")
            results.append(changed_suppression(email, "Suppressed"))
        else:
            message = "An invalid email address was provided."
            results.append(changed_suppression(email, "Failed", message))
    return {"Suppressions": results}


def delete_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Reactivate addresses, as the API's endpoint does."""
    results = []
    for email in addresses(call):
        if Events(state).reactivate(email, stream=call.parts[0]):
            results.append(changed_suppression(email, "Deleted"))
        else:
            message = "You do not have the required authority to change this suppression."
            results.append(changed_suppression(email, "Failed", message))
    return {"Suppressions": results}
