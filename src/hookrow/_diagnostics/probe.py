"""Checks a webhook over the network, the way the provider reaches it.

The probes are harmless: their recipient is hookrow's own (see `rules.is_probe`). The secret is
sent only after hookrow has rejected a wrong one, and never unencrypted to a public address.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from secrets import token_urlsafe
from string import punctuation
from threading import Thread
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from hookrow._core.notification import Refusal
from hookrow._core.rules import PROBE
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.diagnosis import ProbeSecret, Reply, diagnose, diagnose_readiness
from hookrow._http import PROBE_AGENT, SECRET_HEADER
from hookrow.errors import ConfigurationError
from hookrow.providers.postmark import Postmark

PROBE_TIMEOUT = 30.0
"""Seconds to wait for each response; the provider does not publish its own timeout."""

READINESS_TIMEOUT = 10.0
"""Seconds to wait for the response of /readyz; hookrow responds sooner, even without a database."""

LARGE_BODY = 64 * 1024
"""The size in bytes of the probe with the configured secret; most notifications are smaller. A
longer response is not read to its end."""

PROBE_BODY = json.dumps(
    {"RecordType": "SubscriptionChange", "Recipient": PROBE, "SuppressSending": False}
).encode()
"""A notification that changes nothing, and that the log does not keep: see `rules.is_probe`."""


def check_url(
    url: str, secret: str | None, *, timeout: float = PROBE_TIMEOUT
) -> Iterator[CheckResult]:
    """Check a webhook with the provider's URL and secret; an error ends the checks.

    If the secret is None, everything else is checked. The last result, or the reason if hookrow
    cannot use its database, is the response of `hookrow serve` at /readyz; any other server is
    ignored there. `timeout` is in seconds, for each response. Raises `ConfigurationError` if the
    URL or the secret is not valid.
    """
    target = parse_url(url)
    if secret is not None:
        Postmark(secret)  # raises ConfigurationError for a secret that no header can contain
    send = partial(_send, target, secret=secret, timeout=timeout)
    error = None
    for result in _check(target, secret, send):
        yield result
        if result.level is Level.ERROR:
            error = result.subject
            break
    if error in {None, "database"}:
        ready = diagnose_readiness(_ask_readiness(target, min(timeout, READINESS_TIMEOUT)))
        yield from [ready] if ready else []


def accepts(url: str, secret: str) -> bool | None:
    """Return whether hookrow accepts a secret at a URL, or None if it does not respond there.

    Raises `ConfigurationError` if the URL is not valid, or public without https.
    """
    target = parse_url(url)
    try:
        addresses = _resolve(target)
    except (OSError, UnicodeError):
        return None
    if target.scheme == "http" and _are_public(addresses):
        raise ConfigurationError(f"Plain http would expose the secret to {url}: set up https.")
    reply = _send(target, ProbeSecret.CONFIGURED, secret, PROBE_TIMEOUT)
    known = {Refusal.SUBSCRIBER_NOT_FOUND: True, Refusal.UNAUTHENTIC: False}
    for refusal, accepted in known.items():
        if (reply.status, reply.text) == (refusal.status, refusal.text):
            return accepted
    return None


def parse_url(url: str) -> SplitResult:
    """Split a URL. Raises `ConfigurationError`, whose text does not quote the URL."""
    with suppress(ValueError):
        parts = urlsplit(url)
        is_http = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        if is_http and url.isprintable() and not {"@", " "} & {*parts.netloc}:
            path, query = (quote(each, safe=punctuation) for each in (parts.path, parts.query))
            return parts._replace(path=path or "/", query=query, fragment="")
    raise ConfigurationError(
        "This is not the URL of a webhook: it must look like "
        "https://example.com/mail/provider/webhooks, with https:// or http://, and without a user "
        "name or password."
    )


def _check(
    url: SplitResult, secret: str | None, send: Callable[[ProbeSecret], Reply]
) -> Iterator[CheckResult]:
    """Yield all results; each requires that there was no error before."""
    try:
        addresses = _resolve(url)
    except (OSError, UnicodeError) as error:
        yield diagnose(Reply(url.geturl(), ProbeSecret.WRONG, 0, f"cannot resolve: {error}"))
        return
    yield diagnose(send(ProbeSecret.WRONG))
    yield diagnose(send(ProbeSecret.NONE))
    if secret is None:
        yield CheckResult(Level.WARNING, "secret", "No secret was sent: set HOOKROW_SECRET.")
    elif url.scheme == "http" and _are_public(addresses):
        text = "The secret was not sent, because plain http would expose it: set up https."
        yield CheckResult(Level.ERROR, "tls", text)
    else:
        yield diagnose(send(ProbeSecret.CONFIGURED))


def _resolve(url: SplitResult) -> Sequence[str]:
    """Return the addresses of the host. Raises `OSError` or `UnicodeError`."""
    found = socket.getaddrinfo(url.hostname, url.port or url.scheme)
    return sorted({str(address[0]).partition("%")[0] for *_, address in found})


def _are_public(addresses: Sequence[str]) -> bool:
    return any(ip_address(each).is_global for each in addresses)


class _Message(NamedTuple):
    """The parts of a request without its URL."""

    method: str
    headers: Mapping[str, str]
    body: bytes | None = None


def _send(url: SplitResult, sent: ProbeSecret, secret: str | None, timeout: float) -> Reply:
    """Send a probe. Only `ProbeSecret.CONFIGURED` sends the secret."""
    headers = {"Content-Type": "application/json", "User-Agent": PROBE_AGENT.decode()}
    if value := {ProbeSecret.WRONG: token_urlsafe(), ProbeSecret.CONFIGURED: secret}.get(sent):
        headers[SECRET_HEADER] = value
    body = PROBE_BODY.ljust(LARGE_BODY) if sent is ProbeSecret.CONFIGURED else PROBE_BODY
    return _exchange(url, sent, _Message("POST", headers, body), timeout)


def _ask_readiness(url: SplitResult, timeout: float) -> Reply:
    """Request /readyz of the server, which is at the root, whatever the path of the webhook."""
    message = _Message("GET", {"User-Agent": PROBE_AGENT.decode()})
    return _exchange(url._replace(path="/readyz", query=""), ProbeSecret.NONE, message, timeout)


def _exchange(url: SplitResult, sent: ProbeSecret, message: _Message, timeout: float) -> Reply:
    """Send a request on a new connection; wait at most `timeout` seconds for the reply."""
    replies: SimpleQueue[Reply] = SimpleQueue()
    # In a thread, because the timeout of a socket limits each read, but not all of them together.
    Thread(target=lambda: replies.put(_request(url, sent, message, timeout)), daemon=True).start()
    try:
        return replies.get(timeout=timeout)
    except Empty:
        return Reply(url.geturl(), sent, 0, f"no complete response within {timeout:g} s")


def _request(url: SplitResult, sent: ProbeSecret, message: _Message, timeout: float) -> Reply:
    """Send a request without following redirects; return the reply."""
    method, headers, body = message
    with closing(_connection(url, timeout)) as connection:
        try:
            connection.connect()
            connection.sock.settimeout(2 * timeout)  # so that this thread ends, too
            # A server that rejects the head may close the connection before it reads the body.
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.request(method, urlunsplit(("", "", *url[2:])), body, headers)
            response = connection.getresponse()
            text = response.read(LARGE_BODY).decode(errors="replace")
            header = response.getheader("WWW-Authenticate") or response.getheader("Location") or ""
        except (OSError, HTTPException, ValueError) as error:
            failed = "TLS failed" if isinstance(error, ssl.SSLError) else "no response"
            return Reply(url.geturl(), sent, 0, f"{failed}: {error}")
    return Reply(url.geturl(), sent, response.status, text, header)


def _connection(url: SplitResult, timeout: float) -> HTTPConnection:
    host, timeout = url.hostname or "", timeout / 3  # it applies to each address of the host
    if url.scheme == "http":
        return HTTPConnection(host, url.port, timeout=timeout)
    context = ssl.create_default_context()
    # Python 3.13 rejects certificates that other clients accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return HTTPSConnection(host, url.port, timeout=timeout, context=context)
