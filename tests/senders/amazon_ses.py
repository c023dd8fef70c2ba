"""Amazon SES: a topic, a certificate, events, and the signatures of SNS."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding

from hookrow import Request, RequestHead
from hookrow.providers.amazon_ses import AmazonSES
from senders.sender import ADA, Sender
from wire import ENDPOINT

TOPIC = "arn:aws:sns:eu-west-1:123456789012:mail-events"
OTHER = "arn:aws:sns:us-east-1:123456789012:mail-events"
CERTIFICATE = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem"
ID = "0102018f-aaaa-bbbb-cccc-000000000001-000000"
AT = datetime(2026, 11, 20, 10, 11, 12, 345000, tzinfo=UTC)
TIME = "2026-11-20T10:11:12.345Z"


@cache
def key(owner: str = "Amazon") -> rsa.RSAPrivateKey:
    """Return the same key for an owner."""
    assert owner
    return rsa.generate_private_key(65537, 2048)


def certificate(
    signed_key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | None = None,
    begins: timedelta = -timedelta(days=1),
    ends: timedelta = timedelta(days=1),
) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    builder = x509.CertificateBuilder(name, name, (signed_key or key()).public_key(), 1)
    valid = builder.not_valid_before(datetime.now(UTC) + begins)
    valid = valid.not_valid_after(datetime.now(UTC) + ends)
    return valid.sign(key(), hashes.SHA256()).public_bytes(Encoding.PEM)


def message(text: str, **changed: str) -> dict[str, str]:
    """Return a notification of SNS without its signature."""
    return {
        "Type": "Notification",
        "MessageId": "5d1f3b0e-0000-4000-8000-00000000abcd",
        "TopicArn": TOPIC,
        "Subject": "Amazon SES Email Event Notification",
        "Message": text,
        "Timestamp": "2026-11-20T10:11:13.500Z",
        "SignatureVersion": "1",
        "SigningCertURL": CERTIFICATE,
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
        **changed,
    }


def content(envelope: Mapping[str, str]) -> bytes:
    """Return what SNS signs of a message, as it documents it."""
    names = ["Message", "MessageId", "SubscribeURL", "Subject", "Timestamp", "Token", "TopicArn"]
    is_plain = envelope["Type"] == "Notification"
    left_out = {"SubscribeURL", "Token"} if is_plain else {"Subject"}
    lines = [
        f"{name}\n{envelope[name]}\n"
        for name in [*names, "Type"]
        if name in envelope and name not in left_out
    ]
    return "".join(lines).encode("utf-8", "surrogatepass")


def signed(envelope: Mapping[str, str], signing: rsa.RSAPrivateKey | None = None) -> Request:
    """Return a request with a message, and its signature."""
    hash_ = hashes.SHA256() if envelope["SignatureVersion"] == "2" else hashes.SHA1()
    signature = (signing or key()).sign(content(envelope), PKCS1v15(), hash_)
    body = {**envelope, "Signature": b64encode(signature).decode()}
    return posted(json.dumps(body).encode(), envelope["Type"])


def posted(body: bytes, type_: str = "Notification", **headers: str) -> Request:
    given = {"x-amz-sns-message-type": type_, "x-amz-sns-topic-arn": TOPIC, **headers}
    pairs = [(name.encode(), value.encode()) for name, value in given.items()]
    return Request(RequestHead("POST", ENDPOINT, pairs), body)


def event(type_: str, *to: str, **details: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return an event of SES; the details are below the name of its type."""
    names = {"Rendering Failure": "failure", "DeliveryDelay": "deliveryDelay"}
    return {
        "eventType": type_,
        "mail": {
            "timestamp": "2026-11-20T10:11:11.000Z",
            "messageId": ID,
            "destination": [*(to or (ADA,))],
            "headers": [{"name": "To", "value": ", ".join(to)}],
            "commonHeaders": {"to": [*to]},
            "tags": {"ses:configuration-set": ["mail"]},
        },
        names.get(type_, type_.lower()): {"timestamp": TIME, **details},
    }


def delivery(*to: str) -> dict[str, Any]:
    recipients = [*(to or (ADA,))]
    return event("Delivery", *to, recipients=recipients, smtpResponse="250 ok")


def provider(
    *topics: str,
    fetch: Callable[[str], bytes] = lambda _: certificate(),
    **options: Any,  # noqa: ANN401 - of AmazonSES
) -> AmazonSES:
    """Return a provider that has loaded the certificate."""
    made = AmazonSES(*(topics or (TOPIC,)), fetch=fetch, **options)
    made._load(CERTIFICATE)
    return made


def _pack(events: Sequence[Any]) -> bytes:
    [alone] = events
    return json.dumps(alone).encode()


def _opened(second: int) -> dict[str, Any]:
    return event("Open", timestamp=(AT + timedelta(seconds=second)).isoformat())


SENDER = Sender(
    construct=provider,
    message_id=ID,
    opened=_opened,
    unknown=event("A New Type"),
    nobody=event("Delivery", recipients=[None]),
    pack=_pack,
    sign=lambda body: signed(message(body.decode(errors="surrogateescape"))),
)
