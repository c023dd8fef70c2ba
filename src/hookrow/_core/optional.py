"""Optional records: notifications that are recorded only if the schema has a column for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from hookrow._core.notification import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
)

OWN_DISPATCHES = "hookrow_dispatches"
"""The name of the table of dispatches that hookrow creates."""

RECORDS: Mapping[str, tuple[str, ...]] = {
    "click": ("clicked_at",),
    "bounce": ("bounced_at", "bounce_type"),
    "complaint": ("complained_at",),
    "first_open": ("first_opened_at",),
}
"""The columns of dispatches for each value of `Schema.record`, the required one first."""

OPTIONAL_COLUMNS = tuple(column for columns in RECORDS.values() for column in columns)
"""The columns of dispatches that a schema has only if it names or requests them."""

LONGEST_BOUNCE_TYPE = 64
"""The maximum length of a type, in characters, as in hookrow's own column. A longer type is stored
as null."""

Kinds: TypeAlias = frozenset[type[Notification]]

SUPPRESSIONS: Kinds = frozenset({Suppressed, Reactivated})
"""The kinds of notification that need no dispatch."""

ALWAYS: Kinds = SUPPRESSIONS | {Delivered, Opened}
"""The kinds of notification that every schema with dispatches records."""

OPTIONAL_KINDS: Mapping[str, type[Clicked | Bounced | Complained]] = {
    kind.column.value: kind for kind in (Clicked, Bounced, Complained)
}
"""The other kinds, by the column of their time."""


def recorded_kinds(columns: Collection[str]) -> Kinds:
    """Return the kinds of notification that dispatches with these columns record.

    Without dispatches, there are no columns, and only suppressions are recorded.
    """
    if not columns:
        return SUPPRESSIONS
    return ALWAYS | {kind for column, kind in OPTIONAL_KINDS.items() if column in columns}


def requested(record: Collection[str], table: str) -> Mapping[str, str]:
    """Return the names of the requested columns in this table, if it is hookrow's dispatches."""
    names = [column for each in record for column in RECORDS.get(each, ())]
    return {name: name for name in names} if table == OWN_DISPATCHES else {}


def faults_of_records(
    record: Collection[str], columns: Collection[str], table: str | None
) -> Iterator[str]:
    """Yield the reasons why dispatches with these columns cannot have the records.

    `table` is that of the dispatches, or None if the mapping has none.
    """
    for each in record:
        if each not in RECORDS:
            known = ", ".join(map(repr, RECORDS))
            yield f"`record` has {each!r}: use {known}."
        elif table is None:
            yield f"`record` has {each!r}, but `dispatches` is None: map them, or remove {each!r}."
        elif (column := RECORDS[each][0]) not in columns:
            yield (
                f"`record` has {each!r}, but {table!r} has no column {column!r}: map it in the "
                f"role 'dispatches', or remove {each!r}."
            )
    if "bounce_type" in columns and "bounced_at" not in columns:
        yield "The role 'dispatches' has 'bounce_type' without 'bounced_at': map both."
