"""Log entries: one for each distinct authentic notification.

The rules of the log belong here: the identity of a notification, the text that is stored, and how
entries are merged. No store, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from hookrow._core.notification import (
    Arrival,
    Bounced,
    Clicked,
    Complained,
    Delivered,
    DispatchEvent,
    Opened,
    Outcome,
    Reactivated,
    Refused,
    Source,
    Suppressed,
    first_of,
)
from hookrow._core.result import PARKED, RESULTS, SUBSCRIBER_FOUND, Result, retry_at
from hookrow._core.rules import (
    LONGEST_EMAIL,
    LONGEST_MESSAGE_ID,
    UNSTORABLE,
    fold,
    is_email,
    is_message_id,
)
from hookrow._core.sizes import WIDEST_CHARACTER

_DIGEST = 12
"""The size of the digest in a fingerprint, in bytes."""

FINGERPRINT_SIZE = 4 + _DIGEST
"""The size of a fingerprint in bytes: a time, and the digest."""

LONGEST_RECORD_TYPE = 64
"""The maximum length of a record type in the log, in characters; Postmark's longest one has 18."""

LONGEST_REASON = 64
"""The maximum length of a reason in the log, in characters; Postmark's longest one has 17. The rows
contain the whole reason."""

LONGEST_PROVIDER = 32
"""The maximum length of the name of a provider, in characters."""

LONGEST_ENTRY_NAME = 64
"""The maximum length of the log's column `entry`, the name of a receiver's entry, in characters."""

is_entry_name = re.compile(f"[a-z0-9_-]{{1,{LONGEST_ENTRY_NAME}}}").fullmatch
"""Returns whether a receiver's entry may have a name; it is part of URLs."""

UNNUMBERED = 0
"""The number of a change that has just been made. The transactions that make changes do not number
them, because they commit in any order."""

LONGEST_TRACE_ID = 255
"""The maximum length of a trace id in the log, in characters; Postmark's have 36."""

RECORD_TYPES: Mapping[type[object], str] = {
    Delivered: "Delivery",
    Opened: "Open",
    Clicked: "Click",
    Bounced: "Bounce",
    Complained: "SpamComplaint",
    Suppressed: "SubscriptionChange",
    Reactivated: "SubscriptionChange",
}
"""Postmark's record type of each kind of notification."""


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One row of the log. Times are UTC.

    `fingerprint` has 16 bytes. `attempts` is the number of posts, the first at `received_at`
    and the last at `last_received_at`; `outcome` and `status` are the latest result, and `ended_at`
    is its time. `retry_at` is the time of the next retry if the notification is parked. `body` is
    the posted text, or None if bodies are not stored. Only an event that suppresses has a
    `reason`, and `record_type` is that of its first notification. `provider` is the name of the
    provider, or None for a manual change, and `source` the origin of the arrival with this result.
    `trace_id` is the provider's, if it sends one. `entry` is the name of the receiver's entry, or
    None if the receiver has a single provider. `change_number` is the place of the last change that
    the event made, among all changes: `UNNUMBERED` until a consumer reads it, and None if there is
    no change.
    """

    fingerprint: bytes
    record_type: str | None
    message_id: str | None
    recipient: str | None
    occurred_at: datetime | None
    outcome: Result
    status: int
    attempts: int
    received_at: datetime
    last_received_at: datetime
    ended_at: datetime
    retry_at: datetime | None
    body: str | None
    reason: str | None
    provider: str | None
    source: Source
    trace_id: str | None
    entry: str | None
    change_number: int | None

    @property
    def is_change(self) -> bool:
        """Whether the event changes a suppression; every type that suppresses has a reason."""
        return self.reason is not None or self.record_type == RECORD_TYPES[Suppressed]

    @property
    def has_changed(self) -> bool:
        """Whether the change was made: it needs only its subscriber, unlike other notifications."""
        return self.is_change and self.outcome in SUBSCRIBER_FOUND


class StoredEntry(LogEntry, frozen=True, gc=False):
    """An entry as the log stores it, with its `id` and its first result.

    `retries` is the number of times that hookrow itself tried to record it again, by a sweep, a
    call of `retry_now` or a replay; `attempts` does not include these.
    """

    id: int
    first_outcome: Result
    retries: int = 0


E = TypeVar("E", bound=LogEntry)


def log_entries(
    arrivals: Sequence[Arrival],
    outcomes: Sequence[Outcome],
    ended_at: datetime,
    *,
    bodies: bool = True,
) -> Sequence[LogEntry]:
    """Return the log entries of arrivals with these outcomes: one per fingerprint, sorted by it.

    A statement cannot change a row twice, and all processes must lock rows in the same order.
    Without `bodies`, no body is stored, and no retry is possible. Refused probes are omitted.
    """
    merged: dict[bytes, LogEntry] = {}
    for arrival, outcome in zip(arrivals, outcomes, strict=True):
        if isinstance(outcome, Refused) and arrival.is_probe:
            continue
        entry = _entry(arrival, outcome, ended_at, bodies=bodies)
        earlier = merged.get(entry.fingerprint)
        merged[entry.fingerprint] = entry if earlier is None else merge_entries(earlier, entry)
    return sorted(merged.values(), key=attrgetter("fingerprint"))


def merge_entries(earlier: E, later: LogEntry) -> E:
    """Return the entry of a notification that arrived again, with the later result.

    If both results are "recorded", the earlier one's time and source are kept. A new arrival
    restores erased fields; a replay does not. If the later result has changes, they have no number
    yet, so that a consumer reads the entry again.
    """
    arrived = later.attempts > 0
    end = earlier if earlier.outcome is later.outcome is Result.RECORDED else later
    return replace(
        earlier,
        recipient=later.recipient if arrived and earlier.recipient is None else earlier.recipient,
        body=later.body if arrived and earlier.body is None else earlier.body,
        reason=later.reason if arrived and earlier.reason is None else earlier.reason,
        provider=later.provider if arrived and earlier.provider is None else earlier.provider,
        trace_id=later.trace_id if arrived and earlier.trace_id is None else earlier.trace_id,
        outcome=later.outcome,
        status=later.status,
        attempts=earlier.attempts + later.attempts,
        received_at=min(earlier.received_at, later.received_at),
        last_received_at=max(earlier.last_received_at, later.last_received_at),
        ended_at=end.ended_at,
        source=end.source,
        retry_at=later.retry_at,
        change_number=(
            earlier.change_number if later.change_number is None else later.change_number
        ),
    )


def fingerprint(arrival: Arrival) -> bytes:
    """Return the 16 bytes that identify a notification.

    The first 32 bits are the time of the event in whole seconds since 1970, which keeps new entries
    together in an index. The other 96 bits are a BLAKE2b digest of the event's id and its provider,
    or of the body if there is no id. They also depend on the entry, if the receiver has several:
    the same body at two entries is two events.
    """
    if arrival.fingerprint is not None:
        return arrival.fingerprint
    notification = first_of(arrival.notifications)
    at = notification.at if notification else None
    identity = arrival.body
    if arrival.event_id is not None:
        identity = f"{arrival.provider}\0{arrival.event_id}".encode("utf-8", "surrogatepass")
    return fingerprint_prefix(at) + _digest(identity, arrival.entry)


def _digest(identity: bytes, entry: str | None) -> bytes:
    # A key cannot be confused with a part of the identity, and has at most 64 bytes.
    key = b"" if entry is None else entry.encode()
    return blake2b(identity, digest_size=_DIGEST, key=key).digest()


def fingerprint_prefix(at: datetime | None) -> bytes:
    """Return the first 4 bytes of the fingerprint of an event at this time; zeros for None."""
    return (min(max(int(at.timestamp()), 0), 0xFFFFFFFF) if at else 0).to_bytes(4)


def memory_size(arrival: Arrival) -> int:
    """Return the size of an arrival in memory, in bytes."""
    size = len(arrival.body)
    for each in arrival.notifications:
        if isinstance(each, Suppressed):
            size += WIDEST_CHARACTER * len(each.reason)
    return size


def body_of(entry: LogEntry) -> bytes | None:
    """Return the posted body, or None if it was not stored, or was escaped and is now ambiguous."""
    if entry.body is None:
        return None
    body = entry.body.encode()
    if not _ESCAPED_BYTE.search(entry.body) or _has_digest(body, entry):
        return body
    restored = unescaped(entry.body)
    return restored if _has_digest(restored, entry) else None


def unescaped(body: str) -> bytes:
    """Return a stored body with its escapes as bytes again.

    The bytes are those that were posted, unless these contained texts that look like escapes.
    """
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), body.encode())


def _has_digest(body: bytes, entry: LogEntry) -> bool:
    return _digest(body, entry.entry) == entry.fingerprint[4:]


def stored_record_type(text: str | None) -> str | None:
    """Return the text that the log stores for a record type: escaped and truncated."""
    return text and _escape(text)[:LONGEST_RECORD_TYPE]


def stored_message_id(text: str | None) -> str | None:
    """Return the text that the log stores for a message id: escaped and truncated."""
    return text and _escape(text)[:LONGEST_MESSAGE_ID]


def stored_recipient(text: str | None) -> str | None:
    """Return the text that the log stores for an email: ASCII-lowered, escaped and truncated."""
    return text and _escape(fold(text))[:LONGEST_EMAIL]


def stored_trace_id(text: str | None) -> str | None:
    """Return the text that the log and the spool store for a trace id: escaped and truncated."""
    return text and _escape(text)[:LONGEST_TRACE_ID]


def _entry(arrival: Arrival, outcome: Outcome, ended_at: datetime, *, bodies: bool) -> LogEntry:
    notification = first_of(arrival.notifications)
    fields = notification or arrival.unsupported
    reason = _reason(arrival)
    result, status, next_retry = Result.RECORDED, 200, None
    if isinstance(outcome, Refused):
        result, status = RESULTS[outcome.refusal], outcome.refusal.status
        if bodies and is_parked(arrival, outcome):
            next_retry = retry_at(arrival.received_at, ended_at)
    return LogEntry(
        fingerprint=fingerprint(arrival),
        record_type=arrival.record_type
        or RECORD_TYPES.get(type(notification))
        or stored_record_type(arrival.unsupported.record_type),
        message_id=stored_message_id(fields.message_id),
        recipient=stored_recipient(fields.recipient),
        occurred_at=notification.at if notification else None,
        outcome=result,
        status=status,
        attempts=arrival.attempts,
        received_at=arrival.received_at,
        last_received_at=arrival.last_received_at or arrival.received_at,
        ended_at=ended_at,
        retry_at=next_retry,
        body=stored_body(arrival.body) if bodies else None,
        reason=reason and _escape(reason)[:LONGEST_REASON],
        provider=arrival.provider,
        source=arrival.source,
        trace_id=stored_trace_id(arrival.trace_id),
        entry=arrival.entry,
        change_number=UNNUMBERED if outcome.changes else None,
    )


def _reason(arrival: Arrival) -> str | None:
    """Return the reason of the first notification that suppresses, or None if none does."""
    for each in arrival.notifications:  # half the time of a generator
        if isinstance(each, Suppressed):
            return each.reason
    return None


def is_parked(arrival: Arrival, outcome: Refused) -> bool:
    """Return whether the log retries a notification with this outcome, if it keeps bodies.

    A retry can succeed only if the required rows can exist. The arrival is not a probe.
    """
    if RESULTS[outcome.refusal] not in PARKED:
        return False
    return any(
        is_email(each.recipient)
        and (not isinstance(each, DispatchEvent) or is_message_id(each.message_id))
        for each in arrival.notifications
    )


def stored_body(body: bytes) -> str:
    """Return the text that the log stores for a body: bytes that are no text are escaped."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return _ascii(body)
    return _ascii(body) if "\0" in text else text


_ESCAPED_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\x")
"""An escaped byte, which no JSON contains: JSON has no escape that begins with x."""

_ESCAPE = re.compile(rb"\\x(00|[89a-f][0-9a-f])")
"""The escapes that `_ascii` writes."""


def _ascii(body: bytes) -> str:
    """Return a body that is not valid text, with NUL and all non-ASCII bytes escaped.

    Such a body is not JSON anyway, and a single wide character would quadruple its size in memory.
    """
    return body.replace(b"\0", rb"\x00").decode("ascii", "backslashreplace")


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _escape(text: str) -> str:
    """Escape the characters that no database can store."""
    # No such character is printable, and almost every text is, which takes less time to find out.
    return text if text.isprintable() else UNSTORABLE.sub(_escaped, text)
