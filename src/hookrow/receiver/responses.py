"""Chooses the responses to events, and combines those of one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hookrow.core.log_entry import is_parked
from hookrow.core.notification import Arrival, Outcome, Recorded, Refusal
from hookrow.http import Response, respond
from hookrow.providers import Provider


class Responses:
    """The responses to outcomes: the contract's, unless one of these applies.

    With `acknowledge_parked`, a notification that the log retries gets a 200. The provider may have
    responses that differ from the contract's.
    """

    def __init__(self, provider: Provider, *, acknowledge_parked: bool) -> None:
        self._acknowledge_parked = acknowledge_parked
        self._own = provider.responses
        self.are_usual = not acknowledge_parked and not self._own
        """Whether all responses are the contract's."""

    def __call__(self, arrival: Arrival, outcome: Outcome) -> Response:
        """Return the response to an arrival. The log, if there is one, contains its outcome."""
        if isinstance(outcome, Recorded):
            return _RECORDED
        is_final = outcome.refusal.status != Refusal.UNAVAILABLE.status
        if self._acknowledge_parked and is_final and is_parked(arrival, outcome):
            return _RECORDED
        return self._own.get(outcome.refusal) or respond(outcome)


class ResponseCollector:
    """Collects the responses to the events of a request, and replies once it has all of them."""

    def __init__(self, count: int, reply: Callable[[Response], object]) -> None:
        self._missing = count
        self._reply = reply
        self._responses: list[Response] = []

    def __call__(self, response: Response) -> None:
        """Take the next response; all calls are made in the same thread."""
        self._responses.append(response)
        self._missing -= 1
        if not self._missing:
            self._reply(combined(self._responses))


def combined(responses: Sequence[Response]) -> Response:
    """Return the response to a request from those to its events.

    A 503 comes first, because the provider then sends all of them again; then any other refusal. A
    request without events gets 200.
    """
    if len(responses) == 1:
        return responses[0]
    refused = [each for each in responses if each.status != _RECORDED.status]
    unavailable = [each for each in refused if each.status == Refusal.UNAVAILABLE.status]
    return (unavailable or refused or [_RECORDED])[0]


_RECORDED = respond(Recorded(()))
