"""A provider for tests: batches, events with several effects, a signed body, and a probe."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hookrow import (
    Bounced,
    Delivered,
    Event,
    Notification,
    Opened,
    Reactivated,
    Request,
    RequestHead,
    Response,
    Suppressed,
    Unsupported,
)
from hookrow._http import plain
from hookrow.providers import NotReady, Provider, Unauthentic

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)

WELCOME = plain(200, "Welcome")

SIGNATURE = b"!"


class Courier(Provider):
    """Posts lists of events, each with an id, and signs them with an exclamation mark at the end.

    The courier no longer sends to an address after a bounce, or after the link to unsubscribe was
    opened, so these events have two notifications.
    While `certificate` is None, nothing can be verified. `limit` is the largest size of a body.
    """

    name = "courier"

    def __init__(self, *, limit: int = 4 * 1024 * 1024, certificate: str | None = "signed") -> None:
        self.max_body = limit
        self.certificate = certificate

    def probe(self, head: RequestHead) -> Response | None:
        """Welcome a request that checks the URL, unless it has another query."""
        return None if head.query else WELCOME

    def admit(self, _: object) -> None:
        return None

    def read(self, request: Request) -> Sequence[Event]:
        if self.certificate is None:
            raise NotReady
        if not request.body.endswith(SIGNATURE):
            raise Unauthentic("Signature")
        events = _decode(request.body.removesuffix(SIGNATURE))
        if not isinstance(events, list):
            return [Event((), request.body)]
        return [self.parse(json.dumps(each).encode()) for each in events]

    def parse(self, body: bytes) -> Event:
        event = _decode(body)
        if not isinstance(event, dict):
            return Event((), body)
        names = "type", "to", "message"
        fields = Unsupported(*(_text(event.get(name)) for name in names))
        return Event(_notifications(event), body, fields, event_id=_text(event.get("id")))

    def is_test(self, event: Event) -> bool:
        """Return whether the address is at the courier's own domain."""
        return any(str(each.recipient).endswith("@courier.test") for each in event.notifications)


def _decode(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _notifications(event: Mapping[str, object]) -> Sequence[Notification]:
    to, message = _text(event.get("to")), _text(event.get("message"))
    reason, at = _text(event.get("reason")) or "ManualSuppression", _time(event.get("at"))
    opened, suppressed = Opened(to, message, at), Suppressed(to, message, at, reason)
    effects: Mapping[str | None, Sequence[Notification]] = {
        "delivered": (Delivered(to, message, at),),
        "opened": (opened,),
        "bounced": (
            Bounced(to, message, at, "hard"),
            Suppressed(to, message, at, "HardBounce"),
        ),
        "unsubscribed": (opened, suppressed),
        "dropped": (suppressed, opened),
        "restored": (Reactivated(to, message, at),),
    }
    return effects.get(_text(event.get("type")), ())


def _time(value: object) -> datetime:
    """Return the time of an event; those without one happened at noon."""
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        return NOON


def event(name: str, type_: str = "delivered", **more: object) -> dict[str, Any]:
    """Return an event of the message `m-NAME` to NAME@example.com."""
    fields = {"type": type_, "to": f"{name}@example.com", "message": f"m-{name}"}
    return {"id": f"{type_} {name}", **fields, **more}


BAD = {"id": "e-0", "type": "mail.queued"}
"""An event that is not supported."""


def signed(*events: Mapping[str, Any]) -> bytes:
    """Return the body of a request with these events."""
    return json.dumps(events).encode() + SIGNATURE
