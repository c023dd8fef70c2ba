"""Values of the counts and lists of the host's rows: the results of `sql._row_counts`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from hookrow._core.notification import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCount:
    """The dispatches and subscriptions of a list; `list` is None for those without a list.

    Only lists in hookrow's own tables have a `name`. `subscribed` counts all subscriptions, and
    `suppressed` those that are suppressed; they are None if no table stores them.
    """

    list: Key | None
    name: str | None = None
    sent: int
    delivered: int
    opened: int
    subscribed: int | None = None
    suppressed: int | None = None


class DispatchCursor(NamedTuple):
    """A position in the order of `SQLRowCounts.list_undelivered`.

    It consists of a time as the table stores it, or None if it is not known, and a key.
    """

    sent_at: Any
    id: Any


class Undelivered(NamedTuple):
    """A dispatch with a message id that is not delivered; `sent_at` (UTC) is None if not known."""

    message_id: str
    sent_at: datetime | None
    cursor: DispatchCursor


def by_list(
    sent: Iterable[Sequence[Any]],
    subscribed: Iterable[Sequence[Any]] | None,
    names: Mapping[Key, str],
) -> Sequence[ListCount]:
    """Combine the counts of dispatches with those of subscriptions, if there are any.

    Each count begins with its list. Rows without a list are omitted if none of them was sent.
    """
    dispatches = {list_: counts for list_, *counts in sent}
    members = {list_: counts for list_, *counts in subscribed or ()}
    none = (None, None) if subscribed is None else (0, 0)
    return [
        ListCount(
            list=list_,
            name=None if list_ is None else names.get(list_),
            **dict(zip(_SENT, dispatches.get(list_, (0, 0, 0)), strict=True)),
            **dict(zip(_MEMBERS, members.get(list_, none), strict=True)),
        )
        for list_ in sorted(dispatches.keys() | members.keys(), key=_order)
        if list_ is not None or any(dispatches.get(None, ()))
    ]


_SENT, _MEMBERS = ("sent", "delivered", "opened"), ("subscribed", "suppressed")


def _order(list_: Key | None) -> tuple[bool, str, Any]:
    return list_ is not None, type(list_).__name__, list_
