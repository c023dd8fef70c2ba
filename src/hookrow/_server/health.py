"""The health check /healthz, which shows whether the process responds."""

from __future__ import annotations

from hookrow._http import Handler, Request, RequestHead, Response, plain

_ALIVE = plain(200, "ok\n")


class Liveness(Handler):
    """A handler that responds with 200 to every request."""

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond."""
        del request
        return _ALIVE
