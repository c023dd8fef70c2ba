"""Log entries and their values as text, for the command, the dashboard and the Django admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from hookrow.core.log_entry import RECORD_TYPES, StoredEntry
from hookrow.core.notification import Reactivated, Recorded, RowId, Source, Suppressed
from hookrow.core.result import PARKED, Result
from hookrow.core.rules import effective_time
from hookrow.providers import BodyParser
from hookrow.receiver.replay import DryRun, parse_entry
from hookrow.stores.log import Query

MAX_BODY_LENGTH = 20_000
"""In characters; a longer body is truncated."""

_CHANGE = RECORD_TYPES[Suppressed]
_KINDS: Mapping[type[object], str] = {Suppressed: "a suppression", Reactivated: "a reactivation"}

_REASONS = {
    Result.SUBSCRIBER_NOT_FOUND: "no subscriber had {address}",
    Result.DISPATCH_NOT_FOUND: "no dispatch had {id}",
    Result.RECIPIENT_MISMATCH: "the dispatch with {id} belonged to another subscriber",
    Result.UNSUPPORTED: "the type is not supported, or a required field is missing or invalid",
    Result.FAILED: "the database returned an error, or a row was locked",
    Result.TEST: "a test by the provider, which changes nothing",
}
"""Why a notification has a result other than `recorded`."""


def describe_outcome(entry: StoredEntry) -> str:
    """Describe the first and the current result of a notification, with the reasons."""
    changed = entry.outcome is not entry.first_outcome
    parts = []
    if entry.first_outcome in _REASONS:
        parts.append(_reason(entry.first_outcome, entry) + (" at first" if changed else ""))
    parts.append(pluralize(entry.attempts, "attempt"))
    took = format_duration(entry.ended_at - entry.received_at)
    if entry.outcome is Result.RECORDED:
        parts.append(f"recorded {took} later" if changed else f"recorded within {took}")
    elif changed:
        parts.append(f"{took} later, {_reason(entry.outcome, entry)}")
    if entry.retry_at:
        parts.append(f"next retry {format_time(entry.retry_at)}")
    elif entry.outcome in PARKED:
        parts.append("no further retries")
    return "; ".join(parts)


def format_result(entry: StoredEntry) -> str:
    """Return the time of the result, and its origin if that was not a request."""
    origins = {
        Source.SPOOL: ", from the spool",
        Source.REPLAY: ", from the log",
        Source.RECONCILE: ", from the provider's API",
    }
    return format_time(entry.ended_at) + origins.get(entry.source or Source.LIVE, "")


def other_changes(entry: StoredEntry) -> Query | None:
    """Return the query for all changes of the entry's subscriber, or None if it changed nothing."""
    if entry.record_type != _CHANGE or entry.outcome is not Result.RECORDED or not entry.recipient:
        return None
    return Query(recipient=entry.recipient, record_type=_CHANGE, outcome=Result.RECORDED)


def superseding(entry: StoredEntry, changes: Iterable[StoredEntry]) -> StoredEntry | None:
    """Return the newest of the changes if it certainly occurred after the entry, otherwise None.

    An entry without an event time may have taken effect at any of its arrivals.
    """
    newest = max(changes, key=_changed_at, default=entry)
    latest = effective_time(entry.occurred_at, entry.last_received_at, entry.last_received_at)
    if _changed_at(newest) <= latest:
        return None
    return newest


def describe_change(entry: StoredEntry, parser: BodyParser) -> str:
    """Return the id, kind and time of a change of suppression.

    Without a reason and a body, it is unknown whether it was a suppression.
    """
    part = parse_entry(entry, parser)
    kind = Suppressed if entry.reason else type(part and part.notification)
    return f"entry {entry.id}, {_KINDS.get(kind, 'a change')} of {format_time(_changed_at(entry))}"


def describe_dry_run(dry_run: DryRun) -> list[str]:
    """Describe each change of a dry run."""
    if not isinstance(dry_run.outcome, Recorded):
        return [f"would be refused: {dry_run.outcome.text}"]
    changed = [
        f"{format_row(row)}: {column} {_value(value)} -> {_value(dry_run.after[row][column])}"
        for row, state in dry_run.before.items()
        for column, value in state.items()
        if value != dry_run.after[row][column]
    ]
    return changed or ["would change nothing: the rows already have these values, or newer ones"]


def format_row(row: RowId) -> str:
    """Return the kind and the key of a row."""
    kind, key = row
    keys = key if isinstance(key, tuple) else (key,)
    return f"{kind.name.lower()} {' '.join(map(str, keys))}"


def _changed_at(entry: StoredEntry) -> datetime:
    return effective_time(entry.occurred_at, entry.received_at, entry.received_at)


def _reason(result: Result, entry: StoredEntry) -> str:
    return _REASONS[result].format(
        address=f"the address {entry.recipient}" if entry.recipient else "its address",
        id=f"the message ID {entry.message_id}" if entry.message_id else "its message ID (none)",
    )


def _value(value: object) -> str:
    return format_time(value) if isinstance(value, datetime) else str(value or "null")


def printable(text: str, *, keep: str = "") -> str:
    """Escape control characters, line breaks, and characters that hide or reorder text.

    The characters in `keep` stay. Zero-width joiners are escaped, too, although some emoji and
    names in Persian and Indic scripts contain them: of two addresses that differ only in one,
    each must be recognizable.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else repr(each)[1:-1] for each in text
    )


def format_body(body: str) -> str:
    """Return the beginning of a body, with one line per value if it is JSON.

    It is escaped, except for line breaks and tabs.

    A body longer than `MAX_BODY_LENGTH` is not indented, because 1 MiB of nested values could
    become 1 GB: each line begins with its indentation.
    """
    text = body
    if len(body) <= MAX_BODY_LENGTH:
        with suppress(ValueError, RecursionError):
            text = msgspec.json.format(body, indent=2)
    formatted = printable(text[:MAX_BODY_LENGTH], keep="\n\t")
    if len(text) > MAX_BODY_LENGTH:
        formatted += f"\n... (truncated: the body has {len(body):,} characters)"
    return formatted


def format_time(time: datetime | None) -> str:
    """Format a time in UTC, to the second; None is "unknown"."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if time else "unknown"


def format_duration(duration: timedelta) -> str:
    """Format a duration in the largest unit that makes it at least 2. Negative ones are 0."""
    seconds = max(duration.total_seconds(), 0)
    for name, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {name}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def pluralize(number: int, noun: str) -> str:
    """Return a number and a noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
