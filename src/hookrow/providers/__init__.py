"""The protocol of email providers: how requests are authenticated, and events read from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hookrow.core.log_entry import RECORD_TYPES
from hookrow.core.notification import Refusal
from hookrow.core.optional import OPTIONAL_KINDS, RECORDS, Kinds
from hookrow.http import SECRET_HEADER, Request, RequestHead, Response
from hookrow.providers.payload import Part


class Unauthentic(Exception):
    """The provider did not send the request. `challenge` is as in `Provider.admit`."""

    def __init__(self, challenge: str) -> None:
        super().__init__(challenge)
        self.challenge = challenge


class BodyParser(Protocol):
    """The part of a provider that reads stored bodies, for which no secret is needed."""

    @property
    def name(self) -> str:
        """The provider's name in the log, at most 32 characters."""

    def parse(self, body: bytes) -> Part:
        """Return the event in the body of a `Part`, whether or not it is supported. Never raises.

        Its `event_id` and `trace_id` may be None, because only the request may contain them.
        """


class Provider(BodyParser, Protocol):
    """Authenticates requests and reads their events; `Postmark` is one."""

    def admit(self, head: RequestHead) -> str | None:
        """Return None to admit a request, or the challenge to an unauthenticated one.

        The challenge becomes the header WWW-Authenticate of the 401 (RFC 9110, section 11.6.1). A
        provider that signs the body admits the request here, and verifies it in `read`.
        """

    def read(self, request: Request) -> Sequence[Part]:
        """Return the events in an admitted request, in order.

        Raises `Unauthentic` if the signature of the body is not valid, and nothing else.
        """


@runtime_checkable
class Explains(Protocol):
    """An optional part of a `BodyParser`: explains why bodies are not supported."""

    def explain(self, body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises."""


@runtime_checkable
class CountsMatches(Protocol):
    """An optional part of a provider: counts the requests that each secret authenticated."""

    @property
    def matched(self) -> Mapping[int, int]:
        """The number of requests by the position of the secret; 0 is the newest."""


@runtime_checkable
class HasSecrets(Protocol):
    """An optional part of a provider: the secrets that it accepts."""

    @property
    def secrets(self) -> Sequence[str]:
        """The accepted secrets, the newest first."""


@runtime_checkable
class HasHeader(Protocol):
    """An optional part of a provider: the header that contains the secret."""

    @property
    def header(self) -> str:
        """The name of the header."""


@runtime_checkable
class HasResponses(Protocol):
    """An optional part of a provider: responses that differ from the contract's."""

    @property
    def responses(self) -> Mapping[Refusal, Response]:
        """The response to each refusal whose response is not the usual one.

        For example, a provider that disables an endpoint after refusals of event types that it
        need not know about gets a 200 for `Refusal.UNSUPPORTED`.
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
    if part.notification is None and isinstance(parser, Explains):
        return parser.explain(part.body)
    return None


def secret_matches(provider: Provider) -> Mapping[int, int]:
    """Return the counts of a provider; empty if it does not count."""
    return provider.matched if isinstance(provider, CountsMatches) else {}


def accepted_secrets(provider: Provider) -> Sequence[str]:
    """Return the secrets of a provider; empty if it does not name them."""
    return provider.secrets if isinstance(provider, HasSecrets) else ()


def secret_header(provider: Provider) -> str:
    """Return the header that contains the secret of a provider."""
    return provider.header if isinstance(provider, HasHeader) else SECRET_HEADER


def own_responses(provider: Provider) -> Mapping[Refusal, Response]:
    """Return the provider's responses; empty if it uses the usual ones."""
    return provider.responses if isinstance(provider, HasResponses) else {}
