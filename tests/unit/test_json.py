"""Decoding of bodies: everything that is JSON in UTF-8 is accepted, and nothing else."""

import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hookrow.providers._events import split_array
from hookrow.providers._json import (
    DEEPEST,
    decode,
    encode,
    is_too_deep,
    replace_surrogates,
    split_by_brackets,
)

ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
HALF = rb'"\ud83d"'
"""A string that msgspec rejects."""

LARGEST = sys.float_info.max


class Event(msgspec.Struct):
    type: object = None


EVENT = msgspec.json.Decoder(Event)

TEXT = st.text(st.characters() | st.sampled_from("\ud83d\ude00\\u"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner) | TEXT,
    max_leaves=10,
)


def rejects(body: bytes, decoder: msgspec.json.Decoder[Any] = ANY) -> bool:
    try:
        decode(body, decoder)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'"\ud83d"', "\ud83d"),
        (rb'"\ude00"', "\ude00"),
        (rb'"\ude00\ud83d"', "\ude00\ud83d"),
        (rb'"\ud83d\ud83d\ude00"', "\ud83d\U0001f600"),
        (rb'"\uD83D\uDE00 \uD83D"', "\U0001f600 \ud83d"),
        (rb'"\\ud83d \ud83d"', "\\ud83d \ud83d"),
        ('"é\\ud83dé"'.encode(), "é\ud83dé"),
        (rb'{"a": [{"b": "\ud83d"}]}', {"a": [{"b": "\ud83d"}]}),
        (rb'{"\ud83d": 1, "a": 2}', {"\\ud83d": 1, "a": 2}),
        (rb'{"a": "\ud83d", "a": 2}', {"a": 2}),
        (b"1e999", LARGEST),
        (b"-1e999", -LARGEST),
        (b"9" * 5000, LARGEST),
        (b"-" + b"9" * 5000, -LARGEST),
        (b"[" + HALF + b", 1, -0.5, 1e2]", ["\ud83d", 1, -0.5, 100.0]),
        (b"[" + HALF + b", 1" + b"0" * 700 + b"]", ["\ud83d", LARGEST]),
        (b"[" + HALF + b", 1" + b"0" * 600 + b"]", ["\ud83d", 10**600]),
        (b"[" + HALF + b", true, null]", ["\ud83d", True, None]),
        (b" \t\r\n[" + HALF + b"]\r\n ", ["\ud83d"]),
    ],
)
def test_valid_json_that_msgspec_rejects(text: bytes, value: object) -> None:
    """Numbers stay numbers, of a type and size that can be encoded again."""
    decoded = decode(text, ANY)
    assert decoded == value
    assert type(decoded) is type(value)
    assert decode(encode(decoded), ANY) == value


@pytest.mark.parametrize(
    "rest",
    [
        *(b"NaN", b"Infinity", b"-Infinity", b"nan", b"01", b"+1", b"1.", b".5", b"-", b"1e", b""),
        *(b'"\x01"', b'"\n"', b'"\x00"', rb'"\x41"', rb'"\u12"', rb'"\ud83g"', b'"', b"'a'"),
        *(b"1,", b"[1,]", b'{"a": 1,}', b"{a: 1}", b'{"a"}', b"{1: 1}", b"1] 2", b"// 1\n1"),
        *(
            b'"\xff"',
            b'"\xed\xa0\xbd"',
            b'"\xc0\x80"',
            "\uff11".encode(),
            "\u00a01".encode(),
            b"\x0c1",
        ),
    ],
)
def test_no_other_leniency(rest: bytes) -> None:
    """What is not JSON is rejected, whether or not it contains an unpaired surrogate."""
    assert rejects(b"[1, " + rest + b"]")
    assert rejects(b"[" + HALF + b", " + rest + b"]")


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_no_other_encoding(codec: str) -> None:
    """The standard library detects UTF-16 and UTF-32, and would decode them."""
    assert rejects(HALF.decode().encode(codec))


@pytest.mark.parametrize("calls", [0, 300])
def test_deep_nesting(calls: int) -> None:
    """How many levels a body may have does not depend on the caller, or on unpaired surrogates."""

    def accepts(body: bytes) -> bool:
        try:
            called_by(calls, lambda: decode(body, ANY))
        except RecursionError:
            return False
        return True

    for levels in (DEEPEST, DEEPEST + 1, 900, 995, 100_000):
        inner = levels - 1
        arrays, objects = b"[" * inner + b"]" * inner, b'{"[": ' * inner + b"1" + b"}" * inner
        for deep in (arrays, objects):
            for body in (b"[%b]" % deep, b"[%b, %b]" % (HALF, deep), b"[%b, %b]" % (deep, HALF)):
                assert accepts(body) is (levels <= DEEPEST)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[" + b"[]," * DEEPEST + b"[]]", False),
        (rb'["\"' + b"[" * 2 * DEEPEST + b'"]', False),
        (rb'["\\", ' + b"[" * DEEPEST + b"]" * DEEPEST + b"]", True),
        (b"[" * 3 * DEEPEST, True),
        (b"[" * 2 * DEEPEST, False),
        (b"[" * DEEPEST + b'"' + rb"[\"" * 250_000, False),
    ],
    ids=[
        "many side by side",
        "in a string",
        "after a string",
        "without ends",
        "too short for ends",
        "in no string",
    ],
)
def test_brackets(body: bytes, expected: bool) -> None:  # noqa: FBT001 - a parameter
    """Only those that are open at the same time count.

    The last case would take minutes if every quote in it were tried as the first of a string.
    """
    assert is_too_deep(body) is expected


@pytest.mark.parametrize(
    ("body", "elements"),
    [
        (b"[]", [b""]),
        (b' [1 ,\n{"a": [1, 2]}, [] ]\r\n', [b"1", b'{"a": [1, 2]}', b"[]"]),
        (rb'["a,[\"", "\\", {"}": ","}]', [rb'"a,[\""', rb'"\\"', b'{"}": ","}']),
        (
            b'[nope, NaN, "\xff", "\n", {"a" 1}, 2]',
            [b"nope", b"NaN", b'"\xff"', b'"\n"', b'{"a" 1}', b"2"],
        ),
        (b"[1, 2", None),
        (b"[1, [2]", None),
        (b"[1, 2]]", None),
        (b"[1], [2]", None),
        (b'["1, 2]', None),
        (b"1, 2]", None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_splitting_by_brackets(body: bytes, elements: list[bytes] | None) -> None:
    """Only commas between the elements count, and the body is returned if it is no array."""
    assert split_by_brackets(body) == (elements or [body])


@given(st.lists(VALUES, min_size=1))
def test_both_ways_to_split_an_array_agree(values: list[object]) -> None:
    body = json.dumps(values, indent=1).encode()
    found, expected = (split(body) for split in (split_by_brackets, split_array))
    assert repr([decode(each, ANY) for each in found]) == repr(
        [decode(each, ANY) for each in expected]
    )


def called_by(calls: int, function: Callable[[], object]) -> object:
    """Call a function from a stack with so many more calls."""
    return function() if calls == 0 else called_by(calls - 1, function)


def test_a_body_of_another_type() -> None:
    for body in (b"[" + HALF + b"]", HALF, b"[]", b"9" * 5000):
        assert rejects(body, EVENT)
    assert decode(b'{"type": ' + HALF + rb', "\ud83d": {"\ud83d": 1}}', EVENT).type == "\ud83d"


@settings(deadline=None, database=None)
@given(VALUES)
def test_both_decoders_return_the_same(value: object) -> None:
    """An unpaired surrogate in a body does not change how its other values are decoded."""
    text = json.dumps(value)
    decoded = decode(f"[{text}]".encode(), ANY)[0]
    [half, leniently] = decode(f'["\\ud83d", {text}]'.encode(), ANY)
    assert (half, leniently) == ("\ud83d", decoded)
    assert repr(leniently) == repr(decoded)


@given(TEXT)
def test_surrogates_in_a_stored_text(text: str) -> None:
    """Each surrogate is replaced by one character, and the others are kept."""
    expected = ["\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text]
    assert replace_surrogates(text) == "".join(expected)
