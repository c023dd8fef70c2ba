"""Looks at a webhook from outside, as the provider would meet it.

What it posts can change nothing: see `notices`. The secret is sent only where hookrow
has answered a made-up one, and never in the clear through the internet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from secrets import token_urlsafe

from hookrow.finding import Explained, Finding, Level
from hookrow.outside import notices
from hookrow.outside.address import Address, is_public, read
from hookrow.outside.asking import PATIENCE, Answer, Caller, Silence
from hookrow.outside.bodies import check_bodies
from hookrow.outside.certificate import shake_hands
from hookrow.outside.elsewhere import candidates
from hookrow.outside.proof import check_missing, check_right, is_refusal, let_in, lets_anybody_in
from hookrow.outside.reach import check_addresses, check_port, resolve
from hookrow.outside.strangers import explain
from hookrow.postmark import Postmark

MADE_UP = "with a made-up secret"

SLOW = 5.0
"""In seconds; hookrow's own deadline, so that what takes longer is not its doing alone."""


def look(url: str, secret: str | None, *, patience: float = PATIENCE) -> Iterator[Finding]:
    """Look at everything in order; what cannot be seen for an error before is left out.

    Raises `ConfigurationError` for what is no web address, or no secret.
    """
    address = read(url)
    if secret is not None:
        Postmark(secret)
    ips = resolve(address)
    if isinstance(ips, Finding):
        yield ips
        return
    yield check_addresses(address.host, ips)
    for finding in check_port(address, ips):
        yield finding
        if finding.level is Level.ERROR:
            return
    public = any(map(is_public, ips))
    if address.secure:
        handshake = shake_hands(address)
        yield handshake.finding
        if handshake.context is None:
            return
        yield from _ask(
            Caller(handshake.context, patience), address, secret, safe=handshake.trusted
        )
    else:
        yield _plain(public=public)
        yield from _ask(Caller(None, patience), address, secret, safe=not public)


def _plain(*, public: bool) -> Finding:
    if not public:
        return Explained(Level.OK, "tls", "Plain http, which does within a machine or a network.")
    return Explained(
        Level.ERROR,
        "tls",
        "Plain http, through the internet.",
        "Whoever is on the way reads the secret and your subscribers' addresses.",
        "Set up https, and give the provider that address.",
    )


def _ask(caller: Caller, address: Address, secret: str | None, *, safe: bool) -> Iterator[Finding]:
    first = caller.post(address, token_urlsafe(), notices.delivery())
    if lets_anybody_in(first):
        yield let_in(address, MADE_UP, first)
    elif not is_refusal(first):
        yield _found_elsewhere(caller, address, first)
    else:
        yield Explained(Level.OK, "path", f"hookrow answers at {address}.")
        yield check_missing(caller, address)
        yield from _ask_with(caller, address, secret, safe=safe)
    if isinstance(first, Answer):
        yield _speed(caller)


def _ask_with(
    caller: Caller, address: Address, secret: str | None, *, safe: bool
) -> Iterator[Finding]:
    if secret is None or not safe:
        yield _NO_SECRET if secret is None else _NOT_SENT
        return
    findings = list(check_right(caller, address, secret))
    yield from findings
    if all(finding.level is not Level.ERROR for finding in findings):
        yield from check_bodies(caller, address, secret)


_NO_SECRET = Explained(
    Level.WARNING,
    "secret",
    "No secret is set here: the right one was not tried.",
    "Whether it is accepted, and how large a body may be, is not known.",
    "Set HOOKROW_SECRET to the one that the provider sends.",
)

_NOT_SENT = Explained(
    Level.WARNING,
    "secret",
    "The secret was not sent, for others could have read it.",
    "Whether it is accepted, and how large a body may be, is not known.",
    "Mend what stands above about TLS, and run this again.",
)


def _found_elsewhere(caller: Caller, address: Address, first: Answer | Silence) -> Finding:
    """Say what answered, and where hookrow does instead; who is slow is not asked so often."""
    finding = explain(address, first, MADE_UP)
    if isinstance(first, Silence) or finding.about not in _SEARCHED:
        return finding
    redirected = address.led_to(first.headers.get("location", ""))
    for other in filter(None, [redirected, *candidates(address)]):
        if caller.slowest < SLOW and is_refusal(
            caller.post(other, token_urlsafe(), notices.delivery())
        ):
            return replace(finding, change=f"Give the provider {other}: hookrow answers there.")
    return finding


_SEARCHED = {"path", "redirect", "page"}
"""Faults that leave it open that hookrow is at another path."""


def _speed(caller: Caller) -> Finding:
    seen = f"The slowest answer took {caller.slowest:.2f} s."
    if caller.slowest < SLOW:
        return Explained(Level.OK, "speed", seen)
    return Explained(
        Level.WARNING,
        "speed",
        seen,
        f"hookrow answers within {SLOW:.0f} s; how long the provider waits it does not say.",
        "See whether the database is slow, or a proxy queues requests.",
    )
