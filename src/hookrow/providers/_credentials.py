"""The base class of providers that authenticate by credentials: those in the webhook's URL.

A sender puts the user name and the password of a URL into the header Authorization (RFC 7617). The
credentials are the only proof: nothing covers the body.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hmac import compare_digest
from secrets import token_urlsafe
from typing import ClassVar, NamedTuple, Self
from urllib.parse import unquote_to_bytes

from hookrow._core.notification import Notification
from hookrow._http import Request, RequestHead, header_values
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Event, check_secrets
from hookrow.providers._built_in import ProviderRequest
from hookrow.providers._events import PROBE_SUPPRESSION, EventProvider

_CHALLENGE = 'Basic realm="hookrow", error="{}"'
"""Senders ignore parameters that they do not know (RFC 7617, section 2)."""

_HAS_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]").search
"""Finds a character that credentials must not contain (RFC 7617, section 2)."""

_is_token = re.compile(r"[A-Za-z0-9._~+/-]+=*").fullmatch
"""Matches a token (RFC 6750, section 2.1), which contains no colon."""

_BASIC = b"basic"

_TOKEN = "Bearer "  # noqa: S105 - a prefix

_URL = "https://USER:PASSWORD@"
"""The beginning of the URL that a provider must call."""


class _Credential(NamedTuple):
    """What a request must contain: a scheme in lower case, and one of the values that follow it.

    The values of Basic authentication are decoded from base64. `secret` is the part that must not
    be guessed.
    """

    scheme: bytes
    values: Sequence[bytes]
    secret: str


class CredentialProvider(EventProvider):
    """Admits requests with one of several credentials, the newest first.

    A credential is `user:password`, as in the URL `https://user:password@example.com/...` that is
    set at the provider, but without percent-encoding. The user name contains no colon. Several
    are accepted, so that they can be rotated. If `accepts_tokens`, a credential may also be
    `Bearer TOKEN`.

    `secrets` are the passwords. Raises `ConfigurationError` if a credential is missing or not
    valid.
    """

    accepts_tokens: bool = False
    credential = "credentials"
    header: str = "Authorization"
    proof = "Authorization"
    setup = (
        "Put the credentials of hookrow before the host: `https://user:password@app.example.com`."
    )
    probe_change: ClassVar[Notification] = PROBE_SUPPRESSION

    def __init__(self, *credentials: str) -> None:
        self.accept(*credentials)

    def accept(self, *credentials: str) -> None:
        """Accept these credentials from now on, and no others. Raises `ConfigurationError`."""
        if not credentials or not all(credentials):
            raise ConfigurationError(
                "The credentials are missing or empty: set a user name and a password, separated "
                f"by a colon, and call the webhook by {_URL}... at the provider."
            )
        check_secrets(self, credentials)
        self._credentials = [_parse(each, tokens=self.accepts_tokens) for each in credentials]
        self.secrets: Sequence[str] = [each.secret for each in self._credentials]
        self.reset_matches(len(credentials))

    @classmethod
    def generate(cls, **_: object) -> tuple[str, Self]:
        """Return random credentials, and a provider that accepts them; see `BuiltIn`."""
        credentials = f"hookrow:{token_urlsafe()}"
        return credentials, cls(credentials)

    def sign(self, body: bytes) -> ProviderRequest:
        """Return the request with an event, and the newest credentials."""
        newest = self._credentials[0]
        value = newest.values[0]
        if newest.scheme == _BASIC:
            value = b64encode(value)
        headers = {
            "Content-Type": "application/json",
            self.header: f"{newest.scheme.decode().title()} {value.decode()}",
        }
        return ProviderRequest(headers, body)

    def admit(self, head: RequestHead) -> str | None:
        """Return None if the head contains one of the credentials, otherwise a challenge.

        It states whether they are wrong or missing. The comparisons take constant time. Some
        senders send credentials only after a challenge.
        """
        position = self._position(*_received(head))
        if position is None:
            is_given = any(header_values(head.headers, b"authorization"))
            return _CHALLENGE.format("wrong" if is_given else "missing")
        self.count_match(position, head)
        return None

    def describe_unauthentic(self, head: RequestHead) -> str:
        """Return why the credentials were refused; see `Provider`."""
        values = header_values(head.headers, b"authorization")
        if not any(values):
            return f"it has no Authorization: begin the webhook's URL with {_URL} at the provider"
        scheme, given = _received(head)
        if len(values) == 1 and scheme not in {each.scheme for each in self._credentials}:
            return "its Authorization has another scheme than the credentials that are set here"
        if len(values) > 1 or b"," in values[0]:  # a server may have joined them
            return "its Authorization is repeated"
        if given is None:
            return "the credentials in its Authorization are not in base64"
        if self._is_quoted(scheme, given):
            return (
                "its credentials differ from those that are set here only by percent-encoding: "
                "choose a password of letters, digits, '-' and '_'"
            )
        return "its credentials are wrong"

    def read(self, request: Request) -> Sequence[Event]:
        """Return the events in a request, whose credentials `admit` has compared."""
        return self.read_body(request.body)

    def _position(self, scheme: bytes, given: bytes | None) -> int | None:
        """Return the position of the first equal credential, after comparing with all of them."""
        found = None
        for position, credential in enumerate(self._credentials):
            is_equal = _equals_any(given or b"", credential.values)
            if is_equal and scheme == credential.scheme and found is None:
                found = position
        return found

    def _is_quoted(self, scheme: bytes, given: bytes) -> bool:
        """Return whether credentials differ only by percent-encoding."""
        quoted = [unquote_to_bytes(value) for each in self._credentials for value in each.values]
        is_quoted_here = _equals_any(given, quoted)
        return self._position(scheme, unquote_to_bytes(given)) is not None or is_quoted_here


def _equals_any(given: bytes, values: Sequence[bytes]) -> bool:
    return any([compare_digest(given, each) for each in values])  # noqa: C419 - constant time


def _received(head: RequestHead) -> tuple[bytes, bytes | None]:
    """Return the scheme in lower case, and what follows it, decoded; None if that is not valid.

    A repeated header has no scheme, because each proxy might choose another one of its values.
    """
    values = header_values(head.headers, b"authorization")
    if len(values) != 1:
        return b"", None
    scheme, _, given = values[0].partition(b" ")
    scheme, given = scheme.lower(), given.lstrip(b" ")
    if scheme != _BASIC:
        return scheme, given
    try:
        return scheme, b64decode(given, validate=True)
    except binascii.Error:
        return scheme, None


def _parse(credential: str, *, tokens: bool) -> _Credential:
    """Return a credential. Raises `ConfigurationError`, which does not quote it."""
    if tokens and credential.startswith(_TOKEN):
        return _parse_token(credential.removeprefix(_TOKEN))
    user, _, password = credential.partition(":")
    if not user or not password:
        form = " or 'Bearer TOKEN'" if tokens else ""
        raise ConfigurationError(
            "The credentials have no user name or no password: write them as 'user:password'"
            f"{form}."
        )
    if _HAS_CONTROL(credential):
        raise ConfigurationError(
            "The credentials contain a line break or another control character: remove it."
        )
    try:
        values = [credential.encode()]
    except UnicodeEncodeError:
        raise ConfigurationError(
            "The credentials are not valid Unicode: read them from a variable or file in UTF-8."
        ) from None
    if not credential.isascii() and all(each <= "\xff" for each in credential):
        values.append(credential.encode("latin-1"))  # RFC 7617 leaves the encoding to the sender
    return _Credential(_BASIC, values, password)


def _parse_token(token: str) -> _Credential:
    if not _is_token(token):
        raise ConfigurationError(
            "The token after 'Bearer ' is empty or contains other characters than ASCII letters, "
            "digits and ._~+/-: choose another one."
        )
    return _Credential(b"bearer", [token.encode()], token)
