"""The periodic task that updates the log's hourly counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from hookrow.concurrency import PeriodicTask
from hookrow.stores.log import LogReader

COUNT_EVERY = 60.0
"""In seconds; the interval between two updates."""

MOST_HOURS = 48
"""The number of hours whose requests are remembered while the database is unavailable."""

_HOUR = timedelta(hours=1)


class HourlyCount(PeriodicTask):
    """Counts the log's new entries, and the requests without a valid secret or with an old one.

    The log does not show the latter, so each process counts them by hour, in UTC, until the next
    update that succeeds. Those of the last minute are lost if the process ends. `matches` returns
    the number of requests by the position of their secret, which a reload of secrets resets to 0.
    """

    _unauthentic: Counter[datetime]
    _old_secret: Counter[datetime]

    def __init__(
        self, log: LogReader, matches: Callable[[], Mapping[int, int]] = dict[int, int]
    ) -> None:
        self._matches = matches
        super().__init__(self._update, seconds=COUNT_EVERY, name="hourly count", later=True)
        self._log = log

    def add_unauthentic(self, at: datetime) -> None:
        """Count a request without a valid secret, and start the task if it is not running."""
        with self._lock:
            self._unauthentic[_hour_of(at)] += 1
            if len(self._unauthentic) > MOST_HOURS:
                del self._unauthentic[min(self._unauthentic)]
        self.start()

    def reset(self) -> None:
        """Return to the state before `start`, without requests, which the parent process counts."""
        super().reset()
        self._unauthentic, self._old_secret = Counter(), Counter()
        self._old_matches = self._count_old_matches()

    def _update(self) -> bool:
        with self._lock:
            counted, self._unauthentic = self._unauthentic, Counter()
        try:
            if counted:
                self._log.add_unauthentic(counted)
        except Exception:
            with self._lock:
                self._unauthentic.update(counted)
            raise
        self._update_old_secret()
        return self._log.count_hours()

    def _update_old_secret(self) -> None:
        """Add the requests with an old secret since the last update; only this thread does so."""
        matches = self._count_old_matches()
        new = matches - self._old_matches if matches >= self._old_matches else matches
        self._old_matches = matches
        if new:
            self._old_secret[_hour_of(datetime.now(UTC))] += new
        if self._old_secret:
            self._log.add_old_secret(self._old_secret)
            self._old_secret.clear()

    def _count_old_matches(self) -> int:
        return sum(count for position, count in self._matches().items() if position)


def _hour_of(at: datetime) -> datetime:
    """Return the start of the hour, in UTC."""
    return at - timedelta(seconds=at.timestamp() % _HOUR.total_seconds())
