"""What the log keeps of a notification: one entry for each distinct one that was authentic.

Its rules live here: what tells two notifications apart, what of their text is kept,
and when one that could not be recorded is tried again. No store, no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum
from hashlib import blake2b
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
    fold,
    is_email,
    is_message_id,
    is_probe,
)

PARKED_FOR = timedelta(days=3)
"""How long after it came a notification that was not recorded is tried again."""

SHORTEST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=1)

_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n\r"
"""Bytes that are escaped to at most two characters."""

_DIGEST = 12
"""In bytes; of a fingerprint's digest."""

LONGEST_RECORD_TYPE = 64
"""In characters; the longest of the provider's own has 18."""

LONGEST_REASON = 64
"""In characters; the longest of the provider's own has 17. The rows have a reason in full."""

LONGEST_PROVIDER = 32
"""In characters; of a provider's name."""

RECORD_TYPES: Mapping[type[object], str] = {
    Delivered: "Delivery",
    Opened: "Open",
    Suppressed: "SubscriptionChange",
    Reactivated: "SubscriptionChange",
}
"""What the provider calls each kind of notification."""


class Result(Enum):
    """How a notification ended, in the log's own words; a refusal has the same name."""

    RECORDED = "recorded"
    SUBSCRIBER_NOT_FOUND = "subscriber_not_found"
    DISPATCH_NOT_FOUND = "dispatch_not_found"
    RECIPIENT_MISMATCH = "recipient_mismatch"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


PARKED = frozenset(Result) - {Result.RECORDED, Result.UNSUPPORTED}
"""What may end otherwise once the rows are there, or the database recovers."""


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One row of the log. Times are UTC.

    `fingerprint` has 16 bytes. `attempts` is how often it came, first at
    `received_at`, last at `last_received_at`; `ended_at` is when it ended as
    `outcome` and `status` say. At `retry_at` it is tried again, where it is parked.
    `body` is the posted text, or None if it is not kept. `reason` is given for a suppression.
    `provider` is who sent it, and `source` how it came when it ended so; both are None in
    entries of the first edition.
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
    """An entry as the log holds it, with its `id` and how it ended at first."""

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
    """Return what the log keeps of arrivals that ended so: one entry a fingerprint, sorted.

    A statement cannot change a row twice, and every process has to lock the rows in
    the same order. Without `bodies` none is kept, and so nothing can be tried again.
    """
    merged: dict[bytes, LogEntry] = {}
    for arrival, outcome in zip(arrivals, outcomes, strict=True):
        entry = _entry(arrival, outcome, ended_at, bodies=bodies)
        earlier = merged.get(entry.fingerprint)
        merged[entry.fingerprint] = entry if earlier is None else merge_entries(earlier, entry)
    return [merged[fingerprint] for fingerprint in sorted(merged)]


def merge_entries(earlier: E, later: LogEntry) -> E:
    """Return the entry of a notification that came again: its end is the later one.

    What was recorded already has been since then.
    What was erased meanwhile is there again, unless it is only applied once more.
    """
    came = later.attempts > 0
    end = earlier if earlier.outcome is later.outcome is Result.RECORDED else later
    return replace(
        earlier,
        recipient=later.recipient if came and earlier.recipient is None else earlier.recipient,
        body=later.body if came and earlier.body is None else earlier.body,
        reason=later.reason if came and earlier.reason is None else earlier.reason,
        provider=later.provider if came and earlier.provider is None else earlier.provider,
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
    """Return 16 bytes that are equal where the notification is the same.

    The event's own second comes first, in 32 bits, so that new entries lie together
    in an index; 96 bits of BLAKE2b of the body follow.
    """
    if arrival.fingerprint is not None:
        return arrival.fingerprint
    at = arrival.notification.at if arrival.notification else None
    return second_of(at) + _digest(arrival.body)


def second_of(at: datetime | None) -> bytes:
    """Return how the fingerprint of what happened then begins: 4 bytes, zeros for None."""
    return (min(max(int(at.timestamp()), 0), 0xFFFFFFFF) if at else 0).to_bytes(4)


def fingerprints(at: datetime) -> tuple[bytes, bytes]:
    """Return the lowest and the highest fingerprint of what happened in that second."""
    return second_of(at) + b"\x00" * _DIGEST, second_of(at) + b"\xff" * _DIGEST


def held_size(arrival: Arrival) -> int:
    """Return how many bytes an arrival takes in memory while it waits to be recorded."""
    return len(arrival.body) + _reason_size(arrival)


def written_size(arrival: Arrival) -> int:
    """Return an upper bound of the bytes that the text to be written of an arrival takes.

    Its body goes to the log, its reason to three rows.
    """
    return text_size(arrival.body) + 3 * _reason_size(arrival)


def largest_written_size(body: bytes) -> int:
    """Return an upper bound of `written_size` for a body that has not been parsed."""
    return text_size(body) + 3 * 4 * len(body)


def text_size(body: bytes) -> int:
    """Return an upper bound of the bytes that a body's text takes, in memory or in a statement.

    A string takes up to four bytes for each character (PEP 393). A control character is
    escaped to six characters, and a byte that is not UTF-8 to four or five.
    """
    width = 2 if body.isascii() else 4  # a statement doubles quotes and backslashes
    return width * (len(body) + 3 * len(body.translate(None, _PLAIN)))


def retry_at(received_at: datetime, now: datetime) -> datetime | None:
    """Return when to try again what could not be recorded by now; None where it is too old.

    The pauses are 1, 2, 4 minutes and so on to an hour: each is what has passed and a minute.
    """
    age = max(now - received_at, timedelta(0))
    return None if age >= PARKED_FOR else now + min(age + SHORTEST_PAUSE, LONGEST_PAUSE)


def body_of(entry: LogEntry) -> bytes | None:
    """Return the body as it was posted; None where it was not kept, or only escaped."""
    if entry.body is None:
        return None
    body = entry.body.encode()
    return body if _digest(body) == entry.fingerprint[4:] else None


def kept_record_type(text: str | None) -> str | None:
    """Return a type as the log has it: escaped and cut."""
    return _shown(text, LONGEST_RECORD_TYPE)


def kept_message_id(text: str | None) -> str | None:
    """Return a message id as the log has it: escaped and cut."""
    return _shown(text, LONGEST_MESSAGE_ID)


def kept_recipient(text: str | None) -> str | None:
    """Return an address as the log has it: ASCII-lowered, escaped and cut."""
    return _shown(text and fold(text), LONGEST_EMAIL)


def kept_reason(text: str | None) -> str | None:
    """Return a reason as the log has it: escaped and cut."""
    return _shown(text, LONGEST_REASON)


def quoted(address: str | None) -> Collection[str]:
    """Return how a kept recipient, in quotes, may stand in the text of a body."""
    text = f'"{address}"'
    return {text, text.encode().decode("ascii", "backslashreplace")}


def _entry(arrival: Arrival, outcome: Outcome, ended_at: datetime, *, bodies: bool) -> LogEntry:
    notification = arrival.notification
    said = notification or arrival.unsupported
    record_type = RECORD_TYPES.get(type(notification), arrival.unsupported.record_type)
    refusal = outcome.refusal if isinstance(outcome, Refused) else None
    ending = Result[refusal.name] if refusal else Result.RECORDED
    return LogEntry(
        fingerprint=fingerprint(arrival),
        record_type=kept_record_type(record_type),
        message_id=kept_message_id(said.message_id),
        recipient=kept_recipient(said.recipient),
        occurred_at=notification.at if notification else None,
        outcome=ending,
        status=refusal.status if refusal else 200,
        attempts=arrival.attempts,
        received_at=arrival.received_at,
        last_received_at=arrival.last_received_at or arrival.received_at,
        ended_at=ended_at,
        retry_at=retry_at(arrival.received_at, ended_at)
        if bodies and _may_end_otherwise(ending, arrival)
        else None,
        body=_escaped(arrival.body) if bodies else None,
        reason=kept_reason(getattr(notification, "reason", None)),
        provider=arrival.provider,
        source=arrival.source,
    )


def _may_end_otherwise(ending: Result, arrival: Arrival) -> bool:
    """Tell whether trying again makes sense: not for what names no row that there could be."""
    notification = arrival.notification
    if notification is None or ending not in PARKED or not is_email(notification.recipient):
        return False
    if is_probe(arrival):
        return False
    needs_dispatch = isinstance(notification, Delivered | Opened)
    return is_message_id(notification.message_id) or not needs_dispatch


def _reason_size(arrival: Arrival) -> int:
    """Return an upper bound of the bytes that the reason of a suppression takes."""
    notification = arrival.notification
    return 4 * len(notification.reason) if isinstance(notification, Suppressed) else 0


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST).digest()


def _escaped(body: bytes) -> str:
    """Return the body as text that every database takes.

    If it has NUL, or bytes that are no UTF-8, all that is not ASCII is escaped: the text is no
    JSON anyway, and one other character would make it four times as large in memory.
    """
    if b"\0" not in body:
        with suppress(UnicodeDecodeError):
            return body.decode()
    return body.replace(b"\0", rb"\x00").decode("ascii", "backslashreplace")


def _shown(text: str | None, longest: int) -> str | None:
    if text is None:
        return None
    text = text[:longest]
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\x00").encode(errors="backslashreplace").decode()[:longest]
