"""Standard Webhooks: verifies the signatures of requests, as Svix sends them for many providers.

The specification is https://github.com/standard-webhooks/standard-webhooks (spec, version 1.0.0).
Svix's own names of the headers begin with `svix-` (https://docs.svix.com/receiving/verifying-payloads).
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from hmac import compare_digest, digest
from secrets import token_bytes, token_urlsafe
from time import time
from typing import ClassVar, Self

from hookrow._arguments import check_function
from hookrow._http import Request, RequestHead
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Unauthentic, check_secrets
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers._secrets import doubt_about, why_no_header

MAX_DIFFERENCE = 300
"""Seconds by which the time of a request may differ from this clock, in either direction."""

PREFIX = "whsec_"
"""The beginning of a secret; the rest is the key in base64."""

_SHORTEST_KEY = 16
"""The fewest bytes of a key: a shorter one was copied in part, or can be guessed.

The specification asks for 24 to 64.
"""

_PREFIXES = ("webhook", "svix")
_HEADER_NAMES = ("id", "timestamp", "signature")

_REPEATED = b", "
"""Joins the values of a repeated header. A list of signatures separates them by spaces."""

_LONGEST_TIMESTAMP = 12
"""The largest number of digits of a timestamp; that of the present has 10."""


class StandardWebhooks(BuiltIn):
    """Verifies HMAC-SHA256 signatures of requests by one of several secrets, the newest first.

    A secret begins with `whsec_`; several are accepted, so that it can be rotated. `clock` returns
    the time in seconds since 1970. Raises `ConfigurationError` if a secret is missing, or is not
    `whsec_` and at least 16 bytes in base64.
    """

    proof = "webhook-signature"
    setup = "Copy the signing secret of the webhook to the settings of hookrow."
    tolerance: ClassVar[str] = f"{MAX_DIFFERENCE // 60} minutes ago or ahead"

    def __init__(self, *secrets: str, clock: Callable[[], float] = time) -> None:
        check_function("clock", clock)
        self._clock = clock
        self.accept(*secrets)

    def accept(self, *secrets: str) -> None:
        """Accept these secrets from now on, and no others. Raises `ConfigurationError`."""
        if not secrets or not all(secrets):
            raise ConfigurationError(
                "The signing secret is missing or empty: copy it from the webhook at the provider."
            )
        check_secrets(self, secrets)
        self._keys = [_key(secret) for secret in secrets]
        self.reset_matches(len(secrets))

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the head has a signature and a current time, otherwise a challenge."""
        signed = _signed_headers(head)
        if signed is None:
            return 'Signature error="missing"'
        _, timestamp, _ = signed
        if not _is_time(timestamp):
            return 'Signature error="wrong"'
        return 'Signature error="expired"' if self._is_expired(int(timestamp)) else None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return which header is missing or wrong, or that no signature is valid; see `Provider`.

        The names are those of the specification, and not Svix's.
        """
        signed = _signed_headers(head)
        if signed is None:
            return _describe_missing(head)
        _, timestamp, signatures = signed
        if not _is_time(timestamp):
            return "its webhook-timestamp is not a number of seconds"
        if self._is_expired(int(timestamp)):
            is_old = int(timestamp) < self._clock()
            ago = "ago" if is_old else "in the future"
            minutes = MAX_DIFFERENCE // 60
            return f"it was signed more than {minutes} minutes {ago}, by this machine's clock"
        if _REPEATED in signatures:
            return "its webhook-signature is repeated"
        if not any(each.startswith(b"v1,") for each in signatures.split(b" ")):
            return "its webhook-signature has no signature of version v1"
        return f"its signature is wrong: {self.wrong_signature}"

    def verify(self, request: Request) -> str:
        """Return the id of a signed request. Raises `Unauthentic` if no signature is valid."""
        signed = _signed_headers(request.head)
        if signed is None:
            raise Unauthentic('Signature error="missing"')
        id_, timestamp, signatures = signed
        if _REPEATED in signatures:
            raise Unauthentic('Signature error="wrong"')
        content = b"%b.%b.%b" % (id_, timestamp, request.body)
        given = [each[3:] for each in signatures.split(b" ") if each.startswith(b"v1,")]
        for position, key in enumerate(self._keys):
            expected = _signature(key, content)
            if any([compare_digest(expected, each) for each in given]):  # noqa: C419 - all of them
                self.count_match(position, request.head)
                return id_.decode("latin-1")
        raise Unauthentic('Signature error="wrong"')

    def sign(self, body: bytes) -> ProviderRequest:
        """Return a request with a body, a new id, and a signature by the newest key."""
        id_, timestamp = f"msg_{token_urlsafe(18)}", str(int(self._clock()))
        signature = _signature(self._keys[0], f"{id_}.{timestamp}.".encode() + body)
        headers = {
            "Content-Type": "application/json",
            "webhook-id": id_,
            "webhook-timestamp": timestamp,
            self.proof: f"v1,{signature.decode()}",
        }
        return ProviderRequest(headers, body)

    @classmethod
    def generate(cls, **_: object) -> tuple[str, Self]:
        """Return a random secret, and a provider that signs by it; see `BuiltIn`."""
        secret = PREFIX + b64encode(token_bytes(24)).decode()
        return secret, cls(secret)

    def _is_expired(self, timestamp: int) -> bool:
        return abs(self._clock() - timestamp) > MAX_DIFFERENCE


def _signature(key: bytes, content: bytes) -> bytes:
    return b64encode(digest(key, content, "sha256"))


def _is_time(timestamp: bytes) -> bool:
    return timestamp.isdigit() and len(timestamp) <= _LONGEST_TIMESTAMP


def _signed_headers(head: RequestHead) -> tuple[bytes, bytes, bytes] | None:
    """Return the id, the time and the signatures, or None if one of them is missing."""
    for prefix in _PREFIXES:
        id_, timestamp, signatures = [head.header(f"{prefix}-{name}") for name in _HEADER_NAMES]
        if id_ and timestamp and signatures:
            return id_, timestamp, signatures
    return None


def _describe_missing(head: RequestHead) -> str:
    """Return which of the three headers are missing, as a clause."""
    missing = [
        f"webhook-{name}"
        for name in _HEADER_NAMES
        if not any(head.header(f"{prefix}-{name}") for prefix in _PREFIXES)
    ]
    if not missing:
        return "its signature headers are partly those of Svix"
    return f"it has no {' and no '.join(missing)}"


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(PREFIX).rstrip("=")
    try:
        key = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or len(key) < _SHORTEST_KEY:
        fault = why_no_header(secret) or doubt_about(secret) or "is not valid"
        raise ConfigurationError(
            f"The signing secret {fault}. It is {PREFIX} and a key of at least {_SHORTEST_KEY} "
            "bytes in base64: copy all of it from the webhook at the provider."
        )
    return key
