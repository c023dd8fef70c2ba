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
    opened, so these events have two notifications. All happened at noon, unless they have a time.
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
        names = "id", "type", "to", "message"
        id_, type_, to, message = [_text(event.get(name)) for name in names]
        fields = Unsupported(type_, to, message)
        return Event(_notifications(event, to, message), body, fields, event_id=id_)

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


def _time(value: object) -> datetime:
    try:
        return datetime.fromisoformat(str(value)).astimezone(UTC)
    except (ValueError, OverflowError):
        return NOON


def _notifications(
    event: Mapping[str, Any], to: str | None, message: str | None
) -> Sequence[Notification]:
    at = _time(event.get("at"))
    match event.get("type"):
        case "delivered":
            return (Delivered(to, message, at),)
        case "opened":
            return (Opened(to, message, at),)
        case "bounced":
            return Bounced(to, message, at, "hard"), Suppressed(to, message, at, "HardBounce")
        case "unsubscribed":
            reason = _text(event.get("reason")) or ""
            is_reason = reason.isprintable() and reason.strip()
            change = Suppressed(to, message, at, reason if is_reason else "ManualSuppression")
            return Opened(to, message, at), change
        case "restored":
            return (Reactivated(to, message, at),)
        case _:
            return ()


def event(name: str, type_: str = "delivered", **more: object) -> dict[str, Any]:
    """Return an event of the message `m-NAME` to NAME@example.com."""
    fields = {"type": type_, "to": f"{name}@example.com", "message": f"m-{name}"}
    return {"id": f"{type_} {name}", **fields, **more}


BAD = {"id": "e-0", "type": "mail.queued"}
"""An event that is not supported."""


def signed(*events: Mapping[str, Any]) -> bytes:
    """Return the body of a request with these events."""
    return json.dumps(events).encode() + SIGNATURE
