"""What a change writes, and whether it applies to a row and has changed it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from copying import replace
from hookrow._core.changes import WRITES, applies, is_ignored, is_news, new_values, target
from hookrow._core.notification import (
    Change,
    EventTime,
    RowId,
    SetSuppression,
    SetTime,
    Suppressible,
)
from hookrow._core.schema import Schema

NOW = datetime(2026, 3, 5, 12, 0, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(hours=3)
DAY = timedelta(hours=24)

SUBSCRIBER: RowId = (Suppressible.SUBSCRIBER, 1)

CHANGES: list[Change] = [
    *(SetTime(11, time, NOW, guarded=True) for time in EventTime),
    *(SetSuppression(kind, 1, NOW, "HardBounce", guarded=True) for kind in Suppressible),
]
"""A change of each target."""

assert {*map(target, CHANGES)} == {*WRITES}


@pytest.mark.parametrize("change", CHANGES)
def test_each_target_has_values_for_its_columns(change: Change) -> None:
    """Among them is the column of the guard, with the time of the change."""
    values, write = new_values(change, str), WRITES[target(change)]
    assert tuple(values) == write.columns
    assert values[write.guard] == change.at


def test_new_values() -> None:
    """A bounce has a type or null; a reason is the host's value, and `empty` if there is none."""
    bounce = SetTime(11, EventTime.BOUNCED, NOW, guarded=False, bounce_type="Blocked")
    assert new_values(bounce, str) == {"bounced_at": NOW, "bounce_type": "Blocked"}
    untyped = SetTime(11, EventTime.BOUNCED, NOW, guarded=False)
    assert new_values(untyped, str) == {"bounced_at": NOW, "bounce_type": None}
    reason = Schema(reasons={"HardBounce": 1, "*": 9}).reason
    assert new_values(OFF, reason, "") == _row(NOW, NOW, 1)
    for empty in (None, ""):
        assert new_values(ON, reason, empty) == _row(None, NOW, empty)


@pytest.mark.parametrize(
    ("change", "earlier", "equal", "later"),
    [
        (SetTime(11, EventTime.DELIVERED, NOW, guarded=False), True, True, True),
        # A time that a row has already is not written again, but a bounce may have another type.
        (SetTime(11, EventTime.DELIVERED, NOW, guarded=True), True, False, False),
        (SetTime(11, EventTime.BOUNCED, NOW, guarded=True), True, True, False),
        (SetTime(11, EventTime.FIRST_OPENED, NOW, guarded=True), False, False, True),
        (SetSuppression(*SUBSCRIBER, NOW, None, guarded=True), True, True, False),
    ],
)
def test_a_change_applies(change: Change, *, earlier: bool, equal: bool, later: bool) -> None:
    """Whether it does if the row's last change was earlier, at the same time, or later."""
    assert applies(change, None)
    assert applies(change, NOW - timedelta(seconds=1)) is earlier
    assert applies(change, NOW) is equal
    assert applies(change, NOW + timedelta(seconds=1)) is later


NEWER, SOON = NOW + timedelta(minutes=1), NOW + timedelta(milliseconds=900)
LIVE = SetTime(11, EventTime.DELIVERED, NOW, guarded=False)
LATE = SetTime(11, EventTime.DELIVERED, NOW, guarded=True)
FIRST = SetTime(11, EventTime.FIRST_OPENED, NOW, guarded=True)
OFF = SetSuppression(*SUBSCRIBER, NOW, "HardBounce", guarded=True)
ON = SetSuppression(*SUBSCRIBER, NOW, None, guarded=True)
UNDATED = SetSuppression(*SUBSCRIBER, NOW, "HardBounce", guarded=False)


def _flag(changed_at: datetime, *, on: bool) -> dict[str, Any]:
    """Return the columns of a suppression whose time is a flag."""
    return {"suppressed_at": on, "suppression_changed_at": changed_at}


def _row(
    at: datetime | None, changed_at: datetime | None, *reason: str | int | None
) -> dict[str, Any]:
    """Return the columns of a suppression, with a reason if the table stores it."""
    named = {"suppressed_at": at, "suppression_changed_at": changed_at}
    return named | dict(zip(["suppression_reason"], reason, strict=False))


@pytest.mark.parametrize(
    ("change", "after", "last", "ignored"),
    [
        *((LIVE, {"delivered_at": NOW}, None, False), (LIVE, {"delivered_at": None}, None, True)),
        *((LIVE, {"delivered_at": SOON}, None, False), (LIVE, {"delivered_at": NEWER}, None, True)),
        # A guard protects a newer time, and the first open.
        *((LATE, {"delivered_at": NEWER}, None, False), (LATE, {}, None, True)),
        (LATE, {"delivered_at": EARLIER}, None, True),
        (FIRST, {"first_opened_at": EARLIER}, None, False),
        (FIRST, {"first_opened_at": NEWER}, None, True),
        *((OFF, _row(NOW, NOW), None, False), (OFF, _row(None, NEWER), None, False)),
        *((OFF, _row(None, EARLIER), None, True), (OFF, _row(None, None), None, True)),
        *((ON, _row(None, NOW), None, False), (ON, _row(EARLIER, EARLIER), None, True)),
        # A row that is active already needs the date, which protects it from older changes.
        *((ON, _row(None, EARLIER), None, True), (ON, _row(None, None), None, True)),
        *((OFF, _row(NOW, NOW, "HardBounce"), None, False), (OFF, _row(NOW, NOW, "x"), None, True)),
        *((ON, _row(None, NOW, None), None, False), (ON, _row(None, NOW, "x"), None, True)),
        # A view may store only the first of the columns.
        *((OFF, _row(NOW, None, "x"), None, False), (OFF, _row(NOW, EARLIER, None), None, False)),
        # The date is beside the log, or nowhere.
        *((OFF, {"suppressed_at": None}, NEWER, False), (OFF, {"suppressed_at": None}, NOW, True)),
        *((OFF, {"suppressed_at": NOW}, NOW, False), (ON, {"suppressed_at": None}, None, True)),
        *((UNDATED, {"suppressed_at": NOW}, None, False), (UNDATED, {}, None, False)),
        (UNDATED, {"suppressed_at": EARLIER}, None, True),
        # A flag stands for a time.
        *((LATE, {"delivered_at": True}, None, False), (LATE, {"delivered_at": False}, None, True)),
        *((OFF, {"suppressed_at": True}, NOW, False), (OFF, {"suppressed_at": False}, NOW, True)),
        *((ON, {"suppressed_at": False}, NOW, False), (ON, {"suppressed_at": True}, NOW, True)),
        *((OFF, _flag(NEWER, on=False), None, False), (ON, _flag(NOW, on=True), None, True)),
    ],
    ids=map(str, range(37)),
)
def test_a_change_that_the_database_ignores(
    change: Change, after: dict[str, Any], last: datetime | None, *, ignored: bool
) -> None:
    """The row has neither its values nor newer ones, nor any that it did not have before."""
    new = new_values(change, str)
    assert is_ignored(change, new, after, last=last) is ignored
    assert is_ignored(change, new, after, after, last=last) is ignored
    before = dict.fromkeys(after, EARLIER - DAY)
    assert is_ignored(change, new, after, before, last=last) is (ignored and not after)
    other = {"clicked_at": NOW}
    assert is_ignored(change, new, after | other, after, last=last) is ignored


@pytest.mark.parametrize(
    ("stored", "is_kept"), [("Spam ?", True), ("Spam", False), ("Spam ??", False), ("?", False)]
)
def test_a_reason_with_a_character_that_the_column_lacks(stored: str, *, is_kept: bool) -> None:
    """A question mark stands for the character."""
    change = replace(OFF, reason="Spam \N{SNOWMAN}")
    new = new_values(change, str)
    assert is_ignored(change, new, _row(NOW, NOW, stored)) is not is_kept


@pytest.mark.parametrize("stored", [3, "3"], ids=["number", "text"])
def test_the_reason_that_a_host_stores(stored: str | int) -> None:
    """A host may store numbers, in a column of numbers or of text."""
    after = _row(NOW, NOW, stored)
    assert not is_ignored(OFF, new_values(OFF, lambda _: 3), after)
    assert is_ignored(OFF, new_values(OFF, lambda _: 4), after)


@pytest.mark.parametrize(
    ("change", "state", "news"),
    [
        *((LATE, {"delivered_at": at}, new) for at, new in ((None, True), (NOW, False))),
        *((LATE, {"delivered_at": at}, new) for at, new in ((EARLIER, True), (NEWER, False))),
        *((FIRST, {"first_opened_at": at}, new) for at, new in ((EARLIER, False), (NEWER, True))),
        *((OFF, _row(None, at), new) for at, new in ((None, True), (EARLIER, True))),
        *((OFF, _row(None, at), new) for at, new in ((NOW, False), (NEWER, False))),
        # Without a date of the last change, that of the suppression counts.
        *((OFF, {"suppressed_at": at}, new) for at, new in ((EARLIER, True), (NOW, False))),
        # Only a suppression can be lifted.
        *((ON, _row(at, EARLIER), new) for at, new in ((EARLIER, True), (None, False))),
        # A second stream has the same suppression.
        (OFF, _row(NOW, NOW, "SpamComplaint"), False),
        # A flag without a date is news if it changes; one with a date, if the change is newer.
        *((LATE, {"delivered_at": at}, new) for at, new in ((False, True), (True, False))),
        *((OFF, {"suppressed_at": at}, new) for at, new in ((False, True), (True, False))),
        *((ON, {"suppressed_at": at}, new) for at, new in ((False, False), (True, True))),
        *((OFF, _flag(at, on=True), new) for at, new in ((EARLIER, True), (NOW, False))),
        *((ON, _flag(EARLIER, on=on), on) for on in (False, True)),
    ],
    ids=map(str, range(25)),
)
def test_a_late_change_is_news(change: Change, state: dict[str, Any], *, news: bool) -> None:
    """It is news if the row would have another value, of a later time."""
    assert is_news(change, state) is news
