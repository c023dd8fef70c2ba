"""The handler of /readyz, which shows whether a notification would be recorded.

`diagnosis` recognizes its texts.
"""

from __future__ import annotations

from collections.abc import Callable

from hookrow._core.status import Status, StatusLevel, StatusSubject
from hookrow._http import Handler, Request, RequestHead, Response, plain

_READY = plain(200, "ready\n")

_UNREADY = (StatusSubject.WRITES, StatusSubject.RESPONSES)
"""The subjects whose findings, if they are broken, make a server unready. Other findings concern
all servers, or the provider, so that another server would not do better."""


class ReadinessHandler(Handler):
    """A handler that responds with 200 and "ready" if a notification would be recorded.

    Otherwise, the response is a 503 with the reason in the `status`. While `can_spool` returns
    True, because notifications are kept in a spool, it is a 200 that begins with "attention". If
    the status has other findings, a second line names their subjects.

    Requests are not authenticated, so the findings themselves are not shown: they may name the
    receiver's entries.
    """

    def __init__(
        self, status: Callable[[], Status], *, can_spool: Callable[[], bool] = lambda: False
    ) -> None:
        self._status = status
        self._can_spool = can_spool

    def admit(self, head: RequestHead) -> Response | None:
        """Admit every request."""

    def __call__(self, request: Request) -> Response:
        """Respond with the status."""
        del request
        findings = self._status().findings
        for each in findings:
            if each.level is StatusLevel.BROKEN and each.subject in _UNREADY:
                if self._can_spool():
                    return plain(200, f"attention: {each.reason}\n")
                return plain(503, f"not ready: {each.reason}\n")
        if not findings:
            return _READY
        subjects = ", ".join(dict.fromkeys(each.subject.value for each in findings))
        return plain(200, f"ready\nattention: {subjects}\n")
