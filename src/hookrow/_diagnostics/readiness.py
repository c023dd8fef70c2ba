"""The handler of /readyz, which shows whether a notification would be recorded.

`diagnosis` recognizes its texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from time import monotonic

from hookrow._concurrency import reset_after_fork
from hookrow._diagnostics import CheckResult, Level
from hookrow._http import Handler, Request, RequestHead, Response, plain
from hookrow._receiver.results import RecentResults

VALID_FOR = 1.0
"""Seconds for which the result of a check is valid."""

DEADLINE = 4.0
"""Seconds that a request waits for a check: less than `asgi._CALL_TIMEOUT`, because the response at
that limit does not mention the database."""

_READY = plain(200, "ready\n")
_SILENT = "The database does not respond."


class ReadinessHandler(Handler):
    """A handler that responds with 200 and "ready" if a notification would be recorded.

    Otherwise, the response is a 503 with the first error of `check` or, if it has none, the fault
    that the `results` of the last notifications show. While `can_spool` returns True, because
    notifications are kept in a spool, the response is a 200 that begins with "attention".

    Requests are not authenticated; to keep them from overloading the database, only one check runs
    at a time, and its result is valid for a second.
    """

    _checked: Future[str | None] | None

    def __init__(
        self,
        check: Callable[[], Iterable[CheckResult]],
        results: RecentResults,
        *,
        can_spool: Callable[[], bool] = lambda: False,
        deadline: float = DEADLINE,
    ) -> None:
        self._check = check
        self._results = results
        self._can_spool = can_spool
        self._deadline = deadline
        self.reset()
        reset_after_fork(self)

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond with the last result while it is valid, otherwise with that of a new check."""
        del request
        fault = self._last_fault() or self._results.fault()
        if fault is None:
            return _READY
        if self._can_spool():
            return plain(200, f"attention: {fault}\n")
        return plain(503, f"not ready: {fault}\n")

    def reset(self) -> None:
        """Return to the state after construction: no thread, and no result."""
        self._thread = ThreadPoolExecutor(1, "hookrow-readiness")
        self._lock = Lock()
        self._checked = None
        self._expires = 0.0
        self._was_sound = True

    def close(self) -> None:
        """Stop the thread after the check in progress."""
        self._thread.shutdown(wait=False)

    def _last_fault(self) -> str | None:
        """Return the result of the last check while it is valid, otherwise that of a new one."""
        try:
            with self._lock:
                if self._checked is None or self._has_expired(self._checked):
                    self._checked = self._thread.submit(self._find_fault)
                checked = self._checked
            return checked.result(self._deadline)
        except (TimeoutError, RuntimeError):  # RuntimeError: no thread can be started
            return _SILENT

    def _has_expired(self, checked: Future[str | None]) -> bool:
        return checked.done() and monotonic() >= self._expires

    def _find_fault(self) -> str | None:
        """Run the check; return its first error, or None.

        When a fault that the check has detected is over, it was probably the cause of the last
        results: the server must not wait for a notification in order to be ready.
        """
        began = monotonic()
        try:
            fault = next((each.text for each in self._check() if each.level is Level.ERROR), None)
        except Exception as error:  # noqa: BLE001 - no error makes the server ready
            fault = f"The check of the database failed: {type(error).__name__}."
        now = monotonic()
        is_sound = fault is None and now < began + self._deadline
        if is_sound and not self._was_sound:
            self._results.forget()
        self._was_sound, self._expires = is_sound, now + VALID_FOR
        return fault
