"""The core of the hosts' contract under common servers, also for a Django project.

`hosts/test_host_contract.py` proves the rest of the contract without servers.
"""

import signal
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import process
import world
from command import Serving
from django_project.manage import Manage, runserver
from hookrow import Schema
from hookrow._http import MAX_BODY
from hookrow.migrations import upgrade
from wire import (
    AT,
    DELIVERY,
    ENDPOINT,
    SECRET,
    STRANGER,
    TEXT,
    Answer,
    Connection,
    ask,
    chunk,
    eventually,
    head,
    request,
)

pytestmark = pytest.mark.never_flaky

PATH = f"/mail{ENDPOINT}"

SERVERS = {
    "uvicorn": (process.uvicorn, "fastapi_app", "create_app()"),
    "granian": (process.granian, "litestar_app", "app"),
    "hypercorn": (process.hypercorn, "quart_app", "app"),
    "gunicorn": (process.gunicorn, "flask_app", "create_app()"),
}
DJANGO = {
    "gunicorn": (process.gunicorn, "project.wsgi:application", {}),
    "uvicorn": (process.uvicorn, "project.asgi:application", {}),
    "uvicorn-in-groups": (process.uvicorn, "project.asgi:application", {"GROUP_COMMIT": True}),
    "runserver": (runserver, "", {}),
}


@dataclass(frozen=True, slots=True)
class Site:
    """A running server."""

    name: str
    serving: Serving
    file: Path

    @property
    def port(self) -> int:
        """The server's port."""
        return self.serving.port

    @property
    def is_eager(self) -> bool:
        """Whether the server sends "100 Continue" before the application has seen the head.

        These servers also close a connection with a large unread body.
        """
        return self.name in {"hypercorn", "gunicorn"}

    @property
    def delivered_at(self) -> object:
        """The delivery time of the first dispatch."""
        return world.rows(f"sqlite:///{self.file}")["dispatches"][0]["delivered_at"]

    def post(self, body: bytes, *, secret: str = SECRET) -> Answer:
        """Post a body on a new connection."""
        return ask(self.port, request(body, PATH, secret=secret))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the database's write lock, so that notifications wait."""
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def wait_until_read(self) -> None:
        """Wait until the server has read all data that was sent before."""
        for _ in range(2):
            assert ask(self.port, request(b"{", PATH + "/x")).status == 404


@pytest.mark.parametrize("name", SERVERS)
def test_server(name: str, tmp_path: Path) -> None:
    """The server fulfils the contract: responses, limits, disconnecting clients, shutdown."""
    command, module, app = SERVERS[name]
    (tmp_path / "short_timeouts.py").write_text(
        f"import hookrow._http\nhookrow._http.BODY_TIMEOUT = 1.5\n"
        f"import {module}\napp = {module}.{app}\n"
    )
    file = tmp_path / "hookrow.db"
    upgrade(f"sqlite:///{file}", Schema())
    variables = {"HOOKROW_DATABASE_URL": f"sqlite:///{file}", "HOOKROW_SECRET": SECRET}
    with process.running(command, "short_timeouts:app", tmp_path, variables) as serving:
        site = Site(name, serving, file)
        for check in CHECKS:
            world.fill(f"sqlite:///{file}")
            check(site)
            assert not any(word in serving.log for word in ("Traceback", "ERROR", "CRITICAL"))


@pytest.mark.parametrize("name", DJANGO)
def test_django_project(name: str, tmp_path: Path) -> None:
    """The example fulfils the contract, except for the differences listed on its page."""
    command, app, options = DJANGO[name]
    file = tmp_path / "hookrow.db"
    hookrow = {"SECRET": SECRET, **options}
    manage = Manage(tmp_path, f"sqlite:///{file}", HOOKROW=hookrow, ROOT_URLCONF="project.urls")
    assert manage.run("migrate", "-v0").returncode == 0
    world.fill(f"sqlite:///{file}")
    with manage.serving_by(command, app) as serving:
        site = Site(name, serving, file)
        assert site.post(DELIVERY, secret="wrong").status == 401
        assert site.post(b"{").status == 422
        assert site.delivered_at is None
        with Connection(site.port) as connection:
            chunks = chunk(DELIVERY[:50]) + chunk(DELIVERY[50:]) + chunk(b"")
            connection.send(head(PATH, extra=[b"Transfer-Encoding: chunked"]) + chunks)
            assert connection.answer().status == (411 if name == "runserver" else 200)
        with Connection(site.port) as connection:
            connection.send(head(PATH, length=len(DELIVERY)) + DELIVERY[:50])
            if name == "gunicorn":  # only gunicorn limits the time
                assert connection.answer().status == 408
        world.fill(f"sqlite:///{file}")
        check_stop(site)
    assert "Traceback" not in serving.log


def check_answers(site: Site) -> None:
    """Check each response to the byte, for requests that are sent at once on one connection."""
    name = b"X-PROVIDER-secret: \t " + SECRET.encode() + b" \t"
    exchanges = [
        (request(DELIVERY, f"{PATH}/?a=b", secret=None, extra=[name]), 200, b""),
        (request(DELIVERY, PATH, secret=b"\xff"), 401, b"Cannot verify webhook"),
        (request(DELIVERY, PATH, extra=[name]), 401, b"Cannot verify webhook"),
        (request(STRANGER, PATH), 404, b"Engine::Subscriber not found"),
    ]
    with Connection(site.port) as connection:
        connection.send(b"".join(sent for sent, *_ in exchanges))
        for _, status, body in exchanges:
            answer = connection.answer()
            assert (answer.status, answer.body) == (status, body)
            assert answer.header("content-type") == TEXT
        connection.send(head(PATH, method="HEAD", extra=[b"X-Request-Id: r-1"]))
        answer = connection.answer(of_head=True)
        assert (answer.status, answer.header("allow")) == (405, "POST")
        assert answer.header("x-request-id") == "r-1"
    assert site.delivered_at == AT


def check_before_the_body(site: Site) -> None:
    """Check refusals before the body has arrived, and "100 Continue"."""
    expect = b"Expect: 100-continue"
    for path, method, secret, length, status in (
        ("/mail/nowhere", "POST", SECRET, 1000, 404),
        (PATH, "POST", "wrong", 1000, 401),
        (PATH, "POST", SECRET, MAX_BODY + 1, 413),
    ):
        for extra, begin in (((), b"{"), ((expect,), b"")):
            with Connection(site.port) as connection:
                begun = head(path, method=method, secret=secret, length=length, extra=extra)
                connection.send(begun + begin)
                if extra and site.is_eager:
                    connection.interim(100)
                assert connection.answer().status == status
    with Connection(site.port) as connection:
        connection.send(head(PATH, length=len(DELIVERY), extra=[expect]))
        connection.interim(100)
        connection.send(DELIVERY)
        assert connection.answer().status == 200


def check_size(site: Site) -> None:
    """Check that 1 MiB is recorded, also in chunks, and that a larger body gets a 413."""
    largest = DELIVERY.ljust(MAX_BODY)
    chunks = [chunk(largest[at : at + 65536]) for at in range(0, MAX_BODY, 65536)]
    streamed = head(PATH, extra=[b"Transfer-Encoding: chunked"]) + b"".join(chunks)
    assert site.post(largest).status == ask(site.port, streamed + chunk(b"")).status == 200
    assert ask(site.port, streamed + chunk(b" " * 1024)).status == 413
    with Connection(site.port) as connection:
        with suppress(ConnectionError):
            connection.send(request(b"x" * (2 * MAX_BODY), PATH))
        answer = connection.answer()
        assert (answer.status, answer.body) == (413, b"Webhook payload too large")
        if site.is_eager:
            assert connection.is_over()


def check_slow_bodies(site: Site) -> None:
    """Check that a body that stalls or arrives byte by byte gets a 408 after the time limit."""
    with Connection(site.port) as stopped, Connection(site.port) as dripping:
        stopped.send(head(PATH, length=len(DELIVERY)) + DELIVERY[:50])
        dripping.send(head(PATH, length=len(DELIVERY)))
        # In gunicorn, each piece that arrives restarts the time limit.
        drops = deque(DELIVERY[: 5 if site.name == "gunicorn" else -1])

        def answered() -> bool:
            with suppress(ConnectionError):
                dripping.send(bytes([drops.popleft()]) if drops else b"")
            return dripping.is_readable()

        eventually(answered)
        assert stopped.answer().status == dripping.answer().status == 408
    assert site.delivered_at is None


def check_clients_that_leave(site: Site) -> None:
    """Check that a complete request of a disconnected client is recorded, and no other."""
    for leave in (Connection.close, Connection.reset):
        world.fill(f"sqlite:///{site.file}")
        connection = Connection(site.port)
        connection.send(head(PATH, length=len(DELIVERY)) + DELIVERY[:-1])
        site.wait_until_read()
        leave(connection)
        assert site.post(STRANGER).status == 404
        assert site.delivered_at is None
        with site.locked():
            connection = Connection(site.port)
            connection.send(request(DELIVERY, PATH))
            site.wait_until_read()
            leave(connection)
        eventually(lambda: site.delivered_at == AT)


def check_many_connections(site: Site) -> None:
    """Check that many notifications can wait at once, without delaying other requests."""
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(site.port)) for _ in range(63)]
        with site.locked():
            for connection in connections:
                connection.send(request(DELIVERY, PATH))
            assert site.post(DELIVERY, secret="wrong").status == 401
        answers = [connection.answer().status for connection in connections]
    assert answers == [200] * len(connections)


def check_stop(site: Site) -> None:
    """Check that SIGTERM ends the server after waiting notifications have their responses."""
    with Connection(site.port) as waiting:
        with site.locked():
            waiting.send(request(DELIVERY, PATH))
            site.wait_until_read()
            site.serving.send(signal.SIGTERM)
            time.sleep(0.2)  # time for the signal; the test is valid without it, too
        if site.name != "runserver":
            assert waiting.answer().status == 200
            assert site.delivered_at == AT
    assert site.serving.ended() in {0, -signal.SIGTERM}  # uvicorn sends itself the signal again


CHECKS: list[Callable[[Site], None]] = [
    check_answers,
    check_before_the_body,
    check_size,
    check_slow_bodies,
    check_clients_that_leave,
    check_many_connections,
    check_stop,
]
