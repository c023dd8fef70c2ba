"""What hookrow's own providers have in common: settings, and events that can be simulated."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import reduce
from operator import getitem
from typing import Any

import msgspec
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
from hookrow._core.notification import Refusal
from hookrow._http import PROBE_AGENT
from hookrow._receiver.entries import Entry
from hookrow.providers import Event, Unauthentic
from hookrow.providers._base import check_event, check_events
from hookrow.providers._built_in import BuiltIn, ProviderRequest
from hookrow.providers._json import DEEPEST
from hookrow.providers._registry import PROVIDER_NAMES, built_in
from wire import ADA, ENDPOINT, SECRET

AT = datetime(2026, 3, 5, 12, 30, 15, 126000, tzinfo=UTC)
ID = "<19>"
"""A message id, in the form of those that have angle brackets."""

CREDENTIALS = {
    "postmark": SECRET,
    "resend": f"whsec_{b64encode(b'a key of the webhook').decode()}",
    "amazon_ses": "arn:aws:sns:eu-west-1:123456789012:mail-events",
    "sendgrid": built_in("sendgrid").generate()[0],
    "mandrill": "hOB7v8ivGXd5Kn0eGvw3yA",
    "mailjet": "hookrow:a-password-of-the-webhook",
    "mailgun": "f3ab91c1d0e24bd0a5c3",
    "brevo": "Bearer a-token-of-the-webhook",
}
"""A credential for each provider."""

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "mandrill": {"url": "https://example.com/mail/provider/webhooks"}
}
"""The required options of providers."""

EVENTS: Mapping[str, Notification] = {
    "delivery": Delivered(ADA, ID, AT),
    "open": Opened(ADA, ID, AT),
    "click": Clicked(ADA, ID, AT),
    "complaint": Complained(ADA, ID, AT),
    "hard bounce": Suppressed(ADA, ID, AT, "HardBounce"),
    "spam": Suppressed(ADA, ID, AT, "SpamComplaint"),
    "manual": Suppressed(ADA, ID, AT, "ManualSuppression"),
    "another": Suppressed(ADA, ID, AT, "another"),
    "reactivation": Reactivated(ADA, ID, AT),
}

MISSING = {
    "amazon_ses": {"another"},
    "sendgrid": {"another", "reactivation"},
    "mandrill": {"another"},
    "mailjet": {"another", "reactivation"},
    "mailgun": {"another", "reactivation"},
    "brevo": {"another", "reactivation"},
}
"""The notifications for which providers send no event."""

MORE = {
    "amazon_ses": {"complaint", "hard bounce", "spam"},
    "sendgrid": {"complaint"},
    "mailjet": {"complaint"},
    "mailgun": {"complaint", "hard bounce", "spam"},
    "brevo": {"complaint", "hard bounce", "spam"},
}
"""The notifications whose events have another effect, too."""

WITHOUT_ID = {
    "resend": {"hard bounce", "spam", "manual", "another", "reactivation"},
    "mandrill": {"hard bounce", "spam", "reactivation"},
}
"""The notifications whose events have no message id."""

every_provider = pytest.mark.parametrize("name", PROVIDER_NAMES)


def build(name: str) -> BuiltIn:
    return built_in(name)(CREDENTIALS[name], **OPTIONS.get(name, {}))


def request(sent: ProviderRequest | None) -> Request:
    assert sent is not None
    raw = [(name.encode(), value.encode()) for name, value in sent.headers.items()]
    return Request(RequestHead("POST", ENDPOINT, raw), sent.body)


def composed(provider: BuiltIn, notification: Notification) -> Sequence[Notification]:
    """Return the notifications that a provider reads in the event that it composes."""
    body = provider.compose(notification)
    return () if body is None else provider.parse(body).notifications


def rounded(provider: BuiltIn, notification: Notification) -> Notification:
    """Return the notification with a time that has the provider's precision."""
    at = AT.replace(microsecond=0) if provider.precision.seconds else AT
    return changed(notification, at=at)


def changed(notification: Notification, **fields: Any) -> Notification:  # noqa: ANN401 - of any kind
    found: Notification = msgspec.structs.replace(notification, **fields)
    return found


@every_provider
def test_the_registry(name: str) -> None:
    """A provider has the name by which settings find it; its parser needs no credential."""
    assert build(name).name == name
    assert built_in(name).parser().parse(b"").notifications == ()


def test_an_unknown_provider() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'postmrk'. Did you mean 'postmark'\? hookrow has"
    ):
        built_in("postmrk")


@every_provider
@pytest.mark.parametrize("event", EVENTS)
def test_a_provider_reads_what_it_composes(name: str, event: str) -> None:
    """The event has the effects of the provider's own, or there is none."""
    provider, notification = build(name), EVENTS[event]
    found = composed(provider, notification)
    if event in MISSING.get(name, ()):
        assert not found
        return
    if event in WITHOUT_ID.get(name, ()):
        notification = changed(notification, message_id=None)
    assert rounded(provider, notification) in found
    assert len(found) == (2 if event in MORE.get(name, ()) else 1)


@every_provider
@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST, 600, 900, 990, 995])
def test_a_deeply_nested_event(name: str, levels: int) -> None:
    """It is read alike on arrival and in a replay, which other calls precede."""
    _, provider = built_in(name).generate(**OPTIONS.get(name, {}))
    body = provider.compose(Opened(ADA, ID, AT))
    assert body is not None
    body = body[:-1] + b', "deep": %b}' % (b"[" * levels + b"]" * levels)
    parsed = [after(calls, lambda: provider.parse(body)) for calls in (0, 100, 300)]
    assert [bool(each.notifications) for each in parsed] == [levels < DEEPEST] * 3
    signed = request(provider.sign(body))
    if name == "mailgun" and levels + 1 >= DEEPEST:  # the event is in an object with the signature
        with pytest.raises(Unauthentic):
            provider.read(signed)
        return
    [arrived] = provider.read(signed)
    assert provider.parse(arrived.body).notifications == arrived.notifications


def after(calls: int, function: Callable[[], Event]) -> Event:
    """Call a function after so many calls, none of which has returned."""
    return function() if calls == 0 else after(calls - 1, function)


@every_provider
def test_a_hard_bounce_suppresses_unless_another_event_does(name: str) -> None:
    provider = build(name)
    bounce = rounded(provider, Bounced(ADA, ID, AT, provider.hard_bounce))
    suppression = rounded(provider, Suppressed(ADA, ID, AT, "HardBounce"))
    separate = {"postmark", "resend", "mandrill"}
    expected = [bounce] if name in separate else [bounce, suppression]
    assert [*composed(provider, bounce)] == expected


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("amazon_ses", "Transient"),
        ("amazon_ses", "Undetermined"),
        ("sendgrid", "blocked"),
        ("mandrill", "soft_bounce"),
        ("mailjet", "quota exceeded"),
        ("brevo", "soft_bounce"),
    ],
)
def test_a_soft_bounce_does_not_suppress(name: str, type_: str) -> None:
    provider = build(name)
    bounce = rounded(provider, Bounced(ADA, ID, AT, type_))
    assert [*composed(provider, bounce)] == [bounce]
    assert provider.compose(Bounced(ADA, ID, AT, "HardBounce")) is None


@pytest.mark.parametrize("name", ["postmark", "resend"])
def test_a_reactivation_without_a_time(name: str) -> None:
    change = Reactivated(ADA, None, None)
    assert [*composed(build(name), change)] == [change]


def test_the_id_of_a_message_at_mailjet_is_a_number() -> None:
    provider = build("mailjet")
    body = provider.compose(Delivered(ADA, "1152921507770000000", AT))
    assert body is not None
    assert b'"MessageID":1152921507770000000,' in body
    assert provider.parse(body).notifications[0].message_id == "1152921507770000000"


def test_the_custom_argument_with_the_id_at_sendgrid() -> None:
    """Whether the option is set is also known to the parser of the log."""
    parser = built_in("sendgrid").parser(message_id_key="anymail_id")
    [found] = composed(parser, Opened(ADA, ID, AT))
    assert found.message_id == ID


@every_provider
def test_a_signed_request_is_accepted_and_that_of_a_stranger_is_not(name: str) -> None:
    """The proof is in the header that the class names, and the event may be padded."""
    _, provider = built_in(name).generate(**OPTIONS.get(name, {}))
    body = provider.compose_probe()
    accepted, refused = provider.sign(body.ljust(5000)), built_in(name).forge(body)
    with closing(Receiver(provider, people(), sweep=False, acknowledge_parked=False)) as receiver:
        for sent, refusal in (
            (accepted, Refusal.SUBSCRIBER_NOT_FOUND),
            (refused, Refusal.UNAUTHENTIC),
        ):
            asked = request(sent)
            assert asked.head.header(provider.proof)
            response = receiver.admit(asked.head) or receiver(asked)
            assert (response.status, response.body.decode()) == (refusal.status, refusal.text)


@pytest.mark.parametrize("name", [each for each in PROVIDER_NAMES if each != "amazon_ses"])
def test_a_generated_credential(name: str) -> None:
    """A provider with the credential accepts what the one of `generate` signs.

    That of Amazon SES is not among these, because its certificate would have to be fetched.
    """
    options = OPTIONS.get(name, {})
    credential, sender = built_in(name).generate(**options)
    receiving = built_in(name)(credential, **options)
    body = sender.compose(Delivered(ADA, ID, AT))
    assert body is not None
    [event] = receiving.read(request(sender.sign(body)))
    assert [*event.notifications] == [rounded(receiving, Delivered(ADA, ID, AT))]


@pytest.mark.parametrize("name", [each for each in PROVIDER_NAMES if each != "amazon_ses"])
def test_requests_with_an_old_credential_are_counted(name: str) -> None:
    """Those of `hookrow check` are not among the old ones, because a person has sent them.

    The topics of Amazon SES are not counted: several may be in use, one for each Region.
    """
    options = OPTIONS.get(name, {})
    (newest, first), (old, second) = (built_in(name).generate(**options) for _ in range(2))
    provider = built_in(name)(newest, old, **options)
    for sender in (first, second, second):
        for agent in ("the provider's own", PROBE_AGENT.decode()):
            sent = sender.sign(sender.compose_probe())
            assert sent is not None
            asked = request(sent._replace(headers={**sent.headers, "User-Agent": agent}))
            assert provider.admit(asked.head) is None
            provider.read(asked)
    assert provider.matched == {0: 2, 1: 4}
    assert provider.old_matches == 2


@pytest.mark.parametrize("name", ["amazon_ses", "sendgrid"])
def test_only_the_provider_can_sign(name: str) -> None:
    assert build(name).sign(b"{}") is None
    assert build(name).own_test


@every_provider
def test_the_names_of_fields(name: str) -> None:
    """They are those of the recipient and the message id in the events."""
    provider = build(name)
    bodies = [body for each in EVENTS.values() if (body := provider.compose(each)) is not None]
    for body in bodies:
        event = json.loads(body)
        for each in provider.parse(body).notifications:
            of_recipient, of_id = (path.split(".") for path in provider.field_names(each))
            assert ADA in json.dumps(reduce(getitem, of_recipient, event))
            if each.message_id is not None:
                assert ID.strip("<>") in json.dumps(reduce(getitem, of_id, event))


@every_provider
def test_the_types_of_fields(name: str) -> None:
    """The receiver does not check them, because they are those of `Event`."""
    entry = Entry(None, build(name))
    assert not entry.is_checked
    parser = entry.provider
    bodies = [body for each in EVENTS.values() if (body := parser.compose(each)) is not None]
    assert bodies
    for body in (
        *bodies,
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"event": 1, "Type": [], "RecordType": {}}',
    ):
        check_event(parser, parser.parse(body))
        check_events(parser, "read_body", parser.read_body(body))
    for body in bodies:
        if (sent := parser.sign(body)) is not None:
            check_events(parser, "read", parser.read(request(sent)))
