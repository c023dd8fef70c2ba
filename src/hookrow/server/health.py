"""Health checks: whether the process lives, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from hookrow import migrations
from hookrow.check import check_database
from hookrow.core.schema import Schema
from hookrow.deadline import Deadline
from hookrow.finding import Level
from hookrow.http import Request, RequestHead, Response, plain
from hookrow.promise import Promise
from hookrow.receiver.batch import GroupCommit, QueueFull
from hookrow.stores import StoreError
from hookrow.stores.sql.connections import Database

VERIFIED_FOR = 60.0
"""In seconds; how long a successful verification of the tables is valid."""

WRONG_FOR = 1.0
"""In seconds; how long a failed verification is valid."""

_ALIVE = plain(200, "ok\n")
_READY = plain(200, "ready\n")
_SILENT = plain(503, "The database does not answer.\n")


class Liveness:
    """Answers 200: that it answers at all is what is asked."""

    blocking = False

    def admit(self, head: RequestHead) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Response:
        """Answer."""
        del request
        return _ALIVE


class Readiness:
    """Answers 200, or 503 with what `probe` says is in the way, within `deadline` seconds.

    All that ask while a probe is at work share the next one, so that nobody can
    make the database busy by asking.
    """

    blocking = False

    def __init__(self, probe: Callable[[], str | None], *, deadline: float = 5.0) -> None:
        self._probe = probe
        self._commit = GroupCommit(self._answer)
        self._deadline = Deadline[Response](deadline)

    def admit(self, head: RequestHead) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Response | Promise[Response]:
        """Answer when the probe has."""
        try:
            return self._deadline.watch(self._commit.submit(request), late=_SILENT)
        except QueueFull:
            return _SILENT

    def _answer(self, requests: Sequence[Request]) -> list[Response]:
        try:
            fault = self._probe()
        except Exception as error:  # noqa: BLE001 - whatever it is, we are not ready
            fault = f"The database could not be looked at: {type(error).__name__}."
        answer = plain(503, f"{fault}\n") if fault else _READY
        return [answer] * len(requests)


class DatabaseProbe:
    """Returns what prevents the database from taking notifications, or None.

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
        if wrong is None or wrong.about not in {"database", "access"}:
            self._revisions = migrations.current(self._database)
            self._verify_at = self._clock() + (WRONG_FOR if wrong else VERIFIED_FOR)
