"""Access to the dashboard: `authorize`, passwords, and the token of `hookrow serve`."""

import re
import threading
from base64 import b64encode
from typing import Any

import pytest
from werkzeug.test import Client

import asgi_client
from copying import replace
from hookrow import ConfigurationError, Request, RequestHead, Response
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, basic
from hookrow.dashboard.app import SECURITY
from hookrow.dashboard.auth import require_password, token_session
from hookrow.server.settings import Settings
from hookrow.stores.memory import MemoryStore
from hookrow.wsgi import WSGI
from visitor import MOUNT, ask, head, present
from wire import ADA

PASSWORD = "the-right-pässword"


@pytest.fixture(autouse=True)
def _short_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay the responses to wrong passwords only a little."""
    monkeypatch.setattr("hookrow.dashboard.auth.DELAY", 0.05)


@pytest.mark.parametrize(
    ("answer", "status", "logged"),
    [
        (False, 403, ""),
        ("", 403, ""),
        (Response(302, b"", {"Location": "/login"}), 302, ""),
        (None, 500, "authorize must return a name, a bool or a Response, not NoneType."),
        (b"ada", 500, "authorize must return a name, a bool or a Response, not bytes."),
        (ZeroDivisionError(), 500, "ZeroDivisionError"),
    ],
)
def test_refused(
    answer: object, status: int, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`authorize` denies access with False, an empty name or a response; so does an error."""

    def authorize(_: RequestHead) -> Any:  # noqa: ANN401 - also invalid results
        if isinstance(answer, Exception):
            raise answer
        return answer

    dashboard = Dashboard(MemoryStore(), authorize=authorize)
    refused = present(dashboard.admit(replace(head("/notifications"), request_id="r-1")))
    assert refused.status == present(dashboard(Request(head("/"), b""))).status == status
    assert SECURITY.items() <= refused.headers.items()
    assert logged in caplog.text
    if logged:
        assert vars(caplog.records[0])["request_id"] == "r-1"


def test_configuration() -> None:
    """A dashboard that would be open to all, or that nobody could open, is refused."""
    with pytest.raises(ConfigurationError, match="never open by default"):
        Dashboard(MemoryStore())
    for user, password in (("", "x"), ("x", ""), ("a:b", "x")):
        with pytest.raises(ConfigurationError, match="neither may be empty"):
            basic(user, password)


def test_a_server_needs_a_password_unless_it_is_local() -> None:
    """Without a password, a server may only listen on a loopback address."""
    for host in ("0.0.0.0", "example.com", "192.0.2.1"):
        with pytest.raises(ConfigurationError, match="HOOKROW_DASHBOARD_PASSWORD"):
            require_password("", host=host)
        require_password("x", host=host)
    for host in ("127.0.0.1", "::1", "localhost"):
        require_password(None, host=host)


def test_called_once() -> None:
    """`authorize` is called once per request, in ASGI and in WSGI, and for each dashboard."""
    answers = [True, True, True, False]

    def authorize(_: RequestHead) -> bool:
        return answers.pop(0)

    dashboard = Dashboard(MemoryStore(), authorize=authorize)
    assert asgi_client.request(ASGI(dashboard), "POST", "/notifications").status_code == 405
    assert Client(WSGI(dashboard)).post("/notifications").status_code == 405
    assert answers == [True, False]
    request = Request(head("/notifications"), b"")
    another = Dashboard(MemoryStore(), authorize=lambda _: True)
    assert another.admit(request.head) is dashboard.admit(request.head) is None
    assert present(another(request)).status == present(dashboard(request)).status == 200
    assert present(dashboard(request)).status == 403


def credentials(password: str, scheme: str = "Basic", user: str = ADA) -> RequestHead:
    """Return a request with a user and a password."""
    credentials = b64encode(f"{user}:{password}".encode()).decode()
    return replace(
        head("/notifications", authorization=f"{scheme} {credentials}"), request_id="r-1"
    )


class TestPassword:
    @pytest.fixture
    def dashboard(self) -> Dashboard:
        return Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))

    @pytest.mark.parametrize(
        ("sent", "status"),
        [
            (head("/notifications"), 401),
            (head("/notifications", authorization=f"Basic {ADA}:{PASSWORD}"), 401),
            (credentials("wrong"), 401),
            (credentials(PASSWORD, "Bearer"), 401),
            (credentials(PASSWORD, user="eve"), 401),
            (credentials(PASSWORD, "basic"), 200),
        ],
    )
    def test_exact(self, dashboard: Dashboard, sent: RequestHead, status: int) -> None:
        """Only the exact user name and password are accepted, with the scheme in any case."""
        response = ask(dashboard, sent)
        assert response.status == status
        assert ("WWW-Authenticate" in response.headers) == (status == 401)
        assert SECURITY.items() <= response.headers.items()

    def test_delayed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In each protocol, a wrong password gets a 401 after the delay, and then the next."""
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        monkeypatch.setattr("hookrow.asgi.asyncio.sleep", sleep)
        monkeypatch.setattr("hookrow.wsgi.sleep", slept.append)
        monkeypatch.setattr("hookrow.dashboard.auth.monotonic", lambda: sum(slept))
        monkeypatch.setattr("hookrow.dashboard.auth.MAX_DELAYED", 1)
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        wrong = {"Authorization": f"Basic {b64encode(f'{ADA}:wrong'.encode()).decode()}"}
        response = asgi_client.request(ASGI(dashboard), "GET", "/", headers=wrong)
        assert response.status_code == 401
        assert Client(WSGI(dashboard)).get("/", headers=wrong).status_code == 401
        assert slept == [0.05, 0.05]

    def test_too_many(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At most 32 responses are delayed, without a thread for each; the right password never is.

        They are logged once, without user or password.
        """
        monkeypatch.setattr("hookrow.dashboard.auth.DELAY", 600.0)
        dashboard = Dashboard(MemoryStore(), authorize=basic(ADA, PASSWORD))
        before = threading.active_count()
        *delayed, too_many = [dashboard.admit(credentials(f"wrong-{n}")) for n in range(33)]
        assert threading.active_count() <= before + 1
        assert dashboard.admit(credentials(PASSWORD)) is None
        assert {(each.status, each.delay) for each in delayed if each} == {(401, 600.0)}
        assert too_many is not None
        assert (too_many.status, too_many.headers["Retry-After"]) == (429, "5")
        assert caplog.messages == [
            "The dashboard refused a wrong user name or password, request r-1"
        ]


class TestToken:
    @pytest.fixture
    def dashboard(self) -> Dashboard:
        """Return a dashboard without a password."""
        store = MemoryStore(subscribers={1: {"email": ADA}})
        authorize = token_session("the-token", "the-key", port=8000, path=MOUNT)
        return Dashboard(store, authorize=authorize, mount_path=MOUNT)

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
        answer = ask(dashboard, head(path, query))
        assert (answer.status, answer.headers["Location"]) == (303, location)
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        value, _, attributes = answer.headers["Set-Cookie"].partition("; ")
        assert attributes == f"HttpOnly; SameSite=Strict; Path={MOUNT}"
        assert "the-token" not in f"{answer.headers}{answer.body!r}"
        secure = ask(dashboard, replace(head(path, query), secure=True))
        assert "; Secure;" in secure.headers["Set-Cookie"]
        page = ask(dashboard, head("/subscriber", f"email={ADA}", cookie=value))
        assert page.status == 200
        kept = f"{value}; {page.headers['Set-Cookie'].partition(';')[0]}"
        [token] = re.findall('name="token" value="(.+?)"', page.body.decode())
        form = {"token": token, "action": "suppress", "reason": "x"}
        posted = head("/subscriber", f"email={ADA}", "POST", cookie=kept)
        assert ask(dashboard, posted, form).status == 303

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
        session = ask(dashboard, head("/", "token=the-token")).headers["Set-Cookie"]
        sent = cookie.format(session=session.partition(";")[0].partition("=")[2])
        answer = ask(dashboard, head(path, query, method, cookie=sent))
        assert answer.status == 401
        assert "HOOKROW_DASHBOARD_PASSWORD" in answer.body.decode()
        assert "Set-Cookie" not in answer.headers
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"

    def test_another_start(self, dashboard: Dashboard) -> None:
        """Each start of the server has new credentials, and refuses the cookies of earlier ones."""
        one, another = Settings(database_url="sqlite://"), Settings(database_url="sqlite://")
        credentials = {
            value for each in (one, another) for value in (each.dashboard_token, each.dashboard_key)
        }
        assert len(credentials) == 4
        assert not any(value in repr(one) for value in credentials)
        cookie = ask(dashboard, head("/", "token=the-token")).headers["Set-Cookie"]
        restarted = token_session("the-token", one.dashboard_key, port=8000, path=MOUNT)
        later = Dashboard(MemoryStore(), authorize=restarted, mount_path=MOUNT)
        assert ask(later, head("/", cookie=cookie.partition(";")[0])).status == 401
