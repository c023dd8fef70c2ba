"""Decodes bodies that are valid JSON but that msgspec rejects, and limits how deep they are nested.

msgspec rejects an escaped unpaired surrogate in any string (RFC 8259, section 8.2, permits it;
senders produce one by cutting a string inside an emoji), and numbers that are out of range. A
provider does not repeat a notification that was refused as unsupported, so a decoder must not be
stricter than JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import copysign, isinf
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

DEEPEST = 500
"""The levels of arrays and objects that a body may have.

Both decoders stop where the interpreter's stack ends, which is at about 1,000 levels of data and
calls together. Without a limit, the answer would depend on the caller: a body could be read on its
arrival, but not in a replay. RFC 8259, section 9, permits a limit.
"""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Matches a string, or the rest of a body in which it does not end.

If it matched only the former, each quote in the rest would be tried, in quadratic time, although
the signature of a body may not have been verified yet.
"""

_STRING_OR_SIGN = re.compile(_STRING.pattern + rb"|[\[\]{},]", re.DOTALL)
_WHITESPACE = b" \t\r\n"
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes({*range(256)} - _STEPS.keys())

_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a body, with the standard library if msgspec rejects it.

    A string may contain unpaired surrogates, which no database can store. Raises `ValueError` if
    the body is not UTF-8, not JSON or not of the decoder's type, and `RecursionError` if it has
    more than `DEEPEST` levels.
    """
    if is_too_deep(body):
        raise RecursionError
    try:
        return decoder.decode(body)
    except ValueError:
        # Decoded as text, because the standard library would also accept UTF-16 and UTF-32.
        value = decode_text(body.decode())
    converted: T = msgspec.convert(value, decoder.type)
    return converted


def is_too_deep(body: bytes) -> bool:
    """Return whether a body has more than `DEEPEST` levels of arrays and objects.

    The body may contain other faults, which are not found. A body that is too short for the ends
    of so many levels is not JSON if it begins them.
    """
    if len(body) <= 2 * DEEPEST:  # as most events
        return False
    if body.count(b"[") + body.count(b"{") <= DEEPEST:  # as almost all others
        return False
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return any(level > DEEPEST for level in accumulate(map(_STEPS.__getitem__, brackets)))


def split_by_brackets(body: bytes) -> Sequence[bytes]:
    """Return the bytes of each element of an array, or the body if it is not an array.

    Only strings, brackets and commas are read: an element may have any number of levels and other
    faults.
    """
    array, elements = body.strip(_WHITESPACE), list[bytes]()
    level, start = 0, 1
    if not (array.startswith(b"[") and array.endswith(b"]")):
        return [body]
    for token in _STRING_OR_SIGN.finditer(array):
        kind = token[0]
        if kind == b"," and level == 1:
            elements.append(array[start : token.start()].strip(_WHITESPACE))
            start = token.end()
        level += _STEPS.get(kind[0], 0)
        if (level == 0) != (token.end() == len(array)):  # it ends too early, or does not end
            return [body]
    return [*elements, array[start:-1].strip(_WHITESPACE)]


def decode_text(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Decode a JSON text with the standard library.

    Raises `ValueError`, which is a `JSONDecodeError` if it has a position, and `RecursionError`.
    """
    if is_too_deep(text.encode("utf-8", "surrogatepass")):
        raise RecursionError
    return _lenient.decode(text)


def encode(value: object) -> bytes:
    """Encode a decoded value; unpaired surrogates become escapes again."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def replace_surrogates(text: str) -> str:
    """Return the text with U+FFFD in place of each unpaired surrogate, so that it can be stored."""
    return _SURROGATE.sub("\ufffd", text)


def _integer(text: str) -> int | float:
    # Python can always read this many digits; the limit beyond depends on the process.
    if len(text) <= sys.int_info.str_digits_check_threshold:
        return int(text)
    return _float(text)


def _float(text: str) -> float:
    """Return the nearest finite number, because JSON cannot represent infinity.

    Numbers must remain numbers: as a text, one could become a message id or a reason.
    """
    number = float(text)
    return copysign(sys.float_info.max, number) if isinf(number) else number


def _reject_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON.")


def _object(pairs: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    """Return an object in which the last of equal keys counts.

    Unpaired surrogates in keys are escaped, because `msgspec.convert` fails on them. No field that
    a provider reads has a backslash in its name.
    """
    return {key.encode(errors="backslashreplace").decode(): value for key, value in pairs}


_lenient = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_reject_constant,
)
"""Rejects everything that is not JSON, including control characters in strings."""
