"""The spellings by which stored message ids and addresses differ from those of events."""

import pytest

from hookrow._core.spellings import (
    SPELLINGS_OF_MESSAGE_IDS,
    difference,
    difference_of_emails,
    usual_email,
    variants_of_email,
    variants_of_message_id,
)

UUID = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
DIGITS = UUID.replace("-", "")
SPACES = "with spaces or invisible characters"
NAME = "with a display name or angle brackets"

# What is stored, what events have, and the words for the difference; None if there is another one.
MESSAGE_IDS = [
    ("m-1", "m-1", ""),
    ("M-1", "m-1", "in capitals"),
    ("m-1", "M-1", "in small letters"),
    ("<m-1>", "m-1", "with angle brackets"),
    ("m-1", "<m-1>", "without angle brackets"),
    ("m-1\r\n", "m-1", SPACES),
    ("\ufeffm-1\u200b", "m-1", SPACES),
    (DIGITS, UUID, "without hyphens"),
    (UUID, DIGITS, "with hyphens"),
    (UUID.replace("-", "_"), UUID, None),
    ("m1", "m-1", None),
    ("m-1.0", "m-1", "with a suffix"),
    ("m-1", "m-1.0", None),
    ("m-1.0", "m-1.1", None),
    ("<m-1@a.example>", "m-1", "with a domain"),
    ("<m-1@a.example>", "<m-1@b.example>", None),
    (f" <{DIGITS.upper()}@a.example>", UUID, f"{SPACES} and with a domain and without hyphens"),
    ("xm-1", "m-1", None),
]


@pytest.mark.parametrize(("stored", "expected", "words"), MESSAGE_IDS)
def test_message_ids(stored: str, expected: str, words: str | None) -> None:
    differs = difference(stored, expected, SPELLINGS_OF_MESSAGE_IDS)
    assert (differs and differs.words) == words


EMAILS = [
    ("Ada@Example.com", "ada@example.com", ""),
    ("\tada@example.com ", "ada@example.com", SPACES),
    ("a\u00adda@example.com", "ada@example.com", SPACES),
    ('"Ada, <3" <ada@example.com>', "ada@example.com", None),
    ('"Ada" <ada@example.com>', "ADA@example.com", NAME),
    ("ada@example.com (Ada)", "ada@example.com", None),
    ("Ada <eve@example.com>", "ada@example.com", None),
    ("joada@example.com", "ada@example.com", None),
    ("ÉMILE@Ürün.example", "émile@ürün.example", "in capitals"),
    ("zoe\u0308@example.com", "zoë@example.com", "with decomposed letters"),
    ("zoë@example.com", "zoe\u0308@example.com", "with composed letters"),
    ("zoe@example.com", "zoë@example.com", None),
    ("a@bücher.de", "a@xn--bcher-kva.de", "with an international domain"),
    ("a@BÜCHER.de", "a@XN--BCHER-KVA.de", "with an international domain"),
    ("a@mail.xn--strae-oqa.de", "a@mail.straße.de", "with a domain in the form xn--"),
    ("a@strasse.de", "a@straße.de", None),
]


@pytest.mark.parametrize(("stored", "expected", "words"), EMAILS)
def test_emails(stored: str, expected: str, words: str | None) -> None:
    """Each differing spelling that an index can find is a variant."""
    differs = difference_of_emails(stored, expected)
    assert (differs and differs.words) == words


def test_emails_that_are_compared_exactly() -> None:
    differs = difference_of_emails("Ada@example.com", "ada@example.com", exact=True)
    assert differs is not None
    assert differs.words == "in capitals"


@pytest.mark.parametrize("email", ["", "@", "a@", "a@xn--", "a@xn--\u00e9", "a@xn--a.b", "<>", " "])
def test_texts_that_are_no_addresses(email: str) -> None:
    """They have variants, too, and equal only themselves."""
    assert email not in variants_of_email(email)
    differs = difference_of_emails(email, email)
    assert differs is not None
    assert differs.words == ""
    assert difference_of_emails(email, "ada@example.com") is None


def test_variants_of_message_ids() -> None:
    """An index can find a UUID in each of its forms, and an id in brackets or with a space."""
    found = {*variants_of_message_id(UUID)}
    assert {DIGITS, DIGITS.upper(), UUID.upper(), f"<{UUID}>", f"{UUID} ", f" {UUID}"} <= found
    assert {"m-1"} <= {*variants_of_message_id("<m-1>")}
    assert all(len(each) <= 255 for each in variants_of_message_id("x" * 255))


def test_variants_of_emails() -> None:
    found = {*variants_of_email("zoë@bücher.de")}
    assert {"ZOË@BÜCHER.DE", "zoe\u0308@bu\u0308cher.de", "zoë@xn--bcher-kva.de"} <= found
    assert {"<zoë@bücher.de>", " zoë@bücher.de"} <= found
    assert {"a@bücher.de", "A@BÜCHER.DE"} <= {*variants_of_email("a@xn--bcher-kva.de")}


def test_the_usual_spelling_of_an_email() -> None:
    """The case of ASCII letters stays."""
    assert usual_email(" Zoë <ZOE\u0308@Bücher.example>\n") == "zoë@xn--bcher-kva.example"
    assert usual_email("Ada@Example.com") == "Ada@Example.com"
