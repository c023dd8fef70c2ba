"""Describes secrets that were copied wrongly, and headers without the secret; quotes no secret.

The descriptions are constant texts with few variations, because log lines are limited by text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hmac import compare_digest

from hookrow._http import RequestHead, header_values

MIN_SECRET_LENGTH = 16
"""The number of characters below which `hookrow check` warns that a secret can be guessed."""

_LOOKALIKES = {
    name.lower().encode(): name
    for name in (
        *("Authorization", "X_Provider_Secret", "X-Provider_Secret", "X_Provider-Secret"),
        *("X-Provider-Secrets", "X-ProviderSecret", "X-Provider-Token", "X-Provider-Key"),
        *("Provider-Secret", "Provider_Secret", "X-Secret", "X-Hookrow-Secret"),
        *("X-Postmark-Secret", "X_Postmark_Secret", "Postmark-Secret", "X-Postmark-Token"),
        *("X-Webhook-Secret", "Webhook-Secret", "X-Api-Key", "X-Auth-Token"),
    )
}
"""Headers in which the secret may come by mistake; no other name is logged."""

_AROUND = b" \t\r\n\"'`<>"
_BEARER = b"bearer "
"""Characters and a word that are copied by mistake with a secret."""

_MOST_PARTS = 4
"""The most values of a repeated header that are compared, because a client chooses their number."""

_WORDS = "|".join(
    (
        *("your", "my", "the", "this", "a", "some", "please", "here", "now", "to", "me", "it"),
        *("change", "changed", "replace", "insert", "enter", "set", "put", "be", "use"),
        *("secret", "key", "token", "password", "value", "string", "random", "super", "shared"),
        *("webhooks?", "provider", "postmark", "resend", "hookrow", "api", "http", "header"),
        *("mailjet", "brevo", "user", "admin", "pass"),
        *("tests?", "testing", "placeholder", "example", "sample", "dummy", "default", "todo"),
        *("dev", "local", "foo", "bar", "none", "null"),
    )
)

_DOUBTS = (
    (
        re.compile(r"""(["'`]).*\1"""),
        "is in quotes, which are a part of it, as in Docker's --env-file: remove them there",
    ),
    (
        re.compile(r".*\\[nr]"),
        "ends with a backslash and a letter, which are not a line break: remove them",
    ),
    (
        # Base64 has `=` only at its end; the other conditions spare most random passwords.
        re.compile(r"(?:[A-Z]{3,}[0-9]*|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)=[^=].*"),
        "begins with the name of a variable: set only the variable's value",
    ),
    (
        re.compile(r"\$\{.*\}|\$\(.*\)|\$[A-Z_]+|\{\{.*\}\}|%[A-Z_]+%|<.*>"),
        "is a variable or a template that nothing has replaced: set its value",
    ),
    (
        re.compile(rf"(?:(?:{_WORDS})[-_.]?)+[0-9]{{0,4}}|(.)\1{{2,}}(?:[-_.]\1+)*", re.IGNORECASE),
        "is a placeholder, which anybody can guess: set a random one",
    ),
)
"""Patterns of secrets that seem to be mistakes, and predicates with the remedy."""

NO_HEADER = (
    "The webhook secret {}, which a header cannot contain: use visible ASCII characters without "
    "spaces."
)
"""The error for a secret; see `why_no_header`."""

DOUBTFUL = "The webhook secret {}."
"""A warning about a secret; see `doubt_about`."""


def why_no_header(secret: str) -> str | None:
    """Return why no header can contain a secret, as a predicate, or None if one can.

    Headers contain visible ASCII characters, because no others pass through every proxy unchanged
    (RFC 9110, section 5.5).
    """
    invalid = [place for place, each in enumerate(secret) if not "!" <= each <= "~"]
    if not invalid:
        return None
    # A line break is named first: it is what `echo` and files add, and no header contains it.
    breaks = [place for place in invalid if secret[place] in "\r\n"]
    place = (breaks or invalid)[0]
    verb = "contains"
    if {*range(place, len(secret))} <= {*invalid}:
        verb = "ends with"
    elif {*range(place)} <= {*invalid}:
        verb = "begins with"
    return f"{verb} {_name_of(secret[place])}"


def doubt_about(secret: str) -> str | None:
    """Return why a secret seems to be a mistake, as a predicate, although a header can contain it.

    Returns None if it does not.
    """
    return next((text for pattern, text in _DOUBTS if pattern.fullmatch(secret)), None)


def describe_wrong_header(head: RequestHead, name: str, secrets: Sequence[bytes]) -> str:
    """Return why a request without one of the secrets in a header was refused.

    Every comparison with a secret takes constant time.
    """
    values = header_values(head.headers, name.lower().encode())
    if not any(values):
        problem = f"{name} is empty" if values else f"{name} is missing"
        other = next(_lookalikes(head), None)
        return f"{problem}; the request has {other} instead" if other else problem
    if len(values) > 1:
        return f"{name} is repeated"
    if difference := _difference(values[0], secrets):
        return f"{name} {difference}"
    if other := _header_with(head, secrets):
        return f"{name} is wrong; the request has the secret in {other} instead"
    return f"{name} is wrong"


def _difference(value: bytes, secrets: Sequence[bytes]) -> str | None:
    """Return how a value differs from one of the secrets, as a predicate, or None."""
    bare = _bare(value)
    if _equals_any(bare, secrets):
        return "is the secret, but with quotes, spaces or other characters around it"
    if _equals_any(bare, [_bare(each) for each in secrets]):
        return (
            "is the secret, but without the quotes or other characters around it: remove these "
            "from the secret that is set here"
        )
    parts = [each.strip() for each in value.split(b",", _MOST_PARTS)]
    if any([_equals_any(each, secrets) for each in parts]):  # noqa: C419 - constant time
        return "is repeated"  # a WSGI server has joined its values
    if _equals_any(value.lower(), [each.lower() for each in secrets]):
        return "is the secret, but with other upper and lower case letters"
    return None


def _header_with(head: RequestHead, secrets: Sequence[bytes]) -> str | None:
    """Return the name of a header that has the secret by mistake, if there is one."""
    bare = [_bare(each) for each in secrets]
    candidates = [(key.lower(), value) for key, value in head.headers if key.lower() in _LOOKALIKES]
    found = [_LOOKALIKES[key] for key, value in candidates if _equals_any(_bare(value), bare)]
    return found[0] if found else None


def _lookalikes(head: RequestHead) -> Iterator[str]:
    names = {name.lower() for name, _ in head.headers}
    return (shown for name, shown in _LOOKALIKES.items() if name in names)


def _bare(secret: bytes) -> bytes:
    """Return a secret without quotes, spaces, line breaks, or escapes of these around it."""
    bare = secret.strip(_AROUND)
    if bare[: len(_BEARER)].lower() == _BEARER:
        bare = bare[len(_BEARER) :]
    return bare.removesuffix(rb"\n").removesuffix(rb"\r").strip(_AROUND)


def _equals_any(value: bytes, secrets: Sequence[bytes]) -> bool:
    return any([compare_digest(value, each) for each in secrets])  # noqa: C419 - constant time


def _name_of(letter: str) -> str:
    names = {"\n": "a line break", "\r": "a line break", " ": "a space", "\t": "a tab"}
    names |= {"\0": "NUL", "\ufeff": "a byte order mark"}
    if letter in names:
        return names[letter]
    return "a control character" if letter.isascii() else "a character that is not ASCII"
