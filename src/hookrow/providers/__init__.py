"""The provider: who may come in, and what a body says."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from hookrow.core.notification import Arrival, Notification, Unsupported
from hookrow.http import RequestHead


class Provider(Protocol):
    """Knows what its requests are like; `Postmark` is one."""

    @property
    def name(self) -> str:
        """What the log calls it: at most 32 characters."""

    def authentic(self, head: RequestHead) -> bool:
        """Tell whether the head proves where it comes from."""

    def challenge(self, head: RequestHead) -> str:
        """Say what a head lacks that is not authentic (RFC 9110, section 11.6.1)."""

    def parse(self, body: bytes) -> Notification | None:
        """Read a body; None where it holds no supported notification. Never raises."""

    def describe(self, body: bytes) -> Unsupported:
        """Say what an unsupported body is about, as far as it can be read. Never raises."""


def read(
    provider: Provider,
    body: bytes,
    received_at: datetime,
    request_id: str = "",
    context: object | None = None,
) -> Arrival:
    """Return what arrived with a body, supported or not."""
    notification = provider.parse(body)
    unsupported = _SUPPORTED if notification is not None else provider.describe(body)
    return Arrival(
        notification,
        body,
        received_at,
        unsupported=unsupported,
        provider=provider.name,
        request_id=request_id,
        context=context,
    )


_SUPPORTED = Unsupported()
