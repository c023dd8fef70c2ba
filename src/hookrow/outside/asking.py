"""Asks a server as the provider would: one POST on a connection of its own."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Timer
from time import monotonic

from hookrow.outside.address import Address

PATIENCE = 30.0
"""In seconds; how long an answer is waited for.

How long the provider waits for one is not published (two minutes for inbound mail).
"""

HEADER = "X-Provider-Secret"

_MOST = 64 * 1024
"""In bytes; so much of an answer is read."""

_SMALL = 4096
"""In bytes; a notification is no larger, but for much metadata."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: header names in lower case, and no secret in it that was sent."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Silence:
    """There was no response; `why` is what was seen instead, in a sentence without its end."""

    why: str


class Caller:
    """Posts, and remembers how long the slowest answer to a small body took, in seconds.

    `context` says which certificates are trusted, None that no TLS is spoken. An answer
    that is not there whole within `patience` seconds is none, however it drips.
    """

    def __init__(self, context: ssl.SSLContext | None, patience: float = PATIENCE) -> None:
        self._context = context
        self._patience = patience
        self.slowest = 0.0

    def post(self, address: Address, secret: str | None, body: bytes) -> Answer | Silence:
        """Post a body; without a secret its header is left out. Follows no redirect."""
        headers = {"Content-Type": "application/json", "User-Agent": "Postmark (hookrow check)"}
        if secret is not None:
            headers[HEADER] = secret
        if address.login:
            headers["Authorization"] = address.login
        started = monotonic()
        answer: Answer | Silence
        try:
            answer = self._exchange(address, headers, body)
        except (OSError, HTTPException, ValueError) as error:
            answer = Silence(f"The connection ended without an answer ({said(error)})")
        seconds = monotonic() - started
        if len(body) < _SMALL:  # the time of a large one is that of the line from here
            self.slowest = max(self.slowest, seconds)
        late = seconds >= self._patience
        return Silence(f"No answer came within {self._patience:g} s") if late else answer

    def _exchange(self, address: Address, headers: Mapping[str, str], body: bytes) -> Answer:
        connection = self._connection(address)
        watch: Timer | None = None
        try:
            connection.connect()
            watch = Timer(self._patience, _cut, [connection.sock])
            watch.daemon = True
            watch.start()
            # Who refuses a body by its head may answer, and close, before it has all come.
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.request("POST", address.target, body, dict(headers))
            return _read(connection.getresponse(), _hidden(headers))
        finally:
            if watch is not None:
                watch.cancel()
            connection.close()

    def _connection(self, address: Address) -> HTTPConnection:
        # A little longer than the watch: it is that which ends what is too slow.
        patience = self._patience + 1
        if address.secure:
            return HTTPSConnection(
                address.host, address.port, timeout=patience, context=self._context
            )
        return HTTPConnection(address.host, address.port, timeout=patience)


def said(error: Exception) -> str:
    """Return what an error says, as it may be shown."""
    return shown(str(getattr(error, "strerror", None) or error) or type(error).__name__)


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
