"""The protocol of email providers: how requests are authenticated, and bodies parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from hookrow.core.notification import Notification, Unsupported
from hookrow.http import SECRET_HEADER, RequestHead

Parse: TypeAlias = Callable[[bytes], Notification | None]
"""The type of `Provider.parse`, for code that needs no secret."""

Explain: TypeAlias = Callable[[bytes], str | None]
"""Returns why a body is not supported, in a sentence, or None if it is. Never raises."""


class Provider(Protocol):
    """Authenticates requests and parses bodies; `Postmark` is one."""

    @property
    def name(self) -> str:
        """The provider's name in the log, at most 32 characters."""

    def authentic(self, head: RequestHead) -> bool:
        """Return whether the head proves that the provider sent the request."""

    def challenge(self, head: RequestHead) -> str:
        """Return the challenge to an unauthenticated request (RFC 9110, section 11.6.1)."""

    def parse(self, body: bytes) -> Notification | None:
        """Return the notification in a body, or None if it is not supported. Never raises."""

    def describe(self, body: bytes) -> Unsupported:
        """Return the readable fields of an unsupported body. Never raises."""


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


def secret_matches(provider: Provider) -> Mapping[int, int]:
    """Return the counts of a provider; empty if it does not count."""
    return provider.matched if isinstance(provider, CountsMatches) else {}


def accepted_secrets(provider: Provider) -> Sequence[str]:
    """Return the secrets of a provider; empty if it does not name them."""
    return provider.secrets if isinstance(provider, HasSecrets) else ()


def secret_header(provider: Provider) -> str:
    """Return the header that contains the secret of a provider."""
    return provider.header if isinstance(provider, HasHeader) else SECRET_HEADER
