"""Whether the secret is what decides: wrong and missing ones refused, the right one taken."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TypeGuard

from hookrow.finding import Explained, Finding, Level
from hookrow.notification import Refusal
from hookrow.outside import notices
from hookrow.outside.address import Address
from hookrow.outside.asking import HEADER, Answer, Caller, Silence
from hookrow.outside.strangers import explain, quoted

_READ = {
    Refusal.SUBSCRIBER_NOT_FOUND.text,
    Refusal.DISPATCH_NOT_FOUND.text,
    Refusal.UNSUPPORTED.text,
}
"""What is said to those who were let in."""


def is_refusal(answer: Answer | Silence) -> bool:
    """Tell whether hookrow refused a secret."""
    return _is(answer, Refusal.UNAUTHENTIC)


def lets_anybody_in(answer: Answer | Silence) -> TypeGuard[Answer]:
    """Tell whether hookrow read what came without the right secret."""
    return isinstance(answer, Answer) and answer.text in _READ


def let_in(address: Address, how: str, answer: Answer) -> Finding:
    """Say that it did."""
    return Explained(
        Level.ERROR,
        "secret",
        f"POST {address} {how} was let in, and answered {quoted(answer)}.",
        "Anybody can suppress or reactivate your subscribers.",
        f"See what in front of hookrow sets {HEADER} by itself, and take it out.",
    )


def check_missing(caller: Caller, address: Address) -> Finding:
    """Look whether no secret is refused, as a wrong one has been."""
    answer = caller.post(address, None, notices.delivery())
    if is_refusal(answer):
        return Explained(Level.OK, "secret", "A made-up secret and a missing one are answered 401.")
    if lets_anybody_in(answer):
        return let_in(address, _NONE, answer)
    return explain(address, answer, _NONE)


def check_right(caller: Caller, address: Address, secret: str) -> Iterator[Finding]:
    """Post what can change nothing, with the secret."""
    answer = caller.post(address, secret, notices.delivery())
    if is_refusal(answer):
        yield _REFUSED
    elif _is(answer, Refusal.SUBSCRIBER_NOT_FOUND) or _is(answer, Refusal.DISPATCH_NOT_FOUND):
        yield Explained(Level.OK, "secret", "The right secret is accepted.")
        yield Explained(
            Level.OK, "unknown", f"A message that nobody knows is answered {quoted(answer)}."
        )
    else:
        yield _odd(address, answer)


_REFUSED = Explained(
    Level.ERROR,
    "secret",
    "The secret of this configuration was answered 401, too.",
    f"The server has another secret, or something in front of it drops the header {HEADER}.",
    "Compare the two. If they are the same, run this on the server with hookrow's own address: if "
    "all is well there, the proxy drops the header (nginx: proxy_pass_request_headers, "
    f"proxy_set_header). Its name has hyphens: most drop {HEADER.replace('-', '_')}.",
)


_NONE, _RIGHT = "without a secret", "with the secret"


def _odd(address: Address, answer: Answer | Silence) -> Finding:
    if isinstance(answer, Silence):
        return explain(address, answer, _RIGHT)
    seen = f"POST {address} {_RIGHT} was answered {quoted(answer)}."
    if _is(answer, Refusal.UNAVAILABLE):
        return Explained(
            Level.ERROR,
            "database",
            seen,
            "hookrow is there, but its database is not; the provider tries again.",
            "See hookrow's log; run `hookrow check`, without an address, on the server.",
        )
    if answer.status == Refusal.SUBSCRIBER_NOT_FOUND.status:
        return Explained(
            Level.WARNING,
            "unknown",
            seen,
            "The status is hookrow's, the text is not: something in front replaces it.",
            "Let its answers through as they are (nginx: proxy_intercept_errors off;).",
        )
    if _is(answer, Refusal.UNSUPPORTED):
        return Explained(
            Level.ERROR,
            "body",
            seen,
            "What came was not what was sent: something in front changes or drops the body.",
            "Let the body through as it is.",
        )
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        return explain(address, answer, _RIGHT)
    return Explained(
        Level.ERROR,
        "unknown",
        seen,
        "A message that nobody knows is answered 404 by hookrow: this is not it.",
        "See what else answers at this path.",
    )


def _is(answer: Answer | Silence, refusal: Refusal) -> TypeGuard[Answer]:
    return isinstance(answer, Answer) and (answer.status, answer.text) == (
        refusal.status,
        refusal.text,
    )
