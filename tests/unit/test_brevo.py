"""Brevo's events, in a batch or alone."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from basic_auth import authorized, basic, head_with
from courier import NOON
from hookrow import (
    Bounced,
    Clicked,
    Complained,
    ConfigurationError,
    Delivered,
    Notification,
    Opened,
    Request,
    Suppressed,
)
from hookrow.providers import Event
from hookrow.providers.brevo import Brevo
from hookrow.testing import ProviderContract
from senders.brevo import CREDENTIALS, ID, event
from senders.sender import ADA

AT = NOON + timedelta(milliseconds=123)
ADAS = (ADA, ID, AT)
HARD, SPAM, MANUAL = (
    Suppressed(*ADAS, each) for each in ("HardBounce", "SpamComplaint", "ManualSuppression")
)


CASES: Sequence[tuple[dict[str, Any], Sequence[Notification]]] = (
    (event("request"), []),
    (event("delivered"), [Delivered(*ADAS)]),
    (event("opened"), [Opened(*ADAS)]),
    (event("unique_opened"), [Opened(*ADAS)]),
    (event("proxy_open"), [Opened(*ADAS)]),
    (event("unique_proxy_open"), [Opened(*ADAS)]),
    (event("click", link="https://example.com"), [Clicked(*ADAS)]),
    (event("deferred", reason="greylisted"), []),
    (event("soft_bounce", reason="mailbox full"), [Bounced(*ADAS, "soft_bounce")]),
    (event("hard_bounce", reason="550 5.1.1"), [Bounced(*ADAS, "hard_bounce"), HARD]),
    (event("invalid_email"), [Bounced(*ADAS, "invalid_email"), HARD]),
    (event("blocked", reason="blocked"), []),
    (event("error", reason="an error"), []),
    (event("spam"), [Complained(*ADAS), SPAM]),
    (event("complaint"), [Complained(*ADAS), SPAM]),
    (event("unsubscribe"), [MANUAL]),
    (event("unsubscribed"), [MANUAL]),
    (event("list_addition"), []),
    (event("a new type"), []),
)

PROVIDER = Brevo(CREDENTIALS)


def read(value: object) -> Sequence[Event]:
    return PROVIDER.read(authorized(json.dumps(value).encode(), CREDENTIALS))


@pytest.mark.unmeasured
class TestBrevo(ProviderContract):
    provider = PROVIDER
    signs_body = False
    samples = (
        (json.dumps(CASES[1][0]).encode(), [CASES[1][1]]),
        (json.dumps(CASES[9][0]).encode(), [CASES[9][1]]),
        (json.dumps([CASES[6][0], CASES[16][0]]).encode(), [CASES[6][1], CASES[16][1]]),
    )

    def sign(self, body: bytes, /) -> Request:
        return authorized(body, CREDENTIALS)


@pytest.mark.parametrize(("sent", "expected"), CASES)
def test_effects(sent: dict[str, Any], expected: Sequence[Notification]) -> None:
    [alone] = read(sent)
    [batched] = read([sent])
    assert [*alone.notifications] == [*batched.notifications] == expected
    assert (PROVIDER.explain(alone.body) is None) == bool(expected)
    assert alone.unsupported.message_id == ID


def test_two_webhooks_that_send_the_same_event() -> None:
    click = event("click", link="https://example.com")
    [first, again] = read([click, click | {"id": 4712}])
    assert first.event_id == again.event_id
    for change in ({"link": "https://b"}, {"ts_epoch": 1}, {"email": "eve@example.com"}):
        assert read(click | change)[0].event_id != first.event_id
    assert read({"event": "contact_updated"})[0].event_id is None


def test_a_marketing_event() -> None:
    """It has no id of an email, and no time that does not depend on the account's zone."""
    sent = {"event": "opened", "email": ADA, "id": 1, "camp_id": 2, "ts_event": 1604933654}
    [found] = read(sent)
    assert not found.notifications
    assert "its time is missing" in str(PROVIDER.explain(found.body))


def test_batches() -> None:
    assert read([]) == []
    found = read([event("opened"), None, [event("opened")], {}, event("click", ts_epoch=None)])
    assert [len(each.notifications) for each in found] == [1, 0, 0, 0, 0]


def test_an_event_without_an_address() -> None:
    [found] = read(event("unsubscribed", email=None))
    assert [*found.notifications] == [Suppressed(None, ID, AT, "ManualSuppression")]


def test_a_form() -> None:
    [found] = PROVIDER.read(authorized(b"event=opened&email=ada%40example.com", CREDENTIALS))
    assert not found.notifications


def test_a_token() -> None:
    token = "a-token/of+the~tests=="
    provider = Brevo(f"Bearer {token}", CREDENTIALS)
    assert provider.admit(head_with(f"bearer {token}".encode())) is None
    assert provider.admit(head_with(basic(CREDENTIALS))) is None
    wrong = 'Basic realm="hookrow", error="wrong"'
    for value in (f"Bearer {token}x", "Bearer", f"Token {token}", token):
        head = head_with(value.encode())
        assert provider.admit(head) == wrong
        assert provider.describe_unauthentic(head)
    assert provider.admit(head_with(basic(token))) == wrong
    assert provider.admit(head_with(b"Bearer " + CREDENTIALS.encode())) == wrong


@pytest.mark.parametrize("token", ["", "two words", "a:b", "é", "line\n"])
def test_a_token_that_is_not_valid(token: str) -> None:
    with pytest.raises(ConfigurationError, match="token after 'Bearer '"):
        Brevo(f"Bearer {token}")
