"""The state of the stand-in: its clock, streams, webhooks, messages, events and faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from enum import StrEnum
from itertools import count
from threading import RLock
from typing import Any
from uuid import UUID

EASTERN = timezone(timedelta(hours=-5))
"""The offset of the times in the API's responses: that of New York in winter, all year."""


class Trigger(StrEnum):
    """The types of notifications."""

    DELIVERY = "Delivery"
    OPEN = "Open"
    CHANGE = "SubscriptionChange"
    CLICK = "Click"
    BOUNCE = "Bounce"
    COMPLAINT = "SpamComplaint"


@dataclass(slots=True)
class Stream:
    """A message stream; `kind` is "Transactional", "Broadcasts" or "Inbound"."""

    id: str
    kind: str
    archived_at: datetime | None = None

    def has(self, trigger: Trigger) -> bool:
        """Return whether a webhook of the stream may have the trigger."""
        broadcasts = self.kind == "Broadcasts"
        return not (broadcasts and trigger in {Trigger.BOUNCE, Trigger.COMPLAINT})


@dataclass(slots=True)
class Webhook:
    """A webhook; `verified` are the triggers that receive events if they are enabled."""

    id: int
    url: str
    stream: str
    headers: Sequence[Mapping[str, str]] = ()
    triggers: dict[Trigger, Mapping[str, bool]] = field(default_factory=dict)
    auth: Mapping[str, str] | None = None
    verified: set[Trigger] = field(default_factory=set)
    failures: dict[Trigger, int] = field(default_factory=dict)
    """The number of events in a row that failed for good, by trigger."""
    posts: list[Post] = field(default_factory=list)

    @property
    def enabled(self) -> Sequence[Trigger]:
        """The enabled triggers."""
        return [each for each in Trigger if self.triggers.get(each, {}).get("Enabled")]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A post to a webhook at a time of the stand-in's clock; `status` is 0 without a response."""

    at: datetime
    status: int


@dataclass(frozen=True, slots=True)
class Post(Attempt):
    """An attempt in the statistics; after a `final` one, there are no others."""

    trigger: Trigger
    final: bool


@dataclass(slots=True)
class Event:
    """An event for one webhook. It is `due` at a time, or never again if that is None."""

    webhook: int
    trigger: Trigger
    payload: Mapping[str, Any]
    trace_id: str
    due: datetime | None
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def delivered(self) -> bool:
        """Whether the last attempt got a 2xx response."""
        return bool(self.attempts) and 200 <= self.attempts[-1].status < 300


@dataclass(slots=True)
class Message:
    """A sent message; `events` has the type and the time of each of its events."""

    id: str
    stream: str
    recipient: str
    sent_at: datetime
    events: list[tuple[str, datetime]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Suppression:
    """An address to which a stream sends no mail."""

    email: str
    reason: str
    origin: str
    at: datetime


class Fault(StrEnum):
    """A fault in a response of the API."""

    RATE_LIMIT = "rate limit"
    """A 429; nothing is changed."""

    MAINTENANCE = "maintenance"
    """A 503; nothing is changed."""

    ERROR_AFTER_CHANGE = "error after change"
    """A 500 after the change was made."""

    NOT_JSON = "not JSON"
    """An HTML page with 200, as from a proxy; nothing is changed."""

    RESET = "reset"
    """The connection is closed without a response; nothing is changed."""

    RESET_AFTER_CHANGE = "reset after change"
    """The change is made, and the connection is closed without a response."""

    TIMEOUT_AFTER_CHANGE = "timeout after change"
    """The change is made, but no response is sent until the stand-in is closed."""


@dataclass(slots=True)
class Injected:
    """A fault for the next `times` requests with a method and a path that contains a text."""

    fault: Fault
    times: int
    method: str | None
    path: str

    def matches(self, method: str, path: str) -> bool:
        """Return whether the fault applies to a request."""
        return self.times > 0 and self.method in {None, method} and self.path in path


class State:
    """The state of one server at the provider. `lock` protects it; posts are made without it."""

    def __init__(self, now: datetime, server: int) -> None:
        self.lock = RLock()
        self.now = now
        self.server = server
        self.track_opens = True
        self.streams = {
            each.id: each
            for each in (
                Stream("outbound", "Transactional"),
                Stream("broadcast", "Broadcasts"),
                Stream("inbound", "Inbound"),
            )
        }
        self.webhooks: dict[int, Webhook] = {}
        self.messages: dict[str, Message] = {}
        self.suppressions: dict[tuple[str, str], Suppression] = {}
        """By stream and address."""
        self.events: list[Event] = []
        self._numbers = count(1)

    def number(self) -> int:
        """Return a number that was not used before."""
        return next(self._numbers)

    def uuid(self) -> str:
        """Return an id that was not used before, with a version and a variant (RFC 9562)."""
        return str(UUID(int=self.number() << 96, version=4))

    def receivers(self, stream: str, trigger: Trigger) -> Iterator[Webhook]:
        """Yield the webhooks to which an event of a stream is posted."""
        for each in self.webhooks.values():
            if each.stream == stream and trigger in each.enabled and trigger in each.verified:
                yield each


def eastern(at: datetime) -> str:
    """Return a time as the API does: 7 digits after the second, and an offset."""
    text = at.astimezone(EASTERN).isoformat(timespec="microseconds")
    return f"{text[:26]}0{text[26:]}"
