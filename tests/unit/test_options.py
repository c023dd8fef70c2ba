"""The options of a receiver: one value, and the same names wherever a user sees them."""

import inspect
from dataclasses import FrozenInstanceError, fields

import pytest

from hookrow import Postmark, Receiver
from hookrow._receiver.options import ReceiverOptions
from hookrow.stores.sql import SQLStore

KEYWORDS = {
    name: each
    for name, each in inspect.signature(Receiver).parameters.items()
    if each.kind is each.KEYWORD_ONLY
}


def test_every_keyword_is_an_option() -> None:
    of_providers = {"accepts_logged"}
    assert {*KEYWORDS} == {each.name for each in fields(ReceiverOptions)} - of_providers


@pytest.mark.parametrize("option", KEYWORDS.values(), ids=KEYWORDS.keys())
def test_the_docstring_of_the_receiver_has_every_option_and_its_default(
    option: inspect.Parameter,
) -> None:
    default = '""' if option.default == "" else repr(option.default)
    assert f"`{option.name}={default}`" in (Receiver.__doc__ or "")


def test_options_do_not_change_after_they_were_checked() -> None:
    """An option that is changed later would not be checked."""
    options = Receiver(Postmark("test-secret-1"), SQLStore("sqlite://"), group=1).options
    with pytest.raises(FrozenInstanceError):
        options.group = 0  # type: ignore[misc] # what the test proves
