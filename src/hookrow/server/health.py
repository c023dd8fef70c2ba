"""Health checks: /healthz, whether the process responds, and /readyz, whether it can record."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from hookrow import migrations
from hookrow.core.schema import Schema
from hookrow.diagnostics.check import check_database
from hookrow.diagnostics.result import Level
from hookrow.http import Request, RequestHead, Response, plain
from hookrow.stores import StoreError
from hookrow.stores.sql.connections import Database

VERIFIED_FOR = 60.0
"""In seconds; how long a successful verification of the tables is valid."""

WRONG_FOR = 1.0
"""In seconds; how long a failed verification is valid."""

_ALIVE = plain(200, "ok\n")
_READY = plain(200, "ready\n")
_SILENT = plain(503, "The database does not respond.\n")


class Liveness:
    """Responds with 200 to every request."""

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond."""
        del request
        return _ALIVE

    def submit(
        self, request: Request, loop: AbstractEventLoop, reply: Callable[[Response], object]
    ) -> None:
        """Respond immediately."""
        del request, loop
        reply(_ALIVE)


class Readiness:
    """Responds with 200, or with 503 and the fault that `probe` returns, within `deadline` seconds.

    Only one probe runs at a time, in a thread, and all requests that arrive meanwhile share its
    result, so that requests cannot overload the database.
    """

    def __init__(self, probe: Callable[[], str | None], *, deadline: float = 5.0) -> None:
        self._probe = probe
        self._deadline = deadline
        self._thread = ThreadPoolExecutor(1, "hookrow-readiness")
        self._running: Future[Response] | None = None

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond after a probe in this thread."""
        del request
        return self._respond()

    def submit(
        self, request: Request, loop: AbstractEventLoop, reply: Callable[[Response], object]
    ) -> None:
        """Respond after the probe in progress, or a new one. All calls come from one loop."""
        del request
        try:
            if self._running is None or self._running.done():
                self._running = loop.run_in_executor(self._thread, self._respond)
        except RuntimeError:  # the system has no thread left
            reply(_SILENT)
            return
        probe = self._running

        def respond(probe: Future[Response]) -> None:
            timer.cancel()
            reply(probe.result())

        def give_up() -> None:
            probe.remove_done_callback(respond)
            reply(_SILENT)

        timer = loop.call_later(self._deadline, give_up)
        probe.add_done_callback(respond)

    def close(self) -> None:
        """End the thread after the probe in progress."""
        self._thread.shutdown(wait=False)

    def _respond(self) -> Response:
        try:
            fault = self._probe()
        except Exception as error:  # noqa: BLE001 - no error makes the server ready
            fault = f"The check of the database failed: {type(error).__name__}."
        return plain(503, f"{fault}\n") if fault else _READY


class DatabaseProbe:
    """Returns the fault that prevents notifications from being recorded, or None.

    Requests are not authenticated, and verifying the tables takes many queries. A call therefore
    reads only the revision of hookrow's tables; it verifies all tables if the revision has changed,
    if the database could not be reached before, or if the last verification is a minute old (a
    second if it failed). `clock` returns seconds. Only one thread at a time may call it.
    """

    def __init__(
        self, database: Database, schema: Schema, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._database = database
        self._schema = schema
        self._clock = clock
        self._fault: str | None = None
        self._revisions: Sequence[str] = []
        self._verify_at = float("-inf")

    def __call__(self) -> str | None:
        """Return the fault, in a sentence. Raises if the database fails during verification."""
        if self._clock() >= self._verify_at or self._has_changed():
            self._verify()
        return self._fault

    def _has_changed(self) -> bool:
        """Return whether the database is unreachable, or its revision is not the verified one."""
        try:
            return migrations.current(self._database) != self._revisions
        except StoreError:
            return True

    def _verify(self) -> None:
        self._verify_at = float("-inf")
        findings = check_database(self._database, self._schema)
        wrong = next((each for each in findings if each.level is Level.ERROR), None)
        self._fault = wrong.text if wrong else None
        if wrong is None or wrong.subject not in {"database", "access"}:
            self._revisions = migrations.current(self._database)
            self._verify_at = self._clock() + (WRONG_FOR if wrong else VERIFIED_FOR)
