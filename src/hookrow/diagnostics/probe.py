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
from dataclasses import replace
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from secrets import token_urlsafe
from string import punctuation
from threading import Thread
from time import monotonic, time
from typing import TypeAlias
from urllib.parse import SplitResult, quote, urljoin, urlsplit, urlunsplit

from hookrow.core.notification import Refusal
from hookrow.core.rules import PROBE
from hookrow.describe import pluralize
from hookrow.diagnostics.diagnosis import Reply, Sent, diagnose
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.errors import ConfigurationError
from hookrow.http import ENDPOINT, PROBE_AGENT, SECRET_HEADER
from hookrow.providers.postmark import Postmark

TIMEOUT = 30.0
"""In seconds, for each response; the provider does not publish its own timeout."""

SLOW = 5.0
"""In seconds; hookrow responds within this time, so a slower response has another cause."""

LARGE = 64 * 1024
"""In bytes; most notifications are smaller. The rest of a longer response is not read."""

BODY = json.dumps(
    {"RecordType": "SubscriptionChange", "Recipient": PROBE, "SuppressSending": False}
).encode()
"""A notification that changes nothing, and that the log does not keep: see `rules.is_probe`."""

_SOON = 14
"""In days; a certificate that is valid for less should have been renewed automatically."""

_Sender: TypeAlias = Callable[[SplitResult, Sent], Reply]


def check_url(url: str, secret: str | None, *, timeout: float = TIMEOUT) -> Iterator[CheckResult]:
    """Check a webhook with the provider's URL and secret; an error ends the checks.

    If the secret is None, everything else is checked. `timeout` is in seconds, for each response.
    Raises `ConfigurationError` if the URL or the secret is not valid.
    """
    target = parse_url(url)
    if secret is not None:
        Postmark(secret)
    send = partial(_send, secret=secret, timeout=timeout)
    for result in _check(target, secret, send):
        yield result
        if result.level is Level.ERROR:
            return


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
    reply = _send(target, Sent.CONFIGURED, secret, TIMEOUT)
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
        "https://example.com/mail/provider/webhooks, without a user name or password."
    )


def _check(url: SplitResult, secret: str | None, send: _Sender) -> Iterator[CheckResult]:
    """Yield all results; each requires that there was no error before."""
    try:
        addresses = _resolve(url)
    except (OSError, UnicodeError) as error:
        yield diagnose(Reply(url.geturl(), Sent.WRONG, 0, f"cannot resolve: {error}"))
        return
    public = _are_public(addresses)
    yield _check_addresses(url, addresses, public=public)
    replies = [send(url, Sent.WRONG)]
    if replies[0].certificate:
        yield _check_certificate(replies[0].certificate)
    yield _locate(url, replies[0], send)
    replies.append(send(url, Sent.NONE))
    yield diagnose(replies[-1])
    if secret is None:
        yield CheckResult(Level.WARNING, "secret", "No secret was sent: set HOOKROW_SECRET.")
    elif public and url.scheme == "http":
        text = "The secret was not sent, because plain http would expose it: set up https."
        yield CheckResult(Level.ERROR, "tls", text)
    else:
        replies.append(send(url, Sent.CONFIGURED))
        yield diagnose(replies[-1])
    yield _check_speed(max(each.seconds for each in replies))


def _resolve(url: SplitResult) -> Sequence[str]:
    """Return the addresses of the host. Raises `OSError` or `UnicodeError`."""
    found = socket.getaddrinfo(url.hostname, url.port or url.scheme)
    return sorted({str(address[0]).partition("%")[0] for *_, address in found})


def _are_public(addresses: Sequence[str]) -> bool:
    return any(ip_address(each).is_global for each in addresses)


def _check_addresses(url: SplitResult, addresses: Sequence[str], *, public: bool) -> CheckResult:
    text = f"{url.hostname} resolves to {', '.join(addresses)}."
    if public:
        return CheckResult(Level.OK, "dns", text)
    meaning = "The provider can reach only public addresses."
    return CheckResult(Level.WARNING, "dns", text, meaning, "Check the public URL as well.")


def _check_certificate(certificate: Mapping[str, object]) -> CheckResult:
    days = (ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time()) / 86_400
    text = f"The certificate is trusted, and valid for another {pluralize(round(days), 'day')}."
    if days >= _SOON:
        return CheckResult(Level.OK, "tls", text)
    meaning = "After it expires, the provider may not connect."
    remedy = "Renew the certificate, and find out why it was not renewed automatically."
    return CheckResult(Level.WARNING, "tls", text, meaning, remedy)


def _check_speed(seconds: float) -> CheckResult:
    text = f"The slowest response took {seconds:.2f} s."
    if seconds < SLOW:
        return CheckResult(Level.OK, "speed", text)
    meaning = f"hookrow responds within {SLOW:.0f} s; the provider's timeout is not published."
    remedy = "Find out whether the database is slow, or whether a proxy queues requests."
    return CheckResult(Level.WARNING, "speed", text, meaning, remedy)


def _locate(url: SplitResult, reply: Reply, send: _Sender) -> CheckResult:
    """Return the diagnosis of the first reply; if hookrow responds elsewhere, include its URL.

    The other places are the target of a redirect, and the endpoint below the URL's path.
    """
    result = diagnose(reply)
    if result.subject not in {"path", "redirect"} or result.level is Level.OK:
        return result
    path = url.path.rstrip("/").removesuffix(ENDPOINT) + ENDPOINT
    for place in (reply.header, url._replace(path=path, query="").geturl()):
        with suppress(ConfigurationError, ValueError):
            other = parse_url(urljoin(url.geturl(), place))
            if other != url and diagnose(send(other, Sent.WRONG)).level is Level.OK:
                remedy = f"Give the provider {other.geturl()}: hookrow responds there."
                return replace(result, remedy=remedy)
    return result


def _send(url: SplitResult, sent: Sent, secret: str | None, timeout: float) -> Reply:
    """Send a probe on a new connection; wait at most `timeout` seconds for the reply."""
    replies: SimpleQueue[Reply] = SimpleQueue()
    # In a thread, because the timeout of a socket limits each read, but not all of them together.
    Thread(target=lambda: replies.put(_post(url, sent, secret, timeout)), daemon=True).start()
    try:
        return replies.get(timeout=timeout)
    except Empty:
        return Reply(url.geturl(), sent, 0, f"no complete response within {timeout:g} s")


def _post(url: SplitResult, sent: Sent, secret: str | None, timeout: float) -> Reply:
    """Send a request without following redirects. Only `Sent.CONFIGURED` sends the secret."""
    headers = {"Content-Type": "application/json", "User-Agent": PROBE_AGENT.decode()}
    if value := {Sent.WRONG: token_urlsafe(), Sent.CONFIGURED: secret}.get(sent):
        headers[SECRET_HEADER] = value
    body = BODY.ljust(LARGE) if sent is Sent.CONFIGURED else BODY
    certificate = None
    with closing(_connection(url, timeout)) as connection:
        try:
            connection.connect()
            connection.sock.settimeout(2 * timeout)  # so that this thread ends, too
            if isinstance(connection.sock, ssl.SSLSocket):
                certificate = connection.sock.getpeercert()
            started = monotonic()
            # A server that rejects the head may close the connection before it reads the body.
            with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
                connection.request("POST", urlunsplit(("", "", *url[2:])), body, headers)
            response = connection.getresponse()
            text = response.read(LARGE).decode(errors="replace")
            header = response.getheader("WWW-Authenticate") or response.getheader("Location") or ""
        except (OSError, HTTPException, ValueError) as error:
            failed = "TLS failed" if isinstance(error, ssl.SSLError) else "no response"
            return Reply(url.geturl(), sent, 0, f"{failed}: {error}")
    seconds = monotonic() - started
    return Reply(url.geturl(), sent, response.status, text, header, seconds, certificate)


def _connection(url: SplitResult, timeout: float) -> HTTPConnection:
    host, timeout = url.hostname or "", timeout / 3  # it applies to each address of the host
    if url.scheme == "http":
        return HTTPConnection(host, url.port, timeout=timeout)
    context = ssl.create_default_context()
    # Python 3.13 rejects certificates that other clients accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return HTTPSConnection(host, url.port, timeout=timeout, context=context)
