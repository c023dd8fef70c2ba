"""The periodic task that updates the log's hourly counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hookrow._concurrency import PeriodicTask
from hookrow.stores._log import RequestHour, RequestKind
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, limited_to

if TYPE_CHECKING:
    from hookrow.stores.sql._log import SQLLog

COUNT_EVERY = 30.0
"""Seconds between two updates of the counts."""


class HourlyCount(PeriodicTask):
    """Counts the log's new entries, and the requests without a valid secret or with an old one.

    The log does not show the latter, so each process counts them by hour and by the receiver's
    entry until the next update that succeeds, or until `close`. Those since the last update are
    lost if the process ends without it. `old_matches` returns the number of requests with an old
    secret by the name of the entry, which is None for a single provider; no number ever decreases.
    `clock` returns the time.
    """

    _counts: Counter[RequestHour]

    def __init__(
        self,
        log: SQLLog,
        old_matches: Callable[[], Mapping[str | None, int]],
        clock: Callable[[], datetime],
    ) -> None:
        self._old_matches = old_matches  # before `super().__init__`, whose `reset` calls it
        self._clock = clock
        super().__init__(self._update, seconds=COUNT_EVERY, name="hourly count", later=True)
        self._log = log

    def add(self, kind: RequestKind, entry: str | None, at: datetime, number: int = 1) -> None:
        """Count requests to an entry, and start the task if it is not running."""
        hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        self._keep({RequestHour(kind, entry or "", hour): number})
        self.start()

    def reset(self) -> None:
        """Return to the state before `start`, without requests, which the parent process counts."""
        super().reset()
        self._counts = Counter()
        self._counted = self._old_matches()

    def _update(self) -> bool:
        self._add_requests()
        return self._log.count_hours()

    def _finish(self) -> None:
        with limited_to(STATEMENT_TIMEOUT):
            self._add_requests()

    def _add_requests(self) -> None:
        matches = self._old_matches()
        earlier, self._counted = self._counted, matches
        for entry, number in matches.items():
            if new := number - earlier[entry]:
                self.add(RequestKind.OLD_SECRET, entry, self._clock(), new)
        with self._lock:
            counts, self._counts = self._counts, Counter()
        try:
            if counts:
                self._log.add_requests(counts)
        except Exception:
            self._keep(counts)
            raise

    def _keep(self, counts: Mapping[RequestHour, int]) -> None:
        with self._lock:
            self._counts.update(counts)
