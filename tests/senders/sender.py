"""What the tests need to know of each provider to post its events."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hookrow import Request
from hookrow.providers import Provider

ADA = "ada@example.com"
"""The recipient of all events that have one."""


@dataclass(frozen=True, kw_only=True)
class Sender:
    """A provider, and the requests that it sends, which are signed without hookrow."""

    construct: Callable[[], Provider]
    """Constructs the provider, which accepts the requests."""

    message_id: str
    """The message id of the dispatch in all events, as the host has stored it."""

    opened: Callable[[int], Any]
    """Returns an open at a second, in JSON. Two seconds are two events."""

    unknown: Any
    """An event of a type that the provider does not document."""

    nobody: Any
    """A delivery without an address."""

    pack: Callable[[Sequence[Any]], bytes]
    """Returns the body of a request with events: one, unless `is_batched`."""

    sign: Callable[[bytes], Request]
    """Returns an authentic request with a body, which may be any bytes."""

    is_batched: bool = False

    def request(self, *events: Any) -> Request:  # noqa: ANN401 - any JSON
        """Return an authentic request with events."""
        return self.sign(self.pack(events))
