"""Credentials: the header Authorization is compared with each of several."""

import logging
from contextlib import closing

import pytest

from basic_auth import basic, head_with
from hookrow import ConfigurationError, Receiver
from hookrow.providers.mailjet import Mailjet
from hookrow.stores.sql import SQLStore

NEW, OLD = "hookrow:k7Vd9-of-the-tests", "hookrow:Wm2q-before-it"
WRONG = 'Basic realm="hookrow", error="wrong"'
MISSING = 'Basic realm="hookrow", error="missing"'


@pytest.mark.parametrize(
    ("credentials", "value"),
    [
        (NEW, basic(NEW)),
        (NEW, b"basic  " + basic(NEW)[6:] + b" "),
        ("ada:a:password:with:colons", basic("ada:a:password:with:colons")),
        ("ada:a password with spaces", basic("ada:a password with spaces")),
        ("ada:pässwört", basic("ada:pässwört")),
        ("ada:pässwört", basic("ada:pässwört", "latin-1")),
        ("ada:пароль", basic("ada:пароль")),
    ],
)
def test_accepted_credentials(credentials: str, value: bytes) -> None:
    assert Mailjet(credentials).admit(head_with(value)) is None


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "it has no Authorization"),
        ([b""], "it has no Authorization"),
        ([b"Basic"], "credentials are wrong"),
        ([basic(OLD)], "credentials are wrong"),
        ([basic(NEW.upper())], "credentials are wrong"),
        ([basic(NEW + ":")], "credentials are wrong"),
        ([basic("hookrow")], "credentials are wrong"),
        ([basic("hookrow:k7Vd9%2Dof-the-tests")], "percent-encoding"),
        ([b"Basic !!!"], "not in base64"),
        ([basic(NEW)[:-1]], "not in base64"),
        ([b"Basic " + NEW.encode()], "not in base64"),
        ([basic(NEW), basic(NEW)], "repeated"),
        ([basic(NEW) + b", " + basic(NEW)], "repeated"),
        ([basic(OLD), basic(NEW)], "repeated"),
        ([b"Bearer " + NEW.encode()], "another scheme"),
        ([basic(NEW)[6:]], "another scheme"),
        ([b"Basic\t" + basic(NEW)[6:]], "another scheme"),
    ],
)
def test_refused_credentials(values: list[bytes], reason: str) -> None:
    provider, head = Mailjet(NEW), head_with(*values)
    assert provider.admit(head) == (WRONG if any(values) else MISSING)
    assert reason in provider.describe_unauthentic(head)
    assert provider.matched == {0: 0}


def test_a_password_that_is_percent_encoded_here() -> None:
    reason = Mailjet("ada:p%40ss-word-of-ada").describe_unauthentic(
        head_with(basic("ada:p@ss-word-of-ada"))
    )
    assert "percent-encoding" in reason


def test_several_credentials_are_counted_by_position() -> None:
    provider = Mailjet(NEW, OLD)
    for each in (OLD, NEW, OLD):
        assert provider.admit(head_with(basic(each))) is None
    assert provider.matched == {0: 1, 1: 2}
    assert provider.old_matches == 2
    provider.accept(NEW)
    assert provider.admit(head_with(basic(OLD))) == WRONG
    assert provider.matched == {0: 0}


@pytest.mark.parametrize(
    ("credentials", "fault"),
    [
        ((), "missing or empty"),
        (("",), "missing or empty"),
        ((NEW, ""), "missing or empty"),
        (([NEW, OLD],), "must be a string, not list"),
        ((b"user:password",), "must be a string, not bytes"),
        (("user",), "no user name or no password"),
        ((":password",), "no user name or no password"),
        (("user:",), "no user name or no password"),
        (("Bearer a-token-of-the-tests",), "no user name or no password"),
        (("user:password\n",), "a line break"),
        (("user:pass\0word",), "a line break or another control character"),
        (("user:pass\udcffword",), "not valid Unicode"),
    ],
)
def test_credentials_that_are_not_valid(credentials: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault) as caught:
        Mailjet(*credentials)
    assert "word" not in str(caught.value).replace("password", "")


def test_a_password_that_can_be_guessed(caplog: pytest.LogCaptureFixture) -> None:
    provider = Mailjet("mailjet:mailjet-password")
    with (
        caplog.at_level(logging.WARNING),
        closing(SQLStore("sqlite://")) as store,
        closing(Receiver(provider, store)),
    ):
        assert "is a placeholder, which anybody can guess" in caplog.text
        assert "mailjet-password" not in caplog.text
