"""How a body is shown: indented, printable, and cut."""

from __future__ import annotations

import json

import msgspec
import pytest

from hookrow.story import LONGEST_BODY, laid_out


@pytest.mark.parametrize(
    "value",
    [
        {"a": {}, "b": [], "c": [1, -2.5e10, [[]], {"d": True, "e": None}], "f": {"": ""}},
        {"text": 'a "b", {c}: [d] \\ é \\u00e9\n', "[": "]", "}": ["{", ",", ":"]},
        *([], {}, 1, "x", [[1, 2], [3]]),
    ],
)
def test_json_is_indented(value: object) -> None:
    """JSON is indented, whatever its white space was."""
    for body in (json.dumps(value), json.dumps(value, indent=7), json.dumps(value) + " \r\n"):
        assert laid_out(body) == msgspec.json.format(json.dumps(value), indent=2)


@pytest.mark.parametrize(
    ("body", "shown"),
    [("no JSON\n{", "no JSON\n{"), ('{"a":\u202e1}', '{"a":\\u202e1}'), ("", ""), ("\0", "\\x00")],
)
def test_other_bodies_are_escaped(body: str, shown: str) -> None:
    """Other bodies are shown as they are, except for characters that hide or turn text."""
    assert laid_out(body) == shown


@pytest.mark.parametrize(
    ("length", "indented"), [(LONGEST_BODY, True), (2**20, False)], ids=["indented", "as-it-is"]
)
def test_large_bodies_are_cut(length: int, *, indented: bool) -> None:
    """A body that is large, or would be when indented, is cut, with its length at the end."""
    depth = 900
    body = "[" * depth + "1," * (length // 2 - depth - 1) + "1 " + "]" * depth
    assert len(body) == length
    shown, _, end = laid_out(body).rpartition("\n")
    assert len(shown) <= LONGEST_BODY
    assert shown.startswith("[\n  [\n    [") is indented
    assert end == f"... (cut: the body has {length:,} characters)"


def test_a_body_too_deep_for_the_json_library() -> None:
    """A body nested deeper than the JSON library reads is shown as it is."""
    body = "[" * (LONGEST_BODY // 2) + "]" * (LONGEST_BODY // 2)
    assert laid_out(body) == body
