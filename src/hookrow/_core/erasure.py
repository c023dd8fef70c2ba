"""Finds a person's address in the text of a body, in order to erase the body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import IntEnum
from html import unescape
from urllib.parse import unquote

from hookrow._core.log_entry import unescaped
from hookrow._core.rules import fold

_LEVELS = 4
"""How often escapes are decoded: a JSON text may contain another one, or the URL of a link."""

_JSON_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Bytes that occur in no text."""

_INVISIBLE = re.compile("[\u00ad\u034f\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
"""Soft hyphens and other characters that change nothing in an address but its bytes."""

ESCAPING = "\\%&"
"""The characters with which an escape begins. An ASCII text without them contains an address only
as it is, or with another character instead of the `@`."""


class Occurrence(IntEnum):
    """Whether a text contains an address."""

    NONE = 0
    DOUBTFUL = 1
    CERTAIN = 2


def address_finder(address: str) -> Callable[[str], Occurrence]:
    """Return a function that returns whether a text of the log contains an address.

    It compares without regard to the case of ASCII letters and to invisible characters, and decodes
    the escapes of JSON, of URLs (`%40`), of HTML (`&#64;`) and of the log itself.

    An occurrence is doubtful if it may be a part of a longer address, as in `_ada@example.com`,
    `ada@example.com.au` or between letters that are not ASCII, and if it has a `=` for the `@`, as
    in the senders of some mailing lists. There is none if an ASCII letter or digit precedes or
    follows it, as in `bada@example.com`. No text contains an empty address.
    """
    if not address:
        return lambda _: Occurrence.NONE
    escaped = re.escape(fold(address))
    # A domain contains no underscore, and ends with no hyphen (RFC 5321, section 4.1.2).
    certain = re.compile(rf"(?<![\w.+-])(?<!\w'){escaped}(?!-*[^\W_])(?!\.[^\W_])")
    doubtful = re.compile(f"(?<![a-z0-9]){escaped.replace('@', '[@=]')}(?![a-z0-9])")

    def find(text: str) -> Occurrence:
        readings = [fold(each) for each in _readings(text)]
        if any(map(certain.search, readings)):
            return Occurrence.CERTAIN
        return Occurrence.DOUBTFUL if any(map(doubtful.search, readings)) else Occurrence.NONE

    return find


def is_searchable(text: str) -> bool:
    """Return whether a body is a text: one that is compressed may contain any address."""
    body = unescaped(text)
    if not _BINARY.search(body.replace(b"\0", b"")):
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _readings(text: str) -> Iterator[str]:
    """Yield a text of the log as it is, decoded, and without invisible characters."""
    for each in _decodings(text):
        yield each
        if _INVISIBLE.search(each):
            yield _INVISIBLE.sub("", each)


def _decodings(text: str) -> Iterator[str]:
    """Yield a text of the log as it is, and with its escapes decoded."""
    yield from _levels(text)
    if r"\x" in text:  # a body that was not UTF-8
        body = unescaped(text)
        yield from _levels(body.decode(errors="replace"))
        yield from _levels(body.decode("latin-1"))
        yield from _levels(body.replace(b"\0", b"").decode(errors="replace"))  # UTF-16


def _levels(text: str) -> Iterator[str]:
    yield text
    for _ in range(_LEVELS):
        decoded = unescape(unquote(_JSON_ESCAPE.sub(_decoded, text)))
        if decoded == text:
            return
        yield decoded
        text = decoded


def _decoded(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _CONTROLS.get(match[2], match[2])
