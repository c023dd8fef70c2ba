"""The page of totals: the counts of all rows, and those of each list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hookrow.dashboard._forms import BadRequest, Fields, parse
from hookrow.dashboard._queries import PAGE_SIZE, Context
from hookrow.dashboard._templating import View
from hookrow.stores.sql._row_counts import ListCount

LIST_FIELDS = ("list", "sort", "page")
"""The fields of the query: a part of a list's name or key, the order, and the number of a page."""

_SORTS: Mapping[str, Callable[[ListCount], Any]] = {
    "sent": lambda each: -each.sent,
    "delivered": lambda each: -each.delivered,
    "opened": lambda each: -each.opened,
    "subscribed": lambda each: -(each.subscribed or 0),
    "suppressed": lambda each: -(each.suppressed or 0),
    "name": lambda each: _name(each).casefold(),
}
"""The orders by name, the default first: the largest numbers first, or names alphabetically."""


def lists(context: Context, fields: Fields) -> View:
    """Show the counts of all dispatches, subscriptions and suppressions, by list and reason.

    Raises `BadRequest`.
    """
    sort = fields.get("sort", next(iter(_SORTS)))
    if sort not in _SORTS:
        raise BadRequest(f"sort must be one of {', '.join(_SORTS)}, not {sort[:50]!r}.")
    counts = context.statistics.table_counts()
    all_lists = counts.lists if counts else ()
    found = _search(all_lists, fields.get("list", ""))
    found = sorted(found, key=lambda each: (each.list is None, _SORTS[sort](each)))
    number = min(max(parse(fields, "page") or 1, 1), max(-(-len(found) // PAGE_SIZE), 1))
    start = (number - 1) * PAGE_SIZE
    values = {
        "title": "Totals",
        "counts": counts,
        "lists": found[start : start + PAGE_SIZE],
        "found": len(found),
        "first": start + 1,
        "number": number,
        "sort": sort,
        "sorts": {each: each for each in _SORTS},
        "filters": {name: fields[name] for name in ("list", "sort") if name in fields},
        "list_name": fields.get("list", ""),
        "by_list": any(each.list is not None for each in all_lists),
        "most_sent": max((each.sent for each in all_lists), default=0),
        "most_subscribed": max((each.subscribed or 0 for each in all_lists), default=0),
    }
    return View("lists.html", values)


def _search(all_lists: Sequence[ListCount], text: str) -> Sequence[ListCount]:
    """Return the lists whose names or keys contain a text, regardless of case."""
    part = text.strip().casefold()
    if not part:
        return all_lists
    return [each for each in all_lists if part in _name(each).casefold() or part == str(each.list)]


def _name(each: ListCount) -> str:
    return str(each.list if each.name is None else each.name)
