"""A client of Postmark's API (https://postmarkapp.com/developer/api/overview)."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPResponse, IncompleteRead
from socket import gaierror
from threading import Thread
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import msgspec

from hookrow import __version__
from hookrow._http import is_loopback
from hookrow._postmark_api import ADDRESS
from hookrow._postmark_api.errors import APIError, Unconfirmed, error_of, unexpected
from hookrow.errors import ConfigurationError

IO_TIMEOUT = 30.0
"""Seconds that each read and write may take."""

RETRY_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each repetition after a temporary error that states no other wait."""

RESPONSE_TIMEOUT = 120.0
"""Seconds that a whole response may take, each part of which may arrive before a timeout."""

MAX_RESPONSE_BYTES = 64 * 2**20
"""Bytes of the largest body. A page of 500 messages has a few MiB, but all suppressions of a
stream are in one response, with about 150 bytes each."""

MAX_SKEW = timedelta(minutes=5)
"""The largest difference between our clock and the provider's."""

_NOT_CLEANED = {"Url", "HttpHeaders"}
"""The fields of webhooks that are compared and sent back, so they must not be cleaned."""

MAX_MESSAGE_LENGTH = 500
"""Characters to which a longer text of the provider is truncated."""

_TEMPORARY = (ConnectionRefusedError, gaierror)
_UNREACHABLE = (*_TEMPORARY, ssl.SSLCertVerificationError, UnicodeError)
"""The errors that prove that no request was sent."""

T = TypeVar("T")


class _Excessive(OSError):
    """A response exceeds a limit."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirect, because it might take the token to another host."""


class PostmarkAPI:
    """Sends requests to Postmark's API, one at a time.

    `hidden` are texts besides the token, such as secrets, that no message of an error may contain.
    `timeout` is in seconds, for each read and write. Requests are repeated after temporary
    errors, as `RETRY_PAUSES` states. A request that exceeds `RESPONSE_TIMEOUT` is abandoned, not
    cancelled.

    Raises `ConfigurationError` if the token cannot be sent, or if the address is not an https URL;
    on this machine's loopback interface, http is accepted.
    """

    def __init__(
        self,
        token: str,
        address: str,
        *,
        hidden: Sequence[str] = (),
        timeout: float = IO_TIMEOUT,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not token or not all("!" <= letter <= "~" for letter in token):
            raise ConfigurationError(
                "The provider's token is empty or has a character that a header cannot contain: "
                "set HOOKROW_PROVIDER_TOKEN, the token of the entry or the token file to the API "
                "token of the server."
            )
        self.address = check_address(address)
        self._token, self._hidden = token, (token, *filter(None, hidden))
        self._timeout, self._sleep = timeout, sleep
        self.interval = 0.0
        """The shortest time between the starts of two requests, in seconds."""
        self._next = 0.0
        self._responded = False
        is_secure = self.address.startswith("https")
        # With plain http, a proxy would see the token.
        proxies = ProxyHandler(None if is_secure else {})
        self._open = build_opener(_NoRedirects(), proxies).open

    def hide(self, *texts: str) -> None:
        """Remove these texts, too, from all later messages."""
        self._hidden = tuple(dict.fromkeys((*self._hidden, *texts)))

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Return a resource. Raises `APIError`."""
        return self._request("GET", f"{path}?{urlencode(query)}" if query else path)

    def read(self, path: str, type_: type[T], **query: object) -> T:
        """Return a resource, decoded and cleaned. Raises `APIError`."""
        try:
            return msgspec.convert(self.clean(self.get(path, **query), keep=_NOT_CLEANED), type_)
        except (msgspec.ValidationError, RecursionError) as error:
            raise APIError(unexpected(path)) from error

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Create a resource, and return it. Raises `APIError`; see `Unconfirmed`."""
        return self._request("POST", path, body)

    def put(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Change a resource, and return it. Raises `APIError`; see `Unconfirmed`."""
        return self._request("PUT", path, body)

    def _request(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        """Send a request, again after temporary errors."""
        if (pause := self._next - time.monotonic()) > 0:
            self._sleep(pause)
        self._next = time.monotonic() + self.interval
        for wait in RETRY_PAUSES:
            try:
                return self._send(method, path, body)
            except APIError as error:
                if not error.temporary:
                    raise
                self._sleep(error.wait or wait)
        return self._send(method, path, body)

    def _send(self, method: str, path: str, body: Mapping[str, object] | None) -> dict[str, Any]:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": f"hookrow/{__version__}",
            "X-Postmark-Server-Token": self._token,
        }
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.address}{path}", data, headers, method=method)  # noqa: S310 - checked
        try:
            status, head, text = self._receive(request)
        except (OSError, HTTPException, ValueError) as error:  # the last for hosts like "a..b", "["
            raise self._no_response(error, changes=data is not None) from error
        self._responded = True
        _check_clock(head)
        try:
            found = json.loads(text)
            if isinstance(found, dict) and status == HTTPStatus.OK:
                return found
            found = self.clean(found)
        except (ValueError, RecursionError):
            found = None
        fields = {name.lower(): self.clean(value) for name, value in head.items()}
        raise error_of(status, fields, found, changes=data is not None)

    def _receive(self, request: Request) -> tuple[int, HTTPMessage, bytes]:
        """Return the status, the head and the body of the response within `RESPONSE_TIMEOUT`."""
        done: Future[tuple[int, HTTPMessage, bytes]] = Future()

        def receive() -> None:
            try:
                try:
                    response = self._open(request, timeout=self._timeout)
                except HTTPError as error:
                    response = error
                with response:
                    received = response.status, response.headers, _read(response)
            except Exception as error:  # noqa: BLE001 - the caller handles it
                done.set_exception(error)
            else:
                done.set_result(received)

        # The timeout of a socket limits each read, but not all of them together.
        Thread(target=receive, daemon=True).start()
        try:
            return done.result(RESPONSE_TIMEOUT)
        except TimeoutError:
            if done.done():  # it is that of a read
                raise
            raise _incomplete() from None

    def _no_response(self, error: Exception, *, changes: bool) -> APIError:
        cause = error.reason if isinstance(error, URLError) else error
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        text, api = self.clean(reason), f"provider's API at {self.address}"
        if isinstance(cause, _UNREACHABLE):
            return APIError(
                f"The {api} cannot be reached ({text}): check the network, and "
                "HOOKROW_PROVIDER_API if it is set.",
                # An address that has responded before is right, so the error will pass.
                temporary=self._responded and not changes and isinstance(cause, _TEMPORARY),
            )
        if isinstance(cause, _Excessive):
            text = f"The response of the {api} {text}: check the address, or try again later."
        else:
            text = f"The {api} did not respond ({text}): try again later."
        if changes:
            return Unconfirmed(text)
        return APIError(text, temporary=not isinstance(cause, _Excessive))

    def clean(self, value: Any, keep: Collection[str] = ()) -> Any:  # noqa: ANN401 - a value of JSON
        """Return a decoded body whose texts can be printed: without the token and the secrets.

        Fields that are null are omitted, and those in `keep` are not changed.
        """
        match value:
            case dict():
                return {
                    self.clean(key): each if key in keep else self.clean(each, keep)
                    for key, each in value.items()
                    if each is not None
                }
            case list():
                return [self.clean(each, keep) for each in value]
            case str():
                for hidden in self._hidden:
                    value = value.replace(hidden, "***")
                printable = (each if each.isprintable() else " " for each in value)
                return "".join(printable)[:MAX_MESSAGE_LENGTH]
            case _:
                return value


def _incomplete() -> _Excessive:
    return _Excessive(f"is not complete after {RESPONSE_TIMEOUT:g} s")


def _read(response: HTTPResponse) -> bytes:
    """Return the body. Raises `_Excessive`, and `IncompleteRead` if the connection was closed."""
    body, expected, until = bytearray(), response.length, time.monotonic() + RESPONSE_TIMEOUT
    while (expected is None or len(body) < expected) and (part := response.read1(2**16)):
        body += part
        if len(body) > MAX_RESPONSE_BYTES:
            raise _Excessive(f"is larger than {MAX_RESPONSE_BYTES >> 20} MiB")
        if time.monotonic() > until:  # so that the thread ends
            raise _incomplete()
    if expected is not None and len(body) < expected:
        raise IncompleteRead(bytes(body), expected - len(body))
    return bytes(body)


def _check_clock(head: HTTPMessage) -> None:
    """Raise `APIError` if our clock differs from the provider's.

    Otherwise, the times of suppressions and the end of a rotation would be wrong.
    """
    try:
        at = parsedate_to_datetime(head["Date"])
    except (TypeError, ValueError, OverflowError):
        return
    skew = datetime.now(UTC) - (at if at.tzinfo else at.replace(tzinfo=UTC))
    if abs(skew) > MAX_SKEW:
        minutes = round(abs(skew) / timedelta(minutes=1))
        direction = "ahead of" if skew > timedelta(0) else "behind"
        raise APIError(
            f"The clock of this machine is {minutes:,} minutes {direction} the provider's: set "
            "it, for example with NTP."
        )


def check_address(address: str) -> str:
    """Return the address without a trailing slash. Raises `ConfigurationError`."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    is_plain = address.isascii() and address.isprintable()
    if not host or parts.scheme not in {"http", "https"} or {*" @?#"} & {*address} or not is_plain:
        raise ConfigurationError(
            f"HOOKROW_PROVIDER_API is not the address of an API, such as {ADDRESS}: correct or "
            "remove it."
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigurationError(
            "HOOKROW_PROVIDER_API uses plain http, which would expose the token: use https. Only "
            "the loopback interface of this machine may use http."
        )
    return address.rstrip("/")
