"""The forms of message ids: corrects what hosts store in place of what a provider's events have.

Each function returns a stored id in its provider's form, or None if no event can have it.
"""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}")

_IN_BRACKETS = re.compile(r"[^<>@\s]+@[^<>@\s]+")
"""What is between the angle brackets of a header `Message-ID` (RFC 5322, section 3.6.4)."""


def as_uuid(stored: str, *, domain: str = "") -> str | None:
    """Return a UUID in lower case with hyphens, without a `domain` that a header appends to it."""
    text = without_domain(stored, domain).lower()
    if not _DIGITS.fullmatch(text):
        return None
    digits = text.replace("-", "")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def as_hex(stored: str) -> str | None:
    """Return the digits of a UUID, in lower case, or an id of ASCII letters and digits as it is."""
    text = stored.strip()
    if _DIGITS.fullmatch(text.lower()) and "-" in text:
        return text.replace("-", "").lower()
    return text if text.isascii() and text.isalnum() else None


def in_brackets(stored: str) -> str | None:
    """Return the value of a header `Message-ID`, with angle brackets."""
    text = without_brackets(stored)
    return f"<{text}>" if _IN_BRACKETS.fullmatch(text) else None


def without_brackets(stored: str) -> str:
    """Return a text without spaces and angle brackets around it."""
    text = stored.strip()
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def without_domain(stored: str, domain: str) -> str:
    """Return a text without brackets, and without the @ and a host in the `domain` after it."""
    text = without_brackets(stored)
    id_, at, host = text.rpartition("@")
    return id_ if at and f".{host.lower()}".endswith(f".{domain}") else text
