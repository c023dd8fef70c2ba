"""Caches figures, so that the database computes them once for all readers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

from hookrow._concurrency import close_thread_connections, reset_after_fork
from hookrow._faults import EXPECTED, describe_bug, log_fault
from hookrow._statistics.overview import (
    Overview,
    Period,
    Present,
    TableCounts,
    count_tables,
    read_overview,
    read_present,
)
from hookrow.stores._errors import StoreError, Unavailable
from hookrow.stores._timeouts import STATEMENT_TIMEOUT, left, limited_to

if TYPE_CHECKING:
    from hookrow.stores.sql import SQLStore

K = TypeVar("K")
T = TypeVar("T")

logger = logging.getLogger("hookrow")

FRESH_FOR = 4.0
"""Seconds for which figures are cached, at least. Open pages request them every five seconds."""

STALE_FOR = 30.0
"""Seconds for which an old result is returned while another thread reads a new one."""

RECOUNT_AFTER = 300.0
"""Seconds between two counts of the tables, at least."""

READ_SHARE = 1 / 100
"""The largest share of the time for reading overviews, of all periods together."""

SHARE_OF_ERRORS = 1 / 2
"""The largest share of the time for queries that fail, most often because they wait for a lock."""

MOST_CACHED = 128
"""The largest number of results that are cached: overviews of a period and an entry, for example.
"""

RECOUNT_SHARE = 1 / 20
"""The largest share of the time for counting the tables."""

FIRST_WAIT = 0.5
"""Seconds that a caller waits for the first count of the tables."""


class Statistics:
    """The figures of a store, for any number of threads; create one for each process.

    However often they are requested, the database is queried at most once every few seconds.
    """

    _present: _Cache[str | None, Present]
    _overviews: _Cache[tuple[Period, str | None], Overview]
    _lock: Lock
    _thread: Thread | None
    _counts: TableCounts | None
    _error: Exception | None
    _recount_at: float

    def __init__(self, store: SQLStore) -> None:
        self._store, self._closed = store, False
        self.reset()
        reset_after_fork(self)

    def present(self, now: datetime, entry: str | None = None) -> Present:
        """Return the state of the log, now or a few seconds ago; see `overview`."""
        return self._present.get(entry, lambda: read_present(self._store, now, entry))

    def overview(self, period: Period, now: datetime, entry: str | None = None) -> Overview:
        """Return the figures of a period up to now, or to some seconds ago if reading takes long.

        If `entry` is given, they are those of that entry of the receiver. One thread at a time
        reads them, and the others get the previous ones. Raises a `StoreError`.
        """
        return self._overviews.get(
            (period, entry), lambda: read_overview(self._store, period, now, entry)
        )

    def table_counts(self, wait: float = FIRST_WAIT) -> TableCounts | None:
        """Return the last counts of the tables; None if they are not counted within `wait` seconds.

        A thread counts them again if they are a few minutes old, or older if counting takes long.
        If they could not be counted before, raises the error of the last attempt.
        """
        with self._lock:
            is_counting = self._thread is not None and self._thread.is_alive()
            if monotonic() >= self._recount_at and not is_counting and not self._closed:
                self._thread = self._start_count()
            thread = self._thread
        if self._counts is None and thread is not None:
            thread.join(max(min(wait, left()), 0))
        if self._counts is None and (error := self._error) is not None:
            raise error.with_traceback(None)
        return self._counts

    def close(self, timeout: float | None = None) -> None:
        """Start no more counts; wait up to `timeout` seconds for a count in progress."""
        self._closed = True
        if (thread := self._thread) is not None:
            thread.join(timeout)

    def reset(self) -> None:
        """Return to the state after construction."""
        self._overviews, self._present = _Cache(), _Cache()
        self._lock = Lock()
        self._thread = self._counts = self._error = None
        self._recount_at = -inf

    def _start_count(self) -> Thread | None:
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
        except EXPECTED as error:
            logger.warning("Rows could not be counted: %s: %s", type(error).__name__, error)
            self._error = error
        except Exception as error:  # noqa: BLE001 - the next count may succeed
            self._error = error
            log_fault(error, "Rows could not be counted: %s", describe_bug(error))
        finally:
            close_thread_connections()
            end = monotonic()
            pause = max(RECOUNT_AFTER, (end - begin) / RECOUNT_SHARE)
            self._recount_at = end + (FRESH_FOR if isinstance(self._error, Unavailable) else pause)


class _Cache(Generic[K, T]):
    """The last results of queries by key, at most `MOST_CACHED`; they share one budget of time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._results: dict[K, _Cached[T]] = {}

    def get(self, key: K, read: Callable[[], T]) -> T:
        """Return the result for a key; if it is old, one thread at a time reads a new one."""
        with self._lock:
            cached = self._results.pop(key, None) or _Cached[T](self._duration)
            self._results[key] = cached  # as the one that was requested last
            if len(self._results) > MOST_CACHED:
                del self._results[next(iter(self._results))]
        return cached.get(read)

    def _duration(self) -> float:
        """Return the sum of the last durations of the queries, in seconds."""
        with self._lock:
            return sum(each.duration for each in self._results.values())


class _Cached(Generic[T]):
    """The last result of a query, or its error; and its last duration in seconds.

    `together` returns the sum of the durations of all queries that share its budget of time.
    """

    def __init__(self, together: Callable[[], float]) -> None:
        self._lock = Lock()
        self._result: T | StoreError = Unavailable("The figures have not been read yet.")
        self._until = -inf
        self._together, self.duration = together, 0.0

    def get(self, read: Callable[[], T]) -> T:
        """Return the result; if it is old, one thread at a time reads a new one."""
        now = monotonic()
        if now >= self._until and self._lock.acquire(blocking=now >= self._until + STALE_FOR):
            try:
                self._update(read)
            finally:
                self._lock.release()
        result = self._result
        if isinstance(result, StoreError):
            raise result.with_traceback(None)  # otherwise it would grow with each caller
        return result

    def _update(self, read: Callable[[], T]) -> None:
        begin = monotonic()
        if begin < self._until:  # another thread has just read it
            return
        try:
            with limited_to(STATEMENT_TIMEOUT):
                self._result = read()
        except Unavailable as error:  # which cost nothing
            self._result, pause = error, FRESH_FOR
        except StoreError as error:
            self._result, pause = error, (monotonic() - begin) / SHARE_OF_ERRORS
        else:
            self.duration = monotonic() - begin
            pause = self._together() / READ_SHARE
        self._until = monotonic() + max(FRESH_FOR, pause)
