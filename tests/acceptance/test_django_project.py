"""`examples/django_project` under real servers, and its page followed by a newcomer."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command import Serving
from django_project.manage import Manage, runserver
from django_project.page import PAGE, TRY, start
from hookrow import testing
from process import Command, gunicorn, uvicorn
from session import read_blocks, read_commands, terminal
from wire import ENDPOINT, SECRET, Connection, ask, chunk, get, head, request

PATH = f"/mail{ENDPOINT}"
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Host:
    """A server, and what is different under it, as the last table of the page says."""

    command: Command
    app: str = ""
    group_commit: bool = False
    chunks: int = 200
    limits_bodies: bool = False
    answers_when_stopped: bool = True


HOSTS = {
    "gunicorn": Host(gunicorn, "project.wsgi:application", limits_bodies=True),
    "uvicorn": Host(uvicorn, "project.asgi:application"),
    "uvicorn-in-groups": Host(uvicorn, "project.asgi:application", group_commit=True),
    "runserver": Host(runserver, chunks=411, answers_when_stopped=False),
}


@dataclass(frozen=True, slots=True)
class Site:
    """The project under a server."""

    host: Host
    serving: Serving
    file: Path

    @property
    def port(self) -> int:
        """The port of the server."""
        return self.serving.port

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock of the database, so that notifications wait."""
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield

    def send(self, email: str, message_id: str) -> bytes:
        """Have the project save a dispatch; return the body of its delivery."""
        path = f"/dispatches?email={email}&message_id={message_id}"
        assert ask(self.port, request(b"", path, secret=None)).status == 201
        return json.dumps(testing.delivery("grace@example.com", message_id, at=AT)).encode()

    def delivered_at(self, message_id: str) -> str | None:
        """Return what the project shows of a dispatch."""
        shown = json.loads(get(self.port, f"/dispatches/{message_id}").body)
        delivered: str | None = shown["delivered_at"]
        return delivered


@pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))
def test_a_server(host: Host, tmp_path: Path) -> None:
    """The endpoint and the project's own views keep the contract under a server, until SIGTERM."""
    hookrow = {"SECRET": SECRET, "GROUP_COMMIT": host.group_commit}
    file = tmp_path / "hookrow.db"
    urls = {"ROOT_URLCONF": "project.urls"}  # the example's own
    manage = Manage(tmp_path, f"sqlite:///{file}", HOOKROW=hookrow, **urls)
    assert manage.run("migrate", "-v0").returncode == 0
    with manage.serving_by(host.command, host.app) as serving:
        site = Site(host, serving, file)
        records(site)
        reads_bodies(site)
        stops(site)
    assert "Traceback" not in serving.log


def records(site: Site) -> None:
    """Assert that it records on what the project saved, and refuses a wrong secret."""
    body = site.send("Grace@Example.com", "m-1")
    assert site.delivered_at("m-1") is None
    assert ask(site.port, request(body, PATH, secret="wrong")).status == 401
    assert ask(site.port, request(b"{", PATH)).status == 422
    assert ask(site.port, request(body, PATH)).status == 200
    assert (site.delivered_at("m-1") or "").startswith("2026-03-04T05:06:07")


def reads_bodies(site: Site) -> None:
    """Assert the responses to chunked, slow and interrupted bodies."""
    body = site.send("grace@example.com", "m-2")
    with Connection(site.port) as connection:
        with suppress(ConnectionError):  # it may have answered, and closed, before the end
            connection.send(head(PATH, extra=[b"Transfer-Encoding: chunked"]))
            connection.send(chunk(body[:50]) + chunk(body[50:]) + chunk(b""))
        assert connection.answer().status == site.host.chunks
    with Connection(site.port) as connection:
        connection.send(head(PATH, length=len(body)) + body[:50])
        if site.host.limits_bodies:
            assert connection.answer().status == 408
    assert ask(site.port, request(body, PATH)).status == 200


def stops(site: Site) -> None:
    """Assert that on SIGTERM what waits is recorded and answered, and that the server ends."""
    body = site.send("grace@example.com", "m-3")
    with Connection(site.port) as waiting:
        with site.locked():
            waiting.send(request(body, PATH))
            # The response to this one shows that the server has read the other.
            assert ask(site.port, request(body, PATH, secret="wrong")).status == 401
            site.serving.send(signal.SIGTERM)
        if site.host.answers_when_stopped:
            assert waiting.answer().status == 200
    # uvicorn sends itself the signal once more when it is done.
    assert site.serving.ended() in {0, -signal.SIGTERM}


def test_the_page(tmp_path: Path) -> None:
    """A newcomer's commands print what the page shows below them."""
    start(tmp_path, TRY)
    [session] = read_blocks(PAGE, "console")
    time = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
    with terminal(tmp_path) as shell:
        for line, expected in read_commands(session):
            assert time.sub("", shell.type(line)).strip() == time.sub("", expected).strip()
