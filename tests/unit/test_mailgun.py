"""Mailgun's signatures and events."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

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
from hookrow.providers import Event, Unauthentic
from hookrow.providers._json import DEEPEST
from hookrow.providers.mailgun import Mailgun
from hookrow.testing import ProviderContract
from senders.mailgun import AT, ID, KEY, NOW, block, event, post, signed, with_block
from senders.sender import ADA

OLD = "0f0e0d0c0b0a09080706"

HARD = Suppressed(ADA, ID, AT, "HardBounce")
SPAM = Suppressed(ADA, ID, AT, "SpamComplaint")
MANUAL = Suppressed(ADA, ID, AT, "ManualSuppression")
BOUNCE = Bounced(ADA, ID, AT, "permanent")


def failure(reason: str, severity: str = "permanent", **status: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return event("failed", reason=reason, severity=severity, **{"delivery-status": status})


def form(*fields: tuple[str, str], **options: Any) -> Request:  # noqa: ANN401 - of `block`
    body = urlencode([*fields, *block(**options).items()]).encode()
    return post(body, "application/x-www-form-urlencoded")


def provider(*keys: str) -> Mailgun:
    return Mailgun(*(keys or (KEY,)), clock=NOW.timestamp)


def read(request: Request, *keys: str) -> Event:
    """Authenticate a request as a receiver does, and return its event."""
    mailgun = provider(*keys)
    if challenge := mailgun.admit(request.head):
        raise Unauthentic(challenge)
    [found] = mailgun.read(request)
    return found


FULL: Mapping[str, Any] = {"code": 550, "enhanced-code": "5.2.2"}

EVENTS: Sequence[tuple[dict[str, Any], Sequence[Notification]]] = (
    (event("accepted", method="HTTP"), []),
    (event("rejected", reject={"reason": "Sandbox subdomains are for test purposes only"}), []),
    (event("delivered"), [Delivered(ADA, ID, AT)]),
    (event("opened", ip="192.0.2.1"), [Opened(ADA, ID, AT)]),
    (event("clicked", url="https://example.com"), [Clicked(ADA, ID, AT)]),
    (event("complained"), [Complained(ADA, ID, AT), SPAM]),
    (event("unsubscribed", tags=["*"]), [MANUAL]),
    (failure("bounce", code=550, **{"bounce-type": "hard"}), [BOUNCE, HARD]),
)

FAILURES: Sequence[tuple[dict[str, Any], Sequence[Notification]]] = (
    (failure("generic", "temporary", code=421), []),
    (failure("bounce", code=550, **{"bounce-type": "soft"}), [BOUNCE]),
    (failure("bounce", **FULL), [BOUNCE]),
    (failure("bounce", code=552), [BOUNCE]),
    (failure("generic", code=554), [BOUNCE]),
    (failure("espblock", code=550), [BOUNCE]),
    (failure("old", code=602), [BOUNCE]),
    (failure("suppress-bounce", code=605), [BOUNCE, HARD]),
    (failure("suppress-unsubscribe", code=606), [BOUNCE, MANUAL]),
    (failure("suppress-complaint", code=607), [BOUNCE, SPAM]),
)


@pytest.mark.unmeasured
class TestMailgun(ProviderContract):
    provider = provider(KEY, OLD)
    signs_body = False
    samples = tuple(
        (json.dumps({"event-data": fields}).encode(), [[*expected]]) for fields, expected in EVENTS
    )

    def sign(self, body: bytes, /) -> Request:
        return with_block(body)

    def forgeries(self, _: Request, /) -> Iterator[tuple[str, Request]]:
        fields = event("delivered")
        values: Sequence[object] = (None, "", "a", 5, [], "é", "\ud800")
        for name in ("timestamp", "token", "signature"):
            for value in values:
                changed = {**block(), name: value}
                body = json.dumps({"signature": changed, "event-data": fields}).encode()
                yield f"a request whose {name} is {value!r}", post(body)
        yield "another key", signed(fields, key=OLD[::-1])
        yield "no signature", post(json.dumps({"event-data": fields}).encode())
        yield "a signature that is not an object", post(b'{"signature": "a"}')
        swapped = signed(fields).body
        yield "JSON as a form", post(swapped, "application/x-www-form-urlencoded")
        yield "a form as JSON", post(form(("event", "delivered")).body)
        yield "plain text", post(swapped, "text/plain")


FORMS: Sequence[tuple[str, Mapping[str, str], Sequence[Notification]]] = (
    ("delivered", {}, [Delivered(ADA, ID, NOW)]),
    ("opened", {"my_variable": "é"}, [Opened(ADA, ID, NOW)]),
    ("clicked", {"url": "https://example.com"}, [Clicked(ADA, ID, NOW)]),
    ("complained", {}, [Complained(ADA, ID, NOW), Suppressed(ADA, ID, NOW, SPAM.reason)]),
    ("unsubscribed", {}, [Suppressed(ADA, ID, NOW, MANUAL.reason)]),
    (
        "bounced",
        {"code": "550", "error": "unknown"},
        [Bounced(ADA, ID, NOW, "permanent"), Suppressed(ADA, ID, NOW, HARD.reason)],
    ),
    (
        "dropped",
        {"code": "607", "reason": "hardfail"},
        [Bounced(ADA, ID, NOW, "permanent"), Suppressed(ADA, ID, NOW, SPAM.reason)],
    ),
    ("dropped", {"code": "421", "reason": "old"}, [Bounced(ADA, ID, NOW, "permanent")]),
)


class TestForms(TestMailgun):
    """The older form of accounts of before June 2018."""

    samples = tuple(
        (urlencode({"event": type_, "recipient": ADA, "Message-Id": ID, **more}).encode(), [found])
        for type_, more, found in FORMS
    )

    def sign(self, body: bytes, /) -> Request:
        given = body + b"&" + urlencode(block()).encode()
        return post(given, "application/x-www-form-urlencoded; charset=utf-8")

    def forgeries(self, _: Request, /) -> Iterator[tuple[str, Request]]:
        sent = (("event", "delivered"), ("recipient", ADA))
        for name in ("timestamp", "token", "signature"):
            fields = {**block(), name: "a"}
            yield f"a wrong {name}", post(urlencode([*sent, *fields.items()]).encode(), "x")
        yield "no signature", post(urlencode(sent).encode(), "application/x-www-form-urlencoded")


@pytest.mark.parametrize(("fields", "expected"), FAILURES)
def test_failures(fields: dict[str, Any], expected: Sequence[Notification]) -> None:
    """Only the permanent failures of a suppressed address suppress."""
    assert [*read(signed(fields)).notifications] == [*expected]


def test_variables_of_the_sender_with_the_names_of_fields() -> None:
    """Mailgun's value is the first one, or the last one of the signature and its time."""
    variables = [("event", "opened"), ("recipient", "eve@example.com"), ("code", "605")]
    signature = [(name, "of the sender") for name in ("timestamp", "token", "signature")]
    own = [("event", "delivered"), ("recipient", ADA), ("message-id", ID.strip("<>"))]
    found = read(form(*signature, *own, *variables))
    assert [*found.notifications] == [Delivered(ADA, ID, NOW)]
    assert b"token" not in found.body
    with pytest.raises(Unauthentic):
        read(post(form(*own).body + b"&" + urlencode(signature).encode()))


def test_the_log_has_no_signature() -> None:
    """With a signature, its readers could send any event for twelve hours."""
    found = read(signed(event("delivered")))
    assert json.loads(found.body) == event("delivered")


def test_an_event_with_another_id_is_the_same() -> None:
    first, again, other = (
        read(signed(fields)).event_id
        for fields in (event("opened", id="a"), event("opened", id="b"), event("clicked"))
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("seconds", "accepted"), [(-43200, True), (-43201, False), (300, True), (301, False)]
)
def test_the_time_of_a_signature(seconds: int, accepted: bool) -> None:  # noqa: FBT001 - a case
    """A retry after eight hours has the original signature."""
    request = signed(event("delivered"), at=NOW + timedelta(seconds=seconds))
    if accepted:
        assert read(request).notifications
    else:
        with pytest.raises(Unauthentic, match="expired"):
            read(request)


@pytest.mark.parametrize(
    ("changed", "error", "reason"),
    [
        ({"signature": None}, "missing", "its body has no signature: Mailgun did not send it, or"),
        ({"token": ""}, "missing", "its body has no signature"),
        ({"timestamp": "12:00"}, "wrong", "its signature is wrong: the key differs"),
        ({"signature": "0" * 64}, "wrong", "its signature is wrong: the key differs"),
        ({"timestamp": "1"}, "expired", "it was signed more than 12 hours ago, or 5 minutes ahead"),
    ],
)
def test_the_reason_of_a_401(changed: dict[str, object], error: str, reason: str) -> None:
    """It is in the log, and the challenge has the error."""
    mailgun, body = provider(), {"signature": block() | changed, "event-data": event("opened")}
    request = post(json.dumps(body).encode())
    assert mailgun.admit(request.head) is None
    with pytest.raises(Unauthentic, match=f'Signature error="{error}"'):
        mailgun.read(request)
    assert mailgun.describe_unauthentic(request.head).startswith(reason)


def test_several_keys_are_counted_by_position() -> None:
    mailgun = provider(KEY, OLD)
    for key in (KEY, OLD, OLD):
        assert mailgun.read(signed(event("delivered"), key=key))
    assert (mailgun.matched, mailgun.old_matches) == ({0: 1, 1: 2}, 2)
    mailgun.accept(KEY)
    with pytest.raises(Unauthentic):
        mailgun.read(signed(event("delivered"), key=OLD))


def test_the_key_of_the_main_account_verifies_an_event_of_a_subaccount() -> None:
    parent = block(name="parent-signature")
    body = {"signature": {**parent, "signature": "0" * 64}, "event-data": event("delivered")}
    assert read(post(json.dumps(body).encode())).notifications
    with pytest.raises(Unauthentic):
        read(post(json.dumps(body).encode()), OLD)


def test_the_samples_of_the_page_of_webhooks() -> None:
    headers = {"message-id": "20130503182626.18666.16540@mg.example.com"}
    sample = event("delivered", recipient="alice@example.com", message={"headers": headers})
    assert provider().is_test(read(signed(sample)))
    assert not provider().is_test(read(signed(event("delivered"))))


def test_events_nested_deeply() -> None:
    """They are read up to the limit, and refused beyond, because the signature is not read."""
    text = json.dumps({"signature": block(), "event-data": event("delivered", url="@")})
    for depth in range(1, 1100, 3):
        body = text.replace('"@"', "[" * depth + "]" * depth).encode()
        if depth + 2 <= DEEPEST:
            assert read(post(body)).notifications
            continue
        with pytest.raises(Unauthentic):
            provider().read(post(body))


def test_keys_that_were_copied_wrongly() -> None:
    for keys in ((), ("",), (KEY, ""), (f"{KEY}\n",)):
        with pytest.raises(ConfigurationError, match="copy the HTTP webhook signing key from"):
            Mailgun(*keys)
    with pytest.raises(ConfigurationError, match="A secret must be a string, not list"):
        Mailgun([KEY])  # type: ignore[arg-type] # the mistake
    with pytest.raises(ConfigurationError, match="clock"):
        Mailgun(KEY, clock=5)  # type: ignore[arg-type] # the mistake
