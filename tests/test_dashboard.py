"""The dashboard: who may come in, what it shows of real stores, and what it does."""

from __future__ import annotations

import html
import json
import re
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest

import world
from hookrow import ConfigurationError, Head, Postmark, Receiver, Request, Response, testing
from hookrow.asgi import ASGI, SLOWEST_CALL
from hookrow.dashboard import Dashboard, basic, listing, pages, served, visitor
from hookrow.dashboard.handler import PATIENCE as PATIENCE_OF_PAGES
from hookrow.dashboard.handler import SECURITY
from hookrow.dashboard.visitor import token
from hookrow.figures import searching
from hookrow.promise import Promise
from hookrow.settings import DashboardAccess
from hookrow.stores import Unavailable
from hookrow.stores.log import Query
from hookrow.stores.memory import MemoryStore
from hookrow.stores.memory_census import MemoryCensus
from hookrow.stores.memory_log import MemoryLog
from hookrow.stores.sql import SQLStore
from hookrow.testing.applications import call_asgi, call_wsgi
from hookrow.wsgi import WSGI
from wire import PATIENCE, SECRET, eventually

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x07{{7*7}}"


def head(path: str, query: str = "", method: str = "GET", **headers: str) -> Head:
    """Return the head of a request below the mount /mail/dashboard."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Head(method, f"/mail/dashboard{path}", sent, "/mail/dashboard", query)


def ended(answer: Response | Promise[Response] | None) -> Response:
    """Return the response of an answer, which may be a promise."""
    assert answer is not None
    return answer.result(PATIENCE) if isinstance(answer, Promise) else answer


opened: list[Dashboard] = []
"""Those that may be counting, in threads with connections of their own."""


class Visitor:
    """Somebody who looks at pages, and keeps a cookie."""

    def __init__(self, store: Any, **options: Any) -> None:  # noqa: ANN401 - any store
        self.dashboard = Dashboard(store, authorize=lambda _: "ada", **options)
        opened.append(self.dashboard)
        self._headers = {"host": "localhost"}

    def get(self, path: str, **query: object) -> Response:
        """Ask for a page; it says to the browser what every answer says."""
        response = ended(
            self.dashboard(Request(head(path, urlencode(query), **self._headers), b""))
        )
        if "Set-Cookie" in response.headers:
            self._headers["cookie"] = response.headers["Set-Cookie"].partition(";")[0]
        assert SECURITY.items() <= response.headers.items()
        return response

    def shows(self, path: str, **query: object) -> str:
        """Return a page's text."""
        response = self.get(path, **query)
        assert response.status == 200, response.body.decode()
        return response.body.decode()

    def post(self, path: str, form: Mapping[str, str], **query: object) -> Response:
        """Send a form to a page."""
        asked = head(path, urlencode(query), "POST", **self._headers)
        return ended(self.dashboard(Request(asked, urlencode(form).encode())))

    def send(self, path: str, form: Mapping[str, str], **query: object) -> str:
        """Fill in the form of a page, and follow where it leads."""
        token = re.search(r'name="token" value="([^"]+)"', self.shows(path, **query))
        assert token is not None
        response = self.post(path, {"token": token[1], **form}, **query)
        assert response.status == 303, response.body
        place, _, asked = response.headers["Location"].partition("?")
        assert place == f".{path}"
        return html.unescape(self.shows(path, **dict(parse_qsl(asked))))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Make each store, with the rows of the cases."""
    if request.param == "memory":
        made: Any = MemoryStore(
            subscribers={1: {"email": ADA}},
            dispatches={1: {"provider_message_id": ADAS, "subscriber_id": 1, "list_id": 1}},
        )
    else:
        url = request.getfixturevalue(f"{request.param}_url")
        world.fill(url)
        made = SQLStore(url)
    yield made
    while opened:
        opened.pop().close(PATIENCE)
    if isinstance(made, SQLStore):
        made.close()


def came(store: Any, *payloads: object) -> None:  # noqa: ANN401 - any store
    """Have the store record what came, each by itself."""
    receiver = Receiver(Postmark(SECRET), store)
    for payload in payloads:
        body = json.dumps(payload).encode()
        receiver.answer(Request(Head("POST", "/provider/webhooks", ()), body))


def test_patience() -> None:
    """A page that the database holds up says so, before an ASGI application gives up on it."""
    assert PATIENCE_OF_PAGES < SLOWEST_CALL


class TestWhoMayComeIn:
    def test_never_open_by_default(self) -> None:
        """Without saying who may come in none can be built."""
        with pytest.raises(ConfigurationError, match="never open by default"):
            Dashboard(MemoryStore())

    @pytest.mark.parametrize(
        ("answer", "status"),
        [(False, 403), ("", 403), (Response(302, b"", {"Location": "/login"}), 302)],
    )
    def test_refused(self, answer: Any, status: int) -> None:  # noqa: ANN401 - one of three
        """Who may not come in is told so before anything is looked at, and so is a request."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: answer)
        refused = ended(dashboard.admit(head("/notifications")))
        assert refused.status == ended(dashboard(Request(head("/"), b""))).status == status
        assert SECURITY.items() <= refused.headers.items()

    @pytest.mark.parametrize("answer", [None, 1, b"ada", object()])
    def test_what_says_neither_lets_nobody_in(
        self,
        answer: Any,  # noqa: ANN401 - anything
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Another answer, such as that of an async function, is logged, and answered 500."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: answer)
        refused = ended(dashboard.admit(head("/notifications")))
        assert refused.status == ended(dashboard(Request(head("/"), b""))).status == 500
        assert f"authorize returned {type(answer).__name__}: let it return" in caplog.text

    def test_a_check_that_fails_lets_nobody_in(self, caplog: pytest.LogCaptureFixture) -> None:
        """What it raises is logged with the request's id, and answered 500."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: bool(1 / 0))
        refused = ended(dashboard.admit(replace(head("/notifications"), request_id="r-1")))
        assert refused.status == 500
        assert vars(caplog.records[0])["request_id"] == "r-1"

    @pytest.mark.parametrize(
        ("given", "status"),
        [
            (None, 401),
            ("Basic " + b64encode(b"ada:wrong").decode(), 401),
            ("Basic ada:pass:word", 401),
            ("Bearer " + b64encode(b"ada:pass:word").decode(), 401),
            ("basic " + b64encode("ada:pass:wörd".encode()).decode(), 200),
        ],
    )
    def test_basic(self, given: str | None, status: int) -> None:
        """User and password are asked for, and compared whole."""
        dashboard = Dashboard(MemoryStore(), authorize=basic("ada", "pass:wörd"))
        asked = head("/notifications", **({} if given is None else {"authorization": given}))
        response = ended(dashboard.admit(asked) or dashboard(Request(asked, b"")))
        assert response.status == status
        assert ("WWW-Authenticate" in response.headers) == (status == 401)

    @pytest.mark.parametrize(("user", "password"), [("", "x"), ("x", ""), ("a:b", "x")])
    def test_basic_that_cannot_work(self, user: str, password: str) -> None:
        """An empty password would be no check, and a colon ends the user."""
        with pytest.raises(ConfigurationError, match="both not empty"):
            basic(user, password)

    def test_asked_once(self) -> None:
        """`authorize` is called once per request, in ASGI and in WSGI."""
        asked: list[Head] = []

        def authorize(head: Head) -> bool:
            asked.append(head)
            return True

        dashboard = Dashboard(MemoryStore(), authorize=authorize)
        for application in (ASGI(dashboard), WSGI(dashboard)):
            assert testing.post(application, {}, path="/notifications")[0] == 405
        assert [each.path for each in asked] == ["/notifications"] * 2

    def test_another_dashboards_visitor(self) -> None:
        """A request that one dashboard admits is not admitted by another, nor a second time."""
        one = Dashboard(MemoryStore(), authorize=lambda _: True)
        answers = iter([True, False])
        another = Dashboard(MemoryStore(), authorize=lambda _: next(answers))
        asked = Request(head("/notifications"), b"")
        assert one.admit(asked.head) is another.admit(asked.head) is None
        assert [ended(another(asked)).status for _ in range(2)] == [200, 403]

    def test_served(self) -> None:
        """`serve` requires a password, or at a loopback address a token."""
        made = partial(served, MemoryStore(), path="/mail/dashboard")
        access = DashboardAccess.generate(8000)
        for host, password, status in (("127.0.0.1", None, 401), ("0.0.0.0", "word", 401)):
            closed = made(host=host, password=password, access=access)
            assert ended(closed.admit(head("/lists", host="localhost"))).status == status
        with pytest.raises(ConfigurationError, match="HOOKROW_DASHBOARD_PASSWORD"):
            made(host="0.0.0.0", password="", access=access)
        with pytest.raises(ConfigurationError, match="needs a password or a token"):
            made(host="127.0.0.1", password=None, access=None)


PASSWORD = "the-right-password"


def attempt(password: str) -> Head:
    """Return the head of a request with a password of the user ada@example.com."""
    given = b64encode(f"{ADA}:{password}".encode()).decode()
    return replace(head("/notifications", authorization=f"Basic {given}"), request_id="r-1")


class TestWrongPasswords:
    @pytest.mark.parametrize("call", [call_asgi, call_wsgi])
    def test_delayed(self, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401 - one of two
        """In each host a wrong password is answered after the delay, the right one at once."""
        monkeypatch.setattr(visitor, "DELAY", 0.5)
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        host = ASGI(dashboard) if call is call_asgi else WSGI(dashboard)
        for password, status, is_delayed in (("wrong", 401, True), (PASSWORD, 404, False)):
            began = time.monotonic()
            asked = Request(replace(attempt(password), path="/nowhere"), b"")
            assert call(host, asked, *([PATIENCE] if call is call_asgi else []))[0] == status
            assert (time.monotonic() - began >= 0.5) is is_delayed

    def test_too_many(self) -> None:
        """At most 32 answers are delayed, without a thread for each; the right one never is."""
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        before = threading.active_count()
        refused = [dashboard.admit(attempt(f"wrong-{n}")) for n in range(33)]
        assert threading.active_count() <= before + 1
        assert dashboard.admit(attempt(PASSWORD)) is None
        *delayed, too_many = refused
        assert isinstance(too_many, Response)
        assert (too_many.status, too_many.headers["Retry-After"]) == (429, "5")
        assert not any(each.done() for each in delayed if isinstance(each, Promise))
        assert {ended(each).status for each in delayed} == {401}
        assert SECURITY.items() <= ended(delayed[0]).headers.items()
        assert isinstance(dashboard.admit(attempt("wrong")), Promise)

    def test_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """Wrong passwords are logged, a few times only, with neither user nor password."""
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        for _ in range(40):
            dashboard.admit(attempt("wrong-word"))
        assert caplog.messages == ["The dashboard refused a wrong user or password, request r-1"]


ACCESS = DashboardAccess(token="the-token", key="the-key", port=8000)


class TestToken:
    @pytest.fixture
    def dashboard(self) -> Dashboard:
        """Return a dashboard without a password."""
        store = MemoryStore(subscribers={1: {"email": ADA}})
        mount = "/mail/dashboard"
        return served(store, host="127.0.0.1", password=None, access=ACCESS, path=mount)

    def ask(self, dashboard: Dashboard, asked: Head, form: Mapping[str, str] = {}) -> Response:
        """Ask as a host does."""
        body = urlencode(form).encode()
        return ended(dashboard.admit(asked) or dashboard(Request(asked, body)))

    @pytest.mark.parametrize(
        ("path", "query", "location"),
        [
            ("/", "token=the-token", "./"),
            ("", "token=the-token", "./dashboard"),
            (
                "/notifications",
                "type=Open&token=the-token&a=%26",
                "./notifications?type=Open&a=%26",
            ),
            ("//evil.example", "token=the-token", "./evil.example"),
        ],
    )
    def test_right(self, dashboard: Dashboard, path: str, query: str, location: str) -> None:
        """The right token sets a cookie for pages and forms, and redirects to the clean address."""
        answer = self.ask(dashboard, head(path, query))
        assert (answer.status, answer.headers["Location"]) == (303, location)
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        value, _, attributes = answer.headers["Set-Cookie"].partition("; ")
        assert attributes == "Path=/mail/dashboard; HttpOnly; SameSite=Strict"
        assert value.startswith("hookrow_session_8000=")
        assert "the-token" not in f"{answer.headers}{answer.body!r}"
        page = self.ask(dashboard, head("/subscriber", f"email={ADA}", cookie=value))
        assert page.status == 200
        kept = f"{value}; {page.headers['Set-Cookie'].partition(';')[0]}"
        [token] = re.findall('name="token" value="(.+?)"', page.body.decode())
        form = {"token": token, "action": "suppress", "reason": "x"}
        posted = head("/subscriber", f"email={ADA}", "POST", cookie=kept)
        assert self.ask(dashboard, posted, form).status == 303

    @pytest.mark.parametrize(
        ("method", "query", "cookie"),
        [
            ("GET", "", ""),
            ("GET", "token=", ""),
            ("GET", "token=wrong", ""),
            ("GET", "token=the-token&token=wrong", ""),
            ("GET", "token=%C3%A9%FF", ""),
            ("GET", "&".join(f"{n}=1" for n in range(101)) + "&token=the-token", ""),
            ("GET", "", "hookrow_session_8000="),
            ("GET", "", "hookrow_session_8000=the-token"),
            ("GET", "", "hookrow_session_8000=\xe9"),
            ("GET", "", "hookrow_session_8001={session}"),
            ("GET", "token=wrong", "hookrow_session_8000={session}"),
            ("POST", "token=the-token", ""),
        ],
    )
    @pytest.mark.parametrize("path", ["", "/", "/subscriber", "/static/dashboard.css", "/nowhere"])
    def test_refused(
        self, dashboard: Dashboard, path: str, method: str, query: str, cookie: str
    ) -> None:
        """Every other request is 401, with a page that explains how to sign in."""
        session = self.ask(dashboard, head("/", "token=the-token")).headers["Set-Cookie"]
        value = session.partition(";")[0].partition("=")[2]
        sent = cookie.format(session=value)
        answer = self.ask(dashboard, head(path, query, method, cookie=sent))
        assert answer.status == 401
        assert "HOOKROW_DASHBOARD_PASSWORD" in answer.body.decode()
        assert "Set-Cookie" not in answer.headers
        assert (answer.headers["Referrer-Policy"], answer.headers["Cache-Control"]) == (
            "no-referrer",
            "no-store",
        )

    def test_over_tls(self, dashboard: Dashboard) -> None:
        """The cookie is sent over TLS only if it was set over TLS."""
        answer = self.ask(dashboard, replace(head("/", "token=the-token"), secure=True))
        assert answer.headers["Set-Cookie"].endswith("; Secure")

    def test_another_start(self, dashboard: Dashboard) -> None:
        """Each start has its own token, and its own key."""
        one, another = DashboardAccess.generate(8000), DashboardAccess.generate(8000)
        assert len({one.token, another.token, one.key, another.key}) == 4
        assert one.token not in repr(one)
        cookie = self.ask(dashboard, head("/", "token=the-token")).headers["Set-Cookie"]
        later = served(MemoryStore(), host="::1", password=None, access=one, path="/mail/dashboard")
        assert self.ask(later, head("/", cookie=cookie.partition(";")[0])).status == 401


class TestWhereItIs:
    @pytest.mark.parametrize(
        ("path", "root", "mount"),
        [
            ("/mail/dashboard/notifications", "/mail/dashboard", ""),
            ("/mail/dashboard/notifications", "/api/mail/dashboard", ""),
            ("/mail/dashboard/notifications", "", "mail/dashboard/"),
            ("/notifications", "", ""),
            ("/notifications/", "", ""),
            ("/notifications", "/mail/dashboard", ""),
        ],
    )
    def test_found(self, path: str, root: str, mount: str) -> None:
        """It is found below any mount, also where the root is lost, or begins with a proxy's."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: True, mount_path=mount)
        assert ended(dashboard(Request(Head("GET", path, (), root), b""))).status == 200

    def test_slash_at_the_end(self) -> None:
        """Links are relative: without the slash at the mount's end it is added."""
        visitor = Visitor(MemoryStore())
        response = visitor.get("")
        assert (response.status, response.headers["Location"]) == (303, "./dashboard/")

    @pytest.mark.parametrize(
        ("path", "method", "status"),
        [
            ("/nowhere", "GET", 404),
            ("/static/../handler.py", "GET", 404),
            ("/static/handler.py", "GET", 404),
            ("/notifications", "POST", 405),
            ("/notifications", "HEAD", 200),
        ],
    )
    def test_not_there(self, path: str, method: str, status: int) -> None:
        """What is not there is said."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: True)
        assert ended(dashboard(Request(head(path, method=method), b""))).status == status

    @pytest.mark.parametrize(
        ("path", "allowed"), [("/notifications", "GET, HEAD"), ("/subscriber", "GET, HEAD, POST")]
    )
    def test_another_method(self, path: str, allowed: str) -> None:
        """Who asks by a method that a page does not have is told which it has."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: True)
        response = ended(dashboard(Request(head(path, method="DELETE"), b"")))
        assert (response.status, response.headers["Allow"]) == (405, allowed)

    def test_another_path(self) -> None:
        """Below a mount path of its own it answers nothing else."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: True, mount_path="/other")
        assert ended(dashboard(Request(head("/notifications"), b""))).status == 404

    @pytest.mark.parametrize("name", ["dashboard.css", "charts.js", "uPlot.min.js", "icon.svg"])
    def test_files(self, name: str) -> None:
        """What the pages need is kept by the browser, and never guessed at."""
        dashboard = Dashboard(MemoryStore(), authorize=lambda _: True)
        response = ended(dashboard(Request(head(f"/static/{name}"), b"")))
        assert (response.status, response.headers["Cache-Control"]) == (
            200,
            "private, max-age=3600",
        )
        assert response.headers["X-Content-Type-Options"] == "nosniff"


class TestNotifications:
    def test_filters_and_paging(self, store: Any) -> None:  # noqa: ANN401 - any store
        """They are listed newest first and found by each filter, and paged by their number."""
        came(store, *(testing.delivery(ADA, f"x-{n}", at=AT) for n in range(60)))
        came(store, testing.delivery(ADA, ADAS, at=AT))
        visitor = Visitor(store)

        def listed(**query: object) -> list[int]:
            page = visitor.shows("/notifications", **query)
            return [int(each) for each in re.findall(r'data-id="(\d+)"', page)]

        assert listed() == [*range(61, 11, -1)]
        assert listed(before=12) == [*range(11, 0, -1)]
        assert listed(after=11) == [*range(61, 11, -1)]
        assert listed(after=9, outcome="dispatch_not_found") == [*range(59, 9, -1)]
        assert listed(outcome="recorded") == listed(message_id=ADAS) == [61]
        assert listed(type="Open") == listed(recipient="nobody@example.com") == []
        assert len(listed(recipient=ADA.upper(), parked=1)) == 50
        assert listed(since="2026-03-04T05:06") == listed(until="2100-01-01T00:00:00Z")
        assert listed(until="2026-03-04T05:06", message_id="none") == []
        rows = visitor.shows("/notifications", rows=59)
        assert "<html" not in rows
        assert 'data-seen="61"' in rows
        assert re.findall(r'data-id="(\d+)"', rows) == ["61", "60"]
        assert listed(rows=61) == listed(before=1) == listed(after=61) == []

    def test_a_long_log(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401 - any store
        """It is not looked through at once: a page says so, and where to look on."""
        monkeypatch.setattr("hookrow.figures.searching.BUDGET", 0)
        monkeypatch.setattr("hookrow.figures.searching.NARROWEST", 10)
        monkeypatch.setattr("hookrow.dashboard.listing.WIDEST", 10)
        came(store, testing.delivery(ADA, ADAS, at=AT))
        came(store, *(testing.delivery(ADA, f"x-{n}", at=AT) for n in range(14)))
        visitor, query = Visitor(store), {"message_id": ADAS}
        page = visitor.shows("/notifications", **query)
        assert "no such notifications among those that were looked through" in page
        assert f'href="?message_id={ADAS}&amp;before=6">Look further back' in page
        assert 'data-id="1"' in visitor.shows("/notifications", **query, before=6)
        page = visitor.shows("/notifications", after=3, **query)
        assert f'href="?message_id={ADAS}&amp;after=13">Newer' in page
        assert "among what was looked through" in visitor.shows("/dispatch", **query)

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ({"before": "x"}, "before is the number of a notification, not"),
            ({"after": "9" * 19}, "after is the number"),
            ({"rows": "-1"}, "rows is the number"),
            ({"outcome": "good"}, "No outcome is called"),
            ({"since": "yesterday"}, "since is a time such as"),
            ({"until": "0001-01-01T00:00+14:00"}, "until is a time such as"),
            ({"parked": "yes"}, "parked is 1, or left out"),
            ({"type": "a\0b"}, "A type has no NUL characters"),
            (
                {"recipient": "x" * 1001},
                "A recipient has no NUL characters, and 1000 others",
            ),
            ({"<b>": "1"}, "There is no field"),
            ({str(n): "1" for n in range(101)}, "There are too many fields"),
        ],
    )
    def test_wrong(self, query: dict[str, str], says: str) -> None:
        """A wrong filter or cursor is answered 400, with a sentence."""
        response = Visitor(MemoryStore()).get("/notifications", **query)
        assert response.status == 400
        assert says in response.body.decode()
        assert "<b>" not in response.body.decode()

    def test_blank(self) -> None:
        """A type of spaces alone is seen, and can be asked for."""
        store = MemoryStore()
        came(store, {"RecordType": "  "})
        page = Visitor(store).shows("/notifications", type="  ")
        assert page.count(r">\x20\x20<") == 2
        assert '<option value="  " selected>' in page

    def test_hostile(self, store: Any) -> None:  # noqa: ANN401 - any store
        """Whatever a payload holds is shown escaped, on every page, and cut."""
        long = f"{HOSTILE}{'x' * 900_000}"
        came(
            store,
            {"RecordType": long, "Recipient": long, "MessageID": long},
            {**testing.delivery(HOSTILE, HOSTILE, at=AT), "Tag": "\0</pre><img src=x>"},
            testing.suppression(ADA, ADAS, at=AT, reason=HOSTILE),
        )
        visitor = Visitor(store)
        pages = [
            visitor.shows("/notifications"),
            *(visitor.shows("/notification", id=n) for n in (1, 2, 3)),
            visitor.shows("/subscriber", email=HOSTILE),
            visitor.shows("/subscriber", email=ADA),
            visitor.shows("/dispatch", message_id=HOSTILE),
            visitor.shows("/dispatch", message_id=ADAS),
        ]
        for page in pages:
            assert not re.search("<script>|<img|\u202e|\x07|\0", page)
            assert "alert(1)" in page
            assert len(page) < 200_000


class TestNotification:
    def test_replay(self, store: Any) -> None:  # noqa: ANN401 - any store
        """What came too early is seen with why; once its dispatch is there a replay records it."""
        came(store, testing.delivery(ADA, "m-1", at=AT))
        visitor = Visitor(store)
        page = visitor.shows("/notification", id=1)
        assert "No dispatch had the id m-1 when it came; 1 attempt" in page
        assert "Engine::Dispatch not found" in page
        assert "Not recorded: there is no such dispatch." in visitor.send(
            "/notification", {"action": "replay"}, id=1
        )
        if isinstance(store, MemoryStore):
            row = {"provider_message_id": "m-1", "subscriber_id": 1, "list_id": 1}
            store.dispatches[9] = row
            page = visitor.send("/notification", {"action": "replay"}, id=1)
            assert "Recorded once more." in page
            assert row["delivered_at"] == AT
            assert page.count("2026-03-04 05:06:07Z") > 2

    @pytest.mark.parametrize(("id_", "status"), [("", 400), ("x", 400), ("7", 404)])
    def test_none(self, id_: str, status: int) -> None:
        """Which one has to be said."""
        assert Visitor(MemoryStore()).get("/notification", id=id_).status == status

    def test_without_a_body(self) -> None:
        """Without its body it cannot be replayed, and says so."""
        store = MemoryStore()
        Receiver(Postmark(SECRET), store, keep_bodies=False).answer(
            Request(Head("POST", "/", ()), b"{}")
        )
        visitor = Visitor(store)
        page = visitor.shows("/notification", id=1)
        assert "Its body is not kept" in page
        assert "<form" not in page

    def test_what_is_no_json(self) -> None:
        """It is shown as it came, and told nothing of."""
        store = MemoryStore(subscribers={1: {"email": ADA}})
        receiver = Receiver(Postmark(SECRET), store)
        odd = {**testing.suppression(ADA, None, at=AT), "ChangedBy": 7, "Origin": "Host"}
        for body in (b"{<b>\x00", json.dumps(odd).encode()):
            receiver.answer(Request(Head("POST", "/", ()), body))
        visitor = Visitor(store)
        assert "{&lt;b&gt;\\x00</pre>" in visitor.shows("/notification", id=1)
        assert ">suppressed for HardBounce<" in visitor.shows("/notification", id=2)

    def test_another_action(self) -> None:
        """A notification can be replayed, and nothing else."""
        visitor = Visitor(MemoryStore())
        came(visitor.dashboard._site.store, testing.delivery(ADA, ADAS, at=AT))
        [token] = re.findall('name="token" value="(.+?)"', visitor.shows("/notification", id=1))
        assert visitor.post("/notification", {"token": token, "action": "x"}, id=1).status == 400


@pytest.mark.parametrize(
    ("fault", "status"), [(Unavailable("It is gone."), 503), (KeyError(), 500)]
)
def test_a_store_that_fails(fault: Exception, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read just now is answered with a sentence; a handler never raises."""

    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(MemoryStore, "reading", fail)
    response = Visitor(MemoryStore()).get("/subscriber", email=ADA)
    assert response.status == status
    assert re.search(r"gone\.|This page failed: KeyError", response.body.decode())


def test_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks then is told so (503), and who asked before, that the figures are of before."""

    def fail(*_: object) -> None:
        raise Unavailable("gone")

    visitor = Visitor(MemoryStore())
    with monkeypatch.context() as broken:
        broken.setattr(MemoryLog, "bounds", fail)
        broken.setattr(MemoryCensus, "lists", fail)
        eventually(lambda: visitor.get("/").status == visitor.get("/lists").status == 503)
    eventually(lambda: visitor.get("/").status == visitor.get("/lists").status == 200)
    says = "The database cannot be asked just now (gone): what is below was known before."
    eventually(lambda: says not in visitor.shows("/"))
    monkeypatch.setattr(MemoryLog, "bounds", fail)
    eventually(lambda: says in visitor.shows("/"))
    visitor.dashboard.close(PATIENCE)


def test_lists_are_read_without_bodies() -> None:
    """From either end, and what is new: a list may have fifty of them."""
    visitor = Visitor(MemoryStore())
    site = visitor.dashboard._site
    came(site.store, testing.delivery(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
    lists = [listing.listed(site, Query(), {}), listing.listed(site, Query(), {"after": "0"})]
    entries = [*lists[0].entries, *lists[1].entries, *listing.newer(site.log, Query(), 0, 2)]
    assert [(each.id, each.body) for each in entries] == 3 * [(2, None), (1, None)]


class TestSubscriber:
    def test_large_reasons(self, store: Any) -> None:  # noqa: ANN401 - any store
        """Each is cut, also if there are more than are read at once."""
        large = [testing.suppression(ADA, None, at=AT, reason=f"{n}" * 2**20) for n in range(3)]
        came(store, *large)
        page = Visitor(store).shows("/subscriber", email=ADA)
        for n in range(3):
            assert f">suppressed for {n}{n}" in page
        assert page.count(" (1,048,591 characters)<") == 3

    def test_suppress_and_lift(self, store: Any) -> None:  # noqa: ANN401 - any store
        """It is a notification of its own: the row has the reason, the log who and why."""
        visitor = Visitor(store)
        page = visitor.send("/subscriber", {"action": "suppress", "reason": "a <b>"}, email=ADA)
        assert ">Suppressed.<" in page
        assert "a <b>" in page
        assert "by notification 1" in page
        assert "suppressed for a <b>, by ada: a <b>" in page
        [entry] = store.log.newest(Query(recipient=ADA), limit=9)
        body = json.loads(entry.body)
        assert (body["ChangedBy"], body["Note"]) == ("ada", "a <b>")
        page = visitor.send("/subscriber", {"action": "lift", "reason": "asked"}, email=ADA)
        assert "The suppression is lifted." in page
        assert ">active<" in page
        assert "suppression lifted, by ada: asked" in page

    def test_what_does_not_say_when(self, store: Any) -> None:  # noqa: ANN401 - any store
        """It happened when it came; where the log does not have it any more, that is said."""
        visitor, undated = Visitor(store), testing.suppression(ADA, None, at=AT)
        del undated["ChangedAt"]
        came(store, testing.delivery(ADA, "m-1", at=AT), undated)
        page = visitor.shows("/subscriber", email=ADA)
        assert page.count("by notification 2") == 2
        store.log.forget(ADA)
        page = visitor.shows("/subscriber", email=ADA)
        assert page.count("by none that the log has") == 2

    @pytest.mark.parametrize(
        ("user", "named"),
        [("ada", "ada"), ("ops@example.com", "o***@example.com"), ("a\nERROR b", "a\\nERROR b")],
    )
    def test_who_did_it_in_the_log_lines(
        self, caplog: pytest.LogCaptureFixture, user: str, named: str
    ) -> None:
        """A line names the user, but no full address, and stays one line."""
        visitor = Visitor(MemoryStore(subscribers={1: {"email": ADA}}))
        visitor.dashboard._authorize = lambda _: user
        with caplog.at_level("INFO", "hookrow"):
            visitor.send("/subscriber", {"action": "suppress", "reason": "x"}, email=ADA)
        assert caplog.messages == [f"{named} asked to suppress by hand: suppressed, request ."]

    @pytest.mark.parametrize(
        ("email", "status"), [("", 400), ("eve@example.com", 404), ("\0", 400), ("x" * 400, 404)]
    )
    def test_nobody(self, store: Any, email: str, status: int) -> None:  # noqa: ANN401 - any store
        """An address of nobody is answered 404; without one it is asked whose."""
        assert Visitor(store).get("/subscriber", email=email).status == status

    @pytest.mark.parametrize(
        ("form", "status"),
        [
            ({"action": "delete", "reason": "x"}, 400),
            ({"action": "suppress", "reason": " "}, 400),
            ({"action": "suppress", "reason": "x" * 201}, 400),
            ({"action": "suppress", "reason": "a\0b"}, 400),
            ({"action": "suppress", "reason": "x", "token": "guessed"}, 403),
            ({"action": "suppress", "reason": "x", "more": "x"}, 400),
        ],
    )
    def test_wrong(self, form: dict[str, str], status: int) -> None:
        """A form that is not ours changes nothing."""
        store = MemoryStore(subscribers={1: {"email": ADA}})
        visitor = Visitor(store)
        [token] = re.findall('name="token" value="(.+?)"', visitor.shows("/subscriber", email=ADA))
        response = visitor.post("/subscriber", {"token": token, **form}, email=ADA)
        assert response.status == status
        assert store.subscribers == {1: {"email": ADA}}

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 303),
            ({"sec_fetch_site": "same-origin", "origin": "https://behind.example"}, 303),
            ({"origin": "http://localhost"}, 303),
            ({"sec_fetch_site": "same-site"}, 403),
            ({"sec_fetch_site": "cross-site"}, 403),
            ({"origin": "http://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"cookie": "hookrow_dashboard=; x=y"}, 403),
            ({"cookie": "hookrow_dashboard=other"}, 403),
        ],
    )
    def test_from_elsewhere(self, headers: dict[str, str], status: int) -> None:
        """A form comes from a page of ours: with the cookie's token, from this origin."""
        visitor = Visitor(MemoryStore(subscribers={1: {"email": ADA}}))
        [token] = re.findall('name="token" value="(.+?)"', visitor.shows("/subscriber", email=ADA))
        visitor._headers["cookie"] = f'odd={{"a", ";; {visitor._headers["cookie"]}; more='
        visitor._headers |= headers
        form = {"token": token, "action": "suppress", "reason": "x"}
        assert visitor.post("/subscriber", form, email=ADA).status == status

    @pytest.mark.parametrize("other", ['prefs={"a": 1}', "a b=1", "é=é", "lonely", "expires=1"])
    def test_beside_cookies_of_the_host(self, other: str) -> None:
        """Ours is found among others, however those are written, in one header or in several."""
        cookies = (b"cookie", other.encode()), (b"cookie", b"hookrow_dashboard=ours; x=y")
        assert token(Head("GET", "/", cookies)) == "ours"
        assert token(Head("GET", "/", cookies[:1])) is None


@pytest.mark.parametrize(
    ("page", "asked"),
    [("subscriber", {"email": "eve@example.com"}), ("dispatch", {"message_id": "old"})],
)
def test_what_is_only_far_back_in_a_long_log(
    monkeypatch: pytest.MonkeyPatch, page: str, asked: dict[str, str]
) -> None:
    """It is not denied before all was looked through: a link looks further back, to the end."""
    monkeypatch.setattr(searching, "BUDGET", 0.0)
    monkeypatch.setattr(searching, "NARROWEST", 1)
    store = MemoryStore()
    old = testing.delivery("eve@example.com", "old", at=AT)
    came(store, *({"RecordType": str(n)} for n in range(2)), old, *({"x": n} for n in range(2)))
    visitor = Visitor(store)
    first = visitor.shows(f"/{page}", **asked)
    assert "The log has nothing of it among what was looked through." in first
    assert "before=5" in first
    assert "subscriber not found" in visitor.shows(f"/{page}", before=4, **asked)
    assert "The log has nothing of it." in visitor.shows(f"/{page}", before=2, **asked)


class TestDispatch:
    def test_its_story(self, store: Any) -> None:  # noqa: ANN401 - any store
        """Each time in the row names the notification that set it."""
        came(store, testing.delivery(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
        page = Visitor(store).shows("/dispatch", message_id=ADAS)
        assert "by notification 1" in page
        assert "by notification 2" in page
        assert "2026-03-04 05:06:07Z" in page
        assert Visitor(store).get("/dispatch", message_id="none").status == 404
        assert Visitor(store).get("/dispatch").status == 400

    def test_suppress_and_lift(self, store: Any) -> None:  # noqa: ANN401 - any store
        """What is suppressed is what the provider would suppress for this message."""
        visitor = Visitor(store)
        form = {"action": "suppress", "reason": "x", "email": ADA}
        page = visitor.send("/dispatch", form, message_id=ADAS)
        assert "Suppressed." in page
        assert page.count("by notification 1") == 2
        assert ">suppressed<" in visitor.shows("/subscriber", email=ADA)
        page = visitor.send("/dispatch", {**form, "action": "lift"}, message_id=ADAS)
        assert "The suppression is lifted." in page


def charted(page: str, kind: str) -> dict[str, int]:
    """Add up each column of a chart's table."""
    [table] = re.findall(f'<table data-chart="{kind}">(.*?)</table>', page, re.DOTALL)
    names = re.findall(r'class="number"><bdi>(.*?)</bdi></th>', table)
    rows = [re.findall(r'<td class="number">([\d,]+)</td>', row) for row in table.split("<tr>")[2:]]
    columns = zip(*rows, strict=True)
    return {name: sum(map(int, counts)) for name, counts in zip(names, columns, strict=True)}


class TestFigures:
    def test_overview(self, store: Any) -> None:  # noqa: ANN401 - any store
        """It has what came, by type and by outcome, of each period; all else as it is counted."""
        visitor, bounce = Visitor(store), testing.suppression(ADA, ADAS, at=AT, reason="<i>")
        came(store, testing.delivery(ADA, ADAS, at=AT), testing.opening(ADA, ADAS, at=AT))
        came(store, bounce, testing.delivery(ADA, "m-9", at=AT), {"RecordType": "<b>"})
        eventually(lambda: "Last heard of" in visitor.shows("/"))
        eventually(lambda: "as of" in visitor.shows("/"))
        for period in ("hour", "day", "week", "month"):
            page = visitor.shows("/", period=period)
            types = {"Delivery": 2, "Open": 1, "SubscriptionChange": 1, "&lt;b&gt;": 1}
            assert charted(page, "type") == types
            outcomes = {"recorded": 3, "dispatch not found": 1, "unsupported": 1}
            assert charted(page, "outcome") == outcomes
            assert "2 of the last 5 were refused" in page
            assert '<a href="./notifications?parked=1">1</a>' in page
            assert "<bdi>&lt;i&gt;</bdi>" in page
        assert visitor.get("/", period="year").status == 400

    def test_lists(self, store: Any) -> None:  # noqa: ANN401 - any store
        """Of each list it is shown what was sent, delivered and opened, as of when."""
        visitor = Visitor(store)
        came(store, testing.delivery(ADA, ADAS, at=AT))
        eventually(lambda: "As of" in visitor.shows("/lists"))
        cells = re.findall(r'data-label="(\w+)"[^>]*><(?:span|bdi)>(.+?)<', visitor.shows("/lists"))
        name = "1" if isinstance(store, MemoryStore) else world.start()["lists"][0]["name"]
        assert cells[:3] == [("List", name), ("Sent", cells[1][1]), ("Delivered", "1 ")]
        assert visitor.get("/lists", sort="x").status == 400


def test_more_lists_than_a_page_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those to which the most was sent are shown, and how many there are."""
    monkeypatch.setattr(pages, "LISTS", 1)
    dispatches: dict[Any, dict[str, Any]] = {
        number: {"subscriber_id": 1, "list_id": number > 1, "provider_message_id": str(number)}
        for number in range(1, 4)
    }
    visitor = Visitor(MemoryStore(subscribers={1: {"email": ADA}}, dispatches=dispatches))
    eventually(lambda: "As of" in visitor.shows("/lists"))
    page = visitor.shows("/lists")
    assert page.count('data-label="Sent"') == 1
    assert "The 1 to which the most was sent, of 2." in page


class TestWithoutALog:
    def test_what_it_can(self) -> None:
        """It shows the rows, and says what is missing."""
        store = MemoryStore(
            subscribers={1: {"email": ADA}},
            dispatches={1: {"provider_message_id": ADAS, "subscriber_id": 1}},
            log=None,
        )
        visitor = Visitor(store)
        for path, query in (
            ("/notifications", {}),
            ("/subscriber", {"email": ADA}),
            ("/dispatch", {"message_id": ADAS}),
        ):
            assert "This store keeps no log" in visitor.shows(path, **query)
        assert "This store keeps no log" in visitor.shows("/")
        visitor.dashboard.close(PATIENCE)
        visitor.send("/subscriber", {"action": "suppress", "reason": "x"}, email=ADA)
        assert store.subscribers[1]["suppression_reason"] == "x"
        assert visitor.get("/notification", id=1).status == 404
