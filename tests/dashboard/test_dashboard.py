"""The dashboard's pages: what they show, and their forms."""

import html
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from html.parser import HTMLParser
from types import SimpleNamespace
from unittest.mock import Mock
from urllib.parse import parse_qsl, quote, unquote, urlencode

import pytest

import world
from copying import replace
from effects import Effects, body_of
from engines import MEMORY
from hookrow import (
    Arrival,
    Outcome,
    Postmark,
    Recorded,
    Refusal,
    RequestHead,
    Schema,
    testing,
)
from hookrow._core.log_entry import log_entries
from hookrow._core.notification import Suppressible
from hookrow._core.result import Result
from hookrow._core.status import Finding, Status, StatusLevel, StatusSubject
from hookrow._receiver import manual
from hookrow._receiver.entries import Entries, Entry
from hookrow._receiver.recorder import record
from hookrow._statistics import Delays, Period, Statistics
from hookrow.dashboard import Dashboard
from hookrow.dashboard._actions import RESULTS
from hookrow.dashboard._templating import static_files, words
from hookrow.providers import Event
from hookrow.providers.resend import Resend
from hookrow.stores._errors import Rejected, Unavailable
from hookrow.stores._log import KNOWN_TYPES, OTHER, Query, RequestHour, RequestKind
from hookrow.stores.sql import SQLStore
from hookrow.testing import Tables
from visitor import HOST, MOUNT, Visitor, ask, head, receive
from wire import ADA, ADAS, AT, PATIENCE, eventually

HIDDEN = "\x01\t\x1b[31m\x7f\x85\u061c\u200b\u200d\u202e\u2028\u2066\ufeff\xa0\U000e0041"
"""Controls, bidirectional controls, and other characters that are not visible."""

HOSTILE = f"<script>alert(1)</script>\"'&{HIDDEN}%41\\u202e{{{{7*7}}}}"

IN_BOTH_STORES = pytest.mark.parametrize("store", ["memory", "postgres"], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[SQLStore]:
    """Return a store with a subscriber, a list and a dispatch.

    Or PostgreSQL, which rejects some input, with the rows of the cases.
    """
    if getattr(request, "param", "memory") == "memory":
        with closing(SQLStore(MEMORY)) as memory:
            tables = Tables(memory)
            tables.add_dispatch(ADAS, tables.add_subscriber(ADA), tables.add_list("news"))
            yield memory
        return
    url = request.getfixturevalue("postgres_url")
    world.fill(url)
    with closing(SQLStore(url)) as postgres:
        yield postgres


@pytest.fixture
def tables(store: SQLStore) -> Tables:
    return Tables(store)


@pytest.fixture
def visitor(store: SQLStore) -> Iterator[Visitor]:
    visitor = Visitor(store)
    yield visitor
    visitor.dashboard.close(PATIENCE)


NO_DISPATCH = Refusal.DISPATCH_NOT_FOUND.refused()


def event(*effects: str) -> bytes:
    """Return the body of an event about Ada's dispatch."""
    return body_of(*effects, recipient=ADA, message_id=ADAS, at=AT).encode()


def log(
    store: SQLStore,
    body: bytes,
    outcome: Outcome = Recorded(()),  # noqa: B008 - frozen
    *,
    entry: str | None = None,
    ago: timedelta = timedelta(0),
) -> None:
    """Log an event that changes no rows, with this outcome."""
    now = datetime.now(UTC)
    notifications = Effects().parse(body).notifications
    arrived = Arrival(notifications, body, now - ago, provider=Effects.name, entry=entry)
    with store.transaction() as transaction:
        transaction.write((), log_entries([arrived], [outcome], now))


def execute(store: SQLStore, statement: str, at: datetime) -> None:
    """Execute a statement that contains `%s` for a time."""
    with store.database.transaction() as connection:
        connection.execute(statement, [store.role_tables.dialect.write(at)])


def test_the_trace_and_another_provider_are_shown(store: SQLStore, visitor: Visitor) -> None:
    """A hostile trace id is escaped; the dashboard's own provider is not named."""
    body = json.dumps(testing.delivery(ADA, ADAS, at=AT)).encode()
    for name, trace in (("postmark", "<t>"), ("other", None)):
        notifications = Postmark.parse(body).notifications
        arrival = Arrival(notifications, body + name.encode(), AT, provider=name, trace_id=trace)
        record(store, [arrival])
    first, second = (visitor.shows("/notification", id=id_) for id_ in (1, 2))
    assert "Trace ID</th><td><bdi>&lt;t&gt;</bdi>" in first
    assert ">Provider</th>" not in first
    assert ">Provider</th><td>other</td>" in second
    assert "Trace ID" not in second


@pytest.mark.parametrize(
    ("request_head", "status", "headers"),
    [
        (head("/notifications"), 200, {}),
        (RequestHead("GET", f"{MOUNT}/notifications", (), f"/api{MOUNT}"), 200, {}),
        (RequestHead("GET", "/notifications/", ()), 200, {}),
        (head(""), 200, {}),
        (head("/nowhere"), 404, {}),
        (head("/static/../app.py"), 404, {}),
        (head("/static/uPlot.LICENSE"), 404, {}),
        (head("/notifications", method="POST"), 405, {"Allow": "GET, HEAD"}),
        (head("/subscriber", method="DELETE"), 405, {"Allow": "GET, HEAD, POST"}),
        (head("/notifications", method="HEAD"), 200, {}),
        (head("/static/charts.js"), 200, {"Cache-Control": "private, max-age=3600"}),
        (head("/static/charts.js", method="POST"), 405, {"Allow": "GET, HEAD"}),
    ],
)
def test_paths(
    hookrow_store: SQLStore, request_head: RequestHead, status: int, headers: dict[str, str]
) -> None:
    """Pages are found below any mount path, even if a proxy changes or drops the root path.

    Unknown paths return 404, wrong methods 405; browsers may cache static files.
    """
    dashboard = Dashboard(hookrow_store, authorize=lambda _: True)
    response = ask(dashboard, request_head)
    assert response.status == status
    assert headers.items() <= response.headers.items()


WRONG: list[tuple[str, dict[str, str], int, str]] = [
    ("/", {"period": "year"}, 400, "period must be one of hour, day, week, month, not"),
    ("/lists", {"sort": "x"}, 400, "sort must be one of sent, delivered, opened, subscribed, "),
    ("/lists", {"page": "x"}, 400, "page must be a number, not"),
    ("/lists", {"order": "x"}, 400, "Unknown field"),
    ("/notification", {}, 400, "The field id is required."),
    ("/notification", {"id": "7"}, 404, "The log has no notification with the ID 7."),
    ("/dispatch", {"message_id": "none"}, 404, "Neither the dispatches nor the log contain"),
    ("/subscriber", {"email": "\0"}, 400, "email contains NUL or more than 1000 characters."),
    ("/subscriber", {"email": "x" * 400}, 404, "Neither the subscribers nor the log contain"),
    ("/notifications", {"before": "x"}, 400, "before must be the ID of a notification, not"),
    ("/notifications", {"after": "9" * 19}, 400, "after must be the ID"),
    ("/notifications", {"outcome": "good"}, 400, "outcome must be one of recorded, "),
    ("/notifications", {"since": "yesterday"}, 400, "since must be a time such as"),
    ("/notifications", {"until": "0001-01-01T00:00+14:00"}, 400, "until must be a time such as"),
    ("/notifications", {"parked": "yes"}, 400, "parked must be 1 or absent"),
    ("/notifications", {"entry": "A b"}, 400, "entry must be the name of an entry of the"),
    ("/notifications", {"type": "a\0b"}, 400, "type contains NUL or more"),
    ("/notifications", {"recipient": "x" * 1001}, 400, "recipient contains NUL or more"),
    ("/notifications", {"<b>": "1"}, 400, "Unknown field"),
    ("/notifications", {str(n): "1" for n in range(101)}, 400, "There are too many fields"),
    ("/suppressions", {"list": "8"}, 400, "There is no list"),
    ("/suppressions", {"since": "x"}, 400, "since must be a time"),
    ("/suppressions", {"before": "x"}, 400, "before must be the position of a row."),
    ("/suppressions", {"after": "2026/ix"}, 400, "after must be the position of a row."),
    ("/suppressions", {"email": ADA}, 400, "Unknown field"),
]


@IN_BOTH_STORES
def test_wrong_queries(visitor: Visitor) -> None:
    """A missing or impossible argument returns 400, an unknown row or notification 404.

    The error links to a page without arguments, and is not red: nothing is broken.
    """
    for path, query, status, message in WRONG:
        response = visitor.get(path, **query)
        assert (response.status, query) == (status, query)
        page = response.body.decode()
        assert message in page
        assert '<p class="notice" id="error" role="alert">' in page
        assert "<b>" not in page
        other = "suppressions" if path == "/suppressions" else "notifications"
        assert f'<a href="./{other}">Go to the {other}</a>' in page


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_position_that_the_database_rejects(visitor: Visitor) -> None:
    response = visitor.get("/suppressions", after="2026-03-04 05:06:07+00/sx")
    assert response.status == 400
    assert b"before and after must be the position of a row." in response.body


@IN_BOTH_STORES
def test_hostile_payloads(store: SQLStore, visitor: Visitor) -> None:
    """Hostile payloads are escaped and shortened on every page, also in attributes."""
    long = f"{HOSTILE}{'x' * 900_000}"
    receive(
        store,
        {"RecordType": long, "Recipient": long, "MessageID": long},
        {**testing.delivery(HOSTILE, HOSTILE, at=AT), "Tag": "\0</pre><img src=x>"},
        testing.suppression(ADA, ADAS, at=AT, reason=long),
    )
    for page in (
        visitor.shows("/notifications"),
        *(visitor.shows("/notification", id=n) for n in (1, 2, 3)),
        *(visitor.shows("/subscriber", email=email) for email in (HOSTILE, ADA)),
        *(visitor.shows("/dispatch", message_id=each) for each in (HOSTILE, ADAS)),
        visitor.shows("/search", q=f"no {HOSTILE}"),
        visitor.shows("/suppressions", reason=long[:1000]),
        *(visitor.shows("/notifications", **{name: HOSTILE}) for name in FIELDS),
        visitor.get("/notifications", **{HOSTILE: 1}).body.decode(),
    ):
        assert not re.search("<script>|<img", page)
        assert all(each.isprintable() or each == "\n" for each in html.unescape(page))
        assert "alert(1)" in page
        assert len(page) < 200_000


FIELDS = ("type", "reason", "recipient", "message_id")


class Forms(HTMLParser):
    """The fields of a page's forms, as a browser submits them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._select = ""
        self.feed(page)

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        if tag == "select":
            self._select = attributes["name"]
        if tag == "option" and "selected" in attributes:
            self.fields[self._select] = attributes["value"]
        if tag == "input" and attributes.get("type") != "checkbox":
            self.fields[attributes["name"]] = attributes.get("value", "")


@pytest.mark.parametrize(
    "value", [HOSTILE, "100%41+a@example.com", HIDDEN], ids=["markup", "percent", "hidden"]
)
def test_forms_submit_exact_values(store: SQLStore, visitor: Visitor, value: str) -> None:
    """A filter, a search and a hidden field keep what the page can only show escaped."""
    receive(store, {**testing.delivery(value, value, at=AT), "RecordType": value})
    for name, page in (("type", {}), ("recipient", {"message_id": value}), ("message_id", {})):
        shown = Forms(visitor.shows("/notifications", **{name: value}, **page)).fields
        del shown[next(each for each in shown if each.startswith("q"))]
        assert 'data-id="1"' in visitor.shows("/notifications", **shown)
        assert 'data-id="1"' not in visitor.shows("/notifications", **shown, outcome="recorded")
    nothing = f"{value}!"
    shown = Forms(visitor.shows("/search", q=nothing)).fields
    again = visitor.shows("/search", **shown)
    assert Forms(again).fields == shown
    assert (set(shown) == {"q"}) is nothing.isprintable()


def test_a_hidden_address_stays_exact(tables: Tables, visitor: Visitor) -> None:
    """The owner of a dispatch is suppressed, whose address is only shown escaped."""
    address = f"{HIDDEN}@example.com"
    tables.add_dispatch("m-hidden", tables.add_subscriber(address))
    page = visitor.shows("/dispatch", message_id="m-hidden")
    [email] = re.findall(r'<input type="hidden" (.+?)>', page)
    [(name, value)] = Forms(f"<input {email}>").fields.items()
    form = {"action": "suppress", "reason": "asked", name: value}
    assert visitor.post("/dispatch", form, message_id="m-hidden").status == 303
    assert tables.subscriber(address).suppression_reason == "asked"


class TestNotifications:
    def test_filters_and_paging(
        self, store: SQLStore, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
        assert listed(first_outcome="recorded") == [61]
        assert listed(type="Open") == listed(until="2026-03-04T05:06") == []
        assert len(listed(recipient=ADA.upper(), parked=1, since="2026-03-04T05:06")) == 50
        assert '<p class="none">61 notifications</p>' in visitor.shows("/notifications")
        assert '<p class="none">1 notification</p>' in visitor.shows(
            "/notifications", outcome="recorded"
        )
        monkeypatch.setattr("hookrow._statistics.log_search.MOST_RESULTS", 60)
        assert ">60+ notifications</p>" in visitor.shows("/notifications")
        rows = visitor.shows("/notifications", rows=59)
        assert ("<html" in rows, 'data-last="61"' in rows) == (False, True)
        assert listed(rows=59) == [61, 60]
        assert listed(rows=61) == listed(before=1) == listed(after=61) == []
        assert 'href="?after=0">Newer' in visitor.shows("/notifications", before=0)
        receive(store, testing.suppression(ADA, ADAS, at=AT, reason="made up"))
        assert listed(reason="made up") == [62]
        chosen = '<option value="made up" selected>'
        assert chosen in visitor.shows("/notifications", reason="made up")

    def test_types_and_ranges(self, store: SQLStore, visitor: Visitor) -> None:
        """Every type of the newest notifications can be selected, and the usual periods."""
        receive(store, {"RecordType": "Click<b>"}, testing.delivery(ADA, ADAS, at=AT))
        page = visitor.shows("/notifications", outcome="recorded", until="2026-03-04T05:06")
        options = re.findall(r'<option value="(\w.*?)"', page)
        names = sorted([*KNOWN_TYPES, "Click&lt;b&gt;"])
        assert options[: len(names) + 1] == [*names, "other"]
        listed = visitor.shows("/notifications", type="other")
        assert re.findall(r'data-id="(\d+)"', listed) == ["1"]
        assert '<option value="other" selected>' in listed
        ranges = re.findall(r'href="\?outcome=recorded&amp;until=&amp;since=(.*?)">([^<]+)<', page)
        assert [name for _, name in ranges] == ["All", "Hour", "Day", "Week", "30 days"]
        since = datetime.fromisoformat(unquote(ranges[1][0])).replace(tzinfo=UTC)
        assert timedelta(hours=1) <= datetime.now(UTC) - since < timedelta(hours=1, minutes=2)

    def test_entries_of_the_receiver(self, store: SQLStore, visitor: Visitor) -> None:
        """Notifications are named and filtered by their entry, if the receiver has names."""
        receive(store, testing.delivery(ADA, ADAS, at=AT))
        visitor.dashboard = Dashboard(store, authorize=lambda _: "ada")
        assert 'name="entry"' not in visitor.shows("/notifications") + visitor.shows("/")
        assert ">Entry<" not in visitor.shows("/notification", id=1)
        log(store, event("Opened"), entry="sendgrid")
        visitor.dashboard = Dashboard(store, authorize=lambda _: "ada")
        page = visitor.shows("/notifications", entry="sendgrid")
        assert re.findall(r'data-id="(\d+)"', page) == ["2"]
        assert "<bdi>Open</bdi> <small>sendgrid</small>" in page
        assert '<option value="sendgrid" selected>' in page
        assert 'data-live="entry=sendgrid"' in page
        rows = visitor.shows("/notifications", entry="sendgrid", rows=0)
        assert re.findall(r'data-id="(\d+)"', rows) == ["2"]
        assert ">Entry</th><td>sendgrid</td>" in visitor.shows("/notification", id=2)
        parsers = Entries(Entry("postmark", Postmark), Entry("brevo", Postmark))
        visitor.dashboard._context = replace(visitor.dashboard._context, parsers=parsers)
        page = visitor.shows("/notifications", entry="sendgrid")
        found = re.findall(r'<option value="(postmark|brevo|sendgrid)"', page)
        assert found == ["postmark", "brevo", "sendgrid"]

    def test_expired(self, store: SQLStore, visitor: Visitor) -> None:
        """Notifications that are not retried any more are counted, and listed."""
        assert "<dt>Expired</dt>" not in visitor.shows("/")
        log(store, event("Opened"), NO_DISPATCH, ago=timedelta(days=4))
        log(store, event("Delivered"), NO_DISPATCH)
        overview = Visitor(store).shows("/")
        assert '<dt>Expired</dt><dd><a href="./notifications?expired=1">1</a>' in overview
        page = visitor.shows("/notifications", expired=1)
        assert re.findall(r'data-id="(\d+)"', page) == ["1"]
        assert 'name="expired" value="1" checked' in page

    def test_a_long_log(
        self, store: SQLStore, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A search that ends before the start of the log says so and links to the rest."""
        monkeypatch.setattr("hookrow._statistics.log_search.BUDGET", 0)
        monkeypatch.setattr("hookrow._statistics.log_search.NARROWEST", 1)
        rare = testing.delivery("eve@example.com", "old", at=AT)
        receive(store, {"x": 1}, {"x": 2}, rare, {"x": 4}, {"x": 5})
        page = visitor.shows("/notifications", message_id="old")
        assert "No notifications found in the part of the log that was searched." in page
        assert 'href="?message_id=old&amp;before=5">Search older notifications' in page
        assert 'data-id="3"' in visitor.shows("/notifications", message_id="old", before=4)
        page = visitor.shows("/dispatch", message_id="old")
        assert "No notifications found in the part of the log that was searched." in page
        assert "before=5" in page
        assert "subscriber not found" in visitor.shows("/dispatch", message_id="old", before=4)
        page = visitor.shows("/dispatch", message_id="old", before=2)
        assert "No notifications found." in page


@IN_BOTH_STORES
def test_search(store: SQLStore, visitor: Visitor) -> None:
    """The field in the header leads to a notification, a subscriber or a dispatch, or to a hint."""
    receive(store, testing.delivery(ADA, "1234", at=AT))
    receive(store, testing.delivery("eve@example.com", "m 1&<b>", at=AT))
    receive(store, testing.delivery("postmaster", "<5@example.com>", at=AT))
    for text, location in (
        ("2", "./notification?id=2"),
        (f" {ADA} ", f"./subscriber?{urlencode({'email': ADA})}"),
        ("eve@example.com", "./subscriber?email=eve%40example.com"),
        (ADAS, f"./dispatch?message_id={ADAS}"),
        ("1234", "./dispatch?message_id=1234"),
        ("m 1&<b>", "./dispatch?message_id=m+1%26%3Cb%3E"),
        ("<5@example.com>", "./dispatch?message_id=%3C5%40example.com%3E"),
        ("postmaster", "./subscriber?email=postmaster"),
    ):
        response = visitor.get("/search", q=text)
        assert (response.status, response.headers["Location"]) == (303, location)
    for text in ("4", "9" * 40, "nobody@example.com", "<i>", "x" * 400):
        page = visitor.shows("/search", q=text)
        assert f"Nothing found for <q><bdi>{html.escape(text)[:300]}" in page
        assert "filter the notifications" in page
    receive(store, testing.delivery("eve@example.com", "2", at=AT))
    page = visitor.shows("/search", q="2")
    assert '<a href="./notification?id=2">Notification 2</a>' in page
    assert '<a href="./dispatch?message_id=2">Dispatch</a>' in page
    assert page.count("<li>") == 3, "the message id of the log begins with the text, too"
    assert "Nothing found" not in visitor.shows("/search")


def test_replay(store: SQLStore, tables: Tables, visitor: Visitor) -> None:
    """A parked notification shows its reason; a replay records it once its dispatch exists."""
    receive(store, testing.delivery(ADA, "m-1", at=AT))
    page = visitor.shows("/notification", id=1)
    assert "No dispatch had the message ID m-1; 1 post; next retry <time datetime=" in page
    assert "Engine::Dispatch not found" in page
    page = visitor.send("/notification", {"action": "replay"}, id=1)
    assert '<p class="notice warn" role="status">Not recorded: no dispatch was found.' in page
    assert "No dispatch had the message ID m-1; 1 post, 1 retry; " in page
    tables.add_dispatch("m-1", tables.subscriber(ADA).id)
    page = visitor.send("/notification", {"action": "replay"}, id=1)
    assert '<p class="notice good" role="status">Replayed and recorded.' in page
    assert tables.dispatch("m-1").delivered_at == AT


def test_a_near_miss(store: SQLStore, tables: Tables, visitor: Visitor) -> None:
    tables.add_dispatch("<m-near>", tables.add_subscriber("near@example.com"))
    receive(store, testing.delivery(ADA, "m-near", at=AT))
    text = (
        "A dispatch has the message ID &#34;&lt;m-near&gt;&#34;, which is not equal: it is stored "
        "with angle brackets. Store `MessageID` of the response of its API."
    )
    assert text in visitor.shows("/notification", id=1)


def test_spaces_around_values(store: SQLStore, visitor: Visitor) -> None:
    """They are visible as they are in the command, and links keep the exact value."""
    receive(store, testing.delivery(f" {ADA}\u200b", "m-1 ", at=AT))
    for page in (visitor.shows("/notifications"), visitor.shows("/notification", id=1)):
        assert rf"<bdi>\x20{ADA}\u200b</bdi>" in page
        assert r"<bdi>m-1\x20</bdi>" in page
        assert f"subscriber?email=+{quote(ADA)}%E2%80%8B" in page
    assert rf"No subscriber had the address \x20{ADA}\u200b; " in page
    near = f"A subscriber has the address &#34;{ADA}&#34;, which is not equal: it is stored without"
    assert f"{near} spaces or invisible characters." in page


def test_a_failed_replay_of_a_stored_body(store: SQLStore) -> None:
    """The notification stays parked, even if the receiver stores no bodies any more."""
    receive(store, testing.delivery(ADA, "m-1", at=AT))
    with closing(Dashboard(store, authorize=lambda _: "ada", keep_bodies=False)) as dashboard:
        request_head = head("/notification", "id=1", "POST", **{"sec-fetch-site": "same-origin"})
        assert ask(dashboard, request_head, {"action": "replay"}).status == 303
    assert store.log is not None
    [entry] = store.log.newest(Query(), limit=1)
    assert (entry.outcome, entry.retries) == (Result.DISPATCH_NOT_FOUND, 1)
    assert entry.retry_at is not None


def test_every_result_has_a_message_and_a_color() -> None:
    results = {*Result}
    assert {each.value for each in results} <= RESULTS.keys()
    script = static_files()["static/charts.js"].body.decode()
    colors = {*re.findall(r'\["([\w ]+)", \d\]', script)}
    assert colors == {*map(words, results), *KNOWN_TYPES, OTHER}


def test_a_subscriber_that_is_deleted_meanwhile(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the row is found but cannot be read any more, the page does not exist."""
    deleted = (Suppressible.SUBSCRIBER, 77)
    monkeypatch.setattr("hookrow._receiver.manual.find_subscribers", lambda *_: {None: deleted})
    assert visitor.get("/subscriber", email=ADA).status == 404


def test_unsupported(store: SQLStore, visitor: Visitor) -> None:
    """The page says which part of the payload is missing or malformed, and offers no replay."""
    receive(
        store, {"RecordType": "Bounce<b>"}, {**testing.delivery(ADA, ADAS, at=AT), "DeliveredAt": 1}
    )
    for id_, problem in (
        (1, "RecordType Bounce<b> is not supported."),
        (2, "DeliveredAt is not an"),
    ):
        page = visitor.shows("/notification", id=id_)
        assert html.escape(problem) in page
        assert "this payload cannot be recorded or replayed" in page
        assert 'method="post"' not in page
    silent = {"parse": lambda body: Event((), body), "explain": lambda _: None}
    provider = SimpleNamespace(name="postmark", **silent)
    visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", providers=provider)
    page = visitor.shows("/notification", id=2)
    assert "this payload cannot be recorded or replayed" in page
    assert "DeliveredAt is not" not in page


def test_the_parser_of_another_provider(store: SQLStore, visitor: Visitor) -> None:
    """The provider's parser reads its bodies, also for a replay."""

    def parse(body: bytes) -> Event:
        return Event(Postmark.parse(body[::-1]).notifications, body)

    provider = SimpleNamespace(name="mirror", parse=parse)
    visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", providers=provider)
    body = json.dumps(testing.suppression(ADA, ADAS, at=AT)).encode()[::-1]
    record(store, [Arrival(parse(body).notifications, body, datetime.now(UTC), provider="mirror")])
    assert "suppressed for" in visitor.shows("/notification", id=1)
    assert "suppressed for" in visitor.shows("/subscriber", email=ADA)
    assert "Replayed and recorded." in visitor.send("/notification", {"action": "replay"}, id=1)


def test_a_replay_that_would_be_refused_in_part(store: SQLStore, visitor: Visitor) -> None:
    """The page has both what the replay would set and why it would refuse the rest."""
    visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", providers=Effects())
    body = body_of("HardBounce", "Opened", recipient=ADA, message_id="m-nowhere", at=AT).encode()
    log(store, body, NO_DISPATCH)
    page = visitor.shows("/notification", id=1)
    assert "A replay would set only these values. The rest of the event would be refused" in page
    assert NO_DISPATCH.text in page
    assert "HardBounce" in page.partition("Set to")[2]


def test_the_reasons_of_a_host(sqlite_url: str) -> None:
    """The effects of a suppression have the value that the host stores for its reason."""
    world.fill(sqlite_url)
    with closing(SQLStore(sqlite_url, Schema(reasons={"HardBounce": "hard"}))) as store:
        receive(store, testing.suppression(ADA, ADAS, at=AT, reason="HardBounce"))
        visitor = Visitor(store)
        page = visitor.shows("/notification", id=1)
        visitor.dashboard.close(PATIENCE)
    for label in ("Set to", "Current value"):
        assert {*re.findall(rf'="{label}">\s*<bdi class="text">(\w+)<', page)} == {"hard"}


def test_a_body_that_is_not_stored(store: SQLStore, visitor: Visitor) -> None:
    """A notification without its body cannot be replayed."""
    receive(store, {}, keep_bodies=False)
    page = visitor.shows("/notification", id=1)
    assert "The log does not contain the body." in page
    assert 'method="post"' not in page


@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        (Unavailable("It is gone."), 503, "The database cannot be read: It is gone."),
        (KeyError(ADA), 500, "The page failed with KeyError."),
    ],
)
def test_store_errors(
    store: SQLStore,
    visitor: Visitor,
    fault: Exception,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A store error returns 503, a bug 500, both with an explanation.

    The text of a bug's exception, which may quote a row, is not logged.
    """

    def fail(*_: object, **__: object) -> None:
        raise fault

    receive(store, testing.delivery(ADA, ADAS, at=AT))
    monkeypatch.setattr(SQLStore, "reading", fail)
    monkeypatch.setattr(Statistics, "overview", fail)
    monkeypatch.setattr(Statistics, "table_counts", fail)
    for response in (
        visitor.get("/subscriber", email=ADA),
        visitor.get("/"),
        visitor.get("/lists"),
    ):
        assert response.status == status
        assert message in response.body.decode()
    assert ADA not in caplog.text


class TestSuppression:
    def test_subscriber(self, store: SQLStore, visitor: Visitor) -> None:
        """A manual suppression sets the row and logs who did it and why."""
        page = visitor.send("/subscriber", {"action": "suppress", "reason": "a <b>"}, email=ADA)
        assert ">Suppressed.<" in page
        assert "set by notification 1" in page
        assert "suppressed for a <b>, by ada: a <b>" in page
        assert store.log is not None
        [entry] = store.log.newest(Query(recipient=ADA), limit=9)
        body = json.loads(entry.body or "")
        assert (body["ChangedBy"], body["Note"]) == ("ada", "a <b>")
        page = visitor.send("/subscriber", {"action": "lift", "reason": "asked"}, email=ADA)
        assert "Suppression lifted." in page
        assert ">active<" in page
        assert "suppression lifted, by ada: asked" in page
        newer = '<a href="./notification?id=2">notification 2, a reactivation of '
        assert newer in visitor.shows("/notification", id="1")
        assert newer not in visitor.shows("/notification", id="2")

    def test_dispatch(self, store: SQLStore, visitor: Visitor) -> None:
        """A manual suppression of a dispatch changes the same rows as the provider's."""
        receive(store, testing.delivery(ADA, ADAS, at=AT))
        form = {"action": "suppress", "reason": "x", "email": ADA}
        page = visitor.send("/dispatch", form, message_id=ADAS)
        assert "2026-03-04 05:06:07Z" in page
        assert page.count("by notification 2") == 2
        assert ">suppressed<" in visitor.shows("/subscriber", email=ADA)

    def test_optional_records(self, store: SQLStore) -> None:
        recording = SQLStore(store.database, Schema(record=("first_open", "bounce")))
        visitor = Visitor(recording)
        receive(recording, testing.opening(ADA, ADAS, at=AT), testing.bounce(ADA, ADAS, at=AT))
        page = visitor.shows("/dispatch", message_id=ADAS)
        assert page.count("by notification 1") == 2, "opened_at and first_opened_at"
        assert page.count("by notification 2") == 1
        assert page.count("HardBounce") == 1
        assert visitor.shows("/notification", id="2").count("HardBounce") >= 2, "and in its body"

    def test_another_provider(self, store: SQLStore, visitor: Visitor) -> None:
        """The type in the log is the same for every provider."""
        data = {"email_id": ADAS, "to": [ADA]}
        event = {"type": "email.delivered", "created_at": AT.isoformat(), "data": data}
        part = Resend.parse(json.dumps(event).encode())
        record(store, [Arrival(part.notifications, part.body, AT, provider=Resend.name)])
        visitor.dashboard = Dashboard(store, authorize=lambda _: "ada", providers=Resend)
        page = visitor.shows("/dispatch", message_id=ADAS)
        assert "set by notification 1" in page

    @pytest.mark.parametrize("effects", [("Bounced", "HardBounce"), ("HardBounce", "Bounced")])
    @pytest.mark.parametrize("outcome", [Recorded(()), NO_DISPATCH])
    def test_an_event_with_several_effects(
        self, store: SQLStore, effects: Sequence[str], outcome: Outcome
    ) -> None:
        """Each effect is the cause of its time, and a suppression even if others were refused."""
        recording = SQLStore(store.database, Schema(record=("bounce",)))
        visitor = Visitor(recording)
        visitor.dashboard = Dashboard(recording, authorize=lambda _: "ada", providers=Effects())
        receive(store, testing.delivery(ADA, ADAS, at=AT - timedelta(hours=1)))
        log(store, event(*effects), outcome)
        for table, *columns in (
            ("subscribers", "suppressed_at", "suppression_changed_at"),
            ("dispatches", "suppressed_at", "suppression_changed_at", "bounced_at"),
        ):
            for column in columns:
                execute(store, f"UPDATE hookrow_{table} SET {column} = %s", AT)
        page = visitor.shows("/subscriber", email=ADA)
        assert page.count("by notification 2") == 2
        assert "suppressed for HardBounce" in page
        page = visitor.shows("/dispatch", message_id=ADAS)
        was_recorded = isinstance(outcome, Recorded)
        assert page.count("by notification 2") == (3 if was_recorded else 2)
        assert page.count("not set by a notification in the log") == (0 if was_recorded else 1)
        assert "suppressed for HardBounce" in visitor.shows("/notification", id=2)

    def test_part_of_the_history(self, store: SQLStore, visitor: Visitor) -> None:
        """The cause of a time is found on the page, or denied if the page has the whole history."""
        receive(store, testing.suppression(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
        unknown = "not set by a notification in the log"
        for query, causes in (({}, [2, 0]), ({"before": 2}, [2, 0]), ({"after": 1}, [0, 0])):
            page = visitor.shows("/subscriber", email=ADA, **query)
            assert [page.count("by notification 1"), page.count(unknown)] == causes
        update = "UPDATE hookrow_subscribers SET suppressed_at = %s"
        execute(store, update, AT - timedelta(days=1))
        for query, count in (({}, 1), ({"before": 2}, 0), ({"after": 1}, 0)):
            page = visitor.shows("/subscriber", email=ADA, **query)
            assert page.count(unknown) == count

    def test_undated(self, store: SQLStore, visitor: Visitor) -> None:
        """A suppression without a time is found by its arrival, if the log has its address."""
        unguarded = testing.suppression(ADA, None, at=AT)
        del unguarded["ChangedAt"]
        receive(store, testing.delivery(ADA, "m-1", at=AT), unguarded)
        assert visitor.shows("/subscriber", email=ADA).count("by notification 2") == 2
        assert store.log is not None
        store.log.forget(ADA)
        page = visitor.shows("/subscriber", email=ADA)
        assert page.count("not set by a notification in the log") == 2

    @pytest.mark.parametrize(
        ("user", "named"),
        [("ops@example.com", "o***@example.com"), ("a\nERROR b", "a\\nERROR b")],
    )
    def test_log_lines(
        self, store: SQLStore, caplog: pytest.LogCaptureFixture, user: str, named: str
    ) -> None:
        """Log lines contain the user, masked and escaped."""
        with caplog.at_level("INFO", "hookrow"):
            form = {"action": "suppress", "reason": "x"}
            Visitor(store, user).send("/subscriber", form, email=ADA)
        assert caplog.messages == [
            f"Dashboard user {named} requested a manual change (suppress): suppressed, request "
        ]

    @pytest.mark.parametrize(
        ("form", "headers", "status"),
        [
            ({"action": "delete"}, {}, 400),
            ({"reason": " "}, {}, 400),
            ({"reason": "x" * 201}, {}, 400),
            ({"reason": "a\0b"}, {}, 400),
            ({"more": "x"}, {}, 400),
            ({}, {"sec_fetch_site": "same-site"}, 403),
            ({}, {"sec_fetch_site": "none"}, 403),
            ({}, {"sec_fetch_site": ""}, 403),
            ({}, {"origin": "http://evil.example"}, 403),
            ({}, {"origin": "http://localhost:81"}, 403),
            ({}, {"origin": "null"}, 403),
            ({}, {"origin": "localhost"}, 403),
            ({}, {"origin": "http://", "host": ""}, 403),
            ({}, {"origin": ""}, 403),
            ({}, {}, 303),
            ({}, {"sec_fetch_site": "same-origin", "origin": "https://behind.example"}, 303),
        ],
    )
    def test_forms(
        self,
        tables: Tables,
        visitor: Visitor,
        form: dict[str, str],
        headers: dict[str, str],
        status: int,
    ) -> None:
        """A form needs its fields and the dashboard's origin, or changes nothing."""
        visitor.headers |= headers
        sent = {"action": "suppress", "reason": "x", **form}
        assert visitor.post("/subscriber", sent, email=ADA).status == status
        assert (tables.subscriber(ADA).suppressed_at is not None) is (status == 303)

    def test_a_form_without_an_origin(self, tables: Tables, visitor: Visitor) -> None:
        """A form of an unknown origin is refused, even without a host."""
        for name in ("origin", "host"):
            del visitor.headers[name]
            form = {"action": "suppress", "reason": "x"}
            assert visitor.post("/subscriber", form, email=ADA).status == 403
        assert tables.subscriber(ADA).suppressed_at is None

    def test_a_change_that_the_database_rejects(
        self, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The page says so, instead of calling the database unavailable."""
        rejected = Mock(side_effect=Rejected("The database rejects the change: 22001"))
        monkeypatch.setattr(manual, "change_suppression", rejected)
        response = visitor.post("/subscriber", {"action": "suppress", "reason": "x"}, email=ADA)
        assert response.status == 400
        assert "The database rejects the change: 22001." in str(response.body)


@pytest.mark.parametrize("period", ["hour", "day", "week", "month"])
def test_overview(store: SQLStore, visitor: Visitor, period: str) -> None:
    """The overview shows the state of the webhook, and a period's types, outcomes and reasons."""
    bounce = testing.suppression(ADA, ADAS, at=AT, reason="<i>")
    receive(store, testing.delivery(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
    receive(store, bounce, testing.delivery(ADA, "m-9", at=AT), {"RecordType": "<b>"})
    page = visitor.shows("/", period=period)
    for name in ("Delivery", "Open", "SubscriptionChange", "other", "unsupported"):
        field = "first_outcome" if name == "unsupported" else "type"
        linked = rf'href="./notifications\?{field}={name}&amp;since=(.+?)"><bdi>{name}</bdi></a>'
        [since] = re.findall(linked, page)
        listed = visitor.shows("/notifications", since=unquote(since))
        assert listed.count("data-id") == 5
    assert f"<h2>Last {period}</h2>" in page
    assert "<dt>Notifications</dt><dd>5</dd>" in page
    assert "2 of the last 5 were refused" in page
    assert '<a href="./parked?">1</a>' in page
    assert "<dt>Last notification</dt>" in page
    bucket = {"hour": "minute", "day": "hour", "week": "6 hours", "month": "day"}[period]
    assert f">By first outcome <small>notifications per {bucket}, times in UTC</small>" in page
    rates = re.findall(r'data-label="(\w+ \w+)" class="number[^>]*>(.+?)<', page)
    assert rates[:2] == [(f"Last {period}", "0%"), (f"{period.capitalize()} before", "-")]


def test_overview_of_an_entry(store: SQLStore, visitor: Visitor) -> None:
    """The figures are those of the entry, and so are the notifications to which they link."""
    receive(store, testing.delivery(ADA, ADAS, at=AT))
    log(store, event("Bounced", "HardBounce"), entry="sendgrid")
    page = visitor.shows("/", period="week", entry="sendgrid")
    assert "The last notification of the entry sendgrid was received" in page
    assert "<dt>Notifications</dt><dd>1</dd>" in page
    assert "./notifications?entry=sendgrid&amp;type=Bounce&amp;since=" in page
    assert "./notifications?entry=sendgrid&amp;reason=HardBounce&amp;since=" in page
    assert "./parked?entry=sendgrid" in page
    assert '<a href="?entry=sendgrid&amp;period=day">' in page
    assert '<option value="sendgrid" selected>' in page
    assert '<input type="hidden" name="period" value="week">' in page
    assert "<dt>Notifications</dt><dd>2</dd>" in visitor.shows("/")
    eventually(lambda: "Undelivered" in visitor.shows("/"))  # the rows belong to no entry
    assert "Undelivered" not in visitor.shows("/", entry="sendgrid")


def test_rates(store: SQLStore, tables: Tables, visitor: Visitor) -> None:
    """Delivery and open rates are those of the recent dispatches; the limits are marked."""
    receive(store, testing.delivery(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
    for each in ("m-1", "m-2", "m-3"):
        tables.add_dispatch(each, tables.subscriber(ADA).id)
    sent = datetime.now(UTC) - timedelta(hours=3)
    execute(store, "UPDATE hookrow_dispatches SET created_at = %s", sent)
    eventually(lambda: "<dt>Delivery rate</dt><dd>25.0%</dd>" in visitor.shows("/"))
    page = visitor.shows("/")
    assert "<dt>Open rate</dt><dd>25.0%</dd>" in page
    assert "<dt>Undelivered</dt>" in page
    assert "those of the 4 messages sent 1 hour to 7 days ago." in page
    assert "above the limit" not in page
    assert "No complaints in this period." in page
    complaints = (
        testing.suppression(ADA, ADAS, at=AT + timedelta(seconds=n), reason="SpamComplaint")
        for n in range(3)
    )
    receive(store, next(complaints))
    assert "above the limit" not in Visitor(store).shows("/"), "one complaint proves nothing"
    receive(store, *complaints)
    page = Visitor(store).shows("/")
    assert '<span class="outcome bad">300%, above the limit</span>' in page
    assert page.count("above the limit") == 1
    assert 'data-limit="0.001"' in page
    [table] = re.findall('<table data-chart="complaints">(.*?)</table>', page, re.DOTALL)
    rates = re.findall('<td class="number"(?: data-above)?>(.*?)</td>', table)
    assert [each for each in rates if each != "-"] == ["300%"]
    assert table.count("data-above") == 1
    assert len(rates) == 24


def test_the_status(store: SQLStore, visitor: Visitor) -> None:
    """It is at the top of each page; the overview has all findings and their remedies open."""
    page = visitor.shows("/")
    assert '<div role="region" class="state ok" id="state" aria-label="Status">' in page
    assert store.log is not None
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    wrong = partial(RequestHour, RequestKind.WRONG_SECRET)
    store.log.add_requests({wrong("", hour): 2, wrong("", hour - timedelta(hours=25)): 9})
    visitor = Visitor(store)
    for place in ("", "lists", "notifications", "search?q=nothing", "nowhere", "suppressions"):
        name, _, query = place.partition("?")
        page = visitor.get(f"/{name}", **dict(parse_qsl(query))).body.decode()
        assert '<div role="region" class="state attention" id="state"' in page, place
        assert (
            page.count("2 requests with a wrong secret or signature got a 401 in the last day, all")
            == 2
        )
        assert page.count(f'in the hour from <time datetime="{hour:%Y-%m-%dT%H}:00:00Z">') == 2
        assert "<code>hookrow provider register</code> sets the secret" in page
        assert ("<details open>\n<summary><strong>Attention</strong>" in page) == (place == "")
        assert page.index('id="state"') < page.index("<h1>")
    assert 'id="state"' in visitor.shows("/notifications", rows=0)
    visitor.dashboard.close(PATIENCE)


def test_the_status_of_a_receiver_in_this_process(store: SQLStore) -> None:
    """The host passes it; it is shown instead of that of the database alone. Texts are escaped."""
    finding = Finding(StatusLevel.BROKEN, StatusSubject.SPOOL, "<b> is `full`", "Free <i>")
    dashboard = Dashboard(store, authorize=lambda _: True, status=lambda: Status([finding]))
    page = ask(dashboard, head("/")).body.decode()
    assert "&lt;b&gt; is <code>full</code>" in page
    assert "Free &lt;i&gt;" in page
    dashboard.close(PATIENCE)


def test_the_status_of_a_database_that_cannot_be_read(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of the error has it, too."""
    away = Unavailable("It is gone.")
    monkeypatch.setattr("hookrow._migrations.current", Mock(side_effect=away))
    monkeypatch.setattr(SQLStore, "reading", Mock(side_effect=away))
    monkeypatch.setattr(Statistics, "present", Mock(side_effect=away))
    response = Visitor(store).get("/")
    assert response.status == 503
    assert b'<div role="region" class="state broken" id="state"' in response.body
    assert b'<p class="notice bad" id="error" role="alert">' in response.body


def test_overview_while_counting(
    store: SQLStore, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overview shows since when its figures are complete, and how many were recorded later."""
    overview = Statistics(store).overview(Period.DAY, AT)
    changed = {
        "complete_since": AT,
        "recovered": 2,
        "by_reason": {"<i>": 3},
        "by_first_outcome": {Result.FAILED: [0] * 23 + [2]},
        "delays": Delays(median=timedelta(seconds=3), p95=timedelta(minutes=5), count=1000),
    }
    counting = replace(overview, **changed)
    receive(store, testing.delivery(ADA, ADAS, at=AT))
    monkeypatch.setattr(Statistics, "overview", lambda *_: counting)
    page = re.sub("<time[^>]*>", "", visitor.shows("/"))
    reason = "The hourly counts are not up to date"
    assert f"{reason}: figures before 2026-03-04 05:06 UTC</time> are incomplete." in page
    assert "2 notifications that were refused at first were recorded later." in page
    link = "./notifications?reason=%3Ci%3E&amp;since="
    assert link in page
    assert (
        '<bdi>&lt;i&gt;</bdi></a></td><td data-label="Notifications" class="number side">3</td>'
        in page
    )
    assert "3 s <small>median</small>" in page
    assert "5 min <small>95th percentile</small></span> <small>of 1,000 messages" in page


def test_lists(
    store: SQLStore, tables: Tables, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows the counts of all rows, the largest lists, and the reasons."""
    monkeypatch.setattr("hookrow.dashboard._lists.PAGE_SIZE", 1)
    ada, second, third = tables.subscriber(ADA).id, tables.add_list("2"), tables.add_list("3")
    for message_id, list_ in (("m-2", second), ("m-3", second), ("m-4", third)):
        tables.add_dispatch(message_id, ada, list_)
    update = "UPDATE hookrow_dispatches SET created_at = %s WHERE provider_message_id = 'm-4'"
    execute(store, update, datetime.now(UTC) - timedelta(hours=2))
    receive(store, testing.delivery(ADA, "m-3", at=AT))
    receive(store, testing.suppression(ADA, None, at=AT, reason="<i>"))
    eventually(lambda: "All time, as of" in visitor.shows("/lists"))
    page = visitor.shows("/lists")
    assert "<dt>Undelivered</dt><dd>1 <small>" in page
    assert '<dt>Undelivered</dt><dd><a href="./lists">1</a></dd>' in visitor.shows("/")
    pattern = r'data-label="(\w+)"[^>]*>(?:<a[^>]*>)?<(?:span|bdi)>(?:<span class="desk">)?(.+?)<'
    cells = re.findall(pattern, page)
    assert cells[:3] == [("List", "2"), ("Sent", "2"), ("Delivered", "1")]
    assert page.count('data-label="Sent"') == 1
    assert "Lists 1 to 1 of 3, most sent first." in page
    assert "<dt>Sent</dt><dd>4</dd>" in page
    assert "<dt>Delivery rate</dt><dd>25.0%</dd>" in page
    assert "<bdi>&lt;i&gt;</bdi>" in page


@pytest.fixture
def many_lists(store: SQLStore, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add lists to that of Ada: more than fit a page, or than can be chosen from."""
    monkeypatch.setattr("hookrow.dashboard._lists.PAGE_SIZE", 2)
    monkeypatch.setattr("hookrow.dashboard._suppressions.MAX_LISTS_TO_CHOOSE", 1)
    ada = tables.subscriber(ADA).id
    for number, name in enumerate(["b", "<c>", "A"], 1):
        list_ = tables.add_list(name)
        for n in range(number):
            tables.add_dispatch(f"{name}-{n}", ada, list_)
    tables.add_subscription(tables.add_list("d"), ada)
    receive(store, testing.delivery(ADA, "b-0", at=AT))


@pytest.mark.usefixtures("many_lists")
def test_pages_of_lists(visitor: Visitor) -> None:
    """Lists are sorted, searched and paged; each with subscriptions links to its suppressions."""
    eventually(lambda: "All time, as of" in visitor.shows("/lists"))

    def listed(**query: object) -> list[str]:
        page = visitor.shows("/lists", **query)
        return re.findall(r'data-label="List"[^>]*>(?:<a[^>]*>)?<bdi>(.+?)<', page)

    assert listed() == listed(page=0) == ["A", "&lt;c&gt;"]
    assert listed(page=2) == ["news", "b"]
    assert listed(page=3) == listed(page=99) == ["d"]
    assert listed(sort="name") == ["&lt;c&gt;", "A"]
    assert listed(sort="delivered") == ["b", "news"]
    assert listed(sort="subscribed")[0] == "d"
    assert listed(list=" a ") == ["A"]
    assert listed(list="5") == ["d"]
    page = visitor.shows("/lists", sort="name", list="e", page=1)
    assert listed(sort="name", list="e") == ["news"]
    assert 'aria-sort="ascending"><a href="?list=e&amp;sort=name">List' in page
    assert 'href="?list=e&amp;sort=sent">Sent' in page
    assert "No list matches <q><bdi>&lt;x" in visitor.shows("/lists", list="<x")
    page = visitor.shows("/lists", page=2)
    assert 'rel="prev" href="?page=1"' in page
    assert 'rel="next" href="?page=3"' in page
    page = visitor.shows("/lists", page=3)
    assert 'rel="next"' not in page
    assert '<a href="./suppressions?list=5"><bdi>d</bdi></a>' in page
    assert "No suppressions found" in visitor.shows("/suppressions", list="5")
    assert visitor.get("/suppressions", list="4").status == 400  # it has no subscriptions


@IN_BOTH_STORES
def test_names_of_lists(store: SQLStore, visitor: Visitor) -> None:
    """A dispatch shows the name of its list, or its key if hookrow knows no name."""
    assert ", on list news." in visitor.shows("/dispatch", message_id=ADAS)
    host = Visitor(SQLStore(store.database, HOST))
    assert ", on list 1." in host.shows("/dispatch", message_id=ADAS)


def test_without_lists(store: SQLStore) -> None:
    """Without lists, the page shows only the totals; no page mentions lists or undelivered mail.

    The time of sending is unknown, too.
    """
    visitor = Visitor(SQLStore(store.database, replace(HOST, subscriptions=None)))
    eventually(lambda: "All time, as of" in visitor.shows("/lists"))
    page = visitor.shows("/lists")
    assert "<dt>Sent</dt><dd>1</dd>" in page
    for path in ("/", "/lists", "/notifications", "/suppressions"):
        text = re.sub("<[^>]+>", "", visitor.shows(path))
        assert not re.search(r"\b[Ll]ists?\b|Undelivered", text)


def test_lists_before_the_first_count(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says that the tables are being counted."""
    monkeypatch.setattr(Statistics, "table_counts", lambda *_: None)
    assert "The tables are being counted." in visitor.shows("/lists")
    assert "Undelivered" not in visitor.shows("/")


def test_without_a_log(store: SQLStore, tables: Tables) -> None:
    """Without a log, the dashboard shows rows and says what is missing."""
    visitor = Visitor(SQLStore(store.database, Schema(log=None)))
    queries = {"/subscriber": {"email": ADA}, "/dispatch": {"message_id": ADAS}}
    for path in ("/", "/notifications", *queries):
        assert "This store has no log" in visitor.shows(path, **queries.get(path, {}))
    visitor.dashboard.close(PATIENCE)
    visitor.send("/subscriber", {"action": "suppress", "reason": "x"}, email=ADA)
    assert tables.subscriber(ADA).suppression_reason == "x"
    assert visitor.get("/notification", id=1).status == 404
    assert visitor.get("/search", q=ADAS).status == 303
    assert "Nothing found" in visitor.shows("/search", q="1")
