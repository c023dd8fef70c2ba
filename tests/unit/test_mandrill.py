"""Mandrill's signatures and events."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

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
from hookrow.providers import Unauthentic
from hookrow.providers.mandrill import Mandrill
from hookrow.testing import ProviderContract
from senders.mandrill import AT, ID, KEY, URL, body_of, event, signed
from senders.sender import ADA
from wire import ENDPOINT

OLD = "PbUvoqQTeG3KzcHpu5cfiQ"


def entry(action: str, reason: str = "hard-bounce", **fields: object) -> dict[str, Any]:
    reject = {"reason": reason, "email": ADA, "expired": False, "subaccount": None, **fields}
    return {"type": "denylist", "action": action, "ts": int(AT.timestamp()), "reject": reject}


def suppressed(reason: str) -> Suppressed:
    return Suppressed(ADA, None, AT, reason)


EVENTS: Sequence[tuple[dict[str, Any], Sequence[Notification]]] = (
    (event("send"), []),
    (event("deferral"), []),
    (event("reject"), []),
    (event("inbound"), []),
    (event("delivered"), [Delivered(ADA, ID, AT)]),
    (event("open", ip="192.0.2.1"), [Opened(ADA, ID, AT)]),
    (event("click", url="https://example.com"), [Clicked(ADA, ID, AT)]),
    (event("hard_bounce"), [Bounced(ADA, ID, AT, "hard_bounce")]),
    (event("soft_bounce"), [Bounced(ADA, ID, AT, "soft_bounce")]),
    (event("spam"), [Complained(ADA, ID, AT)]),
    (event("unsub"), [Suppressed(ADA, ID, AT, "ManualSuppression")]),
    (entry("add"), [suppressed("HardBounce")]),
    (entry("add") | {"type": "blacklist"}, [suppressed("HardBounce")]),
    (entry("change", "spam"), [suppressed("SpamComplaint")]),
    (entry("add", "unsub"), [suppressed("ManualSuppression")]),
    (entry("add", "custom", detail="by hand"), [suppressed("ManualSuppression")]),
    (entry("add", "soft-bounce"), []),
    (entry("change", expired=True), []),
    (entry("remove"), [Reactivated(ADA, None, AT)]),
    (entry("add") | {"type": "allowlist"}, []),
)


@pytest.mark.unmeasured
class TestMandrill(ProviderContract):
    provider = Mandrill(KEY, OLD, url=URL)
    samples = (
        (body_of([fields for fields, _ in EVENTS[3:5]]), [found for _, found in EVENTS[3:5]]),
        (
            body_of([entry("add"), entry("remove")]),
            [[suppressed("HardBounce")], [Reactivated(ADA, None, AT)]],
        ),
        (body_of([event("spam")]), [[Complained(ADA, ID, AT)]]),
        (body_of([]), []),
    )

    def sign(self, body: bytes, /) -> Request:
        return signed(body)


def test_events() -> None:
    """Those of the denylist suppress and reactivate, and the bounces before them do not."""
    found = Mandrill(KEY, url=URL).read(signed(body_of([fields for fields, _ in EVENTS])))
    assert [[*each.notifications] for each in found] == [[*expected] for _, expected in EVENTS]


@pytest.mark.parametrize(
    "request_",
    [
        signed(body_of([event("open")]), "test-webhook"),
        signed(body_of([event("open")]), url="https://example.com/mail/provider/webhooks?a=b"),
        signed(body_of([event("open")]) + b"&mandrill_events=[]", "test-webhook"),
        signed(b"mandrill_events=%5B%5D&a=b", "test-webhook"),
        signed(b"mandrill_events=%5B+%5D", "test-webhook"),
        signed(b"", "test-webhook"),
        signed(json.dumps([event("open")]).encode(), OLD),
    ],
)
def test_requests_that_are_not_authentic(request_: Request) -> None:
    """The key of the check of a URL, which everybody knows, verifies only that check."""
    with pytest.raises(Unauthentic, match="wrong"):
        Mandrill(KEY, url=URL).read(request_)


def test_several_fields_are_signed_in_the_order_of_their_names() -> None:
    body = b"z=1&" + body_of([event("open")]) + b"&a=%C3%A9"
    assert len(Mandrill(KEY, url=URL).read(signed(body))) == 1


def test_several_keys_are_counted_by_position() -> None:
    mandrill = Mandrill(KEY, OLD, url=URL)
    for key in (KEY, OLD, OLD, "test-webhook"):
        mandrill.read(signed(body_of([]), key))
    assert (mandrill.matched, mandrill.old_matches) == ({0: 1, 1: 2}, 2)
    mandrill.accept(KEY)
    with pytest.raises(Unauthentic):
        mandrill.read(signed(body_of([]), OLD))


def test_the_check_of_a_new_url() -> None:
    """HEAD gets a 200, and so does a request without events; GET does not."""
    with closing(Receiver(Mandrill(KEY, url=URL), people("ada"))) as receiver:
        statuses = [
            response and response.status
            for method in ("HEAD", "GET")
            for response in [receiver.admit(RequestHead(method, ENDPOINT, ()))]
        ]
        assert statuses == [200, 405]
        request = signed(body_of([]), "test-webhook")
        assert receiver.admit(request.head) is None
        assert receiver(request).status == 200


def test_the_reason_for_a_401() -> None:
    mandrill = Mandrill(KEY, url=URL)
    missing = RequestHead("POST", ENDPOINT, ())
    assert mandrill.admit(missing) == 'Signature error="missing"'
    assert mandrill.describe_unauthentic(missing) == "it has no X-Mandrill-Signature"
    wrong = signed(body_of([]), OLD).head
    assert mandrill.describe_unauthentic(wrong).startswith("its signature is wrong: the key diff")


@pytest.mark.parametrize(
    ("events", "read"),
    [
        ([event("open")] * 5000, 5000),
        ([event("open"), 5, None, [[event("open")]], event("click")], 2),
        ({"event": "open"}, 0),
        ([event("open", ts=str(int(AT.timestamp()))), event("open", ts="soon")], 1),
        ([event("open", msg=None), event("open", msg={"email": [ADA]})], 2),
    ],
)
def test_batches(events: object, read: int) -> None:
    found = Mandrill(KEY, url=URL).read(signed(body_of(events)))
    assert len(found) == (len(events) if isinstance(events, list) else 1)
    assert sum(len(each.notifications) for each in found) == read


def test_the_largest_batch_is_below_the_limit() -> None:
    """The sample of the documentation with 1,000 events has 1.1 MB in JSON."""
    opens = [{"ts": 1, "ip": "192.0.2.1", "location": "Oklahoma, US", "ua": "Linux/Ubuntu"}] * 5
    clicks = [{**each, "url": "https://example.com/a?b=c"} for each in opens]
    large = event("click", opens=opens, clicks=clicks, user_agent="Mozilla/5.0 " * 10)
    assert 1024 * 1024 < len(body_of([large] * 1000)) < Mandrill.max_body


def test_an_integer_beyond_the_precision_of_a_float() -> None:
    [found] = Mandrill(KEY, url=URL).read(signed(body_of([event("open", _id=2**53 + 1)])))
    assert [*found.notifications] == [Opened(ADA, "9007199254740993", AT)]


def test_the_samples_of_the_page_of_webhooks() -> None:
    mandrill = Mandrill(KEY, url=URL)
    message = {
        "email": "example.webhook@mandrillapp.com",
        "_id": "exampleaaaaaaaaaaaaaaaaaaaaaaaaa",
    }
    sample, real = mandrill.read(signed(body_of([event("send", msg=message), event("send")])))
    assert (mandrill.is_test(sample), mandrill.is_test(real)) == (True, False)


@pytest.mark.parametrize(
    ("keys", "options", "error"),
    [
        ((), {"url": URL}, "The key is missing or empty: copy the key of the webhook from"),
        ((KEY, ""), {"url": URL}, "The key is missing or empty"),
        ((f"{KEY} ",), {"url": URL}, "The key ends with a space: copy"),
        ((5,), {"url": URL}, "A secret must be a string, not int"),
        (("test-webhook",), {"url": URL}, "The key test-webhook is the same for everybody"),
        ((KEY,), {"url": None}, "url must be a string, not None: write Mandrill"),
        ((KEY,), {"url": "example.com/mail"}, "url must be the URL of the webhook, exactly as"),
        ((KEY,), {"url": f"{URL}\n"}, "url must be the URL"),
        ((KEY,), {"url": "https://["}, "url must be the URL"),
    ],
)
def test_arguments_that_are_wrong(
    keys: Sequence[Any], options: Mapping[str, Any], error: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Mandrill(*keys, **options)
    assert str(raised.value).startswith(error)
    assert "secret@" not in str(raised.value)
