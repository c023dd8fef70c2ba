"""Health checks: whether the process lives, and whether it can do its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hookrow.batch import GroupCommit, Overloaded
from hookrow.deadline import Deadline
from hookrow.http import Head, Request, Response, plain
from hookrow.promise import Promise

_ALIVE = plain(200, "ok\n")
_READY = plain(200, "ready\n")
_SILENT = plain(503, "The database does not answer.\n")


class Liveness:
    """Answers 200: that it answers at all is what is asked."""

    blocking = False

    def admit(self, head: Head) -> Response | None:
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

    def admit(self, head: Head) -> Response | None:
        """Take every request."""

    def __call__(self, request: Request) -> Response | Promise[Response]:
        """Answer when the probe has."""
        try:
            return self._deadline.watch(self._commit.submit(request), late=_SILENT)
        except Overloaded:
            return _SILENT

    def _answer(self, requests: Sequence[Request]) -> list[Response]:
        try:
            fault = self._probe()
        except Exception as error:  # noqa: BLE001 - whatever it is, we are not ready
            fault = f"The database could not be looked at: {type(error).__name__}."
        answer = plain(503, f"{fault}\n") if fault else _READY
        return [answer] * len(requests)
