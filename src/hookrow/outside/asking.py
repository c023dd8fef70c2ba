"""Asks a server as the provider would: one POST on a connection of its own.

What is posted can change nothing, for it is about nobody. It has no time, so that it is
always the same, and the log keeps it once.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Timer
from time import monotonic

from hookrow.core.notification import Refusal
from hookrow.core.rules import PROBE
from hookrow.outside.address import Address

PATIENCE = 30.0
"""In seconds; how long an answer is waited for.

How long the provider waits for one is not published (two minutes for inbound mail).
"""

HEADER = "X-Provider-Secret"

UNKNOWN = (
    b'{"RecordType":"SubscriptionChange","MessageID":"hookrow-check",'
    b'"Recipient":"%b","SuppressSending":false}'
) % PROBE.encode()
"""About a message and an address that nobody has."""

_FILLED = b'{"RecordType":"HookrowCheck","Recipient":"%b","Filler":"%%b"}' % PROBE.encode()

_MOST = 64 * 1024
"""In bytes; so much of an answer is read."""


def filled(size: int) -> bytes:
    """Return a body of so many bytes that is of no type that is supported."""
    return _FILLED % (b"x" * (size - len(_FILLED % b"")))


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: header names in lower case, and no secret in it that was sent.

    Where none came the status is 0, and the text says what was seen instead.
    """

    status: int
    headers: Mapping[str, str]
    text: str

    def tells(self, refusal: Refusal) -> bool:
        """Tell whether it is hookrow's answer of that refusal."""
        return (self.status, self.text) == (refusal.status, refusal.text)

    def blames(self, error: str) -> bool:
        """Tell whether the secret is said to have been that, "missing" or "wrong"."""
        return f'error="{error}"' in self.headers.get("www-authenticate", "")

    def __str__(self) -> str:
        """Write the status, and the title or the beginning of the text, as they may be shown."""
        title = re.search(r"<title[^>]*>(.*?)</title", self.text, re.IGNORECASE | re.DOTALL)
        text = shown((title[1] if title else self.text).removeprefix(f"{self.status} "))
        return (f'{self.status} "{text}"' if text else str(self.status)) if self.status else text


class Caller:
    """Posts, and remembers how long the slowest answer to a small body took, in seconds.

    `context` says which certificates are trusted, None: those that Python trusts. An answer
    that is not there whole within `patience` seconds is none, however it drips.
    """

    def __init__(self, context: ssl.SSLContext | None, patience: float) -> None:
        self._context = context
        self._patience = patience
        self.slowest = 0.0

    def post(self, address: Address, secret: str | None, body: bytes = UNKNOWN) -> Answer:
        """Post a body; without a secret its header is left out. Follows no redirect."""
        headers = {"Content-Type": "application/json", "User-Agent": "Postmark (hookrow check)"}
        if secret is not None:
            headers[HEADER] = secret
        if address.login:
            headers["Authorization"] = address.login
        started = monotonic()
        try:
            answer = self._exchange(address, headers, body)
        except (OSError, HTTPException, ValueError) as error:
            answer = Answer(0, {}, f"The connection ended without an answer ({said(error)})")
        seconds = monotonic() - started
        if body is UNKNOWN:  # the time of a large one is that of the line from here
            self.slowest = max(self.slowest, seconds)
        late = Answer(0, {}, f"No answer came within {self._patience:g} s")
        return late if seconds >= self._patience else answer

    def _exchange(self, address: Address, headers: Mapping[str, str], body: bytes) -> Answer:
        connection = self._connection(address)
        connection.connect()
        watch = Timer(self._patience, _cut, [connection.sock])
        watch.daemon = True
        watch.start()
        try:
            # Who refuses a body by its head may answer, and close, before it has all come.
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.request("POST", address.target, body, dict(headers))
            return _read(connection.getresponse(), _hidden(headers))
        finally:
            watch.cancel()
            connection.close()

    def _connection(self, address: Address) -> HTTPConnection:
        host, port = address.host, address.port
        # A little longer than the watch: it is that which ends what is too slow.
        patience = self._patience + 1
        if address.secure:
            return HTTPSConnection(host, port, timeout=patience, context=self._context)
        return HTTPConnection(host, port, timeout=patience)


def said(error: Exception) -> str:
    """Return what an error says, as it may be shown, without the place in Python's source."""
    text = re.sub(r" ?\(?_ssl\.c:\d+\)?:? ?", "", str(getattr(error, "strerror", None) or error))
    return shown(text or type(error).__name__)


def shown(text: str, most: int = 80) -> str:
    """Return the beginning of what a server sent, harmless on a terminal."""
    line = " ".join(text.split())
    cut = line if len(line) <= most else f"{line[: most - 3]}..."
    return "".join(letter if letter.isprintable() else "?" for letter in cut)


def _hidden(headers: Mapping[str, str]) -> Sequence[str]:
    """Return what an answer may repeat and nobody may see, as text and as it is in HTML."""
    sent = (headers.get(HEADER), headers.get("Authorization", "").removeprefix("Basic "))
    return [form for each in sent if each for form in (each, escape(each))]


def _read(response: HTTPResponse, hidden: Sequence[str]) -> Answer:
    text = response.read(_MOST).decode(errors="replace")
    headers = {name.lower(): _without(value, hidden) for name, value in response.getheaders()}
    return Answer(response.status, headers, _without(text, hidden))


def _without(text: str, hidden: Sequence[str]) -> str:
    for each in hidden:
        text = text.replace(each, "***")
    return text


def _cut(connection: socket.socket) -> None:
    """End a connection under the thread that reads from it, which TLS would not bear closed."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
