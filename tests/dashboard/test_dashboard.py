"""The dashboard's pages: what they show, and their forms."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from litestar import Litestar, asgi

import world
from hookrow import Arrival, Request, RequestHead, testing
from hookrow.asgi import ASGI
from hookrow.core.notification import Notification
from hookrow.dashboard import Dashboard
from hookrow.providers import postmark
from hookrow.receiver.recorder import record
from hookrow.stores import Unavailable
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryCensus, MemoryStore
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.sql import SQLStore
from hookrow.testing.applications import call_asgi
from visitor import MOUNT, Visitor, ask, head, receive
from wire import ADA, ADAS, AT, PATIENCE, eventually

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x07{{7*7}}"


@pytest.fixture
def store() -> MemoryStore:
    """Return a store with a subscriber and a dispatch."""
    return MemoryStore(
        subscribers={1: {"email": ADA}},
        dispatches={1: {"provider_message_id": ADAS, "subscriber_id": 1, "list_id": 1}},
    )


@pytest.fixture
def visitor(store: MemoryStore) -> Iterator[Visitor]:
    visitor = Visitor(store)
    yield visitor
    visitor.dashboard.close(PATIENCE)  # it may be counting


@pytest.fixture(params=["memory", "postgres"])
def any_store(request: pytest.FixtureRequest, store: MemoryStore) -> Iterator[Any]:
    """Return the store, or PostgreSQL, which rejects some input, with the rows of the cases."""
    if request.param == "memory":
        yield store
        return
    url = request.getfixturevalue("postgres_url")
    world.fill(url)
    with closing(SQLStore(url)) as sql:
        yield sql


def test_mounted_in_litestar() -> None:
    """It removes the mount path and adds a slash."""
    dashboard = ASGI(Dashboard(MemoryStore(), authorize=lambda _: True))
    app = Litestar([asgi(MOUNT, is_mount=True, copy_scope=True)(dashboard)])
    asked = Request(RequestHead("GET", f"{MOUNT}/notifications", ()), b"")
    status, page = call_asgi(app, asked, PATIENCE)
    assert (status, "<h1" in page) == (200, True)


@pytest.mark.parametrize(
    ("asked", "mount", "status", "headers"),
    [
        (head("/notifications"), "", 200, {}),
        (RequestHead("GET", f"{MOUNT}/notifications", (), f"/api{MOUNT}"), "", 200, {}),
        (RequestHead("GET", f"{MOUNT}/notifications", ()), "mail/dashboard/", 200, {}),
        (RequestHead("GET", "/notifications/", ()), "", 200, {}),
        (head(""), "", 303, {"Location": "./dashboard/"}),  # because links are relative
        (head("/nowhere"), "", 404, {}),
        (head("/notifications"), "/other", 404, {}),
        (head("/static/../handler.py"), "", 404, {}),
        (head("/notifications", method="POST"), "", 405, {"Allow": "GET, HEAD"}),
        (head("/subscriber", method="DELETE"), "", 405, {"Allow": "GET, HEAD, POST"}),
        (head("/notifications", method="HEAD"), "", 200, {}),
        (head("/static/charts.js"), "", 200, {"Cache-Control": "private, max-age=3600"}),
    ],
)
def test_paths(asked: RequestHead, mount: str, status: int, headers: dict[str, str]) -> None:
    """Pages are found below any mount path, even if a proxy changes or drops the root path.

    Unknown paths return 404, wrong methods 405; browsers may cache static files.
    """
    dashboard = Dashboard(MemoryStore(), authorize=lambda _: True, mount_path=mount)
    response = ask(dashboard, asked)
    assert response.status == status
    assert headers.items() <= response.headers.items()


WRONG: list[tuple[str, dict[str, str], int, str]] = [
    ("/", {"period": "year"}, 400, "There is no such period"),
    ("/lists", {"sort": "x"}, 400, "There is no field"),
    ("/notification", {}, 400, "Say which notification"),
    ("/notification", {"id": "7"}, 404, "The log has no notification 7."),
    ("/dispatch", {"message_id": "none"}, 404, "Neither the dispatches nor the log have"),
    ("/subscriber", {"email": "\0"}, 400, "The field email has a NUL, or over 1000 characters."),
    ("/subscriber", {"email": "x" * 400}, 404, "Neither the subscribers nor the log have"),
    ("/notifications", {"before": "x"}, 400, "before is the number of a notification, not"),
    ("/notifications", {"after": "9" * 19}, 400, "after is the number"),
    ("/notifications", {"outcome": "good"}, 400, "No outcome is called"),
    ("/notifications", {"since": "yesterday"}, 400, "since is a time such as"),
    ("/notifications", {"until": "0001-01-01T00:00+14:00"}, 400, "until is a time such as"),
    ("/notifications", {"parked": "yes"}, 400, "parked is 1, or left out"),
    ("/notifications", {"type": "a\0b"}, 400, "The field type has a NUL, or over 1000"),
    ("/notifications", {"recipient": "x" * 1001}, 400, "The field recipient has a NUL, or over"),
    ("/notifications", {"<b>": "1"}, 400, "There is no field"),
    ("/notifications", {str(n): "1" for n in range(101)}, 400, "There are too many fields"),
]


def test_wrong_queries(any_store: Any) -> None:  # noqa: ANN401 - either store
    """A missing or impossible argument returns 400, an unknown row or notification 404."""
    visitor = Visitor(any_store)
    for path, query, status, says in WRONG:
        response = visitor.get(path, **query)
        assert (response.status, query) == (status, query)
        assert says in response.body.decode()
        assert "<b>" not in response.body.decode()
    visitor.dashboard.close(PATIENCE)


def test_hostile_payloads(any_store: Any) -> None:  # noqa: ANN401 - either store
    """Hostile payloads are escaped and shortened on every page."""
    long = f"{HOSTILE}{'x' * 900_000}"
    receive(
        any_store,
        {"RecordType": long, "Recipient": long, "MessageID": long},
        {**testing.delivery(HOSTILE, HOSTILE, at=AT), "Tag": "\0</pre><img src=x>"},
        testing.suppression(ADA, ADAS, at=AT, reason=long),
    )
    visitor = Visitor(any_store)
    for page in (
        visitor.shows("/notifications"),
        *(visitor.shows("/notification", id=n) for n in (1, 2, 3)),
        *(visitor.shows("/subscriber", email=email) for email in (HOSTILE, ADA)),
        *(visitor.shows("/dispatch", message_id=each) for each in (HOSTILE, ADAS)),
    ):
        assert not re.search("<script>|<img|\u202e|\x07|\0", page)
        assert "alert(1)" in page
        assert len(page) < 200_000
    visitor.dashboard.close(PATIENCE)


class TestNotifications:
    def test_filters_and_paging(self, store: MemoryStore, visitor: Visitor) -> None:
        """Notifications are listed newest first, filtered, and paged by id."""
        receive(store, *(testing.delivery(ADA, f"x-{n}", at=AT) for n in range(60)))
        receive(store, testing.delivery(ADA, ADAS, at=AT))

        def listed(**query: object) -> list[int]:
            page = visitor.shows("/notifications", **query)
            return [int(each) for each in re.findall(r'data-id="(\d+)"', page)]

        assert listed() == listed(after=11) == [*range(61, 11, -1)]
        assert listed(before=12) == [*range(11, 0, -1)]
        assert listed(after=9, outcome="dispatch_not_found") == [*range(59, 9, -1)]
        assert listed(outcome="recorded") == listed(message_id=ADAS) == [61]
        assert listed(type="Open") == listed(until="2026-03-04T05:06") == []
        assert len(listed(recipient=ADA.upper(), parked=1, since="2026-03-04T05:06")) == 50
        rows = visitor.shows("/notifications", rows=59)
        assert ("<html" in rows, 'data-seen="61"' in rows) == (False, True)
        assert listed(rows=59) == [61, 60]
        assert listed(rows=61) == listed(before=1) == listed(after=61) == []

    def test_a_long_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A search stops at its budget: the page says so and links to the rest."""
        monkeypatch.setattr("hookrow.statistics.searching.BUDGET", 0)
        monkeypatch.setattr("hookrow.statistics.searching.NARROWEST", 1)
        monkeypatch.setattr("hookrow.dashboard.listing.WIDEST", 1)
        store = MemoryStore()
        rare = testing.delivery("eve@example.com", "old", at=AT)
        receive(store, {"x": 1}, {"x": 2}, rare, {"x": 4}, {"x": 5})
        visitor = Visitor(store)
        page = visitor.shows("/notifications", message_id="old")
        assert "no such notifications among those that were looked through" in page
        assert 'href="?message_id=old&amp;before=5">Look further back' in page
        assert 'data-id="3"' in visitor.shows("/notifications", message_id="old", before=4)
        page = visitor.shows("/dispatch", message_id="old")
        assert "The log has nothing of it among what was looked through." in page
        assert "before=5" in page
        page = visitor.shows("/dispatch", message_id="old", before=4)
        assert "subscriber not found" in page
        page = visitor.shows("/dispatch", message_id="old", before=2)
        assert "The log has nothing of it." in page


def test_replay(store: MemoryStore, visitor: Visitor) -> None:
    """A parked notification shows its reason; a replay records it once its dispatch exists."""
    receive(store, testing.delivery(ADA, "m-1", at=AT))
    page = visitor.shows("/notification", id=1)
    assert "No dispatch had the id m-1 when it came; 1 attempt" in page
    assert "Engine::Dispatch not found" in page
    page = visitor.send("/notification", {"action": "replay"}, id=1)
    assert "Not recorded: there is no such dispatch." in page
    store.dispatches[9] = {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": 1}
    page = visitor.send("/notification", {"action": "replay"}, id=1)
    assert "Recorded once more." in page
    assert store.dispatches[9]["delivered_at"] == AT


def test_the_parser_of_another_provider(store: MemoryStore, visitor: Visitor) -> None:
    """Bodies are read by the parser that the dashboard was given, also for a replay."""

    def parse(body: bytes) -> Notification | None:
        return postmark.parse(body[::-1])

    visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", parse=parse)
    body = json.dumps(testing.suppression(ADA, ADAS, at=AT)).encode()[::-1]
    record(store, [Arrival(parse(body), body, datetime.now(UTC))])
    assert "suppressed for" in visitor.shows("/notification", id=1)
    assert "suppressed for" in visitor.shows("/subscriber", email=ADA)
    assert "Recorded once more." in visitor.send("/notification", {"action": "replay"}, id=1)


def test_a_body_that_is_not_kept() -> None:
    """A notification without its body cannot be replayed."""
    store = MemoryStore()
    receive(store, {}, keep_bodies=False)
    page = Visitor(store).shows("/notification", id=1)
    assert "Its body is not kept" in page
    assert "<form" not in page


@pytest.mark.parametrize(
    ("fault", "status", "says"),
    [(Unavailable("It is gone."), 503, "gone."), (KeyError(), 500, "This page failed: KeyError")],
)
def test_a_store_that_fails(
    visitor: Visitor, fault: Exception, status: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store error returns 503, a bug 500, both with an explanation."""

    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(MemoryStore, "reading", fail)
    response = visitor.get("/subscriber", email=ADA)
    assert response.status == status
    assert says in response.body.decode()


def test_an_outage(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a database pages return 503, or the last figures marked as outdated."""

    def fail(*_: object) -> None:
        raise Unavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryLog, "bounds", fail)
        broken.setattr(MemoryCensus, "lists", fail)
        eventually(lambda: visitor.get("/").status == visitor.get("/lists").status == 503)
    eventually(lambda: visitor.get("/").status == visitor.get("/lists").status == 200)
    says = "The database cannot be asked just now (gone): what is below was known before."
    eventually(lambda: says not in visitor.shows("/"))
    monkeypatch.setattr(MemoryLog, "bounds", fail)
    eventually(lambda: says in visitor.shows("/"))


class TestSuppression:
    def test_subscriber(self, store: MemoryStore, visitor: Visitor) -> None:
        """A manual suppression sets the row and logs who did it and why."""
        page = visitor.send("/subscriber", {"action": "suppress", "reason": "a <b>"}, email=ADA)
        assert ">Suppressed.<" in page
        assert "by notification 1" in page
        assert "suppressed for a <b>, by ada: a <b>" in page
        assert store.log is not None
        [entry] = store.log.newest(Query(recipient=ADA), limit=9)
        body = json.loads(entry.body or "")
        assert (body["ChangedBy"], body["Note"]) == ("ada", "a <b>")
        page = visitor.send("/subscriber", {"action": "lift", "reason": "asked"}, email=ADA)
        assert "The suppression is lifted." in page
        assert ">active<" in page
        assert "suppression lifted, by ada: asked" in page
        newer = '<a href="./notification?id=2">entry 2, a reactivation of '
        assert newer in visitor.shows("/notification", id="1")
        assert newer not in visitor.shows("/notification", id="2")

    def test_dispatch(self, store: MemoryStore, visitor: Visitor) -> None:
        """A manual suppression of a message changes what the provider's would."""
        receive(store, testing.delivery(ADA, ADAS, at=AT))
        form = {"action": "suppress", "reason": "x", "email": ADA}
        page = visitor.send("/dispatch", form, message_id=ADAS)
        assert "2026-03-04 05:06:07Z" in page
        assert page.count("by notification 2") == 2
        assert ">suppressed<" in visitor.shows("/subscriber", email=ADA)

    def test_undated(self, store: MemoryStore, visitor: Visitor) -> None:
        """An undated suppression is attributed by its arrival time, as long as the log has it."""
        undated = testing.suppression(ADA, None, at=AT)
        del undated["ChangedAt"]
        receive(store, testing.delivery(ADA, "m-1", at=AT), undated)
        assert visitor.shows("/subscriber", email=ADA).count("by notification 2") == 2
        assert store.log is not None
        store.log.forget(ADA)
        page = visitor.shows("/subscriber", email=ADA)
        assert page.count("by none that the log has") == 2

    @pytest.mark.parametrize(
        ("user", "named"),
        [("ops@example.com", "o***@example.com"), ("a\nERROR b", "a\\nERROR b")],
    )
    def test_log_lines(
        self, store: MemoryStore, caplog: pytest.LogCaptureFixture, user: str, named: str
    ) -> None:
        """Log lines contain the user, masked and escaped."""
        with caplog.at_level("INFO", "hookrow"):
            form = {"action": "suppress", "reason": "x"}
            Visitor(store, user).send("/subscriber", form, email=ADA)
        assert caplog.messages == [f"{named} asked to suppress by hand: suppressed, request ."]

    @pytest.mark.parametrize(
        ("form", "headers", "status"),
        [
            ({"action": "delete"}, {}, 400),
            ({"reason": " "}, {}, 400),
            ({"reason": "x" * 201}, {}, 400),
            ({"reason": "a\0b"}, {}, 400),
            ({"more": "x"}, {}, 400),
            ({"token": "guessed"}, {}, 403),
            ({}, {"sec_fetch_site": "same-site"}, 403),
            ({}, {"origin": "http://evil.example"}, 403),
            ({}, {"origin": "null"}, 403),
            ({}, {"cookie": "hookrow_dashboard=; x=y"}, 403),
            ({}, {"cookie": "hookrow_dashboard=other"}, 403),
            ({}, {}, 303),
            ({}, {"origin": "http://localhost"}, 303),
            ({}, {"sec_fetch_site": "same-origin", "origin": "https://behind.example"}, 303),
        ],
    )
    def test_forms(
        self,
        store: MemoryStore,
        visitor: Visitor,
        form: dict[str, str],
        headers: dict[str, str],
        status: int,
    ) -> None:
        """A form needs its fields, the cookie's token and the same origin; or changes nothing.

        The token is found among the host's own cookies, even malformed ones.
        """
        token = visitor.token("/subscriber", email=ADA)
        visitor.headers["cookie"] = f'odd={{"a", ";; é; {visitor.headers["cookie"]}; more='
        visitor.headers |= headers
        sent = {"token": token, "action": "suppress", "reason": "x", **form}
        assert visitor.post("/subscriber", sent, email=ADA).status == status
        assert ("suppressed_at" in store.subscribers[1]) is (status == 303)


def test_overview(store: MemoryStore, visitor: Visitor) -> None:
    """The overview shows types, outcomes, refusals and reasons in each period."""
    bounce = testing.suppression(ADA, ADAS, at=AT, reason="<i>")
    receive(store, testing.delivery(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
    receive(store, bounce, testing.delivery(ADA, "m-9", at=AT), {"RecordType": "<b>"})
    eventually(lambda: "Last heard of" in visitor.shows("/"))
    eventually(lambda: "as of" in visitor.shows("/"))
    for period in ("hour", "day", "week", "month"):
        page = visitor.shows("/", period=period)
        for name in ("Delivery", "Open", "SubscriptionChange", "&lt;b&gt;", "unsupported"):
            assert f'class="number"><bdi>{name}</bdi></th>' in page
        assert "2 of the last 5 were refused" in page
        assert '<a href="./notifications?parked=1">1</a>' in page
        assert "<bdi>&lt;i&gt;</bdi>" in page


def test_lists(store: MemoryStore, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest lists show what was sent and delivered, and the total number of lists."""
    monkeypatch.setattr("hookrow.dashboard.pages.LISTS", 1)
    for number in (2, 3):
        row = {"provider_message_id": f"m-{number}", "subscriber_id": 1, "list_id": 2}
        store.dispatches[number] = row
    receive(store, testing.delivery(ADA, "m-3", at=AT))
    eventually(lambda: "As of" in visitor.shows("/lists"))
    page = visitor.shows("/lists")
    cells = re.findall(r'data-label="(\w+)"[^>]*><(?:span|bdi)>(.+?)<', page)
    assert cells[:3] == [("List", "2"), ("Sent", "2"), ("Delivered", "1 ")]
    assert page.count('data-label="Sent"') == 1
    assert "The 1 to which the most was sent, of 2." in page


def test_without_a_log(store: MemoryStore) -> None:
    """Without a log the dashboard shows rows and says what is missing."""
    store.log = None
    visitor = Visitor(store)
    asked = {"/subscriber": {"email": ADA}, "/dispatch": {"message_id": ADAS}}
    for path in ("/", "/notifications", *asked):
        assert "This store keeps no log" in visitor.shows(path, **asked.get(path, {}))
    visitor.dashboard.close(PATIENCE)
    visitor.send("/subscriber", {"action": "suppress", "reason": "x"}, email=ADA)
    assert store.subscribers[1]["suppression_reason"] == "x"
    assert visitor.get("/notification", id=1).status == 404
