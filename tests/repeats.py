"""Log entries of a notification that arrives again: a table for the rule and for each store."""

from typing import Any

from copying import replace
from hookrow import Arrival, Opened
from hookrow._core.log_entry import LogEntry, fingerprint
from hookrow._core.notification import Source
from hookrow._core.result import Result
from times import DAY, MINUTE, NOON, SECOND

FIRST = LogEntry(
    entry=None,
    fingerprint=fingerprint(Arrival((Opened("ada@x", "m", NOON),), b"{}", NOON)),
    record_type="Open",
    message_id="m-ada",
    recipient="ada@example.com",
    occurred_at=NOON,
    outcome=Result.RECORDED,
    status=200,
    attempts=1,
    received_at=NOON,
    last_received_at=NOON,
    ended_at=NOON + SECOND,
    retry_at=None,
    body="{}",
    reason=None,
    provider=None,
    source=Source.LIVE,
    trace_id=None,
    change_number=None,
)
PARKED_ENTRY = replace(
    FIRST,
    outcome=Result.DISPATCH_NOT_FOUND,
    status=404,
    retry_at=NOON + SECOND + MINUTE + SECOND,
)

PARKED_TWICE = replace(PARKED_ENTRY, attempts=2)
ERASED = replace(PARKED_ENTRY, body=None, recipient=None)
NAMED = replace(PARKED_ENTRY, reason="HardBounce", provider="postmark", trace_id="trace")
REPLAYED = replace(FIRST, ended_at=NOON + DAY, attempts=0, source=Source.REPLAY)
NEXT_DAY: Any = {"ended_at": NOON + DAY}
DAY_BEFORE: Any = {"received_at": NOON - DAY, "last_received_at": NOON - DAY}
RETRIED = replace(PARKED_ENTRY, **NEXT_DAY)
OTHER = replace(
    FIRST,
    attempts=3,
    occurred_at=NOON + DAY,
    **dict.fromkeys(("record_type", "message_id", "recipient", "body"), "other"),
)
JUMPED = replace(RETRIED, **DAY_BEFORE, ended_at=NOON - DAY, retry_at=NOON - DAY + MINUTE)

NUMBERED = replace(FIRST, change_number=7)

REPEATS = [
    # The later result counts, and the content stays.
    (PARKED_ENTRY, OTHER, replace(FIRST, attempts=4)),
    (FIRST, RETRIED, replace(RETRIED, attempts=2)),
    # If both are recorded, the time of the earlier one is kept.
    (FIRST, replace(FIRST, **NEXT_DAY), replace(FIRST, attempts=2)),
    (PARKED_ENTRY, replace(FIRST, **NEXT_DAY), replace(FIRST, **NEXT_DAY, attempts=2)),
    # A retry adds no attempt.
    (PARKED_ENTRY, replace(RETRIED, attempts=0), RETRIED),
    # The first and the last arrival are the least and the greatest time.
    (FIRST, replace(FIRST, **DAY_BEFORE), replace(FIRST, received_at=NOON - DAY, attempts=2)),
    (replace(FIRST, **DAY_BEFORE), FIRST, replace(FIRST, received_at=NOON - DAY, attempts=2)),
    (FIRST, JUMPED, replace(JUMPED, last_received_at=NOON, attempts=2)),  # the clock jumped back
    # A new arrival restores erased fields, and erases none.
    *((ERASED, PARKED_ENTRY, PARKED_TWICE), (PARKED_ENTRY, ERASED, PARKED_TWICE)),
    *((ERASED, replace(each, attempts=0), ERASED) for each in (PARKED_ENTRY, NAMED)),
    (ERASED, NAMED, replace(NAMED, attempts=2)),
    # A change is numbered anew; a result without a change keeps the number.
    (PARKED_ENTRY, replace(FIRST, change_number=0), replace(FIRST, change_number=0, attempts=2)),
    (NUMBERED, replace(FIRST, change_number=0), replace(FIRST, change_number=0, attempts=2)),
    (NUMBERED, PARKED_ENTRY, replace(PARKED_ENTRY, change_number=7, attempts=2)),
    # The source is that of the result.
    *((PARKED_ENTRY, REPLAYED, replace(REPLAYED, attempts=1)), (FIRST, REPLAYED, FIRST)),
]
"""Each an entry, a later one of the same notification, and the entry of both."""
