"""The form of each provider's message ids: what is recognized in place of it, and corrected."""

import pytest

from courier import Courier
from hookrow.providers.sendgrid import SendGrid
from senders import SENDERS
from senders.sendgrid import der

UUID = "b7bc2f4a-e38e-4336-af7d-e6c392c2f817"
DIGITS = UUID.replace("-", "")
SES_ID = "0100018f2b1c5d7e-8a9b0c1d-2e3f-4a5b-8c6d-7e8f9a0b1c2d-000000"
SENDGRID_ID = "IrP0gZOPSROWz4mQjYIhFA"
IN_BRACKETS = "<20130503182626.18666.16540@samples.mailgun.org>"

# What the application stores, and the id of the provider's events, or None if there is none.
CASES: dict[str, dict[str, str | None]] = {
    "postmark": {
        UUID.upper(): UUID,
        DIGITS: UUID,
        DIGITS.upper(): UUID,
        f"<{UUID}>": UUID,
        f"<{UUID}@mtasv.net>": UUID,
        f" {UUID}\n": UUID,
        f"<{UUID}@example.com>": None,
        UUID[:-1]: None,
        f"{DIGITS[:8]}-{DIGITS[8:]}": None,
        "m-1": None,
        "": None,
    },
    "resend": {UUID.upper(): UUID, DIGITS: UUID, f"re_{UUID}": None},
    "amazon_ses": {
        f"<{SES_ID}@email.amazonses.com>": SES_ID,
        f"{SES_ID}@eu-west-1.amazonses.com": SES_ID,
        f"<{SES_ID}>": SES_ID,
        f"{SES_ID} ": SES_ID,
        f"<{SES_ID}@example.com>": None,
        f"<{SES_ID}@notamazonses.com>": None,
    },
    "sendgrid": {
        f"{SENDGRID_ID}.filter0001.16648.5515E0B88.0": SENDGRID_ID,
        f"{SENDGRID_ID}.recvd-5f54b5d587-mczjm-1-6644AC3A-21.0": SENDGRID_ID,
        f"<{SENDGRID_ID}@geopod-ismtpd-canary-0>": SENDGRID_ID,
        f"<{SENDGRID_ID}>": SENDGRID_ID,
        IN_BRACKETS: None,
        "": None,
    },
    "mailgun": {IN_BRACKETS[1:-1]: IN_BRACKETS, f" {IN_BRACKETS}": IN_BRACKETS, UUID: None},
    "brevo": {IN_BRACKETS[1:-1]: IN_BRACKETS, "<a b@c>": None, "201798300811.5787683": None},
    "mandrill": {UUID: DIGITS, f"<{DIGITS}>": None, "<30.x@mail123.mandrillapp.com>": None},
    "mailjet": {" 1152921500000000000": "1152921500000000000", "1.15e18": None, UUID: None},
}


@pytest.mark.parametrize("name", SENDERS)
def test_correct_message_id(name: str) -> None:
    """What is corrected has the form of the provider's ids, and stays as it is."""
    provider, stored = SENDERS[name].construct(), CASES[name]
    assert {each: provider.correct_message_id(each) for each in stored} == stored
    for id_ in filter(None, stored.values()):
        assert provider.correct_message_id(id_) == id_


@pytest.mark.parametrize("name", sorted({*SENDERS} - {"resend"}))
def test_ids_of_events(name: str) -> None:
    """The id in the samples of a provider has the form of its ids. Resend's is made up."""
    sender = SENDERS[name]
    assert sender.construct().correct_message_id(sender.message_id) == sender.message_id


@pytest.mark.parametrize("provider", [Courier(), SendGrid(der(), message_id_key="anymail_id")])
def test_any_text_may_be_an_id(provider: Courier | SendGrid) -> None:
    """Nothing is known about the ids of a provider of the host's, and about custom arguments."""
    for text in ("m-1", " <x@y> ", UUID.upper()):
        assert provider.correct_message_id(text) == text
