"""Log entries: one for each distinct authentic notification.

Their rules belong here: the identity of a notification, the text that is stored of it, and the
time of the next retry. No store, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from hookrow.core.notification import (
    Arrival,
    Delivered,
    Opened,
    Outcome,
    Reactivated,
    Refused,
    Source,
    Suppressed,
)
from hookrow.core.rules import (
    LONGEST_EMAIL,
    LONGEST_MESSAGE_ID,
    UNSTORABLE,
    fold,
    is_email,
    is_message_id,
    is_probe,
)

PARKED_FOR = timedelta(days=3)
"""How long after its arrival a notification that was not recorded is retried."""

SHORTEST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=1)

_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n\r"
"""Bytes that are escaped to at most two characters."""

_WIDEST = 4
"""In bytes; the largest size of a character, in UTF-8 and in memory (PEP 393)."""

_DIGEST = 12
"""In bytes; the size of the digest in a fingerprint."""

LONGEST_RECORD_TYPE = 64
"""In characters; the longest of the provider's own has 18."""

LONGEST_REASON = 64
"""In characters; the longest of the provider's own has 17. The rows have a reason in full."""

LONGEST_PROVIDER = 32
"""In characters; the longest name of a provider."""

RECORD_TYPES: Mapping[type[object], str] = {
    Delivered: "Delivery",
    Opened: "Open",
    Suppressed: "SubscriptionChange",
    Reactivated: "SubscriptionChange",
}
"""The provider's record type of each kind of notification."""


class Result(Enum):
    """The outcome of a notification as the log has it; a refusal has the same name."""

    RECORDED = "recorded"
    SUBSCRIBER_NOT_FOUND = "subscriber_not_found"
    DISPATCH_NOT_FOUND = "dispatch_not_found"
    RECIPIENT_MISMATCH = "recipient_mismatch"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


PARKED = frozenset(Result) - {Result.RECORDED, Result.UNSUPPORTED}
"""The results that a retry may change: the rows may be added, or the database may recover."""


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One row of the log. Times are UTC.

    `fingerprint` has 16 bytes. `attempts` counts its arrivals, the first at `received_at` and
    the last at `last_received_at`; `ended_at` is the time of the result, `outcome` and `status`.
    If it is parked, `retry_at` is the time of the next retry. `body` is the posted text, or None
    if bodies are not stored. Only a suppression has a `reason`. `provider` is the name of the
    sender, and `source` the origin of the arrival with this result; both are None in entries of
    the first edition.
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
    source: Source | None


class StoredEntry(LogEntry, frozen=True, gc=False):
    """An entry as the log stores it, with its `id` and its first result."""

    id: int
    first_outcome: Result


E = TypeVar("E", bound=LogEntry)


def entries(
    arrivals: Sequence[Arrival],
    outcomes: Sequence[Outcome],
    ended_at: datetime,
    *,
    bodies: bool = True,
) -> Sequence[LogEntry]:
    """Return the log's entries for arrivals with these outcomes: one per fingerprint, sorted.

    A statement cannot change a row twice, and every process has to lock the rows in the same
    order. Without `bodies`, no body is stored, and so no notification can be retried. Probes,
    which are always refused, have no entries.
    """
    merged: dict[bytes, LogEntry] = {}
    for arrival, outcome in zip(arrivals, outcomes, strict=True):
        if isinstance(outcome, Refused) and is_probe(arrival):
            continue
        entry = _entry(arrival, outcome, ended_at, bodies=bodies)
        earlier = merged.get(entry.fingerprint)
        merged[entry.fingerprint] = entry if earlier is None else merge_entries(earlier, entry)
    return sorted(merged.values(), key=attrgetter("fingerprint"))


def merge_entries(earlier: E, later: LogEntry) -> E:
    """Return the entry of a notification that arrived again: it has the later result.

    If both results are "recorded", the time is that of the earlier one. Erased fields are filled
    in again, except by a replay, which is no new arrival.
    """
    arrived = later.attempts > 0
    end = earlier if earlier.outcome is later.outcome is Result.RECORDED else later
    return replace(
        earlier,
        recipient=later.recipient if arrived and earlier.recipient is None else earlier.recipient,
        body=later.body if arrived and earlier.body is None else earlier.body,
        reason=later.reason if arrived and earlier.reason is None else earlier.reason,
        provider=later.provider if arrived and earlier.provider is None else earlier.provider,
        outcome=later.outcome,
        status=later.status,
        attempts=earlier.attempts + later.attempts,
        received_at=min(earlier.received_at, later.received_at),
        last_received_at=max(earlier.last_received_at, later.last_received_at),
        ended_at=end.ended_at,
        source=end.source,
        retry_at=later.retry_at,
    )


def fingerprint(arrival: Arrival) -> bytes:
    """Return 16 bytes that are equal if two notifications are the same.

    They begin with the event's own second, in 32 bits, which keeps new entries together in an
    index; 96 bits of BLAKE2b of the body follow.
    """
    if arrival.fingerprint is not None:
        return arrival.fingerprint
    at = arrival.notification.at if arrival.notification else None
    return second_of(at) + blake2b(arrival.body, digest_size=_DIGEST).digest()


def second_of(at: datetime | None) -> bytes:
    """Return the first 4 bytes of the fingerprint of an event at that time; zeros for None."""
    return (min(max(int(at.timestamp()), 0), 0xFFFFFFFF) if at else 0).to_bytes(4)


def fingerprints(at: datetime) -> tuple[bytes, bytes]:
    """Return the lowest and the highest fingerprint of an event in that second."""
    return second_of(at) + b"\x00" * _DIGEST, second_of(at) + b"\xff" * _DIGEST


def held_size(arrival: Arrival) -> int:
    """Return how many bytes an arrival takes in memory while it waits to be recorded."""
    reason: str = getattr(arrival.notification, "reason", "")
    return len(arrival.body) + _WIDEST * len(reason)


def written_size(arrival: Arrival) -> int:
    """Return an upper bound of the bytes that an arrival's text takes in statements.

    Its body goes to the log, its reason to three rows.
    """
    reason: str = getattr(arrival.notification, "reason", "")
    return text_size(arrival.body) + 3 * _WIDEST * len(reason)


def largest_written_size(body: bytes) -> int:
    """Return an upper bound of `written_size` for a body that has not been parsed."""
    return text_size(body) + 3 * _WIDEST * len(body)


def text_size(body: bytes) -> int:
    """Return an upper bound of the bytes that a body's text takes, in memory or in a statement.

    A control character is escaped to six characters, and a byte that is not UTF-8 to four or five.
    """
    width = 2 if body.isascii() else _WIDEST  # a statement doubles quotes and backslashes
    return width * (len(body) + 3 * len(body.translate(None, _PLAIN)))


def retry_at(received_at: datetime, now: datetime) -> datetime | None:
    """Return the time of the next retry of a notification; None if it is too old.

    The pauses are 1, 2, 4 minutes and so on to an hour: each is the time since its arrival and a
    minute.
    """
    age = max(now - received_at, timedelta(0))
    return None if age >= PARKED_FOR else now + min(age + SHORTEST_PAUSE, LONGEST_PAUSE)


def body_of(entry: LogEntry) -> bytes | None:
    """Return the body as it was posted; None if it was not stored, or only escaped."""
    if entry.body is None:
        return None
    body = entry.body.encode()
    digest = blake2b(body, digest_size=_DIGEST).digest()
    return body if digest == entry.fingerprint[4:] else None


def stored_record_type(text: str | None) -> str | None:
    """Return a record type as the log stores it: escaped and cut."""
    return text and _escape(text)[:LONGEST_RECORD_TYPE]


def stored_message_id(text: str | None) -> str | None:
    """Return a message id as the log stores it: escaped and cut."""
    return text and _escape(text)[:LONGEST_MESSAGE_ID]


def stored_recipient(text: str | None) -> str | None:
    """Return an email as the log stores it: ASCII-lowered, escaped and cut."""
    return text and _escape(fold(text))[:LONGEST_EMAIL]


def quoted(address: str | None) -> Collection[str]:
    """Return the texts, with quotes, that a body may contain for a stored recipient."""
    text = f'"{address}"'
    return {text, text.encode().decode("ascii", "backslashreplace")}


def _entry(arrival: Arrival, outcome: Outcome, ended_at: datetime, *, bodies: bool) -> LogEntry:
    notification = arrival.notification
    fields = notification or arrival.unsupported
    reason = getattr(notification, "reason", None)
    result, status, next_retry = Result.RECORDED, 200, None
    if isinstance(outcome, Refused):
        result, status = Result[outcome.refusal.name], outcome.refusal.status
        if bodies and result in PARKED and _is_retryable(arrival):
            next_retry = retry_at(arrival.received_at, ended_at)
    return LogEntry(
        fingerprint=fingerprint(arrival),
        record_type=RECORD_TYPES.get(type(notification))
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
        body=_text(arrival.body) if bodies else None,
        reason=reason and _escape(reason)[:LONGEST_REASON],
        provider=arrival.provider,
        source=arrival.source,
    )


def _is_retryable(arrival: Arrival) -> bool:
    """Return whether a retry can succeed: the rows that it needs can exist."""
    notification = arrival.notification
    if notification is None or not is_email(notification.recipient):
        return False
    needs_dispatch = isinstance(notification, Delivered | Opened)
    return is_message_id(notification.message_id) or not needs_dispatch


def _text(body: bytes) -> str:
    """Return the body as text that every database can store."""
    if b"\0" in body:
        return _ascii(body)
    try:
        return body.decode()
    except UnicodeDecodeError:
        return _ascii(body)


def _ascii(body: bytes) -> str:
    """Return a body that is no text, with NUL and all that is not ASCII escaped.

    It is no JSON anyway, and one other character would make it four times as large in memory.
    """
    return body.replace(b"\0", rb"\x00").decode("ascii", "backslashreplace")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


_escape = partial(UNSTORABLE.sub, _escaped)
"""Replaces the characters that no row can hold."""
