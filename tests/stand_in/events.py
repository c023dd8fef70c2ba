"""The events of messages and addresses: they change the state, and are posted to webhooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from hookrow.testing import _payloads
from stand_in.routes import Call, stream_of
from stand_in.state import Event, Message, State, Suppression, Trigger

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
            message = self._happen(message_id, "Delivered")
            payload = _payloads.delivery(message.recipient, message.id, at=self.state.now)
            self._emit(message.stream, Trigger.DELIVERY, payload)

    def open(self, message_id: str) -> None:
        """Open a message, for the first time or again; some webhooks receive only the first."""
        with self.state.lock:
            first = all(name != "Opened" for name, _ in self.state.messages[message_id].events)
            message = self._happen(message_id, "Opened")
            payload = _payloads.opening(message.recipient, message.id, at=self.state.now)
            self._emit(message.stream, Trigger.OPEN, {**payload, "FirstOpen": first})

    def suppress(
        self,
        email: str,
        *,
        stream: str = "outbound",
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
            payload = _payloads.suppression(email, None, at=state.now, reason=reason)
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
                payload = _payloads.reactivation(email, None, at=state.now)
                self._emit(stream, Trigger.CHANGE, payload)
            return True

    def _happen(self, message_id: str, name: str) -> Message:
        self.state.now += _STEP
        message = self.state.messages[message_id]
        message.events.append((name, self.state.now))
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

    def suppress(email: str) -> bool:
        is_valid = "@" in email and " " not in email
        if is_valid:
            Events(state).suppress(email, stream=call.parts[0], origin="Customer")
        return is_valid

    return _change_each(call, suppress, "Suppressed", "An invalid email address was provided.")


def delete_suppressions(state: State, call: Call) -> Mapping[str, Any]:
    """Reactivate addresses, as the API's endpoint does."""
    reactivate = partial(Events(state).reactivate, stream=call.parts[0])
    message = "You do not have the required authority to change this suppression."
    return _change_each(call, reactivate, "Deleted", message)


def _change_each(
    call: Call, change: Callable[[str], bool], done: str, failure: str
) -> Mapping[str, Any]:
    """Change each address in the body of a request; `done` is the status of those that changed."""
    results = []
    for each in call.body.get("Suppressions", ()):
        email = str(each.get("EmailAddress"))
        status, message = (done, None) if change(email) else ("Failed", failure)
        results.append({"EmailAddress": email, "Status": status, "Message": message})
    return {"Suppressions": results}
