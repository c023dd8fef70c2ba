"""The base class of email providers: how requests are authenticated, and events read from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from hookrow.core.log_entry import RECORD_TYPES
from hookrow.core.notification import Refusal
from hookrow.core.optional import OPTIONAL_KINDS, RECORDS, Kinds
from hookrow.http import Request, RequestHead, Response
from hookrow.providers.payload import Part


class Unauthentic(Exception):
    """The provider did not send the request. `challenge` is as in `Provider.admit`."""

    def __init__(self, challenge: str) -> None:
        super().__init__(challenge)
        self.challenge = challenge


class BodyParser(Protocol):
    """The part of a provider that reads stored bodies, for which no secret is needed."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The provider's name in the log, at most 32 characters."""

    @abstractmethod
    def parse(self, body: bytes) -> Part:
        """Return the event in the body of a `Part`, whether or not it is supported. Never raises.

        Its `event_id` and `trace_id` may be None, because only the request may contain them.
        """

    def explain(self, body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises.

        By default, None, because nothing is known about the body.
        """
        del body
        return None


class Provider(BodyParser):
    """Authenticates requests and reads their events: the base class of providers."""

    header: str | None = None
    """The header that contains the secret, if there is one."""

    secrets: Sequence[str] = ()
    """The accepted secrets, the newest first, if they are known."""

    matched: Mapping[int, int] = MappingProxyType({})
    """The number of requests by the position of the secret, if they are counted; 0 is the newest.
    """

    responses: Mapping[Refusal, Response] = MappingProxyType({})
    """The response to each refusal whose response is not the contract's.

    For example, a provider that disables an endpoint after refusals of event types that it need not
    know about gets a 200 for `Refusal.UNSUPPORTED`.
    """

    @abstractmethod
    def admit(self, head: RequestHead) -> str | None:
        """Return None to admit a request, or the challenge to an unauthenticated one.

        The challenge becomes the header WWW-Authenticate of the 401 (RFC 9110, section 11.6.1). A
        provider that signs the body admits the request here, and verifies it in `read`.
        """

    @abstractmethod
    def read(self, request: Request) -> Sequence[Part]:
        """Return the events in an admitted request, in order.

        Raises `Unauthentic` if the signature of the body is not valid, and nothing else.
        """


def explain(parser: BodyParser, part: Part, recorded: Kinds) -> str | None:
    """Return why an event is not recorded by a store that records these kinds; None if it is.

    Also returns None if the provider does not explain why it does not support the event.
    """
    for name, (column, *_) in RECORDS.items():
        kind = OPTIONAL_KINDS.get(column)
        types = type(part.notification), part.unsupported.record_type
        if kind and kind not in recorded and (kind is types[0] or RECORD_TYPES[kind] == types[1]):
            return (
                f"The mapping does not record this type: map the column {column!r}, or add "
                f"{name!r} to `record`."
            )
    return parser.explain(part.body) if part.notification is None else None
