"""What hookrow's own providers have in common: settings, and events that can be simulated."""

from base64 import b64encode
from contextlib import closing
from datetime import UTC, datetime

import pytest
from receiving import people

from hookrow import (
    Bounced,
    Clicked,
    Complained,
    ConfigurationError,
    Delivered,
    Notification,
    Opened,
    Reactivated,
    Receiver,
    Request,
    RequestHead,
    Suppressed,
)
from hookrow._core.rules import PROBE
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers._registry import PROVIDER_NAMES, built_in, parser_named
from wire import ADA, ADAS, ENDPOINT, SECRET

AT = datetime(2026, 3, 5, 12, 30, 15, 126000, tzinfo=UTC)

CREDENTIALS = {
    "postmark": SECRET,
    "resend": f"whsec_{b64encode(b'a key of the webhook').decode()}",
}
"""A credential for each provider."""

every_provider = pytest.mark.parametrize("name", PROVIDER_NAMES)


def build(name: str) -> BuiltIn:
    return built_in(name)(CREDENTIALS[name])


def request(sent: ProviderRequest) -> Request:
    raw = [(name.encode(), value.encode()) for name, value in sent.headers.items()]
    return Request(RequestHead("POST", ENDPOINT, raw), sent.body)


@every_provider
def test_the_registry(name: str) -> None:
    """A provider has the name by which settings find it; its class reads the log."""
    assert build(name).name == name
    assert parser_named(name).parse(b"").notifications == ()


def test_an_unknown_provider() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'postmrk'. Did you mean 'postmark'\? hookrow has"
    ):
        built_in("postmrk")


@every_provider
@pytest.mark.parametrize(
    "notification",
    [
        Delivered(ADA, ADAS, AT),
        Opened(ADA, ADAS, AT),
        Clicked(ADA, ADAS, AT),
        Bounced(ADA, ADAS, AT, "HardBounce"),
        Complained(ADA, ADAS, AT),
        Suppressed(ADA, None, AT, "HardBounce"),
        Suppressed(ADA, None, AT, "another"),
        Reactivated(ADA, None, AT),
        Reactivated(ADA, None, None),
    ],
    ids=str,
)
def test_a_provider_reads_what_it_composes(name: str, notification: Notification) -> None:
    provider = build(name)
    assert [*provider.parse(provider.compose(notification)).notifications] == [notification]


@every_provider
def test_a_signed_request_is_accepted_and_that_of_a_stranger_is_not(name: str) -> None:
    """The proof is in the header that the class names."""
    provider, change = build(name), Reactivated(PROBE, None, None)
    body = provider.compose(change)
    accepted, refused = provider.sign(body), built_in(name).forge(body)
    with closing(Receiver(provider, people(), sweep=False, acknowledge_parked=False)) as receiver:
        for sent, status in ((accepted, 404), (refused, 401)):
            assert sent is not None
            assert provider.proof in sent.headers
            asked = request(sent)
            response = receiver.admit(asked.head) or receiver(asked)
            assert response.status == status
