"""Counting the rows of the memory store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hookrow.notification import Key
from hookrow.stores.census import ListCount, by_list

_SENT = ("provider_message_id", "delivered_at", "opened_at")


@dataclass(frozen=True, slots=True)
class MemoryCensus:
    """The three tables, each by its key."""

    subscribers: Mapping[Key, Mapping[str, Any]]
    dispatches: Mapping[Key, Mapping[str, Any]]
    subscriptions: Mapping[tuple[Key, Key], Mapping[str, Any]]

    def lists(self) -> Sequence[ListCount]:
        """Count by list."""
        sent: defaultdict[Key | None, list[int]] = defaultdict(lambda: [0] * len(_SENT))
        for row in list(self.dispatches.values()):
            counts = sent[row.get("list_id")]
            for place, name in enumerate(_SENT):
                counts[place] += row.get(name) is not None
        members: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0])
        for (list_, _), row in list(self.subscriptions.items()):
            members[list_][0] += 1
            members[list_][1] += row.get("suppressed_at") is not None
        return by_list(
            [(list_, *counts) for list_, counts in sent.items()],
            [(list_, *counts) for list_, counts in members.items()],
        )

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by reason."""
        return Counter(
            row.get("suppression_reason")
            for row in list(self.subscribers.values())
            if row.get("suppressed_at") is not None
        )

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when messages were sent: their `sent_at`, where a row has one."""
        wanted = set(message_ids)
        return {
            row["provider_message_id"]: row["sent_at"]
            for row in list(self.dispatches.values())
            if row.get("provider_message_id") in wanted and row.get("sent_at") is not None
        }
