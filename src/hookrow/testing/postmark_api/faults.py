"""Faults that the stand-in injects into its responses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """A fault in a response of the API."""

    RATE_LIMIT = "rate limit"
    """A 429; nothing is changed."""

    MAINTENANCE = "maintenance"
    """A 503; nothing is changed."""

    ERROR_AFTER_CHANGE = "error after change"
    """A 500 after the change was made."""

    NOT_JSON = "not JSON"
    """An HTML page with 200, as from a proxy; nothing is changed."""

    RESET = "reset"
    """The connection is closed without a response; nothing is changed."""

    RESET_AFTER_CHANGE = "reset after change"
    """The change is made, and the connection is closed without a response."""

    TIMEOUT_AFTER_CHANGE = "timeout after change"
    """The change is made, but no response is sent until the stand-in is closed."""


@dataclass(slots=True)
class Injected:
    """A fault for the next `times` requests with a method and a path that contains a text."""

    fault: Fault
    times: int
    method: str | None
    path: str

    def matches(self, method: str, path: str) -> bool:
        """Return whether the fault applies to a request."""
        return self.times > 0 and self.method in {None, method} and self.path in path
