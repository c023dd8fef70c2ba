"""Postmark: who may come in, and what a body says.

The payloads are those of https://postmarkapp.com/developer/webhooks, which
signs nothing: a secret in a header of one's own is the only proof.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from hmac import compare_digest

import msgspec

from hookrow.core.notification import (
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Suppressed,
    Unsupported,
)
from hookrow.errors import ConfigurationError
from hookrow.http import RequestHead

SHORTEST_SECRET = 16
"""In characters; a shorter secret works, but can be guessed: checks warn of it."""

LONGEST_TEXT = 1000
"""In characters; of an address or a message id, more than any row can hold."""


class _Payload(msgspec.Struct, rename="pascal", gc=False):
    """The fields of a payload that count; None where one is missing or of another type."""

    record_type: str | None = None
    recipient: str | None = None
    message_id: str | None = msgspec.field(name="MessageID", default=None)
    delivered_at: datetime | None = None
    received_at: datetime | None = None
    suppress_sending: bool | None = None
    suppression_reason: str | None = None
    changed_at: datetime | None = None


_FIELDS = msgspec.structs.fields(_Payload)

_Untyped = msgspec.defstruct(
    "_Untyped",
    [(each.name, object, None) for each in _FIELDS],
    rename={each.name: each.encode_name for each in _FIELDS},
    gc=False,
)
"""The same fields, each of whatever type it came as."""


class _Said(msgspec.Struct, rename="pascal", gc=False):
    """The fields by which any payload of the provider's can be told."""

    record_type: object = None
    recipient: object = None
    email: object = None
    message_id: object = msgspec.field(name="MessageID", default=None)


_decode = msgspec.json.Decoder(_Payload).decode
_decode_untyped = msgspec.json.Decoder(_Untyped).decode
_decode_said = msgspec.json.Decoder(_Said).decode


class Postmark:
    """The provider: knows its secrets and reads its payloads.

    Several secrets are all accepted, so that one can be rotated: `Postmark(new,
    old)`. A secret is visible ASCII without spaces, since nothing else survives
    every proxy's handling of a header (RFC 9110, section 5.5).

    `matched` counts how often each was used, by its place among them, so that one
    can see when the old one no longer is.

    Raises `ConfigurationError` where there is no secret or an impossible one.
    """

    name = "postmark"

    def __init__(self, *secrets: str, header: str = "X-Provider-Secret") -> None:
        self._header = header
        self.accept(*secrets)

    def accept(self, *secrets: str) -> None:
        """Accept these secrets from now on, and no others. Raises as the constructor does."""
        if not secrets or not all(secrets):
            raise ConfigurationError(
                "The webhook secret is missing or empty: set one, for example from "
                "`python -c 'import secrets; print(secrets.token_urlsafe())'`."
            )
        if not all(_is_header_value(secret) for secret in secrets):
            raise ConfigurationError(
                "The webhook secret has a character that a header cannot carry: "
                "use visible ASCII characters without spaces."
            )
        self.matched = Counter(dict.fromkeys(range(len(secrets)), 0))
        self._secrets = [secret.encode() for secret in secrets]

    def authentic(self, head: RequestHead) -> bool:
        """Tell whether the head carries one of the secrets, in constant time."""
        value = head.header(self._header) or b""
        matches = [compare_digest(value, secret) for secret in self._secrets]
        if not any(matches):
            return False
        self.matched[matches.index(True)] += 1
        return True

    def challenge(self, head: RequestHead) -> str:
        """Say whether the secret is missing or wrong: a proxy may have dropped the header.

        Who sent it knows; what is right is not told.
        """
        return f'Secret error="{"wrong" if head.header(self._header) else "missing"}"'

    def describe(self, body: bytes) -> Unsupported:
        """Say what an unsupported body is about, as far as it can be read. Never raises."""
        try:
            said = _decode_said(body)
        except (ValueError, RecursionError):
            return Unsupported()
        recipient = _text(said.recipient) or _text(said.email)
        return Unsupported(_text(said.record_type), recipient, _text(said.message_id))

    def parse(self, body: bytes) -> Notification | None:
        """Read a body; None where it holds no supported notification. Never raises."""
        return parse(body)


def parse(body: bytes) -> Notification | None:
    """Read a body; None where it holds no supported notification. Never raises."""
    try:
        body.decode()  # msgspec does not look at strings that it skips
        payload = _read(body)
    except (ValueError, RecursionError):
        return None
    match payload.record_type:
        case "Delivery":
            delivered = _utc(payload.delivered_at)
            return Delivered(*_address(payload), delivered) if delivered else None
        case "Open":
            opened = _utc(payload.received_at)
            return Opened(*_address(payload), opened) if opened else None
        case "SubscriptionChange":
            return _subscription_change(payload)
        case _:
            return None


def _read(body: bytes) -> _Payload:
    """Decode a body. Raises what msgspec does, for all but a field of another type."""
    try:
        return _decode(body)
    except msgspec.ValidationError:
        untyped, payload = _decode_untyped(body), _Payload()
        for each in _FIELDS:
            with suppress(msgspec.ValidationError):
                value = msgspec.convert(getattr(untyped, each.name), each.type)
                setattr(payload, each.name, value)
        return payload


def _is_header_value(secret: str) -> bool:
    return all("!" <= letter <= "~" for letter in secret)


def _subscription_change(payload: _Payload) -> Notification | None:
    changed_at, reason = _utc(payload.changed_at), payload.suppression_reason
    if payload.suppress_sending is False:
        return Reactivated(*_address(payload), changed_at)
    if not payload.suppress_sending or reason is None or not reason.strip() or "\0" in reason:
        return None
    return Suppressed(*_address(payload), changed_at, reason)


def _address(payload: _Payload) -> tuple[str | None, str | None]:
    return _cut(payload.recipient), _cut(payload.message_id)


def _text(value: object) -> str | None:
    return _cut(value) if isinstance(value, str) else None


def _cut(text: str | None) -> str | None:
    """Cut what no row could hold: a queue has to hold many of them."""
    return text and text[:LONGEST_TEXT]


def _utc(at: datetime | None) -> datetime | None:
    """Return the time in UTC, which it is where it names no offset; None out of its range."""
    if at is None or at.tzinfo is UTC:
        return at
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        return None
