"""Health checks: /healthz, whether the process responds, and /readyz, whether it can record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from hookrow import migrations
from hookrow.core.schema import Schema
from hookrow.diagnostics.check import check_database
from hookrow.diagnostics.result import Level
from hookrow.http import Request, RequestHead, Response, plain
from hookrow.receiver.batch import BatchWriter, QueueFull
from hookrow.stores import StoreError
from hookrow.stores.sql.connections import Database

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

VERIFIED_FOR = 60.0
"""In seconds; how long a successful verification of the tables is valid."""

WRONG_FOR = 1.0
"""In seconds; how long a failed verification is valid."""

BACKLOG = 4096
"""How many requests may wait for a probe."""

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
        """Respond at once."""
        del request, loop
        reply(_ALIVE)


class Readiness:
    """Responds with 200, or with 503 and the fault that `probe` returns, within `deadline` seconds.

    All requests that arrive during a probe share the next one, so that requests cannot overload
    the database.
    """

    def __init__(self, probe: Callable[[], str | None], *, deadline: float = 5.0) -> None:
        self._probe = probe
        self._writer = BatchWriter[Request, Response](
            self._respond,
            fallback=lambda _: _SILENT,
            deadline=deadline,
            group=BACKLOG,
            backlog=BACKLOG,
        )

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Wait for the result of a probe."""
        try:
            return self._writer.wait(request)
        except QueueFull:
            return _SILENT

    def submit(
        self, request: Request, loop: AbstractEventLoop, reply: Callable[[Response], object]
    ) -> None:
        """Respond after a probe."""
        try:
            self._writer.submit(request, loop, reply)
        except QueueFull:
            reply(_SILENT)

    def close(self, timeout: float | None = None) -> None:
        """End the thread; wait `timeout` seconds for it."""
        self._writer.close(timeout)

    def _respond(self, requests: Sequence[Request]) -> list[Response]:
        try:
            fault = self._probe()
        except Exception as error:  # noqa: BLE001 - no error makes the server ready
            fault = f"The check of the database failed: {type(error).__name__}."
        response = plain(503, f"{fault}\n") if fault else _READY
        return [response] * len(requests)


class DatabaseProbe:
    """Returns the fault that prevents notifications from being recorded, or None.

    Requests are not authenticated, and verifying the tables takes many queries. A call therefore
    reads only the revision of our tables; it verifies them all if the revision has changed, if the
    database could not be reached before, or if the last verification is a minute old (a second if
    it failed). `clock` returns seconds. Only one thread at a time may call it.
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
