"""Decoding of forms, which is that of the standard library, in bounded time and memory."""

from urllib.parse import parse_qsl, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookrow.providers._forms import decode_form

LETTERS = st.text(st.characters(codec="utf-8") | st.sampled_from("=%&+ \r\n\t~_.;"))
FIELDS = st.lists(st.tuples(LETTERS, LETTERS))


@given(FIELDS, st.sampled_from(["", "=~ \n"]))
def test_every_form_is_decoded(fields: list[tuple[str, str]], safe: str) -> None:
    """Other characters than `&`, `+` and `%` need not be encoded, and `=` only in names."""
    body = "&".join(f"{quote_plus(name)}={quote_plus(value, safe)}" for name, value in fields)
    assert decode_form(body.encode()) == fields


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"a",
        b"=b&a=&&=&a=1&a=2",
        b"a=b=c&d=%3D=3D==%0A=%0D",
        b"a=%c3%a9\xc3\xa9&%C3=%A9&b=%ff",
        b"a=1;b=2&a+b=+%2B+&c= ",
        b"&".join([b"a=1"] * 1000),
    ],
    ids=lambda body: body[:20],
)
def test_forms_are_those_of_the_standard_library(body: bytes) -> None:
    expected = parse_qsl(body.decode(), keep_blank_values=True, errors="surrogateescape")
    assert decode_form(body) == expected


@pytest.mark.parametrize(
    "body", [b"a=%", b"a=%4", b"a=%4x&b=1", b"%%41=1", b"a=%\n", b"&".join([b"a=1"] * 1001)]
)
def test_what_is_not_a_form(body: bytes) -> None:
    assert decode_form(body) == ()


def test_bytes_that_are_not_utf_8() -> None:
    for body in (b"a=\xff%fe\xc3", b"a=%ff%FE%c3"):
        [(_, value)] = decode_form(body)
        assert value.encode(errors="surrogateescape") == b"\xff\xfe\xc3"
