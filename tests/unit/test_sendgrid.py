"""SendGrid: its signatures, keys and events."""

import json
from base64 import b64encode
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
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
from hookrow.providers import Unauthentic
from hookrow.providers.sendgrid import _MOST_AHEAD, _OLDEST_SIGNATURE, SendGrid
from hookrow.testing import ProviderContract
from senders.sender import ADA
from senders.sendgrid import AT, ID, SIGNATURE, TIMESTAMP, der, event, key, signed
from wire import ENDPOINT


def bounce(type_: str, **changed: object) -> dict[str, object]:
    return event("bounce", type=type_, reason="550 5.1.1 unknown", status="5.1.1", **changed)


READY = SendGrid(der())


def read(*payloads: object, by: SendGrid = READY) -> list[list[Notification]]:
    request = signed(json.dumps(payloads).encode())
    return [[*each.notifications] for each in by.read(request)]


def suppressed(reason: str) -> Suppressed:
    return Suppressed(ADA, ID, AT, reason)


@pytest.mark.unmeasured
class TestContract(ProviderContract):
    provider = READY
    samples = (
        (
            json.dumps(
                [
                    event("processed"),
                    event("deferred", response="400 later", attempt="5"),
                    event("delivered", response="250 OK"),
                    event("open", sg_machine_open=False),
                ]
            ).encode(),
            [[], [], [Delivered(ADA, ID, AT)], [Opened(ADA, ID, AT)]],
        ),
        (
            json.dumps([event("click", url="https://example.com"), bounce("bounce")]).encode(),
            [[Clicked(ADA, ID, AT)], [Bounced(ADA, ID, AT, "bounce"), suppressed("HardBounce")]],
        ),
        (
            json.dumps(
                [
                    bounce("blocked"),
                    event("dropped", reason="Spam Reporting Address"),
                    event("spamreport"),
                    event("unsubscribe"),
                    event("group_unsubscribe", asm_group_id=10),
                ]
            ).encode(),
            [
                [Bounced(ADA, ID, AT, "blocked")],
                [suppressed("SpamComplaint")],
                [Complained(ADA, ID, AT), suppressed("SpamComplaint")],
                [suppressed("ManualSuppression")],
                [],
            ],
        ),
    )

    def sign(self, body: bytes, /) -> Request:
        return signed(body)


# -- events ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "suppression"),
    [
        ("Bounced Address", "HardBounce"),
        ("Spam Reporting Address", "SpamComplaint"),
        ("Unsubscribed Address", "ManualSuppression"),
        ("Invalid", None),
        ("Spam Content (if Spam Checker app enabled)", None),
        ("Recipient List over Package Quota", None),
        (None, None),
    ],
)
def test_dropped_emails(reason: str | None, suppression: str | None) -> None:
    """An email is dropped because of a suppression, or for a reason that concerns only it."""
    expected = [suppressed(suppression)] if suppression else []
    assert read(event("dropped", reason=reason)) == [expected]


@pytest.mark.parametrize(
    ("type_", "is_suppressed"),
    [("bounce", True), (None, True), ("blocked", False), ("expired", False)],
)
def test_bounces(type_: str | None, is_suppressed: bool) -> None:  # noqa: FBT001 - a parameter
    expected = [Bounced(ADA, ID, AT, type_), *[suppressed("HardBounce")] * is_suppressed]
    assert read(event("bounce", type=type_)) == [expected]


def test_groups() -> None:
    """An unsubscribe from a group concerns only some emails, unless all are in groups."""
    payloads = event("group_unsubscribe"), event("group_resubscribe")
    assert read(*payloads) == [[], []]
    expected = [[suppressed("ManualSuppression")], [Reactivated(ADA, ID, AT)]]
    assert read(*payloads, by=SendGrid(der(), groups=True)) == expected


@pytest.mark.parametrize("factor", [1, 1000])
def test_a_time_in_milliseconds(factor: int) -> None:
    """That of a marketing campaign, in the samples of SendGrid's page."""
    sent = event("open", timestamp=int(AT.timestamp()) * factor)
    assert [*READY.read_event(sent).notifications] == [Opened(ADA, ID, AT)]


def test_an_account_event() -> None:
    payload = {
        "event": "account_status_change",
        "sg_event_id": "MjEzMTIxMg",
        "timestamp": int(AT.timestamp()),
        "type": "compliance_suspend",
    }
    assert read(payload) == [[]]


def test_a_message_id_of_a_custom_argument() -> None:
    payload = event("delivered", anymail_id="5d1f3b0e")
    by = SendGrid(der(), message_id_key="anymail_id")
    assert read(payload, event("delivered"), by=by) == [
        [Delivered(ADA, "5d1f3b0e", AT)],
        [Delivered(ADA, None, AT)],
    ]
    assert by.field_names(Delivered(ADA, None, AT)) == ("email", "anymail_id")


def test_a_delayed_bounce_suppresses() -> None:
    """It has no message id, because SendGrid no longer knows the email."""
    payload = bounce("bounce")
    del payload["sg_message_id"], payload["smtp-id"]
    database = people("ada")
    with closing(Receiver(READY, database)) as receiver:
        assert receiver(signed(json.dumps([payload]).encode())).status == 200
    assert database.tables.subscriber(ADA).suppressed_at is not None


def test_duplicates_with_different_ids() -> None:
    """They are one event, unlike two clicks of different links in the same second."""
    payloads = [
        event("click", url="https://example.com/1"),
        event("click", url="https://example.com/1", sg_event_id="another"),
        event("click", url="https://example.com/2"),
    ]
    events = READY.read(signed(json.dumps(payloads).encode()))
    ids = [each.event_id for each in events]
    assert ids[0] == ids[1] != ids[2]


def test_objects_without_a_type_are_identified_by_their_bytes() -> None:
    events = READY.read(signed(b'[{}, {"a": 1}]'))
    assert [each.event_id for each in events] == [None, None]


def test_a_batch_of_5000_events_of_which_one_is_broken() -> None:
    payloads: list[Any] = [event("delivered", email=f"{each}@x") for each in range(5000)]
    payloads[2500] = [[payloads[0]]]
    body = json.dumps(payloads).encode()
    assert len(body) < READY.max_body
    events = READY.read(signed(body))
    assert [bool(each.notifications) for each in events] == [each != 2500 for each in range(5000)]


@pytest.mark.parametrize(("body", "number"), [(b"[]", 0), (b"", 1), (b"a=b", 1), (b"{}", 1)])
def test_bodies_without_events(body: bytes, number: int) -> None:
    events = READY.read(signed(body))
    assert len(events) == number
    assert not any(each.notifications for each in events)


def test_tests_are_recognized() -> None:
    for type_ in ("delivered", "processed"):
        ours, test = READY.read(
            signed(json.dumps([event(type_), event(type_, email="example@test.com")]).encode())
        )
        assert (READY.is_test(ours), READY.is_test(test)) == (False, True)


# -- signatures ------------------------------------------------------------------------


def test_a_key_is_bytes_or_base64() -> None:
    for each in (der(), b64encode(der()).decode()):
        assert read(event("delivered"), by=SendGrid(each)) == [[Delivered(ADA, ID, AT)]]


def test_several_keys_are_counted_by_position() -> None:
    sendgrid = SendGrid(der(), der(key("old")))
    for private in (key("old"), key(), key("old")):
        assert sendgrid.read(signed(b"[{}]", private))
    assert sendgrid.matched == {0: 1, 1: 2}
    assert sendgrid.old_matches == 2
    sendgrid.accept(der())
    with pytest.raises(Unauthentic):
        sendgrid.read(signed(b"[]", key("old")))


def test_another_body_or_time_is_refused() -> None:
    request = signed(b"[]", at=1_800_000_000)
    head = request.head
    later = [*head.headers[:1], (TIMESTAMP.encode(), b"1800000001")]
    for changed in (
        Request(head, b"[ ]"),
        Request(msgspec.structs.replace(head, headers=later), b"[]"),
    ):
        with pytest.raises(Unauthentic):
            READY.read(changed)


@pytest.mark.parametrize(
    ("age", "error", "reason"),
    [
        (0, None, ""),
        (_OLDEST_SIGNATURE, None, ""),
        (-_MOST_AHEAD, None, ""),
        (_OLDEST_SIGNATURE + 1, "expired", "it was signed more than a day ago"),
        (-_MOST_AHEAD - 1, "expired", "it was signed in the future"),
    ],
)
def test_the_age_of_a_signature(age: int, error: str | None, reason: str) -> None:
    now = 1_800_000_000
    sendgrid = SendGrid(der(), clock=lambda: now)
    request = signed(b"[]", at=now - age)
    assert sendgrid.admit(request.head) == (error and f'Signature error="{error}"')
    assert not error or sendgrid.describe_unauthentic(request.head).startswith(reason)


@pytest.mark.parametrize(
    ("headers", "error", "reason"),
    [
        ([], "missing", f"it has no {SIGNATURE}"),
        ([(SIGNATURE, "abcd")], "missing", f"it has no {TIMESTAMP}"),
        ([(SIGNATURE, "abcd"), (TIMESTAMP, "soon")], "wrong", f"its {TIMESTAMP} is not a number"),
        ([(SIGNATURE, "abcd"), (TIMESTAMP, "9" * 5000)], "wrong", f"its {TIMESTAMP} is not a"),
    ],
)
def test_heads_that_are_refused(
    headers: Sequence[tuple[str, str]], error: str, reason: str
) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    head = RequestHead("POST", ENDPOINT, pairs)
    assert READY.admit(head) == f'Signature error="{error}"'
    assert READY.describe_unauthentic(head).startswith(reason)


# -- configuration ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        (),
        ("",),
        (b"",),
        (der(), ""),
        ("MFkwEwYH",),
        ("é",),
        (f"{b64encode(der()).decode()}\n",),
        (der()[:-1],),
        (der(rsa.generate_private_key(65537, 2048)),),
        (5,),
        ([der()],),
    ],
)
def test_keys_that_are_not_valid(keys: Sequence[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"verification key"):
        SendGrid(*keys)


@pytest.mark.parametrize(
    "options",
    [{"clock": 5}, {"groups": "false"}, {"message_id_key": ""}, {"message_id_key": ["anymail_id"]}],
)
def test_options_that_are_not_valid(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        SendGrid(der(), **options)
