"""Looks at a webhook from outside, as the provider would meet it.

What it posts can change nothing: see `asking`. The secret is sent only where hookrow
has answered a made-up one, and never in the clear through the internet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from secrets import token_urlsafe

from hookrow.core.notification import Refusal
from hookrow.diagnostics.result import CheckResult, Explained, Level
from hookrow.outside.address import Address, is_public, read
from hookrow.outside.asking import PATIENCE, Answer, Caller
from hookrow.outside.proof import (
    MADE_UP,
    check_bodies,
    check_missing,
    check_right,
    explain_unrefused,
)
from hookrow.outside.reach import check_addresses, check_port, resolve
from hookrow.outside.tls import open_channel
from hookrow.providers.postmark import Postmark

SLOW = 5.0
"""In seconds; hookrow's own deadline, so that what takes longer is not its doing alone."""


def look(url: str, secret: str | None, *, patience: float = PATIENCE) -> Iterator[CheckResult]:
    """Look at everything in order; what cannot be seen for an error before is left out.

    Raises `ConfigurationError` for what is no web address, or no secret.
    """
    address = read(url)
    if secret is not None:
        Postmark(secret)
    ips = resolve(address)
    if isinstance(ips, CheckResult):
        yield ips
        return
    yield check_addresses(address.host, ips)
    port = check_port(address, ips)
    yield port
    if port.level is Level.ERROR:
        return
    channel = open_channel(address, public=any(map(is_public, ips)))
    yield channel.finding
    if channel.usable:
        caller = Caller(channel.context, patience)
        yield from _until_error(_ask(caller, address, secret, safe=channel.safe))


def _until_error(findings: Iterator[CheckResult]) -> Iterator[CheckResult]:
    for finding in findings:
        yield finding
        if finding.level is Level.ERROR:
            return


def _ask(
    caller: Caller, address: Address, secret: str | None, *, safe: bool
) -> Iterator[CheckResult]:
    """Post one thing after the other; nothing more is posted once an error is taken."""
    made_up = caller.post(address, token_urlsafe())
    yield _check_path(caller, address, made_up)
    yield check_missing(caller, address, made_up)
    if secret is None or not safe:
        yield _not_sent(secret)
    else:
        yield from check_right(caller, address, secret)
        yield from check_bodies(caller, address, secret)
    yield _check_speed(caller.slowest)


def _not_sent(secret: str | None) -> CheckResult:
    seen = "The secret was not sent, for others could have read it."
    change = "Mend what stands above about TLS, and run this again."
    if secret is None:
        seen = "No secret is set here: the right one was not tried."
        change = "Set HOOKROW_SECRET to the one that the provider sends."
    means = "Whether it is accepted, and how large a body may be, is not known."
    return Explained(Level.WARNING, "secret", seen, means, change)


def _check_path(caller: Caller, address: Address, made_up: Answer) -> CheckResult:
    """Say what answered, and where hookrow does instead; who is slow is not asked so often."""
    if made_up.tells(Refusal.UNAUTHENTIC):
        return Explained(Level.OK, "path", f"hookrow answers at {address}.")
    finding = explain_unrefused(address, made_up, MADE_UP)
    if finding.about not in _SEARCHED:
        return finding
    redirected = address.led_to(made_up.headers.get("location", ""))
    for other in filter(None, [redirected, *address.elsewhere()]):
        if caller.slowest < SLOW and caller.post(other, token_urlsafe()).tells(Refusal.UNAUTHENTIC):
            return replace(finding, change=f"Give the provider {other}: hookrow answers there.")
    return finding


_SEARCHED = {"path", "redirect", "page"}
"""Faults that leave it open that hookrow is at another path."""


def _check_speed(slowest: float) -> CheckResult:
    seen = f"The slowest answer took {slowest:.2f} s."
    if slowest < SLOW:
        return Explained(Level.OK, "speed", seen)
    means = f"hookrow answers within {SLOW:.0f} s; how long the provider waits it does not say."
    change = "See whether the database is slow, or a proxy queues requests."
    return Explained(Level.WARNING, "speed", seen, means, change)
