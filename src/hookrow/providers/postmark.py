"""Postmark: authenticates its requests and reads their notifications.

Postmark signs nothing: a secret in a custom header is the only proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any, ClassVar, Self

from hookrow._core.notification import Bounced, Complained, Notification
from hookrow._core.spellings import MESSAGE_ID_LENGTHS
from hookrow._http import SECRET_HEADER, Request, RequestHead
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Event, check_secrets
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers._message_ids import as_uuid
from hookrow.providers._postmark_payloads import (
    body_schema,
    compose,
    explain,
    is_test,
    parse,
    summarize,
)
from hookrow.providers._secrets import NO_HEADER, describe_wrong_header, why_no_header


class Postmark(BuiltIn):
    """Authenticates requests by a shared secret, and parses Postmark's payloads.

    Several secrets are accepted at a time, so that a secret can be rotated: `Postmark(new, old)`.
    A secret consists of visible ASCII characters, because no others pass through every proxy
    unchanged (RFC 9110, section 5.5). `matched` counts the requests with each secret, by its
    position, until `accept`; `old_matches` counts those whose secret is not the newest, except the
    probes of `hookrow check` and `hookrow provider rotate`.

    Raises `ConfigurationError` if a secret is missing, empty or not allowed in a header.
    """

    name = "postmark"
    message_id_source = "`MessageID` of the response of its API"
    message_id_length: ClassVar[int | None] = MESSAGE_ID_LENGTHS["postmark"]
    accepts_logged = False
    header: str = SECRET_HEADER
    proof = SECRET_HEADER
    setup = f"Add the custom header `{SECRET_HEADER}`, whose value is the secret of hookrow."
    hard_bounce = "HardBounce"

    def __init__(self, *secrets: str) -> None:
        self.accept(*secrets)

    def accept(self, *secrets: str) -> None:
        """Accept these secrets from now on, and no others. Raises `ConfigurationError`."""
        if not secrets or not all(secrets):
            raise ConfigurationError(
                "The webhook secret is missing or empty: set one, for example from "
                "`python -c 'import secrets; print(secrets.token_urlsafe())'`."
            )
        check_secrets(self, secrets)
        for secret in secrets:
            if fault := why_no_header(secret):
                raise ConfigurationError(NO_HEADER.format(fault))
        self.reset_matches(len(secrets))
        self.secrets: Sequence[str] = secrets
        self._encoded = [secret.encode() for secret in secrets]

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the head contains one of the secrets, which takes constant time.

        Otherwise, return a challenge that states whether the secret is wrong or missing. If it is
        missing, a proxy may have removed the header.
        """
        value = head.header(self.header) or b""
        matched = None
        for position, secret in enumerate(self._encoded):
            if compare_digest(value, secret) and matched is None:
                matched = position
        if matched is None:
            return f'Secret error="{"wrong" if value else "missing"}"'
        self.count_match(matched, head)
        return None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return whether the secret is missing, empty, repeated or wrong; see `Provider`."""
        return describe_wrong_header(head, self.header, self._encoded)

    def read(self, request: Request) -> Sequence[Event]:
        """Return the only event in a request, with Postmark's trace id."""
        trace_id = request.head.header("x-pm-webhook-trace-id")
        text = trace_id.decode("latin-1") if trace_id else None
        return (_event(request.body, text),)

    @staticmethod
    def parse(body: bytes) -> Event:
        """Return the event in a body, whether or not it is supported. Never raises."""
        return _event(body)

    def sign(self, body: bytes) -> ProviderRequest:
        """Return the request with a body and the newest secret."""
        headers = {"Content-Type": "application/json", "User-Agent": "Postmark"}
        return ProviderRequest(headers | {self.header: self.secrets[0]}, body)

    @classmethod
    def generate(cls, **_: object) -> tuple[str, Self]:
        """Return a random secret, and a provider that accepts it; see `BuiltIn`."""
        secret = token_urlsafe()
        return secret, cls(secret)

    @staticmethod
    def compose(notification: Notification) -> bytes:
        """Return the body that `parse` reads as a notification, with no other fields."""
        return compose(notification)

    @staticmethod
    def explain(body: bytes) -> str | None:
        """Return why a body is not supported, in a sentence, or None if it is. Never raises."""
        return explain(body)

    @staticmethod
    def body_schema() -> Mapping[str, Any]:
        """Return the JSON Schema of its payloads; see `Provider`."""
        return body_schema()

    def is_test(self, event: Event) -> bool:
        """Return whether Postmark sent the event to test the webhook; see `Provider`."""
        return any(map(is_test, event.notifications))

    @staticmethod
    def field_names(notification: Notification) -> tuple[str, str]:
        """Return the names that the recipient and the message id have in a payload."""
        has_email = isinstance(notification, Bounced | Complained)
        return "Email" if has_email else "Recipient", "MessageID"

    @staticmethod
    def correct_message_id(stored: str) -> str | None:
        """Return a stored UUID in lower case with hyphens; see `BodyParser`."""
        return as_uuid(stored, domain="mtasv.net")


def _event(body: bytes, trace_id: str | None = None) -> Event:
    notification = parse(body)
    if notification is None:
        return Event((), body, summarize(body), trace_id=trace_id)
    return Event((notification,), body, trace_id=trace_id)
