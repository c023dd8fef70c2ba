"""What became of a notification, in words: for the command, and whoever shows the log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from hookrow.core.log_entry import RECORD_TYPES, Result, StoredEntry
from hookrow.core.notification import Reactivated, Recorded, RowId, Source, Suppressed
from hookrow.core.rules import believable
from hookrow.providers import Parse
from hookrow.receiver.replay import DryRun
from hookrow.stores.log import Query

LONGEST_BODY = 20_000
"""In characters; how much of a body is shown."""

_CHANGE = RECORD_TYPES[Suppressed]
_KINDS: Mapping[type[object], str] = {Suppressed: "a suppression", Reactivated: "a reactivation"}

_WHY = {
    Result.SUBSCRIBER_NOT_FOUND: "nobody had {address}",
    Result.DISPATCH_NOT_FOUND: "no dispatch had {id}",
    Result.RECIPIENT_MISMATCH: "the dispatch with {id} was another subscriber's",
    Result.UNSUPPORTED: "its type was not supported, or something that it needs was missing",
    Result.FAILED: "the database failed at it, or one of its rows was held",
}


def describe_outcome(entry: StoredEntry) -> str:
    """Tell how it ended and why, in a sentence."""
    parts = []
    if entry.first_outcome in _WHY:
        parts.append(f"{_why(entry.first_outcome, entry)} when it came")
    parts.append(pluralize(entry.attempts, "attempt"))
    took = _long(entry.ended_at - entry.received_at)
    if entry.outcome is Result.RECORDED:
        parts.append(f"recorded {took} later" if len(parts) > 1 else f"recorded within {took}")
    elif entry.outcome is not entry.first_outcome:
        parts.append(f"{took} later {_why(entry.outcome, entry)}")
    if entry.retry_at:
        parts.append(f"tried again {format_time(entry.retry_at)}")
    elif entry.outcome not in {Result.RECORDED, Result.UNSUPPORTED}:
        parts.append("not tried again any more")
    return "; ".join(parts)


def format_result(entry: StoredEntry) -> str:
    """Tell when it ended so, and from where it came then unless in a request."""
    by = {Source.SPOOL: ", from the spool", Source.REPLAY: ", from the log"}
    return format_time(entry.ended_at) + by.get(entry.source or Source.LIVE, "")


def other_changes(entry: StoredEntry) -> Query | None:
    """Return the query of all changes of the entry's subscriber; None if it changed nothing."""
    if entry.record_type != _CHANGE or entry.outcome is not Result.RECORDED or not entry.recipient:
        return None
    return Query(recipient=entry.recipient, record_type=_CHANGE, outcome=Result.RECORDED)


def superseding(entry: StoredEntry, changes: Iterable[StoredEntry]) -> StoredEntry | None:
    """Return the newest of some changes if it certainly happened after the entry's own.

    An entry that does not say when it happened may count as of any of its arrivals.
    """
    newest = max(changes, key=_changed_at, default=entry)
    if _changed_at(newest) <= believable(entry.occurred_at, entry.last_received_at):
        return None
    return newest


def describe_change(entry: StoredEntry, parse: Parse) -> str:
    """Name an entry that changes a suppression, with its time.

    Without a reason and a body, it is unknown whether it was a suppression.
    """
    kind = Suppressed if entry.reason else type(parse((entry.body or "").encode()))
    return f"entry {entry.id}, {_KINDS.get(kind, 'a change')} of {format_time(_changed_at(entry))}"


def describe_dry_run(dry_run: DryRun) -> list[str]:
    """Describe the changes of a dry run, row by row."""
    if not isinstance(dry_run.outcome, Recorded):
        return [f"would be refused: {dry_run.outcome.text}"]
    changed = [
        f"{_name(row)}: {column} {_shown(state[column])} -> {_shown(dry_run.after[row][column])}"
        for row, state in dry_run.before.items()
        for column in state
        if state[column] != dry_run.after[row][column]
    ]
    return changed or ["would change nothing: its rows have it, or something newer"]


def _changed_at(entry: StoredEntry) -> datetime:
    return believable(entry.occurred_at, entry.received_at)


def _why(ending: Result, entry: StoredEntry) -> str:
    return _WHY[ending].format(
        address=f"the address {entry.recipient}" if entry.recipient else "its address",
        id=f"the id {entry.message_id}" if entry.message_id else "its id, for it named none",
    )


def _name(row: RowId) -> str:
    kind, key = row
    keys = key if isinstance(key, tuple) else (key,)
    return f"{kind.name.lower()} {' '.join(map(str, keys))}"


def _shown(value: object) -> str:
    return format_time(value) if isinstance(value, datetime) else str(value or "null")


def printable(text: str) -> str:
    """Escape what a terminal would obey, or what would look like another line."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def format_body(body: str) -> str:
    """Return the beginning of a body, printable, with a line for each value if it is JSON.

    A body longer than `LONGEST_BODY` is not laid out.
    """
    parts, length = [], 0
    for part in _laid_out(body):
        parts.append(part)
        length += len(part)
        if length > LONGEST_BODY:
            break
    lines = "".join(parts)[:LONGEST_BODY].split("\n")
    more = f"\n... (cut: the body has {len(body):,} characters)" if length > LONGEST_BODY else ""
    return "\n".join(map(printable, lines)) + more


def _laid_out(body: str) -> Iterator[str]:
    """Yield a body piece by piece.

    The library that indents JSON makes all of it: 18 MB of 20,000 characters that are nested 900
    levels deep, because each line begins with its indentation.
    """
    compact = _compact(body) if len(body) <= LONGEST_BODY else None
    if compact is None:
        yield body
        return
    level = 0
    for token in _TOKEN.findall(compact):
        match token:
            case "{" | "[":
                level += 1
                yield f"{token}\n{'  ' * level}"
            case "}" | "]":
                level -= 1
                yield f"\n{'  ' * level}{token}"
            case ",":
                yield f",\n{'  ' * level}"
            case ":":
                yield ": "
            case _:
                yield token


def _compact(body: str) -> str | None:
    """Return JSON without the blanks between its tokens; None for what is no JSON."""
    try:
        return msgspec.json.format(body, indent=-1)
    except (ValueError, RecursionError):
        return None


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{\}|\[\]|[{}\[\],:]|[^"{}\[\],:]+')


def format_time(time: datetime | None) -> str:
    """Write a time in UTC, to the second."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if time else "unknown"


def pluralize(number: int, what: str) -> str:
    """Write a number of things."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _long(time: timedelta) -> str:
    seconds = time.total_seconds()
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
