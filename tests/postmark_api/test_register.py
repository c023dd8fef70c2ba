"""Registering webhooks at the provider."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from providing import TRIGGERS, client, endpoint, kill_at_each_request, writes

from hookrow._postmark_api.client import PostmarkAPI
from hookrow._postmark_api.errors import APIError, VerificationFailed
from hookrow._postmark_api.register import ExpectedWebhook, Registered, register
from hookrow._postmark_api.status import read_status
from hookrow._postmark_api.webhooks import read_streams
from hookrow.errors import ConfigurationError
from stand_in import Fault, PostmarkStandIn, Trigger
from stand_in.state import Webhook
from wire import SECRET

ALL = {Trigger.DELIVERY, Trigger.OPEN, Trigger.CHANGE}


@pytest.fixture
def api() -> Iterator[PostmarkStandIn]:
    with PostmarkStandIn() as api:
        yield api


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the URL of a running hookrow."""
    with endpoint() as url:
        yield url


def run(
    api: PostmarkAPI, url: str, *streams: str, dry_run: bool = False, secret: str = SECRET
) -> Sequence[Registered]:
    """Register hookrow on the streams, or on all."""
    expected, chosen = (
        ExpectedWebhook(url=url, secrets=[secret], triggers=TRIGGERS),
        read_streams(api, streams),
    )
    nothing = lambda _: None  # noqa: E731
    return list(register(api, expected, chosen, dry_run=dry_run, sleep=nothing))


def described(api: PostmarkStandIn) -> object:
    """Describe the webhooks, without their ids."""
    return [replace(each, id=0, posts=[]) for each in api.webhooks]


def test_a_first_and_a_second_run(api: PostmarkStandIn, url: str) -> None:
    found = run(client(api), url)
    assert [(each.stream.id, len(each.changes)) for each in found] == [
        ("outbound", 1),
        ("broadcast", 1),
    ]
    for webhook in api.webhooks:
        assert webhook.url == url
        assert webhook.headers == ({"Name": "X-Provider-Secret", "Value": SECRET},)
        assert {*webhook.enabled} == webhook.verified == ALL
        assert webhook.triggers[Trigger.OPEN]["PostFirstOpenOnly"]
    assert writes(api) == ["POST /webhooks"] * 2
    api.requests.clear()
    assert not any(each.changes for each in run(client(api), url))
    assert not writes(api)


def test_one_stream(api: PostmarkStandIn, url: str) -> None:
    run(client(api), url, "broadcast")
    assert [each.stream for each in api.webhooks] == ["broadcast"]


def test_a_dry_run_changes_nothing(api: PostmarkStandIn, url: str) -> None:
    [first, _] = run(client(api), url, dry_run=True)
    assert first.id is None
    assert [each.reasons for each in first.changes] == [["The stream has no webhook."]]
    assert not writes(api)


def change(what: str, webhook: Webhook) -> None:
    """Change a registered webhook at the provider."""
    match what:
        case "url":
            webhook.url = "https://old.example.com/provider/webhooks"
        case "secret":
            webhook.headers = ({"Name": "x-provider-secret", "Value": "old"},)
        case "two secrets":
            webhook.headers = (*webhook.headers, {"Name": "X-Provider-Secret", "Value": "old"})
        case "missing":
            webhook.triggers[Trigger.OPEN] = {"Enabled": False, "PostFirstOpenOnly": False}
        case "extra":
            webhook.triggers[Trigger.CLICK] = {"Enabled": True}
            webhook.verified.add(Trigger.CLICK)
        case "paused":
            webhook.verified.remove(Trigger.DELIVERY)


@pytest.mark.parametrize(
    ("what", "reason", "request_"),
    [
        ("url", "Its URL is https://old.example.com/provider/webhooks.", "PUT /webhooks/{}"),
        ("secret", "Its header X-Provider-Secret does not have", "PUT /webhooks/{}"),
        ("two secrets", "Its header X-Provider-Secret does not have", "PUT /webhooks/{}"),
        ("missing", "The trigger Open is disabled.", "PUT /webhooks/{}"),
        ("extra", "The trigger Click is enabled, but is not recorded.", "PUT /webhooks/{}"),
        ("paused", "The trigger Delivery is not verified", "POST /webhooks/{}/verify"),
    ],
)
def test_differences_are_corrected(
    api: PostmarkStandIn, url: str, what: str, reason: str, request_: str
) -> None:
    run(client(api), url, "outbound")
    [webhook] = api.webhooks
    other = {"Name": "X-Other", "Value": "kept"}
    change(what, webhook)
    webhook.headers = (*webhook.headers, other)
    api.requests.clear()
    [found] = run(client(api), url, "outbound")
    [made] = found.changes
    assert made.reasons[0].startswith(reason)
    assert writes(api) == [request_.format(webhook.id)]
    [webhook] = api.webhooks
    assert webhook.url == url
    assert {*webhook.enabled} == webhook.verified == ALL
    assert other in webhook.headers
    assert len(webhook.headers) == 2
    if what == "missing":
        assert not webhook.triggers[Trigger.OPEN]["PostFirstOpenOnly"], "it is kept"


def test_a_failed_verification_names_each_trigger_and_saves_nothing(api: PostmarkStandIn) -> None:
    with (
        endpoint(acknowledge_tests=False) as url,
        pytest.raises(VerificationFailed, match="0/3 triggers") as raised,
    ):
        run(client(api), url)
    assert {(each.trigger, each.status) for each in raised.value.results} == {
        (each, 404) for each in ALL
    }
    assert not api.webhooks
    with pytest.raises(VerificationFailed) as raised:
        run(client(api), url)
    assert {each.status for each in raised.value.results} == {0}, "nothing listens any more"


@pytest.mark.parametrize("other", ["{}", "https://staging.example.com/provider/webhooks"])
def test_two_webhooks_are_refused(api: PostmarkStandIn, url: str, other: str) -> None:
    """They are refused with the sentence of the status, whether or not one has the right URL."""
    run(client(api), url, "outbound")
    [webhook] = api.webhooks
    api.state.webhooks[1] = replace(webhook, id=1, url=other.format(url))
    api.requests.clear()
    with pytest.raises(ConfigurationError, match="Delete all but one of") as raised:
        run(client(api), url)
    drift = read_status(client(api), ExpectedWebhook(secrets=[SECRET], triggers=TRIGGERS)).drift
    assert str(raised.value).startswith(drift[0])
    assert "the stream has another hookrow webhook, so each event arrives twice." in drift[0]
    assert not writes(api), "not even for the other stream"


def test_webhooks_of_other_applications_stay(api: PostmarkStandIn, url: str) -> None:
    other = Webhook(5, "https://example.com/bounces", "outbound")
    api.state.webhooks[5] = other
    run(client(api), url, "outbound")
    assert [each.url for each in api.webhooks] == [other.url, url]


@pytest.mark.parametrize("fault", [Fault.RESET_AFTER_CHANGE, Fault.ERROR_AFTER_CHANGE])
def test_a_change_without_a_response_is_not_made_twice(
    api: PostmarkStandIn, url: str, fault: Fault
) -> None:
    api.inject(fault, method="POST")
    run(client(api), url, "outbound")
    assert writes(api) == ["POST /webhooks"]
    assert len(api.webhooks) == 1


def test_a_change_that_was_lost_is_repeated(api: PostmarkStandIn, url: str) -> None:
    api.inject(Fault.RESET, method="POST")
    [found] = run(client(api), url, "outbound")
    assert len(found.changes) == 1
    assert writes(api) == ["POST /webhooks"] * 2
    assert len(api.webhooks) == 1
    api.state.webhooks.clear()
    api.inject(Fault.RESET, 5, method="POST")
    with pytest.raises(APIError, match="did not respond"):
        run(client(api), url, "outbound")


def test_a_run_that_is_killed_can_be_repeated(url: str) -> None:
    @contextmanager
    def start() -> Iterator[PostmarkStandIn]:
        with PostmarkStandIn() as api:
            old = Webhook(7, "https://old.example.com/provider/webhooks", "broadcast")
            api.state.webhooks[7] = old
            yield api

    count = kill_at_each_request(start, lambda api: run(client(api), url), described)
    assert count > 5


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("outbond", "no message stream 'outbond'. Did you mean 'outbound'"),
        ("xyz", "There are outbound, broadcast."),
        ("old", "'old' is archived"),
        ("inbound", "'inbound' is for inbound mail"),
    ],
)
def test_streams_that_cannot_have_a_webhook(
    api: PostmarkStandIn, url: str, name: str, text: str
) -> None:
    api.add_stream("old", archived=True)
    with pytest.raises(ConfigurationError, match=text):
        run(client(api), url, "outbound", name)
    assert not writes(api)


def test_more_webhooks_than_allowed(api: PostmarkStandIn, url: str) -> None:
    for id_ in range(10):
        api.state.webhooks[id_] = Webhook(id_, f"https://example.com/{id_}", "outbound")
    with pytest.raises(APIError, match="as many webhooks as the provider allows"):
        run(client(api), url, "outbound")
    assert len(api.webhooks) == 10


@pytest.mark.parametrize(
    ("url", "text"),
    [
        *((each, "not the URL of a webhook") for each in ("", "example.com", "https://a:b@c/d")),
        ("https://example.com/mail", "must end in /provider/webhooks"),
        ("https://example.com/provider/webhooks?a=b", "must end in /provider/webhooks"),
        ("http://example.com/provider/webhooks", "plain http"),
    ],
)
def test_urls_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ExpectedWebhook(url=url, secrets=[SECRET], triggers=TRIGGERS)


def test_a_webhook_that_keeps_changing(
    api: PostmarkStandIn, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(client(api), url, "outbound")
    [webhook] = api.webhooks
    webhook.headers = ()
    monkeypatch.setattr(PostmarkAPI, "put", lambda *_: {})  # accepted, but nothing changes
    with pytest.raises(APIError, match="still differs after 3 changes"):
        run(client(api), url, "outbound")


def test_the_verification_after_a_pause_may_fail(api: PostmarkStandIn, url: str) -> None:
    run(client(api), url, "outbound")
    [webhook] = api.webhooks
    webhook.verified.clear()
    webhook.headers = (*webhook.headers, {"Name": "Content-Encoding", "Value": "x"})
    api.advance(timedelta(days=1))
    with endpoint("another-secret-of-16") as other:
        webhook.url = other
        with pytest.raises(VerificationFailed) as raised:
            run(client(api), other, "outbound")
    assert {each.status for each in raised.value.results} == {401}
