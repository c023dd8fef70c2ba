"""`hookrow.testing.WebhookSender`: the events of each provider, for tests of applications."""

from contextlib import closing
from datetime import UTC, datetime

import pytest
from receiving import Database, people

from hookrow import (
    Bounced,
    Clicked,
    Complained,
    ConfigurationError,
    Delivered,
    Opened,
    Reactivated,
    Receiver,
    Schema,
    Suppressed,
)
from hookrow.providers._registry import PROVIDER_NAMES
from hookrow.providers.mailgun import Mailgun
from hookrow.providers.mandrill import Mandrill
from hookrow.testing import WebhookSender
from hookrow.wsgi import WSGI
from loopback import loopback
from wire import ADA, ENDPOINT

AT = datetime(2026, 3, 5, 12, 30, 15, tzinfo=UTC)
ID = "<19>"
RECORDED = Schema(record=("click", "bounce", "complaint"))


@pytest.mark.parametrize("name", PROVIDER_NAMES)
def test_each_event_is_recorded(name: str) -> None:
    """The requests are authentic, and a receiver makes the changes of each event."""
    sender, store = WebhookSender(name), Database(RECORDED)
    store.tables.add_dispatch(ID, store.tables.add_subscriber("bea@example.com"))
    with closing(Receiver({name: sender.provider}, store)) as receiver:
        for kind in (Delivered, Opened, Clicked, Complained):
            assert sender.post(receiver, kind("bea@example.com", ID, AT)) == (200, "")
        bounce = Bounced("bea@example.com", ID, AT, sender.hard_bounce)
        assert sender.post(receiver, bounce) == (200, "")
        suppression = Suppressed("bea@example.com", ID, AT, "HardBounce")
        assert sender.post(receiver, suppression) == (200, "")
    found = store.tables.dispatch(ID)
    times = (found.delivered_at, found.opened_at, found.clicked_at, found.complained_at)
    assert {*times, found.bounced_at} == {AT}
    assert store.tables.subscriber("bea@example.com").suppressed_at == AT


def test_over_http() -> None:
    sender = WebhookSender("brevo")
    with (
        closing(Receiver({"brevo": sender.provider}, people())) as receiver,
        loopback(WSGI(receiver)) as port,
    ):
        url = f"http://127.0.0.1:{port}{ENDPOINT}/brevo"
        assert sender.post(url, Suppressed(ADA, None, AT, "ManualSuppression")) == (200, "")


def test_an_application_with_the_credential_accepts_the_requests() -> None:
    """That of Mandrill also needs the same URL."""
    sender = WebhookSender("mailgun")
    with closing(Receiver({"m": Mailgun(sender.credential)}, people())) as receiver:
        assert sender.post(receiver, Delivered(ADA, ID, AT))[0] == 200
        assert WebhookSender("mailgun").post(receiver, Delivered(ADA, ID, AT))[0] == 401
    url = "https://ada:secret@example.com/mail/provider/webhooks"
    sender = WebhookSender("mandrill", url=url)
    with closing(Receiver({"m": Mandrill(sender.credential, url=url)}, people())) as receiver:
        assert sender.post(receiver, Delivered(ADA, ID, AT))[0] == 200


@pytest.mark.parametrize(
    "notification",
    [
        Reactivated(ADA, ID, AT),
        Bounced(ADA, ID, AT, "HardBounce"),
        Suppressed(ADA, ID, AT, "another"),
        Suppressed(ADA, ID, None, "HardBounce"),
    ],
)
def test_an_event_that_the_provider_does_not_send(
    notification: Reactivated | Bounced | Suppressed,
) -> None:
    with pytest.raises(ConfigurationError, match="mailjet sends no event for"):
        WebhookSender("mailjet").request(notification)
