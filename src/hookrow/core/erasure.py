"""Finds a person's address in the text of a body, in order to erase the body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import unescape
from urllib.parse import unquote

from hookrow.core.log_entry import unescaped
from hookrow.core.rules import fold

_LEVELS = 4
"""How often escapes are decoded: a JSON text may contain another one, or the URL of a link."""

_JSON_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_CONTROLS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")
"""Bytes that occur in no text."""

ESCAPING = "\\%&"
"""The characters with which an escape begins; an address without them occurs as it is."""


def address_finder(address: str) -> Callable[[str], bool]:
    """Return a function that returns whether a text of the log contains an address.

    It compares without regard to the case of ASCII letters, and decodes the escapes of JSON, of
    URLs (`%40`), of HTML (`&#64;`) and of the log itself. It does not match a part of a longer
    address, such as `bada@example.com` or `ada@example.com.au`. No text contains an empty address.
    """
    if not address:
        return lambda _: False
    is_before, is_after = r"(?<![\w.+-])(?<!\w')", r"(?![\w-])(?!\.\w)"
    search = re.compile(f"{is_before}{re.escape(fold(address))}{is_after}").search
    return lambda text: any(search(fold(each)) for each in _readings(text))


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
