"""What an answer means that is not hookrow's: who gave it, and what to change there."""

from __future__ import annotations

import re
from http import HTTPStatus

from hookrow.diagnostics.result import Explained, Level
from hookrow.outside.address import Address
from hookrow.outside.asking import Answer, shown

_LOGIN = re.compile(r"log-?in|sign-?in|sso|oauth|auth", re.IGNORECASE)

_NO_STOP = "403 tells the provider to stop for good: it does not try again."

_PLACE = "Mount hookrow there, or give the provider the address where it is."

_MEANINGS = {
    0: (
        "server",
        "The provider gets no answer, and repeats the notification a few times only.",
        "See the server's log, and whether it is a web server that speaks {scheme} at this port.",
    ),
    "page": (
        "page",
        "It is not hookrow but a page: the provider takes what is lost there as received.",
        _PLACE,
    ),
    "taken": (
        "path",
        "The server takes notifications from anybody, or it is not hookrow and they are lost.",
        "Give hookrow's receiver this path, and have nothing in front answer for it.",
    ),
    "plain": ("tls", "Plain http was spoken to a port for TLS.", "Write https:// in the address."),
    400: (
        "server",
        "The server refuses the request itself, perhaps for the host name in it.",
        "Allow the name there (Django: ALLOWED_HOSTS).",
    ),
    401: (
        "login",
        "A login is in the way, or a proxy puts pages of its own in place of hookrow's.",
        "Let POST to this path through, without a login and with its answers as they are.",
    ),
    "csrf": (
        "csrf",
        f"The framework's protection against forged forms refuses it. {_NO_STOP}",
        "Exempt this path (Django: include hookrow.django.urls, or put csrf_exempt on your view).",
    ),
    403: (
        "forbidden",
        f"A firewall, a proxy's rule or a login is in the way. {_NO_STOP}",
        "Let POST to this path through, from everywhere: the secret is the check.",
    ),
    404: ("path", "The server has nothing at this path.", _PLACE),
    405: ("path", "What is at this path takes no POST: it is not hookrow.", _PLACE),
    411: (
        "server",
        "The server wants to know a body's length, though it was told.",
        "See what the proxy in front does with Content-Length.",
    ),
    413: (
        "body",
        "Even a small notification is too large for it.",
        "Raise the limit to 1 MiB (nginx: client_max_body_size 1m;).",
    ),
    429: (
        "server",
        "Something in front limits how many requests come.",
        "Take this path out of the limit: the provider sends many at once after a mailing.",
    ),
    502: (
        "server",
        "A proxy answers, but not the application behind it.",
        "Start the application, or correct the proxy's address for it.",
    ),
    503: (
        "server",
        "The application is not there, or is being started.",
        "Start it; see its log and the proxy's.",
    ),
    504: (
        "server",
        "A proxy answers, but the application behind it is too slow.",
        "See in the application's log what it waits for.",
    ),
    "other": (
        "server",
        "This is no answer of hookrow's.",
        "See the server's log for what answered, and mount hookrow there.",
    ),
}
"""By status, or what tells two of one status apart: what it is about, its meaning, the change."""


def explain(address: Address, answer: Answer, how: str) -> Explained:
    """Say what it means that this came in place of hookrow's answer, and how it was asked."""
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        about, means, change = _redirect(address, answer)
    else:
        about, means, change = _MEANINGS.get(_kind(answer), _MEANINGS["other"])
    asked = f"POST {address} {how} was answered {answer}."
    seen = asked if answer.status else f"{answer} from {address}."
    change = change.replace("{scheme}", "TLS" if address.secure else "plain http")
    return Explained(Level.ERROR, about, seen, means, change)


def _kind(answer: Answer) -> int | str:
    text = answer.text.lower()
    match answer.status:
        case 400 if "https port" in text:
            return "plain"
        case 403 if "csrf" in text:
            return "csrf"
        case status if 0 < status < HTTPStatus.MULTIPLE_CHOICES:
            return "page" if "<html" in text else "taken"
        case status:
            return status


def _redirect(address: Address, answer: Answer) -> tuple[str, str, str]:
    to = address.led_to(answer.headers.get("location", ""))
    if to is None:
        return "redirect", "It leads nowhere.", _PLACE
    where = shown(str(to), 200)
    if _LOGIN.search(to.path) and not _LOGIN.search(address.path):
        means = f"It leads to a login, {where}: the provider has none."
        return "login", means, "Let POST to this path through without a login."
    change = f"Give the provider {where} instead."
    if str(to) == str(address):
        why = "It leads to itself"
        change = (
            "See which rule redirects; behind TLS that a proxy ends it wants X-Forwarded-Proto."
        )
    elif to.path.rstrip("/") == address.path.rstrip("/") and to.path != address.path:
        with_ = "with" if to.path.endswith("/") else "without"
        why = f"It leads to the same path {with_} a slash at its end"
    elif to.secure and not address.secure:
        why = "It leads from http to https"
    else:
        why = f"It leads elsewhere, to {where}"
        change = "Let POST to this path through without a redirect."
    means = "A client that follows may do so by GET, without the body: nothing is recorded."
    return "redirect", f"{why}. {means}", change
