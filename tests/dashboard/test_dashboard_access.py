"""Access to the dashboard: `authorize`, passwords, and the token of `hookrow serve`."""

from __future__ import annotations

import re
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import pytest
from visitor import ADA, ended, head

from hookrow import ConfigurationError, Head, Request, Response, testing
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, basic, served
from hookrow.dashboard.handler import SECURITY
from hookrow.promise import Promise
from hookrow.settings import DashboardAccess
from hookrow.stores.memory import MemoryStore
from hookrow.testing.applications import call_asgi, call_wsgi
from hookrow.wsgi import WSGI
from wire import PATIENCE


@pytest.fixture(autouse=True)
def _quick_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay the answers to wrong passwords only a little."""
    monkeypatch.setattr("hookrow.dashboard.visitor.DELAY", 0.05)


class TestAuthorize:
    @pytest.mark.parametrize(
        ("answer", "status", "logged"),
        [
            (False, 403, ""),
            ("", 403, ""),
            (Response(302, b"", {"Location": "/login"}), 302, ""),
            (None, 500, "authorize returned NoneType: let it return"),
            (b"ada", 500, "authorize returned bytes: let it return"),
            (ZeroDivisionError(), 500, "ZeroDivisionError"),
        ],
    )
    def test_refused(
        self, answer: object, status: int, logged: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """`authorize` refuses with False, an empty name or a response; errors admit nobody."""

        def authorize(_: Head) -> Any:  # noqa: ANN401 - also what is not allowed
            if isinstance(answer, Exception):
                raise answer
            return answer

        dashboard = Dashboard(MemoryStore(), authorize=authorize)
        refused = ended(dashboard.admit(replace(head("/notifications"), request_id="r-1")))
        assert refused.status == ended(dashboard(Request(head("/"), b""))).status == status
        assert SECURITY.items() <= refused.headers.items()
        assert logged in caplog.text
        if logged:
            assert vars(caplog.records[0])["request_id"] == "r-1"

    def test_configuration(self) -> None:
        """A dashboard that would be open, or could not be entered, is refused."""
        with pytest.raises(ConfigurationError, match="never open by default"):
            Dashboard(MemoryStore())
        for user, password in (("", "x"), ("x", ""), ("a:b", "x")):
            with pytest.raises(ConfigurationError, match="both not empty"):
                basic(user, password)
        with pytest.raises(ConfigurationError, match="HOOKROW_DASHBOARD_PASSWORD"):
            served(MemoryStore(), host="0.0.0.0", password="", access=ACCESS, path="/")
        with pytest.raises(ConfigurationError, match="needs a password or a token"):
            served(MemoryStore(), host="127.0.0.1", password=None, access=None, path="/")

    @pytest.mark.parametrize(
        ("given", "status"),
        [
            (None, 401),
            ("Basic " + b64encode(b"ada:wrong").decode(), 401),
            ("Basic ada:pass:word", 401),
            ("Bearer " + b64encode("ada:pass:wörd".encode()).decode(), 401),
            ("basic " + b64encode("ada:pass:wörd".encode()).decode(), 200),
        ],
    )
    def test_basic(self, given: str | None, status: int) -> None:
        """`basic` requires the exact user and password."""
        dashboard = Dashboard(MemoryStore(), authorize=basic("ada", "pass:wörd"))
        asked = head("/notifications", **({} if given is None else {"authorization": given}))
        response = ended(dashboard.admit(asked) or dashboard(Request(asked, b"")))
        assert response.status == status
        assert ("WWW-Authenticate" in response.headers) == (status == 401)

    def test_password_of_serve(self) -> None:
        """`hookrow serve` with a password requires it on every address."""
        for host in ("127.0.0.1", "0.0.0.0"):
            dashboard = served(MemoryStore(), host=host, password="word", access=ACCESS, path="/")
            assert ended(dashboard.admit(head("/lists", "token=the-token"))).status == 401

    def test_called_once(self) -> None:
        """`authorize` is called once per request, in ASGI and in WSGI."""
        asked: list[Head] = []

        def authorize(head: Head) -> bool:
            asked.append(head)
            return True

        dashboard = Dashboard(MemoryStore(), authorize=authorize)
        for application in (ASGI(dashboard), WSGI(dashboard)):
            assert testing.post(application, {}, path="/notifications")[0] == 405
        assert [each.path for each in asked] == ["/notifications"] * 2

    def test_another_dashboard(self) -> None:
        """A request that one dashboard admitted is still checked by another, and once more."""
        one = Dashboard(MemoryStore(), authorize=lambda _: True)
        answers = iter([True, False])
        another = Dashboard(MemoryStore(), authorize=lambda _: next(answers))
        asked = Request(head("/notifications"), b"")
        assert one.admit(asked.head) is another.admit(asked.head) is None
        assert [ended(another(asked)).status for _ in range(2)] == [200, 403]


PASSWORD = "the-right-password"


def attempt(password: str) -> Head:
    """Return a request of ada@example.com with this password."""
    given = b64encode(f"{ADA}:{password}".encode()).decode()
    return replace(head("/notifications", authorization=f"Basic {given}"), request_id="r-1")


class TestWrongPasswords:
    def test_delayed(self) -> None:
        """In each protocol a wrong password is answered 401 after the delay."""
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        asked = Request(attempt("wrong"), b"")
        began = time.monotonic()
        assert call_asgi(ASGI(dashboard), asked, PATIENCE)[0] == 401
        assert time.monotonic() - began >= 0.05
        began = time.monotonic()
        assert call_wsgi(WSGI(dashboard), asked)[0] == 401
        assert time.monotonic() - began >= 0.05

    def test_too_many(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At most 32 answers are delayed, without a thread for each; the right one never is.

        They are logged once, without user or password.
        """
        monkeypatch.setattr("hookrow.dashboard.visitor.DELAY", 600.0)
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        before = threading.active_count()
        *delayed, too_many = [dashboard.admit(attempt(f"wrong-{n}")) for n in range(33)]
        assert threading.active_count() <= before + 1
        assert dashboard.admit(attempt(PASSWORD)) is None
        assert not any(each.done() for each in delayed if isinstance(each, Promise))
        assert isinstance(too_many, Response)
        assert (too_many.status, too_many.headers["Retry-After"]) == (429, "5")
        assert caplog.messages == ["The dashboard refused a wrong user or password, request r-1"]

    def test_another_after_the_delay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once a delayed answer is sent, the next one is delayed in its place."""
        monkeypatch.setattr("hookrow.dashboard.visitor.MOST_DELAYED", 1)
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        for _ in range(2):
            refused = ended(dashboard.admit(attempt("wrong")))
            assert refused.status == 401
            assert SECURITY.items() <= refused.headers.items()


ACCESS = DashboardAccess(token="the-token", key="the-key", port=8000)


class TestToken:
    @pytest.fixture
    def dashboard(self) -> Dashboard:
        """Return a dashboard without a password."""
        store = MemoryStore(subscribers={1: {"email": ADA}})
        mount = "/mail/dashboard"
        return served(store, host="127.0.0.1", password=None, access=ACCESS, path=mount)

    def ask(self, dashboard: Dashboard, asked: Head, form: Mapping[str, str] = {}) -> Response:
        """Send a request as a host does."""
        body = urlencode(form).encode()
        return ended(dashboard.admit(asked) or dashboard(Request(asked, body)))

    @pytest.mark.parametrize(
        ("path", "query", "location"),
        [
            ("", "token=the-token", "./dashboard"),
            ("/lists", "type=Open&token=the-token&a=%26", "./lists?type=Open&a=%26"),
            ("//evil.example", "token=the-token", "./evil.example"),
        ],
    )
    def test_right(self, dashboard: Dashboard, path: str, query: str, location: str) -> None:
        """The right token sets a session cookie and redirects to the address without the token."""
        answer = self.ask(dashboard, head(path, query))
        assert (answer.status, answer.headers["Location"]) == (303, location)
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        value, _, attributes = answer.headers["Set-Cookie"].partition("; ")
        assert attributes == "Path=/mail/dashboard; HttpOnly; SameSite=Strict"
        assert "the-token" not in f"{answer.headers}{answer.body!r}"
        page = self.ask(dashboard, head("/subscriber", f"email={ADA}", cookie=value))
        assert page.status == 200
        kept = f"{value}; {page.headers['Set-Cookie'].partition(';')[0]}"
        [token] = re.findall('name="token" value="(.+?)"', page.body.decode())
        form = {"token": token, "action": "suppress", "reason": "x"}
        posted = head("/subscriber", f"email={ADA}", "POST", cookie=kept)
        assert self.ask(dashboard, posted, form).status == 303
        secure = self.ask(dashboard, replace(head(path, query), secure=True))
        assert secure.headers["Set-Cookie"].endswith("; Secure")

    @pytest.mark.parametrize(
        ("method", "query", "cookie"),
        [
            ("GET", "", ""),
            ("GET", "token=", ""),
            ("GET", "token=wrong", "hookrow_session_8000={session}"),
            ("GET", "token=the-token&token=wrong", ""),
            ("GET", "token=%C3%A9%FF", ""),
            ("GET", "&".join(f"{n}=1" for n in range(101)) + "&token=the-token", ""),
            ("GET", "", "hookrow_session_8000=the-token"),
            ("GET", "", "hookrow_session_8000=\xe9"),
            ("GET", "", "hookrow_session_8001={session}"),
            ("POST", "token=the-token", ""),
        ],
    )
    @pytest.mark.parametrize("path", ["/subscriber", "/static/dashboard.css"])
    def test_refused(
        self, dashboard: Dashboard, path: str, method: str, query: str, cookie: str
    ) -> None:
        """Any other request returns 401 with a page that explains how to sign in."""
        session = self.ask(dashboard, head("/", "token=the-token")).headers["Set-Cookie"]
        sent = cookie.format(session=session.partition(";")[0].partition("=")[2])
        answer = self.ask(dashboard, head(path, query, method, cookie=sent))
        assert answer.status == 401
        assert "HOOKROW_DASHBOARD_PASSWORD" in answer.body.decode()
        assert "Set-Cookie" not in answer.headers
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"

    def test_another_start(self, dashboard: Dashboard) -> None:
        """A cookie is valid only for the process that set it."""
        one, another = DashboardAccess.generate(8000), DashboardAccess.generate(8000)
        assert len({one.token, another.token, one.key, another.key}) == 4
        assert one.token not in repr(one)
        cookie = self.ask(dashboard, head("/", "token=the-token")).headers["Set-Cookie"]
        later = served(MemoryStore(), host="::1", password=None, access=one, path="/mail/dashboard")
        assert self.ask(later, head("/", cookie=cookie.partition(";")[0])).status == 401
