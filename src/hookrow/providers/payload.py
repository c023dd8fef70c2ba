"""The events that providers read, and conversions of the values in payloads."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from hookrow.core.notification import Notification, Unsupported
from hookrow.core.optional import Kinds

LONGEST_TEXT = 1000
"""In characters; a longer address or message id, which no row can contain, is truncated."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """One event in a request, as its provider read it.

    `notification` is None if the event is not supported. If its kind is optional, `unsupported` has
    the fields for the log of a receiver that does not record it. `body` has the bytes of the event,
    from which the provider can read it again: the whole body, unless the request has several
    events.
    `event_id` identifies the event if its bytes do not, because the provider may change them
    between attempts. `record_type` is the provider's name of the event, if it is not Postmark's.
    `trace_id` is the provider's identification of all attempts to send the event.
    """

    notification: Notification | None
    body: bytes
    unsupported: Unsupported = Unsupported()
    event_id: str | None = None
    record_type: str | None = None
    trace_id: str | None = None


def limit_to(part: Part, recorded: Kinds) -> Part:
    """Return the event unchanged, or as an unsupported one if its kind is not recorded."""
    if part.notification is None or type(part.notification) in recorded:
        return part
    return msgspec.structs.replace(part, notification=None, record_type=None)


def text_of(value: object) -> str | None:
    """Return a string, truncated if it is long, or None for a value of another type."""
    return value[:LONGEST_TEXT] if isinstance(value, str) else None


def utc(at: datetime | None) -> datetime | None:
    """Return a time in UTC, or None if it is out of range. A time without an offset is UTC."""
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        return None
