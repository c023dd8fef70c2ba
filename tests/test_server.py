"""`hookrow serve`, started and stopped as a user does it: a real process, real signals."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from urllib.parse import urlsplit

import msgspec
import pytest
from sqlalchemy import insert, make_url, update

import world
from command import Command, Serving
from hookrow import testing
from hookrow.dashboard.visitor import DELAY
from hookrow.http import SLOWEST_BODY
from hookrow.server import DRAIN
from hookrow.stores import tables
from hookrow.stores.engines import opened
from nginx import fronting
from postgres import Server
from wire import (
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

ADA, ADAS = "ada@example.com", "6f1d0a4e-3b52-4c8e-9a17-0c5be2d4f901"
AT = datetime(2026, 3, 4, 5, 6, 7, 123456, tzinfo=UTC)

DELIVERY = msgspec.json.encode(testing.delivery(ADA, ADAS, at=AT))

REFUSAL = re.compile(r"Error: [^\n]+\n")


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Return the command, in an empty folder."""
    return Command(tmp_path)


@pytest.fixture
def _logging_as_before() -> Iterator[None]:
    """Take back what a command within this process set up for its loggers."""
    loggers = [logging.getLogger(name) for name in ("hookrow", "uvicorn")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def post(server: Serving, path: str = ENDPOINT, *, secret: str = SECRET) -> Answer:
    """Post a delivery."""
    return ask(server.port, request(DELIVERY, path, secret=secret))


def delivered_at(url: str) -> datetime | None:
    """Return when the first dispatch was delivered, as its row says."""
    at: datetime | None = world.rows(url)["dispatches"][0]["delivered_at"]
    return at


class TestAlone:
    def test_defaults(self, command: Command) -> None:
        """With a secret and nothing else it makes its own file and records in it."""
        url = f"sqlite:///{command.folder}/hookrow.db"
        with command.serving() as server:
            assert f"takes notifications at http://127.0.0.1:{server.port}{ENDPOINT}" in server.log
            assert post(server).body == b"Engine::Subscriber not found"
            world.fill(url)
            answer = post(server)
            assert (answer.status, answer.body, answer.header("content-type")) == (200, b"", TEXT)
            assert answer.header("server") is None
            assert delivered_at(url) == AT
            assert post(server, secret="wrong").status == 401
        (warning,) = re.findall(r"WARNING +hookrow: (.+)", server.log)
        told = "Somebody came without the secret, and was answered 401: request"
        assert re.fullmatch(rf"{told} [0-9a-f]{{16}}\.", warning)
        assert "ERROR" not in server.log
        assert SECRET not in server.log

    def test_again(self, command: Command) -> None:
        """A file that is there is used as it is."""
        url = f"sqlite:///{command.folder}/hookrow.db"
        command.call("db", "upgrade")
        world.fill(url)
        with command.serving() as server:
            assert post(server).status == 200
        assert command.call("check", HOOKROW_SECRET=SECRET).returncode == 0

    def test_made_by_the_host(self, command: Command) -> None:
        """Tables of ours that the host's own migrations made are used, and left to those."""
        url = f"sqlite:///{command.folder}/hookrow.db"
        with opened(url) as engine:
            tables.metadata.create_all(engine)
        world.fill(url)
        with command.serving() as server:
            assert post(server).status == 200
        assert command.call("db", "current").stdout == "none\n"

    def test_mount_path(self, command: Command) -> None:
        """With a mount path that is where it is, and nowhere else; health is at the root."""
        with command.serving("--mount-path", "mail/") as server:
            assert f"/mail{ENDPOINT}" in server.log
            assert post(server, "/mail" + ENDPOINT).body == b"Engine::Subscriber not found"
            assert post(server, f"/mail{ENDPOINT}/").body == b"Engine::Subscriber not found"
            for path in (ENDPOINT, "/mail", "/mail/healthz", "/x/mail" + ENDPOINT, "/"):
                answer = post(server, path)
                assert (answer.status, answer.body) == (404, b"Not Found")
            assert get(server.port, "/healthz").status == 200

    def test_ipv6(self, command: Command) -> None:
        """An address of IPv6 is listened at, written as addresses are, and can be posted to."""
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        with command.serving(HOOKROW_HOST="::1") as server:
            assert f"http://[::1]:{server.port}{ENDPOINT}" in server.log
            variables = {"HOOKROW_HOST": "::1", "HOOKROW_PORT": str(server.port)}
            done = command.call("simulate", "open", ADA, **variables, HOOKROW_SECRET=SECRET)
            assert done.stdout == "404 Engine::Subscriber not found\n"

    def test_rotation(self, command: Command) -> None:
        """While a secret is rotated both are accepted."""
        with command.serving(HOOKROW_PREVIOUS_SECRET="the-secret-of-last-year") as server:
            assert post(server).status == 404
            assert post(server, secret="the-secret-of-last-year").status == 404
            assert post(server, secret="the-secret-of-next-year").status == 401

    def test_short_secret(self, command: Command) -> None:
        """A secret that can be guessed is warned of, not shown, and works."""
        with command.serving(HOOKROW_SECRET="hunter2") as server:
            assert post(server, secret="hunter2").status == 404
        assert re.search(r"WARNING .*It has 7 characters and can be guessed", server.log)
        assert "hunter2" not in server.log

    def test_settings_from_a_file(self, command: Command) -> None:
        """What hookrow.toml says counts, tables too; a host's own are not upgraded."""
        file = command.folder / "hookrow.db"
        with closing(sqlite3.connect(file)) as database:
            database.executescript("""
                CREATE TABLE people (id INTEGER PRIMARY KEY, address TEXT, suppressed_at TEXT);
                CREATE TABLE sends (id INTEGER PRIMARY KEY, provider_message_id TEXT,
                    subscriber_id INTEGER, delivered_at TEXT, opened_at TEXT);
                INSERT INTO people VALUES (1, 'ada@example.com', NULL);
            """)
            database.execute("INSERT INTO sends VALUES (1, ?, 1, NULL, NULL)", [ADAS])
            database.commit()
        (command.folder / "hookrow.toml").write_text(f"""
            secret = "{SECRET}"
            database_url = "sqlite:///hookrow.db"
            log_level = "error"
            [tables]
            log = false
            subscriptions = false
            [tables.subscribers]
            table = "people"
            [tables.subscribers.columns]
            email = "address"
            suppression_reason = false
            suppression_changed_at = false
            [tables.dispatches]
            table = "sends"
            [tables.dispatches.columns]
            list_id = false
            suppressed_at = false
            suppression_reason = false
            suppression_changed_at = false
        """)
        with command.serving(HOOKROW_SECRET="") as server:
            assert get(server.port, "/readyz").status == 200
            assert post(server).status == 200
        assert server.log == ""
        with closing(sqlite3.connect(file)) as database:
            ((delivered,),) = database.execute("SELECT delivered_at FROM sends").fetchall()
            assert delivered == "2026-03-04 05:06:07.123456"
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            assert {name for (name,) in names} == {"people", "sends"}

    def test_log_names_nobody(self, command: Command) -> None:
        """However much is logged, no secret and no full address is in it."""
        with command.serving("--log-level", "debug") as server:
            world.fill(f"sqlite:///{command.folder}/hookrow.db")
            assert post(server).status == 200
            stranger = testing.opening("eve@example.com", ADAS, at=AT)
            assert ask(server.port, request(msgspec.json.encode(stranger))).status == 404
            with closing(sqlite3.connect(command.folder / "hookrow.db")) as database:
                database.executescript(
                    "CREATE TRIGGER never BEFORE UPDATE ON hookrow_dispatches "
                    "BEGIN SELECT RAISE(ABORT, 'never'); END"
                )
            assert post(server).status == 503
        assert "ERROR" in server.log
        assert not re.search(f"{SECRET}|(ada|eve)@", server.log)

    def test_log_level(self, command: Command) -> None:
        """What is less than the level is not logged, by us or by what serves."""
        with command.serving("--log-level", "warning") as server:
            assert post(server).status == 404
        assert server.log == ""


class TestStop:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_idle(self, command: Command, number: signal.Signals) -> None:
        """It stops on SIGTERM and on Ctrl-C, with status 0 and no traceback."""
        with command.serving() as server, Connection(server.port) as idle:
            idle.send(request(DELIVERY))
            assert idle.answer().status == 404
            server.send(number)
            assert server.ended() == 0
            assert idle.is_over()
        assert "Traceback" not in server.log

    @pytest.mark.parametrize("workers", [1, 2])
    def test_in_flight(self, command: Command, workers: int) -> None:
        """On SIGTERM all that is in flight is answered before it ends."""
        url = f"sqlite:///{command.folder}/hookrow.db"
        command.call("db", "upgrade")
        world.fill(url)
        with command.serving("--workers", workers) as server, ExitStack() as stack:
            eventually(lambda: server.log.count("Application startup complete") == workers)
            connections = [stack.enter_context(Connection(server.port)) for _ in range(20)]
            database = stack.enter_context(closing(sqlite3.connect(command.folder / "hookrow.db")))
            database.execute("BEGIN IMMEDIATE")
            for connection in connections:
                connection.send(request(DELIVERY))
            # By the time that each of them answers these, each has read the others.
            assert {get(server.port, "/healthz").status for _ in range(20)} == {200}
            server.send(signal.SIGTERM)
            eventually(lambda: server.log.count("Shutting down") == workers)
            assert server.lives
            database.rollback()
            assert [connection.answer().status for connection in connections] == [200] * 20
            assert server.ended() == 0
        assert delivered_at(url) == AT
        assert "Traceback" not in server.log

    def test_unfinished_body(self, command: Command) -> None:
        """A client that never ends its body is answered by its own time limit, not by a 500."""
        assert DRAIN >= SLOWEST_BODY + 5.0, "whatever is in flight ends by itself"
        script = command.folder / "impatient.py"
        script.write_text(
            "from hookrow import asgi\n"
            "from hookrow.__main__ import main\n"
            "asgi.SLOWEST_BODY = 0.5\n"
            "main()\n"
        )
        impatient = Command(command.folder, (sys.executable, script))
        with impatient.serving() as server, Connection(server.port) as stuck:
            stuck.send(head(length=1000) + b"{")
            assert get(server.port, "/healthz").status == 200
            server.send(signal.SIGTERM)
            assert stuck.answer().status == 408
            assert server.ended() == 0
        assert "Traceback" not in server.log

    def test_hang_up(self, command: Command) -> None:
        """SIGHUP, which a terminal that closes sends, does not end it."""
        with command.serving() as server:
            server.send(signal.SIGHUP)
            eventually(lambda: "The secrets were read anew" in server.log)
            assert post(server).status == 404
            assert server.lives

    def test_killed(self, command: Command) -> None:
        """What was answered 200 is there after a crash, and the next start goes on from it."""
        url = f"sqlite:///{command.folder}/hookrow.db"
        command.call("db", "upgrade")
        world.fill(url)
        with command.serving() as server:
            assert post(server).status == 200
            server.send(signal.SIGKILL)
            server.ended()
        with command.serving() as server:
            assert delivered_at(url) == AT
            assert post(server).status == 200


class TestWorkers:
    def test_two(self, command: Command, postgres_url: str) -> None:
        """Each of two workers answers and records by itself; SIGTERM ends all, with status 0."""
        world.fill(postgres_url)
        options = ("--workers", "2", "--mount-path", "/mail")
        with command.serving(*options, HOOKROW_DATABASE_URL=postgres_url) as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            workers = server.workers()
            assert len(workers) == 2
            for stopped in workers:
                with _stopped(stopped):
                    assert post(server, "/mail" + ENDPOINT).status == 200
                    assert get(server.port, "/readyz").status == 200
            server.send(signal.SIGTERM)
            assert server.ended() == 0
            assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
        assert delivered_at(postgres_url) == AT
        assert "Traceback" not in server.log
        assert SECRET not in server.log

    def test_hang_up(self, command: Command) -> None:
        """SIGHUP, which a terminal that closes sends, ends no worker and drops no connection."""
        with command.serving("--workers", "2") as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            before = server.workers()
            server.send(signal.SIGHUP)
            eventually(lambda: server.log.count("The secrets were read anew") == 2)
            assert server.workers() == before
            assert post(server).status == 404
            server.send(signal.SIGINT)
            assert server.ended() == 0

    def test_one_that_dies(self, command: Command) -> None:
        """A worker that dies is replaced."""
        with command.serving("--workers", "2") as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            dead, survivor = server.workers()
            os.kill(dead, signal.SIGKILL)
            assert post(server).status == 404
            eventually(lambda: server.log.count("Application startup complete") == 3)
            assert survivor in server.workers()


class TestSecretFile:
    """Secrets in a file: one a line, read when it starts and on SIGHUP."""

    NEW, OLD, OLDER = "the-secret-of-next-year", SECRET, "the-secret-of-last-year"

    @pytest.fixture
    def secrets(self, command: Command) -> Path:
        """Return the file, which only its owner may read."""
        file = command.folder / "secrets"
        file.touch(0o600)
        return file

    def serving(
        self, command: Command, secrets: Path, workers: int = 1
    ) -> AbstractContextManager[Serving]:
        """Serve with the file, and no other secret."""
        options = ("--secret-file", secrets, "--workers", workers)
        return command.serving(*options, HOOKROW_SECRET="")

    def statuses(self, server: Serving) -> Sequence[int]:
        """Return how the new, the old and the older secret are answered."""
        return [post(server, secret=each).status for each in (self.NEW, self.OLD, self.OLDER)]

    def test_lines(self, command: Command, secrets: Path) -> None:
        """Each line is accepted, and how often each was is told at the end."""
        secrets.write_text(f"\n{self.NEW}\n\n  {self.OLD}\n")
        with self.serving(command, secrets) as server:
            assert self.statuses(server) == [404, 404, 401]
            assert post(server, secret="").status == 401
            assert post(server, secret=self.NEW).status == 404
            server.send(signal.SIGTERM)
            assert server.ended() == 0
        told = "How often each secret was used, the newest first: 2, 1."
        assert told in server.log
        assert re.findall("WARNING +(.*)", server.log)[1:] == []
        assert not re.search("the-secret-of", server.log)

    def test_open_to_others(self, command: Command, secrets: Path) -> None:
        """A file that others may read is warned of, and works."""
        secrets.write_text(self.OLD)
        secrets.chmod(0o640)
        with self.serving(command, secrets) as server:
            assert post(server).status == 404
        assert f"Others may read the file: chmod 600 {secrets}" in server.log

    @pytest.mark.parametrize("workers", [1, 2])
    def test_hang_up(self, command: Command, secrets: Path, workers: int) -> None:
        """On SIGHUP it is read anew, and meanwhile what is in both is never refused."""
        secrets.write_text(f"{self.OLD}\n{self.OLDER}")
        with self.serving(command, secrets, workers) as server, ThreadPoolExecutor() as threads:
            eventually(lambda: server.log.count("Application startup complete") == workers)
            assert self.statuses(server) == [401, 404, 404]
            secrets.write_text(f"{self.NEW}\n{self.OLD}")
            over = Event()

            def throughout() -> set[int]:
                statuses = set()
                while not over.is_set():
                    statuses.add(post(server).status)
                return statuses

            posted = threads.submit(throughout)
            server.send(signal.SIGHUP)
            try:
                server.wait_until_it_says("The secrets were read anew", workers)
            finally:
                over.set()
            assert posted.result(PATIENCE) == {404}
            assert [self.statuses(server) for _ in range(8)] == [[404, 404, 401]] * 8

    @pytest.mark.parametrize("workers", [1, 2])
    def test_broken(self, command: Command, secrets: Path, workers: int) -> None:
        """Where the file is wrong all stays as it was, and a line says so; mended, it counts."""
        secrets.write_text(self.OLD)
        with self.serving(command, secrets, workers) as server:
            eventually(lambda: server.log.count("Application startup complete") == workers)
            before = server.workers()
            for number, broken in enumerate((b"\n", b"not one secret", b"\xff"), 1):
                secrets.write_bytes(broken)
                server.send(signal.SIGHUP)
                server.wait_until_it_says("The secrets stay as they were", number * workers)
                assert [self.statuses(server) for _ in range(4)] == [[401, 404, 401]] * 4
            assert "cannot be read" in server.log
            secrets.write_text(self.NEW)
            server.send(signal.SIGHUP)
            server.wait_until_it_says("The secrets were read anew", workers)
            assert self.statuses(server) == [404, 401, 401]
            assert server.workers() == before
            secrets.write_text("short")
            server.send(signal.SIGHUP)
            server.wait_until_it_says("It has 5 characters and can be guessed", workers)
        assert "Traceback" not in server.log

    @pytest.mark.usefixtures("_logging_as_before")
    @pytest.mark.parametrize(
        ("content", "arguments", "says"),
        [
            (None, (), "The secret file cannot be read"),
            (b"", (), "The webhook secret is missing or empty"),
            (b"\n \n", (), "The webhook secret is missing or empty"),
            (b"hunter2\xff", (), "The secret file cannot be read"),
            (b"hunter2 x", (), "without spaces"),
            (b"hunter2", ("--secret", "hunter22"), "keep one of the two"),
            (b"hunter2", ("--previous-secret", "hunter22"), "keep one of the two"),
        ],
    )
    def test_refused(
        self, command: Command, content: bytes | None, arguments: Sequence[str], says: str
    ) -> None:
        """A file that holds no secret is refused, and so are others besides it."""
        file = command.folder / "secrets"
        if content is not None:
            file.write_bytes(content)
        _assert_refused(command.call("serve", "--secret-file", file, *arguments), says)
        found = command.call("check", "--secret-file", file, *arguments).stdout.splitlines()[0]
        assert found.startswith("error    secret")
        assert says in found
        assert "hunter2" not in found

    def test_many_in_the_environment(self, command: Command) -> None:
        """How often each of two secrets was used is told, wherever they come from."""
        with command.serving(HOOKROW_PREVIOUS_SECRET=self.OLDER) as server:
            assert self.statuses(server) == [401, 404, 404]
            assert self.statuses(server) == [401, 404, 404]
        assert "the newest first: 2, 2." in server.log


class TestLog:
    """What the server does with the log, besides writing it."""

    UNKNOWN = msgspec.json.encode(testing.opening(ADA, "m-1", at=AT))

    def opened_at(self, url: str) -> datetime | None:
        """Return when the dispatch that was missing was opened."""
        at: datetime | None = world.rows(url)["dispatches"][-1]["opened_at"]
        return at

    def park(self, command: Command, url: str) -> None:
        """Leave a notification parked that is due, and whose dispatch is there by now."""
        with command.serving(HOOKROW_DATABASE_URL=url) as server:
            assert ask(server.port, request(self.UNKNOWN)).body == b"Engine::Dispatch not found"
        due = datetime(2000, 1, 1, tzinfo=UTC)
        missing = {"provider_message_id": "m-1", "subscriber_id": 1}
        with opened(url) as engine, engine.begin() as connection:
            connection.execute(insert(tables.dispatches), missing)
            connection.execute(update(tables.notifications).values(retry_at=due))

    def test_sweep(self, command: Command, database_url: str) -> None:
        """What outran its dispatch is recorded by itself, and the log says so."""
        world.fill(database_url)
        self.park(command, database_url)
        there = {"HOOKROW_DATABASE_URL": database_url}
        with command.serving("--no-sweep", **there) as server:
            assert post(server).status == 200
        assert self.opened_at(database_url) is None
        with command.serving(**there):
            eventually(lambda: self.opened_at(database_url) == AT)
        (told,) = command.call("log", "--json", "--type", "Open", **there).stdout.splitlines()
        entry = msgspec.json.decode(told)
        assert (entry["outcome"], entry["attempts"], entry["retry_at"]) == ("recorded", 1, None)

    def test_no_bodies(self, command: Command, sqlite_url: str) -> None:
        """With `--keep-bodies none` no body is kept, nothing parked, and what was kept goes."""
        world.fill(sqlite_url)
        with command.serving() as server:
            assert post(server).status == 200
        with command.serving("--keep-bodies", "none") as server:
            assert ask(server.port, request(self.UNKNOWN)).status == 404
            eventually(lambda: "Pruned from the log" in server.log)
            told = command.call("log", "--json").stdout.splitlines()
        assert re.search("WARNING .*No body is kept", server.log)
        entries = [msgspec.json.decode(line) for line in told]
        assert [entry["outcome"] for entry in entries] == ["dispatch_not_found", "recorded"]
        assert {(entry["body"], entry["retry_at"]) for entry in entries} == {(None, None)}

    def test_prune(self, command: Command, database_url: str) -> None:
        """At its start it deletes what is older than it keeps, and says how many."""
        there = {"HOOKROW_DATABASE_URL": database_url}
        world.fill(database_url)
        with command.serving(**there) as server:
            assert post(server).status == 200
        old = {"last_received_at": datetime.now(UTC) - timedelta(days=91)}
        with opened(database_url) as engine, engine.begin() as connection:
            connection.execute(update(tables.notifications).values(old))
        with command.serving("--keep", "forever", **there) as server:
            assert get(server.port, "/readyz").status == 200
        assert command.call("log", "--json", **there).stdout.count("\n") == 1
        with command.serving(**there) as server:
            eventually(lambda: "Pruned from the log, entries and bodies: 1." in server.log)
        assert command.call("log", "--json", **there).stdout == ""

    @pytest.mark.parametrize("workers", [1, 2])
    def test_spool(
        self, command: Command, postgres: Server, postgres_url: str, workers: int
    ) -> None:
        """What comes in an outage outlives a crash, and is recorded when all is back."""
        world.fill(postgres_url)
        spool = command.folder / "spool.db"
        serving = partial(
            command.serving,
            *("--spool", spool, "--workers", workers),
            HOOKROW_DATABASE_URL=postgres_url,
        )
        postgres.stop()
        try:
            with serving() as server:
                assert {post(server).status for _ in range(3)} == {503}
                eventually(lambda: self.spooled(spool) == 1)
                assert spool.stat().st_mode & 0o777 == 0o600
                server.send(signal.SIGKILL)
        finally:
            postgres.start()
        assert delivered_at(postgres_url) is None
        with serving():
            eventually(lambda: delivered_at(postgres_url) == AT)
            eventually(lambda: self.spooled(spool) == 0)
        done = command.call("log", "--json", HOOKROW_DATABASE_URL=postgres_url)
        entry = msgspec.json.decode(done.stdout)
        assert (entry["outcome"], entry["attempts"]) == ("recorded", 3)

    def spooled(self, spool: Path) -> int:
        """Return how many wait in the spool."""
        with closing(sqlite3.connect(spool)) as database:
            (count,) = database.execute("SELECT count(*) FROM arrivals").fetchone()
        return int(count)


class TestDashboard:
    def sign_in(self, server: Serving) -> bytes:
        """Open the address that the server printed; return the header with the cookie."""
        address = urlsplit(server.dashboard_address)
        answer = get(server.port, f"{address.path}?{address.query}")
        assert (answer.status, answer.header("location")) == (303, "./")
        cookie = (answer.header("set-cookie") or "").partition(";")[0]
        assert cookie.startswith(f"hookrow_session_{server.port}=")
        return f"Cookie: {cookie}".encode()

    def test_token(self, command: Command) -> None:
        """Without a password the dashboard requires the token that is printed to a terminal.

        It is valid in every worker, also in one that replaces another, and the receiver goes on
        as ever. The token is in no log line and in no child's command line.
        """
        options = ("--dashboard", "--mount-path", "/mail", "--workers", 2, "--log-level", "debug")
        with command.serving_at_terminal(*options) as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            where = f"http://127.0.0.1:{server.port}/mail/dashboard/"
            assert f"The dashboard is at {where}" in server.log
            token = server.dashboard_address.removeprefix(f"{where}?token=")
            for path in ("", "/", "/notifications", "/?token=wrong", f"/?token={token}x"):
                assert get(server.port, f"/mail/dashboard{path}").status == 401
            signed_in = self.sign_in(server)
            asked = head("/mail/dashboard/", method="GET", extra=[signed_in])
            page = ask(server.port, asked)
            assert (page.status, page.header("content-type")) == (200, "text/html; charset=utf-8")
            assert get(server.port, "/mail/dashboards").status == 404
            assert post(server, f"/mail{ENDPOINT}").body == b"Engine::Subscriber not found"
            listed = head("/mail/dashboard/notifications", method="GET", extra=[signed_in])
            assert b"subscriber not found" in ask(server.port, listed).body
            started = server.workers()
            for worker in started:
                assert token.encode() not in Path(f"/proc/{worker}/cmdline").read_bytes()
                os.kill(worker, signal.SIGKILL)
            eventually(lambda: server.log.count("Application startup complete") == 4)
            assert not {*started} & {*server.workers()}
            assert [ask(server.port, asked).status for _ in range(8)] == [200] * 8
            self.sign_in(server)
            for nonsense in (f"GET /mail/dashboard/?token={token} \r\n\r\n", f"{token}\r\n\r\n"):
                assert ask(server.port, nonsense.encode()).status == 400
        assert "Invalid HTTP request received" in server.log
        assert token not in server.log

    def test_environment(self, command: Command) -> None:
        """The token is in no worker's environment."""
        with command.serving_at_terminal("--dashboard", "--workers", 2) as server:
            eventually(lambda: server.log.count("Application startup complete") == 2)
            token = server.dashboard_address.partition("?token=")[2].encode()
            for worker in server.workers():
                assert token not in Path(f"/proc/{worker}/environ").read_bytes()

    def test_no_terminal(self, command: Command) -> None:
        """The token is printed only to a terminal; the log explains how to set a password."""
        with command.serving("--dashboard") as server:
            server.wait_until_it_says("Set HOOKROW_DASHBOARD_PASSWORD")
            assert get(server.port, "/dashboard/").status == 401
        assert "token=" not in server.log

    def test_behind_a_proxy(self, command: Command, sqlite_url: str) -> None:
        """A proxy that passes on neither Host nor its own name opens nothing without the token."""
        world.fill(sqlite_url)
        serving = command.serving_at_terminal("--dashboard", HOOKROW_DATABASE_URL=sqlite_url)
        with serving as server, fronting(command.folder, server.port, "") as port:
            page = f"/dashboard/subscriber?email={ADA}"
            form = b"token=forged&action=suppress&reason=attack"
            forged = b"Cookie: hookrow_dashboard=forged"
            attack = request(form, page, secret=None, extra=[forged])
            assert get(port, page).status == ask(port, attack).status == 401
            suppressed = [row["suppressed_at"] for row in world.rows(sqlite_url)["subscribers"]]
            assert suppressed == [row["suppressed_at"] for row in world.start()["subscribers"]]
            extra = [self.sign_in(server) + b"; hookrow_dashboard=forged"]
            assert ask(port, head(page, method="GET", extra=extra)).status == 200
            assert ask(port, request(form, page, secret=None, extra=extra)).status == 303

    def test_password(self, command: Command) -> None:
        """With one it asks for the user hookrow and it, and no line of the log has it."""
        with command.serving("--dashboard", HOOKROW_DASHBOARD_PASSWORD="word") as server:
            right = b64encode(b"hookrow:word").decode()
            wrong = b64encode(b"hookrow:words").decode()
            for given, status in (("", 401), (wrong, 401), (right, 200)):
                extra = [f"Authorization: Basic {given}".encode()]
                assert ask(server.port, head("/dashboard/", method="GET", extra=extra)).status == (
                    status
                )
            assert get(server.port, "/dashboard/?token=x").status == 401
            server.wait_until_it_says("The dashboard refused a wrong user or password, request ")
        assert server.log.count("The dashboard's password has 4 characters") == 1
        assert "word" not in server.log.replace("password", "")

    def test_wrong_passwords(self, command: Command) -> None:
        """While 32 answers to wrong passwords are delayed, the right one is answered at once."""
        with (
            command.serving("--dashboard", HOOKROW_DASHBOARD_PASSWORD=self.PASSWORD) as server,
            ExitStack() as stack,
        ):
            connections = [stack.enter_context(Connection(server.port)) for _ in range(33)]
            began = time.monotonic()
            for connection in connections:
                connection.send(self.asked("wrong"))
            assert ask(server.port, self.asked(self.PASSWORD)).status == 200
            assert time.monotonic() - began < DELAY
            answers = [connection.answer() for connection in connections]
            assert time.monotonic() - began >= DELAY
        assert sorted(answer.status for answer in answers) == [*[401] * 32, 429]

    PASSWORD = "the-right-password"

    def asked(self, password: str) -> bytes:
        """Return a request with a password."""
        given = b64encode(f"hookrow:{password}".encode()).decode()
        extra = [f"Authorization: Basic {given}".encode()]
        return head("/dashboard/notifications", method="GET", extra=extra)

    def test_off(self, command: Command) -> None:
        """Without being asked for there is none."""
        with command.serving() as server:
            assert get(server.port, "/dashboard/").status == 404


class TestHostile:
    def test_told_once(self, command: Command) -> None:
        """However many come with nonsense or without the secret, it is told a few times only."""
        nonsense = (b"nonsense\r\n\r\n", b"GET http://a:b:c HTTP/1.1\r\n\r\n")
        with command.serving() as server:
            for _ in range(200):
                assert [ask(server.port, each).status for each in nonsense] == [400, 400]
                assert post(server, secret="wrong").status == 401
            assert post(server).status == 404
        assert 1 <= server.log.count("Invalid HTTP request received") < 50
        assert 1 <= server.log.count("came without the secret") < 50
        assert "Traceback" not in server.log


class TestHealth:
    def test_migrated_or_not(self, command: Command) -> None:
        """Where all is well both checks say so; where our tables are wrong, one does, each time."""
        with command.serving() as server:
            alive, ready = get(server.port, "/healthz"), get(server.port, "/readyz")
            assert (alive.status, alive.body, alive.header("content-type")) == (200, b"ok\n", TEXT)
            assert (ready.status, ready.body) == (200, b"ready\n")
            assert ready.header("content-type") == TEXT
            for statement in (
                "UPDATE hookrow_version SET version_num = '9999' WHERE version_num = '0001'",
                "INSERT INTO hookrow_version VALUES ('0001')",
                "ALTER TABLE hookrow_dispatches RENAME TO sends",
            ):
                with closing(sqlite3.connect(command.folder / "hookrow.db")) as database:
                    database.execute(statement)
                    database.commit()
                answer = get(server.port, "/readyz")
                assert answer.status == 503
                assert answer.body.count(b"\n") == 1
                assert get(server.port, "/healthz").status == 200

    def test_down_at_the_start(self, command: Command, postgres: Server, postgres_url: str) -> None:
        """It starts while PostgreSQL is down, warns, says why, and recovers by itself."""
        world.fill(postgres_url)
        postgres.stop()
        try:
            with command.serving(HOOKROW_DATABASE_URL=postgres_url) as server:
                assert re.search("WARNING .*The database cannot be reached yet", server.log)
                ready = get(server.port, "/readyz")
                assert ready.status == 503
                assert b"cannot be reached" in ready.body
                answer = post(server)
                assert (answer.status, answer.body) == (503, b"Try again later")
                assert int(answer.header("retry-after") or 0) > 0
                assert get(server.port, "/healthz").status == 200
                postgres.start()
                eventually(lambda: get(server.port, "/readyz").status == 200)
                eventually(lambda: post(server).status == 200)
                assert delivered_at(postgres_url) == AT
            assert "Traceback" not in server.log
        finally:
            postgres.restart()

    def test_restarted(self, command: Command, postgres: Server, postgres_url: str) -> None:
        """When PostgreSQL is restarted under it, it goes on with new connections."""
        world.fill(postgres_url)
        with command.serving(HOOKROW_DATABASE_URL=postgres_url) as server:
            assert post(server).status == 200
            assert get(server.port, "/readyz").status == 200
            postgres.stop()
            try:
                assert [get(server.port, "/readyz").status for _ in range(2)] == [503, 503]
            finally:
                postgres.start()
            eventually(lambda: get(server.port, "/readyz").status == 200)
            postgres.restart()
            assert get(server.port, "/readyz").status == 200
            eventually(lambda: post(server).status == 200)
        assert "Traceback" not in server.log

    def test_frozen(self, command: Command, postgres: Server, postgres_url: str) -> None:
        """When PostgreSQL does not answer any more, all answers still come, within 5 seconds."""
        world.fill(postgres_url)
        with command.serving(HOOKROW_DATABASE_URL=postgres_url) as server:
            assert post(server).status == 200
            assert get(server.port, "/readyz").status == 200
            with postgres.frozen(), ThreadPoolExecutor() as threads:
                began = time.monotonic()
                ready = threads.submit(get, server.port, "/readyz")
                posted = threads.submit(post, server)
                assert get(server.port, "/healthz").status == 200
                assert time.monotonic() - began < 2
                assert ready.result(PATIENCE).status == 503
                assert b"The database " in ready.result().body
                assert (posted.result(PATIENCE).status, posted.result().body) == (
                    503,
                    b"Try again later",
                )
                assert time.monotonic() - began < 6.5
            eventually(lambda: get(server.port, "/readyz").status == 200)
            eventually(lambda: post(server).status == 200)
        assert "Traceback" not in server.log

    def test_frozen_under_the_dashboard(
        self,
        command: Command,
        postgres: Server,
        postgres_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """However many look then, each page is 503 in ten seconds; all else goes on at once."""
        monkeypatch.setattr("wire.PATIENCE", 20.0)
        world.fill(postgres_url)
        password = "the-right-password"
        given = b64encode(f"hookrow:{password}".encode())
        variables = {"HOOKROW_DATABASE_URL": postgres_url, "HOOKROW_DASHBOARD_PASSWORD": password}

        def show(port: int, page: str) -> Answer:
            extra = [b"Authorization: Basic " + given]
            return ask(port, head(page, method="GET", extra=extra))

        with command.serving("--dashboard", **variables) as server, ThreadPoolExecutor(20) as looks:
            pages = [f"/dashboard/{each}" for each in ("", "notifications", "subscriber?email=x")]
            assert [show(server.port, page).status for page in pages] == [200, 200, 404]
            with postgres.frozen():
                began = time.monotonic()
                asked = [looks.submit(show, server.port, page) for page in pages[1:] * 8]
                assert get(server.port, "/healthz").status == 200
                assert time.monotonic() - began < 2
                assert {each.result(20).status for each in asked} == {503}
                assert time.monotonic() - began < 15
            eventually(lambda: show(server.port, pages[1]).status == 200)
        assert "Traceback" not in server.log

    def test_connections(self, command: Command, postgres: Server, postgres_url: str) -> None:
        """However many ask at once, it takes three connections of the database at the most."""
        world.fill(postgres_url)
        with (
            command.serving(HOOKROW_DATABASE_URL=postgres_url) as server,
            ThreadPoolExecutor(16) as threads,
        ):
            posts = [threads.submit(post, server) for _ in range(64)]
            gets = [threads.submit(get, server.port, "/readyz") for _ in range(64)]
            assert {each.result(PATIENCE).status for each in posts + gets} == {200}
            name = make_url(postgres_url).database
            ((count,),) = postgres.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", name
            )
            assert count <= 3


class TestRefusal:
    """What cannot work is refused in one line, with status 1, and no secret in it."""

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            pytest.param(("--secret", ""), "The webhook secret is missing or empty", id="empty"),
            pytest.param(("--secret", "hunter2 and more"), "without spaces", id="space"),
            pytest.param(("--secret", "hunter2-größe"), "visible ASCII", id="beyond ASCII"),
            pytest.param(("--previous-secret", "hunter2 x"), "without spaces", id="previous"),
            pytest.param(("--mount-path", "/a?b"), "write for example /mail", id="mount path"),
            pytest.param(
                ("--database-url", "mysql://ada:hunter2@db/mail"),
                "PostgreSQL and SQLite, not on mysql",
                id="unknown database",
            ),
            pytest.param(("--database-url", "hunter2"), "no database URL", id="no URL"),
            pytest.param(
                ("--database-url", "postgresql://ada:hunter2@db:port/mail"),
                "no database URL",
                id="no port",
            ),
            pytest.param(
                ("--database-url", "postgresql+nosuch://ada:hunter2@db/mail"),
                "write postgresql:// instead",
                id="unknown driver",
            ),
            pytest.param(("--database-url", "sqlite://"), "name a file", id="in memory"),
            pytest.param(
                ("--database-url", "sqlite:////nonexistent/hookrow.db"),
                "unable to open database file",
                id="no folder",
            ),
            pytest.param(
                ("--database-url", "sqlite:////proc/hookrow.db"),
                "unable to open database file",
                id="not writable",
            ),
            pytest.param(("--spool", "/nonexistent/spool"), "cannot be written", id="no spool"),
            pytest.param(("--spool", "hookrow.toml"), "cannot be written", id="another file"),
            pytest.param(("--host", "nowhere.invalid"), "nowhere.invalid", id="unknown host"),
            pytest.param(("--host", "bücher..x"), "it is no address", id="impossible host"),
            pytest.param(("--host", ""), "write 127.0.0.1", id="empty host"),
            pytest.param(
                ("--dashboard", "--host", "0.0.0.0"),
                "set HOOKROW_DASHBOARD_PASSWORD",
                id="open dashboard",
            ),
        ],
    )
    @pytest.mark.usefixtures("_logging_as_before")
    def test_settings(self, command: Command, arguments: tuple[str, ...], says: str) -> None:
        """A setting that cannot work is refused."""
        (command.folder / "hookrow.toml").write_text("log_level = 'info'" + 99 * "\n")
        done = command.call("serve", *arguments, HOOKROW_SECRET=SECRET, HOOKROW_PORT="1")
        _assert_refused(done, says)

    def test_no_secret(self, command: Command) -> None:
        """Without a secret nothing is served; the line says how to come by one."""
        _assert_refused(command.run("serve"), "python -c 'import secrets;")

    @pytest.mark.usefixtures("_logging_as_before")
    def test_no_tables(self, command: Command, empty_postgres_url: str) -> None:
        """On PostgreSQL our tables are not made by themselves: the command that does is named."""
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": empty_postgres_url}
        _assert_refused(command.call("serve", **variables), "Run: hookrow db upgrade")

    def test_process(self, command: Command, sqlite_url: str) -> None:
        """To a process it is all the same: a line, the status, and no traceback."""
        (command.folder / "hookrow.toml").write_text("[tables.subscribers]\ntable = 'people'")
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": sqlite_url}
        _assert_refused(command.run("serve", **variables), "no table 'people'")

    def test_port_in_use(self, command: Command) -> None:
        """A port at which somebody else listens is refused, and named."""
        with command.serving() as server:
            for workers in (1, 2):
                arguments = ("--port", server.port, "--workers", workers)
                done = command.run("serve", *arguments, HOOKROW_SECRET=SECRET)
                _assert_refused(done, str(server.port))
            assert server.lives

    @pytest.mark.usefixtures("_logging_as_before")
    def test_another_revision(self, command: Command, postgres: Server, postgres_url: str) -> None:
        """Tables that are at another revision are refused on PostgreSQL."""
        statement = "UPDATE hookrow_version SET version_num = '9999' WHERE version_num = '0001'"
        postgres.execute(statement, url=postgres_url)
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": postgres_url}
        _assert_refused(command.call("serve", **variables), "9999")

    @pytest.mark.usefixtures("_logging_as_before")
    def test_newer_file(self, command: Command, sqlite_url: str) -> None:
        """A file that a newer hookrow made is refused, not upgraded."""
        with closing(sqlite3.connect(make_url(sqlite_url).database or "")) as database:
            database.execute(
                "UPDATE hookrow_version SET version_num = '9999' WHERE version_num = '0001'"
            )
            database.commit()
        variables = {"HOOKROW_SECRET": SECRET, "HOOKROW_DATABASE_URL": sqlite_url}
        _assert_refused(command.call("serve", **variables), "9999")


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """Let a process stand still."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _assert_refused(done: subprocess.CompletedProcess[str], says: str) -> None:
    assert REFUSAL.fullmatch(done.stderr), done.stderr
    assert says in done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert "hunter2" not in done.stderr
    assert SECRET not in done.stderr
