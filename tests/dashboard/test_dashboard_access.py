"""Access to the dashboard: `authorize`, and passwords."""

from base64 import b64encode
from typing import Any

import pytest
from werkzeug.test import Client

import asgi_client
from copying import replace
from engines import MEMORY
from hookrow import ConfigurationError, Request, RequestHead, Response
from hookrow._server.preflight import require_password
from hookrow._server.settings import Settings
from hookrow.asgi import ASGI
from hookrow.dashboard import Dashboard, basic
from hookrow.dashboard._app import SECURITY_HEADERS
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI
from visitor import ask, head, present
from wire import ADA

PASSWORD = "the-right-pässword"


@pytest.mark.parametrize(
    ("answer", "status", "logged"),
    [
        (False, 403, ""),
        ("", 403, ""),
        (Response(302, b"", {"Location": "/login"}), 302, ""),
        (None, 500, "authorize must return a name, a bool or a Response, not None."),
        (b"ada", 500, "authorize must return a name, a bool or a Response, not bytes."),
        (ValueError(ADA), 500, f"request r-1: authorize raised ValueError at {__file__}:"),
    ],
)
def test_refused(
    answer: object, status: int, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`authorize` denies access with False, an empty name or a response; so does an error.

    The text of the error is not logged.
    """

    def authorize(_: RequestHead) -> Any:  # noqa: ANN401 - also invalid results
        if isinstance(answer, Exception):
            raise answer
        return answer

    dashboard = Dashboard(SQLStore(MEMORY), authorize=authorize)
    refused = present(dashboard.admit(replace(head("/notifications"), request_id="r-1")))
    assert refused.status == present(dashboard(Request(head("/"), b""))).status == status
    assert SECURITY_HEADERS.items() <= refused.headers.items()
    assert logged in caplog.text
    assert ADA not in caplog.text
    if logged:
        assert vars(caplog.records[0])["request_id"] == "r-1"


def test_configuration() -> None:
    """A dashboard that would be open to all, or that nobody could open, is refused."""

    async def authorize(_: RequestHead) -> str:
        return "ada"

    wrong: Any = authorize
    with pytest.raises(ConfigurationError, match=r"an async function.* def authorize\(head\)"):
        Dashboard(SQLStore(MEMORY), authorize=wrong)
    with pytest.raises(ConfigurationError, match="never open by default"):
        Dashboard(SQLStore(MEMORY))
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


def test_the_generated_password() -> None:
    """Each start of the server has a new password, which `repr` of its settings omits."""
    servers = [Settings(entries=[], database_url="sqlite://") for _ in range(2)]
    passwords = {each.generated_password for each in servers}
    assert len(passwords) == 2
    assert not any(each in repr(servers) for each in passwords)


def test_called_once(hookrow_store: SQLStore) -> None:
    """`authorize` is called once per request, in ASGI and in WSGI, and for each dashboard."""
    answers = [True, True, True, False]

    def authorize(_: RequestHead) -> bool:
        return answers.pop(0)

    dashboard = Dashboard(hookrow_store, authorize=authorize)
    assert asgi_client.request(ASGI(dashboard), "POST", "/notifications").status_code == 405
    assert Client(WSGI(dashboard)).post("/notifications").status_code == 405
    assert answers == [True, False]
    request = Request(head("/notifications"), b"")
    another = Dashboard(hookrow_store, authorize=lambda _: True)
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
    def dashboard(self, hookrow_store: SQLStore) -> Dashboard:
        return Dashboard(hookrow_store, authorize=basic(ADA, PASSWORD))

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
        assert SECURITY_HEADERS.items() <= response.headers.items()

    def test_logged(self, dashboard: Dashboard, caplog: pytest.LogCaptureFixture) -> None:
        """Wrong passwords are logged once in ten seconds, without user or password."""
        refused = [dashboard.admit(credentials(f"wrong-{n}")) for n in range(50)]
        assert {present(each).status for each in refused} == {401}
        assert caplog.messages == [
            "The dashboard refused a wrong user name or password, request r-1"
        ]
