"""The values: what arrives, what is found for it, and how it ends.

Nothing here decides, reads a clock or touches a database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias
from uuid import UUID

import msgspec

Key: TypeAlias = int | str | UUID
"""What identifies a row: whatever the table has for a primary key."""


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """The provider handed the message to the recipient's mail server at `at` (UTC).

    In this and the other notifications, `recipient` and `message_id` are None
    where the payload had no string for them.
    """

    recipient: str | None
    message_id: str | None
    at: datetime


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The recipient opened the message at `at` (UTC)."""

    recipient: str | None
    message_id: str | None
    at: datetime


class Suppressed(msgspec.Struct, frozen=True, gc=False):
    """The provider no longer sends to the recipient, for the `reason` it gives.

    `at` (UTC) is None where the provider did not say when.
    """

    recipient: str | None
    message_id: str | None
    at: datetime | None
    reason: str


class Reactivated(msgspec.Struct, frozen=True, gc=False):
    """The provider sends to the recipient again; `at` as for `Suppressed`."""

    recipient: str | None
    message_id: str | None
    at: datetime | None


Notification: TypeAlias = Delivered | Opened | Suppressed | Reactivated


class Unsupported(msgspec.Struct, frozen=True, gc=False):
    """What an unsupported body says of itself, as far as it can be read; only the log asks."""

    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = None


class Source(Enum):
    """How an arrival came: in a request, or later from where hookrow had kept it."""

    LIVE = "live"
    SPOOL = "spool"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One authentic request: its notification, or None where the body holds no supported one.

    `body` is what was posted, in bytes; `received_at` is when it first came, in UTC.
    What is applied later than it came is not `live`, as its `source` says: it
    stands for `attempts` requests, none for a replay, the last of them at
    `last_received_at`, and may know the `fingerprint` that the log has for it.
    `request_id` is what the log lines call its request, empty where there is none now;
    `context` is what the observer returned when the request was admitted.
    """

    notification: Notification | None
    body: bytes
    received_at: datetime
    source: Source = Source.LIVE
    unsupported: Unsupported = field(default=Unsupported())
    attempts: int = 1
    last_received_at: datetime | None = None
    fingerprint: bytes | None = None
    provider: str | None = None
    request_id: str = field(default="", compare=False)
    context: object | None = field(default=None, compare=False)

    @property
    def live(self) -> bool:
        """Whether it arrived in a request just now."""
        return self.source is Source.LIVE


class LookupKeys(msgspec.Struct, frozen=True):
    """What a group of arrivals mentions, and so all that a store has to look for.

    `emails` are ASCII-lowered, `recipients` the same as they came. `changed` pairs a
    message id with the email of the subscriber whose subscription to that dispatch's
    list may change.
    """

    emails: Collection[str]
    message_ids: Collection[str]
    changed: Collection[tuple[str, str]]
    recipients: Collection[str] = ()


class Subscriber(msgspec.Struct, frozen=True, gc=False):
    """A subscriber that was found, with its email as the table spells it."""

    id: Key
    email: str


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """A dispatch that was found, with the subscriber it belongs to and its list."""

    id: Key
    owner: Key | None
    owner_email: str
    list: Key | None


class Suppressible(Enum):
    """The three kinds of row that can be suppressed, in the order they are locked."""

    SUBSCRIBER = "subscribers"
    DISPATCH = "dispatches"
    SUBSCRIPTION = "subscriptions"

    __hash__ = object.__hash__  # Enum's own is in Python, and every row of a group is looked up


RowId: TypeAlias = tuple[Suppressible, Key | tuple[Key, Key]]
"""One row: of which kind, and its key, which for a subscription is (list, subscriber)."""


class Rows(msgspec.Struct, frozen=True):
    """What was found for a group: identities, never the state that a decision writes.

    `subscribers` by ASCII-lowered email and `dispatches` by message id hold every
    row that matches; `subscriptions` the (list, subscriber) pairs that exist.
    `undated` are the kinds of row whose last change is dated nowhere. With `exact` an
    email means the rows that have it as it came or in lower case, and no others.
    """

    subscribers: Mapping[str, Sequence[Subscriber]]
    dispatches: Mapping[str, Sequence[Dispatch]]
    subscriptions: Collection[tuple[Key, Key]] = ()
    undated: Collection[Suppressible] = ()
    exact: bool = False


class EventTime(Enum):
    """The two times of a dispatch, by the name of their column."""

    DELIVERED = "delivered_at"
    OPENED = "opened_at"

    __hash__ = object.__hash__  # as above


class SetTime(msgspec.Struct, frozen=True, gc=False):
    """Set a time of a dispatch; `guarded`: only where there is none or an earlier one."""

    dispatch: Key
    column: EventTime
    at: datetime
    guarded: bool

    @property
    def row(self) -> RowId:
        """The row that it changes."""
        return Suppressible.DISPATCH, self.dispatch


class SetSuppression(msgspec.Struct, frozen=True, gc=False):
    """Suppress a row for a `reason`, or lift its suppression where that is None.

    `guarded`: only where the row has not changed since `at` (UTC).
    """

    kind: Suppressible
    key: Key | tuple[Key, Key]
    at: datetime
    reason: str | None
    guarded: bool

    @property
    def row(self) -> RowId:
        """The row that it changes."""
        return self.kind, self.key


Change: TypeAlias = SetTime | SetSuppression


class Refusal(Enum):
    """Every answer but 200: status, text, further headers. They stand nowhere else.

    The texts of 400, 401, 404 and 422 are the contract's, to the byte.
    """

    NO_SUCH_PATH = (404, "Not Found")
    METHOD_NOT_ALLOWED = (405, "Method Not Allowed", {"Allow": "POST"})
    UNAUTHENTIC = (401, "Cannot verify webhook")
    TIMED_OUT = (408, "Request Timeout")
    LENGTH_REQUIRED = (411, "Length Required")
    TOO_LARGE = (413, "Webhook payload too large")
    UNSUPPORTED = (422, "Webhook payload not supported")
    SUBSCRIBER_NOT_FOUND = (404, "Engine::Subscriber not found")
    DISPATCH_NOT_FOUND = (404, "Engine::Dispatch not found")
    RECIPIENT_MISMATCH = (
        400,
        "Dispatch subscriber {owner} does not match payload recipient {recipient}",
    )
    UNAVAILABLE = (503, "Try again later", {"Retry-After": "30"})
    FAILED = (
        503,
        "Try again later",
        {"Retry-After": "60"},
    )  # not UNAVAILABLE's value: Enum would take the two for one

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.text = text
        self.headers = MappingProxyType(dict(headers or {}))

    def refused(self, **names: str) -> Refused:
        """Return the outcome, with whom its text names."""
        return Refused(self, self.text.format(**names))


class Recorded(msgspec.Struct, frozen=True):
    """The notification was processed; `changes` is what it asked for.

    A guard may keep a change from taking effect. That is no refusal: the row
    already holds something newer.
    """

    changes: Sequence[Change]


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The notification was not processed, and `text` says why."""

    refusal: Refusal
    text: str


Outcome: TypeAlias = Recorded | Refused
