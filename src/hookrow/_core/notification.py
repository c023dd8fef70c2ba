"""The values: arrivals, the rows that are found for them, changes and outcomes.

Nothing here decides, reads a clock or uses a database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias
from uuid import UUID

import msgspec

Key: TypeAlias = int | str | UUID
"""The primary key of a row. Its type depends on that of the column, and not on the database.

Integers are int, texts str, and UUIDs UUID, also if the database stores their digits as text.
"""


class EventTime(Enum):
    """The times of a dispatch, by the names of their columns; the first two always exist."""

    DELIVERED = "delivered_at"
    OPENED = "opened_at"
    FIRST_OPENED = "first_opened_at"
    CLICKED = "clicked_at"
    BOUNCED = "bounced_at"
    COMPLAINED = "complained_at"

    if not TYPE_CHECKING:  # type checkers use the annotations of Enum's own
        __hash__ = object.__hash__  # faster than that, which is written in Python


class DispatchEvent(msgspec.Struct, frozen=True, gc=False):
    """An event of a message at `at` (UTC), the value of the `column`.

    In every kind of notification, `recipient` and `message_id` are None unless the payload contains
    a string for them. It may contain NUL and unpaired surrogates, with which it matches no row.
    """

    column: ClassVar[EventTime]
    recipient: str | None
    message_id: str | None
    at: datetime


class Delivered(DispatchEvent, frozen=True, gc=False):
    """The provider handed the message to the recipient's mail server."""

    column = EventTime.DELIVERED


class Opened(DispatchEvent, frozen=True, gc=False):
    """The recipient opened the message."""

    column = EventTime.OPENED


class Clicked(DispatchEvent, frozen=True, gc=False):
    """The recipient clicked a link in the message."""

    column = EventTime.CLICKED


class Bounced(DispatchEvent, frozen=True, gc=False):
    """The message bounced; `type` is the provider's name of the reason. This suppresses nobody."""

    column = EventTime.BOUNCED
    type: str | None = None


class Complained(DispatchEvent, frozen=True, gc=False):
    """The recipient reported the message as spam, which by itself suppresses nobody."""

    column = EventTime.COMPLAINED


class Suppressed(msgspec.Struct, frozen=True, gc=False):
    """The provider no longer sends to the recipient, for this `reason`.

    `at` (UTC) is None if the payload contains no time.
    """

    recipient: str | None
    message_id: str | None
    at: datetime | None
    reason: str


KNOWN_REASONS = ("HardBounce", "SpamComplaint", "ManualSuppression")
"""The reasons of the providers: Postmark's, which also stand for Resend's. Any other text may
contain an address."""


class Reactivated(msgspec.Struct, frozen=True, gc=False):
    """The provider sends to the recipient again; `at` (UTC) may be None, as in `Suppressed`."""

    recipient: str | None
    message_id: str | None
    at: datetime | None


Notification: TypeAlias = DispatchEvent | Suppressed | Reactivated


def first_of(notifications: Sequence[Notification]) -> Notification | None:
    """Return the first notification of an event, or None if it is not supported.

    It determines the type, the recipient and the time of the event in the log. To react to what an
    event says, consider all of its notifications.
    """
    return notifications[0] if notifications else None


class Unsupported(msgspec.Struct, frozen=True, gc=False):
    """The readable fields of an unsupported body; only the log uses them."""

    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = None


class Source(Enum):
    """The origin of an arrival: a request, a place where hookrow keeps arrivals, or an API."""

    LIVE = "live"
    SPOOL = "spool"
    REPLAY = "replay"
    RECONCILE = "reconcile"


class Arrival(msgspec.Struct, frozen=True):
    """One event of an authentic request, with its notifications; none if it is not supported.

    There may be several, such as a bounce and the suppression that follows it, so a hook considers
    all of them.

    `body` is the event's part of the request's body, in bytes, and `received_at` the time of its
    first arrival, in UTC. If the `source` is not live, the arrival represents `attempts` requests
    (0 for a replay), the last of them at `last_received_at`, and may have the `fingerprint` of its
    log entry. `applied_at` is the time at which it is recorded, if that is later than its arrival:
    if the source is not live, or if its rows were locked. `entry` is the name of the receiver's
    entry, if it has several. `tenant` is the tenant whose rows the arrival may change, or None if
    the mapping has no column of tenants. `record_type` is that of the log if the first notification
    does not have it. `request_id` identifies the request in log lines, and is empty if there is no
    request; `context` holds the observers' contexts, for the receiver only. `is_test` is True for a
    test of the provider's that is acknowledged, and `is_probe` for one by `hookrow check URL`,
    whose refusal is neither logged nor reported to a hook. The other fields are those of `Event`.
    """

    notifications: Sequence[Notification]
    body: bytes
    received_at: datetime
    source: Source = Source.LIVE
    unsupported: Unsupported = Unsupported()
    attempts: int = 1
    last_received_at: datetime | None = None
    applied_at: datetime | None = None
    fingerprint: bytes | None = None
    provider: str | None = None
    entry: str | None = None
    tenant: Key | None = None
    request_id: str = ""
    context: object | None = None
    event_id: str | None = None
    record_type: str | None = None
    trace_id: str | None = None
    is_test: bool = False
    is_probe: bool = False


class LookupKeys(msgspec.Struct, frozen=True):
    """All keys by which a store finds the rows of a group of arrivals.

    `message_ids` are those of dispatches. `addressed` has the recipient of each notification: the
    message id, or None, the ASCII-lowered email, the email in its original spelling, and the
    tenant. `changed` pairs a message id with the email of the subscriber whose subscription to that
    dispatch's list may change. `tenants` are those of the arrivals; see `Arrival`.
    """

    message_ids: Collection[str]
    addressed: Collection[tuple[str | None, str, str, Key | None]] = ()
    changed: Collection[tuple[str, str]] = ()
    tenants: Collection[Key | None] = ()


class FoundSubscriber(msgspec.Struct, frozen=True, gc=False):
    """A subscriber that was found, with its email as the table stores it, and its tenant."""

    id: Key
    email: str
    tenant: str | None = None


class FoundDispatch(msgspec.Struct, frozen=True, gc=False):
    """A dispatch that was found, with the subscriber it belongs to and its list.

    `owner` is None if there is no such subscriber, or the rows of others hide it. The `tenant` is
    its own or, if the table has no column for it, its owner's. An owner of another tenant is
    unknown, and so is its email.
    """

    id: Key
    owner: Key | None
    owner_email: str
    list: Key | None
    tenant: str | None = None


class FoundSubscription(msgspec.Struct, frozen=True, gc=False):
    """A subscription that was found, by its key: (list, subscriber).

    The `tenant` is None if the table has no column for it: it is then its subscriber's.
    """

    key: tuple[Key, Key]
    tenant: str | None = None


class Suppressible(Enum):
    """The three kinds of row that can be suppressed, in the order they are locked."""

    SUBSCRIBER = "subscribers"
    DISPATCH = "dispatches"
    SUBSCRIPTION = "subscriptions"

    if not TYPE_CHECKING:
        __hash__ = object.__hash__  # faster than Enum's own


RowId: TypeAlias = tuple[Suppressible, Key | tuple[Key, Key]]
"""One row: its kind and its key. A subscription's key is (list, subscriber)."""


class Rows(msgspec.Struct, frozen=True):
    """The rows that were found for a group: identities, never the state that a decision writes.

    `subscribers` maps ASCII-lowered emails, and `dispatches` message ids, to all matching rows;
    `subscriptions` maps (list, subscriber) pairs to existing subscriptions, whose keys may differ
    from the pairs in case, if the database ignores it. `unguarded` are the kinds of row for which
    no date of the last change is stored, and `suppressible` those with a column for suppressions.
    With `exact`, an email matches only rows with the same spelling or with the lower-case one.
    `first_opens` is whether first opens are recorded, and `has_dispatches` whether the mapping has
    dispatches at all.
    `tenants` maps the tenant of each arrival to the form in which the rows have it: the database
    may store equal values in several forms. It is empty if the mapping has no column of tenants.
    """

    subscribers: Mapping[str, Sequence[FoundSubscriber]]
    dispatches: Mapping[str, Sequence[FoundDispatch]]
    subscriptions: Mapping[tuple[Key, Key], FoundSubscription] = MappingProxyType({})
    unguarded: Collection[Suppressible] = ()
    exact: bool = False
    first_opens: bool = False
    has_dispatches: bool = True
    tenants: Mapping[Key | None, str] = MappingProxyType({})
    suppressible: Collection[Suppressible] = tuple(Suppressible)


class SetTime(msgspec.Struct, frozen=True, gc=False):
    """Set a time of a dispatch, and the type of a bounce with its time.

    If `guarded`, it replaces only null or an earlier time; a first open, null or a later time.
    """

    dispatch: Key
    column: EventTime
    at: datetime
    guarded: bool
    bounce_type: str | None = None

    @property
    def row(self) -> RowId:
        """The row that it changes."""
        return Suppressible.DISPATCH, self.dispatch


class SetSuppression(msgspec.Struct, frozen=True, gc=False):
    """Suppress a row for a `reason`, or lift its suppression if `reason` is None.

    If `guarded`, this applies only if the suppression has not changed after `at` (UTC).
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
    """Every reason not to record a notification: the response's status, text and more headers.

    The contract prescribes the texts of 400, 401, 404 and 422 to the byte. A provider's test and,
    while the database is unavailable, a notification in the spool are acknowledged with 200, if the
    receiver is configured to do so.
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
    UNMAPPED = (404, "Engine::Dispatch not found", None)  # must differ from the value above
    RECIPIENT_MISMATCH = (
        400,
        "Dispatch subscriber {owner} does not match payload recipient {recipient}",
    )
    NOT_READY = (503, "Try again later", {"Retry-After": "10"})
    UNAVAILABLE = (503, "Try again later", {"Retry-After": "30"})
    FAILED = (
        503,
        "Try again later",
        {"Retry-After": "60"},
    )  # must differ from UNAVAILABLE's value, or Enum makes it an alias
    TEST = (200, "")
    SPOOLED = (200, "", None)  # must differ from TEST's value

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.text = text
        self.headers: Mapping[str, str] = MappingProxyType(dict(headers or {}))

    def refused(self, **names: str) -> Refused:
        """Return the outcome; `names` fill in the placeholders of the text."""
        return Refused(self, self.text.format(**names))


class Recorded(msgspec.Struct, frozen=True):
    """All notifications of the event were processed, with these `changes`.

    A guard may prevent a change. This is not a refusal: the row already holds a newer value.
    """

    changes: Sequence[Change]


class Refused(msgspec.Struct, frozen=True):
    """The event was not processed, or not completely; `text` is the reason, for the response.

    `changes` are those of its other notifications, which are `recorded`. A retry makes them again,
    which changes nothing.
    """

    refusal: Refusal
    text: str
    changes: Sequence[Change] = ()
    recorded: Sequence[Notification] = ()


Outcome: TypeAlias = Recorded | Refused
