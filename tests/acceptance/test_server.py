"""`hookrow serve` in processes: starts, signals, workers, terminals and outages.

What does not need a process is in `hosts/test_serve_app.py` and `cli/test_cli_serve.py`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import world
from command import Command, Serving
from hookrow.http import SLOWEST_BODY
from hookrow.server import DRAIN
from postgres import Server
from wire import (
    AT,
    DELIVERY,
    ENDPOINT,
    PATIENCE,
    SECRET,
    TEXT,
    Answer,
    Connection,
    ask,
    eventually,
    get,
    head,
    request,
)

NEW, OLD, OLDER = "the-secret-of-next-year", SECRET, "the-secret-of-last-year"

# A worker imports this file too, under another name.
IMPATIENT = """
import hookrow.asgi
from hookrow.__main__ import main

hookrow.asgi.SLOWEST_BODY = 1.0

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder; it has little patience for bodies."""
    (tmp_path / "impatient.py").write_text(IMPATIENT)
    return Command(tmp_path, (sys.executable, tmp_path / "impatient.py"), measured=True)


def post(server: Serving, path: str = ENDPOINT, *, secret: str = SECRET) -> Answer:
    """Post a delivery."""
    return ask(server.port, request(DELIVERY, path, secret=secret))


def delivered_at(url: str) -> object:
    """Return the delivery time of the first dispatch."""
    return world.rows(url)["dispatches"][0]["delivered_at"]


def wait_until_started(server: Serving, processes: int) -> None:
    """Wait until so many processes have started to serve."""
    server.wait_until_it_says("Application startup complete", processes)


class TestStart:
    def test_defaults(self, command: Command) -> None:
        """With a secret alone it serves a file of its own, and logs hostile requests few times."""
        url = f"sqlite:///{command.folder}/hookrow.db"
        with command.serving("--dashboard", HOOKROW_PREVIOUS_SECRET=OLDER) as server:
            assert f"takes notifications at http://127.0.0.1:{server.port}{ENDPOINT}" in server.log
            assert post(server).body == b"Engine::Subscriber not found"
            world.fill(url)
            answer = post(server, secret=OLDER)
            assert (answer.status, answer.body, answer.header("content-type")) == (200, b"", TEXT)
            assert answer.header("server") is None
            assert delivered_at(url) == AT
            for _ in range(100):
                assert ask(server.port, b"nonsense\r\n\r\n").status == 400
                assert post(server, secret="wrong").status == 401
            assert get(server.port, "/dashboard/").status == 401
            server.send(signal.SIGHUP)
            server.wait_until_it_says("The secrets were read anew")
            with Connection(server.port) as idle:
                idle.send(request(DELIVERY))
                assert idle.answer().status == 200
                server.send(signal.SIGTERM)
                assert server.ended() == 0
                assert idle.is_over()
        assert 1 <= server.log.count("Invalid HTTP request received") < 50
        assert 1 <= server.log.count("came without the secret") < 50
        assert "Set HOOKROW_DASHBOARD_PASSWORD" in server.log  # there is no terminal
        assert not re.search(f"ERROR|Traceback|token=|{SECRET}", server.log)

    def test_ipv6(self, command: Command) -> None:
        """It listens at an IPv6 address, and stops on Ctrl-C."""
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        with command.serving(HOOKROW_HOST="::1") as server:
            assert f"http://[::1]:{server.port}{ENDPOINT}" in server.log
            server.send(signal.SIGINT)
            assert server.ended() == 0
        assert "Traceback" not in server.log

    def test_dashboard_token(self, command: Command) -> None:
        """The dashboard's token is printed to the terminal, and valid in every worker.

        It is neither logged nor in a worker's command line or environment. Killed workers are
        replaced by others that accept the session.
        """
        options = ("--dashboard", "--mount-path", "/mail", "--workers", 2, "--log-level", "debug")
        with command.serving_at_terminal(*options) as server:
            wait_until_started(server, 2)
            where = f"http://127.0.0.1:{server.port}/mail/dashboard/"
            assert f"The dashboard is at {where}" in server.log
            address = urlsplit(server.dashboard_address)
            token = address.query.removeprefix("token=")
            assert get(server.port, f"{address.path}?token={token}x").status == 401
            answer = get(server.port, f"{address.path}?{address.query}")
            assert (answer.status, answer.header("location")) == (303, "./")
            cookie = (answer.header("set-cookie") or "").partition(";")[0]
            assert cookie.startswith(f"hookrow_session_{server.port}=")
            signed_in = [f"Cookie: {cookie}".encode()]
            listed = head("/mail/dashboard/notifications", method="GET", extra=signed_in)
            assert ask(server.port, listed).status == 200
            started = server.workers()
            for worker in started:
                for name in ("cmdline", "environ"):
                    assert token.encode() not in Path(f"/proc/{worker}/{name}").read_bytes()
                os.kill(worker, signal.SIGKILL)
            wait_until_started(server, 4)
            assert not {*started} & {*server.workers()}
            assert [ask(server.port, listed).status for _ in range(8)] == [200] * 8
            for nonsense in (f"GET /mail/dashboard/?token={token} \r\n\r\n", f"{token}\r\n\r\n"):
                assert ask(server.port, nonsense.encode()).status == 400
        assert "Invalid HTTP request received" in server.log
        assert token not in server.log


class TestSignals:
    def test_reload(self, command: Command) -> None:
        """On SIGHUP, every process reloads the secrets; meanwhile no request is refused."""
        secrets = command.folder / "secrets"
        secrets.touch(0o600)
        secrets.write_text(f"{OLD}\n{OLDER}")

        def statuses() -> list[int]:
            return [post(server, secret=each).status for each in (NEW, OLD, OLDER)]

        options = ("--secret-file", secrets, "--workers", 2)
        with command.serving(*options, HOOKROW_SECRET="") as server:
            wait_until_started(server, 2)
            before = server.workers()
            assert statuses() == [401, 404, 404]
            secrets.write_text(f"{NEW}\n{OLD}")
            server.send(signal.SIGHUP)
            while server.log.count("The secrets were read anew") < 2:
                assert post(server).status == 404
            assert [statuses() for _ in range(8)] == [[404, 404, 401]] * 8
            assert server.workers() == before
        assert not re.search("Traceback|the-secret-of", server.log)

    @pytest.mark.parametrize("workers", [1, 2])
    def test_stop(self, command: Command, workers: int) -> None:
        """On SIGTERM, everything in flight is answered before the processes end with status 0.

        A client that never ends its body is answered by the time limit for bodies.
        """
        assert DRAIN >= SLOWEST_BODY + 5.0
        url = f"sqlite:///{command.folder}/hookrow.db"
        with command.serving("--workers", workers) as server, ExitStack() as stack:
            wait_until_started(server, workers)
            world.fill(url)
            children = server.workers()
            stuck, *connections = [stack.enter_context(Connection(server.port)) for _ in range(20)]
            database = stack.enter_context(closing(sqlite3.connect(command.folder / "hookrow.db")))
            database.execute("BEGIN IMMEDIATE")
            for connection in connections:
                connection.send(request(DELIVERY))
            stuck.send(head(length=1000) + b"{")
            # Each process has read its requests by the time it has answered these.
            assert {get(server.port, "/healthz").status for _ in range(20)} == {200}
            server.send(signal.SIGTERM)
            server.wait_until_it_says("Shutting down", workers)
            assert server.lives
            database.rollback()
            assert [connection.answer().status for connection in connections] == [200] * 19
            assert stuck.answer().status == 408
            assert server.ended() == 0
        assert not any(Path(f"/proc/{child}").exists() for child in children)
        assert delivered_at(url) == AT
        assert "Traceback" not in server.log


class TestPostgreSQL:
    PASSWORD = "the-right-password"

    def test_outages(self, command: Command, own_postgres: Server, own_postgres_url: str) -> None:
        """It starts while PostgreSQL is down; it and its pages recover from that and a freeze."""
        world.fill(own_postgres_url)
        variables = {
            "HOOKROW_DATABASE_URL": own_postgres_url,
            "HOOKROW_DASHBOARD_PASSWORD": self.PASSWORD,
        }
        own_postgres.stop()
        try:
            with command.serving("--dashboard", **variables) as server:
                assert re.search("WARNING .*The database cannot be reached yet", server.log)
                ready = get(server.port, "/readyz")
                assert (ready.status, b"cannot be reached" in ready.body) == (503, True)
                assert int(post(server).header("retry-after") or 0) > 0
                own_postgres.start()
                self.wait_until_well(server)
                assert delivered_at(own_postgres_url) == AT
                with own_postgres.frozen():
                    self.check_frozen(server)
                self.wait_until_well(server)
        finally:
            own_postgres.restart()
        assert "Traceback" not in server.log

    def wait_until_well(self, server: Serving) -> None:
        """Wait until everything works."""
        eventually(lambda: get(server.port, "/readyz").status == 200)
        eventually(lambda: post(server).status == 200)
        eventually(lambda: self.show(server).status == 200)

    def check_frozen(self, server: Serving) -> None:
        """Check that everything is answered, however many pages are asked for."""
        with ThreadPoolExecutor(20) as threads:
            pages = [threads.submit(self.show, server) for _ in range(16)]
            ready = threads.submit(get, server.port, "/readyz")
            posted = threads.submit(post, server)
            assert get(server.port, "/healthz").status == 200
            assert b"The database " in ready.result(PATIENCE).body
            answer = posted.result(PATIENCE)
            assert (answer.status, answer.body) == (503, b"Try again later")
            assert {each.result(PATIENCE).status for each in pages} == {503}

    def show(self, server: Serving) -> Answer:
        """Get a page of the dashboard."""
        given = b64encode(f"hookrow:{self.PASSWORD}".encode())
        extra = [b"Authorization: Basic " + given]
        return ask(server.port, head("/dashboard/notifications", method="GET", extra=extra))

    def test_spool_of_workers(
        self, command: Command, own_postgres: Server, own_postgres_url: str
    ) -> None:
        """The spool of two workers outlives a kill in an outage, and is then drained."""
        world.fill(own_postgres_url)
        spool = command.folder / "spool.db"

        def spooled() -> int:
            with closing(sqlite3.connect(spool)) as database:
                return int(database.execute("SELECT count(*) FROM arrivals").fetchone()[0])

        options = ("--spool", spool, "--workers", 2)
        variables = {"HOOKROW_DATABASE_URL": own_postgres_url}
        own_postgres.stop()
        try:
            with command.serving(*options, **variables) as server:
                assert {post(server).status for _ in range(3)} == {503}
                eventually(lambda: spooled() == 1)
                assert spool.stat().st_mode & 0o777 == 0o600
                server.send(signal.SIGKILL)
        finally:
            own_postgres.start()
        with command.serving(*options, **variables) as server:
            eventually(lambda: delivered_at(own_postgres_url) == AT)
            eventually(lambda: spooled() == 0)
            entry = json.loads(command.call("log", "--json", **variables).stdout)
            assert (entry["outcome"], entry["attempts"]) == ("recorded", 3)
        assert not re.search(f"Traceback|{SECRET}", server.log)
