"""Results: the outcomes of notifications in the log, and the times of their retries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum

from hookrow._core.notification import Refusal

PARKED_FOR = timedelta(days=3)
"""For how long after its arrival a notification is retried."""

SHORTEST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=1)
"""The shortest and the longest pause between two retries."""


class Result(Enum):
    """The outcome of a notification in the log; refusals have the same names as in `Refusal`."""

    RECORDED = "recorded"
    SUBSCRIBER_NOT_FOUND = "subscriber_not_found"
    DISPATCH_NOT_FOUND = "dispatch_not_found"
    UNMAPPED = "unmapped"
    RECIPIENT_MISMATCH = "recipient_mismatch"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"
    TEST = "test"


RESULTS: Mapping[Refusal, Result] = {
    refusal: Result[refusal.name] for refusal in Refusal if refusal.name in Result.__members__
}
"""The results of the refusals that the log can contain."""

PARKED = frozenset(Result) - {Result.RECORDED, Result.UNMAPPED, Result.UNSUPPORTED, Result.TEST}
"""The results that a retry may change: a missing row may be added, or the database may recover."""

MISSING = frozenset({Result.SUBSCRIBER_NOT_FOUND, Result.DISPATCH_NOT_FOUND})
"""The results of a missing row."""

SUBSCRIBER_FOUND = frozenset(
    {Result.RECORDED, Result.DISPATCH_NOT_FOUND, Result.RECIPIENT_MISMATCH, Result.UNMAPPED}
)
"""The results of an event with which its change of a suppression was made.

Such a change needs only its subscriber, so the refusal is that of another notification of the
event."""

IMPLAUSIBLE = 3 * LONGEST_PAUSE
"""No retry is planned further ahead: a later time was set by a clock that was wrong at that time.

Clocks that differ by up to an hour each are not corrected."""


def is_due(retry_at: datetime, now: datetime) -> bool:
    """Return whether a retry is due, or is planned implausibly far ahead."""
    return retry_at <= now or retry_at > now + IMPLAUSIBLE


def ended_before(now: datetime) -> datetime:
    """Return the time before which a notification arrived if its last retry should be over.

    A retry is planned at most `LONGEST_PAUSE` after the previous one.
    """
    return now - PARKED_FOR - LONGEST_PAUSE


def retry_at(received_at: datetime, now: datetime) -> datetime | None:
    """Return the time of the next retry of a notification, or None if it is too old.

    The pause is the age of the notification plus one minute, at most one hour: 1, 2, 4 minutes and
    so on. A notification that seems to have arrived more than a day later, by a clock that was
    wrong, is retried every hour.
    """
    if received_at - now > timedelta(days=1):
        return now + LONGEST_PAUSE
    age = max(now - received_at, timedelta(0))
    return None if age >= PARKED_FOR else now + min(age + SHORTEST_PAUSE, LONGEST_PAUSE)
