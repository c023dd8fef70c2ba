"""`hookrow.testing.WebhookSender`: the events of each provider, for tests of applications."""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from hmac import new

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key
from receiving import Database, people
from standardwebhooks import Webhook

from basic_auth import authorized
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
from hookrow.providers.amazon_ses import AmazonSES
from hookrow.providers.mailgun import Mailgun
from hookrow.providers.mandrill import Mandrill
from hookrow.testing import WebhookSender
from hookrow.wsgi import WSGI
from loopback import loopback
from senders import amazon_ses, mandrill, sendgrid
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


def verify_postmark(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    assert headers["X-Provider-Secret"] == sender.credential
    assert json.loads(body)["RecordType"] == "Open"


def verify_resend(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    Webhook(sender.credential).verify(body, {**headers})


def verify_amazon_ses(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    envelope = json.loads(body)
    assert headers["x-amz-sns-topic-arn"] == envelope["TopicArn"] == sender.credential
    assert isinstance(sender.provider, AmazonSES)
    [certificate] = sender.provider._certificates.values()
    assert certificate.key is not None
    signature, signed = b64decode(envelope["Signature"]), amazon_ses.content(envelope)
    certificate.key.verify(signature, signed, PKCS1v15(), SHA256())


def verify_sendgrid(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    key = load_der_public_key(b64decode(sender.credential))
    assert isinstance(key, EllipticCurvePublicKey)
    signed = headers[sendgrid.TIMESTAMP].encode() + body
    key.verify(b64decode(headers[sendgrid.SIGNATURE]), signed, ECDSA(SHA256()))


def verify_mandrill(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    expected = mandrill.signature(body, sender.credential, mandrill.URL)
    assert headers["X-Mandrill-Signature"].encode() == expected


def verify_mailgun(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    assert headers["Content-Type"] == "application/json"
    block = json.loads(body)["signature"]
    signed = (block["timestamp"] + block["token"]).encode()
    assert block["signature"] == new(sender.credential.encode(), signed, sha256).hexdigest()


def verify_credentials(sender: WebhookSender, headers: Mapping[str, str], body: bytes) -> None:
    [(_, expected)] = authorized(body, sender.credential).head.headers
    assert headers["Authorization"].encode() == expected


VERIFY: Mapping[str, Callable[[WebhookSender, Mapping[str, str], bytes], None]] = {
    "postmark": verify_postmark,
    "resend": verify_resend,
    "amazon_ses": verify_amazon_ses,
    "sendgrid": verify_sendgrid,
    "mandrill": verify_mandrill,
    "mailjet": verify_credentials,
    "mailgun": verify_mailgun,
    "brevo": verify_credentials,
}
"""Verify a request without hookrow, by what the provider documents."""


@pytest.mark.parametrize("name", PROVIDER_NAMES)
def test_the_signatures_are_those_of_the_provider(name: str) -> None:
    sender = WebhookSender(name, **({"url": mandrill.URL} if name == "mandrill" else {}))
    VERIFY[name](sender, *sender.request(Opened(ADA, ID, AT)))


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
