"""Reads the status for any number of callers, however often they ask."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from hookrow._concurrency import reset_after_fork
from hookrow._core.status import Status
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.status import (
    RecordFacts,
    StatusSource,
    assess,
    is_readable,
    read_fault,
    read_log,
    read_process,
)
from hookrow.stores._timeouts import left

T = TypeVar("T")

VALID_FOR = 1.0
"""Seconds for which the result of a check is valid."""

LOG_VALID_FOR = 10.0
"""Seconds for which what the log has is valid."""

REHEARSE_EVERY = 30.0
"""Seconds for which a notification that was recorded, or a rehearsal, proves that the next one
would be. A rehearsal leaves a deleted row in the log."""

DEADLINE = 4.0
"""Seconds that a request waits for a check: less than `asgi._CALL_TIMEOUT`, because the response at
that limit does not mention the database."""

LEAST_WAIT = 0.2
"""Seconds that a request waits for a check after its time is over, because the database did not
respond to it."""

LOG_DEADLINE = 0.5
"""Seconds that a request waits for the first reading of the log."""

_SILENT = CheckResult(
    Level.ERROR,
    "database",
    "The database does not respond.",
    remedy="Start the database, or find what blocks it; `hookrow check` has the details.",
)


_CLOSED = CheckResult(
    Level.ERROR,
    "status",
    "The status is closed, because the application stops.",
    remedy="If the application goes on, do not close its `Readiness` before its end.",
)


class StatusReader:
    """Reads the status of a source; create one for each process.

    The database is checked at most once a second, and its log read at most every ten, each by one
    thread. A call returns within `deadline` seconds: a database that has not responded by then is
    a finding. A write is rehearsed unless a rehearsal succeeded, or a notification was recorded, in
    the last 30 s, and none got a 503 since then. What the process itself knows is read in each
    call.
    """

    def __init__(self, source: StatusSource, *, deadline: float = DEADLINE) -> None:
        self._source = source
        self._deadline = deadline
        self._fault = _Shared(self._find_fault, "hookrow-status", VALID_FOR)
        self._log = _Shared(self._read_log, "hookrow-status-log", LOG_VALID_FOR)
        self._recorded = RecordFacts()
        self._rehearsed_at = -inf
        self._was_sound = True
        self._is_closed = False

    def __call__(self) -> Status:
        """Return the status, which is broken after `close`."""
        if self._is_closed:
            process = read_process(self._source)
            return assess(_CLOSED, RecordFacts(), process, datetime.now(UTC))
        if self._source.store.is_nested():
            # Neither the threads, nor a rehearsal, may use the host's transaction.
            now = datetime.now(UTC)
            fault = read_fault(self._source, rehearse=False)
            recorded = read_log(self._source, now) if is_readable(fault) else RecordFacts()
            return assess(fault, recorded, read_process(self._source), now)
        try:
            fault = self._fault.get(min(self._deadline, max(left(), LEAST_WAIT)))
        except (TimeoutError, RuntimeError):  # RuntimeError: no thread can be started
            fault = _SILENT
        if is_readable(fault):
            # Otherwise, the last ones remain, until the thread has read others.
            with suppress(TimeoutError, RuntimeError):
                self._recorded = self._log.get(LOG_DEADLINE)
        recorded = self._recorded if is_readable(fault) else RecordFacts()
        return assess(fault, recorded, read_process(self._source), datetime.now(UTC))

    def close(self) -> None:
        """Stop the threads after the checks in progress."""
        self._is_closed = True
        self._fault.close()
        self._log.close()

    def _find_fault(self) -> CheckResult | None:
        """Run the check; return its first error, or None.

        When a fault that the check has detected is over, it was probably the cause of the last
        results: the server must not wait for a notification in order to be ready.
        """
        began = monotonic()
        receiver = self._source.receiver()
        results = None if receiver is None else receiver.results
        rehearse = not self._was_sound or not self._is_proven(began)
        fault = read_fault(self._source, rehearse=rehearse)
        if fault is None and rehearse:
            self._rehearsed_at = began
        is_sound = fault is None and monotonic() < began + self._deadline
        if is_sound and not self._was_sound and results is not None:
            results.forget()
        self._was_sound = is_sound
        return fault

    def _is_proven(self, now: float) -> bool:
        """Return whether a write has succeeded recently, and none has failed since then."""
        receiver = self._source.receiver()
        if receiver is None:
            return now - self._rehearsed_at < REHEARSE_EVERY
        proven_at = max(self._rehearsed_at, receiver.results.kept_at)
        return now - proven_at < REHEARSE_EVERY and not receiver.results.lost_after(proven_at)

    def _read_log(self) -> RecordFacts:
        return read_log(self._source, datetime.now(UTC))


class _Shared(Generic[T]):
    """The result of a function that one thread calls, for several callers; valid for a time."""

    _thread: ThreadPoolExecutor
    _lock: Lock
    _result: Future[T] | None
    _expires: float

    def __init__(self, read: Callable[[], T], name: str, seconds: float) -> None:
        self._read, self._name, self._seconds = read, name, seconds
        self.reset()
        reset_after_fork(self)

    def get(self, timeout: float) -> T:
        """Return the last result while it is valid, otherwise a new one.

        Raises `TimeoutError`, `RuntimeError` if no thread can be started, or what the function
        raises.
        """
        with self._lock:
            if self._result is None or self._has_expired(self._result):
                self._result = self._thread.submit(self._call)
            result = self._result
        return result.result(timeout)

    def close(self) -> None:
        """Stop the thread after the call in progress."""
        self._thread.shutdown(wait=False)

    def reset(self) -> None:
        """Return to the state after construction: no thread, and no result."""
        self._thread = ThreadPoolExecutor(1, self._name)
        self._lock = Lock()
        self._result = None
        self._expires = 0.0

    def _has_expired(self, result: Future[T]) -> bool:
        return result.done() and monotonic() >= self._expires

    def _call(self) -> T:
        try:
            return self._read()
        finally:
            self._expires = monotonic() + self._seconds
