"""The stand-in for Postmark's API, by the rules of the provider."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from providing import client

from hookrow._postmark_api.errors import APIError
from loopback import loopback
from stand_in import PostmarkStandIn, Trigger
from stand_in.posts import PAUSED_AFTER

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTES = (0, 1, 6, 21, 22, 27, 37, 47, 57, 72)
"""The times of all attempts, in minutes after the first."""


class Endpoint:
    """A URL that responds with a status, or with the statuses of a list, and keeps the headers."""

    def __init__(self) -> None:
        self.status, self.then = "200 OK", ""
        self.headers: list[dict[str, str]] = []

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        names = ("HTTP_X_PM_WEBHOOK_TRACE_ID", "HTTP_X_PM_RETRIES_REMAINING", "HTTP_X_SECRET")
        self.headers.append({name: environ.get(name, "") for name in names})
        start(self.status, [("Content-Length", "0"), ("Location", "/elsewhere")])
        if self.status.startswith("3"):
            self.status = self.then
        return [b""]


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def api(endpoint: Endpoint) -> Iterator[PostmarkStandIn]:
    """Return a stand-in with one webhook."""
    with loopback(endpoint) as port, PostmarkStandIn(now=START) as api:
        webhook = {
            "Url": f"http://127.0.0.1:{port}/",
            "HttpHeaders": [{"Name": "X-Secret", "Value": "a"}],
            "Triggers": {"Delivery": {"Enabled": True}, "Open": {"Enabled": True}},
        }
        client(api).post("/webhooks", webhook)
        endpoint.headers.clear()
        yield api


def minutes(api: PostmarkStandIn, number: int = 0) -> list[int]:
    """Return the times of the attempts of an event."""
    attempts = api.events[number].attempts
    return [round((each.at - attempts[0].at) / timedelta(minutes=1)) for each in attempts]


@pytest.mark.parametrize(
    ("status", "attempts"),
    [
        *(("200 OK", 1), ("204 No Content", 1), ("400 Bad Request", 1), ("401 Unauthorized", 1)),
        *(("404 Not Found", 1), ("408 Request Timeout", 10), ("429 Too Many Requests", 10)),
        *(("500 Internal Server Error", 10), ("503 Service Unavailable", 10)),
    ],
)
def test_repetitions(api: PostmarkStandIn, endpoint: Endpoint, status: str, attempts: int) -> None:
    endpoint.status = status
    api.deliver(api.send("ada@example.com"))
    api.flush()
    api.advance(timedelta(days=1))
    assert minutes(api) == [*MINUTES[:attempts]]
    assert api.events[0].delivered == status.startswith("2")
    assert len({each["HTTP_X_PM_WEBHOOK_TRACE_ID"] for each in endpoint.headers}) == 1
    left = [int(each["HTTP_X_PM_RETRIES_REMAINING"]) for each in endpoint.headers]
    assert left == [*range(9, 9 - attempts, -1)]
    assert {each["HTTP_X_SECRET"] for each in endpoint.headers} == {"a"}


def test_redirects_are_followed(api: PostmarkStandIn, endpoint: Endpoint) -> None:
    endpoint.status, endpoint.then = "307 Temporary Redirect", "200 OK"
    api.deliver(api.send("ada@example.com"))
    api.flush()
    assert api.events[0].delivered
    assert len(endpoint.headers) == 2


def test_an_outage_ends(api: PostmarkStandIn, endpoint: Endpoint) -> None:
    endpoint.status = "503 Service Unavailable"
    api.deliver(api.send("ada@example.com"))
    api.flush()
    api.advance(timedelta(minutes=20))
    endpoint.status = "200 OK"
    api.advance(timedelta(minutes=20))
    assert minutes(api) == [0, 1, 6, 21]
    found = client(api).get(f"/webhooks/{api.webhooks[0].id}/statistics")
    delivery = found["MetricsByTrigger"]["Delivery"]
    assert delivery["TotalRequests"] == delivery["SuccessCount"] == 1
    assert delivery["RetryCount"] == 3
    api.advance(timedelta(days=1))
    found = client(api).get(f"/webhooks/{api.webhooks[0].id}/statistics")
    assert found["MetricsByTrigger"]["Delivery"]["TotalRequests"] == 0


def test_a_trigger_that_keeps_failing_is_paused(api: PostmarkStandIn, endpoint: Endpoint) -> None:
    """The other triggers go on; after a successful verification, so does this one."""
    endpoint.status = "404 Not Found"
    message = api.send("ada@example.com")
    for _ in range(PAUSED_AFTER + 1):
        api.deliver(message)
        api.flush()
    assert len(api.events) == PAUSED_AFTER
    [webhook] = api.webhooks
    assert webhook.verified == {Trigger.OPEN}
    assert client(api).get(f"/webhooks/{webhook.id}")["Status"] == "unverified"
    result = client(api).post(f"/webhooks/{webhook.id}/verify", {})
    assert (result["Success"], result["Message"]) == (False, "0/2 triggers verified successfully")
    endpoint.status = "200 OK"
    assert client(api).post(f"/webhooks/{webhook.id}/verify", {})["Success"]
    api.deliver(message)
    api.flush()
    assert api.events[-1].delivered


def test_first_opens_only(api: PostmarkStandIn) -> None:
    message = api.send("ada@example.com")
    api.open(message)
    api.open(message)
    assert len(api.events) == 2
    body = {"Triggers": {"Open": {"Enabled": True, "PostFirstOpenOnly": True}}}
    client(api).put(f"/webhooks/{api.webhooks[0].id}", body)
    api.open(message)
    assert len(api.events) == 2


def test_a_webhook_without_verification_receives_nothing(api: PostmarkStandIn) -> None:
    client(api).put(f"/webhooks/{api.webhooks[0].id}", {"Verify": False})
    api.deliver(api.send("ada@example.com"))
    assert not api.events


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"Url": "none"}, 1354),
        ({"Url": "https://a/b", "MessageStream": "none"}, 1226),
        ({"Url": "https://a/b", "MessageStream": "inbound"}, 1351),
        ({"Url": "https://a/b", "Triggers": {"Opened": {"Enabled": True}}}, 1353),
        (
            {
                "Url": "https://a/b",
                "MessageStream": "broadcast",
                "Triggers": {"Bounce": {"Enabled": True}},
            },
            1353,
        ),
    ],
)
def test_webhooks_that_are_refused(
    api: PostmarkStandIn, body: dict[str, object], code: int
) -> None:
    with pytest.raises(APIError) as raised:
        client(api).post("/webhooks", body)
    assert raised.value.code == code
    assert len(api.webhooks) == 1


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/webhooks/99", 1352),
        ("/webhooks?MessageStream=none", 1226),
        ("/messages/outbound/none/details", 701),
        ("/messages/outbound/opens?count=501&offset=0", 700),
        ("/messages/outbound/opens?count=500&offset=9501", 700),
        ("/messages/outbound/opens", 700),
    ],
)
def test_requests_that_are_refused(api: PostmarkStandIn, path: str, code: int) -> None:
    with pytest.raises(APIError) as raised:
        client(api).get(path)
    assert raised.value.code == code


def test_suppressions(api: PostmarkStandIn) -> None:
    path = "/message-streams/outbound/suppressions"
    given = {"Suppressions": [{"EmailAddress": "ada@example.com"}, {"EmailAddress": "not one"}]}
    done = client(api).post(path, given)["Suppressions"]
    assert [each["Status"] for each in done] == ["Suppressed", "Failed"]
    api.suppress("bea@example.com", reason="SpamComplaint")
    found = client(api).get(f"{path}/dump")["Suppressions"]
    assert [each["SuppressionReason"] for each in found] == ["ManualSuppression", "SpamComplaint"]
    assert found[0]["CreatedAt"] == "2026-11-20T07:00:00-05:00"
    given = {"Suppressions": [{"EmailAddress": each["EmailAddress"]} for each in found]}
    done = client(api).post(f"{path}/delete", given)["Suppressions"]
    assert [each["Status"] for each in done] == ["Deleted", "Failed"]
