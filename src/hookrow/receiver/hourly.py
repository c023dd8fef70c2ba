"""The periodic task that updates the log's hourly counts."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from hookrow.concurrency import PeriodicTask
from hookrow.stores.log import LogReader

COUNT_EVERY = 60.0
"""In seconds; the interval between two updates."""

MOST_HOURS = 48
"""The number of hours whose requests are remembered while the database is unavailable."""

_HOUR = timedelta(hours=1)


class HourlyCount(PeriodicTask):
    """Counts the log's new entries, and adds the requests without a valid secret.

    Such requests are not in the log, so each process counts them by hour, in UTC, until the next
    update that succeeds. Those of the last minute are lost if the process ends.
    """

    _unauthentic: Counter[datetime]

    def __init__(self, log: LogReader) -> None:
        super().__init__(self._update, seconds=COUNT_EVERY, name="hourly count", later=True)
        self._log = log

    def add_unauthentic(self, at: datetime) -> None:
        """Count a request without a valid secret, and start the task if it is not running."""
        with self._lock:
            self._unauthentic[at - timedelta(seconds=at.timestamp() % _HOUR.total_seconds())] += 1
            if len(self._unauthentic) > MOST_HOURS:
                del self._unauthentic[min(self._unauthentic)]
        self.start()

    def reset(self) -> None:
        """Return to the state before `start`, without requests, which the parent process counts."""
        super().reset()
        self._unauthentic = Counter()

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
        return self._log.count_hours()
