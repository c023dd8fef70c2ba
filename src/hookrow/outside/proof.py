"""Whether hookrow judges what comes: secrets, a message that nobody knows, large bodies."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from hookrow.core.notification import Refusal
from hookrow.diagnostics.result import CheckResult, Explained, Level
from hookrow.http import LARGEST_BODY
from hookrow.outside.address import Address
from hookrow.outside.asking import HEADER, Answer, Caller, filled
from hookrow.outside.strangers import explain

MADE_UP, _RIGHT = "with a made-up secret", "with the secret"

_SMALL = 64 * 1024
"""In bytes; more than a notification has that is not stuffed with metadata."""


def explain_unrefused(address: Address, answer: Answer, how: str) -> Explained:
    """Say what it means that hookrow did not refuse who came without the right secret."""
    # The text says that the body was read, whatever became of the status on the way.
    if answer.text not in {Refusal.SUBSCRIBER_NOT_FOUND.text, Refusal.UNSUPPORTED.text}:
        return explain(address, answer, how)
    return Explained(
        Level.ERROR,
        "secret",
        f"POST {address} {how} was let in, and answered {answer}.",
        "Anybody can suppress or reactivate your subscribers.",
        f"See what in front of hookrow sets {HEADER} by itself, and take it out.",
    )


def check_missing(caller: Caller, address: Address, made_up: Answer) -> CheckResult:
    """Look whether no secret is refused, as a made-up one has been, and each for what it is."""
    if made_up.blames("missing"):
        return _DROPPED
    answer = caller.post(address, None)
    if not answer.tells(Refusal.UNAUTHENTIC):
        return explain_unrefused(address, answer, "without a secret")
    if answer.blames("wrong"):
        return _ADDED
    return Explained(Level.OK, "secret", "A made-up secret and a missing one are answered 401.")


_DROPPED = Explained(
    Level.ERROR,
    "secret",
    "A made-up secret was sent; hookrow says that none came.",
    f"Something in front of it drops the header {HEADER}, or it was told to read another one.",
    "Have it pass the header on (nginx: proxy_pass_request_headers on, and no proxy_set_header "
    f"that empties it). Its name has hyphens: most drop {HEADER.replace('-', '_')}.",
)

_ADDED = Explained(
    Level.ERROR,
    "secret",
    "No secret was sent; hookrow says that a wrong one came.",
    f"Something in front of it sets the header {HEADER}, perhaps over the provider's.",
    "Take it out there: the provider sends the header, and nobody else.",
)


def check_right(caller: Caller, address: Address, secret: str) -> Iterator[CheckResult]:
    """Post what can change nothing, with the secret."""
    answer = caller.post(address, secret)
    if answer.tells(Refusal.SUBSCRIBER_NOT_FOUND):
        yield Explained(Level.OK, "secret", "The right secret is accepted.")
        yield Explained(Level.OK, "unknown", f"A message that nobody knows is answered {answer}.")
    elif answer.tells(Refusal.UNAUTHENTIC):
        yield _refused(answer)
    else:
        yield _odd(address, answer)


def _refused(answer: Answer) -> CheckResult:
    means = f"The server has another secret, or something in front drops the header {HEADER}."
    return Explained(
        Level.ERROR,
        "secret",
        "The secret of this configuration was answered 401, too.",
        "It came through, but hookrow has another one." if answer.blames("wrong") else means,
        "Give the server, the provider and this configuration the same one; where the server's "
        "was changed, start it again.",
    )


def _odd(address: Address, answer: Answer) -> CheckResult:
    level = Level.ERROR
    if answer.tells(Refusal.UNAVAILABLE):
        about = "database"
        means = "hookrow is there, but its database is not; the provider tries again."
        change = "See hookrow's log; run `hookrow check`, without an address, on the server."
    elif answer.status == Refusal.SUBSCRIBER_NOT_FOUND.status:
        level, about = Level.WARNING, "unknown"
        means = "The status is hookrow's, the text is not: something in front replaces it."
        change = "Let its answers through as they are (nginx: proxy_intercept_errors off;)."
    elif answer.tells(Refusal.UNSUPPORTED):
        about = "body"
        means = "What came was not what was sent: something in front changes or drops the body."
        change = "Let the body through as it is."
    elif HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        about = "unknown"
        means = "A message that nobody knows is answered 404 by hookrow: this is not it."
        change = "See what else answers at this path."
    else:
        return explain(address, answer, _RIGHT)
    seen = f"POST {address} {_RIGHT} was answered {answer}."
    return Explained(level, about, seen, means, change)


def check_bodies(caller: Caller, address: Address, secret: str) -> Iterator[CheckResult]:
    """Post a body that is just within the limit, and one just over it.

    hookrow takes 1 MiB, what is in front of it perhaps less. It is the status that counts:
    a text may be that of what is in front.
    """
    answer = caller.post(address, secret, filled(LARGEST_BODY - 1))
    if answer.status == Refusal.UNSUPPORTED.status:
        yield Explained(Level.OK, "body", "A body of just under 1 MiB comes through.")
        yield _too_large(caller.post(address, secret, filled(LARGEST_BODY + 1)))
    elif answer.status == Refusal.TOO_LARGE.status:
        small = caller.post(address, secret, filled(_SMALL))
        yield _limited(passes=small.status == Refusal.UNSUPPORTED.status)
    else:
        yield Explained(
            Level.WARNING,
            "body",
            f"A body of just under 1 MiB did not come through: {answer}.",
            "A slow line from here can be why, or a time limit of what is in front of hookrow.",
            "Run this from elsewhere; if it is the same there, see the log of what is in front.",
        )


def _limited(*, passes: bool) -> CheckResult:
    """Say that less than 1 MiB is taken, and whether 64 KiB are."""
    if passes:
        level, small = Level.WARNING, "one of 64 KiB is not"
        lost = "a notification with very much metadata is lost"
    else:
        level, small, lost = Level.ERROR, "and so is one of 64 KiB", "some can be lost"
    return Explained(
        level,
        "body",
        f"A body of just under 1 MiB is answered 413, {small}.",
        f"Something in front of hookrow takes less than its 1 MiB: {lost}.",
        "Raise the limit there (nginx: client_max_body_size 1m;).",
    )


def _too_large(answer: Answer) -> CheckResult:
    """Look at how it is refused: a proxy, whom a server hangs up on, may say so by a 502."""
    refused = (0, Refusal.TOO_LARGE.status)
    if answer.status in refused or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Explained(Level.OK, "body", f"A body over 1 MiB is refused: {answer}.")
    return Explained(
        Level.WARNING,
        "body",
        f"A body over 1 MiB was answered {answer}, not 413.",
        "Something in front of hookrow answers for it, or cuts it.",
        "See what is in front of it.",
    )
