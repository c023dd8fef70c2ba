"""The SQL that selects rows of the log, and their conversion to entries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from hookrow._core.log_entry import RECORD_TYPES, StoredEntry
from hookrow._core.notification import Source, Suppressed
from hookrow._core.result import PARKED, SUBSCRIBER_FOUND, Result
from hookrow.stores._log import KNOWN_TYPES, Query
from hookrow.stores.sql._dialects.base import Dialect, utc

LOG_COLUMNS = StoredEntry.__struct_fields__
"""The columns that are read, in order."""

ALL_COLUMNS = ", ".join(LOG_COLUMNS)
"""All columns of an entry."""

BODILESS = ", ".join("NULL" if name == "body" else name for name in LOG_COLUMNS)
"""All columns of an entry except the body."""

_READ: Mapping[str, Callable[[Any], Any]] = {
    **{name: utc for name in LOG_COLUMNS if name.endswith("_at")},
    **dict.fromkeys(("outcome", "first_outcome"), Result),
    "fingerprint": bytes,
    "source": Source,
}
"""The conversions of the driver's values by column; other values need none."""

ID_IS_WITHIN = "id BETWEEN %s AND %s"


def has_outcome(table: str, results: Collection[Result]) -> str:
    """Return the condition that an entry has one of the outcomes, as constants.

    The planner then finds a partial index with the same condition.
    """
    names = ", ".join(f"'{name}'" for name in sorted(each.value for each in results))
    return f"{table}.outcome IN ({names})" if table else f"outcome IN ({names})"


IS_CHANGE = f"(record_type = '{RECORD_TYPES[Suppressed]}' OR reason IS NOT NULL)"
"""The condition of events that change a suppression, which is that of an index or a column."""

HAS_CHANGED = f"{IS_CHANGE} AND {has_outcome('', SUBSCRIBER_FOUND)}"
"""The condition of those of them that have found their subscriber (`Query.changes`)."""

_EXPIRED = f"retry_at IS NULL AND body IS NOT NULL AND {has_outcome('', PARKED)}"
"""The condition of expired entries (`Query.expired`), which is that of an index or a column."""


def conditions(
    dialect: Dialect, first: str, given: Sequence[Any], query: Query, *, ordered: bool = False
) -> tuple[str, Sequence[Any]]:
    """Return the first condition and those of the query, and their parameters.

    `ordered` states that they select the first rows in the order of the ids.
    """
    found, values = [first], [*given]
    for name, value in query.equal.items():
        # Of the expired entries, only their own index has the first ones.
        column = dialect.without_index(name) if query.expired and ordered else name
        if query.changes and name == "recipient":
            column = dialect.changed_recipient
        found.append(f"{column} = %s")
        values.append(value)
    if isinstance(query.ids, range) and query.ids.step == 1:
        found.append(ID_IS_WITHIN)
        values += [query.ids.start, query.ids.stop - 1]
    elif query.ids is not None:
        found.append(dialect.any_of("id", dialect.id_type))
        values.append(dialect.encode(query.ids))
    for operator, time in ((">=", query.since), ("<", query.until)):
        if time is not None:
            found.append(f"received_at {operator} %s")
            values.append(time)
    if query.other_types:
        marks = ", ".join(["%s"] * len(KNOWN_TYPES))
        found.append(f"(record_type IS NULL OR record_type NOT IN ({marks}))")
        values += KNOWN_TYPES
    found += _without_values(dialect, query)
    return " AND ".join(found), list(map(dialect.write, values))


def _without_values(dialect: Dialect, query: Query) -> Iterator[str]:
    """Yield the conditions of a query that have no parameters."""
    if query.parked:
        yield "retry_at IS NOT NULL"
    if query.expired:
        yield f"{dialect.is_expired} = 1" if dialect.is_expired else _EXPIRED
    if query.changes:
        yield HAS_CHANGED
    if query.posted:
        yield "attempts > 0 AND provider IS NOT NULL"


def stored_entry(row: Sequence[Any]) -> StoredEntry:
    """Return the entry in a row of `ALL_COLUMNS` or `BODILESS`."""
    named = zip(LOG_COLUMNS, row, strict=True)
    return StoredEntry(*(_READ[name](value) if name in _READ else value for name, value in named))
