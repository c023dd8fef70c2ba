"""Hostile bodies: those that nobody can read, and changes of a body that somebody can.

A body is a JSON text or a form; a string in it that is a JSON object or array is changed within,
too, because some providers post one in the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

_DEPTH = 100_000
"""The depth of a body that no decoder reads."""

_INNER_DEPTH = 5000
"""The depth of values in a body: more than Python's limit of recursion."""

_RAW = {
    "hookrow:nested": "[" * _INNER_DEPTH + "]" * _INNER_DEPTH,
    "hookrow:digits": "9" * 5000,  # more than Python converts to an int
    "hookrow:infinite": "1e400",
    "hookrow:nan": "NaN",
    "hookrow:bytes": '"\udcff"',  # encoded as the byte FF
}
"""JSON that `json` does not write, by the strings in its place."""

_VALUES: Sequence[tuple[str, Any]] = (
    ("null", None),
    ("a boolean", True),
    ("0", 0),
    ("a negative number", -1.5),
    ("a time beyond the year 9999", 10**18),
    ("a number of 5,000 digits", "hookrow:digits"),
    ("an infinite number", "hookrow:infinite"),
    ("NaN, which is not JSON", "hookrow:nan"),
    ("empty", ""),
    ("blank", " \t"),
    ("a string with NUL", "a\0b"),
    ("a lone surrogate", "\ud800"),
    ("a string that is not UTF-8", "hookrow:bytes"),
    ("a string of 5,000 characters", "é" * 5000),
    ("a time without a zone", "2026-03-04T12:00:00"),
    ("the first time in another zone", "0001-01-01T00:00:00+14:00"),
    ("an empty array", []),
    ("an array of arrays", [[[]]]),
    ("an array of null", [None]),
    ("an empty object", {}),
    ("an object with other names", {"": {"\0": None}}),
    ("nested 5,000 deep", "hookrow:nested"),
)
"""Values that a field of another type or form may have, with their names."""

_BODIES: Sequence[tuple[str, bytes]] = (
    ("empty", b""),
    ("blank", b" \r\n"),
    ("not JSON", b"{"),
    ("plain text", b"Hello"),
    ("a form", b"a=b&c=%FF&d"),
    ("not UTF-8", b'{"a": "\xff"}'),
    ("UTF-16", '{"a": 1}'.encode("utf-16")),
    ("compressed", b"\x1f\x8b\x08\x00"),
    ("a byte order mark and JSON", b"\xef\xbb\xbf{}"),
    ("an array nested 100,000 deep", b"[" * _DEPTH + b"]" * _DEPTH),
    ("an object nested 100,000 deep", b'{"a":' * _DEPTH + b"1" + b"}" * _DEPTH),
)
"""Bodies that are no JSON text, or none that can be read, with their names."""


def hostile_bodies(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield hostile bodies, each with a description: unreadable ones, and changes of this one."""
    for name, each in _BODIES:
        yield f"a body that is {name}", each
    yield "a body that was cut", body[: len(body) // 2]
    yield from changed_bodies(body)


def changed_bodies(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield changes of a body, each with a description."""
    text = body.decode(errors="surrogateescape")
    if (value := _decode(text)) is not None:
        for change, changed in _changes(value, "$"):
            yield f"a body in which {change}", _to_bytes(_encode(changed))
    else:
        for change, pairs in _form_changes(_pairs(text)):
            yield f"a form in which {change}", urlencode(pairs, errors="surrogatepass").encode()


def _changes(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any JSON
    """Yield a value of JSON with one change each; the path is that of JSONPath (RFC 9535)."""
    for name, hostile in _VALUES:
        yield f"{path} is {name}", hostile
    yield f"{path} is in an array", [value]
    match value:
        case dict():
            for key, each in value.items():
                yield f"{path}.{key} is missing", {k: v for k, v in value.items() if k != key}
                for change, changed in _changes(each, f"{path}.{key}"):
                    yield change, {**value, key: changed}
        case list():
            for place, each in enumerate(value):
                for change, changed in _changes(each, f"{path}[{place}]"):
                    yield change, [*value[:place], changed, *value[place + 1 :]]
        case str() if (inner := _decode(value)) is not None:
            for change, changed in _changes(inner, f"{path}, parsed,"):
                yield change, _encode(changed)
        case _:
            pass


_Pairs = Sequence[tuple[str, str]]


def _form_changes(pairs: _Pairs) -> Iterator[tuple[str, _Pairs]]:
    """Yield the pairs of a form with one change each."""
    for place, (name, value) in enumerate(pairs):
        before, after = pairs[:place], pairs[place + 1 :]
        yield f"{name} is missing", [*before, *after]
        yield f"{name} is repeated", [*before, (name, value), (name, value), *after]
        for change, changed in _changes(value, name):
            text = changed if isinstance(changed, str) else _encode(changed)
            yield change, [*before, (name, _RAW.get(text, text)), *after]


def _decode(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the object or array that a text contains, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _pairs(text: str) -> _Pairs:
    """Return the pairs of a form, or none if the text is no form."""
    try:
        return parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return ()


def _encode(value: object) -> str:
    text = json.dumps(value)
    for name, raw in _RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
