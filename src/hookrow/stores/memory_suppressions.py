"""The suppressed subscribers of a memory store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from hookrow.core.log_entry import RECORD_TYPES
from hookrow.core.notification import Key, Suppressed
from hookrow.core.result import Result
from hookrow.stores.log import HIGHEST, Query
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.suppressions import Filter, LoggedChange, Position, Span, Suppression


class MemorySuppressions:
    """A `SuppressionReader` of the rows, by key, and the log of a memory store."""

    def __init__(
        self,
        subscribers: Mapping[Key, Mapping[Any, Any]],
        subscriptions: Collection[tuple[Key, Key]],
        log: MemoryLog | None,
    ) -> None:
        self._subscribers, self._subscriptions, self._log = subscribers, subscriptions, log

    def plan(self, selected: Filter) -> Filter:
        """See `SuppressionReader`."""
        return selected

    def step(self, span: Span, rows: int, since: datetime | None) -> Position | None:
        """See `SuppressionReader`."""
        found = self.read(span, Filter(since=since), limit=rows)
        return found[-1].position if len(found) == rows else None

    def read(self, span: Span, selected: Filter, *, limit: int) -> Sequence[Suppression]:
        """See `SuppressionReader`."""
        rows = []
        for key, row in list(self._subscribers.items()):
            at, reason = row.get("suppressed_at"), row.get("suppression_reason") or ""
            if (
                at is not None
                and selected.reason in {None, reason}
                and (selected.list is None or (selected.list, key) in self._subscriptions)
                and (selected.since is None or at >= selected.since)
            ):
                text = at.astimezone(UTC).isoformat(" ", "microseconds")
                rows.append(Suppression(row["email"], reason, at, Position(text, str(key))))
        rows.sort(key=attrgetter("position"), reverse=not span.oldest)
        return [each for each in rows if _is_within(each.position, span)][:limit]

    def count(self, span: Span, selected: Filter, *, limit: int) -> int:
        """See `SuppressionReader`."""
        return len(self.read(span, selected, limit=limit))

    def lists(self, *, limit: int) -> Mapping[Key, str]:
        """See `SuppressionReader`."""
        keys = {list_ for list_, _ in list(self._subscriptions)}
        return {key: str(key) for key in sorted(keys, key=str)[:limit]}

    def changes(self, recipients: Collection[str], *, limit: int) -> Sequence[LoggedChange]:
        """See `SuppressionReader`."""
        query = Query(record_type=RECORD_TYPES[Suppressed], outcome=Result.RECORDED)
        entries = self._log.newest(query, limit=HIGHEST, bodies=False) if self._log else ()
        return [
            LoggedChange(*(getattr(each, name) for name in LoggedChange._fields))
            for each in entries
            if each.recipient in recipients
        ][:limit]

    def reason_name(self, stored: str) -> str:
        """Return the reason: no mapping applies."""
        return stored


def _is_within(position: Position, span: Span) -> bool:
    if span.oldest:
        return (span.after is None or position > span.after) and (
            span.end is None or position <= span.end
        )
    return (span.after is None or position < span.after) and (
        span.end is None or position >= span.end
    )
