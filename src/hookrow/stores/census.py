"""Counting the host's own rows: what reads whole tables, and so is never done on a request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol

from hookrow.notification import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount:
    """The dispatches of a list, and its subscriptions; `list` is None of those without one.

    `name` is known of lists in our own tables alone. `subscribed` and `suppressed` count
    subscriptions, the latter among the former; they are None where no table says.
    """

    list: Key | None
    name: str | None = None
    sent: int
    delivered: int
    opened: int
    subscribed: int | None = None
    suppressed: int | None = None


def by_list(
    sent: Iterable[Sequence[Any]],
    subscribed: Iterable[Sequence[Any]] | None,
    names: Mapping[Key, str] = MappingProxyType({}),
) -> Sequence[ListCount]:
    """Put together what was counted of each list: dispatches, and subscriptions if there are any.

    What has no list is left out where nothing of it was sent.
    """
    dispatches = {list_: counts for list_, *counts in sent}
    members = {list_: counts for list_, *counts in subscribed or ()}
    nobody = (None, None) if subscribed is None else (0, 0)
    return [
        ListCount(
            list=list_,
            name=None if list_ is None else names.get(list_),
            sent=counts[0],
            delivered=counts[1],
            opened=counts[2],
            subscribed=people[0],
            suppressed=people[1],
        )
        for list_ in sorted(dispatches.keys() | members.keys(), key=_order)
        for counts in (dispatches.get(list_, (0, 0, 0)),)
        if list_ is not None or any(counts)
        for people in (members.get(list_, nobody),)
    ]


def _order(list_: Key | None) -> tuple[bool, str, Any]:
    return list_ is not None, type(list_).__name__, list_


class Census(Protocol):
    """The rows of a store, but for those that its schema hides. They raise a `StoreError`."""

    def lists(self) -> Sequence[ListCount]:
        """Count by list, in the order of their keys; what has no list comes first."""

    def suppressed(self) -> Mapping[str | None, int]:
        """Count the suppressed subscribers by the reason that is kept, as text."""

    def sent(self, message_ids: Collection[str]) -> Mapping[str, datetime]:
        """Return when messages were sent; none where the table does not say."""
