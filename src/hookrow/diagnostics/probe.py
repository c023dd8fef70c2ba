"""Checks a webhook over the network, as the provider reaches it.

The probes are harmless: their recipient is hookrow's own (see `rules.is_probe`). The secret is
sent only after hookrow has rejected a wrong one, and never unencrypted to a public address.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from secrets import token_urlsafe
from time import time
from urllib.parse import SplitResult

from hookrow.diagnostics.client import (
    BODY,
    PORTS,
    Reply,
    Sent,
    describe_error,
    parse_url,
    post,
    without_login,
)
from hookrow.diagnostics.diagnosis import diagnose
from hookrow.diagnostics.result import CheckResult, Level
from hookrow.http import ENDPOINT
from hookrow.providers.postmark import Postmark

TIMEOUT = 30.0
"""In seconds, for each response; the provider does not publish its own timeout."""

SLOW = 5.0
"""In seconds; hookrow responds by then, so a slower response has another cause as well."""

SOON = 14
"""In days; a certificate that is valid for less should have been renewed automatically."""

LARGE = 64 * 1024
"""In bytes; most notifications are smaller."""

_DAY = 86_400

_MOUNT_PATHS = ("", "/mail", "/email", "/hookrow", "/webhooks", "/api")
"""The likely mount paths."""


def check_url(url: str, secret: str | None, *, timeout: float = TIMEOUT) -> Iterator[CheckResult]:
    """Check a webhook with the provider's URL and secret; an error ends the checks.

    Without a secret, everything else is checked. Raises `ConfigurationError` if the URL or the
    secret is not valid.
    """
    target = parse_url(url)
    if secret is not None:
        Postmark(secret)
    for result in _check(target, secret, partial(post, timeout=timeout)):
        yield result
        if result.level is Level.ERROR:
            return


def _check(
    url: SplitResult, secret: str | None, send: Callable[..., Reply]
) -> Iterator[CheckResult]:
    """Yield all results; each requires that there was no error before."""
    try:
        addresses = _resolve(url)
    except (OSError, UnicodeError) as error:
        yield diagnose(url, Reply(Sent.WRONG, 0, f"cannot resolve ({describe_error(error)})"))
        return
    public = any(ip_address(each).is_global for each in addresses)
    yield _check_addresses(url, addresses, public=public)
    wrong = send(url, Sent.WRONG, token_urlsafe())
    if wrong.tls is not None:
        yield _check_certificate(*wrong.tls)
    yield _locate(url, wrong, send)
    replies = [wrong, send(url, Sent.NONE, None)]
    yield diagnose(url, replies[-1])
    if secret is None:
        yield _NO_SECRET
    elif public and url.scheme == "http":
        yield _UNENCRYPTED
    else:
        replies.append(send(url, Sent.CONFIGURED, secret, BODY.ljust(LARGE)))
        yield diagnose(url, replies[-1])
    yield _check_speed(max(each.seconds for each in replies))


_NO_SECRET = CheckResult(
    Level.WARNING,
    "secret",
    "No secret is configured here, so none was sent.",
    "It is unknown whether the provider's secret is accepted, and whether hookrow can record.",
    "Set HOOKROW_SECRET to the secret that the provider sends.",
)

_UNENCRYPTED = CheckResult(
    Level.ERROR,
    "tls",
    "The URL is plain http to a public address, so the secret was not sent.",
    "Others can read the secret and the addresses of your subscribers.",
    "Set up https, and give the provider that URL.",
)


def _resolve(url: SplitResult) -> Sequence[str]:
    """Return the IP addresses of the host. Raises `OSError` or `UnicodeError`."""
    port = url.port or PORTS[url.scheme]
    found = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]).partition("%")[0] for *_, address in found))


def _check_addresses(url: SplitResult, addresses: Sequence[str], *, public: bool) -> CheckResult:
    text = f"{url.hostname} resolves to {', '.join(addresses)}."
    if public:
        return CheckResult(Level.OK, "dns", text)
    meaning = "The provider can reach only public addresses."
    return CheckResult(Level.WARNING, "dns", text, meaning, "Check the public URL as well.")


def _check_certificate(version: str, valid_until: float) -> CheckResult:
    days = (valid_until - time()) / _DAY
    text = f"{version}; the certificate is trusted, and valid for {days:.0f} days."
    if days >= SOON:
        return CheckResult(Level.OK, "tls", text)
    meaning = "After that, the provider may not connect."
    remedy = "Renew the certificate, and find out why that did not happen automatically."
    return CheckResult(Level.WARNING, "tls", text, meaning, remedy)


def _locate(url: SplitResult, wrong: Reply, send: Callable[..., Reply]) -> CheckResult:
    """Return the diagnosis of the first reply; if hookrow is elsewhere, with its URL."""
    result = diagnose(url, wrong)
    if result.subject not in {"path", "redirect"} or result.level is Level.OK:
        return result
    location = wrong.header if result.subject == "redirect" else ""
    for other in _candidates(url, location):
        reply = send(other, Sent.WRONG, token_urlsafe())
        if diagnose(other, reply).level is Level.OK:
            remedy = f"Give the provider {without_login(other)}: hookrow responds there."
            return replace(result, remedy=remedy)
        if reply.seconds >= SLOW:
            break
    return result


def _candidates(url: SplitResult, location: str) -> Iterator[SplitResult]:
    """Yield the URLs at which hookrow may be: that of a redirect, if any, and the likely paths."""
    if location:
        yield parse_url(location)
    parts = [each for each in url.path.removesuffix(ENDPOINT).split("/") if each]
    prefixes = ["/".join(["", *parts[:length]]) for length in range(len(parts), 0, -1)]
    suffixes = ["/".join(["", *parts[start:]]) for start in range(1, len(parts))]
    for mount_path in dict.fromkeys((*prefixes, *suffixes, *_MOUNT_PATHS)):
        if mount_path + ENDPOINT != url.path:
            yield url._replace(path=mount_path + ENDPOINT, query="")


def _check_speed(seconds: float) -> CheckResult:
    text = f"The slowest response took {seconds:.2f} s."
    if seconds < SLOW:
        return CheckResult(Level.OK, "speed", text)
    meaning = f"hookrow responds within {SLOW:.0f} s; the provider's timeout is not published."
    remedy = "Find out whether the database is slow, or whether a proxy queues requests."
    return CheckResult(Level.WARNING, "speed", text, meaning, remedy)
