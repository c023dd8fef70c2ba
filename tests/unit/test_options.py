"""The options of a receiver: one value, and the same names wherever a user sees them."""

from dataclasses import Field, FrozenInstanceError, fields
from typing import get_type_hints

import pytest

from hookrow import Receiver
from hookrow.errors import ConfigurationError
from hookrow.receiver.options import ReceiverKeywords, ReceiverOptions


def test_type_checkers_see_every_option_with_its_type() -> None:
    """`Receiver` accepts its options as typed keyword arguments."""
    hints = get_type_hints(ReceiverOptions)
    expected = {each.name: hints[each.name] for each in fields(ReceiverOptions)}
    assert get_type_hints(ReceiverKeywords) == expected


@pytest.mark.parametrize("option", fields(ReceiverOptions), ids=lambda option: option.name)
def test_the_docstring_of_the_receiver_has_every_option_and_its_default(
    option: Field[object],
) -> None:
    default = '""' if option.default == "" else repr(option.default)
    assert f"`{option.name}={default}`" in (Receiver.__doc__ or "")


def test_options_do_not_change_after_they_were_checked() -> None:
    """An option that is changed later would not be checked."""
    options = ReceiverOptions(group=1)
    with pytest.raises(FrozenInstanceError):
        options.group = 0  # type: ignore[misc] # what the test proves
    with pytest.raises(ConfigurationError, match="group must be an integer of at least 1"):
        ReceiverOptions(group=0)
