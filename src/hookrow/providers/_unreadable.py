"""Explains why bodies are not JSON objects in UTF-8: most were changed on their way."""

from __future__ import annotations

import json
import re

from hookrow.providers._json import decode_text

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x78\x01": "deflate",
    b"\x78\x5e": "deflate",
    b"\x78\x9c": "deflate",
    b"\x78\xda": "deflate",
}
"""The first bytes of compressed data (RFC 1952, RFC 8878, RFC 1950). Those of Brotli vary."""

_OTHER_UNICODE = (
    (b"\xff\xfe\0\0", b"{\0\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", b"\0\0\0{", "UTF-32"),
    (b"\xff\xfe", b"{\0", "UTF-16"),
    (b"\xfe\xff", b"\0{", "UTF-16"),
)
"""The byte order mark of other encodings, and the first bytes of an object without one."""

_FORM = re.compile(r"[\w.%+*\[\]-]+=[^\s<>{}]*", re.ASCII)
"""A form's first field (https://url.spec.whatwg.org/#application/x-www-form-urlencoded)."""

_JSON_TYPES = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}

_UNCHANGED = "configure the proxy or the middleware to forward bodies unchanged"


def compression_of(body: bytes) -> str | None:
    """Return the name of the format in which a body is compressed, or None if it is not known."""
    return next((name for start, name in _COMPRESSED.items() if body.startswith(start)), None)


def encoding_of(body: bytes) -> str | None:
    """Return UTF-16 or UTF-32 if a body seems to be an object in it, otherwise None."""
    for mark, start, name in _OTHER_UNICODE:
        if body.startswith((mark, start)):
            return name
    return None


def explain_unreadable(body: bytes) -> str | None:
    """Return why a body is not a JSON object in UTF-8, in sentences, or None if it is one.

    Positions are in bytes; the first byte is 0. No part of the body is quoted. Never raises.
    """
    if not body.strip():
        return f"The body is empty: {_UNCHANGED}."
    if encoding := encoding_of(body):
        return f"The body is in {encoding}, not in UTF-8: {_UNCHANGED}."
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if compression := compression_of(body):
            return (
                f"The body is compressed ({compression}): configure the proxy not to compress "
                "requests."
            )
        return (
            f"The body is not valid UTF-8 at byte {error.start}: it is compressed or binary, or in "
            f"another encoding, such as Latin-1: {_UNCHANGED}."
        )
    return _explain_text(text)


def _explain_text(text: str) -> str | None:
    if text.startswith("\ufeff"):
        return f"The body begins with a byte order mark, which is not JSON: {_UNCHANGED}."
    try:
        value = decode_text(text)
    except json.JSONDecodeError as error:
        return _explain_syntax(text, error)
    except ValueError as error:  # such as NaN
        return f"The body is not JSON: {error}"
    except RecursionError:
        return "The body is nested too deeply."
    if isinstance(value, dict):
        return None
    return f"The body is {_JSON_TYPES.get(type(value), 'a number')}, not a JSON object."


def _explain_syntax(text: str, error: json.JSONDecodeError) -> str:
    start = text.lstrip()
    if start.startswith("<"):
        return f"The body is XML or HTML, not JSON: {_UNCHANGED}."
    if start.startswith("--"):
        return "The body is a form (multipart/form-data), not JSON: post the JSON itself."
    if _FORM.match(start):
        return "The body is form-encoded, not JSON: post the JSON itself."
    at = len(text[: error.pos].encode())
    if not text[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        return f"The body is not JSON: it ends too early, at byte {len(text.encode())}."
    reason = error.msg.removesuffix(" at")
    return f"The body is not JSON at byte {at}: {reason[:1].lower()}{reason[1:]}."
