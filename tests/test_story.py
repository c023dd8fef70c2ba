"""How a body is shown: laid out, and never more of it than fits a page."""

from __future__ import annotations

import json
from time import process_time

import msgspec
import pytest

from hookrow.story import LONGEST_BODY, laid_out

NESTED = 900
"""Levels; somewhat more are too many for the library that reads JSON."""


@pytest.mark.parametrize(
    "value",
    [
        {"a": {}, "b": [], "c": [1, -2.5e10, [[]], {"d": True, "e": None}], "f": {"": ""}},
        {"text": 'a "b", {c}: [d] \\ é \\u00e9\n', "[": "]", "}": ["{", ",", ":"]},
        *([], {}, 1, "x", [[1, 2], [3]]),
    ],
)
def test_json_has_a_line_for_each_value(value: object) -> None:
    """It is indented as the library would do it, whatever blanks it came with."""
    for body in (json.dumps(value), json.dumps(value, indent=7), json.dumps(value) + " \r\n"):
        assert laid_out(body) == msgspec.json.format(json.dumps(value), indent=2)


@pytest.mark.parametrize(
    ("body", "shown"),
    [("no JSON\n{", "no JSON\n{"), ('{"a":\u202e1}', '{"a":\\u202e1}'), ("", ""), ("\0", "\\x00")],
)
def test_what_is_no_json_is_left_as_it_is(body: str, shown: str) -> None:
    """But for what would hide or turn text, which is escaped."""
    assert laid_out(body) == shown


@pytest.mark.parametrize("length", [LONGEST_BODY, 2**20])
@pytest.mark.parametrize("depth", [NESTED, 5 * NESTED])
def test_a_body_that_is_nested_deep_is_cut(length: int, depth: int) -> None:
    """It takes no longer than a flat one, and the end says how much there was."""
    began = process_time()
    body = "[" * depth + "1," * (length // 2 - depth - 1) + "1 " + "]" * depth
    assert len(body) == length
    shown, _, cut = laid_out(body).rpartition("\n")
    assert len(shown) <= LONGEST_BODY
    assert shown.startswith("[\n  [\n    [") == (length == LONGEST_BODY and depth == NESTED)
    assert (cut == f"... (cut: the body has {length:,} characters)") == (
        length > LONGEST_BODY or depth == NESTED
    )
    assert process_time() - began < 1
