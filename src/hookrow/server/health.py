"""Health checks: /healthz shows whether the process responds, /readyz whether it can record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from time import monotonic

from hookrow.diagnostics import CheckResult, Level
from hookrow.http import Handler, Request, RequestHead, Response, plain

VALID_FOR = 1.0
"""In seconds; how long the result of a check is valid."""

DEADLINE = 4.0
"""In seconds; how long a request waits for a check. It is shorter than the limit of all calls
(`asgi.CALL_TIMEOUT`), because the response at that limit does not mention the database."""

_ALIVE = plain(200, "ok\n")
_READY = plain(200, "ready\n")
_SILENT = plain(503, "The database does not respond.\n")


class Liveness(Handler):
    """A handler that responds with 200 to every request."""

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond."""
        del request
        return _ALIVE


class Readiness(Handler):
    """A handler that responds with 200, or with 503 and the first error of `check`.

    Requests are not authenticated; to keep them from overloading the database, only one check runs
    at a time, and its result is valid for a second.
    """

    def __init__(
        self, check: Callable[[], Iterable[CheckResult]], *, deadline: float = DEADLINE
    ) -> None:
        self._check = check
        self._deadline = deadline
        self._thread = ThreadPoolExecutor(1, "hookrow-readiness")
        self._lock = Lock()
        self._response: Future[Response] | None = None
        self._expires = 0.0

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond with the last result while it is valid, otherwise with that of a new check."""
        del request
        try:
            with self._lock:
                if self._response is None or self._has_expired(self._response):
                    self._response = self._thread.submit(self._respond)
                response = self._response
            return response.result(self._deadline)
        except (TimeoutError, RuntimeError):  # RuntimeError: no thread can be started
            return _SILENT

    def close(self) -> None:
        """Stop the thread after the check in progress."""
        self._thread.shutdown(wait=False)

    def _has_expired(self, response: Future[Response]) -> bool:
        return response.done() and monotonic() >= self._expires

    def _respond(self) -> Response:
        try:
            fault = next((each.text for each in self._check() if each.level is Level.ERROR), None)
        except Exception as error:  # noqa: BLE001 - no error makes the server ready
            fault = f"The check of the database failed: {type(error).__name__}."
        self._expires = monotonic() + VALID_FOR
        return plain(503, f"{fault}\n") if fault else _READY
