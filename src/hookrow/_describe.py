"""Log entries and their values as text, for the command, the dashboard and the Django admin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec

from hookrow._core.changes import State
from hookrow._core.log_entry import StoredEntry, unescaped
from hookrow._core.notification import (
    DispatchEvent,
    Reactivated,
    Refused,
    RowId,
    Source,
    Suppressed,
)
from hookrow._core.optional import Kinds
from hookrow._core.result import MISSING, PARKED, RESULTS, Result
from hookrow._core.rules import effective_time, why_no_email, why_no_message_id
from hookrow._receiver.entries import Parsers, explain, field_names
from hookrow._receiver.replay import DryRun, parse_entry
from hookrow.providers._base import Event
from hookrow.providers._json import is_too_deep
from hookrow.stores._log import Query, Requests

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

MAX_BODY_LENGTH = 20_000
"""Characters to which a longer body is truncated."""

_MOST_ENTRIES = 10
"""How many entries of a receiver a text counts by name."""


_RESULT_REASONS = {
    Result.RECORDED: "",
    Result.SUBSCRIBER_NOT_FOUND: "no subscriber{visible} had {address}",
    Result.DISPATCH_NOT_FOUND: "no dispatch{visible} had {id}",
    Result.UNMAPPED: "the mapping had no dispatches",
    Result.RECIPIENT_MISMATCH: "the dispatch with {id} belonged to another subscriber",
    Result.UNSUPPORTED: "the payload is not supported{unknown}",
    Result.FAILED: "the database returned an error, or a row was locked",
    Result.TEST: "a test by the provider, which changes nothing",
}
"""Why a notification has a result."""


def describe_outcome(entry: StoredEntry, store: SQLStore, parsers: Parsers) -> str:
    """Describe the first and the current result of a notification, with the reasons.

    `store` is that of the log, and `parsers` are the receiver's entries.
    """
    changed = entry.outcome is not entry.first_outcome
    parts = []
    if reason := _reason(entry.first_outcome, entry, store, parsers):
        parts.append(reason + (" at first" if changed else ""))
    parts.append(count_tries(entry))
    took = format_duration(entry.ended_at - entry.received_at)
    if entry.outcome is Result.RECORDED:
        parts.append(f"recorded {took} later" if changed else f"recorded within {took}")
    elif changed:
        parts.append(f"{took} later, {_reason(entry.outcome, entry, store, parsers)}")
    if entry.retry_at:
        parts.append(f"next retry {format_time(entry.retry_at)}")
    elif entry.outcome in PARKED:
        parts.append("no further retries")
    return "; ".join(parts)


def count_tries(entry: StoredEntry) -> str:
    """Return how often the provider posted a notification, and how often hookrow retried it."""
    posts = pluralize(entry.attempts, "post")
    if not entry.retries:
        return posts
    return f"{posts}, {pluralize(entry.retries, 'retry', 'retries')}"


def format_result(entry: StoredEntry) -> str:
    """Return the time of the result, and its origin if that was not a request."""
    origins = {
        Source.SPOOL: ", from the spool",
        Source.REPLAY: ", from the log",
        Source.RECONCILE: ", from the provider's API",
    }
    return format_time(entry.ended_at) + origins.get(entry.source, "")


def other_changes(entry: StoredEntry, parsers: Parsers) -> Query | None:
    """Return the query for all changes of the entry's subscriber, or None if it changed nothing.

    If the entries are tenants, other tenants may have a subscriber with the same address.
    """
    if not entry.has_changed or not entry.recipient:
        return None
    name = entry.entry if parsers.have_tenants else None
    return Query(recipient=entry.recipient, changes=True, entry=name)


def superseding(entry: StoredEntry, changes: Iterable[StoredEntry]) -> StoredEntry | None:
    """Return the newest of the changes if it certainly occurred after the entry, otherwise None.

    An entry without an event time may have taken effect at any of its arrivals.
    """
    newest = max(changes, key=_changed_at, default=entry)
    latest = effective_time(entry.occurred_at, entry.last_received_at, entry.last_received_at)
    if _changed_at(newest) <= latest:
        return None
    return newest


def describe_change(entry: StoredEntry, parsers: Parsers) -> str:
    """Return the id, kind and time of a change of suppression.

    Without a reason and a body, it is unknown whether it was a suppression.
    """
    kind = "a change"
    if entry.reason:
        kind = "a suppression"
    elif change := find_change(entry, parsers):
        kind = "a suppression" if isinstance(change, Suppressed) else "a reactivation"
    return f"notification {entry.id}, {kind} of {format_time(_changed_at(entry))}"


def find_change(entry: StoredEntry, parsers: Parsers) -> Suppressed | Reactivated | None:
    """Return the first change of suppression in the body of an entry.

    Returns None if there is none, or if the body is missing or another provider's.
    """
    event = parse_entry(entry, parsers)
    for each in event.notifications if event else ():
        if isinstance(each, Suppressed | Reactivated):
            return each
    return None


def find_problem(entry: StoredEntry, parsers: Parsers, recorded: Kinds) -> str | None:
    """Return why a store that records these kinds does not support an entry, in sentences.

    Returns None if it does, or if that is not known.
    """
    own = parsers.parser_of(entry)
    if own is None or entry.body is None:
        return None
    # Only a body that is not JSON is ambiguous, so its parts that look like escapes do not matter.
    event = parse_entry(entry, parsers) or Event((), unescaped(entry.body))
    return explain(own, event, recorded)


def describe_refusal(outcome: Refused, entry: StoredEntry, parsers: Parsers) -> str:
    """Return the text of a refusal and, if no row can match the entry, the reason for that."""
    result = RESULTS[outcome.refusal]
    reason = _why_no_row(result, entry, parsers) if result in MISSING else None
    return f"{outcome.text} ({reason})" if reason else outcome.text


def describe_dry_run(dry_run: DryRun, entry: StoredEntry, parsers: Parsers) -> list[str]:
    """Describe each change of the dry run of an entry; if there is none, describe the rows.

    For example, a `suppression_changed_at` that is later shows why a suppression did not apply. A
    refusal comes first: an event that is refused for one of its notifications makes the changes of
    the others.
    """
    changed = [
        f"{format_row(row)}: {column} {_value(value)} -> {_value(dry_run.after[row][column])}"
        for row, state in dry_run.before.items()
        for column, value in state.items()
        if value != dry_run.after[row][column]
    ]
    if isinstance(dry_run.outcome, Refused):
        refusal = describe_refusal(dry_run.outcome, entry, parsers)
        refused = "would be refused in part" if changed else "would be refused"
        return [f"{refused}: {refusal}", *changed]
    if changed:
        return changed
    rows = [
        f"{format_row(row)} ({_describe_state(state)})" for row, state in dry_run.before.items()
    ]
    text = "would change nothing, because the rows already have these values, or newer ones"
    return [f"{text}: {', '.join(rows)}" if rows else text]


def format_row(row: RowId) -> str:
    """Return the kind and the key of a row."""
    kind, key = row
    keys = key if isinstance(key, tuple) else (key,)
    return f"{kind.name.lower()} {' '.join(map(str, keys))}"


def _describe_state(state: State) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in state.items())


def _changed_at(entry: StoredEntry) -> datetime:
    return effective_time(entry.occurred_at, entry.received_at, entry.received_at)


def _reason(result: Result, entry: StoredEntry, store: SQLStore, parsers: Parsers) -> str:
    """Return why a notification has a result; an empty string for `recorded`."""
    if result in MISSING and (impossible := _why_no_row(result, entry, parsers)):
        return impossible
    # After `hookrow log forget`, and without bodies, it is not known what the payload had.
    return _RESULT_REASONS[result].format(
        visible=" that `where` does not hide" if store.mapping_key else "",
        address=f"the address {visible(entry.recipient)}" if entry.recipient else "its address",
        id=f"the message ID {visible(entry.message_id)}" if entry.message_id else "its message ID",
        unknown=""
        if entry.body is not None
        else "; the reason is unknown, because its body is not kept",
    )


def _why_no_row(result: Result, entry: StoredEntry, parsers: Parsers) -> str | None:
    """Return why no row that is missing can exist: the payload has no usable key for it.

    Returns None if the row can exist, or if the body is unknown.
    """
    event, own = parse_entry(entry, parsers), parsers.parser_of(entry)
    if event is None or own is None:
        return None
    needs_dispatch = result is Result.DISPATCH_NOT_FOUND
    refused = [
        each
        for each in event.notifications
        if isinstance(each, DispatchEvent) or not needs_dispatch
    ]
    if not refused:
        return None
    recipient_name, id_name = field_names(own, refused[0])
    if needs_dispatch:
        name, value, why = id_name, refused[0].message_id, why_no_message_id
    else:
        name, value, why = recipient_name, refused[0].recipient, why_no_email
    if value is None:
        return f"the payload has no {name} that is a string"
    fault = why(value)
    return fault and f"the payload's {name} {fault}"


def _value(value: object) -> str:
    if value is None or value == "":  # which is read as null: see `Role.empty`
        return "null"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_time(value) if isinstance(value, datetime) else str(value)


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


def visible(value: str) -> str:
    """Return a value as `printable` does, with the spaces at its start and its end escaped, too."""
    inner = value.strip(" ")
    before = len(value) - len(value.lstrip(" "))
    after = len(value) - len(inner) - before
    return _SPACE * before + printable(inner) + _SPACE * after


_SPACE = r"\x20"


def format_body(body: str) -> str:
    """Return the beginning of a body, with one line per value if it is JSON.

    It is escaped, except for line breaks and tabs.

    A body that is longer than `MAX_BODY_LENGTH` or nested too deeply is not indented, because 1 MiB
    of nested values could become 1 GB: each line begins with its indentation.
    """
    text = body
    if len(body) <= MAX_BODY_LENGTH and not is_too_deep(body.encode(errors="replace")):
        with suppress(ValueError):
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


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and a noun, in the plural unless the number is 1: `plural`, or with an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def describe_unauthentic(requests: Mapping[str, Requests]) -> str:
    """Describe the requests of `Present.unauthentic`, as the subject of a sentence."""
    counts = {entry: each.number for entry, each in requests.items()}
    total = pluralize(sum(counts.values()), "request")
    return f"{total} with a missing or wrong secret in the last day{describe_by_entry(counts)}"


def describe_by_entry(counts: Mapping[str, int]) -> str:
    """Return counts by the name of the receiver's entry as text in parentheses, largest first.

    The name is empty if the receiver has a single provider. The text is empty if no count has a
    name.
    """
    if not any(counts):
        return ""
    largest = nlargest(_MOST_ENTRIES, counts.items(), key=itemgetter(1))
    texts = [f"{name or 'without a name'}: {count:,}" for name, count in largest]
    if others := sum(counts.values()) - sum(count for _, count in largest):
        texts.append(f"others: {others:,}")
    return f" ({', '.join(texts)})"
