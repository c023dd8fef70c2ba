"""The spellings in which hosts store message ids and addresses, unlike the events that have them.

A table has the ways in which two texts may differ although they mean the same message or person.
The near misses of a notification, and the counts of `hookrow check`, both come from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple
from unicodedata import normalize
from uuid import UUID

from hookrow._core.rules import fold, is_email, is_message_id

UUID_LENGTH = 36
"""The number of characters of a UUID with hyphens."""

MESSAGE_ID_LENGTHS = {
    "postmark": UUID_LENGTH,
    "resend": UUID_LENGTH,
    "mailjet": 19,  # the digits of the largest 64-bit integer
}
"""The number of characters of the longest message ids, by the names of the providers that have such
a limit."""


class Spelling(NamedTuple):
    """A way in which a stored text may differ from that of an event.

    `words` follow "stored" if the stored text has a property that the event's lacks, and `reverse`
    if it lacks one. `plain` returns a text without the property. `variants` returns spellings with
    and without it, which an index can find; others are found only among the newest rows. A part
    that hosts add, and events never have, is removed `only_if_stored`: the rest of two ids that are
    cut at a dot may be equal although the ids are not.
    """

    words: str
    reverse: str
    plain: Callable[[str], str]
    variants: Callable[[str], Iterable[str]]
    only_if_stored: bool = False


def _without_invisible(text: str) -> str:
    """Return a text without unprintable characters, and without the spaces around it.

    They include tabs, line breaks, no-break spaces and zero-width characters.
    """
    return "".join(each for each in text if each.isprintable()).strip(" ")


def _spaced(text: str) -> Iterable[str]:
    return _without_invisible(text), f"{text} ", f" {text}", f"{text}\n"


_MAILBOX = re.compile(r"[^<>]*<([^<>]+)>[^<>]*")
"""An address with a display name, or at least with angle brackets (RFC 5322, section 3.4)."""


def _address_of(text: str) -> str:
    """Return the address in angle brackets, if there is one."""
    found = _MAILBOX.fullmatch(text)
    return found[1].strip() if found else text


def _in_brackets(text: str) -> Iterable[str]:
    bare = text.removeprefix("<").removesuffix(">")
    return bare, f"<{bare}>"


def _composed(text: str) -> str:
    return normalize("NFC", text)


_ACE_PREFIX = "xn--"
"""The prefix of the label of a domain that represents other characters (RFC 5890, section 2.3)."""


def _with_ascii_domain(email: str) -> str:
    """Return an address with a domain that consists of ASCII characters (RFC 3492)."""
    return _with_labels(email, _ascii_label)


def _with_international_domain(email: str) -> str:
    return _with_labels(email, _international_label)


def _with_labels(email: str, convert: Callable[[str], str]) -> str:
    local, at, domain = email.rpartition("@")
    return f"{local}{at}{'.'.join(map(convert, domain.split('.')))}" if at else email


def _ascii_label(label: str) -> str:
    if label.isascii():
        return label
    # The codec "idna" implements an older standard, which turns ß into ss.
    return f"{_ACE_PREFIX}{_composed(label.lower()).encode('punycode').decode()}"


def _international_label(label: str) -> str:
    if not label.lower().startswith(_ACE_PREFIX):
        return label
    try:
        return label[len(_ACE_PREFIX) :].lower().encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _digits(text: str) -> str:
    """Return the digits of a UUID, or another text unchanged."""
    found = _uuid(text)
    return found.hex if found else text


def _forms_of_uuid(text: str) -> Iterable[str]:
    found = _uuid(text)
    return (found.hex, found.hex.upper(), str(found), str(found).upper()) if found else ()


def _uuid(text: str) -> UUID | None:
    return UUID(text) if _UUID.fullmatch(text) else None


_UUID = re.compile("[0-9a-f]{8}(-?)[0-9a-f]{4}(?:\\1[0-9a-f]{4}){2}\\1[0-9a-f]{12}", re.IGNORECASE)
"""With hyphens, or without."""


def _in_both_cases(text: str) -> Iterable[str]:
    return text.lower(), text.upper()


INVISIBLE_CHARACTERS = Spelling(
    "with spaces or invisible characters",
    "without spaces or invisible characters",
    _without_invisible,
    _spaced,
)
BRACKETS = Spelling(
    "with angle brackets",
    "without angle brackets",
    lambda text: text.removeprefix("<").removesuffix(">"),
    _in_brackets,
)
CASE = Spelling("in capitals", "in small letters", str.lower, _in_both_cases)
HYPHENS = Spelling("with hyphens", "without hyphens", _digits, _forms_of_uuid)
SUFFIX = Spelling(
    "with a suffix",
    "without a suffix",
    lambda text: text.partition(".")[0],
    lambda _: (),
    only_if_stored=True,
)
DOMAIN = Spelling(
    "with a domain",
    "without a domain",
    lambda text: text.strip("<>").rpartition("@")[0] or text,
    lambda _: (),
    only_if_stored=True,
)

SPELLINGS_OF_MESSAGE_IDS = (INVISIBLE_CHARACTERS, BRACKETS, DOMAIN, SUFFIX, CASE, HYPHENS)
"""In the order in which they are removed, from the outside to the id itself."""

DISPLAY_NAME = Spelling(
    "with a display name or angle brackets",
    "without a display name or angle brackets",
    _address_of,
    lambda text: [_address_of(text), f"<{_address_of(text)}>"],
)
DECOMPOSED = Spelling(
    "with decomposed letters",
    "with composed letters",
    _composed,
    lambda text: [_composed(text), normalize("NFD", text)],
)
INTERNATIONAL = Spelling(
    "with an international domain",
    f"with a domain in the form {_ACE_PREFIX}",
    _with_ascii_domain,
    lambda text: [_with_ascii_domain(text), _with_international_domain(text)],
)

SPELLINGS_OF_EMAILS = (INVISIBLE_CHARACTERS, DISPLAY_NAME, DECOMPOSED, CASE, INTERNATIONAL)
"""In the order in which they are removed. The case of ASCII letters counts only if a mapping
compares addresses exactly."""


def variants_of_message_id(message_id: str) -> Collection[str]:
    """Return other spellings in which a host may have stored a message id."""
    variants = _variants(message_id, SPELLINGS_OF_MESSAGE_IDS)
    return {each for each in variants if is_message_id(each)} - {message_id}


def variants_of_email(email: str) -> Collection[str]:
    """Return other spellings of an address, of which a host may have stored one."""
    variants = _variants(email, SPELLINGS_OF_EMAILS)
    return {each for each in variants if is_email(each)} - {email}


def _variants(text: str, spellings: Sequence[Spelling]) -> set[str]:
    """Return the spellings that differ from a text in one or two ways."""
    found = {text}
    for _ in range(2):
        found |= {
            variant for given in found for each in spellings for variant in each.variants(given)
        }
    return found


class Difference(NamedTuple):
    """The spellings by which a stored text differs, and how it is stored, to follow "stored"."""

    spellings: Sequence[Spelling]
    words: str


def difference(stored: str, expected: str, spellings: Sequence[Spelling]) -> Difference | None:
    """Return the fewest spellings by which a stored text differs from the text of an event.

    There are none if the two are equal. Returns None if they differ in another way.
    """
    for number in range(len(spellings) + 1):
        for chosen in combinations(spellings, number):
            if _are_equal(stored, expected, chosen):
                return Difference(chosen, " and ".join(_words(each, expected) for each in chosen))
    return None


def difference_of_emails(stored: str, expected: str, *, exact: bool = False) -> Difference | None:
    """Return the difference of addresses; that of ASCII letters' case counts only if `exact`."""
    if not exact:
        stored, expected = fold(stored), fold(expected)
    return difference(stored, expected, SPELLINGS_OF_EMAILS)


def _are_equal(stored: str, expected: str, spellings: Iterable[Spelling]) -> bool:
    """Return whether two texts are equal if they are stripped of these properties."""
    for each in spellings:
        stored = each.plain(stored)
        if not each.only_if_stored:
            expected = each.plain(expected)
    return stored == expected


def _words(spelling: Spelling, expected: str) -> str:
    is_lacking = not spelling.only_if_stored and spelling.plain(expected) != expected
    return spelling.reverse if is_lacking else spelling.words


def usual_email(stored: str) -> str:
    """Return an address in the spelling in which events have it, whatever the provider."""
    for each in SPELLINGS_OF_EMAILS:
        plain = each.plain(stored)
        if fold(plain) != fold(stored):
            stored = plain
    return stored
