"""Amazon SES: the signatures of SNS, its certificates and subscriptions, and the events."""

import json
import logging
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Event as Flag
from threading import Thread
from typing import Any
from urllib.error import HTTPError

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
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
    Suppressed,
)
from hookrow.providers import NotReady, Unauthentic, _sns
from hookrow.providers.amazon_ses import _MOST_RECIPIENTS, AmazonSES
from hookrow.testing import ProviderContract
from senders.amazon_ses import (
    AT,
    CERTIFICATE,
    ID,
    OTHER,
    TOPIC,
    certificate,
    delivery,
    event,
    key,
    message,
    posted,
    provider,
    signed,
)
from senders.sender import ADA
from wire import PATIENCE, eventually

BEA, CAL = "bea@example.com", "cal@example.com"
SUBSCRIBE = (
    "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"
    f"&TopicArn={TOPIC}&Token=2336412f37fb687f5d51e6e241d09c805a5a57b30d712f794cc5f6a988666d92"
)


def confirmation(type_: str = "SubscriptionConfirmation", **changed: str) -> dict[str, str]:
    text = "You have chosen to subscribe to the topic."
    return message(text, Type=type_, Token="2336412f37", SubscribeURL=SUBSCRIBE, **changed)


def bounce(type_: str, subtype: str, *to: str) -> dict[str, Any]:
    bounced = [{"emailAddress": each, "status": "5.1.1"} for each in to or (ADA,)]
    details: dict[str, Any] = {
        "bounceType": type_,
        "bounceSubType": subtype,
        "bouncedRecipients": bounced,
    }
    return event("Bounce", *to, **details, feedbackId="0100-f")


def complaint(kind: str = "abuse", *to: str, **changed: str) -> dict[str, Any]:
    complained = [{"emailAddress": each} for each in to or (ADA,)]
    details: dict[str, Any] = {
        "complainedRecipients": complained,
        "complaintFeedbackType": kind,
        **changed,
    }
    return event("Complaint", *to, **details)


def subscription(old: bool, new: bool) -> dict[str, Any]:  # noqa: FBT001 - of both preferences
    topics = [{"topicName": "News", "subscriptionStatus": "OptOut"}]
    preferences: dict[str, Any] = {
        name: {"unsubscribeAll": value, "topicSubscriptionStatus": topics}
        for name, value in (("oldTopicPreferences", old), ("newTopicPreferences", new))
    }
    return event("Subscription", contactList="Customers", source="UnsubscribeLink", **preferences)


READY = provider()


def read(*payloads: object, by: AmazonSES = READY) -> list[list[Notification]]:
    """Return the notifications of the events in requests."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in payloads]
    return [[*found.notifications] for text in texts for found in by.read(signed(message(text)))]


def refused(request: Request, by: AmazonSES = READY) -> tuple[str, str]:
    """Return the challenge to a request, and the reason in the log line."""
    challenge = by.admit(request.head)
    if challenge is None:
        with pytest.raises(Unauthentic) as raised:
            by.read(request)
        challenge = raised.value.challenge
    return challenge, by.describe_unauthentic(request.head)


HARD, SPAM, MANUAL = (
    Suppressed(ADA, ID, AT, reason)
    for reason in ("HardBounce", "SpamComplaint", "ManualSuppression")
)

SAMPLES: Sequence[tuple[Any, Sequence[Sequence[Notification]]]] = [
    (delivery(), [[Delivered(ADA, ID, AT)]]),
    (delivery(BEA, CAL), [[Delivered(BEA, ID, AT)], [Delivered(CAL, ID, AT)]]),
    (event("Open", ipAddress="192.0.2.1"), [[Opened(ADA, ID, AT)]]),
    (event("Click", link="https://example.com"), [[Clicked(ADA, ID, AT)]]),
    (event("Open", BEA, CAL), [[Opened(BEA, ID, AT)], [Opened(CAL, ID, AT)]]),
    (bounce("Permanent", "General"), [[Bounced(ADA, ID, AT, "Permanent"), HARD]]),
    (bounce("Transient", "MailboxFull"), [[Bounced(ADA, ID, AT, "Transient")]]),
    (complaint(), [[Complained(ADA, ID, AT), SPAM]]),
    (subscription(old=False, new=True), [[MANUAL]]),
    (subscription(old=True, new=False), [[Reactivated(ADA, ID, AT)]]),
    (event("Send"), [[]]),
    (
        event("DeliveryDelay", delayType="General", delayedRecipients=[{"emailAddress": ADA}]),
        [[]],
    ),
]


@pytest.mark.unmeasured
class TestContract(ProviderContract):
    provider = READY
    samples = tuple((json.dumps(event).encode(), found) for event, found in SAMPLES)

    def sign(self, body: bytes, /) -> Request:
        return signed(message(body.decode(errors="surrogateescape")))

    def forgeries(self, request: Request, /) -> Iterator[tuple[str, Request]]:
        envelope = json.loads(request.body)
        signature = envelope["Signature"]
        changes: dict[str, object] = {
            "missing": None,
            "empty": "",
            "cut": signature[:-8],
            "repeated": [signature, signature],
            "repeated as text": f"{signature},{signature}",
            "not base64": "é",
            "another": b64encode(bytes(256)).decode(),
        }
        for change, value in changes.items():
            body = json.dumps({**envelope, "Signature": value}).encode()
            yield f"a signature that is {change}", Request(request.head, body)
        headers = [each for each in request.head.headers if each[0] != b"x-amz-sns-message-type"]
        head = msgspec.structs.replace(request.head, headers=headers, context={})
        yield "a request without the type of its message", Request(head, request.body)


# -- events ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "subtype", "notifications"),
    [
        ("Permanent", "NoEmail", [HARD]),
        ("Permanent", "Suppressed", [HARD]),
        ("Permanent", "OnAccountSuppressionList", [HARD]),
        ("Permanent", "UnsubscribedRecipient", [MANUAL]),
        ("Undetermined", "Undetermined", []),
        ("Transient", "General", []),
        ("Transient", "MessageTooLarge", []),
        ("Transient", "ContentRejected", []),
        ("Transient", "AttachmentRejected", []),
    ],
)
def test_bounces(type_: str, subtype: str, notifications: Sequence[Notification]) -> None:
    """Only a permanent bounce suppresses."""
    assert read(bounce(type_, subtype)) == [[Bounced(ADA, ID, AT, type_), *notifications]]


def test_a_report_that_an_email_is_no_spam() -> None:
    assert read(complaint("not-spam")) == [[]]


def test_a_complaint_without_a_report() -> None:
    found = read(complaint("abuse", complaintSubType="OnAccountSuppressionList"))
    assert found == [[Complained(ADA, ID, AT), SPAM]]


@pytest.mark.parametrize(
    "payload",
    [
        event("Reject", reason="Bad content"),
        event("Rendering Failure", errorMessage="A variable is missing."),
        event("Unknown"),
    ],
)
def test_events_without_an_effect(payload: dict[str, Any]) -> None:
    [found] = READY.read(signed(message(json.dumps(payload))))
    assert not found.notifications
    assert found.unsupported.record_type == payload["eventType"]
    assert found.unsupported.message_id == ID


@pytest.mark.parametrize(("old", "new"), [(False, False), (True, True)])
def test_preferences_of_a_topic(old: bool, new: bool) -> None:  # noqa: FBT001 - a parameter
    """A change of one topic of the contact list does not concern all emails."""
    assert read(subscription(old=old, new=new)) == [[MANUAL] if new else []]


@pytest.mark.parametrize(
    "event", [bounce("Permanent", "General", ADA, BEA), complaint("abuse", ADA, BEA)]
)
def test_the_stored_body_has_one_recipient(event: dict[str, Any]) -> None:
    """An erasure of a subscriber must not leave the address in the entry of another one."""
    ada, bea = READY.read(signed(message(json.dumps(event))))
    assert (ADA.encode() in ada.body, BEA.encode() in ada.body) == (True, False)
    assert (ADA.encode() in bea.body, BEA.encode() in bea.body) == (False, True)
    assert json.loads(bea.body)["mail"]["tags"] == event["mail"]["tags"]


def test_a_bounce_of_one_recipient_of_several() -> None:
    payload = bounce("Permanent", "General", BEA)
    payload["mail"]["destination"] = [ADA, BEA]
    [found] = READY.read(signed(message(json.dumps(payload))))
    assert [each.recipient for each in found.notifications] == [BEA, BEA]
    assert ADA.encode() not in found.body


def test_an_event_with_too_many_recipients() -> None:
    payload = delivery(*[f"{number}@example.com" for number in range(_MOST_RECIPIENTS + 1)])
    [found] = READY.read(signed(message(json.dumps(payload))))
    assert not found.notifications
    assert READY.explain(found.body) == "The event has more than 50 recipients."
    payload["delivery"]["recipients"].pop()
    assert len(read(payload)) == _MOST_RECIPIENTS


def test_recipients_without_an_address() -> None:
    payload = bounce("Permanent", "General")
    payload["bounce"]["bouncedRecipients"] = [{}, None, {"emailAddress": f"Ada <{ADA}>"}]
    assert [[each.recipient for each in found] for found in read(payload)] == [
        [None, None],
        [None, None],
        [ADA, ADA],
    ]


@pytest.mark.parametrize("payload", [delivery(), bounce("Permanent", "General"), event("Open")])
def test_an_event_of_a_configuration_set_and_of_an_identity(payload: dict[str, Any]) -> None:
    """It is one entry of the log, although the ids of its messages differ."""
    again = {"notificationType": payload.pop("eventType"), **payload}
    again["mail"].pop("tags")
    payload = {"eventType": again["notificationType"], **payload}
    database = people("ada")
    with closing(Receiver(provider(), database)) as receiver:
        for envelope in (
            message(json.dumps(payload)),
            message(json.dumps(again), MessageId="another", Timestamp="2026-11-20T10:11:14.000Z"),
        ):
            request = signed(envelope)
            assert (receiver.admit(request.head) or receiver(request)).status == 200
    [entry] = database.logged()
    assert entry.attempts == 2


def test_two_clicks_are_two_events() -> None:
    first, second = (
        READY.read(signed(message(json.dumps(event("Click", link=f"https://example.com/{each}")))))
        for each in (1, 2)
    )
    assert first[0].event_id != second[0].event_id


@pytest.mark.parametrize(
    "text",
    [
        "Successfully validated SNS topic for Amazon SES event publishing.",
        '{"notificationType": "AmazonSnsSubscriptionSucceeded", "message": "You have ..."}',
        json.dumps(delivery("success@simulator.amazonses.com")),
    ],
)
def test_tests_are_recognized(text: str) -> None:
    [found] = READY.read(signed(message(text)))
    assert READY.is_test(found)
    assert not READY.is_test(READY.parse(json.dumps(delivery()).encode()))


# -- signatures ------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [{}, {"Subject": "Hello"}])
def test_signatures(version: str, subject: dict[str, str]) -> None:
    envelope = message(json.dumps(delivery()), SignatureVersion=version)
    envelope.pop("Subject")
    [found] = READY.read(signed({**envelope, **subject}))
    assert found.trace_id == envelope["MessageId"]


def test_a_signature_is_not_valid_for_another_version() -> None:
    body = json.loads(signed(message("{}", SignatureVersion="2")).body)
    for version in ("1", "3", None):
        changed = posted(json.dumps({**body, "SignatureVersion": version}).encode())
        with pytest.raises(Unauthentic):
            READY.read(changed)


@pytest.mark.parametrize(
    ("request_", "error", "reason"),
    [
        (posted(b"{}", ""), "missing", "it has no x-amz-sns-message-type"),
        (posted(b"{}", "Other"), "missing", "it has no x-amz-sns-message-type"),
        (
            posted(b"{}", **{"x-amz-sns-rawdelivery": "true"}),
            "raw",
            "it is not signed, because raw message delivery is on",
        ),
        (posted(b"{}", **{"x-amz-sns-topic-arn": OTHER}), "topic", "its topic is not one of"),
        (signed(message("{}", TopicArn=OTHER)), "topic", "its topic is not one of"),
        (posted(json.dumps(delivery()).encode()), "unsigned", "its body is not a message"),
        (posted(b"[]"), "unsigned", "its body is not a message"),
        (posted(b"a=b"), "unsigned", "its body is not a message"),
        (signed(message("{}"), key("another")), "wrong", "its signature is wrong"),
    ],
)
def test_requests_that_are_refused(request_: Request, error: str, reason: str) -> None:
    challenge, found = refused(request_)
    assert challenge == f'Signature error="{error}"'
    assert found.startswith(reason)


def test_raw_delivery_that_is_off() -> None:
    request = posted(signed(message("{}")).body, **{"x-amz-sns-rawdelivery": "false"})
    assert READY.admit(request.head) is None


def test_a_topic_in_the_type_is_refused() -> None:
    """Values are joined by line breaks, so a message of another topic must not imitate ours."""
    envelope = message("{}", TopicArn=OTHER)
    body = json.loads(signed(envelope).body)
    type_ = f"Notification\nTopicArn\n{OTHER}\nType\nNotification"
    for changed in ({"TopicArn": TOPIC, "Type": type_}, {"TopicArn": f"{TOPIC}\n"}):
        with pytest.raises(Unauthentic):
            READY.read(posted(json.dumps({**body, **changed}).encode()))


def test_several_topics() -> None:
    ses = provider(TOPIC, OTHER)
    for topic in (TOPIC, OTHER):
        request = signed(message(json.dumps(delivery()), TopicArn=topic))
        assert ses.read(request)[0].notifications


@pytest.mark.parametrize(
    "topics",
    [
        (),
        ("",),
        ("mail-events",),
        (f"{TOPIC}:c9135db0-26c4-47ec-8998-413945fb5a96",),
        (f"{TOPIC}.fifo",),
        (TOPIC, "arn:aws:sqs:eu-west-1:123456789012:mail"),
        (f"{TOPIC}\n",),
        ([TOPIC],),
    ],
)
def test_topics_that_are_not_valid(topics: Sequence[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"[Tt]opic"):
        AmazonSES(*topics)


@pytest.mark.parametrize("options", [{"fetch": 5}, {"fetch": lambda: b""}, {"clock": "now"}])
def test_options_that_are_not_valid(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        AmazonSES(TOPIC, **options)


# -- certificates ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "sns.us-east-1.amazonaws.com",
        "sns.ap-southeast-2.amazonaws.com",
        "sns.us-gov-west-1.amazonaws.com",
        "sns.cn-northwest-1.amazonaws.com.cn",
        "sns.eusc-de-east-1.amazonaws.eu",
    ],
)
def test_hosts_of_certificates(host: str) -> None:
    url = f"https://{host}/SimpleNotificationService-0123.pem"
    ses = AmazonSES(TOPIC, fetch=lambda _: certificate())
    ses._load(url)
    assert ses.read(signed(message("{}", SigningCertURL=url)))


@pytest.mark.parametrize(
    "url",
    [
        CERTIFICATE.replace("https", "http"),
        CERTIFICATE.replace("amazonaws.com", "amazonaws.com.example.com"),
        CERTIFICATE.replace("sns.eu", "snsXeu"),
        CERTIFICATE.replace("sns.", "s3."),
        CERTIFICATE.replace("https://", "https://evil.example.com/"),
        CERTIFICATE.replace("https://", "https://user@"),
        CERTIFICATE.replace(".com/", ".com@evil.example.com/"),
        CERTIFICATE.replace(".com/", ".com:8443/"),
        CERTIFICATE.replace(".com/", ".com.cn/"),
        CERTIFICATE.replace("eu-west-1.amazonaws.com", "cn-north-1.amazonaws.com"),
        CERTIFICATE.replace(".pem", ".crt"),
        f"{CERTIFICATE}?x=.pem",
        f"{CERTIFICATE}#.pem",
        f"{CERTIFICATE}\n",
        CERTIFICATE.replace("/Simple", "/a/Simple"),
        CERTIFICATE.replace("1.a", "\u0661.a"),
        "",
    ],
)
def test_certificates_from_elsewhere_are_not_fetched(url: str) -> None:
    fetched: list[str] = []

    def fetch(url: str) -> bytes:
        fetched.append(url)
        return certificate()

    ses = AmazonSES(TOPIC, fetch=fetch)
    error, reason = refused(signed(message("{}", SigningCertURL=url)), ses)
    assert error == 'Signature error="certificate"'
    assert reason == "its SigningCertURL is not that of an RSA certificate of Amazon SNS"
    assert not fetched


@pytest.mark.parametrize(
    ("begins", "ends"),
    [(-timedelta(days=2), -timedelta(days=1)), (timedelta(days=1), timedelta(days=2))],
)
def test_a_certificate_that_is_not_valid_now(begins: timedelta, ends: timedelta) -> None:
    ses = provider(fetch=lambda _: certificate(begins=begins, ends=ends))
    error, reason = refused(signed(message("{}")), ses)
    assert error == 'Signature error="expired"'
    assert reason.endswith("by this machine's clock")


def test_a_certificate_with_another_kind_of_key() -> None:
    ses = provider(fetch=lambda _: certificate(ec.generate_private_key(ec.SECP256R1())))
    error, _ = refused(signed(message("{}")), ses)
    assert error == 'Signature error="certificate"'


def test_a_certificate_of_another_key() -> None:
    ses = provider(fetch=lambda _: certificate(key("another")))
    error, _ = refused(signed(message("{}")), ses)
    assert error == 'Signature error="wrong"'


def test_requests_to_amazon_use_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that `fetch` needs to be replaced only in code, and no setting has to name it."""
    received: list[bytes] = []

    class Proxy(StreamRequestHandler):
        def handle(self) -> None:
            received.append(self.rfile.readline())
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Proxy) as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(OSError, match="403"):
            _sns.fetch_url(CERTIFICATE)
        server.shutdown()
        thread.join()
    assert [each.split()[:2] for each in received] == [
        [b"CONNECT", b"sns.eu-west-1.amazonaws.com:443"]
    ]


def test_a_certificate_is_fetched_in_the_background() -> None:
    """The first messages result in a 503, and cause one fetch, even if the server is slow."""
    fetched: list[str] = []
    arrived = Flag()

    def fetch(url: str) -> bytes:
        fetched.append(url)
        assert arrived.wait(PATIENCE)
        return certificate()

    with closing(Receiver(AmazonSES(TOPIC, fetch=fetch), people("ada"))) as receiver:
        request = signed(message(json.dumps(delivery())))
        for _ in range(3):
            assert receiver(request).status == 503
        arrived.set()
        eventually(lambda: receiver(request).status == 200)
    assert fetched == [CERTIFICATE]


def test_a_certificate_that_cannot_be_fetched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is fetched again by a message that arrives later, and not by each one."""
    now, attempts = 0.0, 0
    monkeypatch.setattr(_sns, "monotonic", lambda: now)

    def fetch(_: str) -> bytes:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise OSError("unreachable")
        return b"<html>" if attempts == 2 else certificate()

    ses = AmazonSES(TOPIC, fetch=fetch)
    request = signed(message(json.dumps(delivery())))
    for attempt in (1, 2):
        for _ in range(3):
            with pytest.raises(NotReady):
                ses.read(request)
            eventually(lambda: not ses._tasks._running)
        assert attempts == attempt
        now += _sns.RETRY_AFTER
    with pytest.raises(NotReady):
        ses.read(request)
    eventually(lambda: not ses._tasks._running)
    assert ses.read(request)
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_renewed_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has expired since it was fetched is fetched again."""
    now, ends = 0.0, timedelta(days=1)
    monkeypatch.setattr(_sns, "monotonic", lambda: now)
    wall = datetime.now(UTC).timestamp()
    ses = provider(fetch=lambda _: certificate(ends=ends), clock=lambda: wall + now)
    request = signed(message(json.dumps(delivery())))
    assert ses.read(request)
    now, ends = 2 * 24 * 3600.0, timedelta(days=3)
    with pytest.raises(NotReady):
        ses.read(request)
    eventually(lambda: not ses._tasks._running)
    assert ses.read(request)


def test_the_number_of_fetches_and_of_certificates_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stranger who knows the topic can name any number of URLs."""
    fetched: list[str] = []
    arrived = Flag()

    def fetch(url: str) -> bytes:
        fetched.append(url)
        assert arrived.wait(PATIENCE)
        return certificate()

    ses = AmazonSES(TOPIC, fetch=fetch)
    for number in range(20):
        url = CERTIFICATE.replace("0123", str(number))
        with pytest.raises(NotReady):
            ses.read(signed(message("{}", SigningCertURL=url)))
    arrived.set()
    eventually(lambda: not ses._tasks._running)
    assert len(fetched) == _sns.MOST_FETCHES
    monkeypatch.setattr(_sns, "MOST_CERTIFICATES", 2)
    for number in range(3):
        ses._load(str(number))
    assert [*ses._certificates] == ["1", "2"]


def test_a_forked_process_fetches_for_itself() -> None:
    """The thread that fetches a certificate remains in the parent process."""
    arrived = Flag()
    ses = AmazonSES(TOPIC, fetch=lambda _: certificate() if arrived.wait(PATIENCE) else b"")
    request = signed(message(json.dumps(delivery())))
    with pytest.raises(NotReady):
        ses.read(request)
    ses._tasks._lock.acquire()  # as if another thread held it during the fork
    ses._tasks.reset()
    arrived.set()
    with pytest.raises(NotReady):
        ses.read(request)
    eventually(lambda: not ses._tasks._running)
    assert ses.read(request)


# -- subscriptions ---------------------------------------------------------------------


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sns, "CONFIRMATION_PAUSES", (0.0, 0.0, 0.0))


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize("failures", [0, 2])
def test_a_subscription_is_confirmed(failures: int) -> None:
    """SNS asks once, so the confirmation is attempted several times."""
    confirmed: list[str] = []

    def fetch(url: str) -> bytes:
        if url == CERTIFICATE:
            return certificate()
        confirmed.append(url)
        if len(confirmed) <= failures:
            raise OSError("unreachable")
        return b"<ConfirmSubscriptionResponse/>"

    ses = provider(fetch=fetch)
    assert list(ses.read(signed(confirmation()))) == []
    eventually(lambda: not ses._tasks._running)
    assert confirmed == [SUBSCRIBE] * (failures + 1)


@pytest.mark.usefixtures("without_pauses")
def test_a_subscription_that_cannot_be_confirmed(caplog: pytest.LogCaptureFixture) -> None:
    """The log line does not have the token."""

    def fetch(url: str) -> bytes:
        if url == CERTIFICATE:
            return certificate()
        raise OSError("unreachable")

    ses = provider(fetch=fetch)
    ses.read(signed(confirmation()))
    eventually(lambda: not ses._tasks._running)
    assert "Could not fetch https://sns.eu-west-1.amazonaws.com/:" in caplog.text
    assert "Token" not in caplog.text


@pytest.mark.parametrize(
    "request_",
    [
        signed(confirmation(), key("another")),
        signed(confirmation(TopicArn=OTHER)),
        posted(json.dumps(confirmation()).encode(), "SubscriptionConfirmation"),
    ],
)
def test_a_forged_confirmation_is_not_fetched(request_: Request) -> None:
    confirmed: list[str] = []
    ses = provider()

    def fetch(url: str) -> bytes:
        confirmed.append(url)
        return b""

    ses._fetch = fetch
    refused(request_, ses)
    assert not confirmed


@pytest.mark.parametrize(
    "envelope",
    [
        confirmation("UnsubscribeConfirmation"),
        confirmation() | {"SubscribeURL": "https://example.com/?Action=ConfirmSubscription"},
        confirmation() | {"SubscribeURL": SUBSCRIBE.replace("https", "http")},
        confirmation() | {"SubscribeURL": SUBSCRIBE.replace("com/", "com@example.com/")},
    ],
)
def test_other_messages_about_subscriptions(
    envelope: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """They have no event, cause no fetch, and are logged."""
    ses = provider()
    ses._fetch = lambda _: pytest.fail("fetched")
    assert list(ses.read(signed(envelope))) == []
    assert not ses._tasks._running
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


# -- the requests to Amazon ------------------------------------------------------------


class Amazon(BaseHTTPRequestHandler):
    """Responds with the number of bytes in the path, or redirects to itself."""

    def do_GET(self) -> None:
        size = self.path.removeprefix("/")
        self.send_response(200 if size.isdigit() else 302)
        self.send_header("Location", "/5")
        self.end_headers()
        self.wfile.write(b"a" * int(size if size.isdigit() else 0))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def amazon() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Amazon) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_response_of_amazon(amazon: str) -> None:
    assert _sns.fetch_url(f"{amazon}/2000") == b"a" * 2000


def test_a_redirect_is_not_followed(amazon: str) -> None:
    with pytest.raises(HTTPError, match="302"):
        _sns.fetch_url(f"{amazon}/redirect")


def test_a_response_that_is_too_large(amazon: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        _sns.fetch_url(f"{amazon}/{_sns.LARGEST_RESPONSE + 1}")


def test_a_response_that_takes_too_long(amazon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, _sns.FETCH_TIMEOUT + 1])
    monkeypatch.setattr(_sns, "monotonic", lambda: next(times))
    with pytest.raises(TimeoutError):
        _sns.fetch_url(f"{amazon}/2000")
