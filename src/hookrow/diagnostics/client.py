"""Sends a probe as the provider sends notifications: one POST on a connection of its own."""

from __future__ import annotations

import json
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from html import escape
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Timer
from time import monotonic
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from hookrow.core.rules import PROBE
from hookrow.errors import ConfigurationError

HEADER = "X-Provider-Secret"

BODY = json.dumps(
    {"RecordType": "SubscriptionChange", "Recipient": PROBE, "SuppressSending": False}
).encode()
"""A notification that changes nothing, and that the log does not keep: see `rules.is_probe`."""

PORTS = {"http": 80, "https": 443}

_REDIRECTS = range(300, 400)

_CONNECT_TIMEOUT = 10.0
"""In seconds, for each address of a host."""

_LONGEST_TEXT = 64 * 1024
"""In bytes; the rest of a longer response is not read."""


class Sent(Enum):
    """The secret that a probe has."""

    WRONG = "with a wrong secret"
    NONE = "without a secret"
    CONFIGURED = "with the configured secret"


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, or the reason why there is none as its `text`: then the status is 0.

    `header` is the absolute URL of a redirect, or empty if it is not valid; of any other response,
    it is WWW-Authenticate. Neither text contains the secret or the password of the URL. `tls` is
    the version of TLS and the end of the certificate's validity, in seconds since 1970.
    """

    sent: Sent
    status: int
    text: str
    header: str = ""
    seconds: float = 0.0
    tls: tuple[str, float] | None = None

    def __str__(self) -> str:
        """Return the status, and the title or the beginning of the text."""
        title = re.search(r"<title[^>]*>(.*?)</title", self.text, re.IGNORECASE | re.DOTALL)
        text = printable(title[1] if title else self.text)
        return f'{self.status} "{text}"' if text else str(self.status)


def parse_url(url: str) -> SplitResult:
    """Split a URL. Raises `ConfigurationError`, whose text does not quote the URL."""
    with suppress(ValueError):
        parts = urlsplit(url)
        is_http = parts.scheme in PORTS and parts.hostname and parts.port != 0
        if is_http and url.isprintable() and " " not in parts.netloc:
            path = quote(parts.path or "/", safe="/%:;,@!$&'()*+=~")
            query = quote(parts.query, safe="/%?&=+:;,@!$'()*~")
            return parts._replace(path=path, query=query, fragment="")
    raise ConfigurationError(
        "That is not the URL of a webhook: it should be like "
        "https://example.com/mail/provider/webhooks."
    )


def without_login(url: SplitResult) -> str:
    """Return the text of a URL, without user and password."""
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()


def printable(text: str, longest: int = 80) -> str:
    """Return the beginning of a server's text without line breaks and terminal escapes."""
    line = " ".join(text.split())
    line = line if len(line) <= longest else f"{line[: longest - 3]}..."
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def post(
    url: SplitResult, sent: Sent, secret: str | None, body: bytes = BODY, *, timeout: float
) -> Reply:
    """Send a probe, and follow no redirect.

    Without a secret, the header is omitted. A response that is not complete within `timeout`
    seconds counts as none.
    """
    headers, hidden = _headers(url, secret)
    with closing(_connection(url)) as connection:
        try:
            connection.connect()
            tls = _tls(connection.sock)
        except ssl.SSLError as error:
            return Reply(sent, 0, f"TLS failed ({describe_error(error)})")
        except (OSError, ValueError) as error:
            return Reply(sent, 0, f"cannot connect ({describe_error(error)})")
        started = monotonic()
        try:
            with _limited_to(timeout, connection.sock):
                status, text, header = _exchange(connection, url, body, headers)
        except (OSError, HTTPException, ValueError) as error:
            status, text, header = 0, f"no response ({describe_error(error)})", ""
        seconds = monotonic() - started
    if seconds >= timeout:
        return Reply(sent, 0, f"no complete response within {timeout:g} s", "", seconds, tls)
    text, header = _redact(text, hidden), _redact(header, hidden)
    if status in _REDIRECTS:
        header = _absolute(url, header)
    return Reply(sent, status, text, header, seconds, tls)


def describe_error(error: Exception) -> str:
    """Return the text of an error, without the line in Python's source."""
    text = str(getattr(error, "verify_message", None) or getattr(error, "strerror", None) or error)
    text = re.sub(r" ?\(_ssl\.c:\d+\)", "", text).rstrip(".")
    return printable(text or type(error).__name__)


def _headers(url: SplitResult, secret: str | None) -> tuple[dict[str, str], Sequence[str]]:
    """Return the headers of a probe, and the texts in them that no user may see."""
    headers = {"Content-Type": "application/json", "User-Agent": "Postmark (hookrow check)"}
    hidden = []
    if secret is not None:
        headers[HEADER] = secret
        hidden.append(secret)
    if url.username is not None:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}"
        hidden.append(b64encode(login.encode()).decode())
        headers["Authorization"] = f"Basic {hidden[-1]}"
    return headers, hidden


def _connection(url: SplitResult) -> HTTPConnection:
    host, port = url.hostname or "", url.port or PORTS[url.scheme]
    if url.scheme == "http":
        return HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT)
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python 3.13 rejects certificates that other clients accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return HTTPSConnection(host, port, timeout=_CONNECT_TIMEOUT, context=context)


def _exchange(
    connection: HTTPConnection, url: SplitResult, body: bytes, headers: dict[str, str]
) -> tuple[int, str, str]:
    """Return the status of a response, the beginning of its text, and `Reply.header`."""
    target = f"{url.path}?{url.query}" if url.query else url.path
    # A server that rejects a request by its head may close the connection before the body is sent.
    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        connection.request("POST", target, body, headers)
    response = connection.getresponse()
    name = "Location" if response.status in _REDIRECTS else "WWW-Authenticate"
    text = response.read(_LONGEST_TEXT).decode(errors="replace")
    return response.status, text, response.getheader(name, "")


def _absolute(url: SplitResult, location: str) -> str:
    with suppress(ConfigurationError, ValueError):
        return without_login(parse_url(urljoin(without_login(url), location)))
    return ""


def _tls(connection: socket.socket) -> tuple[str, float] | None:
    if not isinstance(connection, ssl.SSLSocket):
        return None
    valid_until = str((connection.getpeercert() or {}).get("notAfter"))
    return connection.version() or "TLS", float(ssl.cert_time_to_seconds(valid_until))


def _redact(text: str, hidden: Sequence[str]) -> str:
    """Replace the texts that a server may repeat, as they are or encoded, but no user may see."""
    for form in (form for each in hidden for form in (each, escape(each), quote(each))):
        text = text.replace(form, "***")
    return text


@contextmanager
def _limited_to(seconds: float, connection: socket.socket) -> Iterator[None]:
    """Shut a connection down after so many seconds: its own timeout applies to each read."""
    connection.settimeout(None)
    # `close` would not wake the thread that reads.
    watchdog = Timer(seconds, _shut_down, [connection])
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)  # also of one with TLS
