"""Caches figures, so that the database computes them once for all readers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from threading import Lock, Thread
from time import monotonic

from hookrow.concurrency import close_thread_connections, reset_after_fork
from hookrow.statistics.overview import Overview, Period, read_overview
from hookrow.statistics.tables import TableCounts, count_tables
from hookrow.stores import Store, StoreError, Unavailable
from hookrow.stores.timeouts import STATEMENT_TIMEOUT, left, limited_to

log = logging.getLogger("hookrow")

FRESH = 5.0
"""In seconds; how long the overview of a period is cached."""

STALE = 30.0
"""In seconds; how much longer it is returned while another thread reads the next one."""

RECOUNT_AFTER = 300.0
"""In seconds; the shortest time between two counts of the tables."""

SHARE = 20.0
"""The shortest interval between two runs of a query, as a multiple of its duration.

After an outage, it is shorter, because a query that did not reach the database cost nothing.
"""

FIRST_WAIT = 0.5
"""In seconds; how long a caller waits for the first count of the tables."""


class Statistics:
    """The figures of a store, for any number of threads; create one for each process.

    However often they are requested, the database is queried at most once in a few seconds.
    """

    _overviews: Mapping[Period, _Cached]
    _lock: Lock
    _thread: Thread | None
    _counts: TableCounts | None
    _error: Exception | None
    _recount_at: float

    def __init__(self, store: Store) -> None:
        self._store, self._closed = store, False
        self.reset()
        reset_after_fork(self)

    def overview(self, period: Period, now: datetime) -> Overview:
        """Return the figures of a period up to now, or up to a few seconds ago.

        One thread at a time reads them, and the others get the previous ones. Raises a
        `StoreError`.
        """
        return self._overviews[period].get(lambda: read_overview(self._store, period, now))

    def table_counts(self) -> TableCounts | None:
        """Return the last counts of the tables; None before the first count.

        A thread counts them again if they are a few minutes old, or older if counting takes long.
        If they could not be counted before, raises the error of the last attempt.
        """
        with self._lock:
            is_counting = self._thread is not None and self._thread.is_alive()
            if monotonic() >= self._recount_at and not is_counting and not self._closed:
                self._thread = self._started()
            thread = self._thread
        if self._counts is None and thread is not None:
            thread.join(max(min(FIRST_WAIT, left()), 0))
        if self._counts is None and (error := self._error) is not None:
            raise error.with_traceback(None)
        return self._counts

    def close(self, timeout: float | None = None) -> None:
        """Start no further count; wait up to `timeout` seconds for one that is in progress."""
        self._closed = True
        if (thread := self._thread) is not None:
            thread.join(timeout)

    def reset(self) -> None:
        """Return to the state after construction."""
        self._overviews = {period: _Cached() for period in Period}
        self._lock = Lock()
        self._thread = self._counts = self._error = None
        self._recount_at = -inf

    def _started(self) -> Thread | None:
        """Start a count; return None if the system cannot start a thread."""
        thread = Thread(target=self._count, name="hookrow-table-counts", daemon=True)
        with suppress(RuntimeError):
            thread.start()
            return thread
        return None

    def _count(self) -> None:
        begin, self._error = monotonic(), None
        try:
            self._counts = count_tables(self._store, datetime.now(UTC))
        except Exception as error:  # noqa: BLE001 - the next count may succeed
            log.warning("The tables could not be counted: %s: %s", type(error).__name__, error)
            self._error = error
        finally:
            close_thread_connections()
            self._recount_at = _next_query(begin, RECOUNT_AFTER, self._error)


class _Cached:
    """The last overview of a period, or the error that prevented reading it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._result: Overview | StoreError = Unavailable("The figures have not been read yet.")
        self._until = -inf

    def get(self, read: Callable[[], Overview]) -> Overview:
        """Return the overview; if it is old, one thread at a time reads a new one."""
        now = monotonic()
        if now >= self._until and self._lock.acquire(blocking=now >= self._until + STALE):
            try:
                self._update(read)
            finally:
                self._lock.release()
        result = self._result
        if isinstance(result, StoreError):
            raise result.with_traceback(None)  # otherwise it would grow with each caller
        return result

    def _update(self, read: Callable[[], Overview]) -> None:
        begin = monotonic()
        if begin < self._until:  # another thread has just read it
            return
        try:
            with limited_to(STATEMENT_TIMEOUT):
                self._result = read()
        except StoreError as error:
            self._result = error
        self._until = _next_query(begin, FRESH, self._result)


def _next_query(begin: float, shortest: float, result: object) -> float:
    """Return when to repeat a query that began at `begin` and ends now, with this result."""
    now = monotonic()
    if isinstance(result, Unavailable):
        return now + FRESH
    return now + max(shortest, SHARE * (now - begin))
