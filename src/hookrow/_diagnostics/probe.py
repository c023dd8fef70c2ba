"""Checks a webhook over the network, the way the provider reaches it.

The probes are harmless: their recipient is hookrow's own (see `rules.is_probe`). The secret is
sent only after hookrow has rejected a wrong one, and never unencrypted to a public address.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from string import punctuation
from threading import Thread
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from hookrow._core.notification import Refusal
from hookrow._diagnostics import CheckResult, Level
from hookrow._diagnostics.diagnosis import ProbeSecret, Reply, diagnose, diagnose_readiness
from hookrow._http import ENDPOINT, PROBE_AGENT
from hookrow._receiver.entries import Entry, no_such_entry
from hookrow.errors import ConfigurationError
from hookrow.providers._base import Provider
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers.postmark import Postmark

PROBE_TIMEOUT = 30.0
"""Seconds to wait for each response; the provider does not publish its own timeout."""

READINESS_TIMEOUT = 10.0
"""Seconds to wait for the response of /readyz; hookrow responds sooner, even without a database."""

LARGE_BODY = 64 * 1024
"""The size in bytes of the probe with the configured secret; most notifications are smaller. A
longer response is not read to its end."""


@dataclass(frozen=True, slots=True)
class Sender:
    """An entry of a receiver, as far as its provider's requests can be sent.

    `kind` is the class of its provider, or None for one that is not hookrow's. Without a
    `provider`, its credential is not known.
    """

    name: str | None
    kind: type[BuiltIn] | None
    provider: BuiltIn | None = None

    @classmethod
    def of(cls, entry: Entry[Provider]) -> Sender:
        """Return the sender of the requests that an entry accepts."""
        provider = entry.provider
        if isinstance(provider, BuiltIn):
            return cls(entry.name, type(provider), provider)
        return cls(entry.name, None)


def check_url(
    url: str, senders: Sequence[Sender], *, timeout: float = PROBE_TIMEOUT
) -> Iterator[CheckResult]:
    """Check a webhook with the requests of its provider; an error ends the checks of an entry.

    If the URL ends with the name of an entry, only that one is checked; if no entry has the name,
    no request is sent. Otherwise, the first one is checked there, and each other one at the URL
    followed by its name. Without a credential, everything else is checked. The last result, or the
    reason if hookrow cannot use its database, is the response of `hookrow serve` at /readyz; any
    other server is ignored there. `timeout` is in seconds, for each response. Raises
    `ConfigurationError` if the URL is not valid.
    """
    names = [each.name for each in senders if each.name is not None]
    if (name := name_at_end(url, senders)) not in {None, *names}:
        remedy = "Correct the URL, which needs no name for the first entry."
        yield CheckResult(Level.ERROR, "path", no_such_entry(str(name), names), remedy=remedy)
        return
    errors: set[str] = set()
    for target, sender in targets(url, senders):
        for result in _check(parse_url(target), sender, timeout):
            yield result
            if result.level is Level.ERROR:
                errors.add(result.subject)
                break
    if errors <= {"database"}:
        ready = diagnose_readiness(_ask_readiness(parse_url(url), min(timeout, READINESS_TIMEOUT)))
        yield from [ready] if ready else []


def targets(url: str, senders: Sequence[Sender]) -> Sequence[tuple[str, Sender]]:
    """Return the URLs to check, each with the sender of its requests."""
    if (name := name_at_end(url, senders)) is not None:
        return [(url, each) for each in senders if each.name == name]
    first, *others = senders
    return [(url, first), *((url_of_entry(url, str(each.name)), each) for each in others)]


def name_at_end(url: str, senders: Sequence[Sender]) -> str | None:
    """Return the name of an entry at the end of a URL's path, or None.

    None if the senders have no names, because those of the receiver are not known then. Raises
    `ConfigurationError` if the URL is not valid.
    """
    _, endpoint, name = parse_url(url).path.rstrip("/").rpartition(f"{ENDPOINT}/")
    return name if endpoint and senders[0].name is not None else None


def url_of_entry(url: str, name: str) -> str:
    """Return the URL of an entry's endpoint, which is below that of the first one.

    Raises `ConfigurationError` if the URL is not valid.
    """
    parts = parse_url(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


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
    request = Postmark(secret).sign(Postmark.compose(Postmark.probe_change))
    reply = _send(target, ProbeSecret.CONFIGURED, request, PROBE_TIMEOUT)
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


def _check(url: SplitResult, sender: Sender, timeout: float) -> Iterator[CheckResult]:
    """Yield all results for an entry; each requires that there was no error before."""
    kind = sender.kind
    send = partial(_send, url, timeout=timeout, kind=kind)
    try:
        addresses = _resolve(url)
    except (OSError, UnicodeError) as error:
        yield diagnose(Reply(url.geturl(), ProbeSecret.WRONG, 0, f"cannot resolve: {error}"))
        return
    body = b"{}"
    if kind is not None:
        body = kind.compose_probe()
        yield diagnose(send(ProbeSecret.WRONG, kind.forge(body)))
    yield diagnose(send(ProbeSecret.NONE, ProviderRequest({}, body)))
    provider = sender.provider
    if provider is not None and (doubt := _doubt_about_url(provider, url, sender.name)):
        remedy = "Correct the setting, or check that URL."
        yield CheckResult(Level.WARNING, "url", doubt, remedy=remedy)
    signed = None if provider is None else provider.sign(body.ljust(LARGE_BODY))
    if kind is None:
        text = "hookrow cannot make an authentic request of this provider, so none was sent."
        yield CheckResult(Level.OK, "secret", text)
    elif provider is None:
        text = f"No secret was sent: set {_name_of_secret(sender, kind)}."
        yield CheckResult(Level.WARNING, "secret", text)
    elif signed is None:
        text = (
            "Only the provider can sign, so no authentic request was sent. To test the rest, "
            f"{kind.own_test}, and find the event with `hookrow log`."
        )
        yield CheckResult(Level.OK, "secret", text)
    elif kind.header is not None and url.scheme == "http" and _are_public(addresses):
        text = "The secret was not sent, because plain http would expose it: set up https."
        yield CheckResult(Level.ERROR, "tls", text)
    else:
        yield diagnose(send(ProbeSecret.CONFIGURED, signed))


def _doubt_about_url(provider: BuiltIn, url: SplitResult, name: str | None) -> str | None:
    """Return why requests to a URL may be refused.

    The first entry has two URLs, with its name and without, and either may be the signed one.
    """
    doubt = provider.doubt_about_url(url.geturl())
    if doubt is None or name is None:
        return doubt
    return provider.doubt_about_url(url_of_entry(url.geturl(), name)) and doubt


def _name_of_secret(sender: Sender, kind: type[BuiltIn]) -> str:
    return "HOOKROW_SECRET" if sender.name is None else f"the {kind.credential} of {sender.name}"


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


def _send(
    url: SplitResult,
    sent: ProbeSecret,
    request: ProviderRequest,
    timeout: float,
    kind: type[BuiltIn] | None = Postmark,
) -> Reply:
    """Send a probe; `kind` is the provider whose request it is, if it is one of hookrow's."""
    headers = {"Content-Type": "application/json", **request.headers}
    message = _Message("POST", headers | {"User-Agent": PROBE_AGENT.decode()}, request.body)
    reply = _exchange(url, sent, message, timeout)
    return replace(reply, provider=kind)


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
