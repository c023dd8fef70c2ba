"""The results of the last notifications, which show faults that a probe of the database misses.

A full disk is one: a change that selects no row succeeds on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from hookrow._core.notification import Arrival, Outcome, Recorded
from hookrow._core.result import PARKED, RESULTS, Result
from hookrow._core.rules import UNKEPT

MAX_RESULTS = 100
"""How many results are kept."""

LOST_IN_A_ROW = 3
"""The number of consecutive notifications that were not kept after which the next one would
probably get a 503. A single one may have another cause, such as a trigger."""

COUNTS_FOR = 60.0
"""Seconds for which a result counts. A receiver that gets no notifications, because it is not
ready, is then tried again."""

_ALL_KEPT = (0.0,) * MAX_RESULTS


class Losses(NamedTuple):
    """How many of the last notifications were not kept, and why the last of them was not.

    `seconds` is how long ago that was. The reason contains no personal data.
    """

    lost: int
    total: int
    seconds: float
    reason: str


class RecentResults:
    """Whether the database kept each of the last notifications: in a row, or in the log.

    Tests of the provider and the requests of `hookrow check URL` do not count, and neither do
    notifications of which nothing had to be written. Any thread may call the methods.
    """

    def __init__(
        self, *, has_log: bool, keeps_bodies: bool = True, acknowledges_spooled: bool = False
    ) -> None:
        self._has_log = has_log
        self._can_retry = has_log and keeps_bodies
        self._fate = "are only in the spool, or got a 503" if acknowledges_spooled else "got a 503"
        # A result is the time of a notification that was not kept, otherwise 0.
        self._last: deque[float] = deque(maxlen=MAX_RESULTS)
        self._kept_at = float("-inf")
        self._reason = ""
        # The times and providers of those that found no dispatch, and that nothing can retry.
        self._unretried: deque[tuple[float, str | None]] = deque(maxlen=MAX_RESULTS)

    def add(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome], reason: str) -> None:
        """Add the results of a group; `reason` is why some were not kept, if any."""
        kept, lost = [*map(type, outcomes)].count(Recorded), 0
        if kept < len(outcomes):
            kept, lost = self._count(arrivals, outcomes)
        if lost:
            self._last.extend([monotonic()] * lost)
            self._reason = reason
        # They come last, because one that was kept shows that the others had their own causes.
        if kept:
            self._last.extend(_ALL_KEPT[:kept])
            self._kept_at = monotonic()

    def add_late(self, arrival: Arrival, reason: str) -> None:
        """Add a notification that got its response before its result was known."""
        if arrival.notifications and not _is_excluded(arrival):
            self._last.append(monotonic())
            self._reason = reason

    def fault(self) -> str | None:
        """Return why the next notification would probably get a 503, or None.

        The reason contains no personal data. It is given if the last three notifications, or all
        in the last minute if they were fewer, were not kept.
        """
        last, since = self._last.copy(), monotonic() - COUNTS_FOR
        streak = [*takewhile(bool, reversed(last))]
        recent = sum(at > since for at in streak)
        if not recent or (recent < LOST_IN_A_ROW and self._kept_at > since):
            return None
        them = "notification" if len(streak) == 1 else f"{len(streak)} notifications"
        lost = len(last) - last.count(0.0)
        among = f", like {lost} of the last {len(last)}" if lost > len(streak) else ""
        return f"The last {them} {self._fate}{among}: {self._reason}"

    def losses(self, within: float) -> Losses | None:
        """Return those of the last notifications that were not kept, or None without any.

        None if the last one was more than `within` seconds ago.
        """
        last = self._last.copy()
        latest = max(last, default=0.0)
        seconds = monotonic() - latest
        if not latest or seconds > within:
            return None
        return Losses(len(last) - last.count(0.0), len(last), seconds, self._reason)

    def unretried(self, provider: str, within: float) -> int:
        """Return how many of a provider's notifications found no dispatch in the last `within` s.

        They are those that nothing can retry, because there is no log, or it keeps no bodies; at
        most `MAX_RESULTS`.
        """
        since = monotonic() - within
        return sum(at > since and name == provider for at, name in self._unretried.copy())

    @property
    def kept_at(self) -> float:
        """The time of `monotonic` at which the database kept a notification, or minus infinity."""
        return self._kept_at

    def lost_after(self, at: float) -> bool:
        """Return whether a notification was not kept after a time of `monotonic`."""
        return max(self._last.copy(), default=0.0) > at

    def forget(self) -> None:
        """Forget all results, because their cause has ended."""
        self._last.clear()

    def _count(self, arrivals: Sequence[Arrival], outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """Return how many of a group were kept, and how many were not."""
        kept = lost = 0
        for arrival, outcome in zip(arrivals, outcomes, strict=True):
            if isinstance(outcome, Recorded):
                kept += 1
            elif not _is_excluded(arrival):
                lost += outcome in UNKEPT
                # An unsupported notification is refused as such even if it could not be logged.
                result = RESULTS.get(outcome.refusal)
                kept += self._has_log and result in PARKED
                if result in _WITHOUT_DISPATCH and not self._can_retry:
                    self._unretried.append((monotonic(), arrival.provider))
        return kept, lost


_WITHOUT_DISPATCH = {Result.DISPATCH_NOT_FOUND, Result.RECIPIENT_MISMATCH}
"""The results of notifications that may have arrived before their dispatch was committed.

One for an unknown address is rather about mail of others."""


def _is_excluded(arrival: Arrival) -> bool:
    return arrival.is_test or arrival.is_probe
