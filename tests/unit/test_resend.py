"""Resend's signatures and events."""

import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from receiving import people
from standardwebhooks import Webhook, WebhookVerificationError

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
    Unsupported,
)
from hookrow.providers import Event, Unauthentic
from hookrow.providers._standard_webhooks import MAX_DIFFERENCE
from hookrow.providers.resend import _MOST_RECIPIENTS, Resend
from senders.resend import ADAS, AT, ID, SECRET, event, signed

OLD = f"whsec_{b64encode(b'the key before it').decode()}"


def provider(*secrets: str) -> Resend:
    return Resend(*(secrets or (SECRET,)))


def read(request: Request, resend: Resend | None = None) -> Sequence[Event]:
    """Authenticate a request as a receiver does, and return its events."""
    resend = resend or provider()
    if challenge := resend.admit(request.head):
        raise Unauthentic(challenge)
    return resend.read(request)


# -- signatures ------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["svix", "webhook", "Svix"])
def test_a_signature_of_the_reference_library(prefix: str) -> None:
    body = json.dumps(event()).encode()
    [read_event] = read(signed(body, SECRET, prefix=prefix))
    assert read_event.notifications == (Delivered(*ADAS, AT),)
    assert (read_event.event_id, read_event.trace_id) == (ID, ID)


def test_the_reference_library_accepts_and_rejects_the_same() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    body = json.dumps(event()).encode()
    for request in (
        signed(body, SECRET),
        signed(body, OLD, SECRET),
        signed(body, OLD),
        signed(body, SECRET, at=now - timedelta(hours=1)),
        signed(body, SECRET, at=now + timedelta(hours=1)),
        signed(body, SECRET, changed={"timestamp": "soon"}),
        signed(body, SECRET, changed={"id": "msg_2"}),
    ):
        headers = {
            key.decode().replace("svix", "webhook"): value.decode()
            for key, value in request.head.headers
        }
        try:
            Webhook(SECRET).verify(request.body, headers)
        except WebhookVerificationError:
            with pytest.raises(Unauthentic):
                read(request)
        else:
            assert read(request)


def test_a_repeated_signature() -> None:
    """No sender repeats the header."""
    request = signed(b"{}", SECRET)
    headers = request.head.headers
    head = msgspec.structs.replace(request.head, headers=[*headers, headers[-1]])
    with pytest.raises(Unauthentic):
        read(Request(head, b"{}"))
    assert provider().describe_unauthentic(head) == "its webhook-signature is repeated"


def test_several_secrets_are_counted_by_position() -> None:
    resend = provider(SECRET, OLD)
    for secrets in ((OLD,), (OLD, SECRET), (OLD,)):
        assert resend.read(signed(b"{}", *secrets))
    assert resend.matched == {0: 1, 1: 2}
    assert resend.old_matches == 2
    resend.accept(SECRET)
    with pytest.raises(Unauthentic):
        resend.read(signed(b"{}", OLD))


def test_two_webhooks_with_one_url() -> None:
    """Each has a secret. An event that both send has the same id, so it is one entry of the log."""
    database = people("ada")
    delivered, other = (json.dumps(event(type_)).encode() for type_ in ("email.delivered", "other"))
    with closing(Receiver(provider(SECRET, OLD), database)) as receiver:
        for request, status in (
            (signed(delivered, SECRET), 200),
            (signed(delivered, OLD), 200),
            (signed(other, OLD, id_="msg_2"), 200),
            (signed(other, f"whsec_{b64encode(b'of a third webhook').decode()}"), 401),
        ):
            assert receiver(request).status == status
    assert database.tables.dispatch("m-ada").delivered_at == AT
    assert {each.record_type: each.attempts for each in database.logged()} == {
        "Delivery": 2,
        "other": 1,
    }


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"signature": ""}, "missing"),
        ({"id": ""}, "missing"),
        ({"timestamp": ""}, "missing"),
        ({"timestamp": "1e9"}, "wrong"),
        ({"timestamp": "9" * 5000}, "wrong"),
        ({"timestamp": "-1"}, "wrong"),
        ({"timestamp": "0"}, "expired"),
        ({"signature": "v2,abc"}, "wrong"),
        ({"signature": "v1"}, "wrong"),
        ({"signature": "v1,é"}, "wrong"),
        ({"signature": "v1, v1,"}, "wrong"),
    ],
)
def test_headers_that_are_not_valid(changed: dict[str, str], error: str) -> None:
    with pytest.raises(Unauthentic) as raised:
        read(signed(b"{}", SECRET, changed=changed))
    assert raised.value.challenge == f'Signature error="{error}"'


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"signature": ""}, "it has no webhook-signature"),
        ({"id": "", "signature": ""}, "it has no webhook-id and no webhook-signature"),
        ({"timestamp": "soon"}, "its webhook-timestamp is not a number of seconds"),
        ({"timestamp": "0"}, "it was signed more than 5 minutes ago, by this machine's clock"),
        ({"timestamp": "9" * 11}, "it was signed more than 5 minutes in the future, by this"),
        ({"signature": "v2,abc"}, "its webhook-signature has no signature of version v1"),
        ({"signature": "v1,abc"}, "its signature is wrong: the secret differs, or the body"),
    ],
)
def test_the_reason_for_a_401(changed: dict[str, str], reason: str) -> None:
    head = signed(b"{}", SECRET, changed=changed).head
    assert provider(SECRET).describe_unauthentic(head).startswith(reason)


def test_another_body_is_refused() -> None:
    request = signed(b"{}", SECRET)
    with pytest.raises(Unauthentic):
        read(Request(request.head, b"{ }"))


@pytest.mark.parametrize(
    ("secret", "fault"),
    [
        (f'"{SECRET}"', "is in quotes"),
        (f"{SECRET}\n", "ends with a line break"),
        (SECRET.removeprefix("whsec_"), "is not valid. It is whsec_ and a key"),
        (SECRET[:20], "is not valid"),
        ("%", "is not valid"),
    ],
)
def test_a_secret_that_was_copied_wrongly(secret: str, fault: str) -> None:
    """The error names the fault, and does not quote the secret."""
    with pytest.raises(ConfigurationError, match=f"The signing secret {fault}") as raised:
        Resend(secret)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("seconds", [-MAX_DIFFERENCE, MAX_DIFFERENCE])
def test_the_tolerance_is_five_minutes(seconds: int) -> None:
    now = AT.replace(microsecond=0)
    resend = Resend(SECRET, clock=now.timestamp)
    within = now + timedelta(seconds=seconds)
    assert read(signed(b"{}", SECRET, at=within), resend)
    beyond = within + timedelta(seconds=1 if seconds > 0 else -1)
    with pytest.raises(Unauthentic, match="expired"):
        read(signed(b"{}", SECRET, at=beyond), resend)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_%%%", "whsec_é", "whsec_AA==", "mysecret1234"]
)
def test_a_secret_that_is_not_valid(secret: str) -> None:
    for secrets in ((secret,), (SECRET, secret), ()):
        with pytest.raises(ConfigurationError, match="signing secret"):
            Resend(*secrets)


# -- events ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "notification"),
    [
        (event("email.opened"), Opened(*ADAS, AT)),
        (event("email.clicked"), Clicked(*ADAS, AT)),
        (event("email.complained"), Complained(*ADAS, AT)),
        (event("email.bounced"), Bounced(*ADAS, AT)),
        (event("email.bounced", bounce={"type": "Permanent"}), Bounced(*ADAS, AT, "Permanent")),
        (event("email.bounced", bounce=[{"type": 5}]), Bounced(*ADAS, AT)),
        (event(to=["Ada <ada@example.com>"]), Delivered(*ADAS, AT)),
        (
            event("suppression.added", to=None, email="a@x", origin="bounce"),
            Suppressed("a@x", None, AT, "HardBounce"),
        ),
        (
            event("suppression.added", to=None, email="a@x", origin="other"),
            Suppressed("a@x", None, AT, "other"),
        ),
        (event("suppression.removed", to=None, email="a@x"), Reactivated("a@x", None, AT)),
        (
            event(to=[]) | {"created_at": "2026-11-22T09:30:15.126+01:00"},
            Delivered(None, "m-ada", AT),
        ),
    ],
)
def test_events(payload: dict[str, Any], notification: Notification) -> None:
    body = json.dumps(payload).encode()
    assert Resend.parse(body) == Event((notification,), body)


@pytest.mark.parametrize(
    ("body", "unsupported"),
    [
        (event("email.sent"), Unsupported("email.sent", *ADAS)),
        (event("email.bounced") | {"created_at": "soon"}, Unsupported("email.bounced", *ADAS)),
        (event("domain.created", to=None), Unsupported("domain.created", None, "m-ada")),
        (event() | {"created_at": "soon"}, Unsupported("email.delivered", *ADAS)),
        (event() | {"created_at": 5}, Unsupported("email.delivered", *ADAS)),
        (event("suppression.added", origin=" "), Unsupported("suppression.added", *ADAS)),
        ({"type": 1, "data": {"to": 1, "email_id": []}}, Unsupported(None, None, None)),
        ({}, Unsupported()),
        ([], Unsupported()),
        ({"type": "email.opened", "data": 5}, Unsupported()),
    ],
)
def test_unsupported_events(body: object, unsupported: Unsupported) -> None:
    encoded = json.dumps(body).encode()
    assert Resend.parse(encoded) == Event((), encoded, unsupported)
    assert Resend.explain(encoded)


@settings(deadline=None)
@given(st.binary() | st.recursive(st.none() | st.text(), st.lists).map(json.dumps).map(str.encode))
def test_no_body_raises(body: bytes) -> None:
    event = Resend.parse(body)
    assert bool(event.notifications) is (Resend.explain(body) is None)


def test_each_recipient_is_an_event() -> None:
    body = json.dumps(event(to=["a@x", "B <b@x>"])).encode()
    events = read(signed(body, SECRET))
    assert [each.notifications for each in events] == [
        (Delivered("a@x", "m-ada", AT),),
        (Delivered("b@x", "m-ada", AT),),
    ]
    assert [each.event_id for each in events] == ["msg_1 0", "msg_1 1"]
    for each in events:  # the body in the log has one recipient
        assert Resend.parse(each.body).notifications == each.notifications


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(event(to=["a@x"] * (_MOST_RECIPIENTS + 1))).encode(),
        json.dumps(event(to=["a@x", "b@x"], subject="@")).encode().replace(b'@"}', b'\\ud80"}'),
    ],
)
def test_events_that_cannot_be_split(body: bytes) -> None:
    [event] = read(signed(body, SECRET))
    assert (event.notifications, event.body) == ((), body)


# -- unpaired surrogates ---------------------------------------------------------------

HALF = "\ud83d"


@pytest.mark.parametrize(
    ("payload", "notification"),
    [
        (event(subject=HALF), Delivered(*ADAS, AT)),
        (event("email.opened", tags={HALF: [HALF]}), Opened(*ADAS, AT)),
        (event("email.clicked") | {HALF: HALF}, Clicked(*ADAS, AT)),
        (event("email.complained", **{HALF: 1}), Complained(*ADAS, AT)),
        (event(to=[f"Ada {HALF} <ada@example.com>"]), Delivered(*ADAS, AT)),
        (event(to=[f"a{HALF}@x"], email_id=HALF), Delivered(f"a{HALF}@x", HALF, AT)),
        (
            event("email.bounced", bounce={"type": f"a{HALF}", HALF: HALF}),
            Bounced(*ADAS, AT, "a\ufffd"),
        ),
        (
            event("suppression.added", to=None, email="a@x", origin=f"{HALF} "),
            Suppressed("a@x", None, AT, "\ufffd "),
        ),
        (
            event("suppression.added", to=None, email="a@x", origin="bounce", note=HALF),
            Suppressed("a@x", None, AT, "HardBounce"),
        ),
        (
            event("suppression.removed", to=None, email="a@x", origin=HALF),
            Reactivated("a@x", None, AT),
        ),
    ],
)
def test_unpaired_surrogates(payload: dict[str, Any], notification: Notification) -> None:
    """They are kept in addresses and ids, replaced in stored texts, and ignored elsewhere."""
    body = json.dumps(payload).encode()
    assert Resend.parse(body).notifications == (notification,)
    assert Resend.explain(body) is None


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (event() | {"created_at": HALF}, "created_at is not an RFC 3339 time"),
        (event(f"email.{HALF}"), "The type email.\ufffd is not supported."),
        ({"type": [HALF]}, "type is not a string."),
        ({"type": []}, "type is missing."),
        ({"data": 5, "x": HALF}, "data is not an object."),
    ],
)
def test_unsupported_events_are_explained(payload: dict[str, Any], problem: str) -> None:
    body = json.dumps(payload).encode()
    assert not Resend.parse(body).notifications
    assert (Resend.explain(body) or "").startswith(problem)


def test_the_recipients_of_an_event_with_an_unpaired_surrogate() -> None:
    """Each event keeps the other fields, and its body can be read again."""
    payload = event(to=["a@x", f"B {HALF} <b@x>"], subject=HALF, size=5) | {HALF: "é"}
    events = read(signed(json.dumps(payload).encode(), SECRET))
    assert [each.notifications for each in events] == [
        (Delivered("a@x", "m-ada", AT),),
        (Delivered("b@x", "m-ada", AT),),
    ]
    for each in events:
        assert Resend.parse(each.body).notifications == each.notifications
        fields = json.loads(each.body)
        assert (fields["data"]["subject"], fields["data"]["size"]) == (HALF, 5)
        assert "é" in fields.values()


@pytest.mark.parametrize("number", ["1e999", "9" * 5000])
def test_a_number_of_any_size_is_valid(number: str) -> None:
    """The body of each recipient contains the largest number instead."""
    text = json.dumps(event(to=["a@x", "b@x"], size="@")).replace('"@"', number)
    events = read(signed(text.encode(), SECRET))
    assert [each.notifications for each in events] == [
        (Delivered("a@x", "m-ada", AT),),
        (Delivered("b@x", "m-ada", AT),),
    ]
    assert {json.loads(each.body)["data"]["size"] for each in events} == {sys.float_info.max}
    assert Resend.parse(text.replace('["a@x", "b@x"]', number).encode()).notifications == (
        Delivered(None, "m-ada", AT),
    )


def test_a_receiver_of_resend() -> None:
    database = people("ada")
    with closing(Receiver(provider(), database)) as receiver:
        for payload, expected in (
            (event(), (200, b"")),
            (event(), (200, b"")),
            (event("email.clicked"), (200, b"")),
            (event(to=["nobody@x"]), (200, b"")),
            ([], (200, b"")),
        ):
            request = signed(json.dumps(payload).encode(), SECRET)
            response = receiver.admit(request.head) or receiver(request)
            assert (response.status, response.body) == expected
        unsigned = signed(b"{}", OLD)
        assert receiver(unsigned).status == 401
    assert database.tables.dispatch("m-ada").delivered_at == AT
    assert {each.provider for each in database.logged()} == {"resend"}
