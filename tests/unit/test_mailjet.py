"""Mailjet's events, in a group or alone."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from basic_auth import authorized
from courier import NOON
from hookrow import (
    Bounced,
    Clicked,
    Complained,
    Delivered,
    Notification,
    Opened,
    Request,
    Suppressed,
)
from hookrow.providers import Event
from hookrow.providers.mailjet import Mailjet
from hookrow.testing import ProviderContract
from senders.mailjet import CREDENTIALS, ID, event
from senders.sender import ADA

ADAS = (ADA, ID, NOON)
HARD, SPAM, MANUAL = (
    Suppressed(*ADAS, each) for each in ("HardBounce", "SpamComplaint", "ManualSuppression")
)


def bounce(error: str, *, blocked: bool, hard: bool) -> dict[str, Any]:
    of = {"error_related_to": "recipient", "error": error, "comment": "550 5.1.1"}
    return event("bounce", blocked=blocked, hard_bounce=hard, **of)


SENT = event("sent", mj_message_id=ID, smtp_reply="sent (250 2.0.0 OK)")
OPEN = event("open", ip="192.0.2.1", geo="FR", agent="Mozilla/5.0")
CLICK = event("click", url="https://example.com", ip="192.0.2.1", geo="FR", agent="Mozilla/5.0")

CASES: Sequence[tuple[dict[str, Any], Sequence[Notification]]] = (
    (SENT, [Delivered(*ADAS)]),
    (OPEN, [Opened(*ADAS)]),
    (CLICK, [Clicked(*ADAS)]),
    (bounce("user unknown", blocked=True, hard=True), [Bounced(*ADAS, "user unknown"), HARD]),
    (bounce("user unknown", blocked=False, hard=True), [Bounced(*ADAS, "user unknown")]),
    (bounce("quota exceeded", blocked=False, hard=False), [Bounced(*ADAS, "quota exceeded")]),
    (bounce("greylisted", blocked=False, hard=False), []),
    (bounce("greylisted", blocked=False, hard=True), [Bounced(*ADAS, "greylisted")]),
    (event("spam", source="JMRPP"), [Complained(*ADAS), SPAM]),
    (event("unsub", mj_list_id=1, ip="192.0.2.1", geo="FR"), [MANUAL]),
    (event("blocked", error_related_to="recipient", error="user unknown"), [HARD]),
    (event("blocked", error_related_to="recipient", error="spam reporter"), [SPAM]),
    (event("blocked", error_related_to="recipient", error="blacklisted"), [MANUAL]),
    (event("blocked", error_related_to="recipient", error="quota exceeded"), []),
    (event("blocked", error_related_to="domain", error="typofix"), []),
    (event("blocked", error_related_to="spam", error="content blocked"), []),
    (event("blocked", error_related_to="mailjet", error="preblocked"), []),
    (event("blocked", error_related_to="mailjet", error="duplicate in campaign"), []),
    (event("a new type"), []),
)


def read(value: object) -> Sequence[Event]:
    return PROVIDER.read(authorized(json.dumps(value).encode(), CREDENTIALS))


PROVIDER = Mailjet(CREDENTIALS)


@pytest.mark.unmeasured
class TestMailjet(ProviderContract):
    provider = PROVIDER
    signs_body = False
    samples = (
        (json.dumps(OPEN).encode(), [[Opened(*ADAS)]]),
        (json.dumps([SENT, CLICK]).encode(), [[Delivered(*ADAS)], [Clicked(*ADAS)]]),
        (json.dumps([CASES[3][0]]).encode(), [CASES[3][1]]),
    )

    def sign(self, body: bytes, /) -> Request:
        return authorized(body, CREDENTIALS)


@pytest.mark.parametrize(("sent", "expected"), CASES)
def test_effects(sent: dict[str, Any], expected: Sequence[Notification]) -> None:
    [alone] = read(sent)
    [grouped] = read([sent])
    assert [*alone.notifications] == [*grouped.notifications] == expected
    assert (PROVIDER.explain(alone.body) is None) == bool(expected)
    assert alone.unsupported.message_id == ID


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"MessageID": ID}, ID),
        ({"MessageID": 2**64 - 1}, str(2**64 - 1)),
        ({"MessageID": 10**30}, str(10**30)),
        ({"MessageID": 10**2000}, "1" + "0" * 999),
        ({"MessageID": None, "mj_message_id": ID}, ID),
        ({"MessageID": None}, None),
        ({"MessageID": True}, None),
        ({"MessageID": 1.5}, None),
    ],
)
def test_message_ids(fields: dict[str, object], expected: str | None) -> None:
    [found] = read(event("open", **fields))
    assert found.unsupported.message_id == expected


def test_an_event_in_a_group_and_alone_is_the_same() -> None:
    [alone] = read(CLICK)
    [first, again, other] = read(
        [CLICK, CLICK | {"mj_contact_id": 5}, CLICK | {"url": "https://b"}]
    )
    assert alone.event_id == first.event_id == again.event_id != other.event_id
    assert read(event("open", MessageID=None))[0].event_id is None


def test_groups() -> None:
    assert read([]) == []
    group = [event("open", MessageID=number) for number in range(5000)]
    assert len(json.dumps(group)) < PROVIDER.max_body
    many = read(group)
    assert [each.unsupported.message_id for each in many] == [str(n) for n in range(5000)]
    found = read([SENT, None, [OPEN], {}, "sent", event("open", time="soon"), OPEN])
    counts = [len(each.notifications) for each in found]
    assert counts == [1, 0, 0, 0, 0, 0, 1]


def test_a_form() -> None:
    [found] = PROVIDER.read(authorized(b"event=open&time=1430812195&MessageID=1", CREDENTIALS))
    assert not found.notifications
    assert PROVIDER.explain(found.body) == (
        "The body is form-encoded, not JSON: post the JSON itself."
    )


def test_an_event_without_an_address() -> None:
    [found] = read(event("unsub", email=None))
    assert [*found.notifications] == [Suppressed(None, ID, NOON, "ManualSuppression")]
