"""Compares this machine's clock, by which hookrow dates notifications, with the database's."""

from __future__ import annotations

from collections.abc import Iterator
from time import time

from hookrow.diagnostics.result import CheckResult, Level
from hookrow.stores import StoreError
from hookrow.stores.sql.connections import Database

TOLERANCE = 60.0
"""In seconds; clocks that differ by no more than this are considered equal."""

_EFFECTS = {
    "behind": "a correct ChangedAt more than 24 hours ahead of it is not trusted",
    "ahead of": "a suppression change without a ChangedAt is dated too late and overrides newer "
    "changes",
}
"""The effect of a clock that is wrong, by its relation to the database's."""


def check_clock(database: Database) -> Iterator[CheckResult]:
    """Warn if the clocks differ or cannot be compared. SQLite uses this machine's clock."""
    if database.dialect.name != "postgresql":
        return
    before = time()
    try:
        with database.reading() as connection:
            ((seconds,),) = connection.fetch("SELECT extract(epoch FROM clock_timestamp())")
    except StoreError as error:
        yield CheckResult(Level.WARNING, "clock", f"The clocks cannot be compared: {error}")
        return
    yield from compare(before, float(seconds), time())


def compare(before: float, database: float, after: float) -> Iterator[CheckResult]:
    """Warn if the database's time is more than a minute from this machine's.

    The arguments are in seconds since 1970: this machine's time before and after the query, and
    the database's time.
    """
    # Exclude the duration of the query.
    behind = max(database - after, 0.0) - max(before - database, 0.0)
    if abs(behind) <= TOLERANCE:
        return
    relation = "behind" if behind > 0 else "ahead of"
    yield CheckResult(
        Level.WARNING,
        "clock",
        f"This machine's clock is {_duration(abs(behind))} {relation} the database's.",
        "hookrow dates notifications by this machine's clock. If that clock is wrong, "
        f"{_EFFECTS[relation]}. The database's clock sets created_at.",
        "Correct the wrong clock and synchronise both with NTP.",
    )


def _duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it contains at least two."""
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
