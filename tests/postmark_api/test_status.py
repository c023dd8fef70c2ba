"""The status of webhooks at the provider."""

import json
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from providing import TRIGGERS, client, endpoint, writes

from engines import MEMORY
from hookrow import Postmark, testing
from hookrow._core.result import Result
from hookrow._postmark_api.errors import APIError
from hookrow._postmark_api.reconcile import Reconciliation
from hookrow._postmark_api.register import ExpectedWebhook, register
from hookrow._postmark_api.status import ProviderStatus, read_status
from hookrow._postmark_api.webhooks import read_streams, read_webhooks
from hookrow._receiver.manual import change_suppression
from hookrow._receiver.recorder import record
from hookrow.errors import ConfigurationError
from hookrow.stores._log import Query
from hookrow.stores.sql import SQLStore
from received import arrival
from stand_in import PostmarkStandIn, Trigger
from stand_in.posts import PAUSED_AFTER
from stand_in.state import Webhook
from wire import ADA, ADAS, SECRET

OLD = "the-old-secret-of-16"


@pytest.fixture
def store() -> Iterator[SQLStore]:
    with closing(SQLStore(MEMORY)) as store:
        tables = testing.Tables(store)
        tables.add_dispatch(ADAS, tables.add_subscriber(ADA))
        yield store


@pytest.fixture
def api(store: SQLStore) -> Iterator[PostmarkStandIn]:
    """Return a stand-in with a webhook on the stream "outbound"."""
    now = datetime.now(UTC) - timedelta(hours=1)
    with PostmarkStandIn(now=now) as api, endpoint(SECRET, OLD, store=store) as url:
        register_on(api, url, "outbound")
        yield api


def register_on(api: PostmarkStandIn, url: str, stream: str) -> None:
    expected, streams = (
        ExpectedWebhook(url=url, secrets=[SECRET], triggers=TRIGGERS),
        read_streams(client(api), [stream]),
    )
    assert list(register(client(api), expected, streams))
    api.requests.clear()


def read(api: PostmarkStandIn, *streams: str, **options: Any) -> ProviderStatus:  # noqa: ANN401
    return read_status(
        client(api), ExpectedWebhook(secrets=[SECRET, OLD], triggers=TRIGGERS), streams, **options
    )


def test_without_drift(api: PostmarkStandIn, store: SQLStore) -> None:
    api.send(ADA, message_id=ADAS)
    api.deliver(ADAS)
    api.open(ADAS)
    api.open(ADAS)
    api.flush()
    found = read(api, store=store)
    assert not found.drift
    assert found.summary == "Stand-in: 1 webhook on 1 stream: verified, as registered."
    [webhook] = found.webhooks
    assert webhook.secret == 0
    assert webhook.triggers == dict.fromkeys(["Delivery", "Open", "SubscriptionChange"], "verified")
    assert webhook.requests == {"Delivery": 1, "Open": 1, "SubscriptionChange": 0}
    assert found.logged == found.posted == webhook.requests
    assert found.without_webhook == ["broadcast"]
    assert not writes(api)


def test_counts_that_differ_are_no_drift(api: PostmarkStandIn, store: SQLStore) -> None:
    testing.post(api.webhooks[0].url, testing.opening(ADA, ADAS, at=api.now), secret=SECRET)
    found = read(api, store=store)
    assert (found.posted["Open"], found.logged["Open"]) == (0, 1)
    assert not found.drift


def test_only_posted_notifications_are_counted(api: PostmarkStandIn, store: SQLStore) -> None:
    """Events from the provider's API and manual changes are not."""
    api.deliver(api.send(ADA, message_id=ADAS))
    api.open(ADAS)
    streams = read_streams(client(api))
    for _ in Reconciliation(
        client(api), store, Postmark, streams, since=api.now - timedelta(days=1)
    ).steps():
        pass
    change_suppression(store, ADA, reason="complained", by="ada", at=api.now)
    assert store.log is not None
    assert store.log.count(Query(outcome=Result.RECORDED), limit=9) == 3
    assert read(api, store=store).logged == dict.fromkeys(TRIGGERS, 0)
    api.flush()
    found = read(api, store=store)
    assert found.logged == found.posted == {"Delivery": 1, "Open": 1, "SubscriptionChange": 0}


@pytest.mark.parametrize(
    ("triggers", "headers", "text"),
    [
        ({Trigger.OPEN: {"Enabled": False}}, None, "the trigger Open is disabled"),
        ({Trigger.CLICK: {"Enabled": True}}, None, "the trigger Click is enabled, but is not"),
        ({}, [], "the header X-Provider-Secret is missing"),
        ({}, ["another-secret"], "the header X-Provider-Secret is not one of hookrow's secrets"),
        ({}, [SECRET, OLD], "the header X-Provider-Secret is not one of hookrow's secrets"),
    ],
)
def test_drift(
    api: PostmarkStandIn,
    triggers: dict[Trigger, dict[str, bool]],
    headers: list[str] | None,
    text: str,
) -> None:
    [webhook] = api.webhooks
    webhook.triggers |= triggers
    webhook.verified |= {*triggers}
    if headers is not None:
        webhook.headers = [{"Name": "X-Provider-Secret", "Value": each} for each in headers]
    found = read(api)
    [drift] = found.drift
    assert drift.startswith(f"Webhook {webhook.id} of the stream outbound: {text}")
    assert drift in found.summary
    assert "secret-of" not in repr(found)
    assert "another-secret" not in repr(found)


def test_without_a_secret_each_header_is_drift(api: PostmarkStandIn) -> None:
    [drift] = read_status(client(api), ExpectedWebhook(secrets=[], triggers=TRIGGERS)).drift
    assert "the header X-Provider-Secret is not one of hookrow's secrets" in drift


def test_an_old_secret_is_no_drift(api: PostmarkStandIn) -> None:
    api.webhooks[0].headers = [{"Name": "x-provider-secret", "Value": OLD}]
    found = read(api)
    assert [each.secret for each in found.webhooks] == [1]
    assert not found.drift


def test_a_paused_trigger(api: PostmarkStandIn) -> None:
    for number in range(PAUSED_AFTER):
        api.deliver(api.send(ADA, message_id=f"unknown-{number}"))
    api.flush()
    found = read(api)
    assert found.webhooks[0].triggers["Delivery"] == "paused"
    assert found.webhooks[0].failures["Delivery"] == PAUSED_AFTER
    assert ["the trigger Delivery is not verified" in each for each in found.drift] == [True]


def test_two_webhooks_and_none(api: PostmarkStandIn) -> None:
    [webhook] = api.webhooks
    api.state.webhooks[1] = Webhook(1, webhook.url, "broadcast")
    assert len(read(api, "broadcast").drift) == 4
    api.state.webhooks[1].stream = "outbound"
    assert sum("each event arrives twice" in each for each in read(api).drift) == 2
    api.state.webhooks.clear()
    found = read(api)
    assert found.summary == "Stand-in: no webhook posts to hookrow."
    assert not found.drift


def test_open_tracking(api: PostmarkStandIn) -> None:
    assert read(api).server.track_opens
    api.state.track_opens = False
    assert not read(api).server.track_opens


def test_the_server_in_a_body_with_an_unpaired_surrogate(store: SQLStore) -> None:
    with PostmarkStandIn(server=5) as other:
        delivery = testing.delivery(ADA, ADAS, at=other.now)
        body = json.dumps(delivery | {"ServerID": 4711, "Tag": "\ud83d"}).encode()
        record(store, [arrival(body)])
        with pytest.raises(ConfigurationError, match="from the server 4711"):
            read(other, store=store)


def test_the_token_of_another_server(api: PostmarkStandIn, store: SQLStore) -> None:
    api.send(ADA, message_id=ADAS)
    api.deliver(ADAS)
    api.flush()
    with PostmarkStandIn(server=5) as other, pytest.raises(ConfigurationError) as raised:
        read(other, store=store)
    assert "server Stand-in (5)" in str(raised.value)
    assert "from the server 4711" in str(raised.value)
    assert "create a webhook with its secret there" in str(raised.value)
    api.state.webhooks.clear()
    read(api, store=store)  # the right server, whose webhook was deleted


@pytest.mark.parametrize(
    ("url", "secret", "accepted"),
    [
        ("https://staging.example.com/provider/webhooks", "another-secret", False),
        ("https://staging.example.com/provider/webhooks", OLD, True),
        ("https://example.com/provider/webhooks", "another-secret", True),
    ],
)
def test_only_our_url_or_secret_proves_that_another_server_is_ours(
    store: SQLStore, url: str, secret: str, *, accepted: bool
) -> None:
    """The webhook of another hookrow, such as that for staging, does not."""
    with endpoint(store=store) as live, PostmarkStandIn(server=5) as other:
        delivery = testing.delivery(ADA, ADAS, at=other.now) | {"ServerID": 4711}
        testing.post(live, delivery, secret=SECRET)
        headers = [{"Name": "X-Provider-Secret", "Value": secret}]
        other.state.webhooks[1] = Webhook(1, url, "outbound", headers)
        expected = ExpectedWebhook(
            url="https://example.com/provider/webhooks", secrets=[SECRET, OLD], triggers=TRIGGERS
        )
        with nullcontext() if accepted else pytest.raises(ConfigurationError, match=r"\(5\)"):
            read_status(client(other), expected, store=store)


def test_tests_of_the_provider_name_no_server(store: SQLStore) -> None:
    with endpoint(store=store) as url, PostmarkStandIn() as api:
        testing.post(url, testing.delivery(ADA, ADAS, at=api.now), secret=SECRET)
        testing.post(url, testing.send_test(at=api.now), secret=SECRET)
        testing.post(url, {"ServerID": "5"}, secret=SECRET)
        assert not read(api, store=store).drift


def test_texts_of_webhooks(api: PostmarkStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are cleaned, except the URL, which must be as it is, and can be printed."""
    used = client(api)
    [stream] = read_streams(used, ["outbound"])
    webhook = {"ID": 1, "Url": f"https://{api.token}", "Triggers": {api.token: {"Enabled": True}}}
    monkeypatch.setattr(used, "get", lambda *_, **__: {"Webhooks": [webhook]})
    [found] = read_webhooks(used, stream)
    assert (found.url, found.enabled) == (webhook["Url"], {"***"})
    webhook["Url"] = "https://a\ud800"
    with pytest.raises(APIError, match="not one of Postmark's API"):
        read_webhooks(used, stream)


def test_a_url_with_a_password(api: PostmarkStandIn) -> None:
    """Neither the status nor a registration shows it."""
    [webhook] = api.webhooks
    webhook.url = "https://user:password@example.com/provider/webhooks?key=password"
    expected = "https://***@example.com/provider/webhooks?***"
    assert read(api).webhooks[0].url == expected
    correct = ExpectedWebhook(
        url="https://example.com/provider/webhooks", secrets=[SECRET], triggers=TRIGGERS
    )
    [found] = register(client(api), correct, read_streams(client(api), ["outbound"]), dry_run=True)
    assert found.changes[0].reasons == [f"Its URL is {expected}."]


def test_a_webhook_whose_url_is_not_valid_is_not_ours(api: PostmarkStandIn) -> None:
    api.webhooks[0].url = "http://[provider/webhooks"
    assert not read(api).webhooks
