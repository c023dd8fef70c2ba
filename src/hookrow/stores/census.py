"""Counting the host's own rows: what reads whole tables, and so is never done on a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hookrow.notification import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount:
    """The dispatches of a list, and its subscriptions; `list` is None of those without one.

    `subscribed` and `suppressed` count subscriptions, the latter among the former. They
    are None where no table says.
    """

    list: Key | None
    sent: int
    delivered: int
    opened: int
    subscribed: int | None = None
    suppressed: int | None = None


class Census(Protocol):
    """The rows of a store, but for those that its schema hides. They raise a `StoreError`."""

    def lists(self) -> Sequence[ListCount]:
        """Count by list, in the order of their keys; what has no list comes first."""

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by the reason that is kept, as text."""

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when messages were sent; none where the table does not say."""
