"""What a change writes: the columns, their new values, and the guard.

The stores' statements are built from this, and pages, reconciliation and tests compare rows with
it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias

from hookrow._core.notification import Change, EventTime, SetSuppression, SetTime, Suppressible

Target: TypeAlias = EventTime | Suppressible
"""The target of a change: a time of a dispatch, or the suppression of a kind of row."""

State: TypeAlias = Mapping[str, Any]
"""The columns of a row that notifications set, by hookrow's names.

A boolean column in place of a time is True or False."""


class Write(NamedTuple):
    """The columns of a target, of which a row is given those that its table has, and the guard.

    A guarded change is written only if the column `guard` is null, or if its value and the time of
    the change satisfy the operator `holds`.
    """

    columns: Sequence[str]
    guard: str
    holds: Literal["<", "<=", ">"] = "<"
    """The operator that must hold between the stored value and the change's time."""


_SUPPRESSION_WRITE = Write(
    ("suppressed_at", "suppression_reason", "suppression_changed_at"),
    guard="suppression_changed_at",
    holds="<=",
)

WRITES: Mapping[Target, Write] = {
    **{time: Write((time.value,), guard=time.value) for time in EventTime},
    EventTime.FIRST_OPENED: Write(("first_opened_at",), guard="first_opened_at", holds=">"),
    # Of equal bounces, the last one's type is kept.
    EventTime.BOUNCED: Write(("bounced_at", "bounce_type"), guard="bounced_at", holds="<="),
    **dict.fromkeys(Suppressible, _SUPPRESSION_WRITE),
}
"""The columns and the guard of each target."""

_OPERATORS: Mapping[str, Callable[[datetime, datetime], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
}


def new_values(
    change: Change, reason: Callable[[str], Any], empty: str | None = None
) -> dict[str, Any]:
    """Return the new value of each column in `WRITES`, by hookrow's names.

    `reason` returns the host's value for a reason, and `empty` is the value for no reason: null,
    unless the value is to be stored in a column that does not allow it.
    """
    if isinstance(change, SetTime):
        values: dict[str, Any] = {change.column._value_: change.at}  # faster than `value`
        if change.column is EventTime.BOUNCED:
            values["bounce_type"] = change.bounce_type
        return values
    return {
        "suppressed_at": None if change.reason is None else change.at,
        "suppression_reason": empty if change.reason is None else reason(change.reason),
        "suppression_changed_at": change.at,
    }


def as_state(new: Mapping[str, Any], state: State) -> dict[str, Any]:
    """Return new values as a row has them in its state, with flags in place of times."""
    return {
        name: value is not None if isinstance(state.get(name), bool) else value
        for name, value in new.items()
    }


def target(change: Change) -> Target:
    """Return what a change sets."""
    return change.column if isinstance(change, SetTime) else change.kind


def applies(change: Change, last: datetime | None) -> bool:
    """Return whether a change applies to a row whose guard has this value; None is null."""
    if not change.guarded or last is None:
        return True
    return _OPERATORS[WRITES[target(change)].holds](last, change.at)


def is_news(change: Change, state: Mapping[str, Any]) -> bool:
    """Return whether a late change would alter a row, given its columns.

    A suppression that is as old as the last one is no news, even if its reason is another: the
    provider lists one for each stream. If the last change has no date, it is that of the
    suppression. A flag without a date is news only if it would change.
    """
    if isinstance(change, SetTime):
        at = state.get(change.column.value)
        if isinstance(at, bool):
            return not at
        return at != change.at and applies(change, at)
    suppressed, changed = state.get("suppressed_at"), state.get("suppression_changed_at")
    known = [at for at in (suppressed, changed) if isinstance(at, datetime)]
    if suppressed is True and not known:
        return change.reason is None
    return all(at < change.at for at in known) and (change.reason is not None or bool(suppressed))


def is_ignored(
    change: Change,
    new: Mapping[str, Any],
    after: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    *,
    last: datetime | None = None,
) -> bool:
    """Return whether a database has ignored a change that the guard admits.

    `new` are the change's values, `after` and `before` the columns of the row that notifications
    set, all by hookrow's names; `last` is the date of the last change if no column has it. A change
    is not ignored if the row has its values, or newer ones; nor if it has changed in another way
    since `before`, by a trigger of the host's that stores other values. Without `before`, such a
    change counts as ignored.
    """
    if isinstance(change, SetTime):
        reflected = _is_time_reflected(change, after)
    else:
        reflected = _is_suppression_reflected(change, new, after, last)
    if reflected:
        return False
    return before is None or all(before.get(name) == after.get(name) for name in new)


def _is_time_reflected(change: SetTime, state: Mapping[str, Any]) -> bool:
    at = state.get(change.column.value)
    if isinstance(at, bool):
        return at
    return at is not None and (_is_close(at, change.at) or not applies(change, at))


def _is_suppression_reflected(
    change: SetSuppression,
    new: Mapping[str, Any],
    state: Mapping[str, Any],
    last: datetime | None,
) -> bool:
    last = state.get("suppression_changed_at", last)
    if not applies(change, last):
        return True
    is_dated = _is_close(last, change.at)
    has_reason = "suppression_reason" not in state or _is_kept(
        state["suppression_reason"], new["suppression_reason"]
    )
    if change.reason is not None and "suppressed_at" in state:
        # A view may store only this time. With the date, another reason is an earlier change's.
        suppressed = state["suppressed_at"]
        is_stored = suppressed is True or _is_close(suppressed or None, change.at)
        return is_stored and (has_reason or not is_dated)
    return (is_dated or not change.guarded) and has_reason and not state.get("suppressed_at")


def _is_kept(stored: object, reason: object) -> bool:
    """Return whether a column holds a reason, which a host may store as a number or an enum.

    A column may have a question mark instead of a character that its character set lacks.
    """
    if stored is None or reason is None:
        return stored is reason
    pairs = zip_longest(str(stored), str(reason))
    return all(kept in {given, "?"} and given for kept, given in pairs)


def _is_close(stored: datetime | None, at: datetime) -> bool:
    """Return whether a stored time is that of a change: a column may store whole seconds."""
    return stored is not None and abs(stored - at) < timedelta(seconds=1)
