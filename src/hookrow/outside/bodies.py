"""How large a body may be: hookrow takes 1 MiB, what is in front of it perhaps less."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TypeGuard

from hookrow.finding import Explained, Finding, Level
from hookrow.notification import Refusal
from hookrow.outside import notices
from hookrow.outside.address import Address
from hookrow.outside.asking import Answer, Caller, Silence
from hookrow.outside.strangers import quoted


def check_bodies(caller: Caller, address: Address, secret: str) -> Iterator[Finding]:
    """Post one that is just within the limit, and one just over it."""
    answer = caller.post(address, secret, notices.filled(notices.LARGEST))
    if _is(answer, Refusal.UNSUPPORTED):
        yield Explained(Level.OK, "body", "A body of just under 1 MiB comes through.")
        yield _check_too_large(caller.post(address, secret, notices.filled(notices.TOO_LARGE)))
    elif _is(answer, Refusal.TOO_LARGE):
        small = caller.post(address, secret, notices.filled(notices.SMALL))
        yield _limited(passes=_is(small, Refusal.UNSUPPORTED))
    else:
        yield Explained(
            Level.WARNING,
            "body",
            f"A body of just under 1 MiB did not come through: {_what(answer)}.",
            "A slow line from here can be why, or a time limit of what is in front of hookrow.",
            "Run this from elsewhere; if it is the same there, see the log of what is in front.",
        )


def _limited(*, passes: bool) -> Finding:
    """Say that less than 1 MiB is taken, and whether 64 KiB are."""
    return Explained(
        Level.WARNING if passes else Level.ERROR,
        "body",
        "A body of just under 1 MiB is answered 413, "
        + ("one of 64 KiB is not." if passes else "and so is one of 64 KiB."),
        "Something in front of hookrow takes less than its 1 MiB: "
        + ("a notification with very much metadata is lost." if passes else "some can be lost."),
        "Raise the limit there (nginx: client_max_body_size 1m;).",
    )


def _check_too_large(answer: Answer | Silence) -> Finding:
    """Look at how it is refused.

    hookrow hangs up before it has all come, which a proxy may turn into a 502 of its own.
    """
    if _is(answer, Refusal.TOO_LARGE):
        return Explained(Level.OK, "body", "A body over 1 MiB is refused.")
    if isinstance(answer, Silence) or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Explained(Level.OK, "body", f"A body over 1 MiB is refused: {_what(answer)}.")
    return Explained(
        Level.WARNING,
        "body",
        f"A body over 1 MiB was answered {quoted(answer)}, not 413.",
        "Something in front of hookrow answers for it, or cuts it.",
        "See what is in front of it.",
    )


def _is(answer: Answer | Silence, refusal: Refusal) -> TypeGuard[Answer]:
    """Tell whether it has the status: a text may be that of what is in front."""
    return isinstance(answer, Answer) and answer.status == refusal.status


def _what(answer: Answer | Silence) -> str:
    return quoted(answer) if isinstance(answer, Answer) else answer.why
