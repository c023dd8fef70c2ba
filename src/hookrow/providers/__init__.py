"""The protocol of email providers: how requests are authenticated, and bodies parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from hookrow.core.notification import Notification, Unsupported
from hookrow.http import RequestHead

Parse: TypeAlias = Callable[[bytes], Notification | None]
"""A provider's parser, `Provider.parse`, for code that needs no secret."""


class Provider(Protocol):
    """Authenticates requests and parses bodies; `Postmark` is one."""

    @property
    def name(self) -> str:
        """Its name in the log, of at most 32 characters."""

    def authentic(self, head: RequestHead) -> bool:
        """Return whether the head proves that the provider sent the request."""

    def challenge(self, head: RequestHead) -> str:
        """Return the challenge to an unauthenticated request (RFC 9110, section 11.6.1)."""

    def parse(self, body: bytes) -> Notification | None:
        """Return the notification in a body, or None if it is not supported. Never raises."""

    def describe(self, body: bytes) -> Unsupported:
        """Return what an unsupported body says, as far as it is readable. Never raises."""
