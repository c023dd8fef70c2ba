"""Compares this machine's clock, by which hookrow dates notifications, with the database's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import time
from typing import SupportsFloat

from hookrow.diagnostics.result import CheckResult, Explained, Level
from hookrow.stores import StoreError

SECONDS = "SELECT extract(epoch FROM clock_timestamp())"
"""For PostgreSQL: its time, in seconds since 1970. SQLite uses this machine's clock."""

TOLERANCE = 60.0
"""In seconds; clocks that differ by no more than this are considered equal."""


def compare(ask: Callable[[], SupportsFloat]) -> Iterator[CheckResult]:
    """Warn if the two clocks differ, or if `ask` raises a `StoreError`.

    `ask` returns the database's time, in seconds since 1970.
    """
    before = time()
    try:
        theirs = float(ask())
    except StoreError as error:
        yield CheckResult(Level.WARNING, "clock", f"It could not be compared: {error}")
        return
    after = time()
    # Exclude the duration of the query.
    behind = max(theirs - after, 0.0) - max(before - theirs, 0.0)
    if abs(behind) > TOLERANCE:
        yield _differ(behind)


def _differ(behind: float) -> CheckResult:
    if behind > 0:
        side = "behind"
        means = (
            "hookrow dates notifications by this machine's clock. If that clock is wrong, a "
            "correct ChangedAt more than 24 hours ahead of it is not trusted."
        )
    else:
        side = "ahead of"
        means = (
            "hookrow dates notifications by this machine's clock. If that clock is wrong, a "
            "suppression change without a ChangedAt is dated too late and overrides newer changes."
        )
    return Explained(
        Level.WARNING,
        "clock",
        f"This machine's clock is {_duration(abs(behind))} {side} the database's.",
        f"{means} The database's clock sets created_at.",
        "Correct the wrong clock and synchronise both with NTP.",
    )


def _duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it contains at least two."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
