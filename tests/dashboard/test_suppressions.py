"""The dashboard's page of suppressed subscribers, and their download as CSV."""

import asyncio
import csv
import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from werkzeug.test import Client

import asgi_client
from hookrow import Arrival, Postmark, Response, Role, Schema, Suppressed, testing
from hookrow._receiver.entries import Entries, Entry
from hookrow._receiver.recorder import record
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, _suppressions
from hookrow.dashboard._app import SECURITY_HEADERS
from hookrow.stores._errors import Unavailable
from hookrow.stores.sql import SQLStore
from hookrow.stores.sql._row_counts import MAX_COUNTED_REASON
from hookrow.stores.sql._suppressions import SQLSuppressions
from hookrow.testing import Tables
from hookrow.wsgi import WSGI
from visitor import HOST, Visitor, ask, head, receive
from wire import ADA, ADAS, AT, PATIENCE, eventually

PATH = "/suppressions"
CSV = "/suppressions.csv"


def many(store: SQLStore, count: int, schema: Schema = HOST) -> SQLStore:
    """Add suppressed subscribers, of whom always three have the same time.

    Return a store of the same rows with another schema.
    """
    tables = Tables(store)
    people = [
        tables.add_subscriber(
            f"p{n}@example.com",
            suppressed_at=AT + timedelta(seconds=n // 3),
            suppression_reason="SpamComplaint" if n % 50 == 0 else "HardBounce",
        )
        for n in range(1, count + 1)
    ]
    tables.add_subscriber(ADA)
    tables.add_subscription(tables.add_list(), people[0])
    return SQLStore(store.database, schema)


def emails(page: str) -> list[str]:
    return re.findall(r"<bdi>(p\d+@example.com)</bdi>", page)


def follow(visitor: Visitor, page: str, rel: str) -> str:
    """Return the page behind the link "Newer" (`prev`) or "Older" (`next`)."""
    [query] = re.findall(rf'rel="{rel}" href="\?(.+?)"', page)
    return visitor.shows(PATH, **dict(parse_qsl(html.unescape(query))))


def rows(response: Response) -> list[dict[str, str]]:
    """Return the rows of a download."""
    assert response.status == 200, response.body
    assert response.stream is not None
    return [*csv.DictReader(b"".join(response.stream).decode().splitlines())]


@pytest.fixture
def visitor(hookrow_store: SQLStore) -> Iterator[Visitor]:
    visitor = Visitor(many(hookrow_store, 120))
    yield visitor
    visitor.dashboard.close(PATIENCE)


def test_content(hookrow_store: SQLStore, hookrow_tables: Tables) -> None:
    """A row links to the subscriber, to the notification that suppressed it, and its dispatch."""
    hookrow_tables.add_dispatch(ADAS, hookrow_tables.add_subscriber(ADA))
    hookrow_tables.add_subscriber("b@x.org", suppressed_at=AT)
    receive(hookrow_store, testing.suppression(ADA, ADAS, at=AT, reason="<i>"))
    visitor = Visitor(hookrow_store)
    page = visitor.shows(PATH)
    assert "2 suppressed subscribers" in page
    assert "<bdi>&lt;i&gt;</bdi>" in page
    assert 'href="./subscriber?email=ada%40example.com"' in page
    assert '<a href="./notification?id=1">1</a>' in page
    assert f'href="./dispatch?message_id={ADAS}"' in page
    assert page.count("2026-03-04 05:06:07Z") == 2
    assert page.count(">unknown<") == 1  # the host suppressed the other one
    assert 'name="list"' not in page
    visitor.send("/subscriber", {"action": "lift", "reason": "x"}, email=ADA)
    assert "1 suppressed subscriber " in visitor.shows(PATH)
    visitor.dashboard.close(PATIENCE)


def test_flags(hookrow_store: SQLStore) -> None:
    """Without a time, the newest notification in the log has it; there are no periods to choose."""
    with hookrow_store.database.transaction() as connection:
        connection.execute(
            "CREATE TABLE users (id integer PRIMARY KEY, email text, muted boolean NOT NULL)"
        )
        for number, email in enumerate((ADA, "b@x.org"), 1):
            user = [number, email, number == 2]
            connection.execute("INSERT INTO users VALUES (%s, %s, %s)", user)
    absent = dict.fromkeys(("suppression_reason", "suppression_changed_at"))
    users = Role("users", {"suppressed_at": "muted", **absent})
    store = SQLStore(
        hookrow_store.database, Schema(subscribers=users, dispatches=None, subscriptions=None)
    )
    receive(store, testing.suppression(ADA, None, at=AT))
    visitor = Visitor(store)
    page = visitor.shows(PATH)
    assert "2 suppressed subscribers" in page
    assert page.count("2026-03-04 05:06:07Z") == 1
    assert page.count(">unknown<") == 2  # the host suppressed the other one
    assert 'name="since"' not in page
    assert "No suppressions found" in visitor.shows(PATH, since="2026-03-04")
    assert "Lift the suppression" in visitor.shows("/subscriber", email=ADA)
    visitor.send("/subscriber", {"action": "lift", "reason": "x"}, email=ADA)
    assert ">active<" in visitor.shows("/subscriber", email=ADA)
    [row] = rows(ask(visitor.dashboard, head(CSV)))
    assert (row["email"], row["suppressed_at"]) == ("b@x.org", "")
    effects = visitor.shows("/notification", id="1")
    assert ">yes<" in effects
    assert ">no<" in effects
    visitor.dashboard.close(PATIENCE)


def test_flags_with_a_date(hookrow_store: SQLStore) -> None:
    """A suppression begins at the date only if the log has it: the host may have set the flag."""
    with hookrow_store.database.transaction() as connection:
        connection.execute(
            "CREATE TABLE users (id integer PRIMARY KEY, email text, muted boolean NOT NULL, "
            "changed timestamp)"
        )
        for user in enumerate((ADA, "b@x.org"), 1):
            connection.execute("INSERT INTO users VALUES (%s, %s, false, NULL)", user)
    columns = {"suppressed_at": "muted", "suppression_changed_at": "changed"}
    users = Role("users", {**columns, "suppression_reason": None})
    store = SQLStore(
        hookrow_store.database, Schema(subscribers=users, dispatches=None, subscriptions=None)
    )
    receive(store, testing.suppression(ADA, None, at=AT))
    receive(store, testing.reactivation("b@x.org", None, at=AT))
    with store.database.transaction() as connection:
        connection.execute("UPDATE users SET muted = true WHERE id = 2")
    visitor = Visitor(store)
    page = visitor.shows(PATH)
    assert page.count("2026-03-04 05:06:07Z") == 2
    assert page.count("unknown; last change") == 1
    ada, other = rows(ask(visitor.dashboard, head(CSV)))
    assert ada["suppressed_at"].startswith("2026-03-04T05:06:07")
    assert other["suppressed_at"] == ""
    visitor.dashboard.close(PATIENCE)


def test_pages(visitor: Visitor) -> None:
    """Pages of 50 contain every row once, newest first, also if rows have equal times."""
    first = visitor.shows(PATH)
    second = follow(visitor, first, "next")
    third = follow(visitor, second, "next")
    found = emails(first) + emails(second) + emails(third)
    assert [*map(len, map(emails, (first, second, third)))] == [50, 50, 20]
    assert len({*found}) == 120
    at = [int(each[1:-12]) // 3 for each in found]
    assert at == sorted(at, reverse=True)
    assert 'rel="next"' not in third
    assert emails(follow(visitor, third, "prev")) == emails(second)
    back = follow(visitor, follow(visitor, third, "prev"), "prev")
    assert emails(back) == emails(first)
    assert 'rel="prev"' not in first + back


def test_long_reasons(hookrow_store: SQLStore, hookrow_tables: Tables) -> None:
    """A reason that may have been counted with others is not offered as a filter."""
    for n, reason in enumerate(("x" * MAX_COUNTED_REASON, "y" * (MAX_COUNTED_REASON - 1))):
        hookrow_tables.add_subscriber(
            f"p{n}@example.com", suppressed_at=AT, suppression_reason=reason
        )
    visitor = Visitor(hookrow_store)
    eventually(lambda: '<option value="yyy' in visitor.shows(PATH))
    page = visitor.shows(PATH)
    assert '<option value="xxx' not in page
    visitor.dashboard.close(PATIENCE)


def test_rows_that_change_between_pages(visitor: Visitor, hookrow_tables: Tables) -> None:
    """A new suppression does not move the rows of the next page."""
    first = visitor.shows(PATH)
    hookrow_tables.add_subscriber("p121@example.com", suppressed_at=AT + timedelta(days=1))
    assert not {*emails(first)} & {*emails(follow(visitor, first, "next"))}


def test_filters(visitor: Visitor) -> None:
    """The rows, their number and the links depend on reason, list and time."""
    eventually(lambda: "HardBounce (118)" in visitor.shows(PATH))
    page = visitor.shows(PATH, reason="SpamComplaint")
    assert (emails(page), "2 suppressed subscribers" in page) == (
        ["p100@example.com", "p50@example.com"],
        True,
    )
    assert 'value="SpamComplaint" selected' in page
    assert "./suppressions.csv?reason=SpamComplaint" in page
    assert emails(visitor.shows(PATH, list=1)) == ["p1@example.com"]
    assert '<option value="1" selected>1</option>' in visitor.shows(PATH, list=1)
    since = (AT + timedelta(seconds=40)).isoformat()
    assert emails(visitor.shows(PATH, since=since)) == ["p120@example.com"]
    page = visitor.shows(PATH, reason="(none)")
    assert "0 suppressed subscribers" in page
    assert "No suppressions found." in page
    before = datetime.now(UTC)
    page = visitor.shows(PATH, reason="<b>")
    assert '<option value="&lt;b&gt;" selected>' in page
    week = timedelta(days=7)
    days = {f"{now - week:%Y-%m-%d}" for now in (before, datetime.now(UTC))}  # two at midnight
    assert any(f'href="?reason=%3Cb%3E&amp;since={day}' in page for day in days)


def test_entries_of_the_receiver(hookrow_store: SQLStore, hookrow_tables: Tables) -> None:
    """The suppressed subscribers of an entry can be selected, if the receiver has several."""
    for number, entry in enumerate((None, "sendgrid", "postmark")):
        visitor = Visitor(hookrow_store)
        assert ('name="entry"' in visitor.shows(PATH)) is (number > 1)
        email = f"p{number}@example.com"
        hookrow_tables.add_subscriber(email)
        sent = Suppressed(email, None, AT + number * timedelta(seconds=1), "HardBounce")
        record(hookrow_store, [Arrival((sent,), email.encode(), AT, entry=entry)])
    page = visitor.shows(PATH, entry="sendgrid")
    assert (emails(page), "1 suppressed subscriber " in page) == (["p1@example.com"], True)
    assert '<option value="sendgrid" selected>' in page
    assert "./suppressions.csv?entry=sendgrid" in page
    assert [row["email"] for row in rows(visitor.get(CSV, entry="postmark"))] == ["p2@example.com"]
    visitor.dashboard.close(PATIENCE)


def test_entries_of_tenants(hookrow_store: SQLStore, hookrow_tables: Tables) -> None:
    """For an entry with a tenant, the tenant's rows are listed, whoever suppressed them."""
    database = hookrow_store.database
    people = [f"p{team}@example.com" for team in (1, 2)]
    for email in people:
        hookrow_tables.add_subscriber(email, suppressed_at=AT)
    with database.transaction() as connection:
        connection.execute("ALTER TABLE hookrow_subscribers ADD COLUMN team INTEGER")
        connection.execute("UPDATE hookrow_subscribers SET team = id")
    store = SQLStore(database, Schema(subscribers=Role("hookrow_subscribers", tenant="team")))
    entries = Entries(Entry("acme", Postmark, 1), Entry("globex", Postmark, 2))
    visitor = Visitor(store, providers=entries)
    found = {name: emails(visitor.shows(PATH, entry=name)) for name in ("acme", "globex", "brevo")}
    assert found == {"acme": people[:1], "globex": people[1:], "brevo": []}
    visitor.dashboard.close(PATIENCE)


def test_a_search_that_takes_long(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page shows what it found in time, and links to the rest; the number is a minimum."""
    monkeypatch.setattr(_suppressions, "SEARCH_TIMEOUT", 0)
    monkeypatch.setattr(_suppressions, "COUNT_TIMEOUT", 0)
    monkeypatch.setattr(_suppressions, "MIN_PART_ROWS", 30)
    page = visitor.shows(PATH, reason="SpamComplaint")
    assert (emails(page), "1+ suppressed subscribers" in page) == (["p100@example.com"], True)
    assert ">Search older suppressions<" in page
    page = follow(visitor, page, "next")
    assert "No suppressions found in the part that was searched." in page
    assert "1+ suppressed subscribers" in page
    assert emails(follow(visitor, page, "next")) == ["p50@example.com"]
    monkeypatch.setattr(_suppressions, "SEARCH_TIMEOUT", 60)
    monkeypatch.setattr(_suppressions, "MAX_COUNT", 20)
    assert "20+ suppressed subscribers" in visitor.shows(PATH)


def test_without_a_log(hookrow_store: SQLStore) -> None:
    """Without a log, no notification is known."""
    visitor = Visitor(many(hookrow_store, 1, Schema(log=None)))
    assert ">unknown<" in visitor.shows(PATH)
    visitor.dashboard.close(PATIENCE)


class TestDownload:
    @pytest.mark.parametrize(("batch", "width"), [(1000, 5000), (7, 5000), (7, 10), (50, 25)])
    def test_all_rows(
        self, visitor: Visitor, monkeypatch: pytest.MonkeyPatch, batch: int, width: int
    ) -> None:
        """A download has every row once, oldest first, however it is read."""
        monkeypatch.setattr(_suppressions, "DOWNLOAD_BATCH", batch)
        monkeypatch.setattr(_suppressions, "MIN_PART_ROWS", width)
        found = [row["email"] for row in rows(visitor.get(CSV))]
        assert len(found) == len({*found}) == 120
        at = [int(each[1:-12]) // 3 for each in found]
        assert at == sorted(at)
        spam = rows(visitor.get(CSV, reason="SpamComplaint", list=""))
        assert [each["email"] for each in spam] == ["p50@example.com", "p100@example.com"]
        assert rows(visitor.get(CSV, list=1, reason="(none)")) == []

    def test_cells(self, hookrow_store: SQLStore, hookrow_tables: Tables) -> None:
        """Cells that a spreadsheet would evaluate are escaped; times are ISO 8601 in UTC."""
        formula = "=cmd|' /C calc'!A0@example.com"
        hookrow_tables.add_subscriber(formula)
        receive(hookrow_store, testing.suppression(formula, "+1", at=AT, reason="@SUM"))
        reasons = ("-1", "\tx", "\rx", 'a,"b"', "zoë", "\uff0d1", "\xa0=1", "\u200b=1")
        for n, reason in enumerate(reasons, 2):
            hookrow_tables.add_subscriber(f"p{n}", suppressed_at=AT, suppression_reason=reason)
        response = Visitor(hookrow_store).get(CSV)
        assert SECURITY_HEADERS.items() <= response.headers.items()
        assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert response.headers["Content-Disposition"] == 'attachment; filename="suppressions.csv"'
        assert response.stream is not None
        lines = b"".join(response.stream).decode().split("\r\n")
        assert lines == [
            "email,reason,suppressed_at,notification,message_id",
            "'=cmd|' /C calc'!A0@example.com,'@SUM,2026-03-04T05:06:07.123456Z,1,'+1",
            "p2,'-1,2026-03-04T05:06:07.123456Z,,",
            "p3,'\tx,2026-03-04T05:06:07.123456Z,,",
            'p4,"\'\rx",2026-03-04T05:06:07.123456Z,,',
            'p5,"a,""b""",2026-03-04T05:06:07.123456Z,,',
            "p6,zoë,2026-03-04T05:06:07.123456Z,,",
            "p7,'\uff0d1,2026-03-04T05:06:07.123456Z,,",
            "p8,'\xa0=1,2026-03-04T05:06:07.123456Z,,",
            "p9,'\u200b=1,2026-03-04T05:06:07.123456Z,,",
            "",
        ]

    def test_a_client_that_leaves(
        self, hookrow_store: SQLStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On ASGI and WSGI, each batch is read when it is needed, and none after a disconnect."""
        monkeypatch.setattr(_suppressions, "DOWNLOAD_BATCH", 10)
        read, original = [0], SQLSuppressions.read

        def counted(*given: Any, **limit: Any) -> Any:  # noqa: ANN401 - as the method
            read[0] += 1
            return original(*given, **limit)

        monkeypatch.setattr(_suppressions, "divide", lambda _, start, __: iter([start]))
        monkeypatch.setattr(SQLSuppressions, "read", counted)
        dashboard = Dashboard(many(hookrow_store, 120), authorize=lambda _: True)
        response = Client(WSGI(dashboard)).get(CSV, buffered=False)
        chunks = iter(response.response)
        first, second = next(chunks), next(chunks)
        assert (first.count(b"\n"), second.count(b"\n"), read) == (11, 10, [2])
        response.close()
        assert asyncio.run(_leave_after(dashboard, 3)) == 3
        assert read[0] <= 2 + 4

    @pytest.mark.parametrize(
        ("user", "named"), [("ada", "ada"), ("a@x.org", "a***@x.org"), (True, "unknown")]
    )
    def test_log(
        self,
        hookrow_store: SQLStore,
        caplog: pytest.LogCaptureFixture,
        *,
        user: str | bool,
        named: str,
    ) -> None:
        """The user is logged as soon as a download begins, but not for a HEAD."""
        dashboard = Dashboard(many(hookrow_store, 3), authorize=lambda _: user)
        with caplog.at_level("INFO", "hookrow"):
            assert ask(dashboard, head(CSV)).status == 200
            assert ask(dashboard, head(CSV, method="HEAD")).status == 200
        assert [each.partition(", request")[0] for each in caplog.messages] == [
            f"Dashboard user {named} downloaded suppressions as CSV"
        ]

    @pytest.mark.parametrize("app", [ASGI, WSGI])
    def test_hosts(
        self,
        app: Any,  # noqa: ANN401 - a class of a host
        hookrow_store: SQLStore,
    ) -> None:
        """Each host streams without a length; HEAD has no body; users without access get 403."""
        store = many(hookrow_store, 3)

        def request(method: str, *, access: bool = True) -> Any:  # noqa: ANN401 - a client's response
            mounted = app(Dashboard(store, authorize=lambda _: access))
            if app is WSGI:
                return Client(mounted).open(CSV, method=method)
            return asgi_client.request(mounted, method, CSV)

        for method, lines in (("GET", 4), ("HEAD", 0)):
            response = request(method)
            assert response.status_code == 200
            assert response.text.count("@example.com") == max(lines - 1, 0)
            assert "content-length" not in response.headers
        assert request("GET", access=False).status_code == 403

    def test_errors(
        self,
        hookrow_store: SQLStore,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """An error returns 503 if nothing has been sent, and otherwise cuts the file off."""
        monkeypatch.setattr(_suppressions, "DOWNLOAD_BATCH", 10)
        original, allowed = SQLSuppressions.read, [0]

        def read(*given: Any, **limit: Any) -> Any:  # noqa: ANN401 - as the method
            if not allowed[0]:
                raise Unavailable("It is gone.")
            allowed[0] -= 1
            return original(*given, **limit)

        monkeypatch.setattr(SQLSuppressions, "read", read)
        monkeypatch.setattr(_suppressions, "divide", lambda _, start, __: iter([start]))
        dashboard = Dashboard(many(hookrow_store, 120), authorize=lambda _: True)
        assert ask(dashboard, head(CSV)).status == 503
        allowed[0] = 2
        response = ask(dashboard, head(CSV))
        assert (response.status, response.stream is None) == (200, False)
        assert response.stream is not None
        with pytest.raises(Unavailable, match="It is gone"):
            list(response.stream)
        assert "A download of suppressions failed: It is gone." in caplog.text


async def _leave_after(dashboard: Dashboard, chunks: int) -> int:
    """Download with ASGI, disconnect after some chunks; return how many were sent."""
    left, messages, sent = asyncio.Event(), iter([{"type": "http.request"}]), [0]

    async def receive() -> Any:  # noqa: ANN401 - a message
        if message := next(messages, None):
            return message
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:  # noqa: ANN401 - a message
        sent[0] += bool(message.get("body"))
        if sent[0] == chunks:
            left.set()
            await asyncio.sleep(0)

    scope = {"type": "http", "method": "GET", "path": CSV, "headers": []}
    await ASGI(dashboard)(scope, receive, send)
    return sent[0]
