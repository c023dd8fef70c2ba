"""The search for a person's address in bodies."""

import gzip
import itertools
import json

import pytest

from hookrow._core.erasure import Occurrence, address_finder, is_searchable
from hookrow._core.log_entry import stored_body
from wire import ADA

ESCAPED = json.dumps({"To": f"Ada <{ADA}>"})


@pytest.mark.parametrize(
    "body",
    [
        *(
            ADA,
            f'"{ADA}"',
            f"<{ADA}>",
            f"'{ADA}'",
            f"To:{ADA}.",
            f"{ADA}, bob@x",
            f"?email={ADA}&a=1",
        ),
        *(ADA.upper(), "Ada@Example.Com", ESCAPED),
        r'{"To": "\u0061da@example\u002ecom"}',
        r'{"To": "ada\u0040EXAMPLE.com"}',
        r'{"Text": "line\nada@example.com"}',
        *(json.dumps({"Text": ESCAPED}), json.dumps({"Text": json.dumps({"Text": ESCAPED})})),
        *("https://x/?to=ada%40example.com", "https://x/?to=%61da%40example%2Ecom"),
        "https://x/?next=https%3A%2F%2Fy%2F%3Fto%3Dada%2540example.com",
        *("ada&#64;example.com", "ada&commat;example&#x2e;com", r"\u0026#64;ada@example.com"),
        *("ada@exam\u00adple.com", "ada@exam&shy;ple.com", r"ada\u200b@example.com"),
        *(f"{ADA}_", f"{ADA}-", f"{ADA}- x", f"{ADA}..."),
    ],
)
def test_an_address_is_found_however_it_is_written(body: str) -> None:
    for address in (ADA, "Ada@EXAMPLE.com"):
        assert address_finder(address)(body) is Occurrence.CERTAIN


@pytest.mark.parametrize(
    "body",
    [
        *("", "bada@example.com", "7ada@example.com", "ada@example.community", "ada@example.com2"),
        *("ada@example.co", "adaXexample.com", "bada=example.com", "ada=example.community"),
        *(r"\u0062ada@example.com", "%62ada@example.com", r'{"To": "b\u0061da@example.com"}'),
    ],
)
def test_another_address_is_not_found(body: str) -> None:
    """An address with more letters or digits at an end is another person's."""
    assert address_finder(ADA)(body) is Occurrence.NONE


@pytest.mark.parametrize(
    "body",
    [
        *("x.ada@example.com", "x-ada@example.com", "x+ada@example.com", "x_ada@example.com"),
        *("_ada@example.com_", "...ada@example.com", "-ada@example.com", "L'ada@example.com"),
        *("ada@example.com.au", "ada@example.com-x.org", "Sent to:ada@example.com.Please"),
        *("宛先ada@example.comへ", "宛先:ada@example.comへ", "éada@example.com"),
        *(r"\u00e9ada@example.com", "%5Fada%40example.com"),
        *("bounce+ada=example.com@lists.x", "b-1-ada%3Dexample.com%40x", "ADA=Example.com"),
    ],
)
def test_a_part_of_another_address_is_doubtful(body: str) -> None:
    """It may be another person's, or the person's own beside other characters."""
    assert address_finder(ADA)(body) is Occurrence.DOUBTFUL


def test_a_certain_occurrence_after_a_doubtful_one() -> None:
    assert address_finder(ADA)(f"_{ADA}_, {ADA}") is Occurrence.CERTAIN


@pytest.mark.parametrize(
    ("address", "encoding"),
    [
        *itertools.product((ADA, "a.b+c'd@x.com", "a/b@x.com"), ("utf-8", "utf-16", "utf-16-be")),
        *(("zoë@example.com", "utf-8"), ("zoë@example.com", "latin-1")),
    ],
)
def test_an_address_is_found_in_every_encoding(address: str, encoding: str) -> None:
    """A body that is not UTF-8 is escaped in the log."""
    for text in (json.dumps({"To": address}), json.dumps({"To": address}, ensure_ascii=False)):
        stored = stored_body(text.encode(encoding))
        assert is_searchable(stored)
        assert address_finder(address)(stored)
        assert not address_finder(f"x{address}")(stored)


def test_no_text_contains_an_empty_address() -> None:
    assert not address_finder("")("")
    assert not address_finder("")("ada@example.com")


def test_a_compressed_body_cannot_be_searched() -> None:
    assert not is_searchable(stored_body(gzip.compress(ADA.encode(), mtime=0)))
    assert is_searchable(stored_body(b"\x01\x1b text"))
    assert is_searchable("")
